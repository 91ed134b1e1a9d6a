"""Layers that put something around their input; `F.pad` with a fixed padding."""

from __future__ import annotations

from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Module

Sizes = int | tuple[int, ...]


class _PadNd(Module):
    """A padding of the last axes: one number, or two per axis, last axis first."""

    mode = "constant"

    def __init__(self, padding: Any, rank: int):
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * rank)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *spatial) or (C, *spatial) -> the same, larger."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """A constant around the input."""

    def __init__(self, padding: Any, value: float, rank: int):
        super().__init__(padding, rank)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """(..., *spatial) -> the same, larger."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A constant around the last axis."""

    def __init__(self, padding: Sizes, value: float):
        super().__init__(padding, value, 1)


class ConstantPad2d(_ConstantPadNd):
    """A constant around the last two axes."""

    def __init__(self, padding: Sizes, value: float):
        super().__init__(padding, value, 2)


class ConstantPad3d(_ConstantPadNd):
    """A constant around the last three axes."""

    def __init__(self, padding: Sizes, value: float):
        super().__init__(padding, value, 3)


class ZeroPad1d(_ConstantPadNd):
    """Zeros around the last axis."""

    def __init__(self, padding: Sizes):
        super().__init__(padding, 0.0, 1)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(_ConstantPadNd):
    """Zeros around the last two axes."""

    def __init__(self, padding: Sizes):
        super().__init__(padding, 0.0, 2)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(_ConstantPadNd):
    """Zeros around the last three axes."""

    def __init__(self, padding: Sizes):
        super().__init__(padding, 0.0, 3)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ReflectionPad1d(_PadNd):
    """Reflections at the edges of the last axis."""

    mode = "reflect"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 1)


class ReflectionPad2d(_PadNd):
    """Reflections at the edges of the last two axes."""

    mode = "reflect"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 2)


class ReflectionPad3d(_PadNd):
    """Reflections at the edges of the last three axes."""

    mode = "reflect"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 3)


class ReplicationPad1d(_PadNd):
    """The edges repeated around the last axis."""

    mode = "replicate"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 1)


class ReplicationPad2d(_PadNd):
    """The edges repeated around the last two axes."""

    mode = "replicate"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 2)


class ReplicationPad3d(_PadNd):
    """The edges repeated around the last three axes."""

    mode = "replicate"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 3)


class CircularPad1d(_PadNd):
    """The other end's elements around the last axis."""

    mode = "circular"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 1)


class CircularPad2d(_PadNd):
    """The other end's elements around the last two axes."""

    mode = "circular"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 2)


class CircularPad3d(_PadNd):
    """The other end's elements around the last three axes."""

    mode = "circular"

    def __init__(self, padding: Sizes):
        super().__init__(padding, 3)


__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
           "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
           "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]
