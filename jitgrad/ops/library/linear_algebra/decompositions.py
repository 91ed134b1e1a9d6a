"""torch.linalg's inverses, solutions, determinants and eigenvalues of batches of matrices."""

from typing import Any, NamedTuple

from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor, own
from jitgrad.ops.library.core import apply
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra._checks import broadcast_batches, finite, found, require_kernel, square
from jitgrad.ops.library.sizes import require_equal, same_shape

__library__ = True


class slogdet_result(NamedTuple):
    """The sign and the logarithm of the size of determinants."""

    sign: Any
    logabsdet: Any


class eigh_result(NamedTuple):
    """Eigenvalues and eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


class eig_result(NamedTuple):
    """Complex eigenvalues and eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


def inv(A: AnyTensor[Tensor]) -> Tensor:
    """Inverses, (..., n, n). LinAlgError for a singular matrix."""
    A = widen(A, "cpu")
    return found(apply("inv", square("linalg.inv", A)), A,
                  "linalg.inv: The inversion could not be completed because the input matrix is singular.")


def solve(A: AnyTensor[Tensor], B: AnyTensor[Tensor], *, left: bool = True) -> Tensor:
    """The X of A X = B, or X A = B: (..., n, n) and (..., n, k), (n,) or (..., n). LinAlgError for a singular A."""
    return solved("linalg.solve", A, B, left, True)


def solved(fn: str, A: Any, B: Any, left: bool, checked: bool = False) -> Any:
    """What `solve` returns, NaN of a singular matrix unless that is asked for."""
    a, b = square(fn, widen(A, "cpu")), widen(B, "cpu")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{fn}: Expected A and B to have the same dtype, but found A of type "
                           f"{a.dtype.word} and B of type {b.dtype.word} instead")
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and same_shape(b.shape, a.shape[:-1]))
    if not b.ndim:
        raise RuntimeError(f"{fn}: The input tensor B must have at least 2 dimensions.")
    if vector:
        b = apply("unsqueeze", b, axis=b.ndim)
    if not left:
        a, b = a.mT, b.mT
    n, m = a.shape[-1], b.shape[-2]
    equation = "AX = B" if left else "XA = B"
    require_equal(n, m, lambda: f"{fn}: Incompatible shapes of A and B for the equation {equation} ({n} and {m})")
    a, b = broadcast_batches(a, b)
    x = apply("solve", a, b)
    if checked:
        found(x, apply("matmul", a, b), "torch.linalg.solve: The solver failed because the input matrix is singular.")
    x = x if left else x.mT
    return own(apply("squeeze", x, axis=x.ndim - 1) if vector else x)


def cholesky(A: AnyTensor[Tensor], upper: bool = False) -> Tensor:
    """The lower (or upper) factor L of A = L L^H, (..., n, n). LinAlgError unless A is positive definite.

    Of A the lower (or upper) triangle is read, the other is taken to be the same; the gradient is Hermitian.
    """
    whole: Any = square("linalg.cholesky", widen(A, "cpu"))
    lower = whole.mH if upper else whole
    factor = found(apply("cholesky", lower), lower, "linalg.cholesky: The factorization could not be completed because "
                   "the input is not positive-definite.")
    return own(factor.mH) if upper else factor


def slogdet(A: AnyTensor[Tensor]) -> slogdet_result:
    """Named (sign, logabsdet) of determinants."""
    return slogdet_result(*apply("slogdet", square("linalg.slogdet", A)))


def det(A: AnyTensor[Tensor]) -> Tensor:
    """Determinants."""
    return apply("det", square("linalg.det", A))


def logdet(input: AnyTensor[Tensor]) -> Tensor:
    """Logarithms of determinants: -inf for 0, NaN for negative ones."""
    sign, size = apply("slogdet", square("logdet", input))
    return apply("log", sign) + size


def eigh(A: AnyTensor[Tensor], UPLO: str = "L") -> eigh_result:
    """Named (eigenvalues, rising, eigenvectors) of Hermitian matrices, of which the triangle UPLO is read.

    The gradient is Hermitian, and that of losses which do not change with the phases of complex vectors.
    """
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    require_kernel("linalg_eigh_cpu", A)
    whole: Any = square("linalg.eigh", widen(A, "cpu"))
    return eigh_result(*apply("eigh", whole if UPLO.upper() == "L" else whole.mH))


def eigvalsh(A: AnyTensor[Tensor], UPLO: str = "L") -> Tensor:
    """Eigenvalues of Hermitian matrices, rising."""
    return eigh(A, UPLO).eigenvalues


def eig(A: AnyTensor[Tensor]) -> eig_result:
    """Named (eigenvalues, eigenvectors), complex: (..., n) in no order, and (..., n, n), columns of length one.

    RuntimeError for what is not finite. The gradient is that of losses which do not change with the vectors' phases.
    """
    return _eig("linalg.eig", A)


def eigvals(A: AnyTensor[Tensor]) -> Tensor:
    """Complex eigenvalues, (..., n), in no order. RuntimeError for what is not finite."""
    return _eig("linalg.eigvals", A).eigenvalues


def _eig(fn: str, A: Any) -> eig_result:
    a = square(fn, A)
    if a.dtype.is_half:
        raise NotImplementedError(f"\"linalg_eig_out_cpu\" not implemented for '{a.dtype.word}'")
    finite(apply("sub", a, a), "torch.linalg.eig: input tensor should not contain infs or NaNs.", RuntimeError)
    return eig_result(*apply("eig", a))


def matrix_exp(A: AnyTensor[Tensor]) -> Tensor:
    """The exponential of matrices, (..., n, n)."""
    return apply("matrix_exp", square("linalg.matrix_exp", widen(A, "cpu")))


# --- torch's other names for the same things -----------------------------------------------------------------------

inverse = inv

complete(globals(), "torch.linalg", "torch", "Tensor")

__all__ = ["det", "inverse", "logdet", "matrix_exp", "slogdet"]
