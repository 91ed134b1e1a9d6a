"""Functions that NumPy lacks, on its arrays: what kernels call (`kernels/math/math64_special.py`), in a loop.

Of a float type that is neither float32 nor float64 the result is float64's, rounded.
"""

from functools import lru_cache, partial
from typing import Any

import numpy as np

from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run.on_arrays.loops import Loop, loop
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
    _loop(name, _ELEMENTS[given.dtype.name], order)(result, given, given.size)
    with np.errstate(over="ignore"):
        return result.astype(x.dtype, copy=False)


@lru_cache(maxsize=64)
def _loop(name: str, elem: str, order: int) -> Loop:
    return loop(partial(_write, name, elem, order), 3, "elementwise", name, elem, str(order))


def _write(name: str, elem: str, order: int, f: Native, to: V, source: V, count: V) -> None:
    from jitgrad.kernels.math.math64_special import polygamma  # only where the loop is not on disk
    from jitgrad.kernels.runtime import on_lanes

    size = 4 if elem == "float" else 8
    bits = (engine.host().vector_bytes // size).bit_length() - 1
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
