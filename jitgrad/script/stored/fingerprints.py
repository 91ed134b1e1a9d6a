"""A specialisation as bytes for the disk cache, and back: data only, nothing in it is executed but the native code.

Objects are stored by what they are, not by value: a function by module, qualified name and a hash of its code, a module
instance by its class. A hit resolves every path again in this process and compares; so an entry whose source changed
in any inlined function is not used. What cannot be named this way (a tensor literal, an anonymous object) makes
the specialisation "not storable", and it is compiled in every process.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import json
import marshal
import types
from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.amp.autocast_mode import autocast
from jitgrad.device import FACTS, device
from jitgrad.dims import Call, Dim, Size, Symbol
from jitgrad.nn import Module
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, ListType, OptionalType, SeqType, TensorType, Type
from jitgrad.optim import Optimizer
from jitgrad.script.call import list_kinds
from jitgrad.script.call import signature as sig

Json = Any


class NotStorable(Exception):
    """Something in the specialisation has no name that another process could resolve."""


# --- naming objects ------------------------------------------------------------------------------------------------


def code_hash(function: Any) -> str:
    """A hash of a function's code: instructions, constants, names, file and line numbers."""
    return hashlib.sha256(marshal.dumps(function.__code__)).hexdigest()[:24]


def fingerprint(value: Any) -> Json:
    """What `value` is, comparable across processes. Raises NotStorable."""
    if isinstance(value, types.ModuleType):
        return ["module", value.__name__]
    if isinstance(value, types.FunctionType):
        return ["function", value.__module__, value.__qualname__, code_hash(value)]
    if isinstance(value, (types.BuiltinFunctionType, types.BuiltinMethodType)):
        return ["builtin", value.__module__ or "", value.__qualname__]
    if isinstance(value, type):
        return ["class", value.__module__, value.__qualname__]
    if isinstance(value, dtypes.dtype):
        return ["dtype", value.name]
    if isinstance(value, device):
        return ["device", str(value)]
    if isinstance(value, (bool, int, float, str, type(None))):
        return ["value", type(value).__name__, value]
    if isinstance(value, tuple):
        return ["tuple", [fingerprint(v) for v in value]]
    if isinstance(value, types.MethodType):
        return ["method", fingerprint(value.__func__), fingerprint(value.__self__)]
    wrapped = getattr(value, "eager", None)
    if isinstance(wrapped, types.FunctionType):  # another scripted function
        return ["scripted", fingerprint(wrapped)]
    if isinstance(value, autocast):
        return ["autocast", type(value).__qualname__, *[repr(v) for v in value.__reduce__()[1][1:]]]
    if _is_module_instance(value):
        return ["instance", type(value).__module__, type(value).__qualname__]
    raise NotStorable(f"an object of type `{type(value).__name__}`")


def _is_module_instance(value: Any) -> bool:
    return isinstance(value, (Module, Optimizer))


def import_by_name(module: str, qualname: str) -> Any:
    """The object `qualname` of a module that this process has imported (or can). Raises NotStorable."""
    try:
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise NotStorable(f"`{module}.{qualname}`: {error}") from error
    return found


# --- sizes and types -----------------------------------------------------------------------------------------------


