"""Functions that NumPy lacks, on its arrays: what kernels call (`kernels/math/math64_special.py`), in a loop.

A loop is compiled on first use and kept in the disk cache. Of a float type that is neither float32 nor float64 the
result is float64's, rounded.
"""

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime, store

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
    with engine.lock:
        code = store.kept(runtime.key("elementwise", name, elem, str(order)),
                          lambda: engine.compile_module(_text(engine.host(), name, elem, order)))
        loaded = engine.load(code, {})
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return loaded, prototype(loaded.address("jg_loop"))


def _text(machine: engine.Host, name: str, elem: str, order: int) -> str:
    from jitgrad.kernels.math.math64_special import polygamma  # only where the loop is not on disk
    from jitgrad.kernels.native import Native
    from jitgrad.kernels.runtime import on_lanes
    from jitgrad.kernels.values import V

    f = Native(machine.has_fma, machine.has_avx512)
    to, source, count = V(f, "%to", "ptr", 1), V(f, "%source", "ptr", 1), V(f, "%count", "i64", 1)
    size = 4 if elem == "float" else 8
    bits = (machine.vector_bytes // size).bit_length() - 1
    function = partial(polygamma, n=order) if name == "polygamma" else on_lanes(name, elem)

    def each(first: V, times: V, lanes: int) -> None:
        with f.each(times) as k:
            at = first + k.shl(bits if lanes > 1 else 0)
            kind = V(f, "", elem, lanes).type
            result = function(f.emit(f"load {kind}, ptr {f.at(source, at, elem).name}, align {size}", elem, lanes))
            f.line(f"store {kind} {result.name}, ptr {f.at(to, at, elem).name}, align {size}")

    whole = count.lshr(bits)
    each(f.number(0), whole, 1 << bits)
    each(whole.shl(bits), count - whole.shl(bits), 1)
    f.leave()
    text = f.defined("void @jg_loop", ["ptr %to", "ptr %source", "i64 %count"])
    return "\n".join([*f.declares.values(), *text])
