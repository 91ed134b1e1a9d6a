"""Images of other sizes: padding by what is there, nearest and interpolated elements, pixels into channels and back."""

import functools
from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import bool_, dtype, float32, float64, int64, uint8
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor, own
from jitgrad.ops.library.classes import along
from jitgrad.ops.library.core import apply, as_operand, cast, create, require_tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import clone, take_slice
from jitgrad.ops.library.sizes import maximum, require, size_of, static_int, text

__library__ = True

# --- padding -------------------------------------------------------------------------------------------------------

_COMBINATIONS = """Supported combinations for non-constant padding:
  - 2D or 3D input: padding size = 2 (pads last dimension)
  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)
  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"""

_KERNELS = {"reflect": "reflection_pad", "replicate": "replication_pad"}  # torch's, which do not have bool


def pad_by_index(input: Any, pad: Sequence[Any], mode: str) -> Any:
    """torch's pad list (last axis first) with elements of the input: "reflect", "replicate" or "circular"."""
    given = require_tensor("pad", input)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    axes = len(pad) // 2
    if axes not in (1, 2, 3) or input.ndim not in (axes + 1, axes + 2):
        raise NotImplementedError(f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\n"
                                  f"{_COMBINATIONS}")
    if mode == "replicate" or (mode == "reflect" and axes < 3):
        input = widen(input, "cpu")
    shape = tuple(input.shape)
    for number in range(axes):
        axis = input.ndim - 1 - number
        before, after = size_of(pad[2 * number]), size_of(pad[2 * number + 1])
        if not (isinstance(before, int) and before == 0 and isinstance(after, int) and after == 0):
            input = _padded(input, axis, before, after, mode, number, shape)
    if mode in _KERNELS and input.dtype is bool_:
        raise NotImplementedError(f"\"{_KERNELS[mode]}{axes}d\" not implemented for 'Bool'")
    return clone(input) if input is given else input


def _padded(x: Any, axis: int, before: Any, after: Any, mode: str, number: int, shape: tuple[Any, ...]) -> Any:
    n = x.shape[axis]
    if mode == "circular":  # what a negative size takes off does not come back
        less = maximum(0 - before, 0), maximum(0 - after, 0)
        before, after = maximum(before, 0), maximum(after, 0)
        if not all(isinstance(m, int) and m == 0 for m in less):
            require(n - less[0] - less[1] >= 0, RuntimeError,
                    "Negative padding value is resulting in an empty dimension")
            x = take_slice(x, axis, less[0], n - less[0] - less[1])
            n = x.shape[axis]
    if mode == "reflect":
        for p in (before, after):
            require(p < n, RuntimeError, f"Argument #{4 + 2 * number}: Padding size should be less than the "
                    "corresponding input dimension, but got: padding (", before, ", ", after,
                    f") at dimension {axis} of input ", text(shape))
    elif mode == "circular":
        for p in (before, after):
            require(p <= n, RuntimeError, "Padding value causes wrapping around more than once.")
    else:
        require(n >= 1, RuntimeError, f"Expected {x.ndim - 1}D or {x.ndim}D (batch mode) tensor with possibly 0 batch "
                "size and other non-zero dimensions for input, but got: ", text(shape))
    length = before + n + after
    require(length >= 1, RuntimeError, "input (", n, ") is too small. Calculated output size: ", length)
    last = as_operand(n - 1, int64)
    i = apply("sub", create("arange", x, length=length, dtype=int64), as_operand(before, int64))
    if mode == "reflect":
        i = apply("sub", last, apply("abs", apply("sub", last, apply("abs", i))))
    elif mode == "replicate":
        i = apply("minimum", apply("maximum", i, as_operand(0, int64)), last)
    else:
        i = apply("remainder", i, as_operand(n, int64))
    return apply("index", x, i, axes=(axis,))


# --- other sizes ---------------------------------------------------------------------------------------------------


def _ratio(n: Any, out: Any, ratio: Any, d: dtype) -> Any:
    """Elements of the input per element of the result, 0-dim."""
    if ratio is not None:
        return as_operand(ratio, d)
    return apply("div", as_operand(n, d), as_operand(out, d))


def _places(x: Any, out: Any, d: dtype, shift: float) -> Any:
    i = create("arange", x, length=out, dtype=d)
    return apply("add", i, as_operand(shift, d)) if shift else i


def _clipped(i: Any, n: Any) -> Any:
    return apply("minimum", apply("maximum", i, as_operand(0, int64)), as_operand(n - 1, int64))


def _nearest(x: Any, axis: int, out: Any, ratio: Any, shift: float) -> Any:
    n = x.shape[axis]
    at = apply("mul", _places(x, out, float32, shift), _ratio(n, out, ratio, float32))
    return apply("index", x, _clipped(cast(apply("floor", at), int64), n), axes=(axis,))


def _spaces(n: Any, out: Any, d: dtype) -> Any:
    """The same where the corner elements' centres coincide."""
    return apply("div", as_operand(n - 1, d), apply("maximum", as_operand(out - 1, d), as_operand(1, d)))


