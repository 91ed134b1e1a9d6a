"""Zeros to which disjoint slices are added are those slices, one after the other, on devices.

    %z: f32[B, 2*N] = full(){value=0, shape=(B, 2*N), dtype=f32}
    %0: f32[B, 2*N] = slice_add(%z, %a){axis=1, start=N, length=N, step=1}
    %1: f32[B, 2*N] = slice_add(%0, %b){axis=1, start=0, length=N, step=1}

becomes

    %c: f32[B, N] = add(%b, %zero)
    %d: f32[B, N] = add(%a, %zero)
    %1: f32[B, 2*N] = cat(%c, %d){axis=1}

as the gradient of `chunk` is: kernels write parts where they belong, so that nobody fills a matrix with zeros, or reads
it again for each part. Adding zero makes 0 of -0, as before. Only where all of it is covered, and nothing else reads
what is in between.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

from jitgrad.dims import Size
from jitgrad.script.graph.ir import Graph, Node, Value, walk
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import constant, tensor


def parts(graph: Graph) -> Graph:
    """`graph` with sums of disjoint slices as joins; the same graph where there are none."""
    nodes = list(walk(graph.block))
    if not any(n.op == "slice_add" for n in nodes):
        return graph
    blocks = [graph.block, *[b for n in nodes for b in n.blocks]]
    uses = Counter(itertools.chain.from_iterable([*[n.inputs for n in nodes], *[b.results for b in blocks]]))
    return _Parts(graph, uses).run()


class _Parts(Rewriter):
    """Looks at each `slice_add` as the last of a chain."""

    def __init__(self, graph: Graph, uses: Counter[Value]):
        super().__init__(graph)
        self.uses = uses

    def visit(self, node: Node) -> Sequence[Value] | None:
        if node.op != "slice_add":
            return None
        chain = [node]
        while (before := self.source(chain[-1].inputs[0], "slice_add")) is not None:
            if self.uses[before.output] != 1 or before.attrs["axis"] != node.attrs["axis"]:
                return None
            chain.append(before)
        axis, whole = node.attrs["axis"], tensor(node.output)
        if constant(self, chain[-1].inputs[0]) != 0 or any(n.attrs["step"] != 1 for n in chain) or len(chain) < 2:
            return None
        by_start: dict[Size, Node] = {n.attrs["start"]: n for n in chain}
        found: list[Value] = []
        place: Size = 0
        while place != whole.dims[axis]:
            part = by_start.pop(place, None)
            if part is None:
                return None
            found.append(part.inputs[1])
            place = place + part.attrs["length"]
        if by_start or len(found) < len(chain):
            return None
        zero = self.emit("full", value=0, shape=(), dtype=whole.dtype)
        return (self.emit("cat", *[self.emit("add", v, zero) for v in found], axis=axis),)
