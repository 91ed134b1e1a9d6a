"""torch.linalg's inverses, solutions, determinants and eigenvalues of batches of matrices."""

from typing import Any, NamedTuple

from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor, backend
from jitgrad.ops.library.core import apply, expand_to, whole, word
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import product, require, require_equal, same_shape

__library__ = True


class LinAlgError(RuntimeError):
    """A matrix is singular, or not positive definite."""


class slogdet_result(NamedTuple):
    """The sign and the logarithm of the size of determinants."""

    sign: Any
    logabsdet: Any


class eigh_result(NamedTuple):
    """Eigenvalues and eigenvectors."""

    eigenvalues: Any
    eigenvectors: Any


def _square(fn: str, A: Any) -> Any:
    """A, or RuntimeError unless it holds square matrices of floats."""
    if A.ndim < 2:
        raise RuntimeError(f"{fn}: The input tensor A must have at least 2 dimensions.")
    if not A.dtype.is_floating_point:
        raise RuntimeError(f"{fn}: Expected a floating point or complex tensor as input. Got {word(A.dtype)}")
    m, n = A.shape[-2], A.shape[-1]
    require_equal(m, n, lambda: f"{fn}: A must be batches of square matrices, but they are {m} by {n} matrices")
    return A


def _found(result: Any, given: Any, message: str) -> Any:
    """The result, or LinAlgError where it is NaN though nothing given was."""
    def spoiled(x: Any) -> Any:
        asked = whole(x)
        line = apply("reshape", apply("ne", asked, asked), shape=(product(asked.shape),))
        return backend().item(apply("any", line, axes=(0,), keepdim=False))

    broken, excused = spoiled(result), spoiled(given)
    require((not broken or excused) if isinstance(broken, bool) else broken <= excused, LinAlgError, message)
    return result


def inv(A: AnyTensor[Tensor]) -> Tensor:
    """Inverses, (..., n, n). LinAlgError for a singular matrix."""
    A = widen(A, "cpu")
    return _found(apply("inv", _square("linalg.inv", A)), A,
                  "linalg.inv: The inversion could not be completed because the input matrix is singular.")


def solve(A: AnyTensor[Tensor], B: AnyTensor[Tensor], *, left: bool = True) -> Tensor:
    """The X of A X = B, or X A = B: (..., n, n) and (..., n, k), (n,) or (..., n). LinAlgError for a singular A."""
    a, b = _square("linalg.solve", widen(A, "cpu")), widen(B, "cpu")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"linalg.solve: Expected A and B to have the same dtype, but found A of type "
                           f"{word(a.dtype)} and B of type {word(b.dtype)} instead")
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and same_shape(b.shape, a.shape[:-1]))
    if vector:
        b = apply("unsqueeze", b, axis=b.ndim)
    if not left:
        a, b = a.mT, b.mT
    n, m = a.shape[-1], b.shape[-2]
    equation = "AX = B" if left else "XA = B"
    require_equal(n, m, lambda: f"linalg.solve: Incompatible shapes of A and B for the equation {equation} ({n} and "
                                f"{m})")
    if a.ndim != b.ndim or a.ndim > 2:
        one = apply("mul", apply("slice", a, axis=a.ndim - 1, start=0, length=1, step=1),
                    apply("slice", b, axis=b.ndim - 1, start=0, length=1, step=1))
        batch = tuple(one.shape)[:-2]
        a, b = expand_to(a, (*batch, *a.shape[-2:])), expand_to(b, (*batch, *b.shape[-2:]))
    x = _found(apply("solve", a, b), apply("matmul", a, b), "torch.linalg.solve: The solver failed because the input "
               "matrix is singular.")
    x = x if left else x.mT
    return apply("squeeze", x, axis=x.ndim - 1) if vector else x


def cholesky(A: AnyTensor[Tensor], upper: bool = False) -> Tensor:
    """The lower (or upper) factor L of A = L L^T, (..., n, n). LinAlgError unless A is positive definite."""
    A = widen(A, "cpu")
    factor = _found(apply("cholesky", _square("linalg.cholesky", A)), A, "linalg.cholesky: The factorization could not "
                    "be completed because the input is not positive-definite.")
    return factor.mT if upper else factor


def slogdet(A: AnyTensor[Tensor]) -> slogdet_result:
    """Named (sign, logabsdet) of determinants."""
    return slogdet_result(*apply("slogdet", _square("linalg.slogdet", A)))


def det(A: AnyTensor[Tensor]) -> Tensor:
    """Determinants. Their slopes need regular matrices."""
    sign, size = apply("slogdet", _square("linalg.det", A))
    return sign * apply("exp", size)


def logdet(input: AnyTensor[Tensor]) -> Tensor:
    """Logarithms of determinants: -inf for 0, NaN for negative ones."""
    sign, size = apply("slogdet", _square("logdet", input))
    return apply("log", sign) + size


def eigh(A: AnyTensor[Tensor], UPLO: str = "L") -> eigh_result:
    """Named (eigenvalues, rising, eigenvectors) of symmetric matrices; both triangles of A are read."""
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return eigh_result(*apply("eigh", _square("linalg.eigh", widen(A, "cpu"))))


def eigvalsh(A: AnyTensor[Tensor], UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric matrices, rising."""
    return eigh(A, UPLO).eigenvalues

# --- torch's other names for the same things -----------------------------------------------------------------------

inverse = inv

complete(globals())

__all__ = ["cholesky", "det", "inverse", "logdet", "slogdet"]
