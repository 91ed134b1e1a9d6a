"""Functions of the order of elements: running extremes, quantiles, places in sorted vectors, distinct values."""

import math
from collections.abc import Callable
from typing import Any

from jitgrad import dtypes
from jitgrad.dtypes import bool_, int32, int64
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor, backend, own
from jitgrad.ops.library.core import (Number, apply, as_operand, bind, cast, create, expand_to, not_implemented,
                                      only_place, require_floating, result_dtype)
from jitgrad.ops.library.elements import complex_sums
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.reduce import ValuesAndIndices, result_of
from jitgrad.ops.library.shapes.indexing import checked_indices
from jitgrad.ops.library.shapes.shape import clone, own_view, some, take_slice
from jitgrad.ops.library.sizes import EVERY, axis, flag, is_empty, product, require, require_equal, size_of, text

__library__ = True

median_result = result_of("median", __name__)
sort_result = result_of("sort", __name__)
topk_result = result_of("topk", __name__)
cummax_result = result_of("cummax", __name__)
cummin_result = result_of("cummin", __name__)
kthvalue_result = result_of("kthvalue", __name__)
nanmedian_result = result_of("nanmedian", __name__)
mode_result = result_of("mode", __name__)


def to_end(x: Any, a: int) -> Any:
    """`x` with axis `a` moved to the end."""
    return x if a == x.ndim - 1 else apply("permute", x, axes=(*(k for k in range(x.ndim) if k != a), a))


def _back(x: Any, a: int) -> Any:
    """The inverse of `to_end`."""
    n = x.ndim - 1
    return x if a == n else apply("permute", x, axes=(*range(a), n, *range(a, n)))


def _seen(x: Any, fill: Any) -> Any:
    """(..., n) -> (..., n, n): row i has elements up to i, then `fill`."""
    n = x.shape[-1]
    rows = apply("expand", apply("unsqueeze", x, axis=x.ndim - 1), shape=(*x.shape[:-1], n, n))
    k = create("arange", x, length=n, dtype=int64)
    earlier = apply("le", apply("unsqueeze", k, axis=0), apply("unsqueeze", k, axis=1))
    return apply("where", earlier, rows, as_operand(fill, x.dtype))


