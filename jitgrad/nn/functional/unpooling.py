"""Maxima put back where they came from, maxima of windows drawn at random: plain Python in the scriptable subset."""

from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.library.spatial import adaptive_pooling as _adaptive, pooling as _pooling

Sizes = int | Sequence[int]


def _each(value: Any, rank: int) -> list[int]:
    """One number per axis."""
    return list(value) if isinstance(value, (tuple, list)) else [value] * rank


# --- maxima and where they were ------------------------------------------------------------------------------------


def max_pool1d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                            dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """(maxima, indices): see `max_pool1d`."""
    return _pooling.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                            dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """(maxima, indices): see `max_pool2d`."""
    return _pooling.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                            dilation: Sizes = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """(maxima, indices): see `max_pool3d`."""
    return _pooling.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """(maxima, indices): see `adaptive_max_pool1d`."""
    return _adaptive.adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """(maxima, indices): see `adaptive_max_pool2d`."""
    return _adaptive.adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """(maxima, indices): see `adaptive_max_pool3d`."""
    return _adaptive.adaptive_max_pool3d(input, output_size, True)


# --- unpooling -----------------------------------------------------------------------------------------------------


def _unpooled_size(sizes: list[int], kernel: list[int], stride: list[int], padding: list[int],
                   output_size: Any) -> list[int]:
    """The result's spatial sizes: those that were given, or the smallest that these windows fit."""
    rank = len(sizes)
    usual = [(sizes[i] - 1) * stride[i] - 2 * padding[i] + kernel[i] for i in range(rank)]
    if output_size is None:
        return usual
    given = list(output_size)
    if len(given) == rank + 2:
        given = given[2:]
    if len(given) != rank:
        raise ValueError(f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a "
                         f"length of '{len(given)}'")
    for i in range(rank):
        low, high = usual[i] - stride[i], usual[i] + stride[i]
        if not low < given[i] < high:
            raise ValueError(f"invalid output_size \"{tuple(given)}\" (dim {i} must be between {low} and {high})")
    return given


