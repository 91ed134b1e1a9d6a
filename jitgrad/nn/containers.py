"""Modules and parameters in lists and dicts."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jitgrad.eager.tensor import Tensor
from jitgrad.nn.module import M, Module
from jitgrad.nn.parameter import Parameter


def _checked(index: int, n: int) -> int:
    index = operator.index(index)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of range")
    return index % n


class _InOrder(Module):
    """Submodules in order, by number."""

    def _name(self, index: int) -> str:
        return list(self._modules)[_checked(index, len(self))]

    def _renumber(self, modules: Iterable[Any]) -> None:
        self.__dict__["_modules"] = {str(i): m for i, m in enumerate(modules)}

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name(index), module)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self._modules.values())
        del modules[index if isinstance(index, slice) else _checked(index, len(modules))]
        self._renumber(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self: M, module: Module) -> M:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int) -> Any:
        """Remove and return the module at `key`."""
        module = self._modules[self._name(key)]
        del self[key]
        return module


class Sequential(_InOrder):
    """Modules one after another: given as arguments, or as an OrderedDict with names."""

    def __init__(self, *args: Any):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        """The last module's output."""
        for module in self:
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Put a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self


class ModuleList(_InOrder):
    """A list whose modules are submodules."""

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])  # type: ignore[arg-type]
        return self._modules[self._name(index)]

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Put a module before the one at `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def __repr__(self) -> str:
        """Equal neighbours in one line: `(0-3): 4 x Linear(...)`."""
        texts = [repr(m) for m in self]
        if not texts:
            return f"{self._get_name()}()"
        groups: list[list[Any]] = []
        for i, text in enumerate(texts):
            if groups and groups[-1][2] == text:
                groups[-1][1] = i
            else:
                groups.append([i, i, text])
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in groups]
        body = "\n  ".join(line.replace("\n", "\n  ") for line in lines)
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dict whose modules are submodules."""

    def __init__(self, modules: Mapping[str, Module] | None = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return a module."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules."""
        for key, module in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self[key] = module


class ParameterList(Module):
    """A list whose tensors are parameters."""

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(*index.indices(len(self)))])
        return getattr(self, str(_checked(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        self._set(_checked(index, len(self)), value)

    def _set(self, index: int, value: Any) -> None:
        setattr(self, str(index), Parameter(value) if type(value) is Tensor else value)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end; a plain tensor becomes a Parameter."""
        self._set(self._size, value)
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return _listed(enumerate(self), lambda value: value.dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


def _listed(items: Iterable[tuple[Any, Any]], kind: Callable[[Tensor], object]) -> str:
    """Values with their names, one a line; of a tensor, what `kind` says of it and its size."""
    lines = []
    for name, value in items:
        if isinstance(value, Tensor):
            word = "Parameter" if isinstance(value, Parameter) else "Tensor"
            size = "x".join(str(s) for s in value.shape)
            lines.append(f"  ({name}): {word} containing: [{kind(value)} of size {size}]")
        else:
            lines.append(f"  ({name}): Object of type: {type(value).__name__}")
    return "\n".join(lines)


class ParameterDict(Module):
    """A dict whose tensors are parameters."""

    def __init__(self, parameters: Mapping[str, Any] | None = None):
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, Parameter(value) if type(value) is Tensor else value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Mapping[str, Any] | ParameterDict | Iterable[tuple[str, Any]]) -> None:
        """Add or replace values; those of a plain dict in the order of their names."""
        if isinstance(parameters, (ParameterDict, OrderedDict)):
            parameters = parameters.items()
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items())
        for key, value in parameters:
            self[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return getattr(self, key) if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name, which gets `default` where it has none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """A value, which is taken out."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """The last name and value, which are taken out."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def clear(self) -> None:
        """Take all out."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """Another dict of the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def extra_repr(self) -> str:
        return _listed(self.items(), lambda value: value.type())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
