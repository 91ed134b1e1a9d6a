"""Parameters as functions of other tensors: a layer's `weight` computed, whenever it is read, from what is trained.

A parametrized module is of a class of its own, below the one it had, in which the tensor's name is a property. The
tensors that it is computed from are in `module.parametrizations`. Scripts inline the property as they do any other.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.containers import ModuleDict, ModuleList
from jitgrad.nn.module import Module
from jitgrad.nn.parameter import Parameter

#: how many `cached` regions are on, and what has been computed in them
_regions = 0
_computed: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """A region in which every parametrized tensor is computed once, at its first use; not for scripts."""
    global _regions
    _regions += 1
    try:
        yield
    finally:
        _regions -= 1
        if not _regions:
            _computed.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _overwrite(target: Any, source: Any) -> None:
    """Let a tensor, which an optimizer may hold, have the values of another."""
    if target is not source:
        target.data = source.detach()


class ParametrizationList(ModuleList):
    """The functions that make one tensor, in turn, and the `original` (or `original0`, `original1`, ...) it is made of.

    Args:
        modules: the functions, one at least; one with a `right_inverse` says of what tensor, or sequence of tensors, a
            value is made.
        original: the parameter or buffer that they replace.
        unsafe: whether shape and dtype may change.

    Raises ValueError for what does not return tensors of the dtypes and shapes that it must.
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new: Any = original
        with jitgrad.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                             f"{type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            for what, before, after in (("dtype", dtype, new.dtype), ("device", original.device, new.device)):
                if before != after:
                    raise ValueError(f"When `right_inverse` outputs one tensor, it may not change the {what}.\n"
                                     f"original.{what}: {before}\nright_inverse(original).{what}: {after}")
            _overwrite(original, new)
            _register(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                                     f"Got element {i} of the sequence with type {type(part).__name__}.")
                needs = original.requires_grad
                _register(self, f"original{i}", Parameter(part, needs) if isinstance(original, Parameter) else
                          part.detach().requires_grad_(needs))
        if not unsafe:
            _require_alike(self(), dtype, shape, "`unsafe` flag is enabled.\nunparametrized {}: ", "parametrized {}: ")

    def right_inverse(self, value: Any) -> None:
        """Give the originals the values of which `value` is made. RuntimeError where a function does not tell them."""
        with jitgrad.no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` "
                                     f"has dtype {self.original.dtype}")
                _overwrite(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a "
                                 f"sequence of length {len(value)}.")
            for i, part in enumerate(value):
                own = getattr(self, f"original{i}")
                if not isinstance(part, Tensor) or own.dtype != part.dtype:
                    raise ValueError(f"Tensor {i} returned by `right_inverse` has dtype {getattr(part, 'dtype', None)} "
                                     f"while `original{i}` has dtype {own.dtype}")
                _overwrite(own, part)

    def forward(self) -> Any:
        """The tensor."""
        if self.is_tensor:
            x = self[0](self.original)
        else:
            x = self[0](*[getattr(self, f"original{i}") for i in range(self.ntensors)])
        for i in range(1, len(self)):
            x = self[i](x)
        return x


def _require_alike(found: Any, dtype: Any, shape: Any, before: str, after: str) -> None:
    """ValueError unless a parametrization returns a tensor of that dtype and shape."""
    if not isinstance(found, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
    for what, expected, given in (("dtype", dtype, found.dtype), ("shape", shape, found.shape)):
        if expected != given:
            raise ValueError(f"Registering a parametrization may not change the {what} of the tensor, unless "
                             f"{before.format(what)}{expected}\n{after.format(what)}{given}")


# --- classes of parametrized modules -------------------------------------------------------------------------------


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A copy of the same class."""
    if id(self) not in memo:
        replica = memo[id(self)] = self.__new__(type(self))
        replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return memo[id(self)]


def _getstate(self: Any) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _inject_new_class(module: Module) -> None:
    """Let the module be of a class of its own, in which properties may be put."""
    cls = type(module)
    own: dict[str, Any] = {"__getstate__": _getstate}
    if not hasattr(cls, "__deepcopy__"):
        own["__deepcopy__"] = _deepcopy
    object.__setattr__(module, "__class__", type(f"Parametrized{cls.__name__}", (cls,), own))


def _once(module: Any, name: str) -> Any:
    """The tensor as it was first computed in this `cached` region."""
    key = id(module), name
    if key not in _computed:
        _computed[key] = module.parametrizations[name]()
    return _computed[key]


def _inject_property(module: Module, name: str) -> None:
    """Let reading `name` compute it, and writing set what it is computed from."""
    def get_parametrized(self: Any) -> Any:
        if _regions:
            return _once(self, name)
        return self.parametrizations[name]()

    def set_original(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get_parametrized, set_original))


# --- registering ---------------------------------------------------------------------------------------------------


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *,
                             unsafe: bool = False) -> Module:
    """Let a parameter or buffer be what a function makes of it; called again, of what the last function makes of it.

    Args:
        module: has the tensor.
        tensor_name: its name.
        parametrization: from tensor to tensor. With a `right_inverse` the tensor may be assigned, keeps its value if
            that is one of the function's, and may be made of several tensors.
        unsafe: whether dtype and shape may change.

    Returns the module. Raises ValueError for another name, and for functions that change dtype or shape.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain = _chains(module)[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            dtype, shape = before.dtype, before.shape
            told = f"the `unsafe` flag is enabled.\nmodule.{tensor_name}.{{}}: "
            found = parametrization(before)
            _require_alike(found, dtype, shape, told, f"parametrization(module.{tensor_name}).{{}}: ")
            if hasattr(parametrization, "right_inverse"):
                with suppress(NotImplementedError):
                    _require_alike(parametrization.right_inverse(found), dtype, shape, told, "returned {}: ")
        chain.append(parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        _chains(module)[tensor_name] = chain
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    return module


def _chains(module: Any) -> Any:
    return module.parametrizations


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or any, is parametrized."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor a plain one again: of the value that it has, or else its original.

    Returns the module. ValueError where it is not parametrized, or is made of several tensors and not left as it is.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = _chains(module)[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            with jitgrad.no_grad():
                _overwrite(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
                         "terms of a sequence of tensors.")
    delattr(type(module), tensor_name)
    del _chains(module)[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        object.__setattr__(module, "__class__", type(module).__bases__[0])
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module,
                                         tensor_name: str | None = None) -> Module:
    """Let another module have the parametrizations of this one's tensors, or of one, and share their originals."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(_chains(from_module)) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = _chains(from_module)[name]
        for module in source:
            register_parametrization(to_module, name, module)
        target = _chains(to_module)[name]
        for own in ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]:
            setattr(target, own, getattr(source, own))
    return to_module


__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]