class Writer:
    """Turns the parts of a ScriptGraph into JSON. `root` is the scripted function.

    A function that no module has (one made by another function) is named by the path on which `guards` found it, a
    method of a class that a function made by the path to an instance.
    """

    def __init__(self, root: Any, guards: Sequence[sig.Guard] = ()):
        self.root = root
        self._paths: dict[int, sig.Source] = {}
        for guard in guards:
            if guard.kind == "is" and isinstance(guard.value, types.FunctionType):
                self._paths.setdefault(id(guard.value), guard.source)
            elif guard.kind == "is" and "<locals>" in type(guard.value).__qualname__:
                self._add_methods(type(guard.value), sig.Attr(guard.source, "__class__"))
        self.symbols: dict[Symbol, int] = {}

    def _add_methods(self, class_: type, source: sig.Source) -> None:
        for name in dir(class_):
            method = getattr(class_, name, None)
            if isinstance(method, types.FunctionType):
                self._paths.setdefault(id(method), sig.Attr(source, name))

    def size(self, size: Size) -> Json:
        if isinstance(size, int):
            return size
        return [[coefficient, [self._atom(a) for a in monomial]] for monomial, coefficient in size.terms]

    def _atom(self, atom: Symbol | Call) -> Json:
        if isinstance(atom, Symbol):
            return self.symbol(atom)
        return [atom.fn, [self.size(a) for a in atom.args]]

    def symbol(self, symbol: Symbol) -> int:
        return self.symbols.setdefault(symbol, len(self.symbols))

    def type(self, type_: Type) -> Json:
        if isinstance(type_, TensorType):
            return ["tensor", type_.dtype.name, [self.size(d) for d in type_.dims]]
        if isinstance(type_, (SeqType, OptionalType)):
            word = "list" if isinstance(type_, ListType) else "seq" if isinstance(type_, SeqType) else "optional"
            return [word, self.type(type_.elem)]
        return [str(type_)]

    def attr(self, value: Any) -> Json:
        """An attribute of a view: sizes, tuples, dtypes, primitives."""
        if isinstance(value, Dim):
            return ["size", self.size(value)]
        if isinstance(value, tuple):
            return ["items", [self.attr(v) for v in value]]
        return fingerprint(value)

    def source(self, source: sig.Source) -> Json:
        match source:
            case sig.Arg(name):
                return ["arg", name]
            case sig.Global(function, name):
                return ["global", self.function(function), name]
            case sig.Cell(function, index):
                return ["cell", self.function(function), index]
            case sig.Attr(base, name):
                return ["attr", self.source(base), name]
            case sig.Item(base, key):
                if type(key) not in (int, str):
                    raise NotStorable(f"a key of type `{type(key).__name__}`")
                return ["item", self.source(base), key]
            case sig.At(base, key):
                return ["at", self.source(base), self.source(key)]
            case sig.RngState(part):
                return ["rng", part]
            case sig.Machine(fact):
                return ["machine", fact]
            case sig.Column(base, path):
                return ["column", self.source(base), list(path)]
            case sig.Length(base):
                return ["length", self.source(base)]
            case sig.Extent(base, axis):
                return ["extent", self.source(base), axis]
            case sig.Constant(value, number):
                return ["constant", fingerprint(value), number] if _is_plain(value) else self._refuse(value)
        raise AssertionError(source)

    def _refuse(self, value: Any) -> Json:
        raise NotStorable(f"a constant of type `{type(value).__name__}`")

    def function(self, function: Any) -> Json:
        """A function whose globals or closure are read: the root, one to be imported, or one found on a path."""
        if function is self.root:
            return ["root"]
        try:
            if import_by_name(function.__module__, function.__qualname__) is function:
                return ["import", function.__module__, function.__qualname__]
        except NotStorable:
            pass  # made by another function
        path = self._paths.pop(id(function), None)
        if path is None:
            raise NotStorable(f"the function `{function.__qualname__}`")
        stored = ["path", self.source(path)]
        self._paths[id(function)] = path
        return stored

    def guard(self, guard: sig.Guard) -> Json:
        value = guard.value
        if isinstance(value, sig.TensorKey):
            stored: Json = [value.dtype.name, value.ndim, list(value.ones), value.requires_grad,
                            str(value.device)]
        elif guard.kind in ("same", "other"):
            stored = self.source(value)
        elif guard.kind in ("len", "absent", "contiguous", "unhooked"):
            stored = value if isinstance(value, int) else None
        elif guard.kind == "inherited":
            stored = value
        elif guard.kind == "items":
            stored = list_kinds.to_plain(value)
        else:
            stored = fingerprint(value)
        return [self.source(guard.source), guard.kind, stored]

    def result(self, result: sig.Result) -> Json:
        match result:
            case sig.Output(index):
                return ["output", index]
            case sig.Same(index):
                return ["same", index]
            case sig.Static(value):
                if not _is_plain(value):
                    raise NotStorable(f"a result of type `{type(value).__name__}`")
                return ["static", fingerprint(value)]
            case sig.Leaf(index, grad):
                return ["leaf", index, self.result(grad)]
            case sig.Given(source):
                return ["given", self.source(source)]
            case sig.ViewOf(index, path, sizes, made):
                return ["view", index, self._steps(path), self._sizes(sizes), made]
            case sig.Referred(index, origin, references, path, sizes):
                known = [[r.root, r.of, self._steps(r.path), [self.symbol(s) for s in r.symbols]] for r in references]
                return ["referred", index, list(origin), known, self._steps(path), self._sizes(sizes)]
            case sig.Text(parts):
                return ["text", [p if isinstance(p, str) else [self.result(p[0]), *p[1:]] for p in parts]]
            case sig.Select(condition, if_true, if_false):
                return ["select", condition, self.result(if_true), self.result(if_false)]
            case sig.Repeated(leaves, item, identity):
                return ["repeated", list(leaves), self.result(item), identity]
            case sig.Container(type_, keys, items, identity):
                named = [type_.__module__, type_.__qualname__]
                if import_by_name(*named) is not type_:
                    raise NotStorable(f"the class `{type_.__qualname__}`")
                stored_keys = None if keys is None else [fingerprint(k) for k in keys]
                return ["container", named, stored_keys, [self.result(i) for i in items], identity]
        raise NotStorable(f"a result of kind `{type(result).__name__}`")

    def _steps(self, path: Sequence[tuple[str, Mapping[str, Any]]]) -> Json:
        return [[op, {k: self.attr(v) for k, v in attrs.items()}] for op, attrs in path]

    def _sizes(self, sizes: Mapping[Any, int]) -> Json:
        return [[self.symbol(s), i] for s, i in sizes.items()]

    def stores(self, stores: Sequence[tuple[sig.Place, sig.Result]]) -> Json:
        """Places and what they become."""
        found = []
        for place, result in stores:
            if isinstance(place, (sig.Content, sig.Tail)):
                raise NotStorable("a container that the script changes")
            found.append([self.source(place), self.result(result)])
        return found


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, type(None), dtypes.dtype, device))


