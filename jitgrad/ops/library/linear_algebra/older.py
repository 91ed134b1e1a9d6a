"""What torch has of linear algebra under its own name, beside `torch.linalg`: other orders of arguments and results."""

from typing import Any, NamedTuple

from jitgrad import dtypes
from jitgrad.dtypes import float32, int32
from jitgrad.ops.autocast import widen
from jitgrad.ops.backend import AnyTensor, Tensor
from jitgrad.ops.library import reduce
from jitgrad.ops.library.core import Number, apply, cast, class_word, create, require_floating
from jitgrad.ops.library.elements.parts import conj
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.linear_algebra import decompositions, factors, norms, solutions
from jitgrad.ops.library.linear_algebra._checks import broadcast_batches, identity, matrices, require_kernel, square
from jitgrad.ops.library.linear_algebra.linalg import matmul
from jitgrad.ops.library.shapes.shape import clone
from jitgrad.ops.library.sizes import EVERY, flag, is_empty, minimum, require_axes, require_equal, text

__library__ = True


class usv_result(NamedTuple):
    """Singular vectors in columns, and singular values."""

    U: Any
    S: Any
    V: Any


class geqrf_result(NamedTuple):
    """Reflections below R, and their factors."""

    a: Any
    tau: Any


class triangular_solve_result(NamedTuple):
    """Solutions, and a copy of the coefficients."""

    solution: Any
    cloned_coefficient: Any


# --- decompositions ------------------------------------------------------------------------------------------------


def svd(input: AnyTensor[Tensor], some: bool = True, compute_uv: bool = True) -> usv_result:
    """Named (U, S, V), input = U diag(S) V^H: see `linalg.svd`. Without `compute_uv` U and V are zeros."""
    if compute_uv:
        u, s, v = factors.svd(input, not some)
        return usv_result(u, s, v.mH)
    s = factors.svdvals(input)
    batch, (m, n) = tuple(input.shape)[:-2], tuple(input.shape)[-2:]
    zeros = [create("full", input, value=0, shape=(*batch, k, k), dtype=input.dtype) for k in (m, n)]
    return usv_result(zeros[0], s, zeros[1])


def qr(input: AnyTensor[Tensor], some: bool = True) -> factors.qr_result:
    """Named (Q, R): `linalg.qr`, "reduced" or, without `some`, "complete"."""
    return factors.qr(input, "reduced" if some else "complete")


def geqrf(input: AnyTensor[Tensor]) -> geqrf_result:
    """Named (a, tau), without slopes: R on and above the diagonal of a, below it the vectors of reflections of which
    `householder_product` makes Q."""
    if not input.dtype.is_inexact:
        require_floating("geqrf", input.dtype)
    return geqrf_result(*apply("geqrf", matrices("torch.geqrf", widen(input, "cpu"))))


def lu(A: AnyTensor[Tensor], pivot: bool = True, get_infos: bool = False) -> tuple[Any, ...]:
    """(LU, pivots) of `linalg.lu_factor`, or with `get_infos` those and info of `linalg.lu_factor_ex`."""
    found = factors.lu_factor_ex(A, pivot=pivot) if get_infos else factors.lu_factor(A, pivot=pivot)
    return tuple(found)


def lu_unpack(LU_data: AnyTensor[Tensor], LU_pivots: AnyTensor[Tensor], unpack_data: bool = True,
              unpack_pivots: bool = True) -> factors.lu_result:
    """Named (P, L, U) from what `lu_factor` gives; empty where they are not asked for."""
    if LU_data.ndim < 2:
        raise RuntimeError("torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: "
                           f"{text(LU_data.shape)} instead")
    if unpack_pivots and LU_pivots.dtype is not int32:
        raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
                           "Note: this function is intended to be used with the output produced by "
                           "torch.linalg.lu_factor")
    lower: Any = create("full", LU_data, value=0, shape=(0,), dtype=LU_data.dtype)
    P, upper = lower, lower
    if unpack_pivots:
        P = factors.permutation_matrix(apply("lu_order", LU_data, LU_pivots), LU_data)
    if unpack_data:
        m, n = LU_data.shape[-2], LU_data.shape[-1]
        lower, upper = factors.triangles(LU_data, minimum(m, n))
    return factors.lu_result(P, lower, upper)


# --- solutions -----------------------------------------------------------------------------------------------------


def lu_solve(input: AnyTensor[Tensor], LU_data: AnyTensor[Tensor], LU_pivots: AnyTensor[Tensor]) -> Tensor:
    """The x of A x = input from A's factors: see `linalg.lu_solve`."""
    return solutions.lu_solve(LU_data, LU_pivots, input)


