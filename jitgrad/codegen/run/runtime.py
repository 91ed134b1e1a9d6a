"""The run-time library: the functions that kernels call, compiled once for a machine and kept in the disk cache."""

import ctypes
import json
import os
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jitgrad import kernels, random
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.program import layout
from jitgrad.codegen.run import blocks, store, threads
from jitgrad.kernels import builtins


def key(*what: str) -> str:
    """The key in the disk cache of the library, or of `what` else is made of the same package.

    It holds the source of the package that writes the text: making the text costs more than loading the object.
    """
    here = Path(__file__).parent
    files = [Path(__file__), *[Path(str(m.__file__)) for m in (engine, layout, random)],
             here / "helpers.py", *[here / "on_arrays" / name for name in (
                 "elementwise.py", "gathers.py", "loops.py", "orders.py", "scans.py")],
             *sorted(Path(kernels.__path__[0]).rglob("*.py"))]
    sources = [file.read_bytes() for file in files]
    return store.key_of(*(what or ("runtime",)), engine.version(), engine.host().identity, *sources)


@lru_cache(maxsize=1)
def made_by() -> str:
    """What every entry in the disk cache depends on that holds compiled graphs: this package's own files, Python, LLVM
    and the processor.
    """
    files: list[tuple[str, int, int]] = []
    folders = [os.path.dirname(os.path.dirname(os.path.dirname(__file__)))]
    while folders:
        with os.scandir(folders.pop()) as found:
            for entry in found:
                if entry.name.endswith((".py", ".txt")):
                    status = entry.stat()
                    files.append((entry.path, status.st_size, status.st_mtime_ns))
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return json.dumps([sorted(files), sys.version, engine.host().identity])


def compiled() -> tuple[bytes, list[str]]:
    """The library's object and the names in it, from the disk cache if there."""
    def make() -> bytes:
        from jitgrad.codegen.run import helpers  # seldom needed: the texts are large
        from jitgrad.kernels import blocks as native_blocks, modes, pool, products, runtime, transposes
        from jitgrad.kernels.tiled import gemm

        machine = engine.host()
        vectors = machine.vector_bytes, machine.has_fma, machine.has_avx512
        text, exports = runtime.module_text(*vectors)
        thread_modes = modes.library(machine.triple)
        libraries = (helpers.LIBRARY, native_blocks.LIBRARY, builtins.LIBRARY, thread_modes, pool.LIBRARY,
                     products.LIBRARY, transposes.LIBRARY)
        names = [*exports, *[name for library in libraries for name in library.exports], *gemm.EXPORTS]
        texts = [text, helpers.LIBRARY.text(), native_blocks.text(), builtins.LIBRARY.text(), thread_modes.text(),
                 pool.text(machine.triple), products.text(), transposes.LIBRARY.text(), gemm.text(*vectors)]
        return ",".join(names).encode() + b"\n" + engine.compile_module(_joined(texts))

    names, _, code = store.kept(key(), make).partition(b"\n")
    return code, names.decode().split(",")


def _joined(texts: list[str]) -> str:
    """Texts as one, with one declaration of what several need and none defines."""
    lines = "\n".join(texts).split("\n")
    defined = {_NAME.findall(line)[0] for line in lines if line.startswith("define ")}
    declared = {_NAME.findall(line)[0]: line for line in lines if line.startswith("declare ")}
    return "\n".join([*[line for name, line in declared.items() if name not in defined],
                      *[line for line in lines if not line.startswith("declare ")]])


_NAME = re.compile(r"@([\w.]+)")


class _Method(ctypes.Structure):
    """`PyMethodDef`: what a built-in function of Python is."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("text", ctypes.c_char_p))


#: the flag of functions that take their arguments where they lie
_FASTCALL = 0x80
_new_builtin = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi))


@lru_cache(maxsize=1)
def _loaded() -> tuple[engine.Loaded, dict[str, int], dict[str, _Method]]:
    code, names = compiled()
    python = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch", *builtins.PYTHON)
    addresses = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in python}
    loaded = engine.load(code, addresses, names)
    found = {name: loaded.address(name) for name in names}
    threads.manage(found)
    blocks.manage(found, loaded)
    methods = {name: _Method(name.encode(), found[name], _FASTCALL) for name in builtins.LIBRARY.exports}
    for method in methods.values():  # immortal: functions that have one look at it when they go, at the very end too
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return loaded, found, methods


def symbols() -> dict[str, int]:
    """The functions' addresses by name; compiles the library on first use."""
    return _found()[1]


def builtin(name: str, own: int, owner: Any) -> Callable[..., Any]:
    """A function of `kernels/builtins.py` with an address of its own, and with what is there, which it keeps alive."""
    method = _found()[2][name]
    function: Callable[..., Any] = _new_builtin(ctypes.addressof(method), own, owner)  # as if of a module
    return function


def _found() -> tuple[engine.Loaded, dict[str, int], dict[str, _Method]]:
    """What is loaded. Whoever finds it there does not wait for a thread that compiles."""
    if not _loaded.cache_info().currsize:
        with engine.lock:
            _loaded()
    return _loaded()