def _source(x: Any, n: Any, out: Any, ratio: Any, align: bool, d: dtype) -> Any:
    """Where the result's elements lie among the input's."""
    if align:
        return apply("mul", _places(x, out, d, 0.0), _spaces(n, out, d))
    at = apply("mul", _places(x, out, d, 0.5), _ratio(n, out, ratio, d))
    return apply("sub", at, as_operand(0.5, d))


def _linear(x: Any, n: Any, out: Any, ratio: Any, align: bool, d: dtype) -> list[tuple[Any, Any]]:
    at = apply("maximum", _source(x, n, out, ratio, align, d), as_operand(0, d))
    first = _clipped(cast(apply("floor", at), int64), n)
    second = _clipped(apply("add", first, as_operand(1, int64)), n)
    part = apply("minimum", apply("sub", at, cast(first, d)), as_operand(1, d))
    return [(first, apply("sub", as_operand(1, d), part)), (second, part)]


def _cubic(x: Any, n: Any, out: Any, ratio: Any, align: bool, d: dtype) -> list[tuple[Any, Any]]:
    """Keys' convolution with a = -3/4. Source: Keys, "Cubic convolution interpolation", 1981."""
    at = _source(x, n, out, ratio, align, d)
    below = apply("floor", at)
    t, start = apply("sub", at, below), cast(below, int64)
    return [(_clipped(apply("add", start, as_operand(k, int64)), n),
             _keys(apply("abs", apply("sub", t, as_operand(k, d))), d, -0.75, near=k in (0, 1))) for k in range(-1, 3)]


#: mode -> for the elements of a result along an axis, the elements of the input that each is of and their weights
_TAPS = {"linear": _linear, "bilinear": _linear, "trilinear": _linear, "bicubic": _cubic}


def _keys(s: Any, d: dtype, a: float, near: bool) -> Any:
    """The kernel at distance s: at most 1, or between 1 and 2."""
    def polynomial(*coefficients: float) -> Any:
        value = as_operand(coefficients[0], d)
        for c in coefficients[1:]:
            value = apply("add", apply("mul", value, s), as_operand(c, d))
        return value

    return polynomial(a + 2, -(a + 3), 0.0, 1.0) if near else polynomial(a, -5 * a, 8 * a, -4 * a)


def _weighted(x: Any, axis: int, taps: list[tuple[Any, Any]]) -> Any:
    """Weighted sums of elements along an axis."""
    terms = [apply("mul", apply("index", x, i, axes=(axis,)), along(weight, x.ndim, axis)) for i, weight in taps]
    return functools.reduce(lambda total, term: apply("add", total, term), terms)


def _spread(x: Any, n: Any, taps: list[tuple[Any, Any]]) -> Any:
    """The weights as a matrix (out, n)."""
    numbers = create("arange", x, length=n, dtype=int64)
    parts = [apply("mul", cast(apply("eq", apply("unsqueeze", i, axis=1), numbers), w.dtype),
                   apply("unsqueeze", w, axis=1)) for i, w in taps]
    return functools.reduce(lambda total, part: apply("add", total, part), parts)


def _smoothed(x: Any, n: Any, out: Any, ratio: Any, align: bool, mode: str, d: dtype) -> Any:
    """Weights (out, n) of a kernel that is as wide as the spaces between the result's elements, if they are wider."""
    spaces = _spaces(n, out, d) if align else _ratio(n, out, ratio, d)
    centres = apply("unsqueeze", apply("mul", _places(x, out, d, 0.5), spaces), axis=1)
    wide = apply("maximum", spaces, as_operand(1, d))
    s = apply("abs", apply("div", apply("sub", _places(x, n, d, 0.5), centres), wide))
    if mode == "bicubic":
        zero = as_operand(0, d)
        far = apply("where", apply("lt", s, as_operand(2, d)), _keys(s, d, -0.5, near=False), zero)
        weights = apply("where", apply("lt", s, as_operand(1, d)), _keys(s, d, -0.5, near=True), far)
    else:
        weights = apply("maximum", apply("sub", as_operand(1, d), s), as_operand(0, d))
    return apply("div", weights, apply("sum", weights, axes=(1,), keepdim=True))


def _times(x: Any, axis: int, weights: Any) -> Any:
    """Weights (out, n) times an axis of n of (N, C, H, W)."""
    if axis == 2:
        return apply("matmul", weights, x)
    return apply("matmul", x, apply("permute", weights, axes=(1, 0)))


