"""Cholesky and QR factors of matrices.

Derivatives: Giles, 2008, as above; of QR factors of any shape: Roberts, Roberts, "QR and LQ Decomposition Matrix
Backpropagation Algorithms for Square, Wide, and Deep Matrices", 2020.
"""

import math
from typing import Any

import numpy as np

from jitgrad import dims
from jitgrad.dtypes import int32
from jitgrad.ops.complex.joined import joined
from jitgrad.ops.opdef import NONDIFF, OPAQUE
from jitgrad.ops.rows.matrices import _algorithms as algorithms
from jitgrad.ops.rows.matrices._rules import adjoint, columns, divided, oblong_samples, square_samples, triangle
from jitgrad.ops.rules import conjugate
from jitgrad.ops.types import TensorType


def _cholesky_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    back = F.inv(y)
    inner = F.matmul(F.matmul(adjoint(F, back), triangle(F, F.matmul(adjoint(F, y), g), diagonal=0.5)), back)
    return ((inner + adjoint(F, inner)) * 0.5,)


def _order(xp: Any, x: Any) -> Any:
    """By bisection: of the leading minors, those before one that is not positive definite are."""
    def of(a: Any) -> int:
        low, high = 0, len(a) + 1
        while high - low > 1:
            middle = (low + high) // 2
            try:
                xp.linalg.cholesky(a[:middle, :middle])
                low = middle
            except np.linalg.LinAlgError:
                high = middle
        return high if high <= len(a) else 0

    batch = x.shape[:-2]
    flat = x.reshape(math.prod(batch), *x.shape[-2:])
    return np.array([of(a) for a in flat], np.int32).reshape(batch)


def _qr_spec(x: TensorType, complete: bool) -> tuple[TensorType, TensorType]:
    *batch, m, n = x.dims
    k = m if complete else dims.call("min", m, n)
    return TensorType(x.dtype, (*batch, m, k)), TensorType(x.dtype, (*batch, k, n))


def _qr(xp: Any, x: Any, complete: bool) -> Any:
    q, r = xp.linalg.qr(x, "complete" if complete else "reduced")
    return algorithms.precise(q, x.dtype), algorithms.precise(r, x.dtype)


def _qr_vjp(F: Any, g: Any, y: Any, x: Any, complete: bool) -> tuple[Any]:
    """Of the first k columns, whose product with the rest's part of R comes on top of Q's cotangent."""
    (to_q, to_r), (q, r) = g, y
    n, k = x.shape[-1], r.shape[-2]
    first, rest = (r, None) if n == k else (columns(F, r, 0, k), columns(F, r, k, n - k))
    beside = None
    if to_r is not None and rest is not None:
        to_r, to_rest = columns(F, to_r, 0, k), columns(F, to_r, k, n - k)
        beside = F.matmul(q, to_rest)
        more = F.matmul(q, F.matmul(rest, adjoint(F, to_rest)))
        to_q = more if to_q is None else to_q + more
    elif rest is not None:
        beside = F.full(value=0, shape=(*x.shape[:-1], n - k), dtype=x.dtype)
    inner = None if to_q is None else -F.matmul(adjoint(F, q), to_q)
    if to_r is not None:
        more = F.matmul(to_r, adjoint(F, first))
        inner = more if inner is None else inner + more
    half = triangle(F, inner, upper=True, diagonal=0.5)
    back = F.matmul(q, half + adjoint(F, half))
    back = divided(F, back if to_q is None else back + to_q, conjugate(F, first), upper=True)
    return (back if beside is None else F.cat(back, beside, axis=x.ndim - 1),)


def _geqrf(xp: Any, x: Any) -> Any:
    a, tau = xp.linalg.qr(x, "raw")
    return np.ascontiguousarray(np.swapaxes(a, -1, -2)).astype(x.dtype), tau.astype(x.dtype)


def _geqrf_spec(x: TensorType) -> tuple[TensorType, TensorType]:
    *batch, m, n = x.dims
    return x, TensorType(x.dtype, (*batch, dims.call("min", m, n)))


joined("cholesky", 1, OPAQUE, "The lower factor of positive definite matrices: of their lower triangles.",
       impl=lambda xp, x: algorithms.total(xp.linalg.cholesky, lambda a: np.full_like(a, np.nan), x),
       traits={"wirtinger"}, vjp=_cholesky_vjp, spec=lambda x: x, samples=square_samples)
joined("cholesky_order", 1, OPAQUE, "The order of the first leading minor that is not positive definite, or 0.",
       impl=_order, vjp=NONDIFF, spec=lambda x: TensorType(int32, x.dims[:-2]),
       samples=lambda rng: [*square_samples(rng), ((np.diag([1.0, 2.0, -1.0, 3.0]),), {})])
joined("qr", 1, OPAQUE, "Q, of orthogonal columns, and the upper triangular R.", impl=_qr, vjp=_qr_vjp,
       traits={"wirtinger"}, spec=_qr_spec, samples=lambda rng: oblong_samples(rng, complete=False))
joined("geqrf", 1, OPAQUE, "R above the vectors of Householder's reflections that give it, and their factors.",
       impl=_geqrf, vjp=NONDIFF, spec=_geqrf_spec, samples=oblong_samples)
