"""Mixed precision: which operands the library casts where autocast is on, a state of the thread.

The functions that torch lists ask here first. `lower` is for products (matmul, linear, convolutions, attention):
floating-point operands take the dtype of their device's region. `widen` is for what loses too much in half precision
(losses, products of many elements, inverses; on a GPU also exponentials, sums and norms): they become float32.
`widest` brings operands of different dtypes together. float64 and integers stay as they are; an operand's gradient has
its own dtype, because a cast has a derivative. Functions on no list take what they are given, and promote as always;
in-place ones (`addmm_`) are never listed. A function that is listed for one device only names it.

Which region concerns a tensor is decided by where the tensor is, so that regions of both devices may be on at once.

Source: PyTorch, aten/src/ATen/autocast_mode.h, the lists for the CPU and for CUDA.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from jitgrad import dtypes
from jitgrad.dtypes import dtype
from jitgrad.ops.backend import AnyTensor, backend
from jitgrad.ops.opdef import OPS

#: where a region may be, and what it takes without a dtype
DEFAULTS = {"cpu": dtypes.bfloat16, "cuda": dtypes.float16}
#: the dtypes of regions
LOW = (dtypes.bfloat16, dtypes.float16)


class Low(NamedTuple):
    """What products are cast to on each device; None where autocast is off. Made by `pair`, compared by identity."""

    cpu: dtype | None
    cuda: dtype | None

    def __str__(self) -> str:
        return " and ".join(f"{d.name} ({device})" for device, d in self._asdict().items() if d is not None)


_PAIRS: dict[tuple[dtype | None, dtype | None], Low] = {}


def pair(cpu: dtype | None, cuda: dtype | None) -> Low | None:
    """The one `Low` of two dtypes, so that a guard is an `is`; None where both are."""
    if cpu is None and cuda is None:
        return None
    return _PAIRS.setdefault((cpu, cuda), Low(cpu, cuda))


State = tuple[Low | None, dtype, dtype, bool]


class _Mode(threading.local):
    low: Low | None = None
    cpu = DEFAULTS["cpu"]
    cuda = DEFAULTS["cuda"]
    cache = True


#: `mode.low`: the dtypes that products take, None where autocast is off everywhere; `cpu`, `cuda`: the dtype of a
#: region, on or off; `cache`: what torch's `cache_enabled` says (here casts are made anew, and a script makes equal
#: ones once)
mode = _Mode()


def state() -> State:
    """All of the mode, for `restore`."""
    return mode.low, mode.cpu, mode.cuda, mode.cache


def restore(before: State) -> None:
    """Put back what `state` gave."""
    mode.low, mode.cpu, mode.cuda, mode.cache = before


def enabled(device: str) -> dtype | None:
    """What products are cast to on a kind of device, None where autocast is off there."""
    low = mode.low
    return None if low is None else low.cuda if device == "cuda" else low.cpu


def enter(device: str, d: dtype, on: bool, cache: bool) -> None:
    """What the beginning of a region does; the other device's stays."""
    taken = d if on else None
    if device == "cpu":
        mode.cpu = d
        mode.low = pair(taken, enabled("cuda"))
    else:
        mode.cuda = d
        mode.low = pair(enabled("cpu"), taken)
    mode.cache = cache


@contextmanager
def using(low: Low | None) -> Iterator[None]:
    """Casts to `low` inside, none at all for None."""
    before = state()
    mode.low = low
    if low is not None:
        mode.cpu, mode.cuda = low.cpu or mode.cpu, low.cuda or mode.cuda
    try:
        yield
    finally:
        restore(before)


def suspended() -> AbstractContextManager[None]:
    """No casts inside."""
    return using(None)


def lower(x: Any, only: str | None = None) -> Any:
    """An operand of a product: a floating-point tensor but float64 in its region's dtype, all else as it is.

    `only`: the device for which the function is listed, where it is one.
    """
    low = mode.low
    return x if low is None else _cast(x, low, only, None)


def widen(x: Any, only: str | None = None) -> Any:
    """An operand of what is computed in float32 where autocast is on for its device; `only` as for `lower`."""
    low = mode.low
    return x if low is None else _cast(x, low, only, dtypes.float32)


def widest(only: str, *xs: Any) -> tuple[Any, ...]:
    """Operands that must agree, in the widest of their dtypes where autocast is on for a device.

    Raises RuntimeError for the half type that is not the region's, unless float32 was before it: torch's rule.
    """
    low = mode.low
    if low is None or (d := _widest(only, low.cuda if only == "cuda" else low.cpu, xs)) is None:
        return xs
    return tuple([_cast(x, low, only, d) for x in xs])


def refuse(x: Any, message: str) -> None:
    """RuntimeError for an operand on a GPU where autocast is on there."""
    if mode.low is not None and mode.low.cuda is not None and x.device.type == "cuda":
        raise RuntimeError(message)


def _widest(only: str, region: dtype | None, xs: tuple[Any, ...]) -> dtype | None:
    if region is None:
        return None
    found = [x.dtype for x in xs if isinstance(x, AnyTensor) and x.device.type == only]
    fits = [d for d in found if d.is_floating_point and d is not dtypes.float64]
    widest = region
    for d in fits:
        if d is dtypes.float32:
            widest = d
        elif widest is not dtypes.float32 and d is not region:
            raise RuntimeError(f"Unexpected floating ScalarType in at::autocast::prioritize: {d} where autocast casts "
                               f"to {region}")
    return widest if fits else None


def _cast(x: Any, low: Low, only: str | None, to: dtype | None) -> Any:
    """A floating-point tensor but float64 as `to` (None: the region's) where its device's region is on."""
    if not isinstance(x, AnyTensor):
        return x
    own: dtype = x.dtype
    if not own.is_floating_point or own is dtypes.float64:
        return x
    device: str = x.device.type
    region = low.cpu if device == "cpu" else low.cuda
    if region is None or (only is not None and only != device):
        return x
    d = region if to is None else to
    return x if own is d else backend().apply(OPS["cast"], (x,), {"dtype": d})


# scripts call them, with symbolic tensors
lower.__library__ = widen.__library__ = True  # type: ignore[attr-defined]
widest.__library__ = refuse.__library__ = True  # type: ignore[attr-defined]
