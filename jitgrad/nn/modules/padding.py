"""Layers that put something around their input; `F.pad` with a fixed padding."""

from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Family

Sizes = int | tuple[int, ...]


class _PadNd(Family, told=("padding",)):
    """A padding of the last `_rank` axes: one number, or two per axis, last axis first."""

    _mode = "constant"

    def __init__(self, padding: Sizes):
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * self._rank)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial) -> the same, larger."""
        return F.pad(input, self.padding, self._mode)


class _ConstantPadNd(_PadNd, told=(), shown=("padding", "value")):
    """A constant around the input."""

    def __init__(self, padding: Sizes, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """(..., *spatial) -> the same, larger."""
        return F.pad(input, self.padding, "constant", self.value)


class _ZeroPadNd(_ConstantPadNd, told=("padding",), shown=()):
    """Zeros around the input."""

    def __init__(self, padding: Sizes):
        super().__init__(padding, 0.0)


class ConstantPad1d(_ConstantPadNd, rank=1):
    """A constant around the last axis."""


class ConstantPad2d(_ConstantPadNd, rank=2):
    """A constant around the last two axes."""


class ConstantPad3d(_ConstantPadNd, rank=3):
    """A constant around the last three axes."""


class ZeroPad1d(_ZeroPadNd, rank=1):
    """Zeros around the last axis."""


class ZeroPad2d(_ZeroPadNd, rank=2):
    """Zeros around the last two axes."""


class ZeroPad3d(_ZeroPadNd, rank=3):
    """Zeros around the last three axes."""


class ReflectionPad1d(_PadNd, rank=1, mode="reflect"):
    """Reflections at the edges of the last axis."""


class ReflectionPad2d(_PadNd, rank=2, mode="reflect"):
    """Reflections at the edges of the last two axes."""


class ReflectionPad3d(_PadNd, rank=3, mode="reflect"):
    """Reflections at the edges of the last three axes."""


class ReplicationPad1d(_PadNd, rank=1, mode="replicate"):
    """The edges repeated around the last axis."""


class ReplicationPad2d(_PadNd, rank=2, mode="replicate"):
    """The edges repeated around the last two axes."""


class ReplicationPad3d(_PadNd, rank=3, mode="replicate"):
    """The edges repeated around the last three axes."""


class CircularPad1d(_PadNd, rank=1, mode="circular"):
    """The other end's elements around the last axis."""


class CircularPad2d(_PadNd, rank=2, mode="circular"):
    """The other end's elements around the last two axes."""


class CircularPad3d(_PadNd, rank=3, mode="circular"):
    """The other end's elements around the last three axes."""


__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
           "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
           "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]