def _running(made: type[ValuesAndIndices], input: AnyTensor[Tensor], dim: int) -> ValuesAndIndices:
    if input.ndim == 0:
        if dim not in (0, -1):
            name = made.__name__.removesuffix("_result")
            raise IndexError(f"{name}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
        return made(clone(input), only_place(input))
    if input.dtype.is_complex:
        axis(dim, input.ndim)
        raise not_implemented(made.__name__.removesuffix("_result"), input.dtype)
    if is_empty(input.shape):  # torch does not look at the axis either
        return made(clone(input), create("full", input, value=0, shape=tuple(input.shape), dtype=int64))
    a = axis(dim, input.ndim)
    place = apply("extreme_place", input, axis=a, least=made is cummin_result)
    return made(apply("gather", input, place, axis=a), place)


cummax = bind(_running, cummax_result, "cummax",
              "Named (values, indices) of the largest element so far along dim; of equal ones the last.")
cummin = bind(_running, cummin_result, "cummin",
              "Named (values, indices) of the smallest element so far along dim; of equal ones the last.")


def logcumsumexp(input: AnyTensor[Tensor], dim: int) -> Tensor:
    """log of the running sums of exp(input) along dim, without overflow."""
    x: Any = input
    a = axis(dim, x.ndim)
    if not x.dtype.is_complex:
        require_floating("logcumsumexp_out", x.dtype)
    if x.ndim == 0 or is_empty(x.shape):
        return clone(x)
    seen = _seen(to_end(x, a), -math.inf)
    if x.dtype.is_complex:
        return own(_back(complex_sums.logsumexp_of_rows(seen), a))
    return own(_back(apply("logsumexp", seen, axes=(seen.ndim - 1,), keepdim=False), a))


def _require_order(fn: str, x: Any) -> None:
    """NotImplementedError for bools, of which torch does not find the k-th."""
    if x.dtype is bool_:
        raise NotImplementedError(f'"{fn}" not implemented for \'Bool\'')


def kthvalue(input: AnyTensor[Tensor], k: Any, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """Named (values, indices) of the k-th smallest element along dim, k from 1. RuntimeError for k out of range."""
    a, k, keepdim = axis(dim, input.ndim), size_of(k), flag(keepdim)
    if input.ndim:
        require(input.shape[a] > 0, IndexError, f"kthvalue(): Expected reduction dim {a} to have non-zero size.")
    for condition in (k >= 1, k <= (input.shape[a] if input.ndim else 1)):
        require(condition, RuntimeError, f"kthvalue(): selected number k out of range for dimension {a}")
    if input.ndim == 0:
        return kthvalue_result(clone(input), only_place(input))
    _require_order("kthvalue_cpu", input)
    place = apply("nth_place", input, n=k - 1, axis=a, spoiled=False)
    parts = apply("gather", input, place, axis=a), place
    return kthvalue_result(*(parts if keepdim else [own_view("squeeze", p, axis=a) for p in parts]))


def msort(input: AnyTensor[Tensor]) -> Tensor:
    """input with its first axis sorted."""
    return sort(input, stable=True, dim=0).values


def quantile(input: AnyTensor[Tensor], q: Any, dim: int | None = None, keepdim: bool = False, *,
             interpolation: str = "linear") -> Tensor:
    """The q-quantiles along dim (of all elements by default); NaN where there is one.

    Args:
        q: in [0, 1]: a number, or a tensor () or (Q,), whose axis comes first in the result.
        interpolation: between two elements: "linear", "lower", "higher", "nearest" or "midpoint".
    """
    return _quantile(input, q, dim, keepdim, interpolation, False)


def nanquantile(input: AnyTensor[Tensor], q: Any, dim: int | None = None, keepdim: bool = False, *,
                interpolation: str = "linear") -> Tensor:
    """`quantile` of the elements that are not NaN; NaN where there are none."""
    return _quantile(input, q, dim, keepdim, interpolation, True)


def _quantile(input: AnyTensor[Tensor], q: Any, dim: int | None, keepdim: bool, interpolation: str,
              ignored: bool) -> Tensor:
    keepdim = flag(keepdim)
    if interpolation not in ("linear", "lower", "higher", "nearest", "midpoint"):
        raise RuntimeError("quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
                           f"got {interpolation}")
    input = widen(input, "cpu")
    if not input.dtype.is_floating_point or input.dtype.is_half:
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    require(product(input.shape) > 0, RuntimeError, "quantile() input tensor must be non-empty")
    if isinstance(q, AnyTensor):
        if q.dtype is not input.dtype:
            raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    else:
        for inside in (q >= 0, q <= 1):
            require(inside, RuntimeError, "quantile() q must be in the range [0, 1] but got ", q)
    rank = input.ndim
    a = 0 if dim is None else axis(dim, rank)
    x: Any = apply("reshape", input, shape=(product(input.shape),)) if dim is None or not rank else to_end(input, a)
    values = apply("sort", x, axis=x.ndim - 1, descending=False, stable=True)[0]
    at = backend().move(as_operand(q, x.dtype), input.device)
    if at.ndim > 1:
        raise RuntimeError("quantile() q must be a scalar or 1D tensor")
    lines = apply("reshape", at, shape=(at.shape[0] if at.ndim else 1, *[1] * x.ndim))
    place = lines * (apply("unsqueeze", _last_number(values), axis=0) if ignored else x.shape[-1] - 1)
    low = apply("floor", place)
    if interpolation == "nearest":
        low = apply("round", place)
    elif interpolation == "higher":
        low = apply("ceil", place)
    stretched = apply("expand", apply("unsqueeze", values, axis=0), shape=(lines.shape[0], *values.shape))

    def pick(where: Any) -> Any:
        index = expand_to(cast(where, int64), (lines.shape[0], *values.shape[:-1], 1))
        return apply("squeeze", apply("gather", stretched, index, axis=x.ndim), axis=x.ndim)

    result = pick(low)
    if interpolation in ("linear", "midpoint"):
        share = apply("squeeze", place - low, axis=x.ndim)
        if interpolation == "midpoint":
            share = apply("where", apply("gt", share, as_operand(0, x.dtype)), as_operand(0.5, x.dtype), share)
        result = apply("lerp", result, pick(apply("ceil", place)), expand_to(share, tuple(result.shape)))
    if not ignored:
        last = take_slice(values, x.ndim - 1, x.shape[-1] - 1, 1)  # NaN comes last
        spoiled = apply("unsqueeze", apply("squeeze", apply("ne", last, last), axis=x.ndim - 1), axis=0)
        result = apply("where", spoiled, as_operand(math.nan, x.dtype), result)
    if keepdim:
        if dim is None or not rank:
            result = apply("reshape", result, shape=(result.shape[0], *[1] * rank))
        else:
            result = apply("unsqueeze", result, axis=a + 1)
    return own(result if at.ndim else apply("squeeze", result, axis=0))


def _last_number(values: Any) -> Any:
    """The place of the last element that is not NaN along the last, sorted axis, which stays; 0 where there is none."""
    a = values.ndim - 1
    count = apply("sum", cast(apply("eq", values, values), values.dtype), axes=(a,), keepdim=True)
    return apply("maximum", count - 1, as_operand(0, values.dtype))


# --- places in sorted vectors --------------------------------------------------------------------------------------


def _in_order(sequence: AnyTensor[Tensor], sorter: AnyTensor[Tensor]) -> Tensor:
    """Vectors in the order that `searchsorted` is told."""
    if sorter.ndim != sequence.ndim:
        raise RuntimeError("torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                           f"{text(sequence.shape)}and got sorter tensor {text(sorter.shape)}")
    if sorter.dtype is not int64:
        raise RuntimeError("torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
                           + sorter.dtype.word)
    a = sequence.ndim - 1
    places = checked_indices(sorter, sequence.shape[a], a, negative=False, error=RuntimeError)
    return apply("gather", sequence, places, axis=a)


def searchsorted(sorted_sequence: AnyTensor[Tensor], input: Any, *, out_int32: bool = False, right: bool = False,
                 side: str | None = None, sorter: AnyTensor[Tensor] | None = None) -> Tensor:
    """Where values would go into sorted vectors: before equal elements, or after them (`right`, side="right").

    Args:
        sorted_sequence: (n,), or (..., n) with input (..., m).
        input: a tensor or a number.
        sorter: int64 of sorted_sequence's shape: the order that sorts it, where it is not sorted.
    """
    if sorter is not None:
        sorted_sequence = _in_order(sorted_sequence, sorter)
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites, got side of left while "
                           "right was True")
    d = result_dtype(sorted_sequence, input)
    line, v = cast(sorted_sequence, d), as_operand(input, d)
    if v.ndim == 0 and line.ndim != 1:
        raise RuntimeError("torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is "
                           f"1, but we got boundaries tensor dim({line.ndim}) and input value's dim({v.ndim})")
    if line.ndim != 1 and line.ndim != v.ndim:
        raise RuntimeError("torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
                           "of boundaries tensor and input value tensor must match")
    if d is bool_ or d.is_complex:
        raise NotImplementedError(f'"searchsorted_out_cpu" not implemented for \'{d.word}\'')
    if line.ndim > 1:
        for m, n in zip(line.shape[:-1], v.shape[:-1], strict=True):
            require_equal(m, n, lambda: "torch.searchsorted(): boundaries tensor should be 1 dimension or the first "
                                        "N-1 dimensions of boundaries tensor and input value tensor must match")
    places = v if line.ndim == v.ndim else apply("reshape", v, shape=(product(v.shape),))
    found = cast(apply("steps_passed", line, places, equal=bool(right or side == "right")),
                 int32 if out_int32 else int64)  # NaN goes to the end
    return own(apply("reshape", found, shape=tuple(v.shape)))


def bucketize(input: Any, boundaries: AnyTensor[Tensor], *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Between which of the sorted boundaries (n,) each value lies: 0 to n."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: AnyTensor[Tensor] | Number, test_elements: AnyTensor[Tensor] | Number, *,
         assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which elements are among the test elements (or, with invert, are not)."""
    d = result_dtype(elements, test_elements)
    for x in (elements, test_elements):
        if isinstance(x, AnyTensor) and (x.dtype is bool_ or x.dtype.is_complex):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {x.dtype.word}")
    x, among = as_operand(elements, d), as_operand(test_elements, d)
    if isinstance(test_elements, AnyTensor):
        among = apply("reshape", among, shape=(product(among.shape),))
        each = apply("unsqueeze", x, axis=x.ndim) if isinstance(elements, AnyTensor) else x
        found = apply("any", apply("eq", each, among), axes=(x.ndim,), keepdim=False)
    else:
        found = apply("eq", x, among)
    return apply("logical_not", found) if invert else found


# --- sorting -------------------------------------------------------------------------------------------------------


def _order(name: str, x: Any, given: tuple[Any, ...], stable: bool | None, dim: int,
           descending: bool) -> dict[str, Any]:
    """How to sort: by position come dim and descending, but not where `stable` is said, as torch has it."""
    if len(given) > 2 or (given and stable is not None):
        raise TypeError(f"{name}() takes dim and descending by position, or stable, dim and descending by name")
    if given:
        dim = given[0]
    if len(given) > 1:
        descending = given[1]
    a = axis(dim, x.ndim)
    if x.dtype.is_complex:
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    return {"axis": a, "descending": bool(descending), "stable": bool(stable)}


def sort(input: AnyTensor[Tensor], *args: Any, stable: bool | None = None, dim: int = -1,
         descending: bool = False) -> ValuesAndIndices:
    """sort(x, dim, descending) or sort(x, stable=..., ...): named (values, indices) in order; NaN counts as largest."""
    order = _order("sort", input, args, stable, dim, descending)
    if input.ndim == 0:
        return sort_result(clone(input), only_place(input))
    return sort_result(*apply("sort", input, **order))


def argsort(input: AnyTensor[Tensor], *args: Any, stable: bool | None = None, dim: int = -1,
            descending: bool = False) -> Tensor:
    """The positions that sort dim; arguments as `sort`'s."""
    order = _order("argsort", input, args, stable, dim, descending)
    return apply("argsort", input, **order) if input.ndim else only_place(input)


def topk(input: AnyTensor[Tensor], k: Any, dim: int = -1, largest: bool = True,
         sorted: bool = True) -> ValuesAndIndices:
    """Named (values, indices) of the k largest (or smallest) along dim, in order."""
    a = axis(dim, input.ndim)
    k = size_of(k)
    require(k >= 0, RuntimeError, "selected index k out of range")
    require(k <= (input._sizes[a] if input.ndim else 1), RuntimeError, "selected index k out of range")
    if input.dtype is bool_ or input.dtype.is_complex:
        raise RuntimeError(f"topk does not support {'bool' if input.dtype is bool_ else 'complex'} dtypes on CPU")
    if input.ndim == 0:
        return topk_result(clone(input), only_place(input))
    return topk_result(*apply("topk", input, k=k, axis=a, largest=bool(largest), sorted=bool(sorted)))


def median(input: AnyTensor[Tensor], dim: int = EVERY, keepdim: bool = False) -> Any:
    """The lower median: of all elements, or named (values, indices) along dim. NaN where there is one."""
    return _middle("median", input, dim, keepdim, _median_place, median_result)


def nanmedian(input: AnyTensor[Tensor], dim: int = EVERY, keepdim: bool = False) -> Any:
    """The lower median of the elements that are not NaN: of all, or named (values, indices) along dim.

    NaN where there are none.
    """
    place = _number_place if input.dtype.is_floating_point else _median_place
    return _middle("nanmedian", input, dim, keepdim, place, nanmedian_result)


def _middle(name: str, input: Any, dim: Any, keepdim: bool, place: Callable[[Any, int], Any],
            result: Callable[[Any, Any], Any]) -> Any:
    """The element that `place` finds; of nothing, NaN or IndexError."""
    keepdim = flag(keepdim)
    if dim is not EVERY and input.ndim:
        a = axis(dim, input.ndim)
        require(input._sizes[a] > 0, IndexError, name, f"(): Expected reduction dim {a} to have non-zero size.")
    _require_order("median_cpu", input)
    if input.dtype.is_complex:
        raise not_implemented("median_out", input.dtype)
    if dim is EVERY:
        least = math.nan if input.dtype.is_inexact else int(dtypes.bounds(input.dtype)[0])
        flat = some(apply("reshape", input, shape=(product(input.shape),)), 0, least)
        return own_view("squeeze", apply("gather", flat, place(flat, 0), axis=0), axis=0)
    a = axis(dim, input.ndim)
    if input.ndim == 0:
        return result(clone(input), only_place(input))
    where = place(input, a)
    found = apply("gather", input, where, axis=a), where
    return result(*(found if keepdim else [own_view("squeeze", f, axis=a) for f in found]))


def _number_place(x: Any, a: int) -> Any:
    """Where the lower median of what is not NaN is along an axis; the axis stays, of size 1."""
    places = apply("sort", x, axis=a, descending=False, stable=True)[1]
    count = apply("sum", cast(apply("eq", x, x), int64), axes=(a,), keepdim=True)
    middle = apply("floor_divide", apply("maximum", count - 1, as_operand(0, int64)), as_operand(2, int64))
    return apply("gather", places, middle, axis=a)


def mode(input: AnyTensor[Tensor], dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """Named (values, indices) of the most frequent element along dim: the smallest of such, at its last place."""
    keepdim = flag(keepdim)
    if input.ndim == 0:
        return mode_result(clone(input), only_place(input))
    a = axis(dim, input.ndim)
    require(input.shape[a] > 0, IndexError, f"mode(): Expected reduction dim {a} to have non-zero size.")
    if input.dtype.is_complex:
        raise not_implemented("mode", input.dtype)
    x = to_end(input, a)
    n = x.ndim - 1
    alike = apply("eq", apply("unsqueeze", x, axis=n + 1), apply("unsqueeze", x, axis=n))
    count = apply("sum", cast(alike, int64), axes=(n + 1,), keepdim=False)
    nan = apply("ne", x, x)  # each is a value of its own, and the smallest
    count = apply("maximum", count, cast(nan, int64))
    frequent = apply("eq", count, apply("amax", count, axes=(n,), keepdim=True))
    candidates = apply("where", frequent, x, as_operand(dtypes.bounds(x.dtype)[1], x.dtype))
    least = apply("amin", candidates, axes=(n,), keepdim=True)
    found = apply("logical_or", apply("eq", x, least), apply("logical_and", nan, apply("ne", least, least)))
    chosen = apply("logical_and", frequent, found)
    number = create("arange", x, length=x.shape[n], dtype=int64)
    place = apply("amax", apply("where", chosen, number, as_operand(0, int64)), axes=(n,), keepdim=True)
    both = [_back(f, a) for f in (apply("gather", x, place, axis=n), place)]
    return mode_result(*[own(f if keepdim else apply("squeeze", f, axis=a)) for f in both])


def _median_place(x: Any, a: int) -> Any:
    """Where the lower median along an axis is, or the first NaN; the axis stays, of size 1."""
    return apply("nth_place", x, n=(x._sizes[a] - 1) // 2, axis=a, spoiled=x.dtype.is_floating_point)


complete(globals())

__all__ = ["argsort", "bucketize", "cummax", "cummin", "isin", "kthvalue", "logcumsumexp", "median", "mode", "msort",
           "nanmedian", "nanquantile", "quantile", "searchsorted", "sort", "topk"]
