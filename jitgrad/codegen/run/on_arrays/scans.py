"""Running sums and products along an axis of NumPy's arrays, as native loops.

    scanned("cumsum", x, 1)           # None: NumPy is to compute it

One after another, numbers wait for each other: a loop goes over several rows at a time, by lines of memory, or over the
lanes of a vector where the axis is not the last. float32 is added up and multiplied in float64, as PyTorch does.
"""

from functools import partial
from typing import Any

import numpy as np

from jitgrad.codegen.run.on_arrays.loops import Loop, in_order, lines, loop, remembered
from jitgrad.eager.arrays.arrays import MANY
from jitgrad.eager.arrays.blocks import empty
from jitgrad.kernels.native import Native
from jitgrad.kernels.values import BITS, V

#: by the type of NumPy's elements: LLVM's types of an element and of what is carried from one to the next
_ELEMENTS: dict[str, list[str]] = {np.dtype(d).char: kinds for d, *kinds in (
    ("f4", "float", "double"), ("f8", "double", "double"), ("i8", "i64", "i64"))}
#: how many rows, or lanes, are worked on at a time, as a power of two
ROWS, LANES = 2, 4


def scanned(name: str, x: Any, axis: int) -> Any:
    """`name` ("cumsum" or "cumprod") of x along an axis; an axis that x has in reverse is the result's in reverse."""
    d, size = x.dtype, x.size
    run = _loop(name, d.char) if size and d.char in _ELEMENTS else None
    if run is None:
        return None
    turned = None
    if x.strides[axis] < 0:
        turned = (slice(None),) * axis + (slice(None, None, -1),)
        x = x[turned]
    result = (empty if size >= MANY else np.empty)(x.shape, d)
    outer, n, inner = lines(x.shape, axis)
    first, step = (0, 1) if turned is None else (n - 1, -1)
    run(result, in_order(x), outer, n, inner, first, step)
    return result if turned is None else result[turned]


@remembered
def _loop(name: str, char: str) -> Loop:
    elem, carried = _ELEMENTS[char]
    return loop(partial(_write, name, elem, carried), 7, "scans", name, elem)


def _write(name: str, elem: str, carried: str, f: Native, to: V, source: V, outer: V, n: V, inner: V, first: V,
           step: V) -> None:
    size, whole = BITS[elem] // 8, elem[0] == "i"
    start = (1 if whole else 1.0) if name == "cumprod" else 0 if whole else -0.0  # which leaves -0.0 as it is

    def load(at: V, lanes: int) -> V:
        x = f.read(elem, f.at(source, at, elem).name, lanes, size)
        return x if elem == carried else x.cast("fpext", carried)

    def store(y: V, at: V) -> None:
        f.write(y if elem == carried else y.cast("fptrunc", elem), f.at(to, at, elem).name, size)

    def joined(c: V, x: V) -> V:
        return c * x if name == "cumprod" else c + x

    def along(places: list[V], lanes: int) -> None:
        """From each of the places, and of the lanes there, one element after another."""
        carry = [f.variable(f.const(start, carried, lanes)) for _ in places]
        with f.each(n) as k:
            at = (first + k * step) * inner
            for c, place in zip(carry, places, strict=True):
                c.value = joined(c.value, load(place + at, lanes))
                store(c.value, place + at)

    def rows(row: V, count: int, backwards: bool) -> None:
        """Rows by so many elements that a line of memory is read once and written once: all rows of a matrix may share
        few lines of the cache."""
        lanes = 1 << LANES
        places = [(row + r) * n for r in range(count)]
        carry = [f.variable(f.const(start, carried, 1)) for _ in places]
        whole = n.lshr(LANES)
        with f.each(whole) as k:
            at = n - (k + 1).shl(LANES) if backwards else k.shl(LANES)
            given = [load(place + at, lanes) for place in places]
            found = list(given)
            for lane in reversed(range(lanes)) if backwards else range(lanes):
                for r, c in enumerate(carry):
                    c.value = joined(c.value, given[r].lane(lane))
                    found[r] = found[r].with_lane(f.number(lane), c.value)
            for y, place in zip(found, places, strict=True):
                store(y, place + at)
        done = whole.shl(LANES)
        with f.each(n - done) as k:
            at = n - done - 1 - k if backwards else done + k
            for c, place in zip(carry, places, strict=True):
                c.value = joined(c.value, load(place + at, 1))
                store(c.value, place + at)

    with f.when(inner.eq(1)):
        for backwards in (False, True):
            with f.when((step < 0) if backwards else (step > 0)):
                with f.each(outer.lshr(ROWS)) as block:
                    rows(block.shl(ROWS), 1 << ROWS, backwards)
                done = outer & -(1 << ROWS)
                with f.each(outer - done) as row:
                    rows(done + row, 1, backwards)
        f.leave(f.number(0))
    with f.each(outer) as o:
        with f.each(inner.lshr(LANES)) as block:
            along([o * n * inner + block.shl(LANES)], 1 << LANES)
        done = inner & -(1 << LANES)
        with f.each(inner - done) as lane:
            along([o * n * inner + done + lane], 1)
