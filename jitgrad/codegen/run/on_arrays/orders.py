"""The first elements in order along a short axis of NumPy's arrays, and where they are, as a native loop.

    ordered(x, 1, 0, 3)                     # (values, places) of the three smallest; None: NumPy is to find them
    ordered(x, 1, 0, 3, descending=True)    # of the three largest

An element's rank is how many come before it: smaller ones, and equal ones to its left. It is counted for the lanes of a
vector at once, without a branch, which for short lines takes less time than sorting. NaN counts as the largest value.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from jitgrad.codegen.run.on_arrays.loops import Loop, in_order, lines, loop, remembered
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import BITS, SAME_SIZE_INT, V, iota, type_text

_ELEMENTS = {np.dtype(d).char: elem for d, elem in (("f4", "float"), ("f8", "double"), ("i4", "i32"), ("i8", "i64"))}
#: elements at most of a line
LONGEST = 128
#: bits of what is compared at a time
WIDTH = 512


def ordered(x: Any, axis: int, first: int, count: int, descending: bool = False, spoiled: bool = False) -> Any:
    """`count` elements from number `first` on, and their places, int64; `spoiled`: the first NaN of a line with one."""
    elem = _ELEMENTS.get(x.dtype.char)
    if elem is None or not x.ndim or not x.shape[axis] <= LONGEST:
        return None
    run = _loop(elem)
    if run is None:
        return None
    shape = (*x.shape[:axis], count, *x.shape[axis + 1:])
    values, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    run(values, places, in_order(x), *lines(x.shape, axis), first, count, -descending, int(spoiled))
    return values, places


@remembered
def _loop(elem: str) -> Loop:
    return loop(partial(_write, elem), 10, "orders", elem)


def _write(elem: str, f: Native, values: V, places: V, source: V, outer: V, n: V, inner: V, first: V, count: V,
           turned: V, spoiled: V) -> None:
    """`turned`: 0, or -1, which turns the order of keys around."""
    kind = SAME_SIZE_INT.get(elem, elem)
    lanes = WIDTH // BITS[kind]
    vector = type_text(kind, lanes)  # so that none lies in two lines of the cache
    keys, ranks, order = f.room(LONGEST // lanes, vector), f.room(1, vector), f.room(LONGEST)
    flip, blocks = _narrow(turned, kind), (n + (lanes - 1)).op("udiv", lanes)
    with f.each(outer) as o, f.each(inner) as r:
        start, found = o * n * inner + r, o * count * inner + r
        nans, wanted = f.variable(f.number(0)), f.variable(first)
        with f.each(n) as k:
            key, is_nan = _key(f.load(source, start + k * inner, elem))
            nans.value = nans.value + is_nan
            f.store(key ^ flip, keys, k)
        with f.when(spoiled.ne(0) & nans.value.ne(0)):
            wanted.value = n - nans.value
        with f.each(blocks) as block:
            begin = block * lanes
            here = (n - begin < lanes).where(n - begin, lanes)
            f.write(_ranks(f, keys, n, begin, here, kind, lanes), ranks.name)
            with f.each(here) as lane:
                rank = f.load(ranks, lane, kind)
                f.store(begin + lane, order, rank if kind == "i64" else rank.cast("sext", "i64"))
        with f.each(count) as k:
            place, to = f.load(order, wanted.value + k), found + k * inner
            f.store(place, places, to)
            f.store(f.load(source, start + place * inner, elem), values, to)


def _narrow(x: V, kind: str) -> V:
    return x if kind == "i64" else x.cast("trunc", kind)


def _key(x: V) -> tuple[V, V]:
    """An integer that is in order where x is, and 1 for NaN: the bits of negative numbers are so from behind."""
    if not x.is_float:
        return x, x.code.const(0, "i64", 1)
    is_nan, last = x.isnan(), BITS[SAME_SIZE_INT[x.elem]] - 1
    bits = x.eq(0).where(0.0, x).bits()
    return is_nan.where((1 << last) - 1, bits ^ bits.ashr(last).lshr(1)), is_nan.cast("zext", "i64")


def _ranks(f: Native, keys: V, n: V, begin: V, here: V, kind: str, lanes: int) -> V:
    """How many elements come before each of those in the lanes from `begin` on, of which `here` are there."""
    mine, rank = f.read(kind, f.at(keys, begin, kind).name, lanes), f.variable(f.const(0, kind, lanes))

    def count(first: V, times: V, comes_before: Callable[[V, V], V]) -> None:
        with f.each(times) as k:
            before = comes_before(f.load(keys, first + k, kind).splat(lanes), _narrow(k, kind).splat(lanes))
            rank.value = rank.value + before.cast("zext", kind)

    count(f.number(0), begin, lambda other, k: other <= mine)
    count(begin, here, lambda other, k: (other < mine) | (other.eq(mine) & (iota(f, kind, lanes) > k)))
    count(begin + here, n - begin - here, lambda other, k: other < mine)
    return rank.value
