"""What the derivative rules of matrix functions share: parts of matrices in terms of other rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.ops.rules import conjugate, is_complex, transposed


def diagonal_mask(F: Any, n: Any) -> Any:
    """(n, n): whether an element is on the diagonal."""
    k = F.arange(length=n, dtype=int64)
    return F.eq(F.unsqueeze(k, axis=1), F.unsqueeze(k, axis=0))


def triangle(F: Any, x: Any, upper: bool = False, diagonal: float = 1.0) -> Any:
    """A triangle of matrices, their diagonal times a number."""
    row, column = F.unsqueeze(F.arange(length=x.shape[-2], dtype=int64), axis=1), F.unsqueeze(
        F.arange(length=x.shape[-1], dtype=int64), axis=0)
    strict = F.lt(row, column) if upper else F.gt(row, column)
    on = F.where(F.eq(row, column), x * diagonal, 0.0) if diagonal else 0.0
    return F.where(strict, x, on)


def columns(F: Any, x: Any, start: Any, length: Any) -> Any:
    """Some columns of matrices, next to each other."""
    return F.slice(x, axis=x.ndim - 1, start=start, length=length, step=1)


def rows(F: Any, x: Any, start: Any, length: Any) -> Any:
    """Some rows of matrices, next to each other."""
    return F.slice(x, axis=x.ndim - 2, start=start, length=length, step=1)


def product(F: Any, *matrices: Any) -> Any:
    """The product of matrices, from left to right."""
    result, *rest = matrices
    for m in rest:
        result = F.matmul(result, m)
    return result


def adjoint(F: Any, x: Any) -> Any:
    """Transposed matrices of conjugates."""
    return transposed(F, conjugate(F, x))


def alike(F: Any, x: Any, like: Any) -> Any:
    """Real numbers as complex ones where another handle has such."""
    if not is_complex(like) or is_complex(x):
        return x
    return F.complex(x, F.zeros_like(x))


def divided(F: Any, x: Any, a: Any, upper: bool) -> Any:
    """x @ inverse of the transpose of a triangle of a."""
    return transposed(F, F.solve_triangular(a, transposed(F, x), upper=upper, unit=False))


def well(rng: np.random.Generator, *shape: int) -> Any:
    """Positive definite matrices, for samples."""
    a = rng.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def square_samples(rng: np.random.Generator) -> Any:
    """Samples of rows that take positive definite matrices."""
    return [((well(rng, 3, 3),), {}), ((well(rng, 2, 3, 3),), {})]


def oblong_samples(rng: np.random.Generator, **attrs: Any) -> Any:
    """Samples of rows that take matrices of any shape."""
    return [((rng.normal(size=shape),), attrs) for shape in ((4, 3), (2, 3, 3), (2, 4))]
