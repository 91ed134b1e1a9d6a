"""Every invariant of a graph, each with a message. Passes, autodiff and backends may rely on what this accepts.

Sizes are compared as far as they can be: two sizes clash where their difference is a non-zero constant. Whether sizes
that only a check makes equal are equal is the interpreter's to find out. Here are the walk, scopes, and what holds of
every node; `conventions.py` has what each op asks beyond that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad import dims, dtypes
from jitgrad.dims import Symbol
from jitgrad.ops import OPS
from jitgrad.ops.types import TensorType, Type
from jitgrad.script.graph import irops
from jitgrad.script.graph.checker import Checker, InvalidGraph, compatible, free_symbols
from jitgrad.script.graph.conventions import CONVENTIONS, RESULTS, number_op, table_op
from jitgrad.script.graph.ir import Block, Graph, Node, Value, attr_symbols, payload, symbol_axes


def verify(graph: Graph, *, pure: bool = False) -> Graph:
    """`graph`, if it keeps every invariant. Raises InvalidGraph with the first broken one and the node's line.

    Args:
        graph: any graph.
        pure: refuse effects too (gradient graphs have none).
    """
    Verifier(graph, pure).run()
    return graph


class _Scope:
    """A block under way: what it added to the sets of what is visible, to be taken back at its end."""

    __slots__ = ("block", "facts", "next", "owner", "symbols", "values")

    def __init__(self, block: Block, owner: Node | None):
        self.block, self.owner, self.next = block, owner, 0
        self.values: list[Value] = []
        self.symbols: list[Symbol] = []
        self.facts: list[tuple[Value, bool]] = []


class Verifier(Checker):
    """The walk over a graph."""

    def __init__(self, graph: Graph, pure: bool):
        super().__init__(graph, pure)
        self.bound: set[Symbol] = set()
        self.blocks: set[int] = set()

    # --- walking -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        stack = [_Scope(self.graph.block, None)]
        self.start(stack[-1])
        while stack:
            scope = stack[-1]
            nodes = scope.block.nodes
            if scope.next < len(nodes):
                node = self.node = nodes[scope.next]
                scope.next += 1
                self.before(node)
                if node.blocks:
                    stack.extend([_Scope(block, node) for block in reversed(node.blocks)])
                    self.start(stack[-1])
                else:
                    self.after(node, scope)
                continue
            stack.pop()
            self.node = scope.owner
            self.leave(scope)
            if scope.owner is None:
                return
            if stack[-1].owner is scope.owner:  # the node's next block
                self.start(stack[-1])
            else:
                self.after(scope.owner, stack[-1])

    def start(self, scope: _Scope) -> None:
        """Make a block's parameters, symbols and facts visible."""
        block, owner = scope.block, scope.owner
        if id(block) in self.blocks:
            self.fail("a block belongs to two nodes")
        self.blocks.add(id(block))
        self.bind(block.binds, [p.type for p in block.params], scope, "no parameter's type")
        for p in block.params:
            self.define(p, scope)
        if owner is not None and owner.op == "if":
            self.assume(owner.inputs[0], block is owner.blocks[0], scope)

    def leave(self, scope: _Scope) -> None:
        """The block's results, then the end of everything it made visible."""
        for r in scope.block.results:
            if r not in self.visible:
                self.fail("result {} is not in scope", r)
        if scope.owner is not None:
            RESULTS[scope.owner.op](self, scope.owner, scope.block)
        self.visible.difference_update(scope.values)
        self.symbols.difference_update(scope.symbols)
        self.facts.difference_update(scope.facts)

    def bind(self, binds: Sequence[Symbol], types: Sequence[Type], scope: _Scope, nowhere: str) -> None:
        """Bring symbols into scope, each of which must stand alone in one of `types`."""
        alone = {s for t in types for _, s in symbol_axes(payload(t))}
        for symbol in binds:
            if symbol in self.bound:
                self.fail(f"symbol `{symbol}` is bound twice")
            if symbol not in alone:
                self.fail(f"symbol `{symbol}` is bound here, but {nowhere} has it as a size of its own")
            self.bound.add(symbol)
            self.symbols.add(symbol)
            scope.symbols.append(symbol)

    def define(self, value: Value, scope: _Scope) -> None:
        if value in self.defined:
            self.fail("{} is defined twice", value)
        for symbol in free_symbols(value.type):
            if symbol not in self.symbols:
                self.fail(f"the type of {{}} has the symbol `{symbol}`, which is not in scope", value)
        self.defined[value] = self.node
        self.visible.add(value)
        scope.values.append(value)

    def assume(self, value: Value, truth: bool, scope: _Scope) -> None:
        """Note what a condition says in the current block: conjunctions and negations are taken apart."""
        pending = [(value, truth)]
        while pending:
            v, t = pending.pop()
            if (v, t) in self.facts:
                continue
            self.facts.add((v, t))
            scope.facts.append((v, t))
            node = self.defined.get(v)
            if node is None:
                continue
            if node.op == "num.not":
                pending.append((node.inputs[0], not t))
            elif (node.op == "num.and" and t) or (node.op == "num.or" and not t):
                pending.extend((i, t) for i in node.inputs)

    # --- nodes -------------------------------------------------------------------------------------------------------

    def before(self, node: Node) -> None:
        """Inputs, attrs and conventions of a node, before its blocks."""
        for v in node.inputs:
            if v not in self.visible:
                self.fail("{} is used where it is not in scope" if v in self.defined else "{} is not defined", v)
        for key, a in node.attrs.items():
            problem = _attr_problem(a)
            if problem:
                self.fail(f"attribute `{key}` {problem}")
            for symbol in attr_symbols(a) if key != "type" else free_symbols(a):
                if symbol not in self.symbols and not (node.op == "dim.bind" and key == "symbol"):
                    self.fail(f"attribute `{key}` has the symbol `{symbol}`, which is not in scope")
        if self.pure and irops.effect(node.op, node.attrs):
            self.fail(f"`{node.op}` is an effect, in a graph that has none")
        convention = CONVENTIONS.get(node.op)
        if convention is not None:
            convention(self, node)
        elif node.op.startswith("num."):
            number_op(self, node)
        elif node.op in OPS:
            table_op(self, node)
        else:
            self.fail(f"`{node.op}` is not an op")
        if node.blocks and node.op not in irops.STRUCTURAL:
            self.fail(f"`{node.op}` has no blocks")

    def after(self, node: Node, scope: _Scope) -> None:
        """Outputs of a node, after its blocks."""
        if node.op not in irops.STRUCTURAL and node.op not in irops.TYPED:
            self.output_types(node)
        types: list[Type] = [v.type for v in node.outputs]
        if node.op == "dim.bind":
            types = [TensorType(dtypes.bool_, (dims.dim(node.attrs["symbol"]),))]
        self.bind(node.binds, types, scope, "no output's type")
        for v in node.outputs:
            self.define(v, scope)
        if node.op == "check":
            self.assume(node.inputs[0], True, scope)

    def output_types(self, node: Node) -> None:
        """Infer the outputs' types again."""
        try:
            inferred = irops.infer(node.op, tuple(v.type for v in node.inputs), node.attrs)
        except (KeyError, TypeError, ValueError, IndexError, AssertionError, AttributeError) as error:
            self.fail(f"its types cannot be inferred: {type(error).__name__}: {error}")
            raise
        if len(inferred) != len(node.outputs):
            self.fail(f"`{node.op}` has {len(inferred)} outputs, not {len(node.outputs)}")
        for v, t in zip(node.outputs, inferred, strict=True):
            if not compatible(t, v.type, node.binds):
                self.fail(f"{{}} is a `{v.type}`, but `{node.op}` makes a `{t}`", v)


def _attr_problem(a: Any) -> str:
    if isinstance(a, tuple):
        return next((p for p in map(_attr_problem, a) if p), "")
    if isinstance(a, (Value, Node, Block, Graph)):
        return "is a part of a graph; only blocks nest"
    try:
        hash(a)
    except TypeError:
        return f"is a `{type(a).__name__}`, which is not static"
    return ""


__all__ = ["InvalidGraph", "verify"]
