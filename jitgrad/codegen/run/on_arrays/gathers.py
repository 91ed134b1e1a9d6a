"""Elements at indices along an axis of NumPy's arrays, and whether indices are in range, as native loops.

    gathered(x, i, 1)                 # None: NumPy is to do it, or says what is wrong
    within(i, 5)                      # whether all of i are in [0, 5)
"""

from functools import partial
from typing import Any

import numpy as np

from jitgrad.codegen.run.on_arrays.loops import Loop, in_order, lines, loop, remembered
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V

_INT64 = np.dtype(np.int64)
#: bytes of elements that are moved as they are
_SIZES = (1, 2, 4, 8)
#: indices that are looked at together
LANES = 16


def gathered(x: Any, i: Any, axis: int) -> Any:
    """x at index i along an axis, of the sizes of x but for that axis."""
    if i.dtype is not _INT64 or x.dtype.itemsize not in _SIZES or x.ndim != i.ndim:
        return None
    shape, sizes = i.shape, x.shape
    if shape[:axis] != sizes[:axis] or shape[axis + 1:] != sizes[axis + 1:]:
        return None
    run = _gather(8 * x.dtype.itemsize)
    if run is None:
        return None
    result = np.empty(shape, x.dtype)
    outer, m, inner = lines(shape, axis)
    return None if run(result, in_order(x), in_order(i), outer, sizes[axis], m, inner) else result


def within(i: Any, n: int) -> Any:
    """Whether all int64 indices, in order in memory, are in [0, n); None: NumPy is to say so."""
    run = _within()
    return None if run is None else run(i, i.size, n) == 0


@remembered
def _gather(bits: int) -> Loop:
    return loop(partial(_write_gather, f"i{bits}"), 7, "gathers", str(bits))


@remembered
def _within() -> Loop:
    return loop(_write_within, 3, "within")


def _write_gather(elem: str, f: Native, to: V, source: V, index: V, outer: V, n: V, m: V, inner: V) -> V:
    """1 where an index is out of range."""
    beyond = f.variable(f.number(0, "i1"))

    def taken(at: V, first: V, step: V) -> None:
        """The element to which index number `at` leads, of those from `first` on."""
        k = f.load(index, at)
        good = k.compare("ult", n)
        beyond.value = beyond.value | ~good
        f.store(f.load(source, first + good.where(k, 0) * step, elem), to, at)

    with f.when(inner.eq(1)):
        with f.each(outer) as o, f.each(m) as k:
            taken(o * m + k, o * n, f.number(1))
        f.leave(beyond.value.cast("zext", "i64"))
    with f.each(outer) as o, f.each(m) as k, f.each(inner) as r:
        taken((o * m + k) * inner + r, o * n * inner + r, inner)
    return beyond.value.cast("zext", "i64")


def _write_within(f: Native, index: V, count: V, n: V) -> V:
    """1 where one is not."""
    many, one = [f.variable(f.const(0, "i64", lanes)) for lanes in (LANES, 1)]

    def larger(a: V, b: V) -> V:
        return a.compare("ugt", b).where(a, b)

    whole = count.op("udiv", LANES)
    with f.each(whole) as k:
        many.value = larger(many.value, f.read("i64", f.at(index, k * LANES).name, LANES, 8))
    with f.each(count - whole * LANES) as k:
        one.value = larger(one.value, f.load(index, whole * LANES + k))
    largest = f.call(f"llvm.vector.reduce.umax.v{LANES}i64", "i64", 1, many.value)
    return larger(largest, one.value).compare("uge", n).cast("zext", "i64")
