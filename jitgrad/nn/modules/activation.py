"""Activation functions as modules."""

from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.nn.module import Family, Module
from jitgrad.nn.parameter import Parameter


class _Elementwise(Family):
    """An elementwise function as a layer."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return self._function(input)


class Tanh(_Elementwise, function=jitgrad.tanh):
    """tanh(x)."""


class Sigmoid(_Elementwise, function=jitgrad.sigmoid):
    """1 / (1 + exp(-x))."""


class LogSigmoid(_Elementwise, function=F.logsigmoid):
    """log(sigmoid(x))."""


class Softsign(_Elementwise, function=F.softsign):
    """x / (1 + |x|)."""


class Tanhshrink(_Elementwise, function=F.tanhshrink):
    """x - tanh(x)."""


class _InPlace(_Elementwise):
    """An elementwise function that may overwrite its input."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return ", ".join([text for text in (super().extra_repr(), "inplace=True" if self.inplace else "") if text])


class ReLU(_InPlace, function=F.relu):
    """max(x, 0)."""


class ReLU6(_InPlace, function=F.relu6):
    """min(max(x, 0), 6)."""


class SiLU(_InPlace, function=F.silu):
    """x * sigmoid(x)."""


class Mish(_InPlace, function=F.mish):
    """x * tanh(softplus(x))."""


class SELU(_InPlace, function=F.selu):
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))."""


class Hardsigmoid(_InPlace, function=F.hardsigmoid):
    """relu6(x + 3) / 6."""

    extra_repr = Module.extra_repr


class Hardswish(_InPlace, function=F.hardswish):
    """x * relu6(x + 3) / 6."""

    extra_repr = Module.extra_repr


class LeakyReLU(_InPlace, shown=("negative_slope",)):
    """x where it is positive, else negative_slope * x."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class _ByAlpha(_InPlace, shown=("alpha",)):
    """A function with a parameter alpha, and that function in place, as two."""

    _overwrite: Callable[..., Tensor]

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        return self._overwrite(input, self.alpha) if self.inplace else self._function(input, self.alpha)


class ELU(_ByAlpha, function=F.elu, overwrite=F.elu_):
    """x where it is positive, else alpha * (exp(x) - 1)."""


class CELU(_ByAlpha, function=F.celu, overwrite=F.celu_):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""


class Hardtanh(_InPlace, shown=("min_val", "max_val")):
    """x clamped to [min_val, max_val]."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        super().__init__(inplace)
        if max_val <= min_val:
            raise AssertionError("max_val must be larger than min_val")
        self.min_val, self.max_val = min_val, max_val

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class Threshold(_InPlace, shown=("threshold", "value")):
    """x where it is above the threshold, else value."""

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class RReLU(_InPlace, shown=("lower", "upper")):
    """x where it is positive, else x times a slope: drawn from [lower, upper) while training, else their mean."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False):
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class GELU(Family, shown=("approximate",)):
    """x * Phi(x), exactly or (approximate="tanh") by tanh."""

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.gelu(input, approximate=self.approximate)


class Softplus(Family, shown=("beta", "threshold")):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softplus(input, self.beta, self.threshold)


class _Shrink(_Elementwise, told=("lambd",)):
    """A function that is 0 within lambd of 0."""

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.lambd)


class Hardshrink(_Shrink, function=F.hardshrink):
    """x where |x| > lambd, else 0."""


class Softshrink(_Shrink, function=F.softshrink):
    """x moved by lambd towards 0, and 0 within lambd of it."""


class PReLU(Family, shown=("num_parameters",)):
    """x where it is positive, else weight * x.

    Attributes:
        weight: (num_parameters,); one for all channels, or one for each.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: dtype | None = None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(jitgrad.full((num_parameters,), float(init), device=device,
                                             dtype=dtype or jitgrad.get_default_dtype()))

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise; channels are axis 1."""
        return F.prelu(input, self.weight)


class _OverAxis(Family, shown=("dim",)):
    """A function along an axis."""

    dim: int | None

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The input's shape."""
        return self._function(input, self.dim)


class Softmax(_OverAxis, function=F.softmax):
    """exp(x) / sum(exp(x)) along dim."""


class LogSoftmax(_OverAxis, function=F.log_softmax):
    """log(softmax(x)) along dim."""


class Softmin(_OverAxis, function=F.softmin):
    """softmax(-x) along dim."""


class GLU(Family, shown=("dim",)):
    """a * sigmoid(b), where a and b are the halves of the input along dim."""

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """(..., 2 n, ...) -> (..., n, ...)."""
        return F.glu(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """The input's shape."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


__all__ = ["CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
           "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax",
           "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold"]
