"""What `write.py` wrote, read back without belief: every number, name, index and path is checked.

Names end up in generated code (`call/entering.py`, `call/returning.py`), so they must be identifiers; paths must lead
through the saved objects, never to anything that Python itself hangs on an object; sizes that the graph takes to be
equal become guards here, whatever the file says. All that is wrong raises LoadError.
"""

import inspect
from collections.abc import Callable
from typing import Any

from jitgrad.device import CPU, FACTS, device as Device
from jitgrad.dims import Size, Symbol, dim, substitute, symbols as symbols_of
from jitgrad.errors import Span
from jitgrad.ops.autocast import Low, pair
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import INT, OptionalType, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import resolve
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.stored.decoder import LONGEST, Decoder
from jitgrad.script.stored.file.archive import Contents
from jitgrad.script.stored.file.objects import LoadedModule, OwnDefault
from jitgrad.script.stored.file.spans import attach, show_lines
from jitgrad.script.stored.file.tree import Tensors, Tree
from jitgrad.script.stored.records import Program
from jitgrad.script.stored.values import (Json, boolean, class_of, device_of, dtype_of, fault, from_plain, identifier,
                                          integer, items, need, string)
from jitgrad.serialization import LoadError

_KINDS: dict[str, type] = {"int": int, "float": float, "bool": bool}