_NUMBERS: dict[str, Type] = {"int": INT, "float": FLOAT, "bool": BOOL, "number": NUMBER}


class Reader:
    """The inverse of `Writer` in a process where the root function is `root` and was called with `values`."""

    def __init__(self, root: Any, values: dict[str, Any], not_one: Sequence[bool]):
        self.root, self.values = root, values
        self.symbols = [Symbol(not_one=flag) for flag in not_one]

    def size(self, stored: Json) -> Size:
        if isinstance(stored, int):
            return stored
        return Dim(tuple((tuple(self._atom(a) for a in atoms), coefficient) for coefficient, atoms in stored))

    def _atom(self, stored: Json) -> Symbol | Call:
        if isinstance(stored, int):
            return self.symbols[stored]
        return Call(stored[0], tuple(self.size(a) for a in stored[1]))

    def type(self, stored: Json) -> Type:
        match stored:
            case ["tensor", name, dims]:
                return TensorType(dtypes.by_name(name), tuple(self.size(d) for d in dims))
            case ["seq", elem]:
                return SeqType(self.type(elem))
            case ["list", elem]:
                return ListType(self.type(elem))
            case ["optional", elem]:
                return OptionalType(self.type(elem))
        return _NUMBERS[stored[0]]

    def attr(self, stored: Json) -> Any:
        if stored[0] == "size":
            return self.size(stored[1])
        if stored[0] == "items":
            return tuple(self.attr(v) for v in stored[1])
        return self.value(stored)

    def value(self, stored: Json) -> Any:
        """A plain value from its fingerprint."""
        match stored:
            case ["value", kind, value]:
                return {"bool": bool, "int": int, "float": float}.get(kind, lambda v: v)(value)
            case ["dtype", name]:
                return dtypes.by_name(name)
            case ["device", name]:
                return device(name)
            case ["tuple", items]:
                return tuple(self.value(i) for i in items)
        raise NotStorable(f"the value {stored!r}")

    def source(self, stored: Json) -> sig.Source:
        match stored:
            case ["arg", name]:
                return sig.Arg(name)
            case ["global", function, name]:
                return sig.Global(self.function(function), name)
            case ["cell", function, index]:
                return sig.Cell(self.function(function), index)
            case ["attr", base, name]:
                return sig.Attr(self.source(base), name)
            case ["item", base, key]:
                return sig.Item(self.source(base), key)
            case ["at", base, key]:
                return sig.At(self.source(base), self.source(key))
            case ["rng", part]:
                return sig.RngState(part)
            case ["machine", fact]:
                return sig.Machine(fact)
            case ["column", base, path]:
                return sig.Column(self.source(base), tuple(path))
            case ["length", base]:
                return sig.Length(self.source(base))
            case ["extent", base, axis]:
                return sig.Extent(self.source(base), axis)
            case ["constant", value, number]:
                return sig.Constant(self.value(value), number)
        raise NotStorable(f"the source {stored!r}")

    def function(self, stored: Json) -> Any:
        if stored[0] == "root":
            return self.root
        if stored[0] == "import":
            return import_by_name(stored[1], stored[2])
        from jitgrad.script.call.sources import Unreadable, resolve

        try:
            found = resolve(self.source(stored[1]), self.values)
        except Unreadable as missing:
            raise NotStorable(str(missing)) from missing
        if not isinstance(found, types.FunctionType):
            raise NotStorable("another object is where a function was")
        return found

    def guard(self, stored: Json) -> sig.Guard | None:
        """The guard for this process, or None where its object is not what it was."""
        from jitgrad.script.call.sources import Unreadable, resolve

        path, kind, value = stored
        source = self.source(path)
        if isinstance(source, sig.Machine) and FACTS[source.fact]() != self.value(value):
            return None
        if kind == "tensor":
            name, ndim, ones, requires_grad, where = value
            return sig.Guard(source, kind, sig.TensorKey(dtypes.by_name(name), ndim, tuple(ones), requires_grad,
                                                         device(where)))
        if kind in ("len", "absent", "contiguous", "unhooked", "inherited"):
            return sig.Guard(source, kind, value)
        if kind in ("same", "other"):
            return sig.Guard(source, kind, self.source(value))
        if kind == "items":
            return sig.Guard(source, kind, list_kinds.from_plain(value))
        if kind in ("is", "type"):
            try:
                found = resolve(source, self.values)
            except Unreadable:
                return None
            found = type(found) if kind == "type" else found
            return sig.Guard(source, kind, found) if fingerprint(found) == value else None
        return sig.Guard(source, kind, self.value(value))

    def result(self, stored: Json) -> sig.Result:
        match stored:
            case ["output", index]:
                return sig.Output(index)
            case ["same", index]:
                return sig.Same(index)
            case ["static", value]:
                return sig.Static(self.value(value))
            case ["leaf", index, grad]:
                return sig.Leaf(index, self.result(grad))
            case ["given", source]:
                return sig.Given(self.source(source))
            case ["view", index, steps, sizes, made]:
                return sig.ViewOf(index, self._path(steps), {self.symbols[s]: i for s, i in sizes}, made)
            case ["referred", index, origin, references, steps, sizes]:
                known = tuple(sig.Reference(root, of, self._path(taken), tuple(self.symbols[s] for s in symbols))
                              for root, of, taken, symbols in references)
                return sig.Referred(index, tuple(origin), known, self._path(steps),
                                    {self.symbols[s]: i for s, i in sizes})
            case ["text", parts]:
                return sig.Text(tuple(p if isinstance(p, str) else (
                    self.result(p[0]), tuple(p[1]) if isinstance(p[1], list) else p[1], p[2]) for p in parts))
            case ["select", condition, if_true, if_false]:
                return sig.Select(condition, self.result(if_true), self.result(if_false))
            case ["repeated", leaves, item, identity]:
                return sig.Repeated(tuple(leaves), self.result(item), identity)
            case ["container", named, keys, items, identity]:
                made = None if keys is None else tuple(self.value(k) for k in keys)
                return sig.Container(import_by_name(*named), made, tuple(self.result(i) for i in items), identity)
        raise NotStorable(f"the result {stored!r}")

    def _path(self, stored: Json) -> tuple[tuple[str, dict[str, Any]], ...]:
        return tuple((op, {k: self.attr(v) for k, v in attrs.items()}) for op, attrs in stored)

    def stores(self, stored: Json) -> list[tuple[sig.Place, sig.Result]]:
        return [(self.source(s), self.result(r)) for s, r in stored]


