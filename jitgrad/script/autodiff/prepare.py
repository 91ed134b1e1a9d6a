"""What happens to a graph before it is differentiated: composites without a rule of their own are expanded, and for a
gradient function the effects are taken out.
"""

from collections.abc import Sequence
from dataclasses import replace

from jitgrad.errors import NonDifferentiable
from jitgrad.ops import OPS
from jitgrad.script.graph.ir import Block, Builder, Graph, Node, rebuilt, rewritten, walk
from jitgrad.script.graph.irops import effect
from jitgrad.script.graph.namespace import GraphNamespace


def expand_composites(graph: Graph) -> Graph:
    """`graph` with every composite that has no vjp written out; the same graph where there is none."""
    return rewritten(graph, _needs_expansion, _expand)


def expand_nodes(nodes: Sequence[Node]) -> list[Node]:
    """`nodes` and those nested in them with composites written out."""
    return expand_composites(Graph(Block(nodes=list(nodes)))).block.nodes


def without_effects(graph: Graph) -> Graph:
    """`graph` without prints, checks and commits, its arithmetic unchecked."""
    if not any(effect(n.op, n.attrs) for n in walk(graph.block)):
        return graph
    return Graph(rebuilt(graph.block, pure), graph.name)


def pure(node: Node) -> list[Node]:
    """The node without its effects: itself, an unchecked one, or nothing."""
    if node.op == "opt.get":  # present: the checks that said so have passed in the forward
        return [replace(node, attrs={**node.attrs, "known": True})]
    if not effect(node.op, node.attrs):
        return [node]
    if node.attrs.get("checked"):
        return [replace(node, attrs={k: a for k, a in node.attrs.items() if k != "checked"})]
    if node.outputs:
        raise NonDifferentiable(f"`{node.op}` has effects, which a gradient of a gradient cannot repeat", node.span)
    return []


def _needs_expansion(node: Node) -> bool:
    row = OPS.get(node.op)
    return row is not None and row.vjp is None and row.compose is not None


def _expand(node: Node) -> list[Node]:
    """The nodes of a composite's expression; the last one has the composite's own output."""
    if not _needs_expansion(node):
        return [node]
    builder = Builder(Block())
    builder.span = node.span
    F = GraphNamespace(builder)
    row = OPS[node.op]
    result = F.expand_composite(row, tuple([F.wrap(v) for v in node.inputs]), dict(node.attrs))
    nodes = builder.block.nodes
    out, v = node.output, result.value
    for at, made in enumerate(nodes):
        if made.outputs == (v,) and not any(v in n.inputs for n in nodes[at + 1:]):
            nodes[at] = replace(made, outputs=(out,))
            break
    else:  # an operand, or a value that the expression reads again: the same tensor under another name
        nodes.append(Node("reshape", (v,), {"shape": v.type.dims}, (out,), (), node.span))
    return [n for new in nodes for n in _expand(new)]
