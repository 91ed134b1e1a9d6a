"""Parameters: tensors that a Module finds by itself."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor


class Parameter(Tensor):
    """A tensor that becomes one of a Module's parameters when it is assigned as an attribute.

    Args:
        data: the values; a tensor of any shape, which shares its memory.
        requires_grad: whether the parameter needs a gradient.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        values: Tensor = jitgrad.empty(0) if data is None else data
        made: Parameter = Tensor._make_subclass(cls, values.detach(), requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        copied: Parameter = memo[id(self)]
        return copied

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


def unset(wanted: bool, *sizes: int, device: Any = None, dtype: dtype | None = None) -> Parameter | None:
    """A parameter for `reset_parameters` to fill, or None where none is wanted."""
    return Parameter(jitgrad.empty(*sizes, device=device, dtype=dtype)) if wanted else None
