"""Images read at places that a grid gives: `affine_grid` and `grid_sample`, plain Python in the scriptable subset.

Source: Jaderberg et al., "Spatial Transformer Networks", 2015.
"""

from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.library.classes import reshaped

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}

#: of an image's axes, whose number is a key, the neighbours between which a place lies: 0, the one before, or 1
_CORNERS = {2: ((0, 0), (0, 1), (1, 0), (1, 1)),
            3: ((0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1))}


def _line(n: int, align_corners: bool, like: Tensor) -> Any:
    """The places of n elements in [-1, 1], the first and last on the ends with `align_corners`."""
    i = jitgrad.arange(n, dtype=like.dtype, device=like.device) * 2 - (n - 1)
    return i / max(n - 1, 1) if align_corners else i / n


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of `grid_sample` that an affine map makes of the result's own places.

    Args:
        theta: the maps, float (N, 2, 3), or (N, 3, 4) of volumes.
        size: the result's (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the centres of the first and last elements (else their outer borders).

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3), the last axis in the order of x, y, z.

    Raises:
        ValueError, NotImplementedError: shapes of theta and size that do not fit, a theta of integers, an empty size.
    """
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError("affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
                                  f"respectively. Got size {tuple(size)}.")
    if theta.dim() != 3 or theta.shape[-2] != rank or theta.shape[-1] != rank + 1:
        raise ValueError(f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
                         f"{tuple(size)}. Got {theta.shape}.")
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    spatial = tuple(size)[2:]
    parts = []
    for axis in range(rank - 1, -1, -1):
        line = _line(spatial[axis], bool(align_corners), theta)
        parts.append(line.reshape([-1 if i == axis else 1 for i in range(rank)]).expand(spatial))
    parts.append(jitgrad.ones_like(parts[0]))
    base = jitgrad.stack(parts, -1).reshape(1, -1, rank + 1)
    grid: Tensor = jitgrad.matmul(base, theta.mT)
    return reshaped(grid, (size[0], *spatial, rank))


# --- places --------------------------------------------------------------------------------------------------------


def _clipped(x: Tensor, last: int) -> Any:
    """x between 0 and `last`, with no slope on the ends; NaN is the first place, as in torch."""
    return jitgrad.where(x > 0, jitgrad.where(x >= last, last * 1.0, x), 0.0)


def _reflected(x: Tensor, n: int, align_corners: bool) -> Any:
    """x mirrored, as often as needed, at the first and last elements' centres or outer borders."""
    low = 0.0 if align_corners else -0.5
    span = max(n - 1, 1) if align_corners else n
    x = (x - low).abs()
    flips = jitgrad.floor(x / span)
    rest = x - flips.detach() * span
    return jitgrad.where(flips % 2 == 0, rest + low, span - rest + low)


def _padded(x: Tensor, n: int, padding_mode: str, align_corners: bool) -> Any:
    """Where among the n elements of an axis a place counts; outside of them with "zeros" where it is."""
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        x = _reflected(x, n, align_corners)
    return _clipped(x, n - 1)


def _read(image: Tensor, places: Any, sizes: Any) -> Any:
    """(N, C, P): the elements of (N, C, S) at whole places along its axes, (N, P) each; zeros outside."""
    index: Any = 0
    inside: Any = None
    for i in range(len(places)):
        at = places[i]
        within = (at >= 0) & (at <= sizes[i] - 1)
        inside = within if inside is None else inside & within
        index = index * sizes[i] + jitgrad.where(within, at, 0.0).to(jitgrad.int64)
    index = jitgrad.where(inside, index, 0).unsqueeze(1)
    found = image.gather(2, index.expand(-1, image.shape[1], -1))
    return jitgrad.where(inside.unsqueeze(1), found, 0.0)


# --- samples -------------------------------------------------------------------------------------------------------


def _linear(image: Tensor, places: Any, sizes: Any) -> Any:
    below = [jitgrad.floor(at).detach() for at in places]
    total: Any = None
    for corner in _CORNERS[len(sizes)]:
        weight: Any = None
        at = []
        for i in range(len(sizes)):
            share = places[i] - below[i] if corner[i] else below[i] + 1 - places[i]
            weight = share if weight is None else weight * share
            at.append(below[i] + corner[i])
        term = _weighted(_read(image, at, sizes), weight)
        total = term if total is None else total + term
    return total


