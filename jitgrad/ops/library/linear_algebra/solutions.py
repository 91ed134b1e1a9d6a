"""torch.linalg's solutions of linear systems: by triangles and LU factors, of least squares, of tensors."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.dtypes import bool_, float64, int32, int64
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library.core import Number, apply, as_operand, cast, create, expand_to
from jitgrad.ops.library.elementary import abs as absolute
from jitgrad.ops.library.elements.parts import conj
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra._checks import (NOT_FINITE, LinAlgError, broadcast_batches, finite,
                                                        largest_side, matrices, require_none, square, zero_pivot)
from jitgrad.ops.library.linear_algebra.decompositions import inv, solve, solved
from jitgrad.ops.library.linear_algebra.factors import permutation_matrix, svdvals
from jitgrad.ops.library.sizes import axis, product, require, require_equal, same_shape, static_int, text

__library__ = True


class inv_ex_result(NamedTuple):
    """Inverses, and the number of the first zero pivot or 0."""

    inverse: Any
    info: Any


class solve_ex_result(NamedTuple):
    """Solutions, and the number of the first zero pivot or 0."""

    result: Any
    info: Any


class lstsq_result(NamedTuple):
    """What is nearest, how far it is, and of which ranks and singular values the matrices are."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


# --- square systems ------------------------------------------------------------------------------------------------


def inv_ex(A: AnyTensor[Tensor], *, check_errors: bool = False) -> inv_ex_result:
    """Named (inverse, info): info, int32 (...), numbers the first zero pivot, counted from 1, or is 0.

    Of a singular matrix the inverse is NaN. LinAlgError for one with `check_errors`.
    """
    A = square("linalg.inv_ex", widen(A, "cpu"))
    info = zero_pivot(apply("lu_factor", A)[0])
    if check_errors:
        require_none("linalg.inv_ex", info, LinAlgError, "The diagonal element ", ..., " is zero, the inversion could "
                     "not be completed because the input matrix is singular.")
    return inv_ex_result(apply("inv", A), info)


def solve_ex(A: AnyTensor[Tensor], B: AnyTensor[Tensor], *, left: bool = True,
             check_errors: bool = False) -> solve_ex_result:
    """Named (result, info): see `solve` and `inv_ex`. LinAlgError for a singular A with `check_errors`."""
    A = square("linalg.solve", widen(A, "cpu"))
    info = zero_pivot(apply("lu_factor", A)[0])
    if check_errors:
        require_none("torch.linalg.solve_ex", info, LinAlgError,
                     "The solver failed because the input matrix is singular.")
    return solve_ex_result(solved("linalg.solve_ex", A, B, bool(left)), info)


def solve_triangular(A: AnyTensor[Tensor], B: AnyTensor[Tensor], *, upper: bool, left: bool = True,
                     unitriangular: bool = False) -> Tensor:
    """The X of A X = B (of X A = B without `left`), where one triangle of A is read: (..., n, n) and (..., n, k).

    With `unitriangular` the diagonal counts as ones. A zero on it divides: there is no error.
    """
    fn = "linalg.solve_triangular"
    a, b = square(fn, widen(A, "cpu")), widen(B, "cpu")
    if b.ndim < 2:
        raise RuntimeError(f"{fn}: The input tensor B must have at least 2 dimensions.")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{fn}: Expected A and B to have the same dtype, but found A of type {a.dtype.word} and B "
                           f"of type {b.dtype.word} instead")
    _require_fit(fn, a, b, left)
    upper = bool(upper)
    if not left:
        a, b, upper = a.mT, b.mT, not upper
    a, b = broadcast_batches(a, b)
    x = triangular(a, b, upper=upper, unit=bool(unitriangular))
    return x if left else x.mT


def _require_fit(fn: str, a: Any, b: Any, left: bool) -> None:
    m, n = b.shape[-2], b.shape[-1]
    size = a.shape[-1]
    require_equal(size, m if left else n, lambda: (
        f"{fn}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} ({size}x{size} and "
        f"{m}x{n})"))


def triangular(a: Any, b: Any, *, upper: bool, unit: bool = False) -> Any:
    """The x of a @ x = b, of a triangle of a."""
    return apply("solve_triangular", a, b, upper=upper, unit=unit)


