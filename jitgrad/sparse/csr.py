"""Sparse matrices in rows: where each row begins, columns and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jitgrad
from jitgrad import dtypes
from jitgrad.eager.tensor import Tensor
from jitgrad.sparse.coo import SparseTensor
from jitgrad.sparse.entries import Entries


@dataclass(eq=False, repr=False)
class CsrTensor(Entries):
    """A matrix whose rows are the values between two starts. Make one with `sparse_csr_tensor` or `to_sparse_csr`."""

    _starts: Tensor
    _columns: Tensor
    _entries: Tensor
    _span: Tensor

    is_sparse: ClassVar = False
    is_sparse_csr: ClassVar = True
    layout: ClassVar = dtypes.layout("sparse_csr")

    ndim: ClassVar = 2

    def dim(self) -> int:
        """2."""
        return 2

    def crow_indices(self) -> Tensor:
        """Where rows begin, and the last ends: (rows + 1,)."""
        return self._starts

    def col_indices(self) -> Tensor:
        """The columns of the values: (n,)."""
        return self._columns

    def values(self) -> Tensor:
        """The values: (n,)."""
        return self._entries

    @property
    def grad(self) -> CsrTensor | None:
        """The gradient of the values, at the same places."""
        grad = self._entries.grad
        return None if grad is None else CsrTensor(self._starts, self._columns, grad, self._span)

    def to_sparse(self) -> SparseTensor:
        """By coordinates."""
        rows = jitgrad.repeat_interleave(jitgrad.arange(self._span.shape[0], device=self.device),
                                         self._starts[1:] - self._starts[:-1])
        return SparseTensor(jitgrad.stack([rows, self._columns]), self._entries, self._span, True)

    to_sparse_coo = to_sparse

    def to_sparse_csr(self) -> CsrTensor:
        """Itself."""
        return self

    def to_dense(self, dtype: Any = None) -> Tensor:
        """An ordinary tensor of all elements."""
        return self.to_sparse().to_dense(dtype)

    def matmul(self, other: Any) -> Any:
        """The product with a dense vector or matrix, or with a sparse matrix: sparse, in rows."""
        found = self.to_sparse().matmul(other)
        return found if isinstance(found, Tensor) else found.to_sparse_csr()

    mm = mv = __matmul__ = matmul

    def __rmatmul__(self, other: Any) -> Any:
        return self.to_sparse().__rmatmul__(other)

    def t(self) -> CsrTensor:
        """The transpose, in rows too."""
        return to_sparse_csr(self.to_sparse().t())

    def __repr__(self) -> str:
        return (f"tensor(crow_indices={self._starts!r},\n       col_indices={self._columns!r},\n       "
                f"values={self._entries!r}, size={tuple(self.shape)}, nnz={self._nnz()}, layout=torch.sparse_csr)")


def to_sparse_csr(input: SparseTensor) -> CsrTensor:
    """In rows: two axes, both sparse. RuntimeError for others."""
    if input.dim() != 2 or input.dense_dim():
        raise RuntimeError("to_sparse_csr: expected a tensor of two sparse axes")
    found = input.coalesce()
    counts = jitgrad.bincount(found._indices()[0], minlength=found.shape[0])
    starts = jitgrad.cat([counts.new_zeros(1), counts.cumsum(0)])
    return CsrTensor(starts, found._indices()[1], found._values(), found._span)


def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, *,
                      dtype: Any = None, device: Any = None, requires_grad: bool = False,
                      check_invariants: bool | None = None) -> CsrTensor:
    """A sparse matrix of rows. Gradients go to the values.

    Args:
        crow_indices: where rows begin, and the last ends: (rows + 1,).
        col_indices, values: (n,).
        size: (rows, columns); as many columns as are needed if None.

    Raises:
        RuntimeError: shapes do not fit, or a column is outside of the sizes.
    """
    starts, columns = (jitgrad.as_tensor(x, device=device).to(jitgrad.int64) for x in (crow_indices, col_indices))
    entries = jitgrad.as_tensor(values, dtype=dtype, device=device)
    if starts.dim() != 1 or columns.dim() != 1 or entries.dim() != 1:
        raise RuntimeError("sparse_csr_tensor: starts of rows, columns and values must be vectors")
    if columns.shape != entries.shape or int(starts[0]) != 0 or int(starts[-1]) != columns.shape[0] or bool(
            (starts[1:] < starts[:-1]).any()):
        raise RuntimeError("sparse_csr_tensor: `crow_indices[0] == 0`, `crow_indices[-1] == nnz` and "
                           "`0 <= crow_indices[1:] - crow_indices[:-1]` are not satisfied")
    if size is None:
        size = starts.shape[0] - 1, int(columns.max()) + 1 if columns.numel() else 0
    if len(size) != 2 or size[0] != starts.shape[0] - 1:
        raise RuntimeError(f"sparse_csr_tensor: {starts.shape[0]} starts are those of {starts.shape[0] - 1} rows, and "
                           f"not of sizes {list(size)}")
    if columns.numel() and bool(((columns < 0) | (columns >= size[1])).any()):
        raise RuntimeError(f"sparse_csr_tensor: `0 <= col_indices < {size[1]}` is not satisfied")
    made = CsrTensor(starts, columns, entries, entries.detach().new_zeros(()).expand(tuple(size)))
    return made.requires_grad_() if requires_grad else made
