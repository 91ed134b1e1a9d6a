"""torch.linalg's norms of vectors and matrices, and condition numbers."""

import math
from typing import Any

from jitgrad.dtypes import dtype, given
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor, own
from jitgrad.ops.library.core import apply, as_operand, cast, create
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra._checks import square
from jitgrad.ops.library.linear_algebra.factors import svdvals
from jitgrad.ops.library.linear_algebra.solutions import inv_ex
from jitgrad.ops.library.reduce import amax, amin, vector_norm
from jitgrad.ops.library.shapes.shape import some
from jitgrad.ops.library.sizes import axis, flag, is_empty, require_axes

__library__ = True

#: of which sums of absolute values the largest or smallest is taken
_SUMS = (1, -1, math.inf, -math.inf)


def norm(A: AnyTensor[Tensor], ord: Any = None, dim: Any = None, keepdim: bool = False, *,
         dtype: dtype | None = None) -> Tensor:
    """A vector norm, or with two axes (or a matrix and an `ord`) a matrix norm; without `ord` the 2-norm of all
    elements."""
    require_axes(dim, keepdim)
    if dim is None and ord is not None and A.ndim not in (1, 2):
        raise RuntimeError("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                           f"{A.ndim}D.")
    two = (isinstance(dim, (tuple, list)) and len(dim) == 2) or (dim is None and A.ndim == 2)
    if ord is not None and two:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: If ord={ord!r}, the norm is a matrix's: dim must have two axes")
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def matrix_norm(A: AnyTensor[Tensor], ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
                dtype: dtype | None = None) -> Tensor:
    """"fro"; "nuc", 2, -2: the sum of the singular values, the largest, the smallest; 1, -1: largest, smallest sum of a
    column's absolute values; inf, -inf: of a row's."""
    fn, keepdim = "linalg.matrix_norm", flag(keepdim)
    if ord is None:
        raise TypeError(f"{fn}(): argument 'ord' must be Number or str, not NoneType")
    require_axes(dim)
    if isinstance(ord, str) and isinstance(dim, int):
        raise TypeError(f"{fn}(): argument 'dim' must be tuple of ints, not int")
    if A.ndim < 2:
        raise RuntimeError(f"{fn}: The input tensor A must have at least 2 dimensions.")
    if not given(dtype, A.dtype).is_inexact:
        raise RuntimeError(f"{fn}: Expected a floating point or complex tensor as input. Got {A.dtype.word}")
    dim = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(dim) != 2:
        raise RuntimeError(f"{fn}: dim must be a 2-tuple. Got {' '.join([str(d) for d in dim])}")
    rows, columns = axis(dim[0], A.ndim), axis(dim[1], A.ndim)
    if rows == columns:
        raise RuntimeError(f"{fn}: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, dtype=dtype)
    if ord in _SUMS:
        along, over = (rows, columns) if ord in (1, -1) else (columns, rows)
        sums = vector_norm(A, 1, along, True, dtype=dtype)
        result: Any = _largest(sums, over, True) if ord > 0 else amin(sums, over, True)
    elif ord in ("nuc", 2, -2):
        x: Any = widen(A, "cpu") if dtype is None else cast(A, dtype)
        rest = [i for i in range(A.ndim) if i not in (rows, columns)]
        values: Any = svdvals(apply("permute", x, axes=(*rest, rows, columns)))
        last = values.ndim - 1
        if ord == "nuc":
            result = apply("sum", values, axes=(last,), keepdim=False)
        else:
            result = _largest(values, last) if ord > 0 else amin(values, last)
        for a in sorted((rows, columns)):
            result = apply("unsqueeze", result, axis=a)
    else:
        raise RuntimeError(f"{fn}: Order {ord} not supported.")
    if not keepdim:
        result = apply("squeeze", apply("squeeze", result, axis=max(rows, columns)), axis=min(rows, columns))
    return own(result)


def _largest(x: Any, over: int, keepdim: bool = False) -> Any:
    """The largest of numbers that are not negative along an axis; of none of them 0, as in torch."""
    return amax(some(x, over, 0.0), over, keepdim)


def cond(A: AnyTensor[Tensor], p: Any = None) -> Tensor:
    """Condition numbers, (...): the largest singular value by the smallest (None, 2; -2: the other way round), or the
    norm of order p times that of the inverse, inf of singular matrices."""
    A = widen(A, "cpu")
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if is_empty(A.shape[-2:]):
        return create("full", A, value=0, shape=tuple(A.shape)[:-2], dtype=A.dtype.to_real())
    if p is None or p in (2, -2):
        values: Any = svdvals(A)
        last = values.ndim - 1
        large, small = [apply(name, values, axes=(last,), keepdim=False) for name in ("amax", "amin")]
        return apply("div", small, large) if p == -2 else apply("div", large, small)
    if p not in ("fro", "nuc") and p not in _SUMS:
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    back, info = inv_ex(square(f"linalg.cond(ord={p})", A))
    result = apply("mul", matrix_norm(A, p), matrix_norm(back, p)) if p != "nuc" else _nuclear(A, back, info)
    return apply("where", apply("gt", info, as_operand(0, info.dtype)), as_operand(math.inf, A.dtype.to_real()), result)


def _nuclear(A: Any, back: Any, info: Any) -> Any:
    """The product of the nuclear norms; of what was not inverted that of zeros."""
    lost = apply("unsqueeze", apply("unsqueeze", apply("gt", info, as_operand(0, info.dtype)), axis=info.ndim),
                 axis=info.ndim + 1)
    return apply("mul", matrix_norm(A, "nuc"), matrix_norm(
        apply("where", lost, as_operand(0.0, A.dtype), back), "nuc"))


complete(globals(), "torch.linalg")
