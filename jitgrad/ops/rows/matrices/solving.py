"""Inverses, solutions and LU factors of matrices.

Derivatives: Giles, "Collected Matrix Derivative Results for Forward and Reverse Mode Algorithmic Differentiation",
2008; of LU factors: de Hoog, Anderssen, Lukas, "Differentiation of matrix functionals using triangular factorization",
2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import dims
from jitgrad.dtypes import int32, int64
from jitgrad.ops.complex.joined import joined
from jitgrad.ops.opdef import NONDIFF, OPAQUE
from jitgrad.ops.rows.matrices import _algorithms as algorithms
from jitgrad.ops.rows.matrices._rules import (columns, diagonal_mask, divided, oblong_samples, rows, square_samples,
                                              triangle, well)
from jitgrad.ops.rules import transposed
from jitgrad.ops.types import TensorType


def _spoiled(*arrays: Any) -> Any:
    return np.full_like(arrays[-1], np.nan)


def _solve_vjp(F: Any, g: Any, y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    to_b = F.solve(transposed(F, a), g)
    return -F.matmul(to_b, transposed(F, y)), to_b


def _inv_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    back = transposed(F, y)
    return (-F.matmul(F.matmul(back, g), back),)


def _triangular_vjp(F: Any, g: Any, y: Any, a: Any, b: Any, upper: bool, unit: bool) -> tuple[Any, Any]:
    to_b = F.solve_triangular(transposed(F, a), g, upper=not upper, unit=unit)
    return triangle(F, -F.matmul(to_b, transposed(F, y)), upper, 0.0 if unit else 1.0), to_b


def _lu_factor(xp: Any, x: Any) -> Any:
    factors, pivots = algorithms.lu_factor(x)
    return factors, pivots, algorithms.permutation(pivots, x.shape[-2])


def _lu_factor_spec(x: TensorType) -> tuple[TensorType, ...]:
    *batch, m, n = x.dims
    return (x, TensorType(int32, (*batch, dims.call("min", m, n))), TensorType(int64, (*batch, m)))


def _lu_factor_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    """Of the square block of k rows and columns, and of what is right of it or below it."""
    (g, _, _), (lu, pivots, order) = g, y
    if g is None:
        return (F.zeros_like(x),)
    m, n, k = x.shape[-2], x.shape[-1], pivots.shape[-1]
    last = x.ndim - 1

    def part(v: Any, below: bool, right: bool) -> Any:
        v = v if m == k else rows(F, v, k if below else 0, m - k if below else k)
        return v if n == k else columns(F, v, k if right else 0, n - k if right else k)

    block = part(lu, False, False)
    unit, upper = triangle(F, block, diagonal=0.0), triangle(F, block, upper=True)
    lower = F.where(diagonal_mask(F, k), 1.0, unit)
    to_lower = triangle(F, part(g, False, False), diagonal=0.0)
    to_upper = triangle(F, part(g, False, False), upper=True)
    flipped = transposed(F, block)
    if n != k:
        right = F.solve_triangular(flipped, part(g, False, True), upper=True, unit=True)
        to_lower = to_lower - F.matmul(right, transposed(F, part(lu, False, True)))
    if m != k:
        below = divided(F, part(g, True, False), block, upper=True)
        to_upper = to_upper - F.matmul(transposed(F, part(lu, True, False)), below)
    inner = triangle(F, F.matmul(transposed(F, lower), to_lower), diagonal=0.0) + triangle(
        F, F.matmul(to_upper, transposed(F, upper)), upper=True)
    back = divided(F, F.solve_triangular(flipped, inner, upper=True, unit=True), block, upper=True)
    if n != k:
        back = F.cat(back, right, axis=last)
    if m != k:
        corner = [] if n == k else [part(F.zeros_like(x), True, True)]
        back = F.cat(back, F.cat(below, *corner, axis=last), axis=last - 1)
    place = F.expand(F.unsqueeze(order, axis=last), shape=x.shape)
    return (F.scatter(F.zeros_like(x), place, back, axis=last - 1),)


def _pairs(rng: np.random.Generator, **attrs: Any) -> Any:
    return [((well(rng, 3, 3), rng.normal(size=(3, 2))), attrs),
            ((well(rng, 2, 3, 3), rng.normal(size=(2, 3, 1))), attrs)]


joined("inv", 1, OPAQUE, "Inverses of square matrices.", vjp=_inv_vjp, spec=lambda x: x,
       impl=lambda xp, x: algorithms.total(xp.linalg.inv, _spoiled, x), samples=square_samples)
joined("solve", 2, OPAQUE, "The x of a @ x = b; batches are equal.", vjp=_solve_vjp, spec=lambda a, b: b,
       impl=lambda xp, a, b: algorithms.total(xp.linalg.solve, _spoiled, a, b), samples=_pairs)
joined("solve_triangular", 2, OPAQUE, "The x of a @ x = b, of a triangle of a; batches are equal.",
       impl=lambda xp, a, b, upper, unit: algorithms.solve_triangular(a, b, upper, unit), vjp=_triangular_vjp,
       spec=lambda a, b, **attrs: b, samples=lambda rng: [
           sample for upper in (False, True) for unit in (False, True)
           for sample in _pairs(rng, upper=upper, unit=unit)])
joined("lu_factor", 1, OPAQUE, "L and U in one matrix, LAPACK's pivots, and the order of rows that they give.",
       impl=_lu_factor, vjp=_lu_factor_vjp, spec=_lu_factor_spec, samples=lambda rng: [
           ((x + 3 * np.eye(*x.shape[-2:]),), attrs) for (x,), attrs in oblong_samples(rng)])
joined("lu_order", 2, OPAQUE, "The order of the rows of a matrix that LAPACK's pivots give.", takes=(True, False),
       impl=lambda xp, lu, pivots: algorithms.permutation(pivots, lu.shape[-2]), vjp=NONDIFF,
       spec=lambda lu, pivots: TensorType(int64, lu.dims[:-1]), samples=lambda rng: [
           ((np.zeros((4, 3)), np.array([2, 4, 3], np.int32)), {}),
           ((np.zeros((2, 2, 3)), np.array([[2, 2], [1, 2]], np.int32)), {})])
