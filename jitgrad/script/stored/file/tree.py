"""The objects of a file, built from their descriptions; and the paths through them, which lead nowhere else."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from jitgrad.device import device
from jitgrad.nn import Module
from jitgrad.nn.parameter import Parameter
from jitgrad.script.stored.file.archive import Contents
from jitgrad.script.stored.file.objects import LoadedPart, SavedObject
from jitgrad.script.stored.file.snapshot import FACTORIES, REGISTRIES
from jitgrad.script.stored.values import (Json, boolean, class_of, device_of, from_plain, identifier, integer, items,
                                          need, string)
from jitgrad.serialization import LoadError

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


#: the number of an array and the device from which it was saved -> the tensor
Tensors = Mapping[tuple[int, str], Any]


def place_of(node: Any) -> tuple[int, str]:
    """Which array a tensor is, and from which device."""
    return integer(node["array"]), str(device_of(node.get("device", "cpu")))


def places_of(contents: Contents) -> set[tuple[int, str]]:
    """All arrays of a file with the devices from which they were saved."""
    need(type(contents.program) is dict, "`program.json` is no object")
    found = {place_of(node) for node in items(contents.program["objects"])
             if type(node) is dict and node.get("kind") == "tensor"}
    need(all(number < len(contents.arrays) for number, _ in found), "an array that is not there")
    return found


class Tree:
    """The objects of a file; `build(0)` is the root.

    Args:
        nodes: their descriptions.
        tensors: the file's arrays as tensors, where they go.
        root: the object that node 0 becomes.
        locate: where what was on a device goes.
    """

    def __init__(self, nodes: Json, tensors: Tensors, root: Any, locate: Callable[[device], device]):
        self.nodes = items(nodes)
        need(bool(self.nodes), "no objects")
        self._tensors, self._locate = tensors, locate
        self._root = root
        self._built: dict[int, Any] = {}
        self._open: set[int] = set()

    def node(self, number: Json) -> dict[str, Any]:
        node = self.nodes[integer(number, 0, len(self.nodes))]
        need(type(node) is dict and type(node.get("kind")) is str, "an object of an unknown kind")
        found: dict[str, Any] = node
        return found

    def build(self, number: Json) -> Any:
        """The object of a node; the same object for the same node."""
        node = self.node(number)
        if number in self._built:
            return self._built[number]
        need(number not in self._open, "an object contains itself")
        self._open.add(number)
        make = {"plain": self._plain, "tensor": self._tensor, "list": self._list, "tuple": self._tuple,
                "namedtuple": self._tuple, "dict": self._dict, "odict": self._dict,
                "defaultdict": self._dict, "object": self._object,
                "module": self._module}.get(node["kind"])
        need(make is not None, f"an object of the unknown kind {node['kind'][:40]!r}")
        made: Any = make(number, node)  # type: ignore[misc]
        self._built[number] = made
        self._open.discard(number)
        return made

    def number(self, made: Any) -> int:
        """The node that an object was built from."""
        found = next((number for number, other in self._built.items() if other is made), None)
        need(found is not None, "an object from elsewhere")
        assert found is not None
        return found

    def _early(self, number: int, made: Any) -> Any:
        """Make an object known before its parts are built: they may refer to it."""
        self._built[number] = made
        return made

    def _plain(self, number: int, node: dict[str, Any]) -> Any:
        found = from_plain(node["value"])
        return self._locate(found) if isinstance(found, device) else found

    def _tensor(self, number: int, node: dict[str, Any]) -> Any:
        made: Any = self._tensors[place_of(node)].detach()
        needs = boolean(node["requires_grad"])
        need(not needs or made.dtype.is_floating_point, "a tensor of integers requires a gradient")
        if boolean(node["parameter"]):
            made = Parameter(made, needs)
        elif needs:
            made.requires_grad_()
        self._early(number, made)
        for name, child in self._named(node, "attributes"):
            need(name == "grad", f"the attribute {name!r} of a tensor")
            made.grad = self.build(child)
        return made

    def _list(self, number: int, node: dict[str, Any]) -> Any:
        made: list[Any] = self._early(number, [])
        made.extend(self.build(i) for i in items(node["items"]))
        return made

    def _tuple(self, number: int, node: dict[str, Any]) -> Any:
        parts = [self.build(i) for i in items(node["items"])]
        if node["kind"] == "tuple":
            return tuple(parts)
        return class_of({"namedtuple": node["name"], "fields": node["fields"]})(*parts)

    def _dict(self, number: int, node: dict[str, Any]) -> Any:
        made: dict[Any, Any] = {} if node["kind"] == "dict" else OrderedDict()
        if node["kind"] == "defaultdict":
            made = defaultdict(FACTORIES.get(node["factory"]))
        self._early(number, made)
        for pair in items(node["items"]):
            key, child = items(pair, 2)
            made[self.key(key)] = self.build(child)
        return made

    def _object(self, number: int, node: dict[str, Any]) -> Any:
        made = self._early(number, SavedObject(string(node["name"])))
        for name, child in self._named(node, "attributes"):
            made.__dict__[name] = self.build(child)
        return made

    def _module(self, number: int, node: dict[str, Any]) -> Any:
        made: Any = self._early(number, self._root if number == 0 else LoadedPart())
        made.__dict__["_saved_name"] = string(node["name"])
        made.training = boolean(node["training"])
        for part in ("parameters", "buffers", "modules"):
            for name, child in self._registered(node, part):
                made.__dict__["_" + part][name] = self._registrable(part, child)
        made._non_persistent_buffers_set.update(string(n) for n in items(node["transient"]))
        for name, child in self._named(node, "attributes"):
            value = self.build(child)
            need(name not in REGISTRIES and (not name.startswith("_") or not hasattr(type(made), name)),
                 f"the attribute {name!r} of a module")
            need(name not in made.__dict__ or name == "training" or (name in HOOKS and type(value) is dict),
                 f"the attribute {name!r} of a module")
            made.__dict__[name] = value
        return made

    def _registrable(self, part: str, child: Json) -> Any:
        if child is None:
            return None
        value = self.build(child)
        if part == "modules":
            need(isinstance(value, Module) and value is not self._root, "a submodule is no module")
        else:
            need(isinstance(value, Parameter) or (part == "buffers" and hasattr(value, "_data")), "state is no tensor")
        return value

    def _registered(self, node: dict[str, Any], part: str) -> list[tuple[str, Any]]:
        """Names of registered state: any string without a dot, as a Sequential's `0`."""
        found = node[part]
        need(type(found) is dict and all("." not in n and not n.startswith("__") for n in found), "names of state")
        return list(found.items())

    def _named(self, node: dict[str, Any], part: str) -> list[tuple[str, Any]]:
        found = node[part]
        need(type(found) is dict, "attributes are no dict")
        return [(identifier(name), child) for name, child in found.items()]

    def key(self, stored: Json) -> Any:
        """A dict's key."""
        need(type(stored) is dict and len(stored) == 1, "a key of an unknown kind")
        if "node" in stored:
            return self.build(stored["node"])
        return from_plain(stored["plain"])

    # --- paths -----------------------------------------------------------------------------------------------------

    def step(self, node: Any, kind: str, key: Any) -> Any:
        """The node, or registry `(node, part)`, to which one step of a path leads; LoadError where there is none."""
        if kind == "attr":
            for part in ("attributes", "parameters", "buffers", "modules"):
                if isinstance(node, dict) and key in node.get(part, ()):
                    child = node[part][key]
                    return None if child is None else self.node(child)
            if isinstance(node, dict) and node["kind"] == "module":
                if key in REGISTRIES:
                    return node, key[1:]
                if key == "training" or key in HOOKS:
                    return None
        elif isinstance(node, tuple):
            owner, part = node
            if type(key) is dict and key.get("plain") in owner[part]:
                child = owner[part][key["plain"]]
                return None if child is None else self.node(child)
        elif isinstance(node, dict) and node["kind"] in ("dict", "odict", "defaultdict"):
            for stored, child in node["items"]:
                if stored == key:
                    return self.node(child)
        elif isinstance(node, dict) and node["kind"] in ("list", "tuple", "namedtuple"):
            return self.node(node["items"][integer(from_plain(key["plain"]), 0, len(node["items"]))])
        elif isinstance(node, dict) and node["kind"] == "plain" and "tuple" in (node["value"] or ()):
            position = integer(from_plain(key["plain"]), 0, len(node["value"]["tuple"]))
            return {"kind": "plain", "value": node["value"]["tuple"][position]}
        raise LoadError(f"damaged file: a path leads to {str(key)[:60]}, which is not there")