# --- the whole -----------------------------------------------------------------------------------------------------


def _sharing(values: dict[str, Any], guards: Sequence[sig.Guard | None]) -> list[int]:
    """Which of the objects that are known by identity are the same: for each the number of the first that it is.

    A module found on two paths is compiled as one; another instance must have it in the same places. Likewise their
    classes: what the methods of a class read is checked once.
    """
    from jitgrad.script.call.sources import argument_guards

    given = [g for name, value in values.items() for g in argument_guards(sig.Arg(name), value)]
    known = [g.value for g in (*given, *guards) if g is not None and g.kind == "is"]
    objects = [id(v) for v in known] + [id(type(v)) for v in known]
    first: dict[int, int] = {}
    return [first.setdefault(o, i) for i, o in enumerate(objects)]


def dump(root: Any, script: sig.ScriptGraph, values: dict[str, Any]) -> bytes:
    """`script`, compiled for parameters `values`, without its graph's nodes. Raises NotStorable."""
    writer = Writer(root, script.guards)
    data = {
        "inputs": [writer.source(s) for s in script.inputs],
        "input_types": [writer.type(t) for t in script.input_types],
        "guards": [writer.guard(g) for g in script.guards],
        "sharing": _sharing(values, script.guards),
        "size_guards": [[writer.size(a), writer.size(b)] for a, b in script.size_guards],
        "trip_guards": [[writer.size(a), writer.size(b)] for a, b in script.trip_guards],
        "int_symbols": [[writer.symbol(s), i] for s, i in script.int_symbols.items()],
        "result": writer.result(script.result),
        "commits": [[i, writer.source(s)] for i, s in script.commits.items()],
        "written": list(script.written.items()),
        "freed": list(script.freed),
        "recorded": list(script.recorded.items()),
        "results": script.results,
        "alone": list(script.alone),
        "functions": [[*writer.function(f), code_hash(f)] for f in script.functions],
        "stores": writer.stores(script.stores),
        "recipes": [writer.stores(r) for r in script.recipes],
        "lists": [[writer.source(s), list_kinds.to_plain(k)] for s, k in script.lists.items()],
        "log": script.log,
        "gradient_state": script.gradient_state,
        "device": str(script.device),
        "on_host": list(script.on_host),
        "expected": [[i, error.__name__, head, tail] for i, error, head, tail in script.expected],
    }
    data["not_one"] = [s.not_one for s in writer.symbols]
    return json.dumps(data).encode()


