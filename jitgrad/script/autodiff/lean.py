"""What a backward on a device computes again because saving it would move more bytes.

Reading and writing memory is most of what a pointwise kernel costs there, so what counts is bytes per element. A value
that is saved is written and read; one that is in memory anyway (an input that nobody writes, a product, a result that
the caller gets) is only read; one with fewer axes (a row's mean) costs next to nothing, as does a draw, of which seed
and offset are enough. `(x - mean) * scale` in float32, of a bfloat16 input: 8 bytes saved, 2 computed again.
A `log_softmax` is `x - m - l` with two numbers for each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from jitgrad.dims import Size
from jitgrad.ops import OPS
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import TensorType
from jitgrad.script.autodiff.frame import DEPTH, Mirror
from jitgrad.script.graph.ir import Block, Builder, Graph, Node, Value, committed, walk
from jitgrad.script.graph.namespace import GraphNamespace


def with_rows(graph: Graph) -> tuple[Graph, dict[Value, Value]]:
    """`graph` where each `log_softmax` is computed from the numbers of its rows besides: result -> the same so made."""
    instead: dict[Value, Value] = {}
    block = graph.block
    builder = Builder(Block())
    for node in block.nodes:
        builder.block.nodes.append(node)
        if node.op == "log_softmax":
            builder.span = node.span
            row, F = OPS[node.op], GraphNamespace(builder)
            instead[node.output] = F.expand_composite(row, (F.wrap(node.inputs[0]),), dict(node.attrs)).value
    if not instead:
        return graph, instead
    return Graph(Block(block.params, builder.block.nodes, block.results, block.binds), graph.name), instead


class Lean:
    """Compares the two ways for the values of one frame. `instead`: what may stand for a value."""

    def __init__(self, frame: Mirror, instead: Mapping[Value, Value]):
        self.frame, self.instead = frame, instead
        block = frame.block
        self.given = set(block.params) - {block.params[i] for i in committed(block)}
        self.given.update(block.results)
        self.fused = set(_arguments(block))

    def is_cheaper(self, node: Node) -> bool:
        """Whether computing a node's result again moves fewer bytes."""
        v = node.output
        return isinstance(v.type, TensorType) and sum(self.again(node, v, DEPTH).values()) < self.saving(v)

    def substitute(self) -> None:
        """Let values that are needed be made in the way that moves fewer bytes."""
        frame = self.frame
        for v, other in self.instead.items():
            image = frame.images.get(v)
            if image is None or image not in frame.needed or v in frame.saved or other in frame.images:
                continue
            node = frame.context.flow.producer[other]
            if sum(self.again(node, other, DEPTH).values()) < self.saving(v):
                frame.images[other] = frame.images.pop(v)

    def saving(self, v: Value) -> int:
        """Bytes per element of saving `v`."""
        assert isinstance(v.type, TensorType)
        node = self.frame.context.flow.producer.get(v)
        once = v in self.given or v in self.fused or (node is not None and has_trait(node.op, "stored"))
        return v.type.dtype.itemsize * (1 if once else 2)

    def again(self, node: Node, root: Value, depth: int) -> dict[Value, float]:
        """What has to be saved to compute a node's result again, and the bytes of each per element of `root`."""
        found: dict[Value, float] = {}
        for x in dict.fromkeys(node.inputs):
            found.update(self.having(x, root, depth - 1))
        return found

    def having(self, x: Value, root: Value, depth: int) -> dict[Value, float]:
        """The cheaper of saving `x` and computing it again."""
        assert isinstance(root.type, TensorType)
        if not isinstance(x.type, TensorType) or self.frame.ready(x):
            return {}
        own, whole = _axes(x.type.dims), _axes(root.type.dims)
        if any(own.count(d) > whole.count(d) for d in own):
            return {x: float("inf")}
        if len(own) < len(whole):
            return {}
        node = self.frame.context.flow.producer.get(x)
        if node is not None and depth > 0 and self.frame.is_cheap(node):
            repeated = self.again(node, root, depth)
            if sum(repeated.values()) < self.saving(x):
                return repeated
        return {x: self.saving(x)}


def _arguments(block: Block) -> list[Value]:
    """Products with a bias that only GELU reads: these are stored, not the products (`lower/device/epilogues.py`)."""
    readers = Counter(block.results)
    for node in block.nodes:
        readers.update(node.inputs)
        for inner in node.blocks:
            readers.update(v for n in walk(inner) for v in n.inputs)
    products = {n.outputs[0] for n in block.nodes if n.op == "matmul" and readers[n.outputs[0]] == 1}
    sums = {n.outputs[0] for n in block.nodes if n.op == "add" and not products.isdisjoint(n.inputs)}
    return [n.inputs[0] for n in block.nodes if n.op == "gelu_tanh" and n.inputs[0] in sums]


def _axes(shape: tuple[Size, ...]) -> list[Size]:
    return [d for d in shape if d != 1]


__all__ = ["Lean", "with_rows"]