def lu_solve(LU: AnyTensor[Tensor], pivots: AnyTensor[Tensor], B: AnyTensor[Tensor], *, left: bool = True,
             adjoint: bool = False) -> Tensor:
    """The X of A X = B (of X A = B without `left`, of A^H with `adjoint`) from A's factors."""
    factors, b = square("torch.linalg.lu_solve", widen(LU, "cpu")), matrices("torch.linalg.lu_solve", widen(B, "cpu"))
    if pivots.dtype is not int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    flip = bool(adjoint) == bool(left)  # X A = B is A^T X^T = B^T
    b = b if left else b.mT
    P = permutation_matrix(apply("lu_order", factors, pivots), factors)
    if adjoint:  # A^H X = B is conj(A)^T X = B
        factors = conj(factors)
    factors, b = broadcast_batches(factors, b)
    if flip:
        y = triangular(factors.mT, b, upper=False)
        x = apply("matmul", P, triangular(factors.mT, y, upper=True, unit=True))
    else:
        y = triangular(factors, apply("matmul", P.mT, b), upper=False, unit=True)
        x = triangular(factors, y, upper=True)
    return x if left else x.mT


# --- least squares -------------------------------------------------------------------------------------------------


def tolerances(A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Below what a singular value counts as zero, and below what part of the largest: (...), for each matrix.

    Without either the part is the rounding error of the dtype times the larger side; with an `atol` above zero it is 0.
    """
    batch, d = tuple(A.shape)[:-2], A.dtype.to_real()
    rounding = float(np.finfo(np.float64 if d is float64 else np.float32).eps)  # half types: as float32
    usual = as_operand(rounding * largest_side(A), d)
    absolute = as_operand(0.0 if atol is None else atol, d)
    if rtol is None:
        zero = as_operand(0.0, d)
        relative = usual if atol is None else apply("where", apply("gt", absolute, zero), zero, usual)
    else:
        relative = as_operand(rtol, d)
    near = create("full", A, value=0, shape=batch, dtype=d)
    return apply("add", near, absolute), apply("add", near, relative)


def pinv(A: AnyTensor[Tensor], rcond: Number | AnyTensor[Tensor] | None = None, hermitian: bool = False, *,
         atol: Number | AnyTensor[Tensor] | None = None, rtol: Number | AnyTensor[Tensor] | None = None) -> Tensor:
    """Pseudoinverses, (..., n, m) of (..., m, n): singular values up to max(atol, rtol * the largest) count as zero.

    `rcond` is an older name of `rtol`. Slopes hold where the rank does.
    """
    a: Any = widen(A, "cpu")
    if a.ndim < 2 or not a.dtype.is_inexact:
        raise RuntimeError(f"linalg.pinv({a.dtype.word}{{{text(a.shape)}}}): expected a tensor with 2 or more "
                           "dimensions of float, double, cfloat or cdouble types")
    if hermitian:
        a = square("linalg.eigh", a)
        a = apply("mul", apply("add", a, a.mH), as_operand(0.5, a.dtype))
    return finite(apply("pinv", a, *tolerances(a, atol, rcond if rtol is None else rtol)), NOT_FINITE)


def lstsq(A: AnyTensor[Tensor], B: AnyTensor[Tensor], rcond: Number | None = None, *,
          driver: str | None = None) -> lstsq_result:
    """Named (solution, residuals, rank, singular_values): the X for which |A X - B| is least, and of these the least.

    Args:
        A, B: (..., m, n) and (..., m, k), or (..., m) where A is of one more dimension.
        rcond: singular values up to this part of the largest count as zero; by default rounding times the larger side.
        driver: LAPACK's name of a way, of which here it depends only which of the results are not empty: "gelsy" (the
            default) ranks; "gels" squared residuals; "gelsd" and "gelss" these, ranks and singular values.
    """
    fn = "torch.linalg.lstsq"
    driver = "gelsy" if driver is None else driver
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{fn}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if A.ndim < 2:
        raise RuntimeError(f"{fn}: input must have at least 2 dimensions.")
    if A.dtype is not B.dtype:
        raise RuntimeError(f"{fn}: Expected input and other to have the same dtype, but got input's dtype "
                           f"{A.dtype.word} and other's dtype {B.dtype.word}")
    a, b = matrices(fn, widen(A, "cpu")), widen(B, "cpu")
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and same_shape(b.shape, a.shape[:-1]))
    if vector:
        b = apply("unsqueeze", b, axis=b.ndim)
    m, n = a.shape[-2], a.shape[-1]
    require_equal(m, b.shape[-2], lambda: f"{fn}: input.size(-2) should match other.size(-2)")
    a, b = broadcast_batches(a, b)
    x = apply("matmul", apply("pinv", a, *tolerances(a, None, rcond)), b)
    empty = create("full", a, value=0, shape=(0,), dtype=a.dtype.to_real())
    values = svdvals(a.detach())
    ranks = _rank(values, *tolerances(a, None, rcond))
    residuals = empty
    if driver != "gelsy" and static_int(m) > static_int(n):
        off = apply("sub", apply("matmul", a, x), b)
        residuals = apply("sum", apply("square", absolute(off)), axes=(off.ndim - 2,), keepdim=False)
    return lstsq_result(apply("squeeze", x, axis=x.ndim - 1) if vector else x, residuals,
                        cast(empty, int64) if driver == "gels" else ranks,
                        values if driver in ("gelsd", "gelss") else empty)


def _rank(values: Any, atol: Any, rtol: Any) -> Any:
    """int64 (...): how many singular values, falling, count."""
    last = values.ndim - 1
    if isinstance(values.shape[-1], int) and values.shape[-1] == 0:
        return create("full", values, value=0, shape=tuple(values.shape)[:-1], dtype=int64)
    largest = apply("amax", values, axes=(last,), keepdim=False)
    cutoff = apply("unsqueeze", apply("maximum", atol, apply("mul", rtol, largest)), axis=last)
    return apply("sum", cast(apply("gt", values, cutoff), int64), axes=(last,), keepdim=False)


def matrix_rank(A: AnyTensor[Tensor], tol: Number | AnyTensor[Tensor] | None = None, hermitian: bool = False, *,
                atol: Number | AnyTensor[Tensor] | None = None,
                rtol: Number | AnyTensor[Tensor] | None = None) -> Tensor:
    """int64 (...): how many singular values are above max(atol, rtol * the largest); `tol` is an older name of atol,
    with an rtol of 0."""
    A = widen(A, "cpu")
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
    a = matrices("linalg.matrix_rank", A).detach()
    if hermitian:
        square("linalg.eigvalsh", a)
        a = apply("mul", apply("add", a, a.mH), as_operand(0.5, a.dtype))
    limits = tolerances(a, atol, rtol) if tol is None else tolerances(a, tol, 0.0)
    return _rank(svdvals(a), *limits)


# --- systems of tensors --------------------------------------------------------------------------------------------


def tensorinv(A: AnyTensor[Tensor], ind: int = 2) -> Tensor:
    """The inverse under `tensordot(A, x, x.ndim)` of A, whose first `ind` sizes and others have one product."""
    ind = static_int(ind)
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    if ind > A.ndim:
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {A.ndim}")
    front, back = tuple(A.shape)[:ind], tuple(A.shape)[ind:]
    m, n = product(front), product(back)
    require_equal(n, m, lambda: "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
                                f"prod(self.shape[:ind]), but got {n} != {m}")
    return apply("reshape", inv(apply("reshape", A, shape=(m, n))), shape=(*back, *front))


def tensorsolve(A: AnyTensor[Tensor], B: AnyTensor[Tensor], dims: Sequence[int] | None = None) -> Tensor:
    """The X of tensordot(A, X, X.ndim) = B; `dims` of A are moved behind the others first."""
    if dims is not None:
        moved = [axis(d, A.ndim) for d in dims]
        A = apply("permute", A, axes=(*[i for i in range(A.ndim) if i not in moved], *moved))
    rest = tuple(A.shape)[B.ndim:]
    m, n = product(tuple(A.shape)[:B.ndim]), product(rest)
    require_equal(n, m, lambda: "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                                f"prod(self.shape[:other.ndim]), but got {n} != {m}")
    x = solve(apply("reshape", A, shape=(m, n)), apply("reshape", B, shape=(m,)))
    return apply("reshape", x, shape=rest)


def vander(x: AnyTensor[Tensor], *, N: int | None = None) -> Tensor:
    """(..., n, N): powers 0, 1, ... N - 1 of x's elements; N is n without it. RuntimeError for an N of 1 or less."""
    if x.dtype is bool_ or x.dtype.is_half:
        raise RuntimeError("linalg.vander supports floating point, complex, and integer tensors, but got "
                           + x.dtype.word)
    x = x if x.ndim else apply("unsqueeze", x, axis=0)
    size = x.shape[-1] if N is None else N
    require(size > 1, RuntimeError, "N must be greater than 1.")
    base = apply("unsqueeze", x, axis=x.ndim)
    shape = tuple(base.shape)[:-1]
    base = expand_to(base if x.dtype.is_inexact else cast(base, int64), (*shape, size - 1))
    one = create("full", base, value=1, shape=(*shape, 1), dtype=base.dtype)
    return apply("cat", one, apply("cumprod", base, axis=x.ndim), axis=x.ndim)


complete(globals(), "torch.linalg")
