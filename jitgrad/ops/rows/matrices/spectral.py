"""Eigenvalues and singular values of matrices, and pseudoinverses.

Derivatives: Giles, 2008; of pseudoinverses: Golub, Pereyra, "The Differentiation of Pseudo-Inverses and Nonlinear Least
Squares Problems Whose Variables Separate", 1973.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import dims
from jitgrad.ops.opdef import OPAQUE, register
from jitgrad.ops.rows.matrices import _algorithms as algorithms
from jitgrad.ops.rows.matrices._rules import columns, diagonal_mask, oblong_samples, product, rows, square_samples
from jitgrad.ops.rules import transposed
from jitgrad.ops.types import TensorType


def _eigh(xp: Any, x: Any) -> Any:
    return algorithms.total(xp.linalg.eigh, lambda a: (np.full_like(a[..., 0], np.nan), np.full_like(a, np.nan)), x)


def _eigh_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    (to_values, to_vectors), (values, vectors) = g, y
    n = x.ndim - 2
    diagonal = diagonal_mask(F, x.shape[-1])
    inner = F.zeros_like(x)
    if to_vectors is not None:
        gaps = F.unsqueeze(values, axis=n) - F.unsqueeze(values, axis=n + 1)
        inner = F.where(diagonal, 0.0, F.matmul(transposed(F, vectors), to_vectors) / F.where(diagonal, 1.0, gaps))
    if to_values is not None:
        inner = F.where(diagonal, F.expand_like(F.unsqueeze(to_values, axis=n), x), inner)
    back = F.matmul(F.matmul(vectors, inner), transposed(F, vectors))
    return ((back + transposed(F, back)) * 0.5,)


def _svd_spec(x: TensorType, full: bool) -> tuple[TensorType, ...]:
    *batch, m, n = x.dims
    k = dims.call("min", m, n)
    shapes = (m, m if full else k), (k,), (n if full else k, n)
    return tuple([TensorType(x.dtype, (*batch, *shape)) for shape in shapes])


def _svd(xp: Any, x: Any, full: bool) -> Any:
    def failed(a: Any) -> Any:
        m, n = a.shape
        k = min(m, n)
        return tuple([np.full(s, np.nan, a.dtype) for s in ((m, m if full else k), (k,), (n if full else k, n))])

    return algorithms.total(lambda a: tuple(xp.linalg.svd(a, full_matrices=full)), failed, x)


def _svd_vjp(F: Any, g: Any, y: Any, x: Any, full: bool) -> tuple[Any]:
    """Of the first k vectors: those that `full` adds are any that are orthogonal to them."""
    (to_u, to_s, to_v), (u, s, v) = g, y  # v has its vectors in rows
    m, n, k, axis = x.shape[-2], x.shape[-1], s.shape[-1], x.ndim - 2
    if full:
        u, to_u = [a if a is None else columns(F, a, 0, k) for a in (u, to_u)]
        v, to_v = [a if a is None else rows(F, a, 0, k) for a in (v, to_v)]
    along, down = F.unsqueeze(s, axis=axis), F.unsqueeze(s, axis=axis + 1)
    diagonal = diagonal_mask(F, k)
    gaps = F.where(diagonal, 1.0, along * along - down * down)
    inner = F.zeros_like(F.matmul(v, transposed(F, v))) if to_s is None else F.where(
        diagonal, F.expand(along * 0.0 + F.unsqueeze(to_s, axis=axis), shape=gaps.shape), 0.0)
    if to_u is not None:
        own = F.matmul(transposed(F, u), to_u)
        inner = inner + (own - transposed(F, own)) / gaps * along
    if to_v is not None:
        own = F.matmul(v, transposed(F, to_v))
        inner = inner + down * ((own - transposed(F, own)) / gaps)
    back = product(F, u, inner, v)
    if to_u is not None and m != k:
        back = back + F.matmul((to_u - product(F, u, transposed(F, u), to_u)) / along, v)
    if to_v is not None and n != k:
        back = back + F.matmul(u, (to_v - product(F, to_v, transposed(F, v), v)) / down)
    return (back,)


def _pinv(xp: Any, x: Any, atol: Any, rtol: Any) -> Any:
    *batch, m, n = x.shape
    if not x.size:
        return np.zeros((*batch, n, m), x.dtype)
    u, s, v = _svd(xp, x, False)
    kept = s > np.maximum(atol, rtol * s[..., 0])[..., None]
    back = np.where(kept, 1 / np.where(kept, s, s.dtype.type(1)), np.where(s == s, s.dtype.type(0), s))
    return (np.swapaxes(v, -1, -2) * back[..., None, :]) @ np.swapaxes(u, -1, -2)


def _pinv_vjp(F: Any, g: Any, y: Any, x: Any, atol: Any, rtol: Any) -> tuple[Any, None, None]:
    flipped, back = transposed(F, y), transposed(F, g)
    k = F.matmul(back, y)
    wide = F.matmul(k, flipped)
    return (wide - transposed(F, F.matmul(y, k)) - product(F, x, y, wide) + product(
        F, flipped, y, back - F.matmul(k, x)), None, None)


def _pinv_samples(rng: np.random.Generator) -> Any:
    lost = rng.normal(size=(4, 2)) @ rng.normal(size=(2, 3))
    return [((x, np.full(x.shape[:-2], 1e-9), np.full(x.shape[:-2], 1e-9)), {})
            for x in (*[xs[0] for xs, _ in oblong_samples(rng)], lost[:3, :2])]


register("eigh", 1, OPAQUE, "Eigenvalues, rising, and eigenvectors of symmetric matrices: of their lower triangles.",
         impl=_eigh, vjp=_eigh_vjp, traits={"in_library"}, spec=lambda x: (TensorType(x.dtype, x.dims[:-1]), x),
         samples=square_samples)
register("svd", 1, OPAQUE, "Singular vectors, singular values, falling, and vectors on the right, in rows.", impl=_svd,
         vjp=_svd_vjp, traits={"in_library"}, spec=_svd_spec, samples=lambda rng: oblong_samples(rng, full=False))
register("pinv", 3, OPAQUE, "Pseudoinverses, of singular values above a number and a fraction of the largest.",
         impl=_pinv, vjp=_pinv_vjp, traits={"in_library"}, samples=_pinv_samples,
         spec=lambda x, atol, rtol: TensorType(x.dtype, (*x.dims[:-2], x.dims[-1], x.dims[-2])))
