"""Draws from further distributions, made of uniform and normal numbers."""

import math
from typing import Any

from jitgrad.dtypes import float32
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import Number, apply, as_operand, cast, require_floating, write
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import require

__library__ = True


def _uniform(x: Any, generator: Any) -> Any:
    return backend().draw("uniform", tuple(x.shape), x.dtype, x, generator)


def _require_numbers(function: str, **given: Any) -> None:
    """TypeError for a tensor where torch takes numbers."""
    for name, x in given.items():
        if isinstance(x, AnyTensor):
            raise TypeError(f"{function}(): argument '{name}' must be float, not Tensor")


def cauchy_(input: AnyTensor[Tensor], median: Number = 0.0, sigma: Number = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with Cauchy numbers. RuntimeError for a sigma that is not positive."""
    _require_numbers("cauchy_", median=median, sigma=sigma)
    d = require_floating("cauchy_", input.dtype)
    require(sigma > 0.0, RuntimeError, "cauchy_ expects sigma > 0.0, but found sigma=", sigma)
    angle = apply("mul", apply("sub", _uniform(input, generator), as_operand(0.5, d)), as_operand(math.pi, d))
    return write(input, apply("add", apply("mul", apply("tan", angle), as_operand(sigma, d)), as_operand(median, d)))


def log_normal_(input: AnyTensor[Tensor], mean: Number = 1.0, std: Number = 2.0, *, generator: Any = None) -> Tensor:
    """Overwrite with numbers whose logarithms are normal. RuntimeError for an std that is not positive."""
    _require_numbers("log_normal_", mean=mean, std=std)
    d = require_floating("log_normal_", input.dtype)
    require(std > 0.0, RuntimeError, "log_normal_ expects std > 0.0, but found std=", std)
    normal = backend().draw("normal", tuple(input.shape), d, input, generator)
    return write(input, apply("exp", apply("add", apply("mul", normal, as_operand(std, d)), as_operand(mean, d))))


def geometric_(input: AnyTensor[Tensor], p: Number, *, generator: Any = None) -> Tensor:
    """Overwrite with how many trials a success of chance p takes, 1 at least. RuntimeError for p outside (0, 1)."""
    _require_numbers("geometric_", p=p)
    for inside in (p > 0, p < 1):
        require(inside, RuntimeError, "geometric_ expects p to be in (0, 1), but got p=", p)
    d = input.dtype if input.dtype.is_floating_point and not input.dtype.is_half else float32
    u = backend().draw("uniform", tuple(input.shape), d, input, generator)
    failure = apply("log1p", apply("neg", as_operand(p, d)))
    trials = apply("ceil", apply("div", apply("log1p", apply("neg", u)), failure))
    return write(input, cast(apply("maximum", trials, as_operand(1.0, d)), input.dtype))


complete(globals())
__all__: list[str] = []
