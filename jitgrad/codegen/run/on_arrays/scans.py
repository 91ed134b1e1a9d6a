"""Running sums and products along an axis of NumPy's arrays, as native loops.

    scanned("cumsum", x, 1)           # None: NumPy is to compute it

One after another, numbers wait for each other: a loop goes over several rows at a time, by lines of memory, or over the
lanes of a vector where the axis is not the last. float32 is added up and multiplied in float64, as PyTorch does. A loop
is compiled on first use and kept in the disk cache.
"""

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from jitgrad.codegen.llvm import engine
from jitgrad.codegen.run import runtime, store
from jitgrad.eager.arrays.blocks import empty

#: by the type of NumPy's elements: LLVM's types of an element and of what is carried from one to the next
_ELEMENTS = {"float32": ("float", "double"), "float64": ("double", "double"), "int64": ("i64", "i64")}
#: how many rows, or lanes, are worked on at a time, as a power of two
ROWS, LANES = 2, 4
SIZE = {"float": 4, "double": 8, "i64": 8}


def scanned(name: str, x: Any, axis: int) -> Any:
    """`name` ("cumsum" or "cumprod") of x along an axis; an axis that x has in reverse is the result's in reverse."""
    elements = _ELEMENTS.get(x.dtype.name)
    if elements is None or not x.size:
        return None
    turned = (slice(None),) * axis + (slice(None, None, -1),)
    reverse = x.strides[axis] < 0
    given = np.ascontiguousarray(x[turned] if reverse else x)
    result = empty(x.shape, x.dtype)
    try:
        run = _loop(name, *elements)[1]
    except (MemoryError, OSError):  # no memory for native code
        return None
    run(result.ctypes.data, given.ctypes.data, math.prod(x.shape[:axis]), x.shape[axis],
        math.prod(x.shape[axis + 1:]), x.shape[axis] - 1 if reverse else 0, -1 if reverse else 1)
    return result[turned] if reverse else result


@cache
def _loop(name: str, elem: str, carried: str) -> tuple[engine.Loaded, Callable[..., None]]:
    """`loop(to, source, outer, n, inner, first, step)`, and what keeps its code."""
    with engine.lock:
        code = store.kept(runtime.key("scans", name, elem),
                          lambda: engine.compile_module(_text(engine.host(), name, elem, carried)))
        loaded = engine.load(code, {})
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 5)
    return loaded, prototype(loaded.address("jg_scan"))


def _text(machine: engine.Host, name: str, elem: str, carried: str) -> str:
    from jitgrad.kernels.native import Native  # only where the loop is not on disk
    from jitgrad.kernels.values import V

    f = Native(machine.has_fma, machine.has_avx512)
    to, source = V(f, "%to", "ptr", 1), V(f, "%source", "ptr", 1)
    outer, n, inner, first, step = (V(f, f"%{p}", "i64", 1) for p in ("outer", "n", "inner", "first", "step"))
    size, whole = SIZE[elem], elem[0] == "i"
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
        f.leave()
    with f.each(outer) as o:
        with f.each(inner.lshr(LANES)) as block:
            along([o * n * inner + block.shl(LANES)], 1 << LANES)
        done = inner & -(1 << LANES)
        with f.each(inner - done) as lane:
            along([o * n * inner + done + lane], 1)
    f.leave()
    text = f.defined("void @jg_scan", ["ptr %to", "ptr %source", *[f"i64 %{p}" for p in (
        "outer", "n", "inner", "first", "step")]])
    return "\n".join([*f.declares.values(), *text])
