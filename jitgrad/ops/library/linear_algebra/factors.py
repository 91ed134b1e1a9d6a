"""torch.linalg's factors of matrices: singular values, QR, LU, Cholesky; products of reflections."""

from typing import Any, NamedTuple

from jitgrad.dtypes import int32
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import apply, cast, create, expand_to, not_implemented, require_tensor
from jitgrad.ops.library.elements.parts import conj
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra._checks import (NOT_FINITE, LinAlgError, broadcast_batches, finite, identity,
                                                        matrices, require_none, square, zero_pivot)
from jitgrad.ops.library.shapes.rearrange import tril, triu
from jitgrad.ops.library.sizes import require, require_equal, static_int, text

__library__ = True


class svd_result(NamedTuple):
    """Singular vectors, singular values, and the vectors on the right in rows."""

    U: Any
    S: Any
    Vh: Any


class qr_result(NamedTuple):
    """Orthogonal columns, and an upper triangle."""

    Q: Any
    R: Any


class lu_result(NamedTuple):
    """A permutation, and two triangles."""

    P: Any
    L: Any
    U: Any


class lu_factor_result(NamedTuple):
    """Two triangles in one matrix, and pivots."""

    LU: Any
    pivots: Any


class lu_factor_ex_result(NamedTuple):
    """Two triangles in one matrix, pivots, and the number of the first zero on U's diagonal or 0."""

    LU: Any
    pivots: Any
    info: Any


class ldl_factor_result(NamedTuple):
    """A triangle and blocks of the diagonal in one matrix, and pivots."""

    LD: Any
    pivots: Any


class ldl_factor_ex_result(NamedTuple):
    """A triangle and blocks of the diagonal in one matrix, pivots, and the number of the first block of zeros or 0."""

    LD: Any
    pivots: Any
    info: Any


class cholesky_ex_result(NamedTuple):
    """A factor, and the order of the first leading minor that is not positive or 0."""

    L: Any
    info: Any


# --- singular values, QR -------------------------------------------------------------------------------------------


def _no_driver(driver: Any) -> None:
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
                           "cuSOLVER backend.")


def svd(A: AnyTensor[Tensor], full_matrices: bool = True, *, driver: str | None = None) -> svd_result:
    """Named (U, S, Vh), A = U diag(S) Vh: (..., m, m), (..., min(m, n)), (..., n, n); without `full_matrices` only the
    first min(m, n) columns of U and rows of Vh.

    S falls. LinAlgError for what is not finite. Slopes need distinct singular values; they reach the first min(m, n)
    vectors.
    """
    _no_driver(driver)
    parts = apply("svd", matrices("linalg.svd", widen(A, "cpu")), full=bool(full_matrices))
    finite(parts[1], NOT_FINITE)
    return svd_result(*parts)


def svdvals(A: AnyTensor[Tensor], *, driver: str | None = None) -> Tensor:
    """Singular values, falling, (..., min(m, n)). LinAlgError for what is not finite."""
    return svd(A, False, driver=driver).S


def qr(A: AnyTensor[Tensor], mode: str = "reduced") -> qr_result:
    """Named (Q, R), A = Q R: (..., m, k) and (..., k, n), k = min(m, n), or m with "complete"; with "r" Q is empty.

    RuntimeError for another mode, and where a slope is asked of more columns of Q than A has.
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
                           "'complete'")
    a: Any = matrices("linalg.qr", widen(A, "cpu"))
    _no_half("geqrf_cpu", a)
    square_up = mode == "complete" and static_int(a.shape[-2]) > static_int(a.shape[-1])
    if square_up and a.requires_grad and backend().is_grad_enabled():
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
    q, r = apply("qr", a, complete=square_up)
    return qr_result(create("full", a, value=0, shape=(0,), dtype=a.dtype) if mode == "r" else q, r)


# --- LU ------------------------------------------------------------------------------------------------------------


def _pivoted(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def lu_factor_ex(A: AnyTensor[Tensor], *, pivot: bool = True, check_errors: bool = False) -> lu_factor_ex_result:
    """Named (LU, pivots, info): see `lu_factor`; info, int32 (...), numbers the first zero on U's diagonal, or is 0."""
    return _lu_factor("lu_factor_ex", A, pivot, bool(check_errors))


