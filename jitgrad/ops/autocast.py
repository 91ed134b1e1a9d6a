"""Mixed precision: which operands the library casts where autocast is on, a state of the thread.

The functions that torch lists for the CPU ask here first. `lower` is for products (matmul, linear, convolutions,
attention): floating-point operands take the dtype of the region. `widen` is for what loses too much in half precision
(losses, products of many elements, inverses): they become float32. float64 and integers stay as they are; an operand's
gradient has its own dtype, because a cast has a derivative. Functions on neither list take what they are given, and
promote as always; in-place ones (`addmm_`) are never listed.

Source: PyTorch, aten/src/ATen/autocast_mode.cpp, the lists for the CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from jitgrad import dtypes
from jitgrad.dtypes import dtype
from jitgrad.ops.backend import AnyTensor, backend
from jitgrad.ops.opdef import OPS

#: where a region may be, and what it takes without a dtype
DEFAULTS = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
#: the dtypes of regions
LOW = (dtypes.bfloat16, dtypes.float16)

State = tuple[dtype | None, dtype, dtype, bool]


class _Mode(threading.local):
    low: dtype | None = None
    cpu = DEFAULTS["cpu"]
    cuda = DEFAULTS["cuda"]
    cache = True


#: `mode.low`: the dtype that products take, None where autocast is off; `cpu`, `cuda`: the dtype of a region, on or
#: off; `cache`: what torch's `cache_enabled` says (here casts are made anew, and a script makes equal ones once)
mode = _Mode()


def state() -> State:
    """All of the mode, for `restore`."""
    return mode.low, mode.cpu, mode.cuda, mode.cache


def restore(before: State) -> None:
    """Put back what `state` gave."""
    mode.low, mode.cpu, mode.cuda, mode.cache = before


def enter(device: str, d: dtype, enabled: bool, cache: bool) -> None:
    """What the beginning of a region does. Only the CPU's regions cast: there is no other device."""
    if device == "cpu":
        mode.cpu = d
        mode.low = d if enabled else None
    else:
        mode.cuda = d
    mode.cache = cache


@contextmanager
def using(d: dtype | None) -> Iterator[None]:
    """Casts to `d` inside, none at all for None."""
    before = state()
    mode.low = d
    if d is not None:
        mode.cpu = d
    try:
        yield
    finally:
        restore(before)


def suspended() -> AbstractContextManager[None]:
    """No casts inside."""
    return using(None)


def lower(x: Any) -> Any:
    """An operand of a product: a floating-point tensor but float64 in the region's dtype, all else as it is."""
    d = mode.low
    return x if d is None else _cast(x, d)


def widen(x: Any) -> Any:
    """An operand of what is computed in float32 where autocast is on."""
    return x if mode.low is None else _cast(x, dtypes.float32)


def _cast(x: Any, d: dtype) -> Any:
    if not isinstance(x, AnyTensor):
        return x
    own: dtype = x.dtype  # type: ignore[attr-defined]
    if own is d or not own.is_floating_point or own is dtypes.float64:
        return x
    return backend().apply(OPS["cast"], (x,), {"dtype": d})


lower.__library__ = widen.__library__ = True  # type: ignore[attr-defined]  # scripts call them, with symbolic tensors

__all__ = ["DEFAULTS", "LOW", "State", "enter", "lower", "mode", "restore", "state", "suspended", "using", "widen"]
