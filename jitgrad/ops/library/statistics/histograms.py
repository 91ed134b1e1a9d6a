"""How many elements, or what weight of them, lie between bounds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.dtypes import dtype, int64
from jitgrad.ops.backend import AnyTensor, Tensor, backend, own, select_number
from jitgrad.ops.library.core import Number, apply, as_operand, cast, create, require_floating
from jitgrad.ops.library.creation import linspace
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.order import searchsorted
from jitgrad.ops.library.shapes.shape import some, take_slice
from jitgrad.ops.library.sizes import product, require, size_of, static_int

__library__ = True


class histogram_result(NamedTuple):
    """What `histogram` returns."""

    hist: Any
    bin_edges: Any


class histogramdd_result(NamedTuple):
    """What `histogramdd` returns."""

    hist: Any
    bin_edges: Any


def _ends(x: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds as numbers: those given, or where they are equal the least and the largest element; one apart at least."""
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low == high:
        found = some(x, 0, low)
        low, high = (backend().item(apply(name, found, axes=(0,), keepdim=False)) for name in ("amin", "amax"))
    same = low == high
    return select_number(same, low - 1, low), select_number(same, high + 1, high)


def histc(input: AnyTensor[Tensor], bins: Any = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """How many elements lie in each of `bins` equal parts of [min, max], in input's dtype; others are left out.

    Without bounds, or equal ones, those of the elements. RuntimeError for bins below 1 or bounds that are not finite.
    """
    bins = size_of(bins)
    require(bins > 0, RuntimeError, "torch.histogram(): bins must be > 0, but got ", bins, " for dimension 0")
    x: Any = apply("reshape", input, shape=(product(input.shape),))
    low, high = _ends(x, min, max)
    for end in (low, high):
        require(end - end == 0, RuntimeError, "torch.histc: range of [", low, ", ", high, "] is not finite")
    require(low < high, RuntimeError, "torch.histc: max must be larger than min")
    d = require_floating("histc", input.dtype)
    inside = apply("logical_and", apply("ge", x, as_operand(low, d)), apply("le", x, as_operand(high, d)))
    place = cast(apply("where", inside, (x - low) * (bins / (high - low)), as_operand(0.0, d)), int64)
    place = apply("minimum", place, as_operand(bins - 1, int64))
    counts = create("full", x, value=0, shape=(bins,), dtype=d)
    return apply("index_put", counts, cast(inside, d), place, axes=(0,), accumulate=True)


def _placed(x: Any, edges: Any) -> tuple[Any, Any]:
    """The bin of each element, and whether it has one: bins are open above but for the last."""
    count = edges.shape[0] - 1
    place = searchsorted(edges, x, right=True) - 1
    ends = [take_slice(edges, 0, k, 1) for k in (0, count)]
    place = apply("where", apply("eq", x, ends[1]), as_operand(count - 1, int64), place)
    inside = apply("logical_and", apply("ge", x, ends[0]), apply("le", x, ends[1]))
    return apply("where", inside, place, as_operand(0, int64)), inside


def _edges(x: Any, bins: Any, range: Any, number: int) -> Any:
    """The edges of bins of axis `number`: given, or equally far apart between bounds, or the ends of the elements."""
    if isinstance(bins, AnyTensor):
        if bins.dtype is not x.dtype:
            raise RuntimeError("torch.histogramdd: input tensor and bins tensors should have the same dtype, but got "
                               f"input with dtype {x.dtype.word} and bins for dimension {number} with dtype "
                               f"{bins.dtype.word}")
        return bins
    bins = size_of(bins)
    require(bins > 0, RuntimeError, "torch.histogram(): bins must be > 0, but got ", bins, f" for dimension {number}")
    if range is not None:
        low, high = range
    else:
        low, high = (backend().item(apply(name, some(x, 0, value), axes=(0,), keepdim=False))
                     for name, value in (("amin", 0.0), ("amax", 1.0)))
    for end in (low, high):
        require(end - end == 0, RuntimeError, f"torch.histogramdd: dimension {number}'s range [", low, ", ", high,
                "] is not finite")
    require(low <= high, RuntimeError, "torch.histogramdd: min should not exceed max, but got min ", low, " max ", high,
            f" for dimension {number}")
    same = low == high
    low, high = select_number(same, low - 0.5, low), select_number(same, high + 0.5, high)
    return linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)


