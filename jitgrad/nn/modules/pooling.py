"""Pooling layers."""

from __future__ import annotations

from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module

Sizes = int | tuple[int, ...]


class _MaxPoolNd(Module):
    """The maxima of windows; see `F.max_pool2d`."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
                 return_indices: bool = False, ceil_mode: bool = False):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
                f"dilation={self.dilation}, ceil_mode={self.ceil_mode}")


class MaxPool1d(_MaxPoolNd):
    """The maxima of windows of (N, C, L)."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, L) -> (N, C, *windows); with return_indices also the indices."""
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                            self.return_indices)


class MaxPool2d(_MaxPoolNd):
    """The maxima of windows of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, H, W) -> (N, C, *windows); with return_indices also the indices."""
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                            self.return_indices)


class MaxPool3d(_MaxPoolNd):
    """The maxima of windows of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, D, H, W) -> (N, C, *windows); with return_indices also the indices."""
        return F.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                            self.return_indices)


class _AvgPoolNd(Module):
    """The means of windows; see `F.avg_pool2d`."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _single(value: Sizes) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class AvgPool1d(_AvgPoolNd):
    """The means of windows of (N, C, L)."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True):
        kernel = _single(kernel_size)
        super().__init__(kernel, None if stride is None else _single(stride), _single(padding), ceil_mode,
                         count_include_pad)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) -> (N, C, windows)."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class AvgPool2d(_AvgPoolNd):
    """The means of windows of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, *windows)."""
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                            self.divisor_override)


class AvgPool3d(_AvgPoolNd):
    """The means of windows of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) -> (N, C, *windows)."""
        return F.avg_pool3d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                            self.divisor_override)


class _LPPoolNd(Module):
    """The p-norms of windows."""

    def __init__(self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        return (f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
                f"ceil_mode={self.ceil_mode}")


class LPPool1d(_LPPoolNd):
    """The p-norms of windows of (N, C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) -> (N, C, *windows)."""
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """The p-norms of windows of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, *windows)."""
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _AdaptiveAvgPoolNd(Module):
    """The means of a given number of windows, as even as possible."""

    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of output_size windows of (N, C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, L) -> (N, C, *output_size)."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of output_size windows of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, C, *output_size)."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of output_size windows of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, D, H, W) -> (N, C, *output_size)."""
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Module):
    """The maxima of a given number of windows, as even as possible."""

    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maxima of output_size windows of (N, C, L)."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, L) -> (N, C, *output_size); with return_indices also the indices."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The maxima of output_size windows of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, H, W) -> (N, C, *output_size); with return_indices also the indices."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The maxima of output_size windows of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Any:
        """(N, C, D, H, W) -> (N, C, *output_size); with return_indices also the indices."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
           "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "MaxPool1d", "MaxPool2d",
           "MaxPool3d"]
