"""Running sums and products along an axis of NumPy's arrays, as native loops.

    scanned("cumsum", x, 1)           # None: NumPy is to compute it

One after another, numbers wait for each other: a loop goes over several rows at a time, or over the lanes of a vector
where the axis is not the last. float32 is added up and multiplied in float64, as PyTorch does. A loop is compiled on
first use and kept in the disk cache.
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
ROWS, LANES = 3, 4


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
    whole = elem[0] == "i"
    start = (1 if whole else 1.0) if name == "cumprod" else 0 if whole else -0.0  # which leaves -0.0 as it is

    def along(places: list[V], lanes: int) -> None:
        """Scan from each of the places, and of the lanes there."""
        carry = [f.variable(f.const(start, carried, lanes)) for _ in places]
        with f.each(n) as k:
            at = (first + k * step) * inner
            for c, place in zip(carry, places, strict=True):
                kind = V(f, "", elem, lanes).type
                x = f.emit(f"load {kind}, ptr {f.at(source, place + at, elem).name}, align {SIZE[elem]}", elem, lanes)
                wide = x if elem == carried else x.cast("fpext", carried)
                c.value = c.value * wide if name == "cumprod" else c.value + wide
                y = c.value if elem == carried else c.value.cast("fptrunc", elem)
                f.line(f"store {kind} {y.name}, ptr {f.at(to, place + at, elem).name}, align {SIZE[elem]}")

    with f.when(inner.eq(1)):
        with f.each(outer.lshr(ROWS)) as block:
            along([(block.shl(ROWS) + r) * n for r in range(1 << ROWS)], 1)
        done = outer & -(1 << ROWS)
        with f.each(outer - done) as row:
            along([(done + row) * n], 1)
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


SIZE = {"float": 4, "double": 8, "i64": 8}
