"""Maxima and minima of padded tensors: of the tensor without its padding, then with the number that pads it.

A maximum of nothing is an error, so that what may be empty is padded first (the worst of some indices, see
`script/frontend/boundary/placement.py`). A kernel's maximum of nothing is the lowest number: no copy with padding is
needed, and what is padded may be computed by the kernel that reduces it.
"""

from collections.abc import Sequence

from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Node, Value

JOINS = {"amax": "maximum", "amin": "minimum"}


def unpadded(state: Lowering, block: Block, nodes: Sequence[Node]) -> Sequence[Node]:
    """The nodes of a block, without the paddings that only maxima and minima read."""
    pads = {n.outputs[0]: n for n in nodes if n.op == "pad"}
    if not pads:
        return nodes
    uses = state.uses(block, nodes)
    result: list[Node] = []
    for node in nodes:
        pad = pads.get(node.inputs[0]) if node.op in JOINS else None
        if pad is not None and _only_reduced(node, pad):
            uses[pad.outputs[0]] -= 1
            result += _apart(node, pad)
        else:
            result.append(node)
    return [n for n in result if n.op != "pad" or uses[n.outputs[0]]]


def _only_reduced(node: Node, pad: Node) -> bool:
    """Whether there is padding, all of it along reduced axes."""
    some = [a for a, pair in enumerate(pad.attrs["pads"]) if any(p != 0 for p in pair)]
    sure = any(isinstance(p, int) and p > 0 for pair in pad.attrs["pads"] for p in pair)
    return sure and set(some) <= set(node.attrs["axes"])


def _apart(node: Node, pad: Node) -> list[Node]:
    out = node.outputs[0]
    type_ = tensor(out)
    bare = Value(type_)
    number = Value(TensorType(type_.dtype, ()))
    full = {"value": pad.attrs["value"], "shape": (), "dtype": type_.dtype}
    return [Node(node.op, pad.inputs, node.attrs, (bare,), (), node.span),
            Node("full", (), full, (number,), (), pad.span),
            Node(JOINS[node.op], (bare, number), {}, node.outputs, (), node.span)]