def cholesky_solve(input: AnyTensor[Tensor], input2: AnyTensor[Tensor], upper: bool = False) -> Tensor:
    """The x of A x = input, where `input2` is the lower (or upper) Cholesky factor of A."""
    for name, x in (("b", input), ("u", input2)):
        if x.ndim < 2:
            raise RuntimeError(f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead")
    a, b = square("cholesky_solve", widen(input2, "cpu")), widen(input, "cpu")
    _require_rows("cholesky_solve", a, b)
    a, b = broadcast_batches(a.mH if upper else a, b)
    return solutions.triangular(a.mH, solutions.triangular(a, b, upper=False), upper=True)


def _require_rows(fn: str, a: Any, b: Any) -> None:
    m, n = b.shape[-2], a.shape[-1]
    require_equal(m, n, lambda: f"Incompatible matrix sizes for {fn}: each A matrix is {n} by {n} but each b matrix is "
                                f"{m} by {b.shape[-1]}")


def cholesky(input: AnyTensor[Tensor], upper: bool = False) -> Tensor:
    """`linalg.cholesky`; nothing of matrices without elements."""
    empty = is_empty(input.shape)
    if empty:
        return clone(input)
    require_kernel("cholesky_cpu", input)
    return decompositions.cholesky(input, upper)


def cholesky_inverse(input: AnyTensor[Tensor], upper: bool = False) -> Tensor:
    """The inverse of A, of which `input` is the lower (or upper) Cholesky factor."""
    require_kernel("cholesky_inverse_out_cpu", input)
    a = square("cholesky_inverse", widen(input, "cpu"))
    return cholesky_solve(identity(a, a.shape[-1]), a, upper)


def triangular_solve(input: AnyTensor[Tensor], A: AnyTensor[Tensor], upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> triangular_solve_result:
    """Named (solution, cloned_coefficient): the x of A x = input, or A^T x = input, of one triangle of A."""
    for name, x in (("b", input), ("A", A)):
        if x.ndim < 2:
            raise RuntimeError(f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it has "
                               f"{x.ndim} dimensions instead")
    whole = A.dtype is input.dtype and not A.dtype.is_inexact
    if whole:  # which torch refuses once sizes fit
        A, input = cast(A, float32), cast(input, float32)
    a, b = square("triangular_solve", widen(A, "cpu")), widen(input, "cpu")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"Expected b and A to have the same dtype, but found b of type {b.dtype.word} and A of "
                           f"type {a.dtype.word} instead.")
    _require_rows("triangular_solve", a, b)
    a, b = broadcast_batches(a, b)
    if whole:
        raise NotImplementedError("\"triangular_solve_cpu\" not implemented for integers and bools")
    x = solutions.triangular(a.mT if transpose else a, b, upper=bool(upper) != bool(transpose),
                             unit=bool(unitriangular))
    return triangular_solve_result(x, a.clone())


def pinverse(input: AnyTensor[Tensor], rcond: Number = 1e-15) -> Tensor:
    """`linalg.pinv`, whose singular values up to `rcond` times the largest count as zero."""
    return solutions.pinv(input, rcond)


# --- products ------------------------------------------------------------------------------------------------------


def orgqr(input: AnyTensor[Tensor], input2: AnyTensor[Tensor]) -> Tensor:
    """`linalg.householder_product`."""
    return factors.householder_product(input, input2)


def ormqr(input: AnyTensor[Tensor], input2: AnyTensor[Tensor], input3: AnyTensor[Tensor], left: bool = True,
          transpose: bool = False) -> Tensor:
    """Q input3 (input3 Q without `left`; of Q^H with `transpose`), where Q is the whole product of the reflections of
    `geqrf`, (..., m, m)."""
    a, tau, c = widen(input, "cpu"), widen(input2, "cpu"), widen(input3, "cpu")
    side = "-2" if left else "-1"
    m, n = c.shape[-2] if left else c.shape[-1], a.shape[-2]
    require_equal(m, n, lambda: f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    v, w = factors.reflections(a, tau)
    if bool(transpose):
        v, w = conj(w), conj(v)
    if left:
        return apply("sub", c, apply("matmul", v, apply("matmul", w.mT, c)))
    return apply("sub", c, apply("matmul", apply("matmul", c, v), w.mT))


def chain_matmul(*matrices: AnyTensor[Tensor]) -> Tensor:
    """The product of matrices, from left to right."""
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    result: Any = matrices[0] if matrices[1:] else clone(matrices[0])
    for m in matrices[1:]:
        result = matmul(result, m)
    return result


# --- norms ---------------------------------------------------------------------------------------------------------


def norm(input: AnyTensor[Tensor], p: Number | str | None = "fro", dim: Any = None, keepdim: bool = False,
         dtype: dtypes.dtype | None = None) -> Tensor:
    """The vector norm of order p over dim ("fro" and None: 2), or of a matrix with "nuc" the sum of the singular
    values."""
    if p == "nuc":
        return norms.matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return reduce.vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)  # type: ignore[arg-type]


def nuclear_norm(input: AnyTensor[Tensor], dim: Any = EVERY, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices in two axes."""
    if isinstance(dim, bool):
        dim, keepdim = EVERY, dim
    if isinstance(dim, str) or dim is None:
        raise TypeError(f"nuclear_norm(): argument 'dim' (position 2) must be tuple of ints, not {class_word(dim)}")
    dim = (-2, -1) if dim is EVERY else (dim, dim) if isinstance(dim, int) else dim
    return norms.matrix_norm(input, "nuc", dim, flag(keepdim))


def frobenius_norm(input: AnyTensor[Tensor], dim: Any, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares over dim."""
    if dim is None:
        raise TypeError("frobenius_norm(): argument 'dim' (position 2) must be tuple of ints, not NoneType")
    require_axes(dim, keepdim)
    return reduce.vector_norm(input, 2, dim, keepdim)


complete(globals(), "torch", "Tensor")

__all__ = ["chain_matmul", "cholesky", "cholesky_inverse", "cholesky_solve", "frobenius_norm", "geqrf", "lu",
           "lu_solve", "lu_unpack", "norm", "nuclear_norm", "orgqr", "ormqr", "pinverse", "qr", "svd",
           "triangular_solve"]