def _factorable(fn: str, A: Any, pivot: bool) -> Any:
    """A as what `lu_factor` takes."""
    _pivoted(pivot)
    A = widen(A, "cpu")
    if A.ndim < 2:
        raise RuntimeError(f"linalg.{fn}: Expected tensor with 2 or more dimensions. Got size: {text(A.shape)} instead")
    if not A.dtype.is_inexact:
        raise not_implemented("lu", A.dtype)
    return matrices(f"linalg.{fn}", A)


def _lu_factor(fn: str, A: Any, pivot: bool, checked: bool) -> lu_factor_ex_result:
    lu, pivots, _ = apply("lu_factor", _factorable(fn, A, pivot))
    info = zero_pivot(lu)
    if checked:
        require_none(f"torch.linalg.{fn}", info, RuntimeError, "U[", ..., ",", ..., "] is zero and using it on "
                     "lu_solve would result in a division by zero. If you still want to perform the factorization, "
                     "consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)")
    return lu_factor_ex_result(lu, pivots, info)


def lu_factor(A: AnyTensor[Tensor], *, pivot: bool = True) -> lu_factor_result:
    """Named (LU, pivots): L below the diagonal of LU, U on and above it, (..., m, n), and int32 (..., min(m, n)), with
    which row, counted from 1, each was exchanged.

    RuntimeError for a zero on U's diagonal, and for `pivot=False`, as on torch's CPU.
    """
    return lu_factor_result(*_lu_factor("lu_factor", A, pivot, True)[:2])


def lu(A: AnyTensor[Tensor], *, pivot: bool = True) -> lu_result:
    """Named (P, L, U), A = P L U: (..., m, m), (..., m, k), (..., k, n), k = min(m, n)."""
    factors, pivots, order = apply("lu_factor", _factorable("lu", A, pivot))
    return lu_result(permutation_matrix(order, factors), *triangles(factors, pivots.shape[-1]))


def permutation_matrix(order: Any, like: Any) -> Any:
    """(..., m, m): the matrix that puts row i where order[i] says."""
    m = order.shape[-1]
    k = apply("unsqueeze", create("arange", order, length=m, dtype=order.dtype), axis=1)
    return cast(apply("eq", k, apply("unsqueeze", order, axis=order.ndim - 1)), like.dtype)


def triangles(factors: Any, k: Any) -> tuple[Any, Any]:
    """L, (..., m, k), with ones on its diagonal, and U, (..., k, n)."""
    last = factors.ndim - 1
    left = apply("slice", factors, axis=last, start=0, length=k, step=1)
    m = factors.shape[-2]
    row, column = create("arange", factors, length=m, dtype=int32), create("arange", factors, length=k, dtype=int32)
    unit = cast(apply("eq", apply("unsqueeze", row, axis=1), column), factors.dtype)
    return apply("add", tril(left, -1), unit), triu(apply("slice", factors, axis=last - 1, start=0, length=k, step=1))


# --- Cholesky ------------------------------------------------------------------------------------------------------


def cholesky_ex(A: AnyTensor[Tensor], *, upper: bool = False, check_errors: bool = False) -> cholesky_ex_result:
    """Named (L, info): see `cholesky`; info, int32 (...), is the order of the first leading minor that is not positive,
    or 0. Of such a matrix L is NaN. LinAlgError for one with `check_errors`.
    """
    whole: Any = square("linalg.cholesky_ex", widen(A, "cpu"))
    lower = whole.mH if upper else whole
    factor, info = apply("cholesky", lower), apply("cholesky_order", lower)
    if check_errors:
        require_none("linalg.cholesky_ex", info, LinAlgError, "The factorization could not be completed because the "
                     "input is not positive-definite (the leading minor of order ", ..., " is not positive-definite).")
    return cholesky_ex_result(factor.mH if upper else factor, info)


# --- LDL -----------------------------------------------------------------------------------------------------------