def _max_unpool(rank: int, input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None, padding: Sizes,
                output_size: Any) -> Tensor:
    if input.dim() not in (rank + 1, rank + 2):
        raise RuntimeError(f"Input to max_unpooling{rank}d should be a {rank + 1}d or {rank + 2}d Tensor, but got a "
                           f"tensor with {input.dim()} dimensions.")
    if indices.dtype is not jitgrad.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype.word}")
    if indices.shape != input.shape:
        raise RuntimeError("Expected shape of indices to be same as that of the input tensor "
                           f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}")
    kernel = _each(kernel_size, rank)
    steps = kernel if stride is None else _each(stride, rank)
    lead = input.dim() - rank
    sizes = _unpooled_size(list(input.shape)[lead:], kernel, steps, _each(padding, rank), output_size)
    plane = 1
    for n in sizes:
        plane = plane * n
    before = tuple(input.shape)[:lead]
    flat = indices.flatten(lead)
    wrong = (flat < 0) | (flat >= plane)
    if bool(wrong.any()):
        first = flat[wrong][0].item()
        raise RuntimeError(f"Found an invalid max index: {first} (output volumes are of size "
                           f"{'x'.join([str(n) for n in sizes])})")
    zeros = jitgrad.zeros(*before, plane, dtype=input.dtype, device=input.device)
    return zeros.scatter(lead, flat, input.flatten(lead)).reshape(*before, *sizes)


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 output_size: Any = None) -> Tensor:
    """Maxima where `max_pool1d` found them, zeros elsewhere: (N, C, L) or (C, L).

    Args:
        input, indices: what `max_pool1d` gave with `return_indices`.
        kernel_size, stride, padding: what it was given.
        output_size: the result's size, where several sizes give this one.
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 output_size: Any = None) -> Tensor:
    """`max_unpool1d` over two axes."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
                 output_size: Any = None) -> Tensor:
    """`max_unpool1d` over three axes."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# --- windows drawn at random ---------------------------------------------------------------------------------------

_AXES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _starts(sample: Tensor, n: int, kernel: int, count: int) -> Tensor:
    """int64 (N, C, count): where the windows of an axis begin, at steps that a number in [0, 1) shifts."""
    i = jitgrad.arange(count, device=sample.device)
    if count == 1:
        return (i + (n - kernel)).expand(*sample.shape, 1)
    step = (n - kernel) / (count - 1)
    shift = sample.unsqueeze(-1)
    at = jitgrad.floor((i + shift) * step) - jitgrad.floor(shift * step)
    return jitgrad.where(i == count - 1, n - kernel, at.to(jitgrad.int64))


def _fractional_max_pool(rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any,
                         samples: Tensor | None) -> Any:
    fn = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{fn} requires specifying either an output_size or an output_ratio")
    if input.dim() not in (rank + 1, rank + 2):
        raise RuntimeError(f"{fn}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(input.shape)}")
    x = input if input.dim() == rank + 2 else input.unsqueeze(0)
    sizes = tuple(x.shape)[2:]
    kernel = _each(kernel_size, rank)
    if output_size is None:
        ratios = _each(output_ratio, rank)
        counts = [int(sizes[i] * ratios[i]) for i in range(rank)]
    else:
        counts = _each(output_size, rank)
    if len(counts) != rank or len(kernel) != rank:
        raise RuntimeError(f"{fn}: output_size must either be a single Int or tuple of Ints")
    for i in range(rank):
        if counts[i] + kernel[i] - 1 > sizes[i]:
            raise RuntimeError(f"{fn}(): pool {_AXES[rank][i]} {kernel[i]} too large relative to input "
                               f"{_AXES[rank][i]} {sizes[i]}")
    if samples is None:
        samples = jitgrad.rand(x.shape[0], x.shape[1], rank, dtype=x.dtype, device=x.device)
    place: Any = 0
    for i in range(rank):
        number = rank - 1 - i if rank == 2 else i  # torch draws a plane's width first, and a volume's time
        begin = _starts(samples.select(-1, number), sizes[i], kernel[i], counts[i])
        at = begin.unsqueeze(-1) + jitgrad.arange(kernel[i], device=x.device)
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = counts[i], kernel[i]
        place = place * sizes[i] + at.reshape(*begin.shape[:2], *shape)
    place = place.flatten(2 + rank)
    windows = x.flatten(2).gather(2, place.flatten(2)).reshape(place.shape)
    best = windows.argmax(-1, keepdim=True)
    values, indices = windows.gather(-1, best).squeeze(-1), place.gather(-1, best).squeeze(-1)
    return (values, indices) if input.dim() == rank + 2 else (values.squeeze(0), indices.squeeze(0))


def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: Sizes, output_size: Any = None,
                                       output_ratio: Any = None, return_indices: bool = False,
                                       _random_samples: Tensor | None = None) -> Any:
    """(maxima, indices): see `fractional_max_pool2d`."""
    return _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(input: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None,
                          return_indices: bool = False, _random_samples: Tensor | None = None) -> Any:
    """The maxima of windows of (N, C, H, W) or (C, H, W) that begin at places drawn at random.

    Args:
        kernel_size: the windows' size, one number or two.
        output_size: how many windows an axis has, or
        output_ratio: how many for each of its elements.
        return_indices: whether to return also where the maxima were.

    Raises:
        ValueError: neither a size nor a ratio. RuntimeError: more windows than fit.

    Source: Graham, "Fractional Max-Pooling", 2014.
    """
    found = _fractional_max_pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: Sizes, output_size: Any = None,
                                       output_ratio: Any = None, return_indices: bool = False,
                                       _random_samples: Tensor | None = None) -> Any:
    """(maxima, indices): see `fractional_max_pool3d`."""
    return _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d(input: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None,
                          return_indices: bool = False, _random_samples: Tensor | None = None) -> Any:
    """`fractional_max_pool2d` over three axes."""
    found = _fractional_max_pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


__all__ = ["adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices",
           "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
           "fractional_max_pool3d_with_indices", "max_pool1d_with_indices", "max_pool2d_with_indices",
           "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d"]
