"""Parameters and buffers: tensors that a Module finds by itself, and those whose shape is not known yet."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.dtypes import dtype
from jitgrad.eager.construct import wrap
from jitgrad.eager.tensor import Tensor


class Parameter(Tensor):
    """A tensor that becomes one of a Module's parameters when it is assigned as an attribute.

    Args:
        data: the values; a tensor of any shape, which shares its memory.
        requires_grad: whether the parameter needs a gradient.
    """

    _is_param = True

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


class _BufferType(type):
    """`isinstance(tensor, Buffer)` asks for the mark that `Buffer` gives."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False) is True


class Buffer(metaclass=_BufferType):
    """A tensor that becomes one of a Module's buffers when it is assigned as an attribute.

    Args:
        data: the values; a tensor of any shape, which shares its memory.
        persistent: whether it is part of the state_dict.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        made: Any = (jitgrad.empty(0) if data is None else data).detach()
        made.persistent, made._is_buffer = persistent, True
        return made


# --- shapes that the first call tells ------------------------------------------------------------------------------


class Uninitialized:
    """A tensor of a dtype and a device that has no shape before `materialize`; nothing can be computed with it.

    ValueError where it is asked for its elements, RuntimeError for its shape.
    """

    cls_to_become: type[Tensor]

    def _elements(self) -> Any:
        raise ValueError("Attempted to use an uninitialized parameter. This error happens when you are using a "
                         f"`LazyModule` or explicitly manipulating `torch.nn.parameter.{type(self).__name__}` objects. "
                         "When using LazyModules Call `forward` with a dummy batch to initialize the parameters before "
                         "calling torch functions")

    def _keep(self, array: Any) -> None:
        self.__dict__["_like"] = array

    _data: Any = property(_elements, _keep)

    @property
    def shape(self) -> Any:
        """Not known."""
        raise RuntimeError("Can't access the shape of an uninitialized parameter or buffer. This error usually happens "
                           "in `load_state_dict` when trying to load an uninitialized parameter into an initialized "
                           "one. Call `forward` to initialize the parameters before accessing their attributes.")

    ndim = shape

    @property
    def _empty(self) -> Tensor:
        """No elements, of the dtype and on the device."""
        made: Tensor = wrap(self.__dict__["_like"])
        return made

    @property
    def dtype(self) -> Any:
        """The type that the elements will have."""
        return self._empty.dtype

    @property
    def device(self) -> Any:
        """Where the elements will be."""
        return self._empty.device

    @property
    def data(self) -> Any:
        """The tensor itself, which has none."""
        return self

    @data.setter
    def data(self, value: Any) -> None:
        if value is not self:
            self._become(value)

    def detach(self) -> Any:
        """The tensor itself, which has no history."""
        return self

    def _moved(self, target: Any) -> Any:
        """The tensor itself, whose elements will be of another dtype, or on another device."""
        self.__dict__["_like"] = self._empty.to(target)._data
        return self

    to: Any = _moved

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Make it a tensor of a shape, uninitialised memory as `empty` gives."""
        self._become(jitgrad.empty(*shape, device=self.device if device is None else device,
                                   dtype=self.dtype if dtype is None else dtype))

    def _become(self, values: Any) -> None:
        del self.__dict__["_like"]
        object.__setattr__(self, "__class__", self.cls_to_become)
        self._data = values._data

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(*self._described())
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), self._described()

    def _described(self) -> tuple[Any, ...]:
        needs: Any = self
        return needs.requires_grad, self.device, self.dtype


def is_lazy(param: Any) -> bool:
    """Whether a tensor has no shape yet."""
    return isinstance(param, Uninitialized)


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter that has no shape before `materialize`."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: dtype | None = None) -> Any:
        made = Tensor._make_subclass(cls, jitgrad.empty(0, device=device, dtype=dtype))
        made._needs = requires_grad
        return made


class UninitializedBuffer(Uninitialized, Tensor):
    """A buffer that has no shape before `materialize`."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: dtype | None = None,
                persistent: bool = True) -> Any:
        made = Tensor._make_subclass(cls, jitgrad.empty(0, device=device, dtype=dtype))
        made._needs, made.persistent, made._is_buffer = requires_grad, persistent, True
        return made
