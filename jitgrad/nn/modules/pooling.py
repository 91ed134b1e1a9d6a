"""Pooling layers: a family has one `forward`, its members the function over their number of axes."""

from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Family

Sizes = int | tuple[int, ...]


class _MaxPoolNd(Family, shown=("kernel_size", "stride", "padding", "dilation", "ceil_mode")):
    """The maxima of windows; see `F.max_pool2d`."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
                 return_indices: bool = False, ceil_mode: bool = False):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """(N, C, *spatial) -> (N, C, *windows); with return_indices also the indices."""
        return self._function(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                              self.return_indices)


class MaxPool1d(_MaxPoolNd, function=F.max_pool1d):
    """The maxima of windows of (N, C, L)."""


class MaxPool2d(_MaxPoolNd, function=F.max_pool2d):
    """The maxima of windows of (N, C, H, W)."""


class MaxPool3d(_MaxPoolNd, function=F.max_pool3d):
    """The maxima of windows of (N, C, D, H, W)."""


class _AvgPoolNd(Family, shown=("kernel_size", "stride", "padding")):
    """The means of windows; see `F.avg_pool2d`."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True, divisor_override: int | None = None):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) -> (N, C, *windows)."""
        return self._function(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                              self.count_include_pad, self.divisor_override)


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


class AvgPool2d(_AvgPoolNd, function=F.avg_pool2d):
    """The means of windows of (N, C, H, W)."""


class AvgPool3d(_AvgPoolNd, function=F.avg_pool3d):
    """The means of windows of (N, C, D, H, W)."""


class _LPPoolNd(Family, shown=("norm_type", "kernel_size", "stride", "ceil_mode")):
    """The p-norms of windows."""

    def __init__(self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) -> (N, C, *windows)."""
        return self._function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd, function=F.lp_pool1d):
    """The p-norms of windows of (N, C, L)."""


class LPPool2d(_LPPoolNd, function=F.lp_pool2d):
    """The p-norms of windows of (N, C, H, W)."""


class _AdaptiveAvgPoolNd(Family, shown=("output_size",)):
    """The means of a given number of windows, as even as possible."""

    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) -> (N, C, *output_size)."""
        return self._function(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd, function=F.adaptive_avg_pool1d):
    """The means of output_size windows of (N, C, L)."""


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd, function=F.adaptive_avg_pool2d):
    """The means of output_size windows of (N, C, H, W)."""


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd, function=F.adaptive_avg_pool3d):
    """The means of output_size windows of (N, C, D, H, W)."""


class _AdaptiveMaxPoolNd(Family, shown=("output_size",)):
    """The maxima of a given number of windows, as even as possible."""

    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        """(N, C, *spatial) -> (N, C, *output_size); with return_indices also the indices."""
        return self._function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd, function=F.adaptive_max_pool1d):
    """The maxima of output_size windows of (N, C, L)."""


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd, function=F.adaptive_max_pool2d):
    """The maxima of output_size windows of (N, C, H, W)."""


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd, function=F.adaptive_max_pool3d):
    """The maxima of output_size windows of (N, C, D, H, W)."""


__all__ = ["AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
           "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "MaxPool1d", "MaxPool2d",
           "MaxPool3d"]
