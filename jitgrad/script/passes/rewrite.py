"""The walk that passes share: forward through a graph, rebuilding blocks and sharing every node that did not change.

A pass subclasses `Rewriter` and looks at each node after its operands were replaced. What did not change is in the new
graph as it is, nodes with blocks too; a graph in which nothing changed is returned itself.
"""

from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Dim, Size, Symbol, substitute
from jitgrad.ops.types import Type, map_dims
from jitgrad.script.graph.ir import Block, Builder, Graph, Nested, Node, Value, map_attr, sizes_of, unnested


class Rewriter:
    """Rebuilds `graph`. Override `visit`, and where needed `enter`, `enter_block` and `leave_block`.

    Attributes:
        values: what stands for a value of the old graph in the new one, where that differs.
        sizes: sizes that replace symbols from here on.
        nodes: the defining node of every value of the new graph that a node defines.
        builder: appends to the current block of the new graph; its span is that of the node under inspection.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.values: dict[Value, Value] = {}
        self.sizes: dict[Symbol, Size] = {}
        self.nodes: dict[Value, Node] = {}
        self.builder = Builder()

    # --- what a pass decides -----------------------------------------------------------------------------------------

    def visit(self, node: Node) -> Sequence[Value] | None:
        """Values of the new graph that stand for the node's outputs, or None to keep the node."""
        return None

    def enter(self, node: Node) -> Block | Node | Sequence[Value] | None:
        """Before the blocks of a structural node: one of its blocks, to put in the node's place (it has no parameters);
        values, to replace the node; another node to go on with; or None, to go on.
        """
        return None

    def enter_block(self, block: Block, owner: Node | None) -> None:
        """A block of the new graph begins, before its nodes."""

    def leave_block(self, block: Block, owner: Node | None) -> None:
        """A block of the new graph is complete."""

    # --- what a pass may use -----------------------------------------------------------------------------------------

    def emit(self, op: str, *inputs: Value, types: Sequence[Type] | None = None, **attrs: Any) -> Value:
        """Append a node with one output, which `visit` sees first; what stands for its output."""
        block = self.builder.block
        (value,) = self.builder.emit(op, inputs, types=types, **attrs)
        node = block.nodes.pop()
        result = self.visit(node)
        if result is not None:
            return result[0]
        block.nodes.append(node)
        self.nodes[value] = node
        return value

    def source(self, value: Value, op: str) -> Node | None:
        """The node that defines `value`, if it is an `op`."""
        node = self.nodes.get(value)
        return node if node is not None and node.op == op else None

    def stand_for(self, old: Sequence[Value], new: Sequence[Value], binds: Sequence[Symbol] = ()) -> None:
        """Let `new` stand for `old`; symbols in `binds`, which old's binder takes along, become sizes of new."""
        if binds:
            gone = set(binds)
            for o, n in zip(old, new, strict=True):
                for a, b in zip(sizes_of(o.type), sizes_of(n.type), strict=True):
                    if isinstance(a, Dim) and a.symbol in gone and a != b:
                        self.sizes.setdefault(a.symbol, b)
        for o, n in zip(old, new, strict=True):
            if o is not n:
                self.values[o] = n

    # --- the walk ----------------------------------------------------------------------------------------------------

    def run(self) -> Graph:
        """The new graph; the old one if it is the same."""
        old = self.graph.block
        new = Block(old.params, [], (), old.binds)
        unnested(self.block(old, new, None))
        return self.graph if _same(old, new) else Graph(new, self.graph.name)

    def block(self, old: Block, new: Block, owner: Node | None) -> Nested[None]:
        """Fill the new block that a block becomes."""
        self.enter_block(new, owner)
        yield self.nodes_of(old, new)
        new.results = self.mapped(old.results)
        self.leave_block(new, owner)

    def nodes_of(self, block: Block, new: Block) -> Nested[None]:
        """Append what becomes of a block's nodes."""
        defined, visit, builder, append = self.nodes, self.visit, self.builder, new.nodes.append
        replaced = self.values.keys()
        builder.block = new
        for old in block.nodes:
            node = old
            if not replaced.isdisjoint(old.inputs):
                node = Node(old.op, self.mapped(old.inputs), old.attrs, old.outputs, old.blocks, old.span, old.binds)
            builder.span = old.span
            if node.blocks:
                yield self.structural(node, new)
                builder.block = new
                continue
            if self.sizes:
                node = self.resized(node)
            result = visit(node)
            if result is None:
                append(node)
                for v in node.outputs:
                    defined[v] = node
            else:
                self.stand_for(old.outputs, result, old.binds)

    def structural(self, node: Node, around: Block) -> Nested[None]:
        """A structural node, its operands replaced: ask `enter`, then go through its blocks."""
        decision = self.enter(node)
        if isinstance(decision, Block):
            yield self.nodes_of(decision, around)
            decision = self.mapped(decision.results)
        if decision is not None and not isinstance(decision, Node):
            self.stand_for(node.outputs, decision, node.binds)
            return
        node = decision or node
        blocks = []
        for old in node.blocks:
            new = Block(self.retyped(old.params) if self.sizes else old.params, [], (), old.binds)
            yield self.block(old, new, node)
            blocks.append(old if _same(old, new) else new)
        self.builder.block, self.builder.span = around, node.span
        made = node
        if any(new is not old for new, old in zip(blocks, node.blocks, strict=True)):
            made = Node(node.op, node.inputs, node.attrs, node.outputs, tuple(blocks), node.span, node.binds)
        if self.sizes:
            made = self.resized(made)
        result = self.visit(made)
        if result is None:
            around.nodes.append(made)
            for v in made.outputs:
                self.nodes[v] = made
        else:
            self.stand_for(node.outputs, result, node.binds)

    def mapped(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """What stands for each of `values`."""
        return tuple([self.values.get(v, v) for v in values])

    # --- sizes -------------------------------------------------------------------------------------------------------

    def size(self, size: Size) -> Size:
        return substitute(size, self.sizes)

    def retyped(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Values with replaced sizes in their types; a value whose type does not change stays."""
        result = []
        for v in values:
            type_ = map_dims(v.type, self.size)
            if type_ != v.type:
                new = Value(type_, v.name)
                self.values[v] = v = new
            result.append(v)
        return tuple(result)

    def resized(self, node: Node) -> Node:
        """The node with replaced sizes in its attrs and types."""
        attrs = {k: a if isinstance(a, Symbol) else map_attr(a, self.size) for k, a in node.attrs.items()}
        outputs = self.retyped(node.outputs)
        return Node(node.op, node.inputs, attrs, outputs, node.blocks, node.span, node.binds)


def _same(old: Block, new: Block) -> bool:
    """Whether a block's nodes and results are the old ones."""
    return old.nodes == new.nodes and old.results == new.results and old.params == new.params
