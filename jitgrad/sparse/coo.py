"""Sparse tensors of coordinates, as graph networks use them: an object of ordinary tensors.

A `SparseTensor` has the coordinates (sparse dims, n) int64, and the values (n, *dense dims). All that is done with it
is done with these, in plain Python: gradients go through, and scripts take it as an argument, captured or made inside.
It is no `Tensor`: functions of the library do not take it, but products, those of `jitgrad.sparse`, its methods and
operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jitgrad
from jitgrad import dtypes
from jitgrad.eager.tensor import Tensor
from jitgrad.sparse.entries import Entries


@dataclass(eq=False, repr=False)
class SparseTensor(Entries):
    """Values at coordinates, the sum of those at one; zeros elsewhere. Make one with `sparse_coo_tensor`.

    The sizes are those of a tensor of one element, expanded, so that in scripts they are run-time values.
    """

    _coordinates: Tensor
    _entries: Tensor
    _span: Tensor
    _coalesced: bool

    is_sparse: ClassVar = True
    is_sparse_csr: ClassVar = False
    layout: ClassVar = dtypes.layout("sparse_coo")

    # --- what it is ----------------------------------------------------------------------------------------------

    def dim(self) -> int:
        """The number of axes."""
        return self._span.dim()

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._span.dim()

    def numel(self) -> Any:
        """The number of elements, zeros included."""
        return self._span.numel()

    def sparse_dim(self) -> int:
        """How many axes have coordinates: the first ones."""
        return self._span.dim() - self._entries.dim() + 1

    def dense_dim(self) -> int:
        """How many axes each value has."""
        return self._entries.dim() - 1

    def is_coalesced(self) -> bool:
        """Whether the coordinates are known to be sorted, each of them once."""
        return self._coalesced

    def _indices(self) -> Tensor:
        return self._coordinates

    def _values(self) -> Tensor:
        return self._entries

    def indices(self) -> Tensor:
        """The coordinates (sparse dims, n). RuntimeError where they may come twice: see `coalesce`."""
        self._require_coalesced("indices")
        return self._coordinates

    def values(self) -> Tensor:
        """The values (n, *dense dims). RuntimeError where coordinates may come twice: see `coalesce`."""
        self._require_coalesced("values")
        return self._entries

    def _require_coalesced(self, what: str) -> None:
        if not self._coalesced:
            raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")

    def __repr__(self) -> str:
        return (f"tensor(indices={self._coordinates!r},\n       values={self._entries!r},\n       "
                f"size={tuple(self.shape)}, nnz={self._nnz()}, layout=torch.sparse_coo)")

    # --- gradients -----------------------------------------------------------------------------------------------

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient of the values, at the same coordinates."""
        grad = self._entries.grad
        return None if grad is None else self._with(grad)

    def detach(self) -> SparseTensor:
        """The same memory without history."""
        return self._with(self._entries.detach())

    def _with(self, values: Tensor) -> SparseTensor:
        return SparseTensor(self._coordinates, values, self._span, self._coalesced)

    # --- other forms ---------------------------------------------------------------------------------------------

    def to_dense(self, dtype: Any = None) -> Tensor:
        """An ordinary tensor of all elements."""
        k = self.sparse_dim()
        sizes = tuple(self._span.shape)
        count = 1
        for n in sizes[:k]:
            count = count * n
        made = jitgrad.zeros((count, *sizes[k:]), dtype=self.dtype, device=self.device)
        made = made.index_add(0, self._places(), self._entries).reshape(sizes)
        return made if dtype is None else made.to(dtype)

    def _places(self) -> Tensor:
        """The numbers of the coordinates, counted in order."""
        places = self._coordinates[0]
        for axis in range(1, self.sparse_dim()):
            places = places * self._span.shape[axis] + self._coordinates[axis]
        return places

    def coalesce(self) -> SparseTensor:
        """Each coordinate once, in order, with the sum of its values."""
        if self._coalesced:
            return self
        places, where = jitgrad.unique(self._places(), return_inverse=True)
        values = self._entries.new_zeros((places.shape[0], *self._entries.shape[1:])).index_add(0, where, self._entries)
        rows = []
        for axis in range(self.sparse_dim() - 1, 0, -1):
            rows.append(places % self._span.shape[axis])
            places = places // self._span.shape[axis]
        rows.append(places)
        rows.reverse()
        return SparseTensor(jitgrad.stack(rows), values, self._span, True)

    def to_sparse(self) -> SparseTensor:
        """Itself."""
        return self

    to_sparse_coo = to_sparse

    def to_sparse_csr(self) -> Any:
        """In rows: two axes, both sparse. RuntimeError for others."""
        return jitgrad.sparse.to_sparse_csr(self)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """Another dtype or device."""
        values = self._entries.to(*args, **kwargs)
        return SparseTensor(self._coordinates.to(values.device), values, self._span.to(values.device), self._coalesced)

    def cpu(self) -> SparseTensor:
        """On the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> SparseTensor:
        """On a GPU."""
        return self.to("cuda" if device is None else device)

    def float(self) -> SparseTensor:
        """As float32."""
        return self._with(self._entries.float())

    def double(self) -> SparseTensor:
        """As float64."""
        return self._with(self._entries.double())

    def clone(self) -> SparseTensor:
        """A copy."""
        return SparseTensor(self._coordinates.clone(), self._entries.clone(), self._span, self._coalesced)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Two sparse axes exchanged. RuntimeError for others."""
        rank, k = self.dim(), self.sparse_dim()
        order = list(range(rank))
        a, b = dim0 % rank, dim1 % rank
        order[a], order[b] = b, a
        if a >= k or b >= k:
            raise RuntimeError("transpose: only sparse axes are exchanged")
        rows = jitgrad.stack([self._coordinates[axis] for axis in order[:k]])
        return SparseTensor(rows, self._entries, self._span.transpose(a, b), self._coalesced and a == b)

    def t(self) -> SparseTensor:
        """The transpose of a matrix."""
        return self.transpose(0, 1)

    # --- arithmetic ----------------------------------------------------------------------------------------------

    def __neg__(self) -> SparseTensor:
        return self._with(-self._entries)

    def __mul__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor):
            raise NotImplementedError("sparse * sparse: multiply with `other.to_dense()`")
        if isinstance(other, Tensor) and other.dim():
            if other.shape != self._span.shape:
                raise RuntimeError("sparse * dense: the shapes must be equal")
            return self._with(self._entries * self._at(other))
        return self._with(self._entries * other)

    __rmul__ = __mul__

    def _at(self, dense: Tensor) -> Tensor:
        """A dense tensor's elements at the coordinates."""
        k = self.sparse_dim()
        rest = tuple(self._span.shape)[k:]
        return dense.reshape((-1, *rest))[self._places()]

    def __truediv__(self, other: Any) -> SparseTensor:
        if isinstance(other, SparseTensor) or (isinstance(other, Tensor) and other.dim()):
            raise RuntimeError("Sparse division requires the divisor to be a scalar or 0-dim tensor")
        return self._with(self._entries / other)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return self.to_dense() + other
        if not isinstance(other, SparseTensor):
            return NotImplemented
        if tuple(self._span.shape) != tuple(other._span.shape):
            raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {tuple(self.shape)} != "
                               f"{tuple(other.shape)}")
        return SparseTensor(jitgrad.cat([self._coordinates, other._coordinates], 1),
                            jitgrad.cat([self._entries, other._entries]), self._span, False)

    def __radd__(self, other: Any) -> Any:
        return self.to_dense() + other

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def sum(self) -> Tensor:
        """The sum of all elements."""
        return self._entries.sum()

    def matmul(self, other: Any) -> Any:
        """The product with a vector (m,) or a matrix (m, k), dense: (n,) or (n, k); with a sparse matrix, sparse.

        RuntimeError where sizes do not fit, or this is no matrix of two sparse axes.
        """
        n, m = self._matrix()
        if other.shape[0] != m:
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{m} and "
                               f"{'x'.join([str(k) for k in other.shape])})")
        if other.dtype != self.dtype:
            raise RuntimeError(f"expected both matrices to have the same dtype, but got {self.dtype} and {other.dtype}")
        if not isinstance(other, Tensor):
            return self._times(other)
        rows, columns = self._coordinates[0], self._coordinates[1]
        weights = self._entries if other.dim() == 1 else self._entries.unsqueeze(1)
        return other.new_zeros((n, *other.shape[1:])).index_add(0, rows, weights * other[columns])

    mm = mv = __matmul__ = matmul

    def _times(self, other: Any) -> SparseTensor:
        """The product of two sparse matrices: of each value here, and each in the row there that is its column."""
        rows = other.to_sparse_csr()
        places = self._coordinates[1]
        starts = rows.crow_indices()
        counts = starts[places + 1] - starts[places]
        ends = counts.cumsum(0)
        source = jitgrad.repeat_interleave(jitgrad.arange(places.shape[0], device=self.device), counts)
        at = jitgrad.arange(source.shape[0], device=self.device) - (ends - counts)[source] + starts[places[source]]
        values = self._entries[source] * rows.values()[at]
        span = self._span[:, :1] * other._span[:1]
        return SparseTensor(jitgrad.stack([self._coordinates[0][source], rows.col_indices()[at]]), values, span,
                            False).coalesce()

    def __rmatmul__(self, other: Any) -> Any:
        """dense @ self: (k, n) @ (n, m)."""
        n, m = self._matrix()
        if other.shape[-1] != n:
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ("
                               f"{'x'.join([str(k) for k in other.shape])} and {n}x{m})")
        return self.t().matmul(other.t()).t() if other.dim() == 2 else self.t().matmul(other)

    def _matrix(self) -> tuple[Any, Any]:
        if self.dim() != 2 or self.dense_dim() != 0:
            raise RuntimeError(f"expected a sparse matrix, but it has {self.sparse_dim()} sparse and "
                               f"{self.dense_dim()} dense axes")
        return self._span.shape[0], self._span.shape[1]


