"""What `encoder.py` made of a ScriptGraph, read back without belief.

Numbers, names and types are checked, indices too where the graph is known. All that is wrong raises LoadError.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from jitgrad.device import CPU
from jitgrad.dims import FUNCTIONS, Call, Dim, Size, Symbol, dim
from jitgrad.dtypes import int64
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, TEXT, ListType, TensorType, Type
from jitgrad.script.call import signature as sig
from jitgrad.script.graph.ir import Block, Graph, walk
from jitgrad.script.stored.encoder import HOLDERS
from jitgrad.script.stored.values import (CLASSES, Json, boolean, device_of, dtype_of, fault, from_plain, identifier,
                                          integer, items, need, string)

LONGEST = 1 << 20  # no list of sizes, path or line number is longer
_NUMBERS: dict[str, Type] = {t.name: t for t in (INT, FLOAT, BOOL, NUMBER, TEXT)}


class Decoder(ABC):
    """The inverse of `Encoder`.

    Attributes:
        symbols: by number; more are made as they are met.
        graph: what inputs and outputs are counted in; None: who stored it counted.
        holders: the words of types that hold another one.
    """

    holders = HOLDERS

    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self.graph: Graph | None = None

    @abstractmethod
    def source(self, stored: Json, target: bool = False) -> sig.Source:
        """A path; `target`: to which the script assigns."""

    @abstractmethod
    def class_of(self, stored: Json) -> Any:
        """A class by what it is called."""

    @abstractmethod
    def guard(self, stored: Json) -> sig.Guard:
        """An assumption."""

    @abstractmethod
    def view(self, op: Json) -> str:
        """The op of one step of a view."""

    def script(self, stored: Json) -> sig.ScriptGraph:
        """All but the graph, which is `self.graph` or empty."""
        n_inputs = None if self.graph is None else len(self.graph.inputs)
        return sig.ScriptGraph(
            graph=self.graph or Graph(Block()),
            inputs=[self.source(s) for s in items(stored["inputs"], n_inputs)],
            input_types=[self.type(t) for t in items(stored["input_types"], len(stored["inputs"]))],
            guards=[self.guard(g) for g in items(stored["guards"])],
            size_guards=[self._pair(p) for p in items(stored["size_guards"])],
            trip_guards=[self._pair(p) for p in items(stored["trip_guards"])],
            int_symbols={self.symbol(s): self._int_input(i) for s, i in _pairs(stored["int_symbols"])},
            result=self.result(stored["result"]),
            commits={self._input(i): self.source(s, target=True) for i, s in _pairs(stored["commits"])},
            written={self._input(i): self._output(o) for i, o in _pairs(stored["written"])},
            freed=self._outputs(stored["freed"]),
            overwritten=tuple(map(self._overwritten, items(stored.get("overwritten", [])))),
            recorded={self._output(i): self._output(flag) for i, flag in _pairs(stored.get("recorded", []))},
            results=integer(stored.get("results", self._count()), 0, self._count() + 1),
            whose=self._outputs(stored.get("whose", [])), alone=self._outputs(stored.get("alone", [])),
            stores=self._stores(stored["stores"]), recipes=self._recipes(stored.get("recipes", [])),
            unread=[self.source(s) for s in items(stored.get("unread", []))],
            log=[string(line) for line in items(stored["log"])], gradient_state=boolean(stored["gradient_state"]),
            distinct=boolean(stored.get("distinct", False)), device_state=boolean(stored.get("device_state", False)),
            device=device_of(stored["device"]) if "device" in stored else CPU,
            on_host=self._outputs(stored.get("on_host", [])),
            expected=[self._expected(e) for e in items(stored.get("expected", []))])

    def _stores(self, stored: Json) -> list[tuple[sig.Place, sig.Result]]:
        return [(self._place(s), self.result(r)) for s, r in _pairs(stored)]

    def _place(self, stored: Json) -> sig.Place:
        if type(stored) is not dict:
            return self.source(stored, target=True)
        need(len(stored) == 1 and stored.keys() <= {"content", "tail"}, "where something is stored")
        (kind, base), = stored.items()
        return (sig.Tail if kind == "tail" else sig.Content)(self.source(base))

    def _recipes(self, stored: Json) -> list[tuple[tuple[sig.Place, sig.Result], ...]]:
        """What `pending` nodes store, each checked against all nodes that say so; nothing where there is none."""
        if self.graph is None:
            return [tuple(self._stores(r)) for r in items(stored)]
        found: list[tuple[tuple[sig.Place, sig.Result], ...]] = [() for _ in items(stored)]
        whole = self.graph
        for node in walk(whole.block):
            if node.op == "pending":
                number = integer(node.attrs["recipe"], 0, len(found))
                self.graph = Graph(Block(whole.block.params, [], node.inputs), whole.name)  # of whose inputs it is made
                found[number] = tuple(self._stores(stored[number]))
        self.graph = whole
        return found

    def _expected(self, stored: Json) -> tuple[int, type[Exception], str, str]:
        """An output that says which index was out of range, and the words for it."""
        output, error, head, tail = items(stored, 4)
        type_ = self._output_type(self._output(output))
        need(type_ is None or type_ == TensorType(int64, ()), "an index that was out of range")
        return output, fault(error), string(head), string(tail)

    def _overwritten(self, stored: Json) -> tuple[int, int, tuple[Any, ...]]:
        """An output whose gradient is an error, in which runs, and the pieces of its message."""
        output, flag, pieces = items(stored, 3)
        found: list[Any] = []
        for p in items(pieces):
            if type(p) is str:
                found.append(p)
            elif type(p) is int:
                found.append(self._output(p))
            else:
                at, writes = items(p, 2)
                found.append((self._input(at), integer(writes, -self._count())))
        return self._output(output), -1 if flag == -1 else self._output(flag), tuple(found)

    def assumed(self, kind: str, value: Json) -> Any:
        """The inverse of `Encoder.assumed`."""
        match kind:
            case "tensor":
                name, ndim, ones, requires_grad, *where = items(value)
                found = tuple(boolean(o) for o in items(ones, integer(ndim, 0, 65)))
                return sig.TensorKey(dtype_of(name), ndim, found, boolean(requires_grad),
                                     device_of(items(where, 1)[0]) if where else CPU)
            case "same" | "other" | "alike":
                return self.source(value)
            case "equal" | "order":
                return from_plain(value)
            case "optional":
                return dtype_of(from_plain(value).name)
            case "len" | "contiguous":
                return integer(value) if kind == "len" else boolean(value)
        need(kind in ("unhooked", "absent"), "a guard of an unknown kind")
        return None

    # --- inputs and outputs of the graph -----------------------------------------------------------------------------

    def _count(self) -> int:
        return LONGEST if self.graph is None else len(self.graph.outputs)

    def _output(self, i: Json) -> int:
        return integer(i, 0, self._count())

    def _outputs(self, stored: Json) -> tuple[int, ...]:
        return tuple(self._output(i) for i in items(stored))

    def _output_type(self, i: int) -> Type | None:
        return None if self.graph is None else self.graph.outputs[i].type

    def _input(self, i: Json) -> int:
        return integer(i, 0, LONGEST if self.graph is None else len(self.graph.inputs))

    def _int_input(self, i: Json) -> int:
        index = self._input(i)
        need(self.graph is None or self.graph.inputs[index].type == INT, "a size that is no int")
        return index

    # --- sizes, types, results ---------------------------------------------------------------------------------------

    def symbol(self, number: Json) -> Symbol:
        wanted = integer(number, 0, LONGEST)
        while len(self.symbols) <= wanted:
            self.symbols.append(Symbol())
        return self.symbols[wanted]

    def size(self, stored: Json) -> Size:
        if type(stored) is int:
            return stored
        total: Size = 0
        for term in items(stored):
            coefficient, atoms = items(term, 2)
            product: Size = integer(coefficient, -(1 << 62))
            for a in items(atoms):
                factor: Size = dim(self.symbol(a)) if type(a) is int else self._call(a)
                product = factor * product if isinstance(product, int) else product * factor
            total = product + total if isinstance(total, int) else total + product
        return total

    def _call(self, stored: Json) -> Size:
        fn, args = items(stored, 2)
        need(fn in FUNCTIONS and bool(items(args)), "a function of sizes")
        return Dim((((Call(fn, tuple(self.size(a) for a in args)),), 1),))

    def _pair(self, stored: Json) -> tuple[Size, Size]:
        a, b = items(stored, 2)
        return self.size(a), self.size(b)

    def type(self, stored: Json) -> Type:
        match items(stored):
            case ["tensor", name, sizes]:
                return TensorType(dtype_of(name), tuple(self.size(d) for d in items(sizes)))
            case [str(word), elem]:
                need(word in self.holders, "a type")
                made: Type = self.holders[word](self.type(elem))
                return made
            case [str(word)]:
                need(word in _NUMBERS, "a type")
                return _NUMBERS[word]
        need(False, "a type")
        raise AssertionError(stored)

    def _attr(self, stored: Json) -> Any:
        need(type(stored) is dict and len(stored) == 1, "an attribute of a view")
        (kind, value), = stored.items()
        if kind == "size":
            return self.size(value)
        if kind == "items":
            return tuple(self._attr(v) for v in items(value))
        return from_plain(value)

    def result(self, stored: Json, n_items: int | None = None) -> sig.Result:
        """A result over the graph's outputs; an item of a list is one over `n_items` of its own."""
        n = self._count() if n_items is None else n_items
        match items(stored):
            case ["output", index]:
                return sig.Output(integer(index, 0, n))
            case ["same", index]:
                return sig.Same(self._input(index))
            case ["static", value]:
                return sig.Static(from_plain(value))
            case ["complex", parts]:
                return sig.Complex(self.result(parts, n_items))
            case ["leaf", index, grad]:
                type_ = self._output_type(self._output(index))
                need(n_items is None and (type_ is None or (isinstance(type_, TensorType)
                                          and type_.dtype.is_floating_point)), "a leaf")
                return sig.Leaf(index, self.result(grad))
            case ["given", source]:
                need(n_items is None, "an item of a list that is found by a path")
                return sig.Given(self.source(source))
            case ["view", index, steps, sizes, bool(made), identity]:
                place = integer(index, 0, n) if made else self._input(index)
                if self.graph is not None:
                    of = (self.graph.outputs if made else self.graph.inputs)[place]
                    need(isinstance(of.type, TensorType), "a view of a number")
                return sig.ViewOf(place, self._steps(steps), self._sizes(sizes, n), made, integer(identity, -1))
            case ["referred", index, origin, references, steps, sizes]:
                ints = tuple(integer(k, 0, n) for k in items(origin))
                need(bool(ints), "what an item is")
                known = tuple(self._reference(r) for r in items(references))
                return sig.Referred(integer(index, 0, n), ints, known, self._steps(steps), self._sizes(sizes, n))
            case ["text", parts]:
                return sig.Text(tuple(p if isinstance(p, str) else self._shown(p, n_items) for p in items(parts)))
            case ["repeated", leaves, item, identity]:
                places = tuple(integer(k, 0, n) for k in items(leaves))
                need(bool(places) and (self.graph is None or all(
                    isinstance(self.graph.outputs[k].type, ListType) for k in places)), "a list")
                return sig.Repeated(places, self.result(item, len(places)), integer(identity, 0))
            case ["made", cls, parts, identity]:
                made = self.class_of(cls)
                need(issubclass(made, (Sequence, dict)), "a container")
                return sig.Made(made, tuple(self.result(p, n_items) for p in items(parts)),
                                integer(identity, -1))
            case ["container", cls, keys, parts, identity]:
                found = tuple(self.result(p, n_items) for p in items(parts))
                made_keys = None if keys is None else tuple(from_plain(k) for k in items(keys, len(found)))
                type_ = self.class_of(cls)
                need((made_keys is not None) == issubclass(type_, dict) and issubclass(type_, (tuple, list, dict)),
                     "a container")
                need(len(found) == len(getattr(type_, "_fields", found)), "the fields of a named tuple")
                return sig.Container(type_, made_keys, found, integer(identity, -1))
            case ["object", cls, names, parts, identity]:
                made = self.class_of(cls)
                need(not issubclass(made, tuple(CLASSES.values())), "an object")
                found = tuple(self.result(p, n_items) for p in items(parts))
                return sig.Object(made, tuple(identifier(k) for k in items(names, len(found))), found,
                                  integer(identity, -1))
        return self._of_the_run(stored, n_items)

    def _of_the_run(self, stored: Json, n_items: int | None) -> sig.Result:
        n = self._count() if n_items is None else n_items
        match items(stored):
            case ["one of", tag, choices]:
                need(n_items is not None or self._output_type(integer(tag, 0, n)) in (None, INT), "which one it is")
                return sig.OneOf(integer(tag, 0, n), tuple(self.result(r, n_items) for r in choices))
            case ["pairs", keys, values, identity]:
                return sig.Pairs(self.result(keys, n_items), self.result(values, n_items), integer(identity, -1))
            case ["nothing"]:
                return sig.Nothing()
        need(False, "a result of an unknown kind")
        raise AssertionError(stored)

    def _steps(self, stored: Json) -> tuple[tuple[str, dict[str, Any]], ...]:
        return tuple((self.view(op), {identifier(k): self._attr(v) for k, v in attrs.items()})
                     for op, attrs in _pairs(stored))

    def _sizes(self, stored: Json, n: int) -> dict[Symbol, int]:
        """Where the sizes of a view are found, among n outputs."""
        return {self.symbol(s): integer(i, 0, n) for s, i in _pairs(stored)}

    def _reference(self, stored: Json) -> sig.Reference:
        """A tensor of the caller: an input, an item of one that is a list, or a view of what other ints say."""
        root, of, steps, symbols, *leaf = items(stored)
        need(leaf in ([], [False], [True]), "whether it is a leaf")
        if root != -1 and self.graph is not None:
            type_ = self.graph.inputs[self._input(root)].type
            listed = isinstance(type_, ListType)
            need(integer(of, 0, 2) == listed and isinstance(type_.elem if isinstance(type_, ListType) else type_,
                                                            TensorType), "a tensor among the inputs")
        return sig.Reference(integer(root, -1), integer(of, 0, LONGEST), self._steps(steps),
                             tuple(self.symbol(s) for s in items(symbols)), leaf == [True])

    def _shown(self, stored: Json, n_items: int | None) -> Any:
        """A part of a string: a result, its conversion (or the texts that it chooses from), its format."""
        value, conversion, spec = items(stored, 3)
        chosen = tuple(string(text) for text in conversion) if type(conversion) is list else conversion
        need(type(chosen) is tuple or chosen in ("", "s", "r", "a"), "a conversion")
        return self.result(value, n_items), chosen, string(spec)


def _pairs(stored: Json) -> list[list[Json]]:
    return [items(pair, 2) for pair in items(stored)]
