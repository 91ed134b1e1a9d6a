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


class LPPool3d(_LPPoolNd, function=F.lp_pool3d):
    """The p-norms of windows of (N, C, D, H, W)."""


class _MaxUnpoolNd(Family, shown=("kernel_size", "stride", "padding")):
    """Maxima where a pool found them, zeros elsewhere."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0):
        super().__init__()
        self.kernel_size = _tuple(kernel_size, self._rank)
        self.stride = _tuple(kernel_size if stride is None else stride, self._rank)
        self.padding = _tuple(padding, self._rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """(N, C, *windows) and the indices of its pool -> (N, C, *spatial)."""
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


def _tuple(value: Sizes, rank: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class MaxUnpool1d(_MaxUnpoolNd, rank=1, function=F.max_unpool1d):
    """`MaxPool1d` the other way, from its maxima and indices."""


class MaxUnpool2d(_MaxUnpoolNd, rank=2, function=F.max_unpool2d):
    """`MaxPool2d` the other way, from its maxima and indices."""


class MaxUnpool3d(_MaxUnpoolNd, rank=3, function=F.max_unpool3d):
    """`MaxPool3d` the other way, from its maxima and indices."""


class _FractionalMaxPoolNd(Family):
    """The maxima of windows that begin at places drawn at random.

    Raises ValueError unless there is either an output_size or an output_ratio between 0 and 1.
    """

    def __init__(self, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None,
                 return_indices: bool = False, _random_samples: Tensor | None = None):
        super().__init__()
        rank, name = self._rank, type(self).__name__
        self.kernel_size = _tuple(kernel_size, rank)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _tuple(output_size, rank)
        self.output_ratio = None if output_ratio is None else _tuple(output_ratio, rank)
        if self.output_size is None and self.output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if self.output_size is not None and self.output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """(N, C, *spatial) -> (N, C, *output_size); with return_indices also the indices."""
        return self._function(input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
                              self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd, rank=2, function=F.fractional_max_pool2d):
    """The maxima of windows of (N, C, H, W) that begin at places drawn at random; see `F.fractional_max_pool2d`."""


class FractionalMaxPool3d(_FractionalMaxPoolNd, rank=3, function=F.fractional_max_pool3d):
    """The maxima of windows of (N, C, D, H, W) that begin at places drawn at random."""


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
           "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
           "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
           "MaxUnpool3d"]
