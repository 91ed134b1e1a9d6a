"""What NumPy's linalg lacks, for batches of matrices: triangular systems, LU factors, exponentials.

Blocks are multiplied, so that the work is BLAS's but for a narrow border. Results are of the operands' dtype.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

#: below how many rows a triangle is solved row by row, and how many columns of an LU factor are found one by one
BLOCK = 16


def total(function: Callable[..., Any], failed: Callable[..., Any], *arrays: Any) -> Any:
    """`function` of each matrix, `failed` of those for which it raises; an array or a tuple, as precise as they.
    """
    try:
        found = function(*arrays)
    except np.linalg.LinAlgError:
        batch = np.broadcast_shapes(*[a.shape[:-2] for a in arrays])
        if not batch:
            return failed(*arrays)
        wide = [np.broadcast_to(a, batch + a.shape[-2:]).reshape(-1, *a.shape[-2:]) for a in arrays]
        parts = [total(function, failed, *matrices) for matrices in zip(*wide, strict=True)]
        if isinstance(parts[0], tuple):
            found = tuple([_batched(batch, p) for p in zip(*parts, strict=True)])
        else:
            found = _batched(batch, parts)
    d = arrays[0].dtype
    return tuple([precise(y, d) for y in found]) if isinstance(found, tuple) else precise(found, d)


def precise(x: Any, like: np.dtype[Any]) -> Any:
    """Real or complex numbers with the precision of a dtype, which may be the other kind's."""
    size = like.itemsize // 2 if like.kind == "c" else like.itemsize
    x = np.asarray(x)
    return x.astype(f"c{2 * size}" if x.dtype.kind == "c" else f"f{size}")


def size(x: Any) -> Any:
    """What pivots are chosen by: |x|, of a complex number |Re x| + |Im x|, as in LAPACK."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def _batched(batch: tuple[int, ...], parts: Any) -> Any:
    stacked = np.stack(parts)
    return stacked.reshape(batch + stacked.shape[1:])


def solve_triangular(a: Any, b: Any, upper: bool, unit: bool) -> Any:
    """The x of a @ x = b, where one triangle of a is read, with `unit` without its diagonal.

    A zero on the diagonal divides, as in BLAS: the result has infinities and NaN.
    """
    if upper:
        x = solve_triangular(a[..., ::-1, ::-1], b[..., ::-1, :], False, unit)
        return np.ascontiguousarray(x[..., ::-1, :])
    n = a.shape[-1]
    if n > BLOCK:
        h = n // 2
        first = solve_triangular(a[..., :h, :h], b[..., :h, :], False, unit)
        rest = b[..., h:, :] - a[..., h:, :h] @ first
        return np.concatenate([first, solve_triangular(a[..., h:, h:], rest, False, unit)], axis=-2)
    x = np.array(b)
    for i in range(n):
        row = x[..., i, :]
        if i:
            row = row - (a[..., i:i + 1, :i] @ x[..., :i, :])[..., 0, :]
        x[..., i, :] = row if unit else row / a[..., i, i, None]
    return x


def lu_factor(x: Any) -> tuple[Any, Any]:
    """L (below the diagonal, its own being ones) and U in one matrix, and LAPACK's pivots: with which row, counted from
    1, each was exchanged in turn. A column of zeros is left as it is, as in LAPACK.
    """
    *batch, m, n = x.shape
    k = min(m, n)
    a = np.array(x).reshape(math.prod(batch), m, n)
    items = np.arange(len(a))
    pivots = np.empty((len(a), k), np.int32)
    for start in range(0, k, BLOCK):
        stop = min(start + BLOCK, k)
        for j in range(start, stop):
            best = j + np.argmax(size(a[:, j:, j]), axis=1)
            pivots[:, j] = best + 1
            a[items, best], a[:, j] = a[:, j].copy(), a[items, best]
            pivot = a[:, j, j, None]
            a[:, j + 1:, j] /= np.where(pivot == 0, pivot.dtype.type(1), pivot)
            a[:, j + 1:, j + 1:stop] -= a[:, j + 1:, j, None] * a[:, j, None, j + 1:stop]
        if stop < n:
            right = solve_triangular(a[:, start:stop, start:stop], a[:, start:stop, stop:], False, True)
            a[:, start:stop, stop:] = right
            a[:, stop:, stop:] -= a[:, stop:, start:stop] @ right
    return a.reshape(x.shape), pivots.reshape(*batch, k)


def permutation(pivots: Any, m: int) -> Any:
    """Which row of the m is where, when pairs of them were exchanged in turn as LAPACK's pivots say."""
    *batch, k = pivots.shape
    flat = pivots.reshape(math.prod(batch), k)
    order = np.tile(np.arange(m), (len(flat), 1))
    items = np.arange(len(flat))
    for j in range(k):
        other = flat[:, j] - 1
        order[items, other], order[:, j] = order[:, j].copy(), order[items, other]
    return order.reshape(*batch, m)


#: coefficients of the Padé approximants of exp, and up to which norm each is as good as its precision.
#: Source: Higham, "The Scaling and Squaring Method for the Matrix Exponential Revisited", 2005
_PADE = {
    "float32": (3.925724783138660, (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0)),
    "float64": (5.371920351148152, (
        64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
        10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0))}


def matrix_exp(x: Any) -> Any:
    """exp of matrices by scaling and squaring; NaN for what is not finite."""
    if x.size == 0:
        return x.copy()
    bound, c = _PADE["float32" if x.dtype.char in "fF" else "float64"]
    norm = np.abs(x).sum(-2).max(-1)
    halvings = np.where(np.isfinite(norm) & (norm > bound), np.ceil(np.log2(norm / bound)), 0).astype(int)
    a = x * np.ldexp(norm.dtype.type(1), -halvings)[..., None, None]
    square = a @ a
    power = even = odd = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
    even, odd = power * c[0], power * c[1]
    for i in range(2, len(c), 2):
        power = power @ square
        even, odd = even + power * c[i], odd + power * c[i + 1]
    odd = a @ odd
    y = total(np.linalg.solve, lambda p, q: np.full_like(q, np.nan), even - odd, even + odd)
    for i in range(int(halvings.max())):
        y = np.where((i < halvings)[..., None, None], y @ y, y)
    return y
