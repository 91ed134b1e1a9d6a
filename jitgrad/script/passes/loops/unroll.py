"""Short loops whose number of iterations is known are written out.

    %0: int = num.const(){value=2}
    %1: f32[N] = scan(%0, %x){n_carries=1, reverse=False}:
      body(%k: int, %y: f32[N]):
        %2: f32[N] = mul(%y, %y)
        yield %2

becomes

    %3: f32[N] = mul(%x, %x)
    %4: f32[N] = mul(%3, %3)

So all of it may be one kernel, which keeps in registers what the loop would store for its gradient. A loop whose
sequences only go to others that are written out, as a loop's to that of its gradient, is written out with them: an
element is a value. Only bodies without branches and without products and other ops whose results are stored anyway,
`MOST` nodes in all. Does not handle: carries whose sizes change.
"""

from collections.abc import Sequence

from jitgrad.dims import Size, Symbol, dim, substitute
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import map_dims
from jitgrad.script.graph.ir import Block, Graph, Loop, Node, Value, map_attr, walk
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import constant

#: nodes that a loop may become
MOST = 128


def unroll(graph: Graph) -> Graph:
    """`graph` with short loops written out; the same graph where there are none."""
    return _Unroll(graph).run() if any(n.op == "scan" and is_plain(n) for n in walk(graph.block)) else graph


def is_plain(node: Node) -> bool:
    """Whether a loop's body may be repeated as it is."""
    body = node.blocks[0]
    return not (body.binds or node.binds or len(body.nodes) > MOST
                or any(n.blocks or has_trait(n.op, "stored") for n in body.nodes))


def _is_short(trips: float, body: Block) -> bool:
    return 0 <= trips * max(len(body.nodes), 1) <= MOST


def _linked(graph: Graph) -> dict[Block, int]:
    """The bodies of the loops that make or take sequences, and of which these are known element by element: how often
    each is run.
    """
    constants = {n.output: n.attrs["value"] for n in walk(graph.block) if n.op == "num.const"}
    loops = {n: Loop(n) for n in walk(graph.block) if n.op == "scan" and is_plain(n)}
    loops = {n: loop for n, loop in loops.items()
             if (loop.seqs or loop.y_outputs) and _is_short(constants.get(n.inputs[0], -1), loop.body)}
    makers = {y: n for n, loop in loops.items() for y in loop.y_outputs}
    takers: dict[Value, list[Node | None]] = {y: [] for y in makers}  # None: it leaves a block
    for node in walk(graph.block):
        found = loops.get(node)
        for v in node.inputs if found is None else (node.inputs[0], *found.carries):
            takers.get(v, []).append(None)
        for v in () if found is None else found.seqs:
            takers.get(v, []).append(node)
    for block in (graph.block, *(b for n in walk(graph.block) for b in n.blocks)):
        for v in block.results:
            takers.get(v, []).append(None)

    def trips(node: Node | None) -> int | None:
        return None if node is None or node not in loops else int(constants[node.inputs[0]])

    def is_known(node: Node, loop: Loop) -> bool:
        others = [*map(makers.get, loop.seqs), *(t for y in loop.y_outputs for t in takers[y])]
        return all(trips(other) == trips(node) for other in others)

    while left_out := [n for n, loop in loops.items() if not is_known(n, loop)]:
        for node in left_out:
            del loops[node]
    return {loop.body: int(constants[n.inputs[0]]) for n, loop in loops.items()}


class _Unroll(Rewriter):
    def __init__(self, graph: Graph):
        super().__init__(graph)
        self.linked = _linked(graph)
        self.elements: dict[Value, list[Value]] = {}  # of sequences

    def enter(self, node: Node) -> Sequence[Value] | None:
        if node.op != "scan" or not is_plain(node):
            return None
        loop = Loop(node)
        trips = self.linked.get(loop.body) if loop.seqs or loop.y_outputs else constant(self, node.inputs[0])
        if trips is None or not _is_short(trips, loop.body):
            return None
        carries, made = loop.carries, dict[int, tuple[Value, ...]]()
        order = range(int(trips))
        for k in reversed(order) if node.attrs["reverse"] else order:
            results = self.iteration(loop.body, k, (*carries, *[self.elements[s][k] for s in loop.seqs]))
            carries, made[k] = results[:loop.n], results[loop.n:]
        self.elements.update((y, [made[k][i] for k in order]) for i, y in enumerate(loop.y_outputs))
        return (*carries, *loop.y_outputs)

    def iteration(self, body: Block, k: int, given: Sequence[Value]) -> tuple[Value, ...]:
        """Append one iteration; what its carries are then, and what it adds to sequences."""
        values = dict(self.values)
        counter, *params = body.params
        values.update(zip(params, given, strict=True))
        values[counter] = self.emit("num.const", value=k)
        sizes: dict[Symbol, Size] = dict(self.sizes)

        def resized(size: Size) -> Size:
            return substitute(size, sizes)

        for node in body.nodes:
            if node.op == "dim.bind" and node.inputs[0] is counter:
                sizes[node.attrs["symbol"]] = k
                continue
            fresh = {s: Symbol(s.name, not_one=s.not_one) for s in node.binds}
            sizes.update((old, dim(new)) for old, new in fresh.items())
            attrs = {name: fresh.get(a, a) if isinstance(a, Symbol) else map_attr(a, resized)
                     for name, a in node.attrs.items()}
            outputs = tuple([Value(map_dims(v.type, resized), v.name) for v in node.outputs])
            made = Node(node.op, tuple([values.get(v, v) for v in node.inputs]), attrs, outputs, (), node.span,
                        tuple(fresh.values()))
            self.builder.block.nodes.append(made)
            self.nodes.update((v, made) for v in outputs)
            values.update(zip(node.outputs, outputs, strict=True))
        return tuple([values.get(v, v) for v in body.results])
