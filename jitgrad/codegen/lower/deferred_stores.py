"""What an exception stores: `pending` nodes, and the places where a program may raise.

In the graph such a node holds for all that comes after it in its block, and in the blocks there. Here each node that
may raise learns which one holds at its place. Of the values those become its operands whose memory may be overwritten
before it:

    pending(%x, %h)                          pending(%x, %h)
    check(%c, %n)               becomes      check(%c, %n, %x){own, pending}
    %k = num.floordiv(%a, %b)                %k = num.floordiv(%a, %b, %x){own, pending}

with `own` the node as it was and %x an input of the graph. What an op has made, as %h, stays as long as it is read
(`buffers.py` knows where). The values are brought to memory where the program leaves, and nowhere else.
"""

from jitgrad.codegen.lower.state import Lowering
from jitgrad.codegen.program.step import Leaving
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import OptionalType, SeqType
from jitgrad.script.graph.ir import Block, Graph, Node, Value, walk


def attach(graph: Graph) -> Graph:
    """`graph` with what is pending known to what may raise."""
    if not any(n.op == "pending" for n in walk(graph.block)):
        return graph
    return Graph(_Attach().block(graph.block, None), graph.name)


class _Attach:
    def __init__(self) -> None:
        self.passing: set[Value] = set()  # values whose memory may be overwritten while they are read
        self.values: dict[Node, tuple[Value, ...]] = {}  # those of them that a `pending` node reads

    def block(self, block: Block, pending: Node | None) -> Block:
        nodes: list[Node] = []
        self.passing.update(block.params)
        for node in block.nodes:
            if node.op == "pending":
                more = pending if node.attrs["more"] else None
                node = Node(node.op, node.inputs, {**node.attrs, "after": more}, (), (), node.span)
                mine = [v for v in node.inputs if v in self.passing]
                self.values[node] = tuple(dict.fromkeys((*(self.values[more] if more is not None else ()), *mine)))
                pending = node
            elif node.blocks:
                blocks = tuple([self.block(b, pending) for b in node.blocks])
                node = Node(node.op, node.inputs, node.attrs, node.outputs, blocks, node.span, node.binds)
                self.passing.update(node.outputs)
            elif pending is not None and (node.op == "check" or node.attrs.get("checked")):
                attrs = {**node.attrs, "own": node, "pending": pending}
                node = Node(node.op, (*node.inputs, *self.values[pending]), attrs, node.outputs, (), node.span,
                            node.binds)
            elif node.op.startswith(("list.", "seq.", "opt.")) or (
                    has_trait(node.op, "affine") and node.inputs[0] in self.passing):
                self.passing.update(node.outputs)
            else:
                self.passing.update(v for v in node.outputs if isinstance(v.type, (SeqType, OptionalType)))
            nodes.append(node)
        return Block(block.params, nodes, block.results, block.binds)


def own(node: Node) -> Node:
    """A node without what is pending at it."""
    found: Node = node.attrs.get("own", node)
    return found


def leaving(state: Lowering, node: Node) -> Leaving | None:
    """What is stored where `node` raises."""
    found = node.attrs.get("pending")
    return state.leaving[found] if found is not None else None
