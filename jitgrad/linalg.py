"""torch.linalg: norms, products, inverses, determinants, solutions, factors."""

from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.ops.autocast import lower
from jitgrad.ops.library import reduce as _reduce
from jitgrad.ops.library.core import apply
from jitgrad.ops.library.elements import parts as _parts
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra import (_checks, decompositions as _decompositions, factors as _factors,
                                                linalg as _linalg, norms as _norms, solutions as _solutions)
from jitgrad.ops.library.shapes import rearrange as _rearrange
from jitgrad.ops.library.sizes import axes, one_axis, static_int

__library__ = True

LinAlgError = _checks.LinAlgError
cholesky, det, eig, eigh, eigvals, eigvalsh = (
    _decompositions.cholesky, _decompositions.det, _decompositions.eig, _decompositions.eigh, _decompositions.eigvals,
    _decompositions.eigvalsh)
inv, matrix_exp, slogdet, solve = (_decompositions.inv, _decompositions.matrix_exp, _decompositions.slogdet,
                                   _decompositions.solve)
cholesky_ex, householder_product, lu, lu_factor = (_factors.cholesky_ex, _factors.householder_product, _factors.lu,
                                                   _factors.lu_factor)
ldl_factor, ldl_factor_ex, ldl_solve = _factors.ldl_factor, _factors.ldl_factor_ex, _factors.ldl_solve
lu_factor_ex, qr, svd, svdvals = _factors.lu_factor_ex, _factors.qr, _factors.svd, _factors.svdvals
cross, matmul, matrix_power = _linalg.cross_along, _linalg.matmul, _linalg.matrix_power
vector_norm = _reduce.vector_norm
cond, matrix_norm, norm = _norms.cond, _norms.matrix_norm, _norms.norm
inv_ex, lstsq, lu_solve, matrix_rank = _solutions.inv_ex, _solutions.lstsq, _solutions.lu_solve, _solutions.matrix_rank
pinv, solve_ex, solve_triangular = _solutions.pinv, _solutions.solve_ex, _solutions.solve_triangular
tensorinv, tensorsolve, vander = _solutions.tensorinv, _solutions.tensorsolve, _solutions.vander


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of products along dim, with broadcasting. RuntimeError for integers, and for two dtypes."""
    static_int(one_axis("linalg_vecdot", dim))
    x, y = lower(x), lower(y)
    if not x.dtype.is_inexact:
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype.word}")
    if x.dtype is not y.dtype:
        raise RuntimeError(f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
                           f"{x.dtype.word} and y of type {y.dtype.word} instead")
    product: Any = _parts.conj_physical(x) * y
    return apply("sum", product, axes=axes(dim, product.ndim), keepdim=False)  # type: ignore[no-any-return]


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of the last two axes."""
    return _rearrange.diagonal(A, offset, dim1, dim2)


def multi_dot(tensors: Any) -> Tensor:
    """The product of matrices, from left to right; the first and the last may be vectors.

    RuntimeError for fewer than two.
    """
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    result: Tensor = tensors[0]
    for m in tensors[1:]:
        result = _linalg.matmul(result, m)
    return result

complete(globals(), "torch.linalg")

__all__ = ["LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
           "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq",
           "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
           "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd",
           "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm"]
