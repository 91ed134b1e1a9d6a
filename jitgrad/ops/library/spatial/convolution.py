"""Convolutions in torch's signatures. One row serves all ranks: see `ops/rows/convolutions.py`."""

import contextlib
from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import bool_, float32, int64
from jitgrad.errors import NotStatic
from jitgrad.ops.autocast import lower, mode
from jitgrad.ops.backend import AnyTensor, Tensor, own
from jitgrad.ops.library.core import apply, bind, cast, converted, require_castable, require_tensor
from jitgrad.ops.library.elements.parts import complex, imag, real
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import joined, minimum, per_axis, product, require, require_equal, static_int, text

__library__ = True

Sizes = int | Sequence[int]
#: torch's names of dtypes in one of its messages
_NAMES = {"float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
          "int64": "long int", "int32": "int"}


def _static(name: str, value: Any, rank: int) -> tuple[int, ...]:
    """One int per spatial axis, each known now."""
    found = per_axis(value, rank)
    if len(found) != rank:
        raise RuntimeError(f"expected {name} to be a single integer value or a list of {rank} values to match the "
                           f"convolution dimensions, but got {name}={text(found)}")
    return found


def _fixed(size: Any) -> None:
    """Let a kernel's size be a constant in a script, if it is one of an argument: programs are shorter then."""
    if not isinstance(size, int):
        with contextlib.suppress(NotStatic):
            static_int(size)


class _Call:
    """The arguments of a convolution, checked: what the row takes, and the input with a batch axis."""

    def __init__(self, fn: str, input: Any, weight: Any, bias: Any, stride: Any, dilation: Any, groups: Any, rank: int,
                 transposed: bool = False):
        require_tensor(fn, input)
        require_tensor(fn, weight, "weight", 2)
        if mode.low is not None:
            input, weight, bias = lower(input), lower(weight), lower(bias)
        if input.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {fn}, but got "
                               f"input of size: {text(input.shape)}")
        if weight.ndim != rank + 2:
            words = "weight should have at least three dimensions" if weight.ndim < 3 else (
                f"expected a weight of {rank + 2} dimensions, but got one of size {text(weight.shape)}")
            raise RuntimeError(words)
        self.rank, self.groups = rank, static_int(groups)
        if self.groups <= 0:
            raise RuntimeError("non-positive groups is not supported")
        self.stride, self.dilation = _static("stride", stride, rank), _static("dilation", dilation, rank)
        if any(s <= 0 for s in self.stride):
            raise RuntimeError("non-positive stride is not supported")
        if any(d <= 0 for d in self.dilation):
            raise RuntimeError("non-positive dilation is not supported")
        for size in tuple(weight.shape)[2:]:
            _fixed(size)
        if self.groups > 1 and isinstance(weight.shape[1], int):  # depthwise: `groups` says how many channels there are
            _fixed(weight.shape[0])
        self.channels = weight.shape[1] * self.groups if transposed else weight.shape[0]
        require(weight.shape[0] >= self.groups, RuntimeError, f"Given groups={self.groups}, expected weight to be at "
                f"least {self.groups} at dimension 0, but got weight of size {text(weight.shape)} instead")
        if self.groups > 1:
            require(weight.shape[0] % self.groups == 0, RuntimeError, f"Given groups={self.groups}, expected weight to "
                    f"be divisible by {self.groups} at dimension 0, but got weight of size [{text(weight.shape)}] "
                    "instead")
        self.bias, self.transposed, self.given = self._bias(fn, weight, bias, transposed), transposed, (input, weight)
        self.batched, self.dtype = input.ndim == rank + 2, input.dtype
        if self.dtype.is_complex or weight.dtype.is_complex:  # which are convolutions of their parts
            self._require_dtypes()
        wide = float32 if self.dtype.is_half or self.dtype is bool_ or self.dtype is not weight.dtype else self.dtype
        self.input = cast(input if self.batched else apply("unsqueeze", input, axis=0), wide)
        self.weight = cast(weight, wide)

    def _bias(self, fn: str, weight: Any, bias: Any, transposed: bool) -> Any:
        if bias is None:
            return None
        require_tensor(fn, bias, "bias", 3)

        def message() -> str:
            which = "transposed=1, weight" if transposed else "weight"
            return (f"Given {which} of size {text(weight.shape)}, expected bias to be 1-dimensional with "
                    f"{self.channels} elements, but got bias of size {text(bias.shape)} instead")

        if bias.ndim != 1:
            raise RuntimeError(message())
        require_equal(bias.shape[0], self.channels, message)
        return bias

    def _require_dtypes(self) -> None:
        """RuntimeError for two of them; only a transposed convolution casts its bias."""
        input, weight = self.given
        if self.bias is not None and self.bias.dtype is not input.dtype and not (
                self.transposed and not input.dtype.is_complex):
            a, b = (_NAMES.get(x.dtype.name, x.dtype.name) for x in (input, self.bias))
            raise RuntimeError(f"Input type ({a}) and bias type ({b}) should be the same")
        if input.dtype is weight.dtype or input.dtype is bool_ or self.transposed or any(n != 1 for n in self.dilation):
            self._require_kernel(input)
        if input.dtype is not weight.dtype:
            a, b = (f"torch.{x.dtype.word}Tensor" for x in (input, weight))
            raise RuntimeError(f"Input type ({a}) and weight type ({b}) should be the same or input should be a MKLDNN "
                               "tensor and weight is a dense tensor")

    def _require_kernel(self, input: Any) -> None:
        """NotImplementedError as torch raises it: integers other than int64 go only with windows without gaps."""
        d, plain = input.dtype, not self.transposed and all(n == 1 for n in self.dilation)
        if not (d.is_inexact or d is int64 or (plain and d is not bool_)):
            name = f"slow_conv{'_transpose' * self.transposed}{max(self.rank, 2)}d"
            require(input.ndim == self.rank + 2 and input.shape[0] == 0, NotImplementedError,
                    f"\"{name}\" not implemented for '{d.word}'")

    def finish(self, y: Any) -> Any:
        """The row's result as the caller wants it: with the bias, in its dtype, without a batch axis if it had none.

        torch looks at sizes first, so dtypes are looked at here.
        """
        self._require_dtypes()
        y = cast(y, self.dtype)
        if self.bias is not None:
            require_castable([y, self.bias], [y])
            bias = apply("reshape", cast(self.bias, self.dtype), shape=(self.bias.shape[0], *(1,) * self.rank))
            y = apply("add", y, bias)
        return y if self.batched else apply("squeeze", y, axis=0)


