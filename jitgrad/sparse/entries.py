"""What both forms of sparse tensors have: values, and a tensor of one element, expanded to the sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from jitgrad.eager.tensor import Tensor

ORDINARY = ("expected an ordinary tensor, but got a sparse one: use `a @ x`, `sparse.mm(a, x)` and kin, or "
            "`a.to_dense()`")


class Entries:
    """Values at some of the places of a tensor."""

    _entries: Tensor
    _span: Tensor

    #: name of a function of the library -> what it is for these; eager code and scripts look here
    __functions__: ClassVar[dict[str, Callable[..., Any]]] = {}

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self._span.shape

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or one."""
        return self._span.shape if dim is None else self._span.shape[dim]

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self._entries.dtype

    @property
    def device(self) -> Any:
        """Where they are."""
        return self._entries.device

    @property
    def _data(self) -> Any:
        """What functions of ordinary tensors ask for: TypeError, which says what there is instead."""
        raise TypeError(ORDINARY)

    def _nnz(self) -> Any:
        return self._entries.shape[0]

    @property
    def requires_grad(self) -> bool:
        """Whether the values do."""
        return self._entries.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let the values require gradients; self."""
        self._entries.requires_grad_(requires_grad)
        return self
