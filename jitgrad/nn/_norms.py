"""Norms whose order may be known only at run time, such as an attribute of a module."""

from __future__ import annotations

import math

from jitgrad.eager.tensor import Tensor
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
