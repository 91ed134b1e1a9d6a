"""Sparse tensors as graph networks use them: see `SparseTensor` and `CsrTensor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.sparse.coo import SparseTensor, sparse_coo_tensor
from jitgrad.sparse.csr import CsrTensor, sparse_csr_tensor, to_sparse_csr

__all__ = ["CsrTensor", "FloatTensor", "SparseTensor", "addmm", "mm", "softmax", "sparse_coo_tensor",
           "sparse_csr_tensor", "spmm", "sum", "to_sparse", "to_sparse_csr"]


def mm(mat1: Any, mat2: Any) -> Any:
    """The product of a sparse matrix and a dense one, in either order, dense."""
    return mat1 @ mat2


def spmm(input: Any, mat2: Any) -> Any:
    """`mm`, by the name that it has in `torch`."""
    return input @ mat2


def addmm(input: Tensor, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta * input + alpha * mat1 @ mat2, of a sparse mat1."""
    return beta * input + alpha * (mat1 @ mat2)


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
