"""What an exception stores: `pending` nodes, and the places where a program may raise.

In the graph such a node holds for all that comes after it in its block, and in the blocks there. Here each node that
may raise gets what is pending at its place as operands, so that all that looks at operands sees that it reads them:

    pending(%h)                              pending(%h)
    check(%c, %n)               becomes      check(%c, %n, %h){own, pending}
    %k = num.floordiv(%a, %b)                %k = num.floordiv(%a, %b, %h){own, pending}

with `own` the node as it was. The values are brought to memory where the program leaves, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitgrad.codegen.program import Leaving
from jitgrad.script.ir import Block, Graph, Node, Value, walk

if TYPE_CHECKING:
    from jitgrad.codegen.lower import Lowering


def attach(graph: Graph) -> Graph:
    """`graph` with what is pending among the operands of what may raise."""
    if not any(n.op == "pending" for n in walk(graph.block)):
        return graph
    return Graph(_attach(graph.block, None, {}), graph.name)


def _attach(block: Block, pending: Node | None, values: dict[Node, tuple[Value, ...]]) -> Block:
    nodes: list[Node] = []
    for node in block.nodes:
        if node.op == "pending":
            more = pending if node.attrs["more"] else None
            node = Node(node.op, node.inputs, {**node.attrs, "after": more}, (), (), node.span)
            values[node] = tuple(dict.fromkeys((*(values[more] if more is not None else ()), *node.inputs)))
            pending = node
        elif node.blocks:
            blocks = tuple([_attach(b, pending, values) for b in node.blocks])
            node = Node(node.op, node.inputs, node.attrs, node.outputs, blocks, node.span, node.binds)
        elif pending is not None and (node.op == "check" or node.attrs.get("checked")):
            node = Node(node.op, (*node.inputs, *values[pending]), {**node.attrs, "own": node, "pending": pending},
                        node.outputs, (), node.span, node.binds)
        nodes.append(node)
    return Block(block.params, nodes, block.results, block.binds)


def own(node: Node) -> Node:
    """A node without what is pending at it."""
    found: Node = node.attrs.get("own", node)
    return found


def pending(state: Lowering, node: Node) -> None:
    """How the values get to memory, to be told where the program leaves."""
    from jitgrad.codegen.lower_effects import passed

    outer, state.steps = state.steps, []
    mark = state.mark()
    values = passed(state, node.inputs)
    before, state.steps = state.steps, outer
    state.release(mark)
    after = node.attrs["after"]
    plain = Node(node.op, node.inputs, {k: a for k, a in node.attrs.items() if k != "after"}, (), (), node.span)
    state.leaving[node] = Leaving(state.site("pending", plain), values, before,
                                  state.leaving[after] if after is not None else None)


def leaving(state: Lowering, node: Node) -> Leaving | None:
    """What is stored where `node` raises."""
    found = node.attrs.get("pending")
    return state.leaving[found] if found is not None else None
