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
        whole, wanted = inner.eq(1).where(n & -lanes, 0), f.variable(first)
        with f.each(whole.op("udiv", lanes)) as block:
            x = f.read(elem, f.at(source, start + block * lanes, elem).name, lanes, BITS[kind] // 8)
            f.write(_key(x) ^ flip.splat(lanes), f.at(keys, block * lanes, kind).name)
        with f.each(n - whole) as k:
            f.store(_key(f.load(source, start + (whole + k) * inner, elem)) ^ flip, keys, whole + k)
        with f.when(spoiled.ne(0)):
            numbers = f.variable(f.number(0))
            with f.each(n) as k:
                numbers.value = numbers.value + f.load(keys, k, kind).ne(_last(kind)).cast("zext", "i64")
            with f.when(numbers.value < n):
                wanted.value = numbers.value
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


def _last(kind: str) -> int:
    """The largest key, that of NaN."""
    return (1 << BITS[kind] - 1) - 1


def _key(x: V) -> V:
    """An integer that is in order where x is: the bits of negative numbers are so from behind."""
    if not x.is_float:
        return x
    bits = x.eq(0).where(0.0, x).bits()
    return x.isnan().where(_last(bits.elem), bits ^ bits.ashr(BITS[bits.elem] - 1).lshr(1))


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