class ProgramReader(Decoder):
    """One program of a file.

    Args:
        tree: the objects.
        names: the parameters of the loaded function, the root first.
        stored: the program's JSON.
        defaults: the defaults that a file cannot hold, by parameter.
    """

    holders = {"optional": OptionalType}  # noqa: RUF012  (a file's inputs are no lists)

    def __init__(self, tree: Tree, names: tuple[str, ...], defaults: dict[str, Any], stored: Json):
        super().__init__()
        need(type(stored) is dict, "a program is no object")
        self.tree, self.names, self.defaults, self.stored = tree, names, defaults, stored
        self.device = device_of(stored["device"]) if "device" in stored else CPU

    def program(self, graph: Graph, spans: list[Span | None]) -> Program:
        """The program with its verified graph."""
        stored = self.stored
        verify(graph)
        numbers = [integer(i, -1, len(spans)) for i in items(stored["spans"], sum(1 for _ in walk(graph.block)))]
        attach(graph, [None if i < 0 else spans[i] for i in numbers])
        self.graph, graph.name = graph, string(stored["name"])
        arguments = [self.guard(g) for g in items(stored["arguments"])]
        script = self.script(stored)
        script.parameters = self.names
        script.size_guards = list(dict.fromkeys(script.size_guards + input_sizes(graph, script.input_types)))
        if stored["differentiable"] is not None:
            script.differentiable = self._outputs(stored["differentiable"])
        self._cover(script, arguments)
        self._bound(script)
        self._changed(script, arguments)
        return Program(graph.name, script, arguments, boolean(stored["grad_mode"]), dtype_of(stored["default_dtype"]),
                       _low(stored["autocast"]))

    def _cover(self, script: sig.ScriptGraph, arguments: list[sig.Guard]) -> None:
        """Every input is what its guard says: the native program reads it without looking."""
        guards = {g.source: g.value for g in (*arguments, *script.guards) if g.kind in ("tensor", "type", "optional")}
        own = dict(zip(script.inputs, script.input_types, strict=True))
        types = dict(zip(script.inputs, (v.type for v in script.graph.inputs), strict=True))
        for source, type_, value in zip(script.inputs, script.input_types, script.graph.inputs, strict=True):
            if isinstance(source, sig.RngState):
                need(value.type == INT, "the random state is no int")
                continue
            known = guards.get(source)
            if isinstance(type_, OptionalType):  # a gradient: of its tensor's shape whenever there is one
                need(isinstance(source, sig.Attr) and source.name == "grad" and isinstance(value.type, OptionalType)
                     and own.get(source.base) == type_.elem and types.get(source.base) == value.type.elem,
                     "a gradient that is not of its tensor's type")
                need(isinstance(type_.elem, TensorType) and known is type_.elem.dtype, "a gradient")
            elif isinstance(type_, TensorType):
                need(isinstance(known, sig.TensorKey) and known.dtype is type_.dtype and known.ones == tuple(
                    d == 1 for d in type_.dims), "an input differs from its guard")
            else:
                need(isinstance(known, type) and _KINDS.get(str(type_)) is known and type_ == value.type,
                     "an input differs from its guard")

    def _bound(self, script: sig.ScriptGraph) -> None:
        known = {s for t in script.input_types for d in getattr(t, "dims", ()) for s in symbols_of(d)}
        sizes = [s for pair in script.size_guards for s in pair]
        need(all(symbols_of(s) <= known for s in sizes), "a guard on an unknown size")
        known |= set(script.int_symbols)
        need(all(symbols_of(s) <= known for pair in script.trip_guards for s in pair), "a guard on an unknown size")

    def _changed(self, script: sig.ScriptGraph, arguments: list[sig.Guard]) -> None:
        """Of arguments only the `.grad` of tensors is set; the content that is changed is a list's or a dict's."""
        known = {g.source: g.value for g in (*arguments, *script.guards) if g.kind in ("tensor", "type")}
        places = [p for stores in (script.stores, *script.recipes) for p, _ in stores]
        for place in (*places, *script.commits.values()):
            if isinstance(place, sig.Attr) and place.name == "grad" and self._is_argument(place):
                need(isinstance(known.get(place.base), sig.TensorKey), "a gradient of what is no tensor")
            if isinstance(place, (sig.Content, sig.Tail)):
                cls = known.get(place.base) if self._is_argument(place) else type(
                    resolve(place.base, {self.names[0]: self.tree.build(0)}))
                need(isinstance(cls, type) and issubclass(cls, (list, dict)), "content of what is no container")

    def _is_argument(self, place: sig.Place) -> bool:
        base: Any = place
        while not isinstance(base, sig.Arg):
            base = base.base
        return base.name != self.names[0]

    # --- sources and guards ------------------------------------------------------------------------------------------

    def source(self, stored: Json, target: bool = False) -> sig.Source:
        """A path; `target`: its last attribute need not be there yet."""
        return self._path(stored, target)[0]

    def _path(self, stored: Json, target: bool) -> tuple[sig.Source, Any, bool]:
        """A path, the node of the tree that it leads to, and whether it leads through the tree."""
        match items(stored):
            case ["root"]:
                return sig.Arg(self.names[0]), self.tree.node(0), True
            case ["arg", name] if name in self.names[1:]:
                return sig.Arg(name), None, False
            case ["rng", "seed" | "offset" as part]:
                return sig.RngState(part), None, False
            case ["machine", fact] if fact in FACTS:
                return sig.Machine(fact), None, False
            case ["attr" | "item" | "at" as kind, base, key]:
                start, node, in_tree = self._path(base, False)
                need(in_tree or (isinstance(start, (sig.Arg, sig.Item)) and (
                    kind == "item" or (kind == "attr" and key == "grad"))), "a path to an attribute of an argument")
                found = self._step(start, kind, key)
                if in_tree and not (target and kind == "attr" and not self._is_taken(key)):
                    node = (self.tree.step(node, "item", self._key(found.key)) if isinstance(found, sig.At)
                            else self.tree.step(node, kind, key))
                return found, node, in_tree
        raise LoadError("damaged file: a path that starts nowhere")

    def _step(self, base: sig.Source, kind: Json, key: Json) -> sig.Attr | sig.At | sig.Item:
        """One step on from a path."""
        if kind == "attr":
            return sig.Attr(base, identifier(key))
        return sig.At(base, self.source(key)) if kind == "at" else sig.Item(base, self.tree.key(key))

    def _key(self, source: sig.Source) -> Json:
        """The key, as dicts in the tree have it, that is the object at a path."""
        found = resolve(source, {self.names[0]: self.tree.build(0)})
        return {"node": self.tree.number(found)}

    def _is_taken(self, name: str) -> bool:
        return hasattr(LoadedModule, name) or name.startswith("_") or name == "training"

    def guard(self, stored: Json) -> sig.Guard:
        path, kind, value = items(stored, 3)
        if kind == "absent":
            step, base, key = items(path, 3)
            need(step in ("attr", "item", "at"), "a guard on nothing")
            return sig.Guard(self._step(self.source(base), step, key), kind, None)
        source = self.source(path)
        match kind:
            case "is" if value is None and path[0] != "arg":
                return sig.Guard(source, kind, resolve(source, {self.names[0]: self.tree.build(0)}))
            case "is":
                return sig.Guard(source, kind, from_plain(value))
            case "default":
                need(isinstance(source, sig.Arg) and source.name in self.defaults, "a default that is none")
                return sig.Guard(source, "is", self.defaults[source.name])  # type: ignore[union-attr]
            case "type":
                return sig.Guard(source, kind, class_of(value))
            case "keys":
                return sig.Guard(source, kind, tuple(self.tree.key(k) for k in items(value)))
        assumed = self.assumed(kind, value)
        need(kind != "tensor" or assumed.device in (CPU, self.device), "a tensor on another GPU than the program")
        return sig.Guard(source, kind, assumed)

    def class_of(self, stored: Json) -> Any:
        return class_of(stored)

    def view(self, op: Json) -> str:
        need(has_trait(op, "view"), "a view")
        return string(op)


