"""The largest or smallest eigenvalues of symmetric matrices, as `torch.lobpcg` names its arguments."""

from typing import Any

from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra import decompositions
from jitgrad.ops.library.linear_algebra._checks import identity, square
from jitgrad.ops.library.linear_algebra.linalg import matmul
from jitgrad.ops.library.linear_algebra.solutions import solve_triangular
from jitgrad.ops.library.shapes.rearrange import flip
from jitgrad.ops.library.shapes.shape import narrow
from jitgrad.ops.library.sizes import require, static_int

__library__ = True


def lobpcg(A: AnyTensor[Tensor], k: int | None = None, B: AnyTensor[Tensor] | None = None,
           X: AnyTensor[Tensor] | None = None, n: int | None = None, iK: AnyTensor[Tensor] | None = None,
           niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None,
           tracker: Any = None, ortho_iparams: Any = None, ortho_fparams: Any = None,
           ortho_bparams: Any = None) -> tuple[Tensor, Tensor]:
    """(eigenvalues, eigenvectors): the k largest, or smallest, of A x = e B x, best first: (..., k) and (..., m, k).

    All are found by `linalg.eigh`, exactly and with its gradient: what is said of iterations, the first guess but for
    its number of columns, the preconditioner and the tolerance, has no effect.

    Args:
        A: symmetric matrices, float (..., m, m).
        k: how many: as many as X has columns, or 1.
        n: with how many the algorithm works, which are as many as X has columns, or k: no more are given.
        B: symmetric and positive definite, (..., m, m); without it the identity.
        method: "basic" or "ortho".

    Raises:
        ValueError: fewer than 3 n rows, or another method.
        ZeroDivisionError: n is 0.
    """
    count = static_int(X.shape[-1] if k is None and X is not None else 1 if k is None else k)
    rows = A.shape[-1]
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"unknown method: {method}")
    if B is not None and B.ndim != A.ndim:
        raise AssertionError(f"A and B are of the same size, got {A.ndim} and {B.ndim} axes")
    sought = static_int(X.shape[-1] if X is not None else count if n is None else n)  # of which k are given
    require(rows >= 3 * sought, ValueError, "LOBPCG algorithm is not applicable when the number of A rows (=", rows,
            ") is smaller than 3 x the number of requested eigenpairs (=", sought, ")")
    require(sought >= 1, ZeroDivisionError, "LOBPCG needs at least one eigenpair, got n=", sought)
    count = min(count, sought)
    A = square("lobpcg", A)
    if B is None:
        values, vectors = decompositions.eigh(A)
    else:  # with B = L L^T, the eigenvalues of L^-1 A L^-T
        factor: Any = decompositions.cholesky(square("lobpcg", B))
        inverse: Any = solve_triangular(factor, identity(factor, rows), upper=False)
        values, found = decompositions.eigh(matmul(matmul(inverse, A), inverse.mT))
        vectors = matmul(inverse.mT, found)
    last = A.ndim - 1
    if largest is None or largest:
        values, vectors = flip(values, [last - 1]), flip(vectors, [last])
    return narrow(values, last - 1, 0, count), narrow(vectors, last, 0, count)


complete(globals())

__all__ = ["lobpcg"]
