"""The functions of `functional` over images that are plain Python: other sizes, and norms of instances and neighbours.

`functional` has them under torch's names. Like its other functions they are in the scriptable subset.
"""

import math
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.functional import norms as _norms
from jitgrad.ops.autocast import widen as _widen
from jitgrad.ops.library import classes as _classes
from jitgrad.ops.library.shapes.join import pad_constant
from jitgrad.ops.library.spatial import adaptive_pooling as _adaptive, pooling as _pooling, resampling as _resampling

Number = bool | int | float

_RANKS = {"linear": 3, "bilinear": 4, "trilinear": 5, "bicubic": 4}


def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:
    """(N, C, *spatial) with other spatial sizes: `size`, or floor(size * scale_factor).

    Args:
        input: float (N, C, W), (N, C, H, W) or (N, C, D, H, W).
        size: one size, or one per axis.
        scale_factor: one factor, or one per axis.
        mode: "nearest", "nearest-exact", "linear" (W), "bilinear" (H, W), "bicubic" (H, W), "trilinear", "area".
        align_corners: whether the corner elements' centres, rather than their corners, coincide.
        recompute_scale_factor: take the scale from the sizes, not from scale_factor.
        antialias: for bilinear and bicubic, take means of what lies between the elements of a smaller result.

    Raises:
        ValueError: neither or both of size and scale_factor, or other numbers of them than axes.
        NotImplementedError: a mode for another rank, or integers (but uint8) between which there is nothing.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | "
                             "bicubic | trilinear")
    elif mode not in _RANKS:
        raise NotImplementedError("Input Error: Only 3D, 4D and 5D input Tensors supported (got "
                                  f"{input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | "
                                  f"area | nearest-exact (got {mode})")
    if antialias and (mode not in ("bilinear", "bicubic") or input.dim() != 4):
        raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as "
                         "input")
    axes = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        if isinstance(size, (tuple, list)) and len(size) != axes:
            raise ValueError("Input and output must have the same number of spatial dimensions, but got input with "
                             f"spatial dimensions of {list(input.shape[2:])} and output size of {size}. Please "
                             "provide input tensor in (N, C, d1, d2, ...,dK) format and output size in "
                             "(o1, o2, ...,oK) format.")
        sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,) * axes
        ratios = None
    else:
        if isinstance(scale_factor, (tuple, list)) and len(scale_factor) != axes:
            raise ValueError("Input and scale_factor must have the same number of spatial dimensions, but got input "
                             f"with spatial dimensions of {list(input.shape[2:])} and scale_factor of shape "
                             f"{scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
                             "scale_factor in (s1, s2, ...,sK) format.")
        factors = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * axes
        sizes = tuple([math.floor(input.shape[i + 2] * factors[i]) for i in range(axes)])
        ratios = None if recompute_scale_factor or mode == "area" else tuple([1.0 / f for f in factors])
    if axes not in (1, 2, 3) or (mode in _RANKS and input.dim() != _RANKS[mode]):
        if mode in _RANKS:
            raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {_RANKS[mode]}D input")
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D)")
    if mode == "area":
        if axes == 1:
            return _adaptive.adaptive_avg_pool1d(input, sizes)
        return _adaptive.adaptive_avg_pool2d(input, sizes) if axes == 2 else _adaptive.adaptive_avg_pool3d(input, sizes)
    if mode in ("linear", "trilinear"):
        _classes.require_kernel("compute_indices_weights_linear", input)
    else:
        _classes.require_kernel("compute_indices_weights_" + mode, input, "uint8")
    return _resampling.resize(input, sizes, ratios, mode, bool(align_corners), antialias)


def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Tensor:
    """`interpolate`, under its older name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` by the nearest element, under its older name."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` of (N, C, H, W) between elements, corners on corners, under its older name."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
                  weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
                  momentum: Number = 0.1, eps: Number = 1e-05) -> Tensor:
    """Each channel of each element of (N, C, ...) normalised by its own moments, or by the running ones.

    With use_input_stats the running moments, if any, move towards the batch's average. Raises ValueError for a single
    spatial element. Source: Ulyanov et al., "Instance Normalization", 2016.
    """
    x = _norms.wide(input)
    if use_input_stats or running_mean is None or running_var is None:
        _classes.require_several(input, spatial=True)
        _classes.require_channel_vectors(input, weight, bias)
        _classes.require_floats("batch_norm", input)
    _classes.require_one_dtype(input, weight, bias, running_mean, running_var)
    if use_input_stats or running_mean is None or running_var is None:
        dims = tuple(range(2, input.dim()))
        mean, centred, variance = _norms.moments(x, dims)
        if running_mean is not None and running_var is not None:
            with jitgrad.no_grad():
                each = tuple(input.shape)[:2]
                _norms.follow(running_mean, running_var, mean.detach().reshape(each).mean(0),
                              variance.detach().reshape(each).mean(0),
                              input.numel() / (input.shape[0] * input.shape[1]), momentum)
    else:
        centred = x - _classes.along(running_mean, input.dim(), 1)
        variance = _classes.along(running_var, input.dim(), 1)
    y = centred * jitgrad.rsqrt(variance + eps)
    return _norms.scaled(y, weight, bias, input)


def local_response_norm(input: Tensor, size: int, alpha: Number = 1e-4, beta: Number = 0.75, k: Number = 1.0) -> Tensor:
    """input / (k + alpha * mean of the squares of `size` neighbouring channels)^beta, of (N, C, ...).

    Source: Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012.
    """
    if input.dim() < 3:
        raise ValueError("Expected 3D or higher dimensionality                          input (got "
                         f"{input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    squares = (input * input).flatten(2).unsqueeze(1)
    if input.dim() > 3:
        squares = _widen(squares, "cpu")
        _classes.require_kernel("avg_pool3d_out_frame", squares, "int64", halves=False)
    padded: Tensor = pad_constant(squares, (0, 0, size // 2, (size - 1) // 2), 0.0)
    means = _pooling.avg_pool2d(padded, (size, 1), 1).reshape(input.shape)
    return input / (means * alpha + k) ** beta


__all__ = ["instance_norm", "interpolate", "local_response_norm", "upsample", "upsample_bilinear",
           "upsample_nearest"]
