"""Eager tensors that are one item of a batch: what `func.vmap` shows its function."""

from __future__ import annotations

from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.ops.batching.backend import ESCAPED, BatchBackend
from jitgrad.ops.batching.tensors import BACKWARD, DATA, NO_STORAGE, REQUIRES_GRAD, Item


class BatchedTensor(Item, Tensor):
    """One item of a batch. It has no memory of its own: what asks for it raises."""

    value: Tensor
    level: BatchBackend

    def __new__(cls, value: Tensor, level: BatchBackend) -> BatchedTensor:
        made = object.__new__(cls)
        made.value, made.level = value, level
        return made

    def _refuse(self, words: str) -> Any:
        raise RuntimeError(ESCAPED if self.level.over else words)

    @property
    def _data(self) -> Any:
        return self._refuse(NO_STORAGE)

    @_data.setter
    def _data(self, array: Any) -> None:
        self._refuse(NO_STORAGE)

    @property
    def data(self) -> Any:
        """RuntimeError, as torch's."""
        return self._refuse(DATA)

    @data.setter
    def data(self, value: Any) -> None:
        self._refuse(DATA)

    @property
    def requires_grad(self) -> bool:
        """Whether operations are recorded."""
        return self.value.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._refuse(REQUIRES_GRAD)

    @property
    def grad_fn(self) -> Any:
        """Of all items."""
        return self.value.grad_fn

    def stride(self, dim: int | None = None) -> Any:
        """How many elements apart neighbours along each axis, or along one, are in memory."""
        steps = self.value.stride()[1:]
        return steps if dim is None else steps[dim]

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """RuntimeError, as torch's."""
        self._refuse(BACKWARD)

    def register_hook(self, hook: Any) -> Any:
        """RuntimeError: a gradient is that of all items."""
        return self._refuse("register_hook() called inside a functorch transform: register it outside of it")

    def retain_grad(self) -> None:
        """RuntimeError: a gradient is that of all items."""
        self._refuse("retain_grad() called inside a functorch transform: call it outside of it")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._refuse("Cannot access storage of BatchedTensorImpl")

    def __repr__(self) -> str:
        depth, current = 1, self.level.around
        while isinstance(current, BatchBackend):
            depth, current = depth + 1, current.around
        inner = "\n".join("    " + line for line in repr(self.value).split("\n"))
        return f"BatchedTensor(lvl={depth}, bdim=0, value=\n{inner}\n)"

    def __format__(self, spec: str) -> str:
        if self.ndim == 0:
            return format(self.item(), spec)
        return object.__format__(self, spec)



