"""A ScriptGraph as plain data: all but its graph, of which the stores keep the text. `decoder.py` is the inverse.

What the disk cache and files name differently is theirs to say: how a value is found again (`source`, `target`), what a
class is called, and what is assumed of objects (`guard`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.dims import Call, Dim, Size, Symbol
from jitgrad.ops.types import ListType, OptionalType, SeqType, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.stored.values import Json, NotSavable, fault_name, is_plain, to_plain

#: types that hold another one, by their words
HOLDERS: dict[str, type[Any]] = {"optional": OptionalType, "list": ListType, "seq": SeqType}

Steps = Sequence[tuple[str, Mapping[str, Any]]]


class Encoder(ABC):
    """The parts of a ScriptGraph as JSON. Raises NotSavable for what has no form."""

    def __init__(self) -> None:
        self.symbols: dict[Symbol, int] = {}

    @abstractmethod
    def source(self, source: sig.Source) -> Json:
        """A path."""

    @abstractmethod
    def class_name(self, cls: Any) -> Json:
        """What a class is called."""

    @abstractmethod
    def guard(self, guard: sig.Guard) -> Json:
        """An assumption."""

    def target(self, source: sig.Source) -> Json:
        """A path to which the script assigns."""
        return self.source(source)

    def script(self, script: sig.ScriptGraph) -> dict[str, Json]:
        """All but the graph."""
        return {
            "inputs": [self.source(s) for s in script.inputs],
            "input_types": [self.type(t) for t in script.input_types],
            "guards": [self.guard(g) for g in script.guards],
            "size_guards": [[self.size(a), self.size(b)] for a, b in script.size_guards],
            "trip_guards": [[self.size(a), self.size(b)] for a, b in script.trip_guards],
            "int_symbols": self._symbol_pairs(script.int_symbols),
            "result": self.result(script.result),
            "commits": [[i, self.target(s)] for i, s in script.commits.items()],
            "written": [list(pair) for pair in script.written.items()],
            "freed": list(script.freed),
            "results": script.results,
            "whose": list(script.whose),
            "overwritten": [[i, flag, [list(p) if isinstance(p, tuple) else p for p in pieces]]
                            for i, flag, pieces in script.overwritten],
            "recorded": [list(pair) for pair in script.recorded.items()],
            "alone": list(script.alone),
            "stores": self._stores(script.stores),
            "recipes": [self._stores(r) for r in script.recipes],
            "unread": [self.source(s) for s in script.unread],
            "log": list(script.log),
            "distinct": script.distinct,
            "gradient_state": script.gradient_state,
            "device_state": script.device_state,
            "device": str(script.device),
            "on_host": list(script.on_host),
            "expected": [[i, fault_name(error), head, tail] for i, error, head, tail in script.expected],
        }

    def _stores(self, stores: Sequence[tuple[sig.Place, sig.Result]]) -> Json:
        return [[self._place(s), self.result(r)] for s, r in stores]

    def _place(self, place: sig.Place) -> Json:
        if isinstance(place, (sig.Content, sig.Tail)):
            return {"tail" if isinstance(place, sig.Tail) else "content": self.source(place.base)}
        return self.target(place)

    def assumed(self, guard: sig.Guard) -> Json:
        """What a guard says of values, tensors and memory; None for kinds that say all by their name."""
        value = guard.value
        match guard.kind:
            case "tensor":
                where = [] if value.device.type == "cpu" else [str(value.device)]
                return [value.dtype.name, value.ndim, list(value.ones), value.requires_grad, *where]
            case "same" | "other" | "alike":
                return self.source(value)
            case "equal" | "optional" | "order":
                return to_plain(value)
            case "len" | "contiguous":
                return value
        return None

    # --- sizes, types, results ---------------------------------------------------------------------------------------

    def symbol(self, symbol: Symbol) -> int:
        return self.symbols.setdefault(symbol, len(self.symbols))

    def size(self, size: Size) -> Json:
        if isinstance(size, int):
            return size
        return [[coefficient, [self._atom(a) for a in monomial]] for monomial, coefficient in size.terms]

    def _atom(self, atom: Symbol | Call) -> Json:
        return self.symbol(atom) if isinstance(atom, Symbol) else [atom.fn, [self.size(a) for a in atom.args]]

    def type(self, type_: Type) -> Json:
        if isinstance(type_, TensorType):
            return ["tensor", type_.dtype.name, [self.size(d) for d in type_.dims]]
        word = next((word for word, holder in HOLDERS.items() if isinstance(type_, holder)), None)
        return [str(type_)] if word is None else [word, self.type(type_.elem)]  # type: ignore[union-attr]

    def _attr(self, value: Any) -> Json:
        """An attribute of a view."""
        if isinstance(value, Dim):
            return {"size": self.size(value)}
        if isinstance(value, tuple):
            return {"items": [self._attr(v) for v in value]}
        return {"plain": to_plain(value)}

    def result(self, result: sig.Result) -> Json:
        match result:
            case sig.Output(index):
                return ["output", index]
            case sig.Same(index):
                return ["same", index]
            case sig.Static(value):
                if not is_plain(value):
                    raise NotSavable(f"its result, an object of class `{type(value).__qualname__}`: return tensors, "
                                     "numbers, strings, and tuples, lists and dicts of them")
                return ["static", to_plain(value)]
            case sig.Complex(parts):
                return ["complex", self.result(parts)]
            case sig.Leaf(index, grad):
                return ["leaf", index, self.result(grad)]
            case sig.Given(source):
                return ["given", self.source(source)]
            case sig.ViewOf(index, path, sizes, made, identity):
                return ["view", index, self._steps(path), self._symbol_pairs(sizes), made, identity]
            case sig.Referred(index, origin, references, path, sizes):
                known = [[r.root, r.of, self._steps(r.path), [self.symbol(s) for s in r.symbols], r.leaf]
                         for r in references]
                return ["referred", index, list(origin), known, self._steps(path), self._symbol_pairs(sizes)]
            case sig.Text(parts):
                return ["text", [p if isinstance(p, str) else [self.result(p[0]), *p[1:]] for p in parts]]
            case sig.Repeated(leaves, item, identity):
                return ["repeated", list(leaves), self.result(item), identity]
            case sig.Made(type_, held, identity):
                return ["made", self.class_name(type_), [self.result(r) for r in held], identity]
            case sig.Container(type_, keys, held, identity):
                stored_keys = None if keys is None else [to_plain(k) for k in keys]
                return ["container", self.class_name(type_), stored_keys, [self.result(r) for r in held], identity]
            case sig.Object(type_, names, held, identity):
                return ["object", self.class_name(type_), list(names), [self.result(r) for r in held], identity]
        return self._of_the_run(result)

    def _of_the_run(self, result: sig.Result) -> Json:
        """A result of which it is known only at run time what it is."""
        match result:
            case sig.OneOf(tag, choices):
                return ["one of", tag, [self.result(r) for r in choices]]
            case sig.Pairs(keys, values, identity):
                return ["pairs", self.result(keys), self.result(values), identity]
            case sig.Nothing():
                return ["nothing"]
            case sig.Pools() | sig.Entry():
                raise NotSavable("its result: lists, dicts or objects that it changes in lists of run-time length")
        raise AssertionError(result)

    def _steps(self, path: Steps) -> Json:
        return [[op, {k: self._attr(v) for k, v in attrs.items()}] for op, attrs in path]

    def _symbol_pairs(self, numbers: Mapping[Any, int]) -> Json:
        return [[self.symbol(s), i] for s, i in numbers.items()]
