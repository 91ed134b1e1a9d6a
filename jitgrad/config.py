"""The knobs: JITGRAD_* environment variables, read once at import; docs/env_vars.md explains them.

A value that a knob cannot take raises ValueError on import; an unknown JITGRAD_* name warns.
"""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

PREFIX = "JITGRAD_"


class _Mode(threading.local):
    """Of a thread: whether scripted functions run as plain Python."""

    eager = False


mode = _Mode()
#: what the tests read, and not this module
TESTS = ("JITGRAD_TEST_", "JITGRAD_REQUIRE_")


def _flag(text: str) -> bool:
    return bool(_level(1)(text))


def _level(highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if text.isdecimal() and int(text) <= highest:
            return int(text)
        raise ValueError(f"a number from 0 to {highest}")

    return parse


def _threads(text: str) -> int:
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise ValueError("a number of threads, at least 1")


def _megabytes(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise ValueError("a number of megabytes")


def _default_cache_dir() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "jitgrad")


@dataclass(frozen=True, slots=True)
class Config:
    """The value of every knob.

    Attributes:
        debug: JITGRAD_DEBUG, how much to tell on stderr, 0 to 6.
        jit: JITGRAD_JIT; False makes decorators run the eager function.
        interpret: JITGRAD_INTERPRET, run graphs by the interpreter.
        verify: JITGRAD_VERIFY, 1: verify graphs between passes, 2: also round-trip the text.
        dump: JITGRAD_DUMP, a folder for graphs and kernels, or "".
        check: JITGRAD_CHECK, as `@script(check=True)` for every scripted function.
        cache: JITGRAD_CACHE, the folder of the disk cache, or "" for none.
        num_threads: JITGRAD_NUM_THREADS, of compiled functions and eager products; 0: see `get_num_threads`.
        kept_memory: JITGRAD_KEPT_MEMORY, megabytes kept of arrays that are gone; -1: see `codegen/run/blocks.py`.
        debug_arena: JITGRAD_DEBUG_ARENA, fill memory of GPU programs with NaNs while it holds nothing.
    """

    debug: int = 0
    jit: bool = True
    interpret: bool = False
    verify: int = 0
    dump: str = ""
    check: bool = False
    cache: str = ""
    num_threads: int = 0
    kept_memory: int = -1
    debug_arena: bool = False


_PARSERS: dict[str, Callable[[str], bool | int | str]] = {
    "debug": _level(6), "jit": _flag, "interpret": _flag, "verify": _level(2),
    "dump": os.path.expanduser, "check": _flag, "num_threads": _threads, "debug_arena": _flag,
    "kept_memory": _megabytes,
    "cache": lambda text: "" if text.lower() in ("off", "0", "") else os.path.expanduser(text),
}

#: every variable's name
VARIABLES = tuple(PREFIX + name.upper() for name in _PARSERS)


def read(environ: Mapping[str, str]) -> Config:
    """The configuration that `environ` asks for. Raises ValueError; warns about unknown JITGRAD_* names."""
    values: dict[str, bool | int | str] = {"cache": _default_cache_dir()}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(TESTS):
            continue
        parse = _PARSERS.get(variable[len(PREFIX) :].lower()) if variable.isupper() else None
        if parse is None:
            warnings.warn(f"unknown environment variable {variable}; the known ones are {', '.join(VARIABLES)}",
                          stacklevel=2)
            continue
        try:
            values[variable[len(PREFIX) :].lower()] = parse(text)
        except ValueError as error:
            raise ValueError(f"{variable}={text}: expected {error}") from None
    return Config(**values)  # type: ignore[arg-type]


_current = read(os.environ)


def current() -> Config:
    """The configuration in force."""
    return _current


def __getattr__(name: str) -> bool | int | str:
    """`config.debug` and so on: the knob's value now."""
    if name in _PARSERS:
        value: bool | int | str = getattr(_current, name)
        return value
    raise AttributeError(f"module `jitgrad.config` has no attribute `{name}`")


@contextmanager
def override(**knobs: bool | int | str) -> Iterator[Config]:
    """Other values inside a `with` block, for example `override(debug=4)`. TypeError for an unknown knob."""
    global _current
    before = _current
    known = {f.name for f in fields(Config)}
    for name in knobs:
        if name not in known:
            raise TypeError(f"`{name}` is not a knob; the knobs are {', '.join(sorted(known))}")
    _current = replace(before, **knobs)  # type: ignore[arg-type]
    try:
        yield _current
    finally:
        _current = before


def log(level: int, text: str) -> None:
    """Write a line to stderr if JITGRAD_DEBUG is at least `level`."""
    if _current.debug >= level:
        sys.stderr.write(f"jitgrad: {text}\n")
