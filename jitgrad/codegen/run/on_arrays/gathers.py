"""Elements at indices along an axis of NumPy's arrays, and whether indices are in range, as native loops.

    gathered(x, i, 1)                 # None: NumPy is to do it, or says what is wrong
    scattered(x, i, y, 1, "add")      # x with y added, or "put", at index i along an axis; None: likewise
    within(i, 5)                      # whether all of i are in [0, 5)
"""

from functools import partial
from typing import Any

import numpy as np

from jitgrad.codegen.run.on_arrays.loops import IN_ORDER, Loop, in_order, lines, loop, remembered
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import V

_INT64 = np.dtype(np.int64)
#: by bytes LLVM's type of elements that are moved as they are; by the type of NumPy's that of those that are added
_MOVED = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
_ADDED = {np.dtype(d).char: elem for d, elem in (("f4", "float"), ("f8", "double"), ("i4", "i32"), ("i8", "i64"))}
#: indices that are looked at together
LANES = 16


def gathered(x: Any, i: Any, axis: int) -> Any:
    """x at index i along an axis, of the sizes of x but for that axis."""
    run = _loop(x, i, axis, "take")
    if run is None:
        return None
    if x.flags.num & i.flags.num & IN_ORDER != IN_ORDER:
        x, i = in_order(x), in_order(i)
    shape = i.shape
    result = np.empty(shape, x.dtype)
    outer, m, inner = lines(shape, axis)
    return None if run(result, x, i, outer, x.shape[axis], m, inner) else result


def scattered(x: Any, i: Any, y: Any, axis: int, way: str) -> Any:
    """x, of the sizes of i but for an axis, with y, of i's sizes, `way` ("put" or "add") there: one after another."""
    run = _loop(x, i, axis, way) if y.dtype is x.dtype and y.shape == i.shape else None
    if run is None:
        return None
    result = x.copy()
    outer, m, inner = lines(i.shape, axis)
    return None if run(in_order(y), result, in_order(i), outer, x.shape[axis], m, inner) else result


def _loop(x: Any, i: Any, axis: int, way: str) -> Loop | None:
    """The loop over x's elements at i; None where the sizes or the types are others."""
    shape, sizes = i.shape, x.shape
    if i.dtype is not _INT64 or len(shape) != len(sizes) or (
            shape != sizes and (shape[:axis] != sizes[:axis] or shape[axis + 1:] != sizes[axis + 1:])):
        return None
    elem = _ADDED.get(x.dtype.char) if way == "add" else _MOVED.get(x.dtype.itemsize)
    return None if elem is None else _made(way, elem)


def within(i: Any, n: int) -> Any:
    """Whether all int64 indices, in order in memory, are in [0, n); None: NumPy is to say so."""
    run = _within()
    return None if run is None else run(i, i.size, n) == 0


@remembered
def _made(way: str, elem: str) -> Loop:
    return loop(partial(_write, way, elem), 7, "gathers", way, elem)


@remembered
def _within() -> Loop:
    return loop(_write_within, 3, "within")


def _write(way: str, elem: str, f: Native, small: V, large: V, index: V, outer: V, n: V, m: V, inner: V) -> V:
    """Between arrays of the index's sizes and of others along the axis; 1 where an index is out of range."""
    beyond = f.variable(f.number(0, "i1"))

    def move(at: V, first: V, step: V) -> None:
        """Between element number `at` of the small one, and where its index leads, of those from `first` on."""
        k = f.load(index, at)
        good = k.compare("ult", n)
        beyond.value = beyond.value | ~good
        there = first + good.where(k, 0) * step
        if way == "take":
            f.store(f.load(large, there, elem), small, at)
            return
        with f.when(good):
            x = f.load(small, at, elem)
            f.store(f.load(large, there, elem) + x if way == "add" else x, large, there)

    with f.when(inner.eq(1)):
        with f.each(outer) as o, f.each(m) as k:
            move(o * m + k, o * n, f.number(1))
        f.leave(beyond.value.cast("zext", "i64"))
    with f.each(outer) as o, f.each(m) as k, f.each(inner) as r:
        move((o * m + k) * inner + r, o * n * inner + r, inner)
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