def _low(stored: Json) -> Low | None:
    if stored is None:
        return None
    if isinstance(stored, str):  # as files were written when the CPU alone had regions
        return pair(dtype_of(stored), None)
    cpu, cuda = (None if d is None else dtype_of(d) for d in items(stored, 2))
    return pair(cpu, cuda)


def input_sizes(graph: Graph, input_types: list[Type]) -> list[tuple[Size, Size]]:
    """The guards that the graph's own inputs need: where it takes two sizes to be equal, or one to be known.

    Raises LoadError unless `input_types` are the graph's, with 1 or a symbol of its own for every size.
    """
    seen: set[Symbol] = set()
    own: list[tuple[Symbol, Size]] = []
    bound: dict[Symbol, Size] = {}
    guards: list[tuple[Size, Size]] = []
    for given, value in zip(input_types, graph.inputs, strict=True):
        type_ = value.type
        if isinstance(given, OptionalType):
            continue  # of its tensor's type, see `_cover`
        if not isinstance(given, TensorType):
            need(given == type_, "an input of another type than the graph's")
            continue
        need(isinstance(type_, TensorType) and type_.dtype is given.dtype and type_.ndim == given.ndim,
             "an input of another type than the graph's")
        assert isinstance(type_, TensorType)
        for mine, size in zip(given.dims, type_.dims, strict=True):
            if isinstance(mine, int):
                need(mine == 1 and size == 1, "a size that is fixed")
                continue
            symbol = mine.symbol
            need(symbol is not None and symbol not in seen, "a size of an input")
            assert symbol is not None
            seen.add(symbol)
            if not isinstance(size, int) and size.symbol is not None and size.symbol not in bound:
                bound[size.symbol] = dim(symbol)
            else:
                own.append((symbol, size))
    for symbol, size in own:
        need(symbols_of(size) <= bound.keys(), "a size that no input has")
        guards.append((dim(symbol), substitute(size, bound)))
    return guards


# --- the file ------------------------------------------------------------------------------------------------------


def read_spans(stored: Json) -> tuple[list[Span | None], dict[str, dict[int, str]]]:
    """The table of spans, and the lines of source by file."""
    spans: list[Span | None] = []
    for row in items(stored["rows"]):
        file, line, column, end_line, end_column, function, caller = items(row, 7)
        start, first, end, last = (integer(v, 0, LONGEST) for v in (line, column, end_line, end_column))
        outer = None if caller == -1 else spans[integer(caller, 0, len(spans))]
        need(string(file).startswith("<") and file.endswith(">"), "a file name")
        spans.append(Span(file, start, first, end, last, string(function), outer))
    lines = {}
    for file, known in dict(stored["lines"]).items():
        need(file.startswith("<") and file.endswith(">"), "a file name")
        lines[file] = {integer(int(n), 1, LONGEST): string(text) for n, text in known.items()}
    return spans, lines


def read_signature(stored: Json, tree: Tree) -> tuple[inspect.Signature, dict[str, Any]]:
    """The signature of the loaded function, without the root; and the defaults that a file cannot hold."""
    found, own = [], {}
    for row in items(stored):
        name, kind, default = items(row, 3)
        value: Any = inspect.Parameter.empty
        if default is not None:
            need(type(default) is dict and len(default) == 1, "a default")
            if "node" in default:
                value = tree.build(default["node"])
            elif "own" in default:
                value = own[identifier(name)] = OwnDefault(string(default["own"]))
            else:
                value = from_plain(default["plain"])
        kinds = tuple(inspect._ParameterKind)
        found.append(inspect.Parameter(identifier(name), kinds[integer(kind, 0, len(kinds))], default=value))
    return inspect.Signature(found), own


def read_programs(contents: Contents, root: Any, tensors: Tensors, locate: Callable[[Device], Device]
                  ) -> tuple[inspect.Signature, tuple[str, ...], list[Program]]:
    """Everything in a file: the call's signature, all parameters (the root first), the programs; fills `root`.

    `tensors`: the memories, where they go. `locate`: where what was on a device goes.
    """
    stored = contents.program
    tree = Tree(stored["objects"], tensors, root, locate)
    need(tree.node(0)["kind"] == "module", "the root is no module")
    tree.build(0)
    signature, own = read_signature(stored["parameters"], tree)
    names = (identifier(stored["root_parameter"]), *signature.parameters)
    need(len(set(names)) == len(names), "two parameters of one name")
    spans, lines = read_spans(stored["source"])
    programs = items(stored["programs"], len(contents.graphs))
    need(bool(programs), "no programs")
    read = []
    for p, text in zip(programs, contents.graphs, strict=True):
        graph = parse(text, {string(name): fault(error) for name, error in p["objects"].items()})
        read.append(ProgramReader(tree, names, own, p).program(graph, spans))
    show_lines(lines)
    return signature, names, read
