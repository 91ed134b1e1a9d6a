"""Norms whose order may be known only at run time; the precision in which layers normalise."""

from __future__ import annotations

import math

from jitgrad.eager.tensor import Tensor
from jitgrad.ops.autocast import LOW
from jitgrad.ops.library import reduce as _reduce

Number = bool | int | float


def p_norm(x: Tensor, p: Number, dim: int, keepdim: bool = False) -> Tensor:
    """(sum |x|^p)^(1 / p) along dim. A run-time p is a positive number or inf."""
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


def like(y: Tensor, x: Tensor) -> Tensor:
    """What was computed from `wide(x)`, in the dtype of x where that is of half precision."""
    return y.to(x.dtype) if x.dtype in LOW else y
