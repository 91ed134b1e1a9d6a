"""Affine maps."""

import math
from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F, init
from jitgrad.nn.module import Family, Module
from jitgrad.nn.parameter import Parameter, unset


class Identity(Module):
    """Gives its argument back; takes and ignores any arguments when it is made."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Linear(Module):
    """x W^T + b.

    Args:
        in_features: the size of the input's last axis.
        out_features: the size of the output's last axis.
        bias: whether there is a b.

    Attributes:
        weight: (out_features, in_features), uniform in +-1 / sqrt(in_features).
        bias: (out_features,), uniform in the same range, or None.
    """

    bias: Parameter | None
    _shown = ("in_features", "out_features", "bias")

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
                 dtype: dtype | None = None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(jitgrad.empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", unset(bias, out_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return F.linear(input, self.weight, self.bias)


class Bilinear(Module):
    """x1^T A x2 + b, with a matrix A for each output.

    Attributes:
        weight: (out_features, in1_features, in2_features), uniform in +-1 / sqrt(in1_features).
        bias: (out_features,), uniform in the same range, or None.
    """

    bias: Parameter | None
    _shown = ("in1_features", "in2_features", "out_features", "bias")

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: Any = None,
                 dtype: dtype | None = None):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(jitgrad.empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", unset(bias, out_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(..., in1_features), (..., in2_features) -> (..., out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)


class Flatten(Family, shown=("start_dim", "end_dim")):
    """Joins axes start_dim to end_dim."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """(N, ...) -> (N, the product of the rest) by default."""
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Family, shown=("dim", "unflattened_size")):
    """Splits an axis into several of the given sizes."""

    def __init__(self, dim: int, unflattened_size: tuple[int, ...] | list[int]):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """(..., product of sizes, ...) -> (..., *sizes, ...)."""
        return input.unflatten(self.dim, self.unflattened_size)


__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]
