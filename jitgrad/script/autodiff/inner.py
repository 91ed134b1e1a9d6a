"""A gradient taken in the middle of a graph that is still being built: `loss.backward()` inside a script.

    %l = ...f(%w)...            %l = ...f(%w)...
    (here)               ->     %g = the adjoint of what stands above

The backward is written where the call stands, so it reads forward values of its own block and of those around it
directly. The path from the outermost block to here is taken as one flat block; loops and branches on the way, which
are complete, gain the results that the backward reads again.
"""

from collections.abc import Sequence, Set

from jitgrad.classes import dataclass
from jitgrad.script.autodiff.cotangents import Cotangent, masked
from jitgrad.script.autodiff.flow import Flow, reachable
from jitgrad.script.autodiff.frame import Context, Frame
from jitgrad.script.autodiff.prepare import expand_nodes
from jitgrad.script.autodiff.reverse import Reverse
from jitgrad.script.graph.ir import Block, Graph, Node, Value, within


@dataclass(slots=True)
class Inner:
    """A gradient that was written.

    Attributes:
        cotangents: for each of `wrt` its cotangent (the value is zero where it is not reached), None if nothing leads
            to it.
        swept: for each block of the path the nodes that a gradient flows through.
        open: parameters of the blocks of the path through which the outputs depend on something differentiably.
        behind: value -> the values that it depends on directly and differentiably.
        varied: values that depend on `sources`, the new ones included.
    """

    cotangents: list[Cotangent | None]
    swept: list[list[Node]]
    open: list[Value]
    behind: dict[Value, list[Value]]
    varied: set[Value]


def gradients(path: Sequence[Block], outputs: Sequence[Value], seeds: Sequence[Value], wrt: Sequence[Value],
              sources: Sequence[Value] = ()) -> Inner:
    """Append to the last block of `path` the gradient of `outputs`, weighted by `seeds`, with respect to `wrt`.

    Args:
        path: the blocks under construction, outermost first; each but the last ends just before the node whose block
            the next one will be. Their nodes are changed in place: composites are expanded, loops and branches gain
            results.
        outputs, seeds, wrt: values that can be read at the end of `path`.
        sources: values whose dependents are asked for.

    Raises:
        NonDifferentiable: a gradient would have to flow through an op that has none.
    """
    for block in path:
        block.nodes[:] = expand_nodes(block.nodes)
    nodes = [n for b in path for n in b.nodes]
    flat = Block(free_values(nodes, (*outputs, *seeds, *wrt)), nodes, tuple(outputs))
    flow = Flow(Graph(flat), wrt, outputs)
    context = Context(flow, frozen=False, thorough=False)
    frame = Frame(context, flat, None)
    reverse = Reverse(context, wrt)
    found = reverse.run(frame, outputs, seeds)
    cotangents: list[Cotangent | None] = []
    with context.builder.into(frame.out):
        for x in wrt:
            c = reverse.targets[x] or found.get(x)
            cotangents.append(None if c is None or c.reached is False else Cotangent(masked(context, c), c.reached))
    frame.finish([v for c in cotangents if c is not None for v in (c.value, c.reached) if isinstance(v, Value)])
    swept = [[n for n in b.nodes if any(v in flow.wanted for v in n.outputs)] for b in path]
    useful = reachable(outputs, flow.backward)
    amended = context.amend.rebuild(flat).nodes
    at = 0
    for block in path:
        block.nodes[:] = amended[at:at + len(block.nodes)]
        at += len(block.nodes)
    assert frame.out is not None
    path[-1].nodes.extend(frame.out.nodes)
    return Inner(cotangents, swept, [p for p in flat.params if p in useful], flow.backward,
                 dependents(path, sources))


def dependents(path: Sequence[Block], sources: Sequence[Value]) -> set[Value]:
    """The values of the blocks under construction that depend on `sources` differentiably, these included."""
    if not sources:
        return set()
    return reachable(sources, flow_of([n for b in path for n in b.nodes], sources).forward)


def dependencies(nodes: Sequence[Node], values: Sequence[Value]) -> dict[Value, list[Value]]:
    """Value -> the values that it depends on directly and differentiably."""
    return flow_of(nodes, values).backward


def flow_of(nodes: Sequence[Node], values: Sequence[Value]) -> Flow:
    """Facts about nodes, and about values that are read beside them."""
    return Flow(Graph(Block(free_values(nodes, values), list(nodes))), (), ())


def upstream(outputs: Sequence[Value], behind: dict[Value, list[Value]], end: Value) -> set[Value]:
    """The values on which `outputs` depend in another way than through `end`."""
    return reachable(outputs, {v: xs for v, xs in behind.items() if v is not end})


def depends_on(block: Block, value: Value, nodes: Set[Value]) -> bool:
    """Whether `value` depends differentiably on one of `nodes`, all of them values of a finished block."""
    flow = Flow(Graph(block), (), ())
    return not nodes.isdisjoint(reachable((value,), flow.backward))


def free_values(nodes: Sequence[Node], more: Sequence[Value]) -> tuple[Value, ...]:
    """The values that nodes read and none of them defines."""
    used, defined = dict.fromkeys(more), set[Value]()
    for node in within(nodes):
        for v in node.inputs:
            used[v] = None
        defined.update(node.outputs)
        for b in node.blocks:
            used.update(dict.fromkeys(b.results))
            defined.update(b.params)
    return tuple(v for v in used if v not in defined)
