"""Tables of vectors."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F, init
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter


class _Table(Module):
    """A table of vectors, normal, but for a row of zeros if one is for padding."""

    padding_idx: int | None

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, max_norm: float | None,
                 norm_type: float, scale_grad_by_freq: bool, sparse: bool, weight: Tensor | None, trained: bool,
                 device: Any, dtype: dtype | None):
        super().__init__()
        if sparse:
            kind = "EmbeddingBag" if isinstance(self, EmbeddingBag) else "Embedding"
            raise NotImplementedError(f"{kind}(sparse=True): gradients are dense")
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse = sparse
        table = jitgrad.empty(num_embeddings, embedding_dim, device=device, dtype=dtype) if weight is None else weight
        self.weight = Parameter(table, requires_grad=trained)
        if weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with jitgrad.no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """A row of a table for each index.

    Args:
        num_embeddings: the number of rows.
        embedding_dim: the size of a row.
        padding_idx: a row that is zero at first and gets no gradient.
        max_norm: rows of a larger norm (of order norm_type) are scaled down to it, in place, when they are read.
        scale_grad_by_freq: a row's gradient is divided by how often its index occurs in the batch.

    Attributes:
        weight: (num_embeddings, embedding_dim), normal.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                 sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False, device: Any = None,
                 dtype: dtype | None = None):
        if padding_idx:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx = padding_idx + num_embeddings if padding_idx < 0 else padding_idx
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                         _weight, not _freeze, device, dtype)
        if tuple(self.weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")

    def forward(self, input: Tensor) -> Tensor:
        """Indices of any shape -> (..., embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                           self.sparse)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
                        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                        sparse: bool = False) -> Embedding:
        """An Embedding with the given table (num_embeddings, embedding_dim), not trained if `freeze`."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight=embeddings,
                   _freeze=freeze)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}" + self._unusual(
            padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False)


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of a table's rows; see `functional.embedding_bag`.

    Attributes:
        weight: (num_embeddings, embedding_dim), normal.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                 _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
                 device: Any = None, dtype: dtype | None = None):
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx = padding_idx + num_embeddings if padding_idx < 0 else padding_idx
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                         _weight, True, device, dtype)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Integers (B, N), or (n,) and offsets (B,) -> (B, embedding_dim)."""
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                               self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += self._unusual(max_norm=None, norm_type=2, scale_grad_by_freq=False)
        return f"{text}, mode={self.mode!r}{self._unusual(padding_idx=None)}"


__all__ = ["Embedding", "EmbeddingBag"]