def ldl_factor(A: AnyTensor[Tensor], *, hermitian: bool = False) -> ldl_factor_result:
    """Named (LD, pivots) of symmetric matrices, with `hermitian` Hermitian ones, of which the lower triangle is read.

    LD, (..., n, n), is compact, as LAPACK's sytrf (hetrf) has it; pivots int32, (..., n). For `ldl_solve`; no gradient.
    RuntimeError where a block of D is zero.
    """
    return ldl_factor_result(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


def ldl_factor_ex(A: AnyTensor[Tensor], *, hermitian: bool = False, check_errors: bool = False) -> ldl_factor_ex_result:
    """Named (LD, pivots, info): see `ldl_factor`; info, int32 (...), numbers the first zero of D, or is 0."""
    fn = "torch.linalg.ldl_factor_ex"
    a = square(fn, A)
    _no_half("ldl_factor_kernel_cpu", a)
    found = ldl_factor_ex_result(*apply("ldl_factor", a, hermitian=bool(hermitian)))
    if check_errors:
        require_none(fn, found.info, RuntimeError, "D[", ..., ",", ..., "] is zero: the matrix is singular. "
                     "linalg.ldl_factor_ex(A) gives its factors")
    return found


def _no_half(kernel: str, x: Any) -> None:
    if x.dtype.is_half:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{x.dtype.word}'")


def ldl_solve(LD: AnyTensor[Tensor], pivots: AnyTensor[Tensor], B: AnyTensor[Tensor], *,
              hermitian: bool = False) -> Tensor:
    """The X of A X = B from what `ldl_factor` gives: (..., n, n), (..., n) and (..., n, k). No gradient."""
    fn = "torch.linalg.ldl_solve"
    factors: Any = square(fn, LD)
    b: Any = B
    if b.ndim < 2:
        raise RuntimeError(f"{fn}: Expected B to have at least 2 dimensions, but it has {b.ndim} dimensions instead")

    def differ() -> str:
        return (f"{fn}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                f"{text(pivots.shape)} instead")

    if pivots.ndim != factors.ndim - 1:
        raise RuntimeError(differ())
    for m, n in zip(pivots.shape, factors.shape, strict=False):
        require_equal(m, n, differ)
    if pivots.dtype.category != int32.category:
        raise RuntimeError(f"{fn}: Expected pivots to be integers. Got {pivots.dtype.word}")
    if factors.dtype is not b.dtype:
        raise RuntimeError(f"Expected b and A to have the same dtype, but found b of type {b.dtype.word} and A of "
                           f"type {factors.dtype.word} instead.")
    _no_half("ldl_solve_kernel_cpu", b)
    require_equal(b.shape[-2], factors.shape[-1], lambda: (
        f"Incompatible matrix sizes for {fn}: each A matrix is {factors.shape[-1]} by {factors.shape[-1]} but each b "
        f"matrix is {b.shape[-2]} by {b.shape[-1]}"))
    factors, b = broadcast_batches(factors, b)
    order = expand_to(cast(pivots, int32), tuple(factors.shape)[:-1])
    return apply("ldl_solve", factors, order, b, hermitian=bool(hermitian))


# --- Householder ---------------------------------------------------------------------------------------------------


def reflections(A: Any, tau: Any) -> tuple[Any, Any]:
    """V and W, both (..., m, k), of the product of k reflections: I - V W^T (of complex ones, too).

    Source: Puglisi, "Modification of the Householder Method Based on the Compact WY Representation", 1992.
    """
    k = tau.shape[-1]
    v = triangles(apply("slice", A, axis=A.ndim - 1, start=0, length=k, step=1), k)[0]
    scaled = apply("mul", conj(v), apply("unsqueeze", tau, axis=tau.ndim - 1))
    system = triu(apply("matmul", scaled.mT, v), 1)
    return v, apply("solve_triangular", system, scaled.mT, upper=True, unit=True).mT


def householder_product(A: AnyTensor[Tensor], tau: AnyTensor[Tensor]) -> Tensor:
    """The first n columns of a product of reflections: (..., m, n) and (..., k), k <= n <= m, as `geqrf` gives them."""
    fn = "torch.linalg.householder_product"
    A, tau = widen(A, "cpu"), widen(require_tensor("linalg_householder_product", tau, "tau", 2), "cpu")
    if A.ndim < 2:
        raise RuntimeError(f"{fn}: input must have at least 2 dimensions.")
    m, n, k = A.shape[-2], A.shape[-1], tau.shape[-1]
    require(m >= n, RuntimeError, f"{fn}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    require(n >= k, RuntimeError, f"{fn}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if A.ndim - tau.ndim != 1:
        raise RuntimeError(f"{fn}: Expected tau to have one dimension less than input, but got tau.ndim equal to "
                           f"{tau.ndim} and input.ndim is equal to {A.ndim}")
    v, w = reflections(A, tau)
    last = A.ndim - 1
    one = apply("slice", identity(A, m), axis=1, start=0, length=n, step=1)
    first = apply("slice", w, axis=last - 1, start=0, length=n, step=1)
    return apply("sub", one, apply("matmul", v, first.mT))


complete(globals(), "torch.linalg")
