"""The run-time library: the functions that kernels call, compiled once for a machine and kept in the disk cache."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from jitgrad import kernels, random
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import store
from jitgrad.ops import special


def key() -> str:
    """The library's key in the disk cache.

    It holds the source of the package that writes its text: making the text costs more than loading the object.
    """
    files = [Path(__file__), Path(engine.__file__), Path(random.__file__), Path(special.__file__),
             *sorted(Path(kernels.__path__[0]).glob("*.py"))]
    sources = [file.read_bytes() for file in files]
    return store.key_of("runtime", engine.version(), engine.host().identity, *sources)


def compiled() -> tuple[bytes, list[str]]:
    """The library's object and the names in it, from the disk cache if there."""
    def make() -> bytes:
        from jitgrad.kernels import runtime  # seldom needed: the texts are large

        machine = engine.host()
        text, exports = runtime.module_text(machine.vector_bytes, machine.has_fma, machine.has_avx512)
        return ",".join(exports).encode() + b"\n" + engine.compile_module(text)

    names, _, code = store.kept(key(), make).partition(b"\n")
    return code, names.decode().split(",")


@lru_cache(maxsize=1)
def _loaded() -> tuple[engine.Loaded, dict[str, int]]:
    code, names = compiled()
    loaded = engine.load(code, {}, names)
    return loaded, {name: loaded.address(name) for name in names}


def symbols() -> dict[str, int]:
    """The functions' addresses by name; compiles the library on first use."""
    with engine.lock:
        return _loaded()[1]
