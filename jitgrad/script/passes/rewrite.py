"""The walk that passes share: forward through a graph, rebuilding blocks and sharing every node that did not change.

A pass subclasses `Rewriter` and looks at each node after its operands were replaced. Nodes and values are immutable, so
an unchanged one is in the new graph as it is; blocks are always new. Nesting is kept on an explicit stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Dim, Size, Symbol, substitute
from jitgrad.ops.types import Type, map_dims
from jitgrad.script.graph.ir import Block, Builder, Graph, Node, Value, map_attr, sizes_of


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
        """The new graph."""
        old = self.graph.block
        new = Block(old.params, [], (), old.binds)
        self.enter_block(new, None)
        stack = [_Frame(old, new, None)]
        while stack:
            frame = stack[-1]
            self.builder.block = frame.new
            if self.step(frame, stack):
                continue
            stack.pop()
            results = self.mapped(frame.old.results)
            if frame.inlined is not None:
                self.stand_for(frame.inlined.outputs, results, frame.inlined.binds)
                continue
            frame.new.results = results
            self.leave_block(frame.new, frame.owner)
            if stack:
                self.block_done(frame.new, stack)
        return Graph(new, self.graph.name)

    def step(self, frame: _Frame, stack: list[_Frame]) -> bool:
        """Nodes of a block up to one with blocks, whose first frame is then on the stack; False at the end."""
        nodes, new = frame.old.nodes, frame.new.nodes
        values, defined, visit, builder = self.values, self.nodes, self.visit, self.builder
        i, n = frame.next, len(nodes)
        while i < n:
            node = nodes[i]
            i += 1
            for v in node.inputs:
                if v in values:
                    inputs = tuple([values.get(v, v) for v in node.inputs])
                    node = Node(node.op, inputs, node.attrs, node.outputs, node.blocks, node.span, node.binds)
                    break
            builder.span = node.span
            if node.blocks:
                frame.next = i
                self.begin(node, frame, stack)
                return True
            if self.sizes:
                node = self.resized(node)
            result = visit(node)
            if result is None:
                new.append(node)
                for v in node.outputs:
                    defined[v] = node
            else:
                self.stand_for(nodes[i - 1].outputs, result, nodes[i - 1].binds)
        return False

    def begin(self, node: Node, frame: _Frame, stack: list[_Frame]) -> None:
        """A structural node, its operands replaced: ask `enter`, then go into its first block."""
        decision = self.enter(node)
        if isinstance(decision, Block):
            inner = _Frame(decision, frame.new, frame.owner)
            inner.inlined = node
            stack.append(inner)
        elif decision is not None and not isinstance(decision, Node):
            self.stand_for(node.outputs, decision, node.binds)
        else:
            node = decision or node
            frame.node, frame.blocks = node, []
            stack.append(self.open(node, 0))

    def open(self, node: Node, i: int) -> _Frame:
        """A frame for a block of `node`."""
        old = node.blocks[i]
        params = old.params
        if self.sizes:
            params = self.retyped(params)
        new = Block(params, [], (), old.binds)
        self.enter_block(new, node)
        return _Frame(old, new, node)

    def block_done(self, block: Block, stack: list[_Frame]) -> None:
        """A block of a structural node is complete: go into the next one, or finish the node."""
        frame = stack[-1]
        node = frame.node
        assert node is not None
        frame.blocks.append(block)
        if len(frame.blocks) < len(node.blocks):
            stack.append(self.open(node, len(frame.blocks)))
            return
        frame.node = None
        self.builder.block, self.builder.span = frame.new, node.span
        new = Node(node.op, node.inputs, node.attrs, node.outputs, tuple(frame.blocks), node.span, node.binds)
        if self.sizes:
            new = self.resized(new)
        result = self.visit(new)
        if result is None:
            frame.new.nodes.append(new)
            for v in new.outputs:
                self.nodes[v] = new
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


class _Frame:
    """A block of the old graph under way, and the block of the new one that it becomes."""

    __slots__ = ("blocks", "inlined", "new", "next", "node", "old", "owner")

    def __init__(self, old: Block, new: Block, owner: Node | None):
        self.old, self.new, self.owner, self.next = old, new, owner, 0
        self.node: Node | None = None  # the structural node whose blocks are being walked
        self.blocks: list[Block] = []  # those that are complete
        self.inlined: Node | None = None  # this block stands in place of that node
