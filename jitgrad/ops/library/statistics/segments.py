"""Sums, means, products and extremes of pieces of an axis that lie one behind the other."""

import math
from typing import Any

from jitgrad.dtypes import int32, int64
from jitgrad.ops.backend import AnyTensor, Tensor, backend, own
from jitgrad.ops.library.core import Number, apply, as_operand, cast, create, expand_to, require_tensor, whole
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.gather import scatter_reduce
from jitgrad.ops.library.shapes.shape import narrow
from jitgrad.ops.library.sizes import axis as axis_of, require

__library__ = True

#: reduction -> that of `scatter_reduce`, and what a piece without elements gives
_REDUCTIONS = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0), "max": ("amax", -math.inf),
               "amax": ("amax", -math.inf), "min": ("amin", math.inf), "amin": ("amin", math.inf)}


def segment_reduce(data: AnyTensor[Tensor], reduce: str, *, lengths: AnyTensor[Tensor] | None = None,
                   indices: AnyTensor[Tensor] | None = None, offsets: AnyTensor[Tensor] | None = None, axis: int = 0,
                   unsafe: bool = False, initial: Number | None = None) -> Tensor:
    """Pieces of an axis of data, floats (..., n, *rest), reduced: (..., pieces, *rest).

    Args:
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: int64 or int32, (..., pieces): how long they are, one behind the other.
        offsets: instead of those, (..., pieces + 1): where each begins, and where the last ends.
        unsafe: whether the lengths go unchecked; what lies behind them is left out.
        initial: what each piece begins with; a mean is divided by the number of elements. Without it a piece of no
            elements has the sum 0, the product 1, the mean NaN, and the extremes of no numbers.

    Raises:
        RuntimeError: lengths that are negative or do not add up to n.
    """
    a = axis_of(axis, require_tensor("segment_reduce", data, "data").ndim)
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    bounds: Any = offsets if lengths is None else lengths
    if bounds.ndim - 1 != a:
        name = "offsets" if lengths is None else "lengths"
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {a}.")
    if bounds.dtype not in (int64, int32):
        raise NotImplementedError(f"\"_segment_reduce_lengths_cpu_kernel1\" not implemented for '{bounds.dtype.word}'")
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{data.dtype.word}'")
    bounds = cast(bounds, int64)
    if lengths is None:
        count = bounds.shape[a] - 1
        bounds = apply("sub", narrow(bounds, a, 1, count), narrow(bounds, a, 0, count))
    if not unsafe:
        _require_whole(bounds, data.shape[a])
    return own(_reduced(data, reduce, bounds, a, initial))


def _require_whole(lengths: Any, n: Any) -> None:
    known = whole(lengths)
    last = known.ndim - 1
    everywhere = tuple(range(known.ndim))
    short = apply("lt", known, as_operand(0, int64))
    require(backend().item(apply("any", short, axes=everywhere, keepdim=False)) == 0, RuntimeError,
            "lengths contains negative value!")
    other = apply("ne", apply("sum", known, axes=(last,), keepdim=True), as_operand(n, int64))
    require(backend().item(apply("any", other, axes=everywhere, keepdim=False)) == 0, RuntimeError,
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe.")


def _reduced(data: Any, reduce: str, lengths: Any, a: int, initial: Any) -> Any:
    d, shape, count = data.dtype, tuple(data.shape), lengths.shape[a]
    rest = shape[a + 1:]
    kind, nothing = _REDUCTIONS[reduce]
    ends = apply("unsqueeze", apply("cumsum", lengths, axis=a), axis=a + 1)
    passed = apply("le", ends, create("arange", data, length=shape[a], dtype=int64))
    place = apply("sum", cast(passed, int64), axes=(a,), keepdim=False)  # what lies behind: one piece more

    def aligned(x: Any, size: Any) -> Any:
        return apply("reshape", x, shape=(*shape[:a], size, *(1,) * len(rest)))

    index = expand_to(aligned(place, shape[a]), shape)
    start = create("full", data, value=nothing, shape=(*shape[:a], count + 1, *rest), dtype=d)
    total: Any = narrow(scatter_reduce(start, a, index, data, kind, include_self=kind in ("sum", "prod")), a, 0, count)
    if reduce == "mean":
        size = aligned(cast(lengths, d), count)
        empty = math.nan if initial is None else initial
        total = apply("add", total, as_operand(0.0 if initial is None else initial, d))
        return apply("where", apply("gt", size, as_operand(0, d)), apply("div", total, size), as_operand(empty, d))
    if initial is None:
        return total
    first = as_operand(initial, d)
    if kind in ("sum", "prod"):
        return apply("add" if kind == "sum" else "mul", total, first)
    beyond = apply("gt" if kind == "amax" else "lt", first, total)
    return apply("where", beyond, first, total)


complete(globals())

__all__ = ["segment_reduce"]
