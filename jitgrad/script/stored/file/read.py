"""What `write.py` wrote, read back without belief: every number, name, index and path is checked.

Names end up in generated code (`entry.py`, `results.py`), so they must be identifiers; paths must lead through the
saved objects, never to anything that Python itself hangs on an object; sizes that the graph takes to be equal become
guards here, whatever the file says. All that is wrong raises LoadError.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from typing import Any

from jitgrad import errors
from jitgrad.device import CPU, FACTS
from jitgrad.device import device as Device
from jitgrad.dims import FUNCTIONS, Call, Dim, Size, Symbol, dim, substitute
from jitgrad.dims import symbols as symbols_of
from jitgrad.dtypes import int64
from jitgrad.errors import Span
from jitgrad.ops.autocast import Low, pair
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, ListType, OptionalType, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import resolve
from jitgrad.script.graph.ir import Block, Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.stored.file.archive import Contents
from jitgrad.script.stored.file.objects import LoadedModule, OwnDefault
from jitgrad.script.stored.file.spans import attach, show_lines
from jitgrad.script.stored.file.tree import Tensors, Tree
from jitgrad.script.stored.file.values import (
    boolean,
    class_of,
    device_of,
    dtype_of,
    identifier,
    integer,
    items,
    need,
    plain,
    string,
)
from jitgrad.script.stored.records import Program
from jitgrad.serialization import LoadError

Json = Any
_NUMBERS: dict[str, Type] = {"int": INT, "float": FLOAT, "bool": BOOL, "number": NUMBER}
_KINDS: dict[str, type] = {"int": int, "float": float, "bool": bool}
LONGEST = 1 << 20  # no list of sizes, path or line number is longer


class ProgramReader:
    """One program of a file.

    Args:
        tree: the objects.
        names: the parameters of the loaded function, the root first.
        stored: the program's JSON.
        defaults: the defaults that a file cannot hold, by parameter.
    """

    def __init__(self, tree: Tree, names: tuple[str, ...], defaults: dict[str, Any], stored: Json):
        need(type(stored) is dict, "a program is no object")
        self.tree, self.names, self.defaults, self.stored = tree, names, defaults, stored
        self.symbols: list[Symbol] = []
        self.device = device_of(stored["device"]) if "device" in stored else CPU

    def program(self, graph: Graph, spans: list[Span | None]) -> Program:
        """The program with its verified graph."""
        stored = self.stored
        verify(graph)
        numbers = [integer(i, -1, len(spans)) for i in items(stored["spans"], sum(1 for _ in walk(graph.block)))]
        attach(graph, [None if i < 0 else spans[i] for i in numbers])
        name = string(stored["name"])
        graph.name = name
        input_types = [self._type(t) for t in items(stored["input_types"], len(graph.inputs))]
        inputs = [self.source(s) for s in items(stored["inputs"], len(graph.inputs))]
        arguments = [self._guard(g) for g in items(stored["arguments"])]
        guards = [self._guard(g) for g in items(stored["guards"])]
        sizes = [self._pair(p) for p in items(stored["size_guards"])] + input_sizes(graph, input_types)
        n_outputs = len(graph.outputs)
        script = sig.ScriptGraph(
            graph=graph, inputs=inputs, input_types=input_types, guards=guards, size_guards=list(dict.fromkeys(sizes)),
            result=self._result(stored["result"], graph),
            commits={self._input(i, graph): self.source(s, target=True)
                     for i, s in (items(c, 2) for c in items(stored["commits"]))},
            trip_guards=[self._pair(p) for p in items(stored["trip_guards"])],
            int_symbols={self._symbol(s): self._int_input(i, graph)
                         for s, i in (items(c, 2) for c in items(stored["int_symbols"]))},
            written={self._input(i, graph): integer(o, 0, n_outputs)
                     for i, o in (items(c, 2) for c in items(stored["written"]))},
            differentiable=None if stored["differentiable"] is None else tuple(
                integer(i, 0, n_outputs) for i in items(stored["differentiable"])),
            freed=tuple(integer(i, 0, n_outputs) for i in items(stored["freed"])),
            recorded={integer(i, 0, n_outputs): integer(flag, 0, n_outputs)
                      for i, flag in (items(c, 2) for c in items(stored.get("recorded", [])))},
            results=integer(stored.get("results", n_outputs), 0, n_outputs + 1),
            alone=tuple(integer(i, 0, n_outputs) for i in items(stored.get("alone", []))),
            stores=self._stores(stored["stores"], graph), recipes=self._recipes(stored.get("recipes", []), graph),
            parameters=self.names, log=[string(line) for line in items(stored["log"])],
            gradient_state=boolean(stored["gradient_state"]), device_state=boolean(stored.get("device_state", False)),
            device=self.device, on_host=tuple(integer(i, 0, n_outputs) for i in items(stored.get("on_host", []))),
            expected=[self._expected(e, graph) for e in items(stored.get("expected", []))])
        self._cover(script, arguments)
        self._bound(script)
        return Program(name, script, arguments, boolean(stored["grad_mode"]), dtype_of(stored["default_dtype"]),
                       _low(stored["autocast"]))

    def _expected(self, stored: Json, graph: Graph) -> tuple[int, type[Exception], str, str]:
        """An output that says which index was out of range, and the words for it."""
        output, error, head, tail = items(stored, 4)
        type_ = graph.outputs[integer(output, 0, len(graph.outputs))].type
        need(type_ == TensorType(int64, ()), "an index that was out of range")
        return output, fault(error), string(head), string(tail)

    def _stores(self, stored: Json, graph: Graph) -> list[tuple[sig.Place, sig.Result]]:
        return [(self.source(s, target=True), self._result(r, graph)) for s, r in (items(c, 2) for c in items(stored))]

    def _recipes(self, stored: Json, graph: Graph) -> list[tuple[tuple[sig.Place, sig.Result], ...]]:
        """What `pending` nodes store, each checked against all nodes that say so; nothing where there is none."""
        found: list[tuple[tuple[sig.Place, sig.Result], ...]] = [() for _ in items(stored)]
        for node in walk(graph.block):
            if node.op == "pending":
                number = integer(node.attrs["recipe"], 0, len(found))
                values = Graph(Block(graph.block.params, [], node.inputs), graph.name)
                found[number] = tuple(self._stores(stored[number], values))
        return found

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

    # --- sources and guards ------------------------------------------------------------------------------------------

    def source(self, stored: Json, target: bool = False) -> sig.Source:
        """A path; `target`: its last attribute need not be there yet."""
        steps = []
        at = items(stored)
        while at and at[0] in ("attr", "item", "at"):
            kind, base, key = items(at, 3)
            steps.append((kind, identifier(key) if kind == "attr" else self.source(key) if kind == "at" else key))
            need(len(steps) < LONGEST, "a path without end")
            at = items(base)
        need(bool(at), "an empty path")
        node: Any = None
        if at[0] == "rng" and not steps:
            need(at[1:] in (["seed"], ["offset"]), "a random state")
            return sig.RngState(at[1])
        if at[0] == "machine" and not steps:
            need(len(at) == 2 and at[1] in FACTS, "a fact about the machine")
            return sig.Machine(at[1])
        in_tree = at == ["root"]
        if in_tree:
            found: sig.Source = sig.Arg(self.names[0])
            node = self.tree.node(0)
        else:
            need(len(at) == 2 and at[0] == "arg" and at[1] in self.names[1:], "a path that starts nowhere")
            found = sig.Arg(at[1])
        for i, (kind, key) in enumerate(reversed(steps)):
            last = i == len(steps) - 1
            need(in_tree or kind == "item", "a path to an attribute of an argument")
            if in_tree and not (target and last and kind == "attr" and not self._is_taken(key)):
                node = self.tree.step(node, "item", self._key(key)) if kind == "at" else self.tree.step(node, kind, key)
            found = (sig.Attr(found, key) if kind == "attr" else sig.At(found, key) if kind == "at"
                     else sig.Item(found, self.tree.key(key)))
        return found

    def _key(self, source: sig.Source) -> Json:
        """The key, as dicts in the tree have it, that is the object at a path."""
        found = resolve(source, {self.names[0]: self.tree.build(0)})
        return {"node": self.tree.number(found)}

    def _is_taken(self, name: str) -> bool:
        """Whether an attribute that a script assigns would hide a part of Module."""
        return hasattr(LoadedModule, name) or name.startswith("_") or name == "training"

    def _guard(self, stored: Json) -> sig.Guard:
        path, kind, value = items(stored, 3)
        if kind == "absent":
            base = self.source(items(path, 3)[1])
            need(path[0] in ("attr", "item", "at"), "a guard on nothing")
            if path[0] == "attr":
                return sig.Guard(sig.Attr(base, identifier(path[2])), kind, None)
            if path[0] == "at":
                return sig.Guard(sig.At(base, self.source(path[2])), kind, None)
            return sig.Guard(sig.Item(base, self.tree.key(path[2])), kind, None)
        source = self.source(path)
        match kind:
            case "tensor":
                name, ndim, ones, requires_grad, *where = items(value)
                found = tuple(boolean(o) for o in items(ones, integer(ndim, 0, 65)))
                key = sig.TensorKey(dtype_of(name), ndim, found, boolean(requires_grad),
                                    device_of(items(where, 1)[0]) if where else CPU)
                need(key.device in (CPU, self.device), "a tensor on another GPU than the program")
                return sig.Guard(source, kind, key)
            case "same" | "other":
                return sig.Guard(source, kind, self.source(value))
            case "is":
                if value is None and path[0] != "arg":
                    return sig.Guard(source, kind, resolve(source, {self.names[0]: self.tree.build(0)}))
                return sig.Guard(source, kind, plain(value))
            case "default":
                need(isinstance(source, sig.Arg) and source.name in self.defaults, "a default that is none")
                return sig.Guard(source, "is", self.defaults[source.name])  # type: ignore[union-attr]
            case "type":
                return sig.Guard(source, kind, class_of(value))
            case "keys":
                return sig.Guard(source, kind, tuple(self.tree.key(k) for k in items(value)))
            case "equal":
                return sig.Guard(source, kind, plain(value))
            case "optional":
                return sig.Guard(source, kind, dtype_of(plain(value).name))
            case "len":
                return sig.Guard(source, kind, integer(value))
            case "unhooked":
                return sig.Guard(source, kind, None)
            case "contiguous":
                return sig.Guard(source, kind, boolean(value))
        raise LoadError("damaged file: a guard of an unknown kind")

    # --- sizes, types, results ---------------------------------------------------------------------------------------

    def _symbol(self, number: Json) -> Symbol:
        wanted = integer(number, 0, LONGEST)
        while len(self.symbols) <= wanted:
            self.symbols.append(Symbol())
        return self.symbols[wanted]

    def _size(self, stored: Json) -> Size:
        if type(stored) is int:
            return stored
        total: Size = 0
        for term in items(stored):
            coefficient, atoms = items(term, 2)
            product: Size = integer(coefficient, -(1 << 62))
            for a in items(atoms):
                factor: Size = dim(self._symbol(a)) if type(a) is int else self._call(a)
                product = factor * product if isinstance(product, int) else product * factor
            total = product + total if isinstance(total, int) else total + product
        return total

    def _call(self, stored: Json) -> Size:
        fn, args = items(stored, 2)
        need(fn in FUNCTIONS and bool(items(args)), "a function of sizes")
        return Dim((((Call(fn, tuple(self._size(a) for a in args)),), 1),))

    def _pair(self, stored: Json) -> tuple[Size, Size]:
        a, b = items(stored, 2)
        return self._size(a), self._size(b)

    def _type(self, stored: Json) -> Type:
        if items(stored)[:1] == ["tensor"]:
            _, name, sizes = items(stored, 3)
            return TensorType(dtype_of(name), tuple(self._size(d) for d in items(sizes)))
        if stored[:1] == ["optional"]:
            return OptionalType(self._type(items(stored, 2)[1]))
        need(len(stored) == 1 and stored[0] in _NUMBERS, "a type")
        return _NUMBERS[stored[0]]

    def _input(self, i: Json, graph: Graph) -> int:
        return integer(i, 0, len(graph.inputs))

    def _int_input(self, i: Json, graph: Graph) -> int:
        need(graph.inputs[self._input(i, graph)].type == INT, "a size that is no int")
        return int(i)

    def _attr(self, stored: Json) -> Any:
        need(type(stored) is dict and len(stored) == 1, "an attribute of a view")
        (kind, value), = stored.items()
        if kind == "size":
            return self._size(value)
        if kind == "items":
            return tuple(self._attr(v) for v in items(value))
        return plain(value)

    def _result(self, stored: Json, graph: Graph, n_outputs: int | None = None) -> sig.Result:
        """A result over the graph's outputs; an item of a list is one over `n_outputs` of its own."""
        n = len(graph.outputs) if n_outputs is None else n_outputs
        match items(stored):
            case ["output", index]:
                return sig.Output(integer(index, 0, n))
            case ["same", index]:
                return sig.Same(self._input(index, graph))
            case ["static", value]:
                return sig.Static(plain(value))
            case ["leaf", index, grad]:
                type_ = graph.outputs[integer(index, 0, len(graph.outputs))].type
                need(n_outputs is None and isinstance(type_, TensorType) and type_.dtype.is_floating_point, "a leaf")
                return sig.Leaf(index, self._result(grad, graph))
            case ["given", source]:
                need(n_outputs is None, "an item of a list that is found by a path")
                return sig.Given(self.source(source))
            case ["view", index, steps, sizes, bool(of_output)]:
                of = graph.outputs[integer(index, 0, n)] if of_output else graph.inputs[self._input(index, graph)]
                need(isinstance(of.type, TensorType), "a view of a number")
                return sig.ViewOf(index, self._path(steps), self._sizes(sizes, n), of_output)
            case ["referred", index, origin, references, steps, sizes]:
                ints = tuple(integer(k, 0, n) for k in items(origin))
                need(bool(ints), "what an item is")
                known = tuple(self._reference(r, graph) for r in items(references))
                return sig.Referred(integer(index, 0, n), ints, known, self._path(steps), self._sizes(sizes, n))
            case ["text", parts]:
                return sig.Text(tuple(p if isinstance(p, str) else self._shown(p, graph, n_outputs)
                                      for p in items(parts)))
            case ["select", condition, if_true, if_false]:
                return sig.Select(integer(condition, 0, n), self._result(if_true, graph),
                                  self._result(if_false, graph))
            case ["repeated", leaves, item, identity]:
                places = tuple(integer(k, 0, n) for k in items(leaves))
                need(bool(places) and all(isinstance(graph.outputs[k].type, ListType) for k in places), "a list")
                return sig.Repeated(places, self._result(item, graph, len(places)), integer(identity, 0))
            case ["container", cls, keys, parts, identity]:
                found = tuple(self._result(p, graph, n_outputs) for p in items(parts))
                made = None if keys is None else tuple(plain(k) for k in items(keys, len(found)))
                type_ = class_of(cls)
                need((made is not None) == issubclass(type_, dict) and issubclass(type_, (tuple, list, dict)),
                     "a container")
                need(len(found) == len(getattr(type_, "_fields", found)), "the fields of a named tuple")
                return sig.Container(type_, made, found, integer(identity, -1))
        raise LoadError("damaged file: a result of an unknown kind")

    def _path(self, stored: Json) -> tuple[tuple[str, dict[str, Any]], ...]:
        """The steps of a view."""
        return tuple((self._view(op), {identifier(k): self._attr(v) for k, v in attrs.items()})
                     for op, attrs in (items(s, 2) for s in items(stored)))

    def _sizes(self, stored: Json, n: int) -> dict[Symbol, int]:
        """Where the sizes of a view are found, among n outputs."""
        return {self._symbol(s): integer(i, 0, n) for s, i in (items(p, 2) for p in items(stored))}

    def _reference(self, stored: Json, graph: Graph) -> sig.Reference:
        """A tensor of the caller: an input, an item of one that is a list, or a view of what other ints say."""
        root, of, steps, symbols = items(stored, 4)
        known = tuple(self._symbol(s) for s in items(symbols))
        if integer(root, -1, len(graph.inputs)) >= 0:
            type_ = graph.inputs[root].type
            listed = isinstance(type_, ListType)
            need(integer(of, 0, 2) == listed and isinstance(type_.elem if isinstance(type_, ListType) else type_,
                                                            TensorType), "a tensor among the inputs")
        return sig.Reference(root, integer(of, 0, LONGEST), self._path(steps), known)

    def _shown(self, stored: Json, graph: Graph, n_outputs: int | None) -> Any:
        """A part of a string: a result, its conversion (or the texts that it chooses from), its format."""
        value, conversion, spec = items(stored, 3)
        chosen = tuple(string(text) for text in conversion) if type(conversion) is list else conversion
        need(type(chosen) is tuple or chosen in ("", "s", "r", "a"), "a conversion")
        return self._result(value, graph, n_outputs), chosen, string(spec)

    def _view(self, op: Json) -> str:
        need(has_trait(op, "view"), "a view")
        return string(op)


def _low(stored: Json) -> Low | None:
    """What autocast cast to, for the CPU and for a GPU."""
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
                value = plain(default["plain"])
        kinds = tuple(inspect._ParameterKind)
        found.append(inspect.Parameter(identifier(name), kinds[integer(kind, 0, len(kinds))], default=value))
    return inspect.Signature(found), own


def read_graph(text: str, objects: Json) -> Graph:
    """A graph from its text; `objects` names its exceptions. Raises LoadError."""
    need(type(objects) is dict, "the exceptions of a graph")
    return parse(text, {string(name): fault(error) for name, error in objects.items()})


def fault(stored: Json) -> type[Exception]:
    """An exception by the name that `write.fault_name` gave it."""
    name = string(stored)
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    need(isinstance(found, type) and issubclass(found, Exception), f"the exception {name[:40]!r}")
    assert isinstance(found, type)
    return found


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
    read = [ProgramReader(tree, names, own, p).program(read_graph(text, p["objects"]), spans)
            for p, text in zip(programs, contents.graphs, strict=True)]
    show_lines(lines)
    return signature, names, read
