"""Functions that NumPy lacks, on its arrays: what kernels call (`kernels/math64_special.py`), in a loop.

A loop is compiled on first use and kept in the disk cache. Of a float type that is neither float32 nor float64 the
result is float64's, rounded.
"""

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad import kernels
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import store
from jitgrad.kernels import math32, math64_special  # noqa: F401  (math32 enters its functions)
from jitgrad.kernels.functions import unary32, unary64
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V

_ELEMENTS = {"float32": "float", "float64": "double"}


def computed(name: str, x: Any, order: int = 0) -> Any:
    """A function of every element; `order`: of `polygamma`, of which that is the first argument."""
    if name == "polygamma" and order == 0:
        name = "digamma"
    kept = x.dtype.name in _ELEMENTS and name != "polygamma"
    given = np.ascontiguousarray(x, x.dtype if kept else np.float64)
    result = np.empty(x.shape, given.dtype)
    _loop(name, _ELEMENTS[given.dtype.name], order)[1](result.ctypes.data, given.ctypes.data, given.size)
    with np.errstate(over="ignore"):
        return result.astype(x.dtype, copy=False)


@lru_cache(maxsize=64)
def _loop(name: str, elem: str, order: int) -> tuple[engine.Loaded, Callable[[int, int, int], None]]:
    """`loop(to, source, count)`, and what keeps its code."""
    machine = engine.host()
    sources = [file.read_bytes() for file in (Path(__file__), *sorted(Path(kernels.__path__[0]).glob("*.py")))]
    key = store.key_of("elementwise", engine.version(), machine.identity, name, elem, str(order), *sources)
    with engine.lock:
        code = store.kept(key, lambda: engine.compile_module(_text(machine, name, elem, order)))
        loaded = engine.load(code, {})
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return loaded, prototype(loaded.address("jg_loop"))


def _text(machine: engine.Host, name: str, elem: str, order: int) -> str:
    f = Native(machine.has_fma, machine.has_avx512)
    to, source, count = V(f, "%to", "ptr", 1), V(f, "%source", "ptr", 1), V(f, "%count", "i64", 1)
    bits = (machine.vector_bytes // (4 if elem == "float" else 8)).bit_length() - 1

    def function(x: V) -> V:
        if name == "polygamma":
            return math64_special.polygamma(x, order)
        if elem == "double" or name in unary32:
            return (unary64 if elem == "double" else unary32)[name](x)
        return unary64[name](x.cast("fpext", "double")).cast("fptrunc", "float")

    def each(first: V, times: V, lanes: int) -> None:
        aligned = f"align {4 if elem == 'float' else 8}"
        with f.each(times) as k:
            place = partial(f.at, index=first + k.shl(bits if lanes > 1 else 0), elem=elem)
            kind = V(f, "", elem, lanes).type
            result = function(f.emit(f"load {kind}, ptr {place(source).name}, {aligned}", elem, lanes))
            f.line(f"store {kind} {result.name}, ptr {place(to).name}, {aligned}")

    whole = count.lshr(bits)
    each(f.number(0), whole, 1 << bits)
    each(whole.shl(bits), count - whole.shl(bits), 1)
    f.leave()
    text = f.defined("void @jg_loop", ["ptr %to", "ptr %source", "i64 %count"])
    return "\n".join([*f.declares.values(), *text])
