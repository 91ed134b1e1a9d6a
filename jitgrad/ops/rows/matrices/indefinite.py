"""LDL factors of symmetric and Hermitian matrices that need not be definite, and solutions from them.

Source: Bunch, Kaufman, "Some Stable Methods for Calculating Inertia and Solving Symmetric Linear Systems", 1977, in the
form of LAPACK's sytf2, hetf2 and sytrs with the lower triangle.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import int32
from jitgrad.ops.complex.joined import joined
from jitgrad.ops.opdef import OPAQUE
from jitgrad.ops.rows.matrices._algorithms import size
from jitgrad.ops.rules import Missing, each
from jitgrad.ops.types import TensorType

#: from which part of the largest element of its column on a diagonal element is a pivot
ALPHA = (1 + math.sqrt(17)) / 8


def _flipped(x: Any, hermitian: bool) -> Any:
    return x.T.conj() if hermitian else x.T


def _pivot(a: Any, k: int, hermitian: bool) -> tuple[int, int]:
    """Which row is the next pivot, and whether it is one or, with row k, a block of two."""
    own, rest = size(a[k, k]), size(a[k + 1:, k])
    if not len(rest) or own >= ALPHA * rest.max():
        return k, 1
    row, largest = k + 1 + int(rest.argmax()), rest.max()
    others = max(size(a[row, k:row]).max(), size(a[row + 1:, row]).max(initial=0))
    if own >= ALPHA * largest * (largest / others):
        return k, 1
    return row, 1 if size(a[row, row]) >= ALPHA * others else 2


def _exchange(a: Any, first: int, other: int, hermitian: bool) -> None:
    """Exchange two rows and columns of what a lower triangle stands for, from column `first` on."""
    below, between = slice(other + 1, None), slice(first + 1, other)
    a[below, first], a[below, other] = a[below, other].copy(), a[below, first].copy()
    a[between, first], a[other, between] = a[other, between].copy(), a[between, first].copy()
    if hermitian:
        a[between, first], a[other, between] = a[between, first].conj(), a[other, between].conj()
        a[other, first] = a[other, first].conj()
    a[first, first], a[other, other] = a[other, other].copy(), a[first, first].copy()


def _block(a: Any, k: int, hermitian: bool) -> Any:
    """The block of D of rows k and k + 1."""
    beside = a[k + 1, k]
    return np.array([[a[k, k], beside.conj() if hermitian else beside], [beside, a[k + 1, k + 1]]])


def _factor(x: Any, hermitian: bool) -> tuple[Any, Any, int]:
    a, n, k, info = np.tril(x), len(x), 0, 0
    pivots = np.arange(1, n + 1, dtype=np.int32)
    if hermitian:
        np.fill_diagonal(a, a.diagonal().real)
    while k < n:
        if not size(a[k:, k]).any():
            info, k = info or k + 1, k + 1
            continue
        row, step = _pivot(a, k, hermitian)
        last, end = k + step - 1, k + step
        if row != last:
            _exchange(a, last, row, hermitian)
            if step == 2:
                a[last, k], a[row, k] = a[row, k].copy(), a[last, k].copy()
        pivots[k:end] = row + 1 if step == 1 else -row - 1
        columns = a[end:, k:end]
        scaled = columns / a[k, k] if step == 1 else np.linalg.solve(_block(a, k, hermitian).T, columns.T).T
        a[end:, end:] -= np.tril(scaled @ _flipped(columns, hermitian))
        a[end:, k:end] = scaled
        if hermitian:
            np.fill_diagonal(a[end:, end:], a[end:, end:].diagonal().real)
        k = end
    return a, pivots, info


def _ldl_factor(xp: Any, x: Any, hermitian: bool) -> Any:
    *batch, n, _ = x.shape
    found = [_factor(a, hermitian) for a in x.reshape(math.prod(batch), n, n)]
    return (np.array([f[0] for f in found], x.dtype).reshape(x.shape),
            np.array([f[1] for f in found], np.int32).reshape(*batch, n),
            np.array([f[2] for f in found], np.int32).reshape(batch))


def _solve(a: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    x, n, k, steps = b.copy(), len(a), 0, []
    while k < n:
        step = 1 if pivots[k] > 0 else 2
        last, end, row = k + step - 1, k + step, abs(int(pivots[k])) - 1
        x[[last, row]] = x[[row, last]]
        x[end:] -= a[end:, k:end] @ x[k:end]
        x[k:end] = x[k:end] / a[k, k] if step == 1 else np.linalg.solve(_block(a, k, hermitian), x[k:end])
        steps.append((k, last, end, row))
        k = end
    for k, last, end, row in reversed(steps):
        x[k:end] -= _flipped(a[end:, k:end], hermitian) @ x[end:]
        x[[last, row]] = x[[row, last]]
    return x


def _ldl_solve(xp: Any, factors: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    *batch, n, k = b.shape
    count = math.prod(batch)
    items = zip(factors.reshape(count, n, n), pivots.reshape(count, n), b.reshape(count, n, k), strict=True)
    return np.array([_solve(*item, hermitian) for item in items], b.dtype).reshape(b.shape)


def _samples(rng: np.random.Generator) -> Any:
    return [((a + np.swapaxes(a, -1, -2),), {"hermitian": False}) for a in (
        rng.normal(size=(5, 5)), rng.normal(size=(2, 3, 3)))]


def _solve_samples(rng: np.random.Generator) -> Any:
    return [((*_ldl_factor(np, *xs, **how)[:2], rng.normal(size=(*xs[0].shape[:-1], 2))), how)
            for xs, how in _samples(rng)]


joined("ldl_factor", 1, OPAQUE, "L and D in one matrix, LAPACK's pivots, and the number of the first zero of D or 0.",
       impl=_ldl_factor, vjp=each(Missing("aten::linalg_ldl_factor_ex")), samples=_samples,
       spec=lambda x, hermitian: (x, TensorType(int32, x.dims[:-1]), TensorType(int32, x.dims[:-2])))
joined("ldl_solve", 3, OPAQUE, "The x of a @ x = b from LDL factors and pivots; batches are equal.", impl=_ldl_solve,
       vjp=each(Missing("aten::linalg_ldl_solve"), None, Missing("aten::linalg_ldl_solve")), samples=_solve_samples,
       takes=(True, False, True), spec=lambda factors, pivots, b, hermitian: b)
