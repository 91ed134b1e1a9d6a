"""Carries that a loop never changes are read from outside.

    %1: f32[N], %2: f32[N] = scan(%n, %x, %w){n_carries=2, reverse=False}:
      body(%k: int, %p: f32[N], %q: f32[N]):
        %0: f32[N] = mul(%p, %q)
        yield %0, %q

becomes

    %1: f32[N] = scan(%n, %x){n_carries=1, reverse=False}:
      body(%k: int, %p: f32[N]):
        %0: f32[N] = mul(%p, %w)
        yield %0

with `%w` for `%2`. Sizes that only such a carry bound become the sizes of its start. Results of an `if` that are the
same outer value on both sides become that value. Does not handle: carries that change to an equal value.
"""

from collections.abc import Sequence

from jitgrad.dims import Dim
from jitgrad.script.graph.ir import Block, Graph, Loop, Node, Value, sizes_of
from jitgrad.script.passes.rewrite import Rewriter


def invariant(graph: Graph) -> Graph:
    """`graph` with unchanged carries and unchanged results of branches taken from outside."""
    return _Invariant(graph).run() if any(n.blocks for n in graph.block.nodes) else graph


class _Invariant(Rewriter):
    def enter(self, node: Node) -> Node | None:
        """A loop without the carries that it hands on as they are."""
        if node.op == "if":
            return None
        loop, body = Loop(node), node.blocks[0]
        fixed = [i for i in range(loop.n) if loop.carry_results[i] is loop.carry_params[i]]
        if not fixed:
            return None
        starts = [loop.carries[i] for i in fixed]
        self.stand_for([loop.carry_params[i] for i in fixed], starts, body.binds)
        self.stand_for([loop.carry_outputs[i] for i in fixed], starts, node.binds)
        gone = set(fixed)
        params = tuple([p for i, p in enumerate(body.params, -loop.first) if i not in gone])
        results = tuple([r for i, r in enumerate(body.results, -loop.lead) if i not in gone])
        outputs = tuple([v for i, v in enumerate(node.outputs, -loop.lead) if i not in gone])
        inputs = tuple([v for i, v in enumerate(node.inputs, -1) if i not in gone])
        attrs = loop.attrs(loop.n - len(fixed))
        binds = tuple([s for s in body.binds if s not in self.sizes])
        own = tuple([s for s in node.binds if s not in self.sizes])
        return Node(node.op, inputs, attrs, outputs, (Block(params, body.nodes, results, binds),), node.span, own)

    def visit(self, node: Node) -> Sequence[Value] | None:
        """An `if` both of whose sides give the same value for a result."""
        if node.op != "if":
            return None
        then, other = (b.results for b in node.blocks)
        same = {v: a for v, a, b in zip(node.outputs, then, other, strict=True) if a is b and not _binds(node, v)}
        if not same:
            return None
        self.builder.block.nodes.append(node)
        for v in node.outputs:
            self.nodes[v] = node
        return [same.get(v, v) for v in node.outputs]


def _binds(node: Node, value: Value) -> bool:
    """Whether a symbol that the node binds is a size of the value."""
    return bool(node.binds) and any(isinstance(s, Dim) and s.symbol in node.binds for s in sizes_of(value.type))