def load(root: Any, values: dict[str, Any], data: bytes) -> sig.ScriptGraph | None:
    """The inverse of `dump` for a call with parameters `values`; None where something that was read has changed.

    The ScriptGraph's graph is empty: the `GraphFunction` beside it has the real one.
    """
    from jitgrad.script.graph.ir import Block, Graph

    stored = json.loads(data)
    reader = Reader(root, values, stored["not_one"])
    try:
        for named in stored["functions"]:
            function = reader.function(named[:-1])
            if code_hash(getattr(function, "eager", function)) != named[-1]:
                return None
        guards = [reader.guard(g) for g in stored["guards"]]
        if any(g is None for g in guards) or _sharing(values, guards) != stored["sharing"]:
            return None
        return sig.ScriptGraph(
            graph=Graph(Block()),
            inputs=[reader.source(s) for s in stored["inputs"]],
            input_types=[reader.type(t) for t in stored["input_types"]],
            guards=[g for g in guards if g is not None],
            size_guards=[(reader.size(a), reader.size(b)) for a, b in stored["size_guards"]],
            trip_guards=[(reader.size(a), reader.size(b)) for a, b in stored["trip_guards"]],
            int_symbols={reader.symbols[s]: i for s, i in stored["int_symbols"]},
            result=reader.result(stored["result"]),
            commits={i: reader.source(s) for i, s in stored["commits"]},
            written=dict(stored["written"]), freed=tuple(stored["freed"]),
            recorded=dict(stored["recorded"]), results=stored["results"], alone=tuple(stored["alone"]),
            stores=reader.stores(stored["stores"]), recipes=[tuple(reader.stores(r)) for r in stored["recipes"]],
            lists={reader.source(s): list_kinds.from_plain(k) for s, k in stored["lists"]},
            log=stored["log"],
            gradient_state=stored["gradient_state"], device=device(stored["device"]),
            on_host=tuple(stored["on_host"]),
            expected=[(i, getattr(builtins, name), head, tail) for i, name, head, tail in stored["expected"]])
    except NotStorable:
        return None
