"""Pooling to a given number of windows of each axis, in torch's signatures."""

from typing import Any

from jitgrad.dtypes import int64
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor, own
from jitgrad.ops.library.classes import require_kernel
from jitgrad.ops.library.core import apply, as_operand, bind, cast, create, require_tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import maximum, product, require, same_size, text

__library__ = True


def _adaptive_sizes(fn: str, rank: int, input: Any, output_size: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """The input as (N, C, *spatial), whether it was, and one size per axis; None keeps the axis's own."""
    require_tensor(fn, input)
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if len(sizes) == 1:
        sizes = tuple(sizes) * rank
    if len(sizes) != rank:
        raise RuntimeError(f"{fn}: output_size must be {rank}")
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(f"{fn}(): Expected {rank + 1}D or {rank + 2}D tensor, but got {text(input.shape)}")
    batched = input.ndim == rank + 2
    x = input if batched else apply("unsqueeze", input, axis=0)
    own = tuple(x.shape)[2:]
    shape = tuple([n if m is None else m for n, m in zip(own, sizes, strict=True)])
    for m in shape:
        require(m >= 0, RuntimeError, f"{fn}: elements of output_size must be greater than or equal to 0 but received ",
                m)
    for n in own:
        require(n >= 1, RuntimeError, f"{fn}(): Expected input to have non-zero size for non-batch dimensions, but "
                "input has sizes ", text(input.shape), " with a dimension being empty")
    return x, batched, shape


def _spread(x: Any, axis: int, m: Any) -> tuple[Any, Any, Any]:
    """The m windows of an axis, element i of the result's from floor(i n / m) up to ceil((i + 1) n / m).

    Gives x with (m, length) in place of the axis, where length is that of the longest window; which of these elements
    count, bool (m, length); and their index, int64 (m, length).
    """
    n = x.shape[axis]
    size, count = as_operand(n, int64), as_operand(m, int64)
    i = create("arange", x, length=m, dtype=int64)
    start = apply("floor_divide", apply("mul", i, size), count)
    one = as_operand(1, int64)
    reach = apply("sub", apply("add", apply("mul", apply("add", i, one), size), count), one)
    end = apply("floor_divide", reach, count)
    length = (n + m - 2) // maximum(m, 1) + 1  # ceil(n / m), and one where windows begin inside elements
    steps = create("arange", x, length=length, dtype=int64)
    place = apply("add", apply("unsqueeze", start, axis=1), steps)
    counts = apply("lt", place, apply("unsqueeze", end, axis=1))
    place = apply("minimum", place, apply("sub", size, one))
    return apply("index", x, place, axes=(axis,)), counts, place


def _beside(mask: Any, axis: int, ndim: int) -> Any:
    """(m, length) shaped to broadcast along axes `axis` and the next of `ndim`."""
    shape = [1] * ndim
    shape[axis:axis + 2] = list(mask.shape)
    return apply("reshape", mask, shape=tuple(shape))


def _adaptive_avg_pool(rank: int, input: AnyTensor[Tensor], output_size: Any) -> Tensor:
    """The means of output_size windows, as even as possible, of (N, C, L) or (C, L)."""
    fn = f"adaptive_avg_pool{rank}d"
    x, batched, shape = _adaptive_sizes(fn, rank, widen(input, "cpu") if rank == 3 else input, output_size)
    require_kernel(fn, x)
    ones = tuple([a for a, m in enumerate(shape, 2) if isinstance(m, int) and m == 1])
    if ones:
        x = apply("mean", x, axes=ones, keepdim=True)
    for axis, m in enumerate(shape, 2):
        if axis in ones or same_size(m, x.shape[axis]):
            continue
        windows, counts, _ = _spread(x, axis, m)
        counts = _beside(counts, axis, windows.ndim)
        total = apply("sum", apply("where", counts, windows, as_operand(0, x.dtype)), axes=(axis + 1,), keepdim=False)
        length = apply("sum", cast(counts, x.dtype), axes=(axis + 1,), keepdim=False)
        x = apply("div", total, length)
    return x if batched else own(apply("squeeze", x, axis=0))


adaptive_avg_pool1d = bind(_adaptive_avg_pool, 1, "adaptive_avg_pool1d")
adaptive_avg_pool2d = bind(_adaptive_avg_pool, 2, "adaptive_avg_pool2d",
                           "`adaptive_avg_pool1d` over two axes; None keeps an axis as it is.")
adaptive_avg_pool3d = bind(_adaptive_avg_pool, 3, "adaptive_avg_pool3d", "`adaptive_avg_pool1d` over three axes.")


def _adaptive_max_pool(rank: int, input: AnyTensor[Tensor], output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of output_size windows, as even as possible; with return_indices also where they were.

    Axis by axis from the last: the first maximum of a row, then the first row that has it.
    """
    fn = f"adaptive_max_pool{rank}d"
    x, batched, shape = _adaptive_sizes(fn, rank, widen(input, "cpu") if rank == 3 else input, output_size)
    require_kernel(fn, x)
    low = as_operand(float("-inf"), x.dtype)
    spatial = tuple(x.shape)[2:]
    flat: Any = None
    for axis in range(rank + 1, 1, -1):
        windows, counts, place = _spread(x, axis, shape[axis - 2])
        counts, place = (_beside(v, axis, windows.ndim) for v in (counts, place))
        windows = apply("where", counts, windows, low)
        best = apply("argmax", windows, axes=(axis + 1,), keepdim=True)
        before = flat
        stride = product(spatial[axis - 1:])
        here = apply("mul", place, as_operand(stride, int64))
        if before is not None:
            here = apply("add", _spread(before, axis, shape[axis - 2])[0], here)
        here = apply("expand", here, shape=tuple(windows.shape))
        flat = apply("squeeze", apply("gather", here, best, axis=axis + 1), axis=axis + 1)
        x = apply("squeeze", apply("gather", windows, best, axis=axis + 1), axis=axis + 1)
    if not batched:
        x, flat = (own(apply("squeeze", v, axis=0)) for v in (x, flat))
    return (x, flat) if return_indices else x


adaptive_max_pool1d = bind(_adaptive_max_pool, 1, "adaptive_max_pool1d")
adaptive_max_pool2d = bind(_adaptive_max_pool, 2, "adaptive_max_pool2d", "`adaptive_max_pool1d` over two axes.")
adaptive_max_pool3d = bind(_adaptive_max_pool, 3, "adaptive_max_pool3d", "`adaptive_max_pool1d` over three axes.")

complete(globals())

__all__ = ["adaptive_avg_pool1d"]
