"""Eigenvalues and singular values of matrices, and pseudoinverses.

Derivatives: Giles, 2008; of pseudoinverses: Golub, Pereyra, "The Differentiation of Pseudo-Inverses and Nonlinear Least
Squares Problems Whose Variables Separate", 1973.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import dims
from jitgrad.ops.complex.joined import joined
from jitgrad.ops.opdef import OPAQUE
from jitgrad.ops.rows.matrices import _algorithms as algorithms
from jitgrad.ops.rows.matrices._rules import (adjoint, alike, columns, diagonal_mask, oblong_samples, product, rows,
                                              square_samples)
from jitgrad.ops.rules import is_complex
from jitgrad.ops.types import TensorType


def _eigh(xp: Any, x: Any) -> Any:
    return algorithms.total(xp.linalg.eigh, lambda a: (np.full_like(a[..., 0].real, np.nan), np.full_like(a, np.nan)),
                            x)


def _eigh_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    (to_values, to_vectors), (values, vectors) = g, y
    n = x.ndim - 2
    diagonal = diagonal_mask(F, x.shape[-1])
    inner = F.zeros_like(x)
    if to_vectors is not None:
        gaps = F.where(diagonal, 1.0, F.unsqueeze(values, axis=n) - F.unsqueeze(values, axis=n + 1))
        inner = F.where(diagonal, 0.0, F.matmul(adjoint(F, vectors), to_vectors) / alike(F, gaps, x))
    if to_values is not None:
        inner = F.where(diagonal, F.expand_like(alike(F, F.unsqueeze(to_values, axis=n), x), x), inner)
    back = product(F, vectors, inner, adjoint(F, vectors))
    return ((back + adjoint(F, back)) * 0.5,)


def _eig(xp: Any, x: Any) -> Any:
    def complex_eig(a: Any) -> Any:
        return tuple([v.astype(np.result_type(v, np.complex64)) for v in xp.linalg.eig(a)])

    def failed(a: Any) -> Any:
        spoiled = np.full_like(a, np.nan, np.result_type(a, np.complex64))
        return spoiled[..., 0], spoiled

    return algorithms.total(complex_eig, failed, x)


def _eig_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    """Of vectors of length one: what makes them longer does not count."""
    (to_values, to_vectors), (values, vectors) = g, y
    n = x.ndim - 2
    diagonal = diagonal_mask(F, x.shape[-1])
    back = adjoint(F, vectors)
    inner = F.zeros_like(vectors)
    if to_vectors is not None:
        gaps = F.conj(F.unsqueeze(values, axis=n) - F.unsqueeze(values, axis=n + 1))
        own = F.matmul(back, to_vectors)
        along = F.real(F.diagonal(own, offset=0, axis1=n, axis2=n + 1))
        rest = own - F.matmul(back, vectors * F.unsqueeze(alike(F, along, own), axis=n))
        inner = F.where(diagonal, 0.0, rest / F.where(diagonal, 1.0, gaps))
    if to_values is not None:
        inner = F.where(diagonal, F.expand_like(F.unsqueeze(to_values, axis=n), vectors), inner)
    found = F.solve(back, F.matmul(inner, back))
    return (found if is_complex(x) else F.real(found),)


def _svd_spec(x: TensorType, full: bool) -> tuple[TensorType, ...]:
    *batch, m, n = x.dims
    k = dims.call("min", m, n)
    shapes = (m, m if full else k), (k,), (n if full else k, n)
    kinds = x.dtype, x.dtype.to_real(), x.dtype
    return tuple([TensorType(d, (*batch, *shape)) for d, shape in zip(kinds, shapes, strict=True)])


def _svd(xp: Any, x: Any, full: bool) -> Any:
    def failed(a: Any) -> Any:
        m, n = a.shape
        k = min(m, n)
        return tuple([np.full(s, np.nan, v.dtype) for s, v in (
            ((m, m if full else k), a), ((k,), a.real), ((n if full else k, n), a))])

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
    gaps = alike(F, F.where(diagonal, 1.0, along * along - down * down), x)
    inner = F.zeros_like(F.matmul(v, adjoint(F, v))) if to_s is None else alike(F, F.where(
        diagonal, F.expand(along * 0.0 + F.unsqueeze(to_s, axis=axis), shape=gaps.shape), 0.0), x)
    along, down = alike(F, along, x), alike(F, down, x)
    if to_u is not None:
        own = F.matmul(adjoint(F, u), to_u)
        own = own - adjoint(F, own)
        inner = inner + own / gaps * along
        if to_v is not None and is_complex(x):  # phases, which a vector and the one on the right share
            inner = inner + F.where(diagonal, own / (along * 2.0), 0.0)
    if to_v is not None:
        own = F.matmul(v, adjoint(F, to_v))
        inner = inner + down * ((own - adjoint(F, own)) / gaps)
    back = product(F, u, inner, v)
    if to_u is not None and m != k:
        back = back + F.matmul((to_u - product(F, u, adjoint(F, u), to_u)) / along, v)
    if to_v is not None and n != k:
        back = back + F.matmul(u, (to_v - product(F, to_v, adjoint(F, v), v)) / down)
    return (back,)


def _pinv(xp: Any, x: Any, atol: Any, rtol: Any) -> Any:
    *batch, m, n = x.shape
    if not x.size:
        return np.zeros((*batch, n, m), x.dtype)
    u, s, v = _svd(xp, x, False)
    kept = s > np.maximum(atol, rtol * s[..., 0])[..., None]
    back = np.where(kept, 1 / np.where(kept, s, s.dtype.type(1)), np.where(s == s, s.dtype.type(0), s))
    return (np.swapaxes(v.conj(), -1, -2) * back[..., None, :]) @ np.swapaxes(u.conj(), -1, -2)


def _pinv_vjp(F: Any, g: Any, y: Any, x: Any, atol: Any, rtol: Any) -> tuple[Any, None, None]:
    flipped, back = adjoint(F, y), adjoint(F, g)
    k = F.matmul(back, y)
    wide = F.matmul(k, flipped)
    return (wide - adjoint(F, F.matmul(y, k)) - product(F, x, y, wide) + product(
        F, flipped, y, back - F.matmul(k, x)), None, None)


def _pinv_samples(rng: np.random.Generator) -> Any:
    lost = rng.normal(size=(4, 2)) @ rng.normal(size=(2, 3))
    return [((x, np.full(x.shape[:-2], 1e-9), np.full(x.shape[:-2], 1e-9)), {})
            for x in (*[xs[0] for xs, _ in oblong_samples(rng)], lost[:3, :2])]


joined("eigh", 1, OPAQUE, "Eigenvalues, rising, and eigenvectors of Hermitian matrices: of their lower triangles.",
       impl=_eigh, vjp=_eigh_vjp, traits={"wirtinger"}, spec=lambda x: (TensorType(x.dtype.to_real(), x.dims[:-1]), x),
       samples=square_samples)
joined("eig", 1, OPAQUE, "Eigenvalues and eigenvectors of square matrices: complex numbers.", impl=_eig, vjp=_eig_vjp,
       traits={"wirtinger"}, dtypes="wide", samples=square_samples, spec=lambda x: (
           TensorType(x.dtype.to_complex(), x.dims[:-1]), TensorType(x.dtype.to_complex(), x.dims)))
joined("svd", 1, OPAQUE, "Singular vectors, singular values, falling, and vectors on the right, in rows.", impl=_svd,
       vjp=_svd_vjp, traits={"wirtinger"}, spec=_svd_spec, samples=lambda rng: oblong_samples(rng, full=False))
joined("pinv", 3, OPAQUE, "Pseudoinverses, of singular values above a number and a fraction of the largest.",
       impl=_pinv, vjp=_pinv_vjp, traits={"wirtinger"}, samples=_pinv_samples, takes=(True, False, False),
       spec=lambda x, atol, rtol: TensorType(x.dtype, (*x.dims[:-2], x.dims[-1], x.dims[-2])))
