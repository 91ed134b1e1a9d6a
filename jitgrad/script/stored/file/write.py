"""Programs and the objects that they read, as JSON; graphs as text. `read.py` is the inverse."""

from __future__ import annotations

import inspect
import types
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import jitgrad
from jitgrad import errors
from jitgrad.dims import Call, Dim, Size, Symbol
from jitgrad.ops.types import OptionalType, SeqType, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import Unreadable, broken, describe
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.text import to_text
from jitgrad.script.stored.file.snapshot import NotSavable, Snapshot, is_plain, plain
from jitgrad.script.stored.file.spans import SpanWriter
from jitgrad.script.stored.records import Program

Json = Any

#: classes that a file names; named tuples of other classes are described by their fields
CLASSES: dict[str, Any] = {
    "tuple": tuple, "list": list, "dict": dict, "OrderedDict": OrderedDict,
    "defaultdict": defaultdict, "Size": jitgrad.Size, "bool": bool,
    "int": int, "float": float, "complex": complex, "str": str, "bytes": bytes, "method": types.MethodType}

_FAULTS = {name: value for name, value in vars(errors).items()
           if isinstance(value, type) and issubclass(value, Exception)}


def class_name(cls: Any) -> Json:
    """A class of the table, or a named tuple by its fields. Raises NotSavable."""
    name = getattr(cls, "__name__", "")
    if CLASSES.get(name) is cls:
        return name
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return {"namedtuple": cls.__name__, "fields": list(cls._fields)}
    raise NotSavable(f"the class `{getattr(cls, '__qualname__', cls)}`: use tensors, numbers, strings and tuples, "
                     "lists, dicts and named tuples of them")