def sparse_coo_tensor(indices: Any, values: Any, size: Sequence[int] | None = None, *, dtype: Any = None,
                      device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
                      is_coalesced: bool | None = None) -> SparseTensor:
    """A sparse tensor of coordinates (sparse dims, n) and values (n, *dense dims). Gradients go to the values.

    Args:
        size: the sizes; the smallest that have room for the coordinates if None.
        check_invariants: accepted for torch's sake; coordinates are always looked at, eagerly.
        is_coalesced: they are known to be sorted, each once.

    Raises:
        RuntimeError: shapes do not fit, or a coordinate is outside of the sizes.
    """
    places = jitgrad.as_tensor(indices, device=device).to(jitgrad.int64)
    entries = jitgrad.as_tensor(values, dtype=dtype, device=device)
    if places.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if entries.dim() == 0 or entries.shape[0] != places.shape[1]:
        raise RuntimeError(f"number of dimensions must be sparse_dim ({places.shape[0]}) + dense_dim, and indices and "
                           f"values must have same nnz, but got nnz from indices: {places.shape[1]}, values: "
                           f"{list(entries.shape)}")
    k = places.shape[0]
    if size is None:
        size = (*[int(n) + 1 for n in places.amax(1)], *entries.shape[1:])
    if len(size) != k + entries.dim() - 1:
        raise RuntimeError(f"number of dimensions must be sparse_dim ({k}) + dense_dim ({entries.dim() - 1}), but got "
                           f"{len(size)}")
    _check(places, size)
    made = SparseTensor(places, entries, entries.detach().new_zeros(()).expand(tuple(size)), bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def _check(places: Tensor, size: Sequence[int]) -> None:
    for axis in range(places.shape[0]):
        row = places[axis]
        if row.numel() and bool((row < 0).any()):
            raise RuntimeError("found negative index in sparse tensor's indices")
        if row.numel() and bool((row >= size[axis]).any()):
            raise RuntimeError(f"size is inconsistent with indices: for dim {axis}, size is {size[axis]} but found "
                               f"index {int(row.max())}")