def _weighted(values: Tensor, weight: Tensor) -> Tensor:
    """Values times a weight; what is zero outside is zero whatever that is."""
    return values * weight.unsqueeze(1)


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """Keys' kernel with a = -3/4 at the four neighbours. Source: Keys, "Cubic convolution interpolation", 1981."""
    a = -0.75
    near = [((a + 2) * s - (a + 3)) * s * s + 1 for s in (t, 1 - t)]
    far = [((a * s - 5 * a) * s + 8 * a) * s - 4 * a for s in (t + 1, 2 - t)]
    return [far[0], near[0], near[1], far[1]]


def _cubic(image: Tensor, places: Any, sizes: Any, padding_mode: str, align_corners: bool) -> Any:
    below = [jitgrad.floor(at).detach() for at in places]
    down, across = [_cubic_weights(places[i] - below[i]) for i in range(2)]
    total: Any = None
    for i in range(4):
        row: Any = None
        for j in range(4):
            at = [_padded(below[k] + (i, j)[k] - 1, sizes[k], padding_mode, align_corners) for k in range(2)]
            term = _weighted(_read(image, at, sizes), across[j])
            row = term if row is None else row + term
        row = _weighted(row, down[i])
        total = row if total is None else total + row
    return total


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:
    """The elements of an image at the places of a grid.

    Args:
        input: float (N, C, H, W) or (N, C, D, H, W).
        grid: (N, Ho, Wo, 2) or (N, Do, Ho, Wo, 3), of the input's dtype: x, y (and z), where -1 and 1 are the ends.
        mode: "bilinear" (of volumes trilinear), "nearest", or of images "bicubic".
        padding_mode: what is outside: "zeros", the nearest element ("border"), or the image mirrored ("reflection").
        align_corners: whether -1 and 1 are the centres of the first and last elements (else their outer borders).

    Returns:
        (N, C, Ho, Wo) or (N, C, Do, Ho, Wo).

    Raises:
        ValueError: another mode. RuntimeError: shapes or dtypes that do not fit.
    """
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but "
                         f"got: '{mode}'")
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
                         f"but got: '{padding_mode}'")
    _check(input, grid, mode)
    align = bool(align_corners)
    rank = input.dim() - 2
    sizes = tuple(input.shape)[2:]
    image = input.flatten(2)
    places = []
    for i in range(rank):
        g = grid.select(-1, rank - 1 - i).flatten(1)
        n = sizes[i]
        places.append((g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2)
    found: Tensor
    if mode == "bicubic":
        found = _cubic(image, places, sizes, padding_mode, align)
    else:
        places = [_padded(places[i], sizes[i], padding_mode, align) for i in range(rank)]
        if mode == "nearest":
            found = _read(image, [jitgrad.round(at) for at in places], sizes)
        else:
            found = _linear(image, places, sizes)
    return reshaped(found, (input.shape[0], input.shape[1], *tuple(grid.shape)[1:-1]))


def _check(input: Tensor, grid: Tensor, mode: str) -> None:
    """RuntimeError, in torch's words, for what does not fit."""
    rank = input.dim() - 2
    if input.dim() < 3 or input.shape[0] != grid.shape[0]:
        raise RuntimeError("grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
                           f"{list(input.shape)} and grid with sizes {list(grid.shape)}")
    if grid.shape[-1] != rank:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {rank} in last dimension, but got grid with "
                           f"sizes {list(grid.shape)}")
    if rank not in (2, 3) or grid.dim() != rank + 2:
        raise RuntimeError("grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
                           f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}")
    if rank == 3 and mode == "bicubic":
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"grid_sampler_{rank}d_cpu_kernel_impl\" not implemented for '{input.dtype.word}'")
    if grid.dtype is not input.dtype:
        raise RuntimeError(f"expected scalar type {input.dtype.word} but found {grid.dtype.word}")
    for i in range(rank):
        if input.shape[i + 2] <= 0:
            raise RuntimeError("grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
                               f"sizes {list(input.shape)} with dimension {i + 2} being empty")


__all__ = ["GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "affine_grid", "grid_sample"]