def _of_bytes(x: Any, axis: int, weights: Any) -> Any:
    """The same of uint8, as PyTorch and Pillow: with weights of at most 15 bits, the result rounded and clipped."""
    def number(value: float) -> Any:
        return as_operand(value, float64)

    largest = apply("amax", weights, axes=(0, 1), keepdim=False)
    bits = apply("sub", apply("ceil", apply("log2", apply("div", number(2.0 ** 15 - 0.5), largest))), number(1))
    scale = apply("exp2", apply("minimum", bits, number(22)))
    whole = apply("mul", apply("sign", weights),
                  apply("floor", apply("add", apply("mul", apply("abs", weights), scale), number(0.5))))
    mean = apply("div", _times(cast(x, float64), axis, whole), scale)
    rounded = apply("floor", apply("add", mean, number(0.5)))
    return cast(apply("minimum", apply("maximum", rounded, number(0)), number(255)), uint8)


def resize(input: AnyTensor[Tensor], sizes: Sequence[Any], ratios: Sequence[Any] | None, mode: str,
           align_corners: bool, antialias: bool = False) -> Tensor:
    """(N, C, *spatial) with other spatial sizes; `ratios`: input elements per result element, None: from the sizes."""
    x = widen(input, "cuda")
    wide = cast(x, float32) if x.dtype.is_half else x
    for n, out in zip(tuple(x.shape)[2:], sizes, strict=True):
        for size in (n, out):
            require(size >= 1, RuntimeError, "Input and output sizes should be greater than 0, but got input (", n,
                    ") and output (", out, ")")
    for number, out in reversed(list(enumerate(sizes))):
        axis, ratio = number + 2, None if ratios is None else ratios[number]
        n, d = wide.shape[axis], float64 if wide.dtype is uint8 else wide.dtype
        if mode in ("nearest", "nearest-exact"):
            wide = _nearest(wide, axis, out, ratio, 0.5 if mode == "nearest-exact" else 0.0)
        elif antialias:
            weights = _smoothed(wide, n, out, ratio, align_corners, mode, d)
            wide = _of_bytes(wide, axis, weights) if wide.dtype is uint8 else _times(wide, axis, weights)
        else:
            taps = _TAPS[mode](wide, n, out, ratio, align_corners, d)
            wide = _of_bytes(wide, axis, _spread(wide, n, taps)) if wide.dtype is uint8 else _weighted(wide, axis, taps)
    return cast(wide, x.dtype)


# --- pixels and channels -------------------------------------------------------------------------------------------


def _factor(fn: str, argument: str, input: Any, value: Any) -> int:
    """The factor of a function over (..., C, H, W), both checked."""
    require_tensor(fn, input)
    r = static_int(value)
    if input.ndim < 3:
        raise RuntimeError(f"{fn} expects input to have at least 3 dimensions, but got input with {input.ndim} "
                           "dimension(s)")
    if r <= 0:
        raise RuntimeError(f"{fn} expects a positive {argument}, but got {r}")
    return r


def pixel_shuffle(input: AnyTensor[Tensor], upscale_factor: int) -> Tensor:
    """(..., C r^2, H, W) -> (..., C, H r, W r). Source: Shi et al., 2016."""
    r = _factor("pixel_shuffle", "upscale_factor", input, upscale_factor)
    *lead, c, h, w = input.shape
    require(c % (r * r) == 0, RuntimeError, "pixel_shuffle expects its input's 'channel' dimension to be divisible by "
            "the square of upscale_factor, but input.size(-3)=", c, f" is not divisible by {r * r}")
    m = len(lead)
    x = apply("reshape", input, shape=(*lead, c // (r * r), r, r, h, w))
    x = apply("permute", x, axes=(*range(m), m, m + 3, m + 1, m + 4, m + 2))
    x = apply("reshape", x, shape=(*lead, c // (r * r), h * r, w * r))
    return clone(x) if r == 1 else x


def pixel_unshuffle(input: AnyTensor[Tensor], downscale_factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`: (..., C, H r, W r) -> (..., C r^2, H, W)."""
    r = _factor("pixel_unshuffle", "downscale_factor", input, downscale_factor)
    *lead, c, h, w = input.shape
    for size, name, axis in ((h, "height", -2), (w, "width", -1)):
        require(size % r == 0, RuntimeError, f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({axis})=", size, f" is not divisible by {r}")
    m = len(lead)
    x = apply("reshape", input, shape=(*lead, c, h // r, r, w // r, r))
    x = apply("permute", x, axes=(*range(m), m, m + 2, m + 4, m + 1, m + 3))
    x = apply("reshape", x, shape=(*lead, c * (r * r), h // r, w // r))
    return clone(x) if r == 1 else x


def channel_shuffle(input: AnyTensor[Tensor], groups: int) -> Tensor:
    """Channels (axis 1) of `groups` groups, interleaved."""
    g = static_int(groups)
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {text(input.shape)}")
    n, c, *rest = input.shape
    require(c % g == 0, RuntimeError, "Number of channels must be divisible by groups. Got ", c, f" channels and {g} "
            "groups.")
    x = apply("reshape", input, shape=(n, g, c // g, *rest))
    x = apply("permute", x, axes=(0, 2, 1, *range(3, x.ndim)))
    return own(apply("reshape", apply("contiguous", x), shape=(n, c, *rest)))


complete(globals())

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]