def _of_parts(fn: Any, rank: int, x: Any, w: Any, b: Any, how: tuple[Any, ...]) -> Any:
    """A convolution of complex numbers: four of real ones."""
    bias = (None, None) if b is None else (real(b), imag(b))
    return complex(fn(rank, real(x), real(w), bias[0], *how) - fn(rank, imag(x), imag(w), None, *how),
                   fn(rank, real(x), imag(w), bias[1], *how) + fn(rank, imag(x), real(w), None, *how))


def _is_complex(*operands: Any) -> bool:
    """Whether tensors, those that are given, have one complex dtype."""
    found = {x.dtype for x in operands if isinstance(x, AnyTensor)}
    return len(found) == 1 and found.pop().is_complex


def _conv(rank: int, input: AnyTensor[Tensor], weight: AnyTensor[Tensor], bias: AnyTensor[Tensor] | None = None,
          stride: Sizes = 1, padding: Any = 0, dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """Windows of input times weight: (N, C, L) or (C, L), (O, C / groups, k), (O,) give (N, O, windows).

    Padding is one number per axis, "valid" (none) or "same" (as many windows as elements, stride 1). Raises
    RuntimeError in torch's words for sizes and dtypes that do not fit.
    """
    if _is_complex(input, weight, bias):
        return _of_parts(_conv, rank, input, weight, bias, (stride, padding, dilation, groups))
    call = _Call(f"conv{rank}d", input, weight, bias, stride, dilation, groups, rank)
    x = call.input
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"Invalid padding string: '{padding}'")
        pads = (0,) * rank
        if padding == "same":
            if any(s != 1 for s in call.stride):
                raise RuntimeError("padding='same' is not supported for strided convolutions")
            totals = [d * (static_int(k) - 1) for d, k in zip(call.dilation, tuple(weight.shape)[2:], strict=True)]
            pads = tuple([t // 2 for t in totals])
            if any(t % 2 for t in totals):  # one more element at the end
                ends = ((0, 0), (0, 0), *((0, t % 2) for t in totals))
                x = apply("pad", x, pads=ends, value=0)
    else:
        pads = _static("padding", padding, rank)
        if any(p < 0 for p in pads):
            raise RuntimeError("negative padding is not supported")
    y = apply("conv", x, call.weight, stride=call.stride, padding=pads, dilation=call.dilation, groups=call.groups)
    return call.finish(y)


conv1d = bind(_conv, 1, "conv1d")
conv2d = bind(_conv, 2, "conv2d", "`conv1d` over two axes: (N, C, H, W) or (C, H, W), (O, C / groups, kH, kW), (O,).")
conv3d = bind(_conv, 3, "conv3d",
              "`conv1d` over three axes: (N, C, D, H, W) or (C, D, H, W), (O, C / groups, kD, kH, kW), (O,).")

_LETTERS = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}


def _conv_transpose(rank: int, input: AnyTensor[Tensor], weight: AnyTensor[Tensor],
                    bias: AnyTensor[Tensor] | None = None, stride: Sizes = 1, padding: Sizes = 0,
                    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1) -> Tensor:
    """The gradient of `conv1d` with respect to its input, as a map: (N, C, L), (C, O / groups, k) give (N, O, ...).

    `output_padding` says which of the sizes that a stride maps to L is meant.
    """
    if _is_complex(input, weight, bias):
        how = stride, padding, output_padding, groups, dilation
        return _of_parts(_conv_transpose, rank, input, weight, bias, how)
    call = _Call(f"conv_transpose{rank}d", input, weight, bias, stride, dilation, groups, rank, transposed=True)
    pads, extra = _static("padding", padding, rank), _static("output_padding", output_padding, rank)
    if any(p < 0 for p in pads):
        raise RuntimeError("negative padding is not supported")
    if any(e < 0 for e in extra):
        raise RuntimeError("negative output_padding is not supported")
    if any(e >= max(s, d) for e, s, d in zip(extra, call.stride, call.dilation, strict=True)):
        told = [f"{name}_{letter}: {v}" for name, values in (
            ("output_padding", extra), ("stride", call.stride), ("dilation", call.dilation))
            for letter, v in zip(_LETTERS[rank], values, strict=True)]
        raise RuntimeError("output padding must be smaller than either stride or dilation, but got " + " ".join(told))
    x, w = call.input, call.weight
    channels = w.shape[0]
    require_equal(x.shape[1], channels, lambda: (
        f"Given transposed=1, weight of size {text(w.shape)}, expected input{text(x.shape)} to have {channels} "
        f"channels, but got {x.shape[1]} channels instead"))
    some = minimum(product(x.shape[:2]), 1)
    for n in tuple(x.shape)[2:]:
        require(n >= some, RuntimeError, "Only zero batch or zero channel inputs are supported, but got input shape: ",
                text(x.shape))
    sizes = []
    for n, k, s, p, e, d in zip(tuple(x.shape)[2:], tuple(w.shape)[2:], call.stride, pads, extra, call.dilation,
                                strict=True):
        sizes.append((n - 1) * s - 2 * p + d * (k - 1) + e + 1)
    for size in sizes:
        require(size >= some, RuntimeError, "Given input size per channel: (", *joined(tuple(x.shape)[2:], " x "),
                "). Calculated output size per channel: (", *joined(sizes, " x "), "). Output size is too small")
    y = apply("conv_transpose", x, w, shape=(x.shape[0], call.channels, *sizes), stride=call.stride, padding=pads,
              dilation=call.dilation, groups=call.groups)
    return call.finish(y)


conv_transpose1d = bind(_conv_transpose, 1, "conv_transpose1d")
conv_transpose2d = bind(_conv_transpose, 2, "conv_transpose2d", "`conv_transpose1d` over two axes.")
conv_transpose3d = bind(_conv_transpose, 3, "conv_transpose3d", "`conv_transpose1d` over three axes.")

def conv_tbc(input: AnyTensor[Tensor], weight: AnyTensor[Tensor], bias: AnyTensor[Tensor], pad: int = 0) -> Tensor:
    """`conv1d` of (T, B, C) and filters (K, C, O), O biases and `pad` zeros on either side: (T', B, O)."""
    for name, x, position in (("input", input, 1), ("weight", weight, 2), ("bias", bias, 3)):
        require_tensor("conv_tbc", x, name, position)
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    require_equal(input.shape[2], weight.shape[1], lambda: "Input dim 2 (input channels) is not == dim 1 in the weight "
                                                           "tensor")
    if input.dtype is not weight.dtype:
        raise RuntimeError("self and mat2 must have the same dtype, but got "
                           f"{input.dtype.word} and {weight.dtype.word}")
    x, w = apply("permute", input, axes=(1, 2, 0)), apply("permute", weight, axes=(2, 1, 0))
    return own(apply("permute", conv1d(x, w, converted(bias, input.dtype), padding=pad), axes=(2, 0, 1)))


complete(globals())

__all__ = ["conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d"]
