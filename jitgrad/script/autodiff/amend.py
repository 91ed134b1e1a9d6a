"""Additions to the forward part: results of inner blocks that the backward reads again.

A value of a loop's body becomes a further `ys`, a value of a branch a further output of the `if`: Optional, absent
where the other branch was taken. Numbers are not wrapped: the other branch gives 0. The additions are collected while
the backward is written, and `rebuild` makes the new forward once.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from jitgrad.dims import Dim, Size, Symbol, dim, substitute, symbols
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, OptionalType, SeqType, Type, map_dims
from jitgrad.script.autodiff.flow import Flow
from jitgrad.script.graph.ir import (Block, Builder, Loop, Node, Value, map_attr, payload, symbol_axes, type_symbols,
                                     walk)

NUMBERS = (BOOL, INT, FLOAT, NUMBER)


def abstract(type_: Type, local: Collection[Symbol]) -> tuple[Type, tuple[Symbol, ...]]:
    """`type_` with a fresh symbol for every size that mentions a symbol of `local`; the fresh symbols."""
    fresh: dict[Size, Size] = {}

    def visit(size: Size) -> Size:
        if isinstance(size, int) or symbols(size).isdisjoint(local):
            return size
        if size not in fresh:
            old = size.symbol
            fresh[size] = dim(Symbol(not_one=old is not None and old.not_one))
        return fresh[size]

    result = map_dims(type_, visit) if local else type_
    return result, tuple(s.symbol for s in fresh.values() if isinstance(s, Dim) and s.symbol is not None)


def generic(type_: Type) -> tuple[Type, tuple[Symbol, ...]]:
    """`type_` with a fresh symbol for every size that is not a number; those that a value of it binds: the sizes in a
    sequence may differ from element to element."""
    made, fresh = abstract(type_, type_symbols(type_))
    return made, _bound_by(made, fresh)


def _bound_by(type_: Type, fresh: Collection[Symbol]) -> tuple[Symbol, ...]:
    """Those of the symbols that a value of a type binds."""
    own = {symbol for _, symbol in symbol_axes(payload(type_))}
    return tuple([s for s in fresh if s in own])


class Sizes:
    """Sizes that stand for symbols, `sizes`; types and attributes with them."""

    sizes: dict[Symbol, Size]

    def size(self, size: Size) -> Size:
        return substitute(size, self.sizes)

    def type(self, t: Type) -> Type:
        return map_dims(t, self.size) if self.sizes else t

    def renamed(self, symbol: Symbol) -> Symbol:
        """The symbol that stands for another one."""
        new = self.sizes.get(symbol)
        return new.symbol or symbol if isinstance(new, Dim) else symbol

    def attrs(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """A node's attributes."""
        return {key: self.renamed(a) if key == "symbol" else self.type(a) if key == "type" else
                map_attr(a, self.size) if self.sizes else a for key, a in attrs.items()}


