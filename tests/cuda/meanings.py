"""What the element-wise kernels compute, as functions of NumPy arrays by the kernels' names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad import dtypes, random
from jitgrad.cuda import elementwise
from jitgrad.dtypes import dtype
from jitgrad.eager.arrays.library import HOST
from jitgrad.ops.opdef import OpDef

_ROWS: dict[str, Callable[..., Any]] = {}
_kernel = elementwise.kernel


def _noted(op: OpDef, operands: Sequence[dtype], attrs: dict[str, Any]) -> elementwise.Elementwise:
    """The kernel of a row, of which is noted what it computes: its text does not say."""
    made = _kernel(op, operands, attrs)

    def meaning(*arrays: Any) -> Any:
        arrays = tuple(a.view(d.np) if d.is_half else a for a, d in zip(arrays, operands, strict=True))
        y = np.asarray(getattr(HOST.F, op.name)(*arrays, **attrs))
        return y.view(np.uint16) if y.dtype.char in dtypes.HALF_CHARS else y

    _ROWS[made.name] = meaning
    return made


elementwise.kernel = _noted  # type: ignore[assignment]


def meaning(name: str) -> Callable[..., Any]:
    """What a kernel of this name computes; one that writes to an array that it is given returns nothing."""
    if name.startswith("jg_draw_"):
        return lambda seed, offset, shape: _drawn(name.removeprefix("jg_draw_"), int(seed), int(offset), shape)
    if name.startswith("jg_in_order_"):
        what, d = name.removeprefix("jg_in_order_").split("_")
        return lambda *given: _in_order(what, dtypes.by_name(d), *given)
    return _out_of_range if name == "jg_range" else _ROWS[name]


def _drawn(name: str, seed: int, offset: int, shape: tuple[int, ...]) -> Any:
    if name == "int64":
        return random.bits(seed, offset, shape)
    return random.uniform(seed, offset, shape, dtypes.by_name(name))


def _out_of_range(x: Any, low: Any, high: Any, number: Any, found: Any) -> None:
    wrong = x[(x < low) | (x >= high)]
    if wrong.size:
        found[:] = number, wrong.flat[0]


def _in_order(what: str, d: dtype, at: Any, count: Any, places: Any, order: Any, x: Any, y: Any) -> None:
    assert (np.diff(places[at]) >= 0).all()
    if what == "put":
        y[places] = x
    else:
        np.add.at(y.view(d.np), places, x.view(d.np))
