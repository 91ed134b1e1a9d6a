"""torch.linalg: norms, products, inverses, determinants, factors."""

from typing import Any

from jitgrad.dtypes import int64
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.autocast import lower
from jitgrad.ops.library import reduce as _reduce
from jitgrad.ops.library.core import apply, cast
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra import decompositions as _decompositions, linalg as _linalg
from jitgrad.ops.library.shapes import rearrange as _rearrange, shape as _shape
from jitgrad.ops.library.sizes import axes

__library__ = True

LinAlgError = _decompositions.LinAlgError
cholesky, det, eigh, eigvalsh = (_decompositions.cholesky, _decompositions.det, _decompositions.eigh,
                                 _decompositions.eigvalsh)
inv, slogdet, solve = _decompositions.inv, _decompositions.slogdet, _decompositions.solve
cross, matmul, vector_norm = _linalg.cross, _linalg.matmul, _reduce.vector_norm


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A vector norm, or with two axes (or a matrix and an `ord`) a matrix norm.

    Without `ord` the 2-norm of all elements. NotImplementedError for the norms that need singular values.
    """
    two = (isinstance(dim, (tuple, list)) and len(dim) == 2) or (dim is None and A.ndim == 2 and ord is not None)
    if two:
        return matrix_norm(A, "fro" if ord is None else ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return _reduce.vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
                dtype: Any = None) -> Tensor:
    """"fro"; 1, -1: largest, smallest sum of a column's absolute values; inf, -inf: of a row's."""
    if ord == "fro":
        return _reduce.vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if ord not in (1, -1, float("inf"), float("-inf")):
        raise NotImplementedError(f"matrix_norm() does not have ord={ord!r}: it needs singular values")
    rows, columns = dim[0] % A.ndim, dim[1] % A.ndim
    along, over = (rows, columns) if ord in (1, -1) else (columns, rows)
    sums = _reduce.vector_norm(A, 1, along, True, dtype=dtype)
    extreme = _reduce.amax if ord > 0 else _reduce.amin
    result = extreme(sums, over, True)
    return result if keepdim else _shape.squeeze(result, (rows, columns))


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of products along dim, with broadcasting."""
    product: Any = lower(x) * lower(y)
    if not product.dtype.is_floating_point:
        product = cast(product, int64)
    return apply("sum", product, axes=axes(dim, product.ndim), keepdim=False)  # type: ignore[no-any-return]


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of the last two axes."""
    return _rearrange.diagonal(A, offset, dim1, dim2)


def multi_dot(tensors: Any) -> Tensor:
    """The product of matrices, from left to right."""
    result: Tensor = tensors[0]
    for m in tensors[1:]:
        result = _linalg.matmul(result, m)
    return result


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A @ A @ ... n times, by squaring; of the inverse for negative n."""
    from jitgrad.ops.library.creation import eye

    if n < 0:
        A, n = inv(A), -n
    result, base = None, A
    while n:
        if n & 1:
            result = base if result is None else _linalg.matmul(result, base)
        n >>= 1
        if n:
            base = _linalg.matmul(base, base)
    return _shape.expand_as(eye(A.shape[-1], dtype=A.dtype), A) if result is None else result

complete(globals(), "torch.linalg")

__all__ = ["LinAlgError", "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
           "matrix_power", "multi_dot", "norm", "slogdet", "solve", "vecdot", "vector_norm"]