def _counted(columns: Sequence[Any], edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """The weights of the cells of a grid, in the dtype of the columns."""
    d = columns[0].dtype
    total: Any = None
    inside: Any = None
    size: Any = 1
    for x, e in zip(columns, edges, strict=True):
        place, mine = _placed(x, e)
        n = e.shape[0] - 1
        total, inside = (place, mine) if total is None else (total * n + place, apply("logical_and", inside, mine))
        size = size * n
    weights = cast(inside, d)
    if weight is not None:
        flat = apply("reshape", weight, shape=(product(weight.shape),))
        weights = apply("where", inside, cast(flat, d), as_operand(0.0, d))
    counts = create("full", columns[0], value=0, shape=(size,), dtype=d)
    hist = apply("index_put", counts, weights, total, axes=(0,), accumulate=True)
    hist = own(apply("reshape", hist, shape=tuple(e.shape[0] - 1 for e in edges)))
    if density:
        hist = hist / apply("sum", hist, axes=tuple(range(len(edges))), keepdim=False)
        for k, e in enumerate(edges):
            n = e.shape[0] - 1
            width = take_slice(e, 0, 1, n) - take_slice(e, 0, 0, n)
            hist = hist / apply("reshape", width, shape=tuple(n if j == k else 1 for j in range(len(edges))))
    return hist


def _require_counted(d: dtype) -> None:
    """NotImplementedError for integers and half types."""
    if require_floating("histogramdd", d).is_half:
        raise NotImplementedError(f'"histogramdd" not implemented for \'{d.word}\'')


def _require_range(range: Any, width: int) -> None:
    if range is not None and len(range) != 2 * width:
        raise RuntimeError(f"torch.histogramdd: for a {width}-dimensional histogram range should have {2 * width} "
                           f"elements, but got {len(range)}")


def histogram(input: AnyTensor[Tensor], bins: Any = 100, *, range: Any = None, weight: AnyTensor[Tensor] | None = None,
              density: bool = False) -> histogram_result:
    """Named (hist, bin_edges): the weight of the elements in each bin, the last of which has both its ends.

    Args:
        bins: how many of equal width between the bounds of `range`, or of the elements; or the rising edges.
        weight: what each element counts, of input's shape.
        density: whether the integral over the bins is 1.
    """
    x = apply("reshape", input, shape=(product(input.shape),))
    _require_range(range, 1)
    edges = _edges(x, bins, range, 0)
    _require_counted(input.dtype)
    return histogram_result(_counted([x], [edges], weight, bool(density)), edges)


def histogramdd(input: AnyTensor[Tensor], bins: Any, range: Any = None, weight: AnyTensor[Tensor] | None = None,
                density: bool = False) -> histogramdd_result:
    """Named (hist, bin_edges) of points (..., D): the weight in each cell of a grid of D axes.

    bins: a number for each axis or for all, or edges for each; range: low and high of each axis, in order.
    """
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    width = static_int(input.shape[-1])
    _require_range(range, width)
    points = apply("reshape", input, shape=(product(input.shape[:-1]), width))
    columns = [apply("select", points, axis=1, index=k) for k in _numbers(width)]
    each = bins if isinstance(bins, (tuple, list)) else [bins] * width
    if len(each) != width:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    spans = [None] * width if range is None else [(range[2 * k], range[2 * k + 1]) for k in _numbers(width)]
    edges = [_edges(x, b, s, k) for k, (x, b, s) in enumerate(zip(columns, each, spans, strict=True))]
    _require_counted(input.dtype)
    return histogramdd_result(_counted(columns, edges, weight, bool(density)), tuple(edges))


def _numbers(n: int) -> list[int]:
    return [k for k, _ in enumerate([0] * n)]  # `range` is a parameter here


complete(globals())

__all__ = ["histc", "histogram", "histogramdd"]
