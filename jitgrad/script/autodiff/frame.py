"""Frames: for each block of the forward graph under reversal, the backward block that mirrors it.

Backward code reads forward values through `Frame.fetch`, which hands out a placeholder. Only when a backward block is
complete, and dead code is gone from it, is it decided how each placeholder that is still read comes about: recomputed
where that is cheap and needs nothing more to be saved, or else saved by the forward. The placeholder then *is* the
output of the recomputed node, or the parameter through which the saved value arrives, so nothing is substituted.

Symbols that the forward block binds are different ones in the mirror; those that are needed there are bound by a
saved tensor in whose type they stand alone, by repeating a `dim.bind`, or by saving the size as an int.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jitgrad.dims import Dim, Size, Symbol, dim, symbols
from jitgrad.ops.numbers import is_exact
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import BOOL, INT, OptionalType, SeqType, TensorType, Type
from jitgrad.script.autodiff.amend import NUMBERS, Amendments, Sizes, abstract
from jitgrad.script.autodiff.flow import Flow
from jitgrad.script.graph.ir import Block, Builder, Captures, Node, Value, payload, sizes_of
from jitgrad.script.graph.namespace import GraphNamespace

#: ops on sizes and structure that are recomputed rather than saved, as cheap rows are
_CHEAP = frozenset({"dim.value", "dim.bind", "opt.has", "seq.len"})
DEPTH = 8  # how long a chain of cheap ops may be


class Context:
    """What all frames of one differentiation share."""

    def __init__(self, flow: Flow, frozen: bool, thorough: bool):
        self.flow, self.amend = flow, Amendments(flow, frozen)
        self.builder = Builder()
        self.F = GraphNamespace(self.builder)
        self.thorough = thorough  # have every size, condition and count that a backward for fewer cotangents might need
        self.conditions: set[Value] = set()
        self.captures = Captures()
        self._free: dict[Node, dict[Symbol, None]] = {}
        self._dim_symbols: dict[Dim, tuple[Symbol, ...]] = {}

    def save(self, block: Block, v: Value) -> tuple[Value, tuple[Symbol, ...]]:
        """`Amendments.save`; what holds a condition of all iterations, or of one side, is a condition too."""
        out, binds = self.amend.save(block, v)
        if v in self.conditions:
            self.conditions.add(out)
        return out, binds

    def symbols_of(self, parts: Iterable[Any]) -> Iterable[Symbol]:
        """The symbols in sizes, among other things and in tuples of these."""
        for size in parts:
            if isinstance(size, tuple):
                yield from self.symbols_of(size)
            elif isinstance(size, Dim):
                found = self._dim_symbols.get(size)
                if found is None:
                    found = self._dim_symbols[size] = tuple(sorted(symbols(size), key=lambda s: s.number))
                yield from found

    def type_symbols(self, type_: Type) -> Iterable[Symbol]:
        """The symbols of a type that must be in scope: not those in a sequence's element, which may be its own."""
        type_ = payload(type_)
        if isinstance(type_, SeqType):
            return ()
        return self.symbols_of(type_.dims if isinstance(type_, TensorType) else sizes_of(type_))

    def node_symbols(self, node: Node) -> Iterable[Symbol]:
        """The symbols that a node mentions, its blocks included."""
        for v in node.outputs:
            yield from self.type_symbols(v.type)
        yield from self.symbols_of(node.attrs.values())
        if node.blocks:
            yield from self.free_symbols(node)

    def free_symbols(self, node: Node) -> dict[Symbol, None]:
        """The symbols from outside that the blocks of a node read."""
        free = self._free.get(node)
        if free is None:
            free = self._free[node] = {}
            for b in node.blocks:
                bound = {*b.binds, *(s for n in b.nodes for s in n.binds)}
                used = dict.fromkeys(s for p in b.params for s in self.type_symbols(p.type))
                for n in b.nodes:
                    used.update(dict.fromkeys(self.node_symbols(n)))
                free.update((s, None) for s in used if s not in bound)
        return free


