"""Convolutions."""

import math
from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F, init
from jitgrad.nn.module import Family
from jitgrad.nn.parameter import Parameter, unset

Sizes = int | tuple[int, ...]
_MODES = {"zeros", "reflect", "replicate", "circular"}


def _tuple(value: Any, rank: int) -> tuple[int, ...]:
    """One number per axis."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class _ConvNd(Family):
    """What all convolutions are made of.

    Args:
        in_channels, out_channels: C and O; both divisible by groups.
        kernel_size, stride, dilation: one number, or one per axis.
        padding: one number, or one per axis; "same" or "valid".
        groups: into how many parts the channels are split, each with its own filters.
        bias: whether there is a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Attributes:
        weight: (O, C / groups, *kernel_size), transposed (C, O / groups, *kernel_size); uniform in +-1 / sqrt(fan in).
        bias: (O,), uniform in the same range, or None.
    """

    bias: Parameter | None

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                 transposed: bool, output_padding: Any, groups: int, bias: bool, padding_mode: str, device: Any = None,
                 dtype: dtype | None = None):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        rank = self._rank
        self.in_channels, self.out_channels = in_channels, out_channels
        self.groups, self.transposed = groups, transposed
        self.kernel_size, self.stride = _tuple(kernel_size, rank), _tuple(stride, rank)
        self.dilation, self.output_padding = _tuple(dilation, rank), _tuple(output_padding, rank)
        self.padding: str | tuple[int, ...]
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
            self.padding = padding
        else:
            self.padding = _tuple(padding, rank)
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {_MODES}, but got padding_mode='{padding_mode}'")
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._frame()
        shape = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(jitgrad.empty(*shape, *self.kernel_size, device=device, dtype=dtype))
        self.register_parameter("bias", unset(bias, out_channels, device=device, dtype=dtype))
        self.reset_parameters()

    def _frame(self) -> list[int]:
        """The padding as `F.pad` takes it: last axis first, before and after."""
        if not isinstance(self.padding, str):
            return [p for axis in reversed(self.padding) for p in (axis, axis)]
        if self.padding == "valid":
            return [0, 0] * len(self.kernel_size)
        totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        return [p for total in reversed(totals) for p in (total // 2, total - total // 2)]

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * len(self.padding), (1,) * len(self.dilation)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        text += self._unusual(padding=zeros, dilation=ones, output_padding=(0,) * len(self.output_padding), groups=1)
        if self.bias is None:
            text += ", bias=False"
        return text + self._unusual(padding_mode="zeros")


class _Conv(_ConvNd):
    """Convolution; a subclass says of which rank."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1,
                 padding: str | Sizes = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device: Any = None, dtype: dtype | None = None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups, bias,
                         padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) -> (N, O, *windows)."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), (0,)
        return self._function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv, rank=1, function=F.conv1d):
    """Convolution of (N, C, L) or (C, L); see `_ConvNd`."""


class Conv2d(_Conv, rank=2, function=F.conv2d):
    """Convolution of (N, C, H, W) or (C, H, W); see `_ConvNd`."""


class Conv3d(_Conv, rank=3, function=F.conv3d):
    """Convolution of (N, C, D, H, W) or (C, D, H, W); see `_ConvNd`."""


class _ConvTransposeNd(_ConvNd):
    """The gradient of a convolution with respect to its input, as a layer."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
                 output_padding: Sizes = 0, groups: int = 1, bias: bool = True, dilation: Sizes = 1,
                 padding_mode: str = "zeros", device: Any = None, dtype: dtype | None = None):
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding,
                         groups, bias, padding_mode, device, dtype)

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """What to add to the smallest size that the stride maps to the input's."""
        if output_size is None:
            return self.output_padding
        rank = len(self.kernel_size)
        lead = input.dim() - rank
        if len(output_size) == lead + rank:
            output_size = output_size[lead:]
        if len(output_size) != rank:
            raise ValueError(f"ConvTranspose{rank}D: for {input.dim()}D input, output_size must have {rank} or "
                             f"{lead + rank} elements (got {len(output_size)})")
        smallest = [(input.shape[lead + i] - 1) * self.stride[i] - 2 * self.padding[i]  # type: ignore[operator]
                    + self.dilation[i] * (self.kernel_size[i] - 1) + 1 for i in range(rank)]
        for i in range(rank):
            if output_size[i] < smallest[i] or output_size[i] > smallest[i] + self.stride[i] - 1:
                largest = [m + s - 1 for m, s in zip(smallest, self.stride, strict=True)]
                raise ValueError(f"requested an output size of {output_size}, but valid sizes range from {smallest} to "
                                 f"{largest} (for an input of {input.shape[lead:]})")
        return tuple([output_size[i] - smallest[i] for i in range(rank)])

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(N, C, *spatial) -> (N, O, *larger)."""
        extra = self._output_padding(input, output_size)
        return self._function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                              self.dilation)


class ConvTranspose1d(_ConvTransposeNd, rank=1, function=F.conv_transpose1d):
    """(N, C, L) or (C, L) made longer by the stride."""


class ConvTranspose2d(_ConvTransposeNd, rank=2, function=F.conv_transpose2d):
    """(N, C, H, W) or (C, H, W) made larger by the stride."""


class ConvTranspose3d(_ConvTransposeNd, rank=3, function=F.conv_transpose3d):
    """(N, C, D, H, W) or (C, D, H, W) made larger by the stride."""


__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
