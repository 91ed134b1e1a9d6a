"""Determinants and their slopes, of singular matrices too.

The slope of a determinant is the matrix of cofactors, which is there where no inverse is. It and its own slope come of
singular values: det(U S V^H) is det(U) det(V^H) times a product, of which one factor is left out, or two.
Source: Higham, "What Is the Adjugate of a Matrix?", 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.ops.complex.joined import joined
from jitgrad.ops.opdef import OPAQUE
from jitgrad.ops.rows.matrices import _algorithms as algorithms
from jitgrad.ops.rows.matrices._rules import adjoint, alike, product, square_samples
from jitgrad.ops.rules import is_complex, transposed
from jitgrad.ops.types import TensorType


def _slogdet(xp: Any, x: Any) -> Any:
    sign, size = xp.linalg.slogdet(x)
    return algorithms.precise(sign, x.dtype), algorithms.precise(size, x.dtype)


def _slogdet_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    """Of log(det) = log|det| + i times the angle of the sign, which real numbers have not, nor is it saved of them."""
    to_sign, to_size = g
    along = None if to_size is None else alike(F, to_size, x)
    if is_complex(x) and to_sign is not None:
        turn = F.imag(to_sign * F.conj(F.slogdet(x)[0]))
        turned = F.complex(F.zeros_like(turn), turn)
        along = turned if along is None else along + turned
    return (F.zeros_like(x) if along is None else _each(F, along) * adjoint(F, F.inv(x)),)


def _each(F: Any, numbers: Any) -> Any:
    """(...) as (..., 1, 1): a number for each matrix."""
    n = numbers.ndim
    return F.unsqueeze(F.unsqueeze(numbers, axis=n), axis=n + 1)


def _across(v: Any) -> Any:
    return v[..., None, :]


def _down(v: Any) -> Any:
    return v[..., None]


def _without(s: Any, *out: Callable[[Any], Any]) -> Any:
    """Products of singular values: all but the one, or the two, that stand across or down."""
    zero = s == 0
    logs, zeros = np.log(np.where(zero, s.dtype.type(1), s)), zero.astype(int)
    rest, left = [v.sum(-1)[..., None, None] - sum([view(v) for view in out]) for v in (logs, zeros)]
    return np.where(left > 0, 0, np.exp(rest))


def _framed(xp: Any, inner: Callable[..., Any], *arrays: Any) -> Any:
    """What `inner` makes of the first matrix's singular values, and of other matrices between its singular vectors."""
    def found(x: Any, *others: Any) -> Any:
        u, s, vh = xp.linalg.svd(x)
        left, right = np.swapaxes(u.conj(), -1, -2), np.swapaxes(vh.conj(), -1, -2)
        middle = inner(s, *[left @ h @ right for h in others])
        return (xp.linalg.det(u) * xp.linalg.det(vh))[..., None, None] * (u.conj() @ middle @ vh.conj())

    return algorithms.total(found, lambda *failed: np.full_like(failed[0], np.nan), *arrays)


def _cofactors(s: Any) -> Any:
    return _without(s, _across) * np.eye(s.shape[-1])


def _cofactor_slopes(s: Any, h: Any) -> Any:
    """Of two factors left out those of h are there: on the diagonal, minus the two that exchange rows."""
    one = np.eye(s.shape[-1])
    pairs = _without(s, _across, _down) * (1 - one)
    return one * (pairs @ _down(np.diagonal(h, axis1=-2, axis2=-1))) - pairs * np.swapaxes(h, -1, -2)


def _cofactor_slopes_vjp(F: Any, g: Any, y: Any, x: Any, h: Any) -> tuple[Any, Any]:
    """By x with an inverse, of regular matrices: NaN of others."""
    inverse = transposed(F, F.inv(x))
    n = x.ndim - 2

    def trace(m: Any) -> Any:
        return _each(F, F.sum(m * inverse, axes=(n, n + 1), keepdim=False))

    by_g, by_h = [product(F, inverse, transposed(F, m), inverse) for m in (g, h)]
    crossed = product(F, inverse, transposed(F, h), by_g) + product(F, inverse, transposed(F, g), by_h)
    both = trace(g) * trace(h) - trace(transposed(F, product(F, transposed(F, h), inverse, transposed(F, g))))
    to_x = both * inverse - trace(g) * by_h - trace(h) * by_g + crossed
    return _each(F, F.det(x)) * to_x, F.cofactor_slopes(x, g)


joined("slogdet", 1, OPAQUE, "Sign of the determinant, and the logarithm of its size.", impl=_slogdet, vjp=_slogdet_vjp,
       spec=lambda x: (TensorType(x.dtype, x.dims[:-2]), TensorType(x.dtype.to_real(), x.dims[:-2])),
       traits={"wirtinger"}, samples=square_samples)
joined("det", 1, OPAQUE, "Determinants of square matrices.", spec=lambda x: TensorType(x.dtype, x.dims[:-2]),
       impl=lambda xp, x: algorithms.precise(xp.linalg.det(x), x.dtype), samples=square_samples,
       vjp=lambda F, g, y, x: (_each(F, g) * F.cofactors(x),))
joined("cofactors", 1, OPAQUE, "The slopes of determinants of square matrices.", samples=square_samples,
       impl=lambda xp, x: _framed(xp, _cofactors, x), spec=lambda x: x,
       vjp=lambda F, g, y, x: (F.cofactor_slopes(x, g),))
joined("cofactor_slopes", 2, OPAQUE, "How the cofactors of x change along h.", spec=lambda x, h: x,
       impl=lambda xp, x, h: _framed(xp, _cofactor_slopes, x, h), vjp=_cofactor_slopes_vjp,
       samples=lambda rng: [((x, rng.normal(size=x.shape)), attrs) for (x,), attrs in square_samples(rng)])
