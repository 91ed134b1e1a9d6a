"""Sparse tensors as graph networks use them: see `SparseTensor` and `CsrTensor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.sparse.coo import SparseTensor, sparse_coo_tensor
from jitgrad.sparse.csr import CsrTensor, sparse_csr_tensor, to_sparse_csr
from jitgrad.sparse.entries import Entries

__all__ = ["CsrTensor", "FloatTensor", "SparseTensor", "addmm", "mm", "softmax", "sparse_coo_tensor",
           "sparse_csr_tensor", "spmm", "sum", "to_sparse", "to_sparse_csr"]


def _require(fn: str, x: Any, argument: str, position: int) -> None:
    if not isinstance(x, (Tensor, Entries)):
        raise TypeError(f"{fn}(): argument '{argument}' (position {position}) must be Tensor, not {type(x).__name__}")


def mm(mat1: Any, mat2: Any) -> Any:
    """The product of a sparse matrix and a dense one, in either order, dense, or a sparse one, sparse.

    RuntimeError for two dtypes or sizes that do not fit, IndexError for a vector.
    """
    return spmm(mat1, mat2)


def spmm(input: Any, mat2: Any) -> Any:
    """`mm`, by the name that it has in `torch`."""
    _require("mm", input, "input", 1)
    _require("mm", mat2, "mat2", 2)
    if input.dim() < 2 or mat2.dim() < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    if input.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError("mm: both operands must be matrices")
    return input @ mat2


def _mv(input: Any, vec: Any) -> Any:
    """`mv` of a sparse matrix."""
    if input.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.dim()}, {vec.dim()}")
    return input @ vec


def _matmul(input: Any, other: Any) -> Any:
    """`matmul` with a sparse matrix."""
    _require("matmul", input, "input", 1)
    _require("matmul", other, "other", 2)
    return input @ other


def addmm(input: Tensor, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta * input + alpha * mat1 @ mat2, of a sparse mat1."""
    return beta * input + alpha * mm(mat1, mat2)


def _addmv(input: Tensor, mat: Any, vec: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """`addmv` of a sparse matrix."""
    return beta * input + alpha * _mv(mat, vec)


def _linear(input: Any, weight: Any, bias: Tensor | None = None) -> Any:
    """`linear` with a sparse weight, or of a sparse input."""
    made = _matmul(input, weight.t())
    return made if bias is None else made + bias


#: what the functions of `jitgrad` do with sparse operands
Entries.__functions__ = {"mm": spmm, "matmul": _matmul, "mv": _mv, "addmm": addmm, "addmv": _addmv,
                         "linear": _linear}


def FloatTensor(indices: Tensor, values: Tensor, size: Sequence[int] | None = None) -> SparseTensor:
    """The older name of `sparse_coo_tensor`, in float32."""
    return sparse_coo_tensor(indices, values, size, dtype=jitgrad.float32)


def to_sparse(input: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """What is not zero in a tensor, by its coordinates; the last axes behind the first `sparse_dim` stay dense."""
    rank = input.dim()
    k = rank if sparse_dim is None else sparse_dim
    if not 1 <= k <= rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [1, {rank}], but got {k})")
    flat = input.detach() != 0
    kept = flat if k == rank else flat.flatten(k).any(-1)
    places = kept.nonzero()
    rows = [places[:, axis] for axis in range(k)]
    return SparseTensor(places.t(), input[tuple(rows)], input.detach().new_zeros(()).expand(input.shape), True)


def sum(input: SparseTensor, dim: int | None = None) -> Any:
    """The sum of all elements, or over one of the axes of a sparse matrix: a sparse vector."""
    if dim is None:
        return input.sum()
    if input.dim() != 2 or input.dense_dim():
        raise NotImplementedError("sparse.sum over an axis: of sparse matrices")
    keep = 1 - dim % 2
    return SparseTensor(input._indices()[keep:keep + 1], input._values(), input._span.select(1 - keep, 0),
                        False).coalesce()


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The softmax over an axis of a sparse matrix, of what is there: other elements count as minus infinity."""
    if input.dim() != 2 or input.dense_dim():
        raise NotImplementedError("sparse.softmax: of sparse matrices")
    kept = input.coalesce()
    values = kept._values() if dtype is None else kept._values().to(dtype)
    keep = 1 - dim % 2
    rows = kept._indices()[keep]
    n = kept.shape[keep]
    largest = jitgrad.full((n,), -float("inf"), dtype=values.dtype, device=values.device).scatter_reduce(
        0, rows, values.detach(), "amax")
    powers = (values - largest[rows]).exp()
    sums = powers.new_zeros((n,)).index_add(0, rows, powers)
    return kept._with(powers / sums[rows])
