"""Source that is in no file: of `python -c`, of a redirected standard input, typed into an interpreter."""

import functools
import linecache
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress


def texts(file: str) -> Iterator[str]:
    """What may have been compiled under `file`, a name that Python gives to source without a file."""
    if file == "<string>":
        for option, text in zip(sys.orig_argv[1:], sys.orig_argv[2:], strict=False):
            if re.fullmatch("-[a-zA-Z]*c", option):
                yield text + "\n"
    elif file in ("<stdin>", "<console>"):
        with suppress(OSError, ValueError, AttributeError):  # it is closed, no text, on Windows
            found = os.fstat(0)
            if stat.S_ISREG(found.st_mode):
                yield os.pread(0, found.st_size, 0).decode()
        yield from _typed()


def _typed() -> Iterator[str]:
    """The statements that were typed, as `readline` remembers them, the last one first."""
    readline = sys.modules.get("readline")
    if readline is None:
        return
    statement: list[str] = []
    for k in range(readline.get_current_history_length(), 0, -1):
        line = readline.get_history_item(k) or ""
        begun = statement and not statement[0][:1].isspace()
        statement = [line, *(() if begun and line[:1] != "@" else statement)]
        if not line[:1].isspace():
            yield "\n".join(statement) + "\n"


@functools.cache
def keep(file: str, text: str) -> str:
    """A name under which `linecache` has the text from now on."""
    name = f"{file[:-1]} {keep.cache_info().misses}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return name
