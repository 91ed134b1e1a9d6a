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

Casts may stand between a product and a transpose, on either side, as autocast makes them: an element is cast alike
wherever it lies.

    %t: f32[K, N] = permute(%v){axes=(1, 0)}
    %h: f16[K, N] = cast(%t){dtype=f16}
    %p: f16[B, N] = matmul(%y, %h)

becomes

    %u: f16[N, K] = cast(%v){dtype=f16}
    %h: f16[K, N] = permute(%u){axes=(1, 0)}
    %p: f16[B, N] = matmul(%y, %h)

where only products read the cast, transposed or not.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Sequence

from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Graph, Node, Value, walk
from jitgrad.script.passes.rewrite import Rewriter


def transpose_products(graph: Graph) -> Graph:
    """`graph` with products that are only read transposed made that way; the same graph where there are none."""
    nodes = list(walk(graph.block))
    transposes = [n for n in nodes if n.op == "permute" and _swaps(n)]
    if not transposes:
        return graph
    casts = [n for n in nodes if n.op == "cast"]
    blocks = [graph.block, *[b for n in nodes for b in n.blocks]]
    uses = Counter(itertools.chain.from_iterable([*[n.inputs for n in nodes], *[b.results for b in blocks]]))
    operands = Counter(itertools.chain.from_iterable([n.inputs for n in nodes if n.op == "matmul"]))  # uses by products
    for node in transposes:
        if uses[node.outputs[0]] == operands[node.outputs[0]]:
            operands[node.inputs[0]] += 1
    swapped = {n.outputs[0] for n in transposes}
    late = {n.outputs[0] for n in casts if n.inputs[0] in swapped and 0 < uses[n.outputs[0]] == operands[n.outputs[0]]}
    turned: set[Value] = set()
    gone: set[Value] = set()
    for block in blocks:
        made = {n.outputs[0]: n for n in block.nodes if n.op in ("matmul", "cast") and uses[n.outputs[0]] == 1}
        for node in block.nodes:
            if node.op == "permute" and node.outputs[0] in swapped:
                chain = _chain(node.inputs[0], made)
                if chain:
                    turned.update(chain)
                    gone.add(node.outputs[0])
    late -= turned
    return _Transposing(graph, turned, gone, late).run() if gone or late else graph


def _chain(value: Value, made: dict[Value, Node]) -> list[Value]:
    """From `value` by casts to a product, each read only by the one before; empty where there is no such product."""
    chain = []
    while (node := made.get(value)) is not None:
        chain.append(value)
        if node.op == "matmul":
            return chain
        value = node.inputs[0]
    return []


class _Transposing(Rewriter):
    """`turned`: products, and casts of them, that are made transposed. `gone`: their transposes. `late`: casts of
    transposes that become transposes of casts.
    """

    def __init__(self, graph: Graph, turned: Collection[Value], gone: Collection[Value], late: Collection[Value]):
        super().__init__(graph)
        self.turned, self.gone, self.late = turned, gone, late

    def visit(self, node: Node) -> Sequence[Value] | None:
        out = node.outputs[0] if node.outputs else None
        if out in self.gone:
            return node.inputs
        if out in self.turned:
            if node.op == "matmul":
                a, b = node.inputs
                return (self.emit("matmul", self.transposed(b), self.transposed(a)),)
            return (self.emit("cast", node.inputs[0], **node.attrs),)
        if out in self.late:
            permute = self.source(node.inputs[0], "permute")
            if permute is not None and _swaps(permute):
                return (self.transposed(self.emit("cast", permute.inputs[0], **node.attrs)),)
        return None

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
