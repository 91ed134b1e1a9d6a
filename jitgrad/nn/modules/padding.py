"""Layers that put something around their input; `F.pad` with a fixed padding."""

from __future__ import annotations

from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module

Sizes = int | tuple[int, ...]


class _PadNd(Module):
    """A padding of the last `rank` axes: one number, or two per axis, last axis first."""

    rank: int
    mode = "constant"

    def __init__(self, padding: Sizes):
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * self.rank)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial) -> the same, larger."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """A constant around the input."""

    def __init__(self, padding: Sizes, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """(..., *spatial) -> the same, larger."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    """Zeros around the input."""

    def __init__(self, padding: Sizes):
        super().__init__(padding, 0.0)

    extra_repr = _PadNd.extra_repr


class ConstantPad1d(_ConstantPadNd):
    """A constant around the last axis."""

    rank = 1


class ConstantPad2d(_ConstantPadNd):
    """A constant around the last two axes."""

    rank = 2


class ConstantPad3d(_ConstantPadNd):
    """A constant around the last three axes."""

    rank = 3


class ZeroPad1d(_ZeroPadNd):
    """Zeros around the last axis."""

    rank = 1


class ZeroPad2d(_ZeroPadNd):
    """Zeros around the last two axes."""

    rank = 2


class ZeroPad3d(_ZeroPadNd):
    """Zeros around the last three axes."""

    rank = 3


class ReflectionPad1d(_PadNd):
    """Reflections at the edges of the last axis."""

    rank, mode = 1, "reflect"


class ReflectionPad2d(_PadNd):
    """Reflections at the edges of the last two axes."""

    rank, mode = 2, "reflect"


class ReflectionPad3d(_PadNd):
    """Reflections at the edges of the last three axes."""

    rank, mode = 3, "reflect"


class ReplicationPad1d(_PadNd):
    """The edges repeated around the last axis."""

    rank, mode = 1, "replicate"


class ReplicationPad2d(_PadNd):
    """The edges repeated around the last two axes."""

    rank, mode = 2, "replicate"


class ReplicationPad3d(_PadNd):
    """The edges repeated around the last three axes."""

    rank, mode = 3, "replicate"


class CircularPad1d(_PadNd):
    """The other end's elements around the last axis."""

    rank, mode = 1, "circular"


class CircularPad2d(_PadNd):
    """The other end's elements around the last two axes."""

    rank, mode = 2, "circular"


class CircularPad3d(_PadNd):
    """The other end's elements around the last three axes."""

    rank, mode = 3, "circular"


__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
           "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
           "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]