class ProgramWriter:
    """Turns programs into JSON and text; `snapshot` collects what they read."""

    def __init__(self, snapshot: Snapshot, defaults: dict[str, Any]):
        self.snapshot, self.defaults = snapshot, defaults
        self.spans = SpanWriter()
        self.graphs: list[str] = []
        self._symbols: dict[Symbol, int] = {}

    def program(self, program: Program) -> Json:
        """One specialisation. Raises NotSavable, and Unreadable where what it read is gone."""
        script, move = program.script, self.snapshot.move
        self._symbols = {}
        stored = {
            "name": program.name,
            "grad_mode": program.grad_mode,
            "gradient_state": script.gradient_state,
            "default_dtype": program.default_dtype.name,
            "autocast": None if program.autocast is None else [d and d.name for d in program.autocast],
            "arguments": [self._argument(g) for g in program.arguments if not self._is_root(g)],
            "inputs": [move(s) for s in script.inputs],
            "input_types": [self._type(t) for t in script.input_types],
            "guards": [self._guard(g) for g in script.guards if g.kind != "inherited"],
            "size_guards": [[self._size(a), self._size(b)] for a, b in script.size_guards],
            "trip_guards": [[self._size(a), self._size(b)] for a, b in script.trip_guards],
            "int_symbols": [[self._symbol(s), i] for s, i in script.int_symbols.items()],
            "result": self._result(script.result),
            "commits": [[i, self.snapshot.target(s)] for i, s in script.commits.items()],
            "written": [list(pair) for pair in script.written.items()],
            "differentiable": None if script.differentiable is None else list(script.differentiable),
            "freed": list(script.freed),
            "results": script.results,
            "recorded": [list(pair) for pair in script.recorded.items()],
            "alone": list(script.alone),
            "stores": self._stores(script.stores),
            "recipes": [self._stores(r) for r in script.recipes],
            "log": list(script.log),
            "spans": self.spans.graph(script.graph),
            "objects": self._graph(script.graph),
        }
        if script.device.type != "cpu":
            stored |= {"device": str(script.device), "on_host": list(script.on_host),
                       "expected": [[i, fault_name(error), head, tail] for i, error, head, tail in script.expected]}
        if script.device_state:
            stored["device_state"] = True
        return stored

    def _stores(self, stores: Sequence[tuple[sig.Place, sig.Result]]) -> Json:
        return [[self._place(s), self._result(r)] for s, r in stores]

    def _place(self, place: sig.Place) -> Json:
        if isinstance(place, (sig.Content, sig.Tail)):
            raise NotSavable(f"a change of the container `{describe(place.base)}`")
        return self.snapshot.target(place)

    def _is_root(self, guard: sig.Guard) -> bool:
        return not self.snapshot.is_argument(guard.source)

    def _graph(self, graph: Graph) -> Json:
        """Append the text of a graph; the names of the exceptions in it that are not Python's."""
        for node in walk(graph.block):
            if node.op.startswith("callback"):
                raise NotSavable(f"a call of a Python function ({node.span}): a saved program runs without Python "
                                 "source")
        objects: dict[str, Any] = {}
        self.graphs.append(to_text(graph, spans=False, objects=objects))
        found = {}
        for name, value in objects.items():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ != "builtins":
                found[name] = fault_name(value)
            elif not (isinstance(value, type) and issubclass(value, BaseException)):
                raise NotSavable(f"the object {value!r} in its graph")
        return found

    # --- assumptions -----------------------------------------------------------------------------------------------

    def _argument(self, guard: sig.Guard) -> Json:
        """What is assumed of an argument: its class is of the table, or it is the parameter's default."""
        source, value = guard.source, guard.value
        if guard.kind == "is" and not is_plain(value):
            if isinstance(source, sig.Arg) and self.defaults.get(source.name, self) is value:
                return [self.snapshot.move(source), "default", None]
            raise NotSavable(f"the argument `{describe(source)}` is an object of class `{type(value).__qualname__}`, "
                             "which the program was compiled for: make it part of the function's closure, or save a "
                             "scripted method of it")
        return self._guard(guard)

    def _guard(self, guard: sig.Guard) -> Json:
        value, kind = guard.value, guard.kind
        if kind == "tensor":
            stored: Json = [value.dtype.name, value.ndim, list(value.ones), value.requires_grad]
            if value.device.type != "cpu":
                stored.append(str(value.device))
        elif kind in ("same", "other"):
            stored = self.snapshot.move(value)
        elif kind == "is":
            stored = plain(value) if self.snapshot.is_argument(guard.source) else None
        elif kind == "type":
            stored = class_name(value)
        elif kind == "keys":
            stored = [self.snapshot.key(k) for k in value]
        elif kind in ("equal", "optional"):
            stored = plain(value)
        else:
            stored = value if kind in ("len", "contiguous") else None
        if kind == "absent":  # the path itself cannot be read
            source = guard.source
            assert isinstance(source, (sig.Attr, sig.Item, sig.At))
            if isinstance(source, sig.At):
                return [["at", self.snapshot.move(source.base), self.snapshot.move(source.key)], kind, None]
            key = source.name if isinstance(source, sig.Attr) else self.snapshot.key(source.key)
            part = "attr" if isinstance(source, sig.Attr) else "item"
            return [[part, self.snapshot.move(source.base), key], kind, None]
        return [self.snapshot.move(guard.source), kind, stored]

    # --- sizes, types, results ---------------------------------------------------------------------------------------

    def _symbol(self, symbol: Symbol) -> int:
        return self._symbols.setdefault(symbol, len(self._symbols))

    def _size(self, size: Size) -> Json:
        if isinstance(size, int):
            return size
        return [[coefficient, [self._symbol(a) if isinstance(a, Symbol) else self._call(a) for a in monomial]]
                for monomial, coefficient in size.terms]

    def _call(self, atom: Call) -> Json:
        return [atom.fn, [self._size(a) for a in atom.args]]

    def _type(self, type_: Type) -> Json:
        if isinstance(type_, TensorType):
            return ["tensor", type_.dtype.name, [self._size(d) for d in type_.dims]]
        if isinstance(type_, OptionalType):
            return ["optional", self._type(type_.elem)]
        if isinstance(type_, SeqType):
            raise NotSavable(f"an input of type `{type_}`")
        return [str(type_)]

    def _attr(self, value: Any) -> Json:
        """An attribute of a view."""
        if isinstance(value, Dim):
            return {"size": self._size(value)}
        if isinstance(value, tuple):
            return {"items": [self._attr(v) for v in value]}
        return {"plain": plain(value)}

    def _result(self, result: sig.Result) -> Json:
        match result:
            case sig.Output(index):
                return ["output", index]
            case sig.Same(index):
                return ["same", index]
            case sig.Static(value):
                if not is_plain(value):
                    raise NotSavable(f"its result, an object of class `{type(value).__qualname__}`: return tensors, "
                                     "numbers, strings, and tuples, lists and dicts of them")
                return ["static", plain(value)]
            case sig.Leaf(index, grad):
                return ["leaf", index, self._result(grad)]
            case sig.Given(source):
                return ["given", self.snapshot.move(source)]
            case sig.ViewOf(index, path, sizes, made):
                return ["view", index, self._steps(path), self._sizes(sizes), made]
            case sig.Referred(index, origin, references, path, sizes):
                known = [[r.root, r.of, self._steps(r.path), [self._symbol(s) for s in r.symbols]] for r in references]
                return ["referred", index, list(origin), known, self._steps(path), self._sizes(sizes)]
            case sig.Text(parts):
                return ["text", [p if isinstance(p, str) else [self._result(p[0]), *p[1:]] for p in parts]]
            case sig.Select(condition, if_true, if_false):
                return ["select", condition, self._result(if_true), self._result(if_false)]
            case sig.Repeated(leaves, item, identity):
                return ["repeated", list(leaves), self._result(item), identity]
            case sig.Container(type_, keys, items, identity):
                stored_keys = None if keys is None else [plain(k) for k in keys]
                return ["container", class_name(type_), stored_keys, [self._result(i) for i in items], identity]
        raise NotSavable(f"a result of kind `{type(result).__name__}`: return tensors, numbers and containers of them")

    def _steps(self, path: Sequence[tuple[str, Mapping[str, Any]]]) -> Json:
        return [[op, {k: self._attr(v) for k, v in attrs.items()}] for op, attrs in path]

    def _sizes(self, sizes: Mapping[Any, int]) -> Json:
        return [[self._symbol(s), i] for s, i in sizes.items()]


