"""Pieces of what is computed element by element are computed of pieces.

    %9: f32[B, 4*N] = add(%8, %bias)                                   # %bias: f32[4*N]
    %0: f32[B, N] = slice(%9){axis=1, start=0, length=N, step=1}
    %1: f32[B, N] = slice(%9){axis=1, start=N, length=N, step=1}
    ...

becomes

    %a: f32[B, N] = slice(%8){axis=1, start=0, length=N, step=1}
    %b: f32[N] = slice(%bias){axis=0, start=0, length=N, step=1}
    %0: f32[B, N] = add(%a, %b)
    ...

so that what is done to the gates of a recurrent cell is one kernel with what made them: kernels are of one size. Only
where nothing else reads the whole, its pieces do not overlap, and all are for more that is done element by element.
"""

import itertools
from collections import Counter
from collections.abc import Sequence

from jitgrad.dims import Size
from jitgrad.ops import OPS, Kind
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Graph, Node, Value, walk
from jitgrad.script.passes.loops.licm import is_total
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import tensor

_POINTWISE = frozenset(op.name for op in OPS.values() if op.kind is Kind.POINTWISE and op.compose is None)


def slices(graph: Graph) -> Graph:
    """`graph` with pieces of pointwise results made of pieces; the same graph where there are none."""
    nodes = list(walk(graph.block))
    if not any(n.op == "slice" for n in nodes):
        return graph
    blocks = [graph.block, *[b for n in nodes for b in n.blocks]]
    uses = Counter(itertools.chain.from_iterable([*[n.inputs for n in nodes], *[b.results for b in blocks]]))
    found = {v: pieces for block in blocks for v, pieces in _cut(block, uses).items()}
    return _Slicing(graph, set(found)).run() if found else graph


def _cut(block: Block, uses: Counter[Value]) -> dict[Value, list[Node]]:
    """Pointwise results of a block that are only read in pieces, for pointwise ops there, and their pieces."""
    readers: dict[Value, list[Node]] = {}
    for node in block.nodes:
        for v in dict.fromkeys(node.inputs):
            readers.setdefault(v, []).append(node)
    found: dict[Value, list[Node]] = {}
    for node in reversed(block.nodes):
        if node.op not in _POINTWISE or not is_total(node):
            continue
        whole = node.output
        own = readers.get(whole, [])
        if len(own) == 1 and not found.keys().isdisjoint(own[0].outputs):  # pieces will be read in its place
            if uses[whole] == 1 and tensor(own[0].output).dims == tensor(whole).dims:
                found[whole] = found[own[0].output]
            continue
        if not own or len(own) != uses[whole] or any(n.op != "slice" for n in own) or not _apart(own):
            continue
        if all(_computed_with(n.output, readers.get(n.output, ()), uses[n.output], block) for n in own):
            found[whole] = own
    return found


def _computed_with(piece: Value, readers: Sequence[Node], uses: int, block: Block) -> bool:
    """Whether all uses of a piece, but as a result, are by pointwise ops of the block, and there are some."""
    own = sum(r.inputs.count(piece) for r in readers)
    return own > 0 and own + block.results.count(piece) == uses and all(r.op in _POINTWISE for r in readers)


def _apart(pieces: Sequence[Node]) -> bool:
    """Whether pieces are of one axis and follow each other."""
    if len({n.attrs["axis"] for n in pieces}) > 1 or any(n.attrs["step"] != 1 for n in pieces):
        return False
    ends: dict[Size, Size] = {n.attrs["start"]: n.attrs["start"] + n.attrs["length"] for n in pieces}
    if len(ends) < len(pieces):
        return False
    followed = set(ends.values()) & set(ends)
    return len(ends) - len(followed) == 1  # all but the first begin where another ends


class _Slicing(Rewriter):
    def __init__(self, graph: Graph, whole: set[Value]):
        super().__init__(graph)
        self.whole = whole

    def visit(self, node: Node) -> Sequence[Value] | None:
        if node.op != "slice" or node.inputs[0] not in self.whole:
            return None
        made, axis = self.nodes[node.inputs[0]], node.attrs["axis"]
        operands = [self.piece(v, tensor(made.output), axis, node) for v in made.inputs]
        return (self.emit(made.op, *operands, **made.attrs),)

    def piece(self, v: Value, whole: TensorType, axis: int, piece: Node) -> Value:
        """What of an operand belongs to a piece of the result."""
        own = axis - len(whole.dims) + len(tensor(v).dims)
        if own < 0 or tensor(v).dims[own] != whole.dims[axis]:
            return v
        return self.emit("slice", v, **{**piece.attrs, "axis": own})
