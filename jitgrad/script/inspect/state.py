"""What a call may change, saved and put back: tensors, attributes, containers, the random stream."""

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad import random
from jitgrad.eager.arrays.arrays import host_copy
from jitgrad.eager.autograd.node import storage_of
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import Module
from jitgrad.optim import Optimizer
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import SEQUENCES, Unreadable, describe, resolve

_SIMPLE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, str, bytes, bool,
           int, float, complex, type(None), np.ndarray)
_CONTAINERS: Any = (*SEQUENCES, dict)


def holders(script: sig.ScriptGraph, values: dict[str, Any]) -> dict[str, Any]:
    """The objects that a script reads or writes, by name: its arguments and every object on a path of a source."""
    found: dict[str, Any] = dict(values)
    stored = [path for stores in (script.stores, *script.recipes) for path, _ in stores]
    sources = [*script.inputs, *script.commits.values(), *stored, *(guard.source for guard in script.guards)]
    for source in sources:
        step: Any = source
        while step is not None:
            if not isinstance(step, (sig.Constant, sig.RngState, sig.Content, sig.Tail)):
                with contextlib.suppress(Unreadable):
                    found.setdefault(describe(step), resolve(step, values))
            step = getattr(step, "base", None)
    return found


class State:
    """The state of some objects at one moment.

    Tensors are saved with their elements, history, version and `.grad`; lists and dicts by their items; other objects
    by their attributes. Modules and optimizers are followed down, other objects are not.
    """

    def __init__(self, objects: dict[str, Any]):
        self.tensors: dict[int, tuple[str, Tensor, dict[str, Any], Any, int]] = {}
        self.containers: dict[int, tuple[Any, Any]] = {}
        self.attributes: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.stream = random.default_generator.position
        self._variables: list[tuple[str, Any]] = []
        for name, value in objects.items():
            self._visit(name, value, top=True)

    def _visit(self, name: str, value: Any, top: bool = False) -> None:
        pending = [(name, value, top)]
        while pending:
            name, value, top = pending.pop()
            if isinstance(value, Tensor):
                if id(value) not in self.tensors:
                    version = value._version
                    attributes = dict(value.__dict__)
                    self.tensors[id(value)] = (name, value, attributes, value._data.copy(), version)
                    if value._grad is not None:
                        pending.append((f"{name}.grad", value._grad, False))
            elif isinstance(value, tuple):
                pending += [(f"{name}[{i}]", v, top) for i, v in enumerate(value)]
            elif isinstance(value, _CONTAINERS):
                if id(value) not in self.containers:
                    self.containers[id(value)] = value, value.copy()
                    items = value.items() if isinstance(value, dict) else enumerate(value)
                    pending += [(_item(name, k), v, False) for k, v in items]
            elif isinstance(value, _SIMPLE):
                continue
            elif hasattr(value, "__dict__") and id(value) not in self.attributes:
                followed = isinstance(value, (Module, Optimizer))
                if top or followed:
                    self.attributes[id(value)] = value, dict(value.__dict__)
                    pending += [(f"{name}.{k}", v, False) for k, v in value.__dict__.items()
                                if followed or isinstance(v, (Tensor, *_CONTAINERS))]

    def restore(self) -> None:
        """Put everything back."""
        random.default_generator.position = self.stream
        for obj, saved in self.attributes.values():
            obj.__dict__.clear()
            obj.__dict__.update(saved)
        for container, saved in self.containers.values():
            container.clear()
            (container.update if isinstance(container, dict) else container.extend)(saved)
        for _, tensor, attributes, data, version in self.tensors.values():
            tensor.__dict__.clear()
            tensor.__dict__.update(attributes)
            if tensor._data.shape == data.shape:
                tensor._data[...] = data
            storage_of(tensor).version = version

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """(name, array or number) of everything now that can be compared, in order of the names' first mention."""
        for name, tensor, *_ in self.tensors.values():
            yield name, host_copy(tensor._data)
            if not name.endswith(".grad"):
                yield f"{name}.grad", None if tensor._grad is None else host_copy(tensor._grad._data)
        for obj, _ in self.attributes.values():
            for k, v in obj.__dict__.items():
                if isinstance(v, (bool, int, float)):
                    yield f"{type(obj).__name__}.{k}", v
        for container, _ in self.containers.values():
            items = container.items() if isinstance(container, dict) else enumerate(container)
            for k, v in items:
                if isinstance(v, (bool, int, float)):
                    yield f"item {k!r}", v
        yield "the state of the random numbers", random.default_generator.position[1]


def _item(name: str, key: Any) -> str:
    for registry in ("_parameters", "_buffers", "_modules"):
        if name.endswith("." + registry):
            return f"{name.removesuffix(registry)}{key}"
    return f"{name}[{key!r}]"
