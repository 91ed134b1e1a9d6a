"""Transposed products: nobody copies a gradient only because it is a product's transpose.

    %p: f32[K, N] = matmul(%x, %g)
    %w: f32[N, K] = permute(%p){axes=(1, 0)}

becomes

    %gt: f32[N, B] = permute(%g){axes=(1, 0)}
    %xt: f32[B, K] = permute(%x){axes=(1, 0)}
    %w: f32[N, K] = matmul(%gt, %xt)

Transposes of operands are flags of a product, one of its result is a copy as soon as somebody wants the result in
memory: the weight of every linear layer has such a gradient. Only where nothing else reads the product, and in its own
block: elsewhere a product would become two, or one per iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jitgrad.ops.types import TensorType
from jitgrad.script.ir import Block, Graph, Node, Value, walk
from jitgrad.script.passes.rewrite import Rewriter


def transpose_products(graph: Graph) -> Graph:
    """`graph` with products that are only read transposed made that way; the same graph where there are none."""
    uses = Counter(graph.block.results)
    blocks: list[Block] = [graph.block]
    for node in walk(graph.block):
        uses.update(node.inputs)
        for block in node.blocks:
            uses.update(block.results)
            blocks.append(block)
    found: dict[Value, Value] = {}
    for block in blocks:
        products = {n.outputs[0] for n in block.nodes if n.op == "matmul" and uses[n.outputs[0]] == 1}
        found.update((n.inputs[0], n.outputs[0]) for n in block.nodes
                     if n.op == "permute" and n.inputs[0] in products and _swaps(n))
    return _Transposing(graph, found).run() if found else graph


class _Transposing(Rewriter):
    """`found`: products and their transposes."""

    def __init__(self, graph: Graph, found: dict[Value, Value]):
        super().__init__(graph)
        self.products, self.transposes = found.keys(), set(found.values())

    def visit(self, node: Node) -> Sequence[Value] | None:
        out = node.outputs[0] if node.outputs else None
        if out in self.products:
            a, b = node.inputs
            return (self.emit("matmul", self.transposed(b), self.transposed(a)),)
        return node.inputs if out in self.transposes else None

    def transposed(self, value: Value) -> Value:
        """The matrix's transpose, or what it is the transpose of."""
        node = self.source(value, "permute")
        if node is not None and _swaps(node):
            return node.inputs[0]
        assert isinstance(value.type, TensorType)
        rank = len(value.type.dims)
        return self.emit("permute", value, axes=(*range(rank - 2), rank - 1, rank - 2))


def _swaps(node: Node) -> bool:
    """Whether a permutation swaps the last two axes and no others."""
    axes: tuple[int, ...] = node.attrs["axes"]
    rank = len(axes)
    return axes == (*range(rank - 2), rank - 1, rank - 2)
