"""Products that a loop adds up are computed behind it, as one.

    %2: f32[M, N] = scan(%n, %w, ...){n_carries=1, reverse=True}:      # %n: the size T
      body(%k: int, %p: f32[M, N], ...):
        %0: f32[M, R] = permute(%a){axes=(1, 0)}                       # %a: f32[R, M], %b: f32[R, N]
        %1: f32[M, N] = matmul(%0, %b)
        %3: f32[M, N] = add(%p, %1)

becomes

    %4: f32[T, R, M], %5: f32[T, R, N] = scan(%n, %zeros, %zeros_1, ...){n_carries=2, reverse=True}:
      body(%k: int, %q: f32[T, R, M], %r: f32[T, R, N], ...):
        %s: int = dim.bind(%k){symbol=@s} binds s
        %6: f32[T, R, M] = select_scatter(%q, %a){axis=0, index=s}
        %7: f32[T, R, N] = select_scatter(%r, %b){axis=0, index=s}
    %8: f32[M, T*R] = permute(reshape(%4)){axes=(1, 0)}
    %2: f32[M, N] = add(%w, matmul(%8, reshape(%5)))

So the gradient of a recurrent layer's weights is one product, which all cores share, and not a sum of small ones. What
is a row of a tensor already stays there. Only where the number of iterations is a size, and the sum is nobody else's.
Does not handle: loops that may end early, products of other ranks.
"""

from collections import Counter
from collections.abc import Sequence

from jitgrad.classes import dataclass
from jitgrad.dims import Size, Symbol, dim, product
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Graph, Loop, Node, Value, type_symbols, walk
from jitgrad.script.passes.loops.ahead import dims_of, trips
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules.rules import constant


def products_behind(graph: Graph) -> Graph:
    """`graph` with products that a loop adds up behind the loop; the same graph where there are none."""
    if not any(n.op == "matmul" for loop in walk(graph.block) if loop.op == "scan" for n in loop.blocks[0].nodes):
        return graph
    return _Behind(graph).run()


@dataclass(slots=True)
class _Sum:
    """A carry to which each iteration adds transposed(a) @ b, which `node` makes."""

    number: int
    node: Node
    a: Value
    b: Value


class _Behind(Rewriter):
    def visit(self, node: Node) -> Sequence[Value] | None:
        if node.op != "scan":
            return None
        count, loop = trips(self, node), Loop(node)
        sums = _sums(loop) if count is not None else []
        if count is None or not sums:
            return None
        return _Moved(self, loop, count).outputs(sums)


def _sums(loop: Loop) -> list[_Sum]:
    """What a loop adds up that way."""
    body = loop.body
    makers = {v: n for n in body.nodes for v in n.outputs}
    uses = Counter(v for n in walk(body) for v in n.inputs) + Counter(
        v for b in (body, *(b for n in walk(body) for b in n.blocks)) for v in b.results)
    bound = {*body.binds, *[s for n in body.nodes for s in n.binds]}
    found = []
    for number, (param, result) in enumerate(zip(loop.carry_params, loop.carry_results, strict=True)):
        add = makers.get(result)
        if add is None or add.op != "add" or param not in add.inputs or uses[param] != 1 or uses[result] != 1:
            continue
        made = makers.get(add.inputs[add.inputs[0] is param])
        if made is None or made.op != "matmul" or uses[made.output] != 1 or made.output.type != param.type:
            continue
        left, b = made.inputs
        turned = makers.get(left)
        if turned is None or turned.op != "permute" or turned.attrs["axes"] != (1, 0):
            continue
        (a,) = turned.inputs
        if all(isinstance(v.type, TensorType) and v.type.ndim == 2 and bound.isdisjoint(type_symbols(v.type))
               for v in (a, b)):
            found.append(_Sum(number, made, a, b))
    return found


class _Moved:
    """A loop of so many iterations that keeps the factors of its sums, and the products behind it."""

    def __init__(self, rewriter: _Behind, loop: Loop, count: Size):
        self.rewriter, self.loop, self.count = rewriter, loop, count
        self.builder = rewriter.builder
        self.nodes = list(loop.body.nodes)
        self.makers = {v: n for n in self.nodes for v in n.outputs}
        self.index = self._index()
        self.starts: list[Value] = []  # the memory of factors, where it begins, in the body, and where it ends
        self.params: list[Value] = []
        self.results: list[Value] = []
        self.kept: dict[Value, Value] = {}  # factor -> all of it, one behind the other

    def _index(self) -> Size:
        """The counter as a size."""
        for node in self.nodes:
            if node.op == "dim.bind" and node.inputs[0] is self.loop.counter:
                return dim(node.attrs["symbol"])
        symbol = Symbol("k")
        assert self.loop.counter is not None
        with self.builder.into(Block()) as block:
            self.builder.emit("dim.bind", (self.loop.counter,), binds=(symbol,), symbol=symbol)
        self.nodes[:0] = block.nodes
        return dim(symbol)

    def outputs(self, sums: Sequence[_Sum]) -> list[Value]:
        """What stands for the loop's outputs, of nodes that are appended here."""
        builder, loop, node, around = self.builder, self.loop, self.loop.node, self.builder.block
        factors = [(self.keep(s.a), self.keep(s.b)) for s in sums]
        results = list(loop.carry_results)
        for s in sums:
            results[s.number] = loop.carry_params[s.number]
        body = Block((*loop.body.params[:1 + loop.n], *self.params, *loop.seq_params), self.nodes,
                     (*results, *self.results, *loop.y_results), loop.body.binds)
        ends = {p: Value(p.type) for p in self.params}
        moved = Node(node.op, (node.inputs[0], *loop.carries, *self.starts, *loop.seqs),
                     loop.attrs(loop.n + len(self.params)), (*loop.carry_outputs, *ends.values(), *loop.y_outputs),
                     (body,), node.span, node.binds)
        around.nodes.append(moved)
        found = list(node.outputs)
        for s, (a, b) in zip(sums, factors, strict=True):
            builder.span = s.node.span
            a, b = (self._flat(ends.get(v, v)) for v in (a, b))
            total = builder.one("matmul", builder.one("permute", a, axes=(1, 0)), b)
            start = loop.carries[s.number]
            found[s.number] = total if constant(self.rewriter, start) == 0 else builder.one("add", start, total)
        return found

    def keep(self, factor: Value) -> Value:
        """All of what a factor is in the iterations: the tensor of which it is a row, or a parameter that keeps it."""
        if factor in self.kept:
            return self.kept[factor]
        row = self.makers.get(factor)
        if row is not None and row.op == "select" and row.attrs["axis"] == 0 and row.attrs["index"] == self.index:
            (whole,) = row.inputs
            if whole not in self.makers and whole not in self.loop.body.params and dims_of(whole)[0] == self.count:
                self.kept[factor] = whole
                return whole
        assert isinstance(factor.type, TensorType)
        shape = (self.count, *factor.type.dims)
        self.starts.append(self.builder.one("full", value=0, shape=shape, dtype=factor.type.dtype))
        param = self.kept[factor] = Value(TensorType(factor.type.dtype, shape))
        self.params.append(param)
        with self.builder.into(Block()) as block:
            self.results.append(self.builder.one("select_scatter", param, factor, axis=0, index=self.index))
        self.nodes += block.nodes
        return param

    def _flat(self, whole: Value) -> Value:
        """The rows of all iterations."""
        *outer, inner = dims_of(whole)
        return self.builder.one("reshape", whole, shape=(product(outer), inner))