def fault_name(error: type[BaseException]) -> str:
    """An exception class as a name that loading knows: one of `jitgrad.errors`, or the first built-in base."""
    for base in error.__mro__:
        if _FAULTS.get(base.__name__) is base:
            return base.__name__
        if base.__module__ == "builtins":
            return base.__name__
    raise AssertionError(error)


def parameters(function: Any, bound: bool, snapshot: Snapshot) -> tuple[list[Json], dict[str, Any]]:
    """The parameters of the function's calls, and their defaults."""
    stored, defaults = [], {}
    for number, p in enumerate(inspect.signature(function, follow_wrapped=False).parameters.values()):
        if bound and number == 0:
            continue
        default: Json = None
        if p.default is not p.empty:
            defaults[p.name] = p.default
            data = isinstance(p.default, (list, tuple, dict)) or hasattr(p.default, "_data")
            default = ({"plain": plain(p.default)} if is_plain(p.default)
                       else {"node": snapshot.node(p.default)} if data else {"own": str(p.default)[:80]})
        stored.append([p.name, int(p.kind), default])
    return stored, defaults


def still_holds(snapshot: Snapshot, guards: Sequence[sig.Guard]) -> bool:
    """Whether what cannot be changed on the loaded objects is as the program assumed it: identities and structure.

    Values of numbers and strings, dtypes and needs-gradient flags can change there as here.
    """
    for guard in guards:
        if snapshot.is_argument(guard.source) or guard.kind in ("equal", "tensor", "contiguous", "optional"):
            continue
        try:
            found = snapshot.current(guard.source)
        except Unreadable:
            if guard.kind == "absent":
                continue
            return False
        if guard.kind in ("same", "other"):
            if (found is snapshot.current(guard.value)) is not (guard.kind == "same"):
                return False
        elif broken(guard, found):
            return False
    return True
