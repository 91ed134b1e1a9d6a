"""The first elements in order along a short axis of NumPy's arrays, and where they are, as a native loop.

    ordered(x, 1, 0, 3)                     # (values, places) of the three smallest; None: NumPy is to find them
    ordered(x, 1, 0, 3, descending=True)    # of the three largest

An element's rank is how many come before it: smaller ones, and equal ones to its left. It is counted for the lanes of a
vector at once, without a branch, which for short lines takes less time than sorting. NaN counts as the largest value.
"""

from functools import partial
from typing import Any

import numpy as np

from jitgrad.codegen.run.on_arrays.loops import Loop, in_order, lines, loop, remembered
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import BITS, SAME_SIZE_INT, V, iota

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
    bits = BITS[kind]
    lanes = WIDTH // bits
    keys, ranks = f.room(LONGEST, kind), f.room(lanes, kind)

    def narrow(x: V) -> V:
        return x if x.elem == kind else x.cast("trunc", kind)

    flip, blocks = narrow(turned), (n + (lanes - 1)).op("udiv", lanes)
    with f.each(outer) as o, f.each(inner) as r:
        start, found = o * n * inner + r, (o * count) * inner + r
        nans = f.variable(f.number(0))
        with f.each(n) as k:
            x = f.load(source, start + k * inner, elem)
            if x.is_float:  # the bits of positive numbers are in order, those of negative ones are so from behind
                is_nan = x.isnan()
                nans.value = nans.value + is_nan.cast("zext", "i64")
                given = x.eq(0).where(0.0, x).bits()
                x = is_nan.where((1 << bits - 1) - 1, given ^ given.ashr(bits - 1).lshr(1))
            f.store(x ^ flip, keys, k)
        begin = f.variable(first)
        with f.when(spoiled.ne(0) & nans.value.ne(0)):
            begin.value = n - nans.value
        with f.each(blocks) as block:
            mine = f.read(kind, f.at(keys, block * lanes, kind).name, lanes, bits // 8)
            numbers = iota(f, kind, lanes) + narrow(block * lanes).splat(lanes)
            rank = f.variable(f.const(0, kind, lanes))
            with f.each(n) as k:
                other = f.load(keys, k, kind).splat(lanes)
                before = (other < mine) | (other.eq(mine) & (numbers > narrow(k).splat(lanes)))
                rank.value = rank.value + before.cast("zext", kind)
            f.write(rank.value, ranks.name, bits // 8)
            left = n - block * lanes
            with f.each((left < lanes).where(left, lanes)) as lane:
                here = f.load(ranks, lane, kind)
                number = (here if kind == "i64" else here.cast("sext", "i64")) - begin.value
                with f.when(number.compare("ult", count)):
                    place, to = block * lanes + lane, found + number * inner
                    f.store(place, places, to)
                    f.store(f.load(source, start + place * inner, elem), values, to)
