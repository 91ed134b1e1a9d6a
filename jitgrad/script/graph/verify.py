"""Every invariant of a graph, each with a message. Passes, autodiff and backends may rely on what this accepts.

Sizes are compared as far as they can be: two sizes clash where their difference is a non-zero constant. Whether sizes
that only a check makes equal are equal is the interpreter's to find out. Here are the walk, scopes, and what holds of
every node; `conventions.py` has what each op asks beyond that.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from jitgrad import dims, dtypes
from jitgrad.dims import Symbol
from jitgrad.ops import OPS
from jitgrad.ops.types import TensorType, Type
from jitgrad.script.graph import irops
from jitgrad.script.graph.checker import Checker, InvalidGraph, compatible, free_symbols
from jitgrad.script.graph.conventions import ATTRS, CONVENTIONS, RESULTS, number_op, table_op
from jitgrad.script.graph.ir import Block, Graph, Nested, Node, Value, attr_symbols, payload, symbol_axes, unnested

T = TypeVar("T")


def verify(graph: Graph, *, pure: bool = False, known: set[Node] | None = None) -> Graph:
    """`graph`, if it keeps every invariant. Raises InvalidGraph with the first broken one and the node's line.

    Args:
        graph: any graph.
        pure: refuse effects too (gradient graphs have none).
        known: nodes that are right wherever they stand, as other graphs showed; those of this one are added.
    """
    verifier = Verifier(graph, pure, set() if known is None else known)
    unnested(verifier.block(graph.block, None))
    return graph


class Verifier(Checker):
    """The walk over a graph."""

    def __init__(self, graph: Graph, pure: bool, known: set[Node]):
        super().__init__(graph, pure)
        self.known = known
        self.bound: set[Symbol] = set()
        self.blocks: set[int] = set()
        self.raising: set[int] = set()  # blocks that no run leaves
        self.added: list[tuple[set[Any], Any]] = []  # what is visible in the blocks under way, and in which set

    # --- walking -----------------------------------------------------------------------------------------------------

    def block(self, block: Block, owner: Node | None) -> Nested[None]:
        """A block: what it makes visible ends with it."""
        before = len(self.added)
        self.start(block, owner)
        for node in block.nodes:
            self.node = node
            self.before(node)
            for inner in node.blocks:
                yield self.block(inner, node)
            self.node = node
            self.after(node)
            if self.raises(node):
                self.raising.add(id(block))
        self.node = owner
        for r in block.results:
            if r not in self.visible:
                self.fail("result {} is not in scope", r)
        if owner is not None:
            RESULTS[owner.op](self, owner, block)
        for known, item in self.added[before:]:
            known.discard(item)
        del self.added[before:]

    def start(self, block: Block, owner: Node | None) -> None:
        """Make a block's parameters, symbols and facts visible."""
        if id(block) in self.blocks:
            self.fail("a block belongs to two nodes")
        self.blocks.add(id(block))
        self.bind(block.binds, [p.type for p in block.params], "no parameter's type")
        for p in block.params:
            self.define(p)
        if owner is not None and owner.op == "if":
            self.assume(owner.inputs[0], block is owner.blocks[0])

    def show(self, known: set[T], item: T) -> None:
        """Add to one of the sets of what is visible, till the end of the block."""
        known.add(item)
        self.added.append((known, item))

    def bind(self, binds: Sequence[Symbol], types: Sequence[Type], nowhere: str) -> None:
        """Bring symbols into scope, each of which must stand alone in one of `types`."""
        alone = {s for t in types for _, s in symbol_axes(payload(t))} if binds else ()
        for symbol in binds:
            if symbol in self.bound:
                self.fail(f"symbol `{symbol}` is bound twice")
            if symbol not in alone:
                self.fail(f"symbol `{symbol}` is bound here, but {nowhere} has it as a size of its own")
            self.bound.add(symbol)
            self.show(self.symbols, symbol)

    def define(self, value: Value) -> None:
        if value in self.defined:
            self.fail("{} is defined twice", value)
        for symbol in free_symbols(value.type):
            if symbol not in self.symbols:
                self.fail(f"the type of {{}} has the symbol `{symbol}`, which is not in scope", value)
        self.defined[value] = self.node
        self.show(self.visible, value)

    def assume(self, value: Value, truth: bool) -> None:
        """Note what a condition says in the current block: conjunctions and negations are taken apart."""
        pending = [(value, truth)]
        while pending:
            v, t = pending.pop()
            if (v, t) in self.facts:
                continue
            self.show(self.facts, (v, t))
            node = self.defined.get(v)
            if node is None:
                continue
            if self.constant(v) is (not t):
                self.show(self.facts, (v, not t))  # no run gets here
            if node.op == "num.not":
                pending.append((node.inputs[0], not t))
            elif (node.op == "num.and" and t) or (node.op == "num.or" and not t):
                pending.extend((i, t) for i in node.inputs)
            elif node.op == "if":  # a side that gives the other constant was not taken
                i = node.outputs.index(v)
                pending.extend((node.inputs[0], block is not node.blocks[0]) for block in node.blocks
                               if self.constant(block.results[i]) is (not t))

    def constant(self, value: Value) -> Any:
        """A number that is a constant; None for any other value."""
        node = self.defined.get(value)
        return node.attrs["value"] if node is not None and node.op == "num.const" else None

    # --- nodes -------------------------------------------------------------------------------------------------------

    def before(self, node: Node) -> None:
        """Inputs, attrs and conventions of a node, before its blocks."""
        for v in node.inputs:
            if v not in self.visible:
                self.fail("{} is used where it is not in scope" if v in self.defined else "{} is not defined", v)
        self.attributes(node)
        if self.pure and irops.effect(node.op, node.attrs):
            self.fail(f"`{node.op}` is an effect, in a graph that has none")
        if node.op in ATTRS:
            name, holds, problem = ATTRS[node.op]
            if not holds(self.attr(node, name)):
                self.fail(f"`{name}` {problem}")
        convention = CONVENTIONS.get(node.op)
        if convention is not None:  # it may ask what is known where the node stands
            convention(self, node)
        elif node in self.known:
            return
        elif node.op.startswith("num."):
            number_op(self, node)
        elif node.op in OPS:
            table_op(self, node)
        else:
            self.fail(f"`{node.op}` is not an op")
        if node.blocks and node.op not in irops.STRUCTURAL:
            self.fail(f"`{node.op}` has no blocks")

    def attributes(self, node: Node) -> None:
        """What attributes are, and whether their symbols are in scope."""
        for key, a in node.attrs.items():
            problem = "" if node in self.known else _attr_problem(a)
            if problem:
                self.fail(f"attribute `{key}` {problem}")
            for symbol in attr_symbols(a) if key != "type" else free_symbols(a):
                if symbol not in self.symbols and not (node.op == "dim.bind" and key == "symbol"):
                    self.fail(f"attribute `{key}` has the symbol `{symbol}`, which is not in scope")

    def after(self, node: Node) -> None:
        """Outputs of a node, after its blocks."""
        if node not in self.known and node.op not in irops.STRUCTURAL:
            if node.op not in irops.TYPED:
                self.output_types(node)
            self.known.add(node)
        types: list[Type] = [v.type for v in node.outputs]
        if node.op == "dim.bind":
            types = [TensorType(dtypes.bool_, (dims.dim(node.attrs["symbol"]),))]
        self.bind(node.binds, types, "no output's type")
        for v in node.outputs:
            self.define(v)
        if node.op == "check":
            self.assume(node.inputs[0], True)
        elif node.op == "if":
            then, other = [id(block) in self.raising for block in node.blocks]
            if then is not other:  # who gets past it came by the other side
                self.assume(node.inputs[0], other)

    def raises(self, node: Node) -> bool:
        """Whether no run gets past a node."""
        if node.op == "check":
            return self.constant(node.inputs[0]) is False
        return node.op == "if" and all(id(block) in self.raising for block in node.blocks)

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