class Frame(Sizes):
    """A transparent frame: the backward is written into the forward's own block, where its values can be read."""

    def __init__(self, context: Context, block: Block, parent: Frame | None):
        self.context, self.block, self.parent = context, block, parent
        self.out = Block()
        self.sizes: dict[Symbol, Size] = dict(parent.sizes) if parent is not None else {}

    # --- the forward as seen from here ---

    def attrs(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """A forward node's attrs here. Checked arithmetic has been checked."""
        return {key: a for key, a in super().attrs(attrs).items() if key != "checked"}

    def adopt(self, symbol: Symbol) -> None:
        """Take note of a symbol that the forward block has come to bind."""

    def fetch(self, v: Value) -> Value:
        """The value here that equals forward value `v` of this block or one around it."""
        frame, home = self, self.context.flow.home[v]
        while frame.block is not home:
            assert frame.parent is not None, f"{v} is not in scope"
            frame = frame.parent
        return frame.image(v)

    def image(self, v: Value) -> Value:
        return v

    def ready(self, v: Value) -> bool:
        """Whether `v` can be had here without anything new being saved."""
        return True

    # --- completion ---

    def finish(self, results: Sequence[Value]) -> None:
        """Make the backward block complete; `results` are its results."""
        self.out.results = tuple(results)
        self.out.nodes, _ = self.live()

    def live(self) -> tuple[list[Node], set[Value]]:
        """The nodes of the backward block that its results need, in order, and every value that these read."""
        needed, kept = set(self.out.results), []
        for node in reversed(self.out.nodes):
            if node.binds or not needed.isdisjoint(node.outputs):
                kept.append(node)
                needed.update(node.inputs)
                if node.blocks:
                    needed |= self.context.captures[node]
        kept.reverse()
        return kept, needed


class Mirror(Frame):
    """A frame with a backward block of its own, into which saved values have to be brought."""

    def __init__(self, context: Context, block: Block, parent: Frame | None):
        super().__init__(context, block, parent)
        self.images: dict[Value, Value] = {}
        self.local: dict[Symbol, Symbol] = {}  # symbols of the mirror -> of the forward block
        self.saved: dict[Value, Value] = {}
        self.given: set[Value] = set()  # forward values that the mirror has anyway, such as a loop's counter
        self.again: dict[Node, None] = {}  # forward nodes to repeat
        self.bound: set[Symbol] = set()
        self.elsewhere: set[Symbol] = set()  # symbols that no saved value binds on arrival
        self.needed: set[Value] = set()
        self.late: list[tuple[Value, Value]] = []  # a value as it arrived, and the placeholder with its sizes restated
        self.extra_symbols: dict[Symbol, None] = {}
        for symbol in context.flow.bound[block]:
            self.adopt(symbol)

    def adopt(self, symbol: Symbol) -> None:
        new = Symbol(symbol.name, not_one=symbol.not_one)
        self.sizes[symbol], self.local[new] = dim(new), symbol

    def image(self, v: Value) -> Value:
        found = self.images.get(v)
        if found is None:
            type_ = self.type(v.type)
            if isinstance(type_, (OptionalType, SeqType)):
                bare = not isinstance(type_, SeqType) and not isinstance(type_.elem, SeqType)
                if any(not self.can_bring(s, bare) for s in sizes_of(type_)):
                    # It cannot be reshaped, so it must bring its own sizes.
                    type_, fresh = abstract(type_, self.local)
                    if bare:
                        self.local.update((s, s) for s in fresh)
                        self.context.flow.maybe.update(fresh)
            found = self.images[v] = Value(type_, v.name)
        return found

    def can_bring(self, size: Size, optional: bool) -> bool:
        """Whether a saved Optional or Seq can have this size in its type. What may be absent binds no symbol that has
        a value in any case.
        """
        if not isinstance(size, Dim):
            return True
        if size.symbol is None:
            return False
        return not optional or size.symbol not in self.local or self.local[size.symbol] in self.context.flow.maybe

    # --- saved or repeated ---

    def saved_already(self, v: Value) -> bool:
        """Whether the forward saves `v` in any case."""
        return self.context.amend.outside(self.block, v) is not None

    def may_save(self, v: Value) -> None:
        """Called before the forward is made to save `v`."""

    def ready(self, v: Value, depth: int = DEPTH) -> bool:
        flow = self.context.flow
        if flow.home[v] is not self.block or v in self.saved or v in self.given or self.saved_already(v):
            return True
        node = flow.producer.get(v)
        return (node is not None and depth > 0 and self.is_cheap(node)
                and all(self.ready(x, depth - 1) for x in node.inputs))

    def need(self, v: Value) -> None:
        """Decide how `v`, a value of the forward block, comes about."""
        node = self.context.flow.producer.get(v)
        if v in self.saved or v in self.given or node in self.again:
            return
        if node is not None and self.is_cheap(node) and not self.saved_already(v) and (
                has_trait(node.op, "lossless") or self.ready(v) or self.is_larger(node) or self.is_cheaper(node)):
            self.repeat(node)
            return
        if not self.saved_already(v):
            self.may_save(v)
        self.saved[v] = self.image(v)

    def is_larger(self, node: Node) -> bool:
        """Whether what would have to be saved to compute a node's result again is smaller than the result, as a mask
        is that chooses between two numbers (or as large, for a cast).
        """
        v = node.output
        missing = [x for x in dict.fromkeys(node.inputs) if not self.ready(x)]
        if not isinstance(v.type, TensorType) or not all(
                isinstance(x.type, TensorType) and len(x.type.dims) <= len(v.type.dims) for x in missing):
            return False
        total = sum(x.type.dtype.itemsize for x in missing if isinstance(x.type, TensorType))
        return total < v.type.dtype.itemsize or (node.op == "cast" and total == v.type.dtype.itemsize)

    def substitute(self) -> None:
        """Choose other ways to the values that are needed."""

    def is_cheaper(self, node: Node) -> bool:
        """Whether computing a node's result again moves fewer bytes than saving it."""
        return False

    def is_cheap(self, node: Node) -> bool:
        """Whether a node may be repeated."""
        return (has_trait(node.op, "cheap") or node.op in _CHEAP
                or (node.op.startswith("num.") and not is_exact(node.op, node.attrs)))

    def repeat(self, node: Node) -> None:
        """Have a node of the forward block repeated here. What a condition is made of is needed as it is."""
        self.again[node] = None
        if node.output in self.context.conditions:
            self.context.conditions.update(node.inputs)
        for x in node.inputs:
            if self.context.flow.home[x] is self.block:
                self.image(x)
                self.need(x)

    def finish(self, results: Sequence[Value]) -> None:
        self.out.results = tuple(results)
        kept, self.needed = self.live()
        self.substitute()
        flow = self.context.flow
        wanted = [v for v, image in self.images.items() if image in self.needed or v in self.context.conditions]
        for v in wanted:  # first what must be saved, then what may be made from it
            node = flow.producer.get(v)
            if node is None or not self.is_cheap(node):
                self.need(v)
        for v in sorted(wanted, key=lambda v: flow.position[flow.producer[v]] if v in flow.producer else -1):
            self.need(v)
        ints = self.bind_symbols(kept)
        for node in self.again:
            self.needed.update(self.fetch(x) for x in node.inputs)
        with self.context.builder.into(Block()) as prologue:
            self.bring_in()
            for new, saved in ints:
                self.context.builder.emit("dim.bind", (saved,), types=(INT,), binds=(new,), symbol=new)
            order = sorted(self.again, key=flow.position.__getitem__)
            for node in order:
                if node.output.type in NUMBERS:
                    self.emit_again(node)
            for raw, image in self.late:
                prologue.nodes += _restated(raw, image)
            for node in order:
                if node.output.type not in NUMBERS:
                    self.emit_again(node)
        self.out.nodes = [*prologue.nodes, *kept]

    def emit_again(self, node: Node) -> None:
        """Repeat a forward node; its output is the placeholder that was handed out for it."""
        inputs = tuple(self.fetch(x) for x in node.inputs)
        binds = tuple(self.renamed(s) for s in node.binds)
        self.context.builder.block.nodes.append(
            Node(node.op, inputs, self.attrs(node.attrs), (self.image(node.output),), (), node.span, binds))

    # --- sizes ---

    def bind_symbols(self, kept: Sequence[Node]) -> list[tuple[Symbol, Value]]:
        """Decide how each symbol that is used here is bound; pairs of a symbol and the saved int that it equals."""
        context = self.context
        used = dict(self.extra_symbols)
        for node in kept:
            used.update(dict.fromkeys(context.node_symbols(node)))
        for v in self.out.results:
            used.update(dict.fromkeys(context.type_symbols(v.type)))
        if context.thorough:
            for v in (*self.block.params, *(v for node in self.block.nodes for v in node.outputs)):
                if v in context.flow.wanted:
                    used.update(dict.fromkeys(context.type_symbols(self.type(v.type))))
        binders = {s: n for n in self.block.nodes if n.op == "dim.bind" for s in n.binds}
        ints: list[tuple[Symbol, Value]] = []
        known_nodes = known_saved = 0
        while True:
            for node in list(self.again)[known_nodes:]:
                for s in (*context.type_symbols(self.image(node.output).type),
                          *context.symbols_of(self.attrs(node.attrs).values())):
                    used[s] = None
            for image in list(self.saved.values())[known_saved:]:
                used.update(dict.fromkeys(context.type_symbols(image.type)))
            known_nodes, known_saved = len(self.again), len(self.saved)
            alone: set[Symbol] = set().union(*(self.binds_of(v, image) or () for v, image in self.saved.items()))
            pending = [s for s in used if s in self.local and s not in self.elsewhere and s not in alone]
            if not pending:
                return ints
            for new in pending:
                self.elsewhere.add(new)
                old = self.local[new]
                binder = binders.get(old)
                if binder is not None and self.ready(binder.inputs[0]):
                    if binder not in self.again:
                        self.repeat(binder)
                    continue
                number = context.amend.size(self.block, old)
                if number not in self.saved:
                    self.may_save(number)
                    self.saved[number] = self.image(number)
                ints.append((new, self.saved[number]))

    def binds_of(self, v: Value, image: Value) -> list[Symbol] | None:
        """Symbols that a saved value can bind on arrival; None if its sizes must be restated later.

        That is so where a size is an expression over symbols of the mirror, or a symbol that is bound elsewhere.
        """
        type_ = image.type.elem if isinstance(image.type, OptionalType) else image.type
        found: list[Symbol] = []
        if isinstance(type_, TensorType):
            for d in type_.dims:
                if isinstance(d, Dim) and not symbols(d).isdisjoint(self.local):
                    if d.symbol is None or d.symbol in self.elsewhere:
                        return None
                    found.append(d.symbol)
        return found

    # --- arrival ---

    def bring_in(self) -> None:
        """Let every saved value arrive."""
        raise NotImplementedError

    def arrival(self, v: Value, image: Value) -> tuple[Value, tuple[Symbol, ...]]:
        """The value as which a saved one arrives (the placeholder, or one of fresh sizes); the symbols it binds."""
        found = self.binds_of(v, image)
        if found is None:
            type_, fresh = abstract(image.type, self.local)
            return Value(type_, image.name), fresh
        binds = tuple(s for s in dict.fromkeys(found) if s not in self.bound)
        self.bound.update(binds)
        return image, binds


def _restated(raw: Value, image: Value) -> list[Node]:
    """`image` is `raw` with its sizes restated: a tensor, or one that may be absent."""
    if isinstance(image.type, TensorType):
        return [Node("reshape", (raw,), {"shape": image.type.dims}, (image,))]
    assert isinstance(image.type, OptionalType)
    assert isinstance(raw.type, OptionalType)
    elem = image.type.elem
    has, given, some, none = Value(BOOL), Value(raw.type.elem), Value(image.type), Value(image.type)
    there = Value(elem)
    then = Block((), [Node("opt.get", (raw,), {"known": True}, (given,)), *_restated(given, there),
                      Node("opt.some", (there,), {}, (some,))], (some,))
    other = Block((), [Node("opt.none", (), {"type": elem}, (none,))], (none,))
    return [Node("opt.has", (raw,), {}, (has,)), Node("if", (has,), {}, (image,), (then, other))]
