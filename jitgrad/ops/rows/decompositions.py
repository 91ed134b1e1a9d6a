"""Inverses and factors of matrices, by NumPy: call-backs in every backend.

What is singular or not positive definite gives NaN here; the library's checks raise. Derivatives: Giles, "Collected
Matrix Derivative Results for Forward and Reverse Mode Algorithmic Differentiation", 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.dtypes import int64
from jitgrad.ops.opdef import OPAQUE, register
from jitgrad.ops.rules import transposed
from jitgrad.ops.types import TensorType


def _total(function: Callable[..., Any], *arrays: Any) -> Any:
    """`function` of each matrix, NaN where it fails."""
    d = arrays[0].dtype
    try:
        found = function(*arrays)
    except np.linalg.LinAlgError:
        batch = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
        if batch:
            wide = [np.broadcast_to(a, batch + a.shape[-2:]).reshape(-1, *a.shape[-2:]) for a in arrays]
            parts = np.stack([_total(function, *matrices) for matrices in zip(*wide, strict=True)])
            found = parts.reshape(batch + parts.shape[1:])
        else:
            found = np.full_like(arrays[-1], np.nan)
    return found.astype(d)


def _symmetric(x: Any) -> Any:
    """What the slopes below take for granted."""
    return (x + np.swapaxes(x, -1, -2)) * x.dtype.type(0.5)


def _lower(F: Any, x: Any) -> Any:
    """The lower triangle, its diagonal halved."""
    k = F.arange(length=x.shape[-1], dtype=int64)
    row, column = F.unsqueeze(k, axis=1), F.unsqueeze(k, axis=0)
    return F.where(F.gt(row, column), x, F.where(F.eq(row, column), x * 0.5, 0.0))


def _cholesky_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    back = F.inv(y)
    inner = F.matmul(F.matmul(transposed(F, back), _lower(F, F.matmul(transposed(F, y), g))), back)
    return ((inner + transposed(F, inner)) * 0.5,)


def _solve_vjp(F: Any, g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    to_b = F.solve(transposed(F, a), g)
    return -F.matmul(to_b, transposed(F, y)), to_b


def _inv_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    back = transposed(F, y)
    return (-F.matmul(F.matmul(back, g), back),)


def _slogdet(xp: Any, x: Any) -> Any:
    sign, size = xp.linalg.slogdet(x)
    return np.asarray(sign).astype(x.dtype), np.asarray(size).astype(x.dtype)


def _slogdet_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    if g[1] is None:
        return (F.zeros_like(x),)
    n = x.ndim - 2
    return (F.unsqueeze(F.unsqueeze(g[1], axis=n), axis=n + 1) * transposed(F, F.inv(x)),)


def _eigh(xp: Any, x: Any) -> Any:
    values, vectors = xp.linalg.eigh(_symmetric(x))
    return values.astype(x.dtype), vectors.astype(x.dtype)


def _eigh_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    (to_values, to_vectors), (values, vectors) = g, y
    n = x.ndim - 2
    k = F.arange(length=x.shape[-1], dtype=int64)
    diagonal = F.eq(F.unsqueeze(k, axis=1), F.unsqueeze(k, axis=0))
    inner = F.zeros_like(x)
    if to_vectors is not None:
        gaps = F.unsqueeze(values, axis=n) - F.unsqueeze(values, axis=n + 1)
        inner = F.where(diagonal, 0.0, F.matmul(transposed(F, vectors), to_vectors) / F.where(diagonal, 1.0, gaps))
    if to_values is not None:
        inner = F.where(diagonal, F.expand_like(F.unsqueeze(to_values, axis=n), x), inner)
    back = F.matmul(F.matmul(vectors, inner), transposed(F, vectors))
    return ((back + transposed(F, back)) * 0.5,)


def _well(rng: np.random.Generator, *shape: int) -> Any:
    """Positive definite matrices."""
    a = rng.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def _matrices(rng: np.random.Generator) -> Any:
    return [((_well(rng, 3, 3),), {}), ((_well(rng, 2, 3, 3),), {})]


register("inv", 1, OPAQUE, "Inverses of square matrices.", traits={"in_library"},
         impl=lambda xp, x: _total(xp.linalg.inv, x), vjp=_inv_vjp, spec=lambda x: x, samples=_matrices)
register("solve", 2, OPAQUE, "The x of a @ x = b; batches are equal.", traits={"in_library"},
         impl=lambda xp, a, b: _total(xp.linalg.solve, a, b), vjp=_solve_vjp, spec=lambda a, b: b,
         samples=lambda rng: [((_well(rng, 3, 3), rng.normal(size=(3, 2))), {}),
                              ((_well(rng, 2, 3, 3), rng.normal(size=(2, 3, 1))), {})])
register("cholesky", 1, OPAQUE, "The lower factor of positive definite matrices.", traits={"in_library"},
         impl=lambda xp, x: _total(xp.linalg.cholesky, _symmetric(x)), vjp=_cholesky_vjp,
         spec=lambda x: x, samples=_matrices)
register("slogdet", 1, OPAQUE, "Sign of the determinant, and the logarithm of its size.", impl=_slogdet,
         traits={"in_library"}, vjp=_slogdet_vjp, spec=lambda x: (TensorType(x.dtype, x.dims[:-2]),) * 2,
         samples=_matrices)
register("eigh", 1, OPAQUE, "Eigenvalues, rising, and eigenvectors of symmetric matrices.", impl=_eigh, vjp=_eigh_vjp,
         traits={"in_library"}, spec=lambda x: (TensorType(x.dtype, x.dims[:-1]), x), samples=_matrices)