class Amendments:
    """The forward graph with results added to nested blocks.

    Args:
        flow: facts about the graph; kept true for the values that are added.
        frozen: nothing may be added (the forward has already been compiled).
    """

    def __init__(self, flow: Flow, frozen: bool):
        self.flow, self.frozen = flow, frozen
        self._outside: dict[tuple[Block, Value], Value] = {}
        self._sizes: dict[tuple[Block, Symbol], Value] = {}
        self._outputs: defaultdict[Node, list[Value]] = defaultdict(list)
        self._binds: defaultdict[Node, list[Symbol]] = defaultdict(list)
        self._results: defaultdict[Block, list[Value]] = defaultdict(list)
        self._tails: defaultdict[Block, list[Node]] = defaultdict(list)
        self._open: set[Block] = set()
        for block, node in flow.owner.items():
            self._known(block, node)

    def learn(self, block: Block) -> None:
        """Take note of a block of new code and of those in it; to them, anything may be added."""
        self._open.add(block)
        for node in walk(block):
            for b in node.blocks:
                self._open.add(b)
                self._known(b, node)

    def is_frozen(self, block: Block) -> bool:
        """Whether nothing may be added to a block."""
        return self.frozen and block not in self._open

    def _known(self, block: Block, node: Node) -> None:
        if node.op == "if":
            for r, out in zip(block.results, node.outputs, strict=True):
                self._know(block, r, out)
                made = self.flow.producer.get(r)
                if made is not None and made.op == "opt.some" and self.flow.home[r] is block:
                    self._know(block, made.inputs[0], out)
        elif node.op in ("while", "scan"):
            loop = Loop(node)
            for local, out in [*zip(loop.seq_params, loop.seqs, strict=True),
                               *zip(loop.y_results, loop.y_outputs, strict=True)]:
                self._know(block, local, out)

    def _know(self, block: Block, local: Value, out: Value) -> None:
        if self.flow.home[local] is not block:
            return
        self._outside.setdefault((block, local), out)
        made = self.flow.producer.get(local)
        if made is not None:
            self.note_size(block, made)

    def note_size(self, block: Block, node: Node) -> None:
        """Remember the output of a `dim.value` of a single symbol as the number to save for that symbol."""
        if node.op == "dim.value" and isinstance(node.attrs["dim"], Dim) and node.attrs["dim"].symbol is not None:
            self._sizes.setdefault((block, node.attrs["dim"].symbol), node.output)

    # --- reading ---

    def outside(self, block: Block, v: Value) -> Value | None:
        """The value of the surrounding block that holds `v` of a nested block: Seq, Optional or the value itself."""
        return self._outside.get((block, v))

    def size(self, block: Block, symbol: Symbol) -> Value:
        """An int of `block` with the value of a symbol bound there."""
        key = (block, symbol)
        if key not in self._sizes:
            builder = Builder(Block())
            v = builder.one("dim.value", dim=dim(symbol))
            self._append(block, builder.block.nodes)
            self._sizes[key] = v
        return self._sizes[key]

    # --- adding ---

    def save(self, block: Block, v: Value) -> tuple[Value, tuple[Symbol, ...]]:
        """Make `v` of a nested block an output of its node; that output and the symbols newly bound by the node."""
        known = self._outside.get((block, v))
        if known is not None:
            return known, ()
        assert not self.is_frozen(block), f"the compiled forward does not save {v}"
        node = self.flow.owner[block]
        local = self.flow.bound[block]
        binds: tuple[Symbol, ...] = ()
        if node.op == "if":
            type_, fresh = abstract(v.type, local)
            binds = _bound_by(type_, fresh)
            out = self._save_branch(node, block, v, type_)
            self.flow.maybe.update(binds)
        else:
            out = Value(SeqType(abstract(v.type, local)[0]), v.name)
            self._results[block].append(v)
        self._outputs[node].append(out)
        self._binds[node].extend(binds)
        parent = self.flow.parent[block]
        self.flow.home[out], self.flow.producer[out] = parent, node
        self.flow.bound[parent] += binds
        self._outside[block, v] = out
        return out, binds

    def _save_branch(self, node: Node, block: Block, v: Value, type_: Type) -> Value:
        """Results for both branches: `v` (wrapped) here, nothing there."""
        here, there = Builder(Block()), Builder(Block())
        result, type_out = v, type_
        if v.type in NUMBERS:
            absent = there.one("num.const", value=False if type_ == BOOL else 0.0 if type_ == FLOAT else 0)
            if type_ == NUMBER:
                absent = there.one("num.cast", absent, to="number")
        else:
            # An absent payload has no sizes: those that only this branch knows are given as 0.
            payload = v.type.elem if isinstance(v.type, OptionalType) else v.type
            local = self.flow.bound[block]
            absent = there.one("opt.none", type=map_dims(
                payload, lambda s: 0 if isinstance(s, Dim) and not symbols(s).isdisjoint(local) else s))
            if not isinstance(v.type, OptionalType):
                result, type_out = here.one("opt.some", v), OptionalType(type_)
        for b, value, builder in ((block, result, here), (node.blocks[node.blocks[0] is block], absent, there)):
            self._append(b, builder.block.nodes)
            self._results[b].append(value)
        return Value(type_out, v.name)

    def _append(self, block: Block, nodes: list[Node]) -> None:
        assert not self.is_frozen(block), "the compiled forward cannot be changed"
        tail = self._tails[block]
        for node in nodes:
            self.flow.position[node] = len(block.nodes) + len(tail)
            tail.append(node)
            for v in node.outputs:
                self.flow.home[v], self.flow.producer[v] = block, node

    def rebuild(self, block: Block) -> Block:
        """`block` with everything that was added to it and to the blocks nested in it; itself where nothing was."""
        nodes, changed = [], False
        for node in block.nodes:
            if node.blocks:
                blocks = tuple([self.rebuild(b) for b in node.blocks])
                outputs = self._outputs[node]
                if outputs or blocks != node.blocks:
                    node = Node(node.op, node.inputs, node.attrs, (*node.outputs, *outputs), blocks, node.span,
                                (*node.binds, *self._binds[node]))
                    changed = True
            nodes.append(node)
        tail, results = self._tails[block], self._results[block]
        if not (changed or tail or results):
            return block
        return Block(block.params, [*nodes, *tail], (*block.results, *results), block.binds)
