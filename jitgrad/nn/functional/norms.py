"""Norms whose order may be known only at run time; the precision in which layers normalise."""

import math
from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.ops.autocast import LOW
from jitgrad.ops.library import reduce as _reduce
from jitgrad.ops.library.classes import along

Number = bool | int | float


def p_norm(x: Tensor, p: Any, dim: int, keepdim: bool = False) -> Tensor:
    """(sum |x|^p)^(1 / p) along dim, without p (or with "fro") that of 2. A run-time p is a positive number or inf."""
    if p is None or p == "fro":
        p = 2.0
    if p == 2.0:
        return _reduce.vector_norm(x, 2, dim, keepdim)
    if p == 1.0:
        return _reduce.vector_norm(x, 1, dim, keepdim)
    if p == math.inf:
        return _reduce.vector_norm(x, math.inf, dim, keepdim)
    return _reduce.vector_norm(x, p, dim, keepdim)


def wide(x: Tensor) -> Tensor:
    """x, in float32 where it is in half precision: moments are computed so, whatever dtype weights have."""
    return x.float() if x.dtype in LOW else x


def moments(x: Tensor, dims: int | tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, distances from it and variance over axes, which stay with size one.

    The variance is a row of its own: its slope does not lead through the mean, whose gradient need not wait for it, so
    that the gradient's sums are made in one pass over what no kernel holds.
    """
    mean = x.mean(dims, keepdim=True)
    return mean, x - mean, x.var(dims, correction=0, keepdim=True)


def follow(running_mean: Tensor, running_var: Tensor, mean: Tensor, variance: Tensor, n: Any, momentum: Number) -> None:
    """Move running moments, in place, by `momentum` towards those of n elements."""
    unbiased = variance * (n / (n - 1))
    running_mean.mul_(1 - momentum).add_(mean * momentum)
    running_var.mul_(1 - momentum).add_(unbiased * momentum)


def scaled(y: Tensor, weight: Tensor | None, bias: Tensor | None, input: Tensor) -> Tensor:
    """y times a weight and plus a bias per channel (axis 1), in the dtype that goes with the input's."""
    if weight is not None:
        y = y * along(weight, y.dim(), 1)
    return like(y if bias is None else y + along(bias, y.dim(), 1), input)


def like(y: Tensor, x: Tensor) -> Tensor:
    """What was computed from `wide(x)`, in the dtype of x where that is of half precision."""
    return y.to(x.dtype) if x.dtype in LOW else y
