"""Convolutions of half types on a device: by products of half types, which are summed in float32 and rounded once.

The library widens what a convolution is given and rounds what it makes; on the CPU that is what happens. Where both
operands are widened and only their rounding reads the result, the convolution is one of half types: the same values,
on units made for them, and columns of half the bytes. The gradient of images would round its columns too, once for
each element of a window; it is left alone, unless it has none (`device/tiled.py`). A weight's gradient of images in
turns (beyond 256 MiB of columns, see `device/conv.py`) is rounded once for each turn.
"""

from collections.abc import Sequence

from jitgrad.codegen.lower.device.tiled import gradient_without_columns
from jitgrad.codegen.lower.rules.geometry import Geometry
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.dtypes import float16, float32
from jitgrad.script.graph.ir import Block, Node


def narrowed(state: Lowering, block: Block, nodes: Sequence[Node]) -> Sequence[Node]:
    """The nodes of a block, convolutions between conversions as convolutions of half types."""
    if not any(_rounds_once(state, node) for node in nodes):
        return nodes
    uses = state.uses(block, nodes)
    readers = {v: node for node in nodes for v in state.reads(node)}
    widening = {n.outputs[0]: n.inputs[0] for n in nodes if n.op == "cast" and tensor(n.inputs[0]).dtype.is_half
                and tensor(n.outputs[0]).dtype is float32}
    chosen: dict[Node, Node] = {}
    gone: set[Node] = set()
    for node in nodes:
        if not _rounds_once(state, node) or not all(v in widening for v in node.inputs) or uses[node.outputs[0]] != 1:
            continue
        operands = tuple([widening[v] for v in node.inputs])
        rounding = readers.get(node.outputs[0])
        if rounding is None or rounding.op != "cast":
            continue
        if len({tensor(v).dtype for v in (*operands, rounding.outputs[0])}) == 1:
            chosen[node] = Node(node.op, operands, node.attrs, rounding.outputs, (), node.span)
            gone.add(rounding)
            uses.subtract(node.inputs)
    return [chosen.get(n, n) for n in nodes
            if n not in gone and not (n.op == "cast" and n.outputs[0] in widening and not uses[n.outputs[0]])]


def _rounds_once(state: Lowering, node: Node) -> bool:
    """Whether a convolution's sums are made in one place: those of a product, or of a kernel's own."""
    if node.op in ("conv", "conv_weight"):
        return True
    if node.op != "conv_transpose":
        return False
    y, w, x = (tensor(v).dims for v in (*node.inputs, *node.outputs))
    G = Geometry(node, x, w, y)
    alone = all(k == 1 for k in G.kernel) and all(s == 1 for s in G.stride) and not any(G.padding)
    return alone or G.depthwise or gradient_without_columns(state, G, float16, x[0])
