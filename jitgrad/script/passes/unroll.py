"""Short loops whose number of iterations is known are written out.

    %0: int = num.const(){value=2}
    %1: f32[N] = scan(%0, %x){n_carries=1, reverse=False}:
      body(%k: int, %y: f32[N]):
        %2: f32[N] = mul(%y, %y)
        yield %2

becomes

    %3: f32[N] = mul(%x, %x)
    %4: f32[N] = mul(%3, %3)

So all of it may be one kernel, which keeps in registers what the loop would store for its gradient. Only bodies without
branches and without products and other ops whose results are stored anyway, `MOST` nodes in all. Does not handle:
loops over sequences, carries whose sizes change.
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
    loop = Loop(node)
    nodes = loop.body.nodes
    return not (loop.seqs or loop.y_outputs or loop.body.binds or node.binds or node.attrs["reverse"]
                or len(nodes) > MOST or any(n.blocks or has_trait(n.op, "stored") for n in nodes))


class _Unroll(Rewriter):
    def enter(self, node: Node) -> Sequence[Value] | None:
        if node.op != "scan" or not is_plain(node):
            return None
        trips = constant(self, node.inputs[0])
        if trips is None or not 0 <= trips * max(len(node.blocks[0].nodes), 1) <= MOST:
            return None
        carries = node.inputs[1:]
        for k in range(int(trips)):
            carries = self.iteration(node.blocks[0], k, carries)
        return carries

    def iteration(self, body: Block, k: int, carries: Sequence[Value]) -> tuple[Value, ...]:
        """Append one iteration; what its carries are then."""
        values = dict(self.values)
        counter, *params = body.params
        values.update(zip(params, carries, strict=True))
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
