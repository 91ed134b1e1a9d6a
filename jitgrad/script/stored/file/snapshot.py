"""The objects that programs read besides their arguments, as one tree below the module that loading makes.

Every path is moved to that root: what a method's instance or a module was is the root itself; a global or closure
variable becomes an attribute of the root. A tensor variable of a function becomes a parameter (it requires a gradient)
or a buffer of it, a module variable a child. Only what some path reads is kept, but modules keep all their parameters,
buffers and children, so that their state_dict is what it was.
"""

import types
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np

from jitgrad.eager.arrays.arrays import to_host
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import describe, resolve
from jitgrad.script.stored.file.objects import LoadedModule
from jitgrad.script.stored.values import Json, NotSavable, is_plain, to_plain

REGISTRIES = ("_parameters", "_buffers", "_modules")
#: what makes the missing values of a defaultdict; others are forgotten
FACTORIES: dict[str, type] = {"dict": dict, "list": list, "set": set, "int": int, "float": float}


class Snapshot:
    """Nodes of the tree, by number; 0 is the root.

    Args:
        root: the module or instance to which the function belongs; None for a function.
        parameter: the name of the function's parameter that is `root`.
        name: what the loaded root calls itself.
        root_parameter: the name of the loaded function's first parameter, which no other parameter has.
    """

    def __init__(self, root: Any, parameter: str | None, name: str, root_parameter: str):
        self.nodes: list[dict[str, Any]] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.root_parameter = root_parameter
        self._root, self._parameter = root, parameter
        self.values = {parameter or "": root}
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # ids are compared: the objects must live
        self._memories: dict[Any, int] = {}
        self._variables: dict[Any, str] = {}
        self._names: dict[str, int] = {}
        self._registers = not isinstance(root, Module)
        if isinstance(root, Module):
            self.node(root)
        else:
            self.nodes.append({"kind": "module", "attributes": {}, "parameters": {}, "buffers": {}, "modules": {},
                               "transient": [], "training": True})
            self._numbers[id(root)] = 0
            self._kept.append(root)
        self.nodes[0]["name"] = name

    # --- objects ---------------------------------------------------------------------------------------------------

    def node(self, value: Any) -> int:
        """The number of the node for an object; what it consists of is added as paths read it."""
        if is_plain(value):
            self.nodes.append({"kind": "plain", "value": to_plain(value)})
            return len(self.nodes) - 1
        number = self._numbers.get(id(value))
        if number is not None:
            return number
        number = self._numbers[id(value)] = len(self.nodes)
        self._kept.append(value)
        node: dict[str, Any] = {}
        self.nodes.append(node)
        if isinstance(value, Module):
            self._module(node, value)
        elif isinstance(value, Tensor):
            node |= {"kind": "tensor", "array": self._array(value), "requires_grad": bool(value.requires_grad),
                     "parameter": isinstance(value, Parameter), "attributes": {}}
            if value.is_cuda:
                node["device"] = str(value.device)
        elif type(value) in (list, tuple) or hasattr(type(value), "_fields"):
            node |= {"kind": "list" if type(value) is list else "tuple", "items": [self.node(v) for v in value]}
            if type(value) not in (list, tuple):
                node |= {"kind": "namedtuple", "name": type(value).__name__, "fields": list(type(value)._fields)}
        elif isinstance(value, dict):
            kind = "odict" if isinstance(value, OrderedDict) else "dict"
            if isinstance(value, defaultdict):
                kind = "defaultdict"
                node["factory"] = next((n for n, f in FACTORIES.items() if f is value.default_factory), None)
            node |= {"kind": kind, "items": [[self.key(k), self.node(v)] for k, v in value.items()]}
        else:
            node |= {"kind": "object", "name": _title(value), "attributes": {}}
        return number

    def _module(self, node: dict[str, Any], module: Any) -> None:
        node |= {"kind": "module", "name": module._get_name(), "attributes": {}, "parameters": {}, "buffers": {},
                 "modules": {}, "transient": sorted(module._non_persistent_buffers_set), "training": module.training}
        for part in ("parameters", "buffers", "modules"):
            for name, value in module.__dict__["_" + part].items():
                node[part][name] = None if value is None else self.node(value)

    def _array(self, tensor: Any) -> int:
        """The number of a tensor's memory: tensors that are the same memory share it again when they are loaded."""
        array = tensor._data
        key = (str(tensor.device), tensor.data_ptr(), array.shape, array.strides, array.dtype.str)
        if key not in self._memories or not array.size:
            self._memories[key] = len(self.arrays)
            self.arrays.append(to_host(array))
        return self._memories[key]

    def key(self, key: Any) -> Json:
        """A dict's key: plain, or one of the objects (an optimizer's state is keyed by parameters)."""
        return {"plain": to_plain(key)} if is_plain(key) else {"node": self.node(key)}

    # --- paths -----------------------------------------------------------------------------------------------------

    def is_argument(self, source: sig.Source) -> bool:
        """Whether a path starts at an argument of the call."""
        while isinstance(source, (sig.Attr, sig.Item, sig.At)):
            source = source.base
        return isinstance(source, sig.Arg) and source.name != self._parameter

    def current(self, source: sig.Source) -> Any:
        return resolve(source, self.values)

    def move(self, source: sig.Source) -> Json:
        """The path below the root, as JSON; what it reads becomes part of the tree. Raises Unreadable, NotSavable."""
        match source:
            case sig.Arg(name):
                return ["root"] if name == self._parameter else ["arg", name]
            case sig.RngState(part):
                return ["rng", part]
            case sig.Machine(fact):
                return ["machine", fact]
            case sig.Global() | sig.Cell() | sig.Constant():
                return ["attr", ["root"], self._variable(source)]
            case sig.Attr(base, name):
                path = self.path(source)
                if self.is_argument(base):
                    if name == "grad" and isinstance(base, (sig.Arg, sig.Item)):
                        return path  # of a tensor: files do not name what else has attributes
                    raise NotSavable(f"`{describe(source)}`, an attribute of an argument, is read: pass the value "
                                     "itself, or make the object part of the function's closure")
                holder = self.current(base)
                if not (isinstance(holder, Module) and (
                        name in REGISTRIES or any(name in holder.__dict__[r] for r in REGISTRIES))):
                    self._attribute(holder, name, self.current(source))
                return path
            case sig.Item(base):
                if not self.is_argument(base):
                    self.current(source)
                return self.path(source)
            case sig.At(base):
                path = self.path(source)
                if self.is_argument(base):
                    raise NotSavable(f"`{describe(source)}`: a dict keyed by tensors is an argument")
                self.current(source)
                return path
            case sig.Parts(base):
                raise NotSavable(f"`{describe(base)}` is a complex tensor: give its parts, `torch.view_as_real(...)`")
            case sig.Column(base) | sig.Length(base) | sig.Extent(base):
                raise NotSavable(f"`{describe(base)}` is taken with any length, since calls brought several: script "
                                 "the function anew and call it with the length to save, or let it take a tensor")
        raise AssertionError(source)

    def path(self, source: sig.Attr | sig.Item | sig.At) -> Json:
        """The path below the root of what need not be there."""
        base = self.move(source.base)
        if isinstance(source, sig.At):
            return ["at", base, self.move(source.key)]
        return ["attr", base, source.name] if isinstance(source, sig.Attr) else ["item", base, self.key(source.key)]

    def target(self, source: sig.Source) -> Json:
        """The path to which a script assigns: what is there now, if anything, is not read."""
        if isinstance(source, sig.Attr) and not self.is_argument(source) and not hasattr(
                self.current(source.base), source.name):
            self.node(self.current(source.base))
            return self.path(source)
        return self.move(source)

    def _attribute(self, holder: Any, name: str, value: Any) -> None:
        number = self.node(holder)
        node = self.nodes[number]
        if "attributes" not in node or (name.startswith("__") and name != "__self__"):  # which no file may name
            raise NotSavable(f"the attribute `{name}` of a `{type(holder).__name__}`")
        if number == 0 and self._registers:
            self._register(name, value)
        elif name not in node["attributes"]:
            node["attributes"][name] = self.node(value)

    def _register(self, name: str, value: Any) -> None:
        """A value as what a module's `__setattr__` would make of it, a tensor with a gradient a parameter."""
        part = ("modules" if isinstance(value, Module) else "attributes" if not isinstance(value, Tensor)
                else "parameters" if value.requires_grad else "buffers")
        number = self.node(value)
        self.nodes[0][part].setdefault(name, number)
        if part == "parameters":
            self.nodes[number]["parameter"] = True

    def _variable(self, source: sig.Global | sig.Cell | sig.Constant) -> str:
        """The attribute of the root that a global, a closure variable or a constant becomes."""
        match source:
            case sig.Global(function, name):
                key: tuple[Any, ...] = ("global", id(function.__globals__), name)
            case sig.Cell(function, index):
                name = str(function.__code__.co_freevars[index])
                key = ("cell", id(function.__closure__[index]))
            case sig.Constant(_, number):
                name, key = "constant", ("constant", id(source.value), number)
        found = self._variables.get(key)
        if found is None:
            found = self._variables[key] = self._free(name)
            value = self.current(source)
            if self._registers:
                self._register(found, value)
            else:
                self.nodes[0]["attributes"][found] = self.node(value)
        return found

    def _free(self, name: str) -> str:
        """`name`, or with a number, if a loaded module or the root has such an attribute already."""
        candidate, count = name, 0
        while candidate in self._names or hasattr(LoadedModule, candidate) or hasattr(self._root, candidate):
            count += 1
            candidate = f"{name}_{count}"
        self._names[candidate] = 0
        return candidate


def _title(value: Any) -> str:
    """What an object that a file cannot hold was, for people."""
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)):
        return f"{value.__module__}.{value.__qualname__}"
    return f"an object of class {type(value).__qualname__}"
