"""Products of the rows that a loop takes one after another are computed before it, as one.

    %2: f32[B, N] = scan(%n, %h){n_carries=1, reverse=False}:          # %n: the size T
      body(%k: int, %p: f32[B, N]):
        %s: int = dim.bind(%k){symbol=@s} binds s
        %0: f32[B, K] = select(%x){axis=0, index=s}                    # %x: f32[T, B, K]
        %1: f32[B, N] = matmul(%0, %w)

becomes

    %3: f32[T*B, K] = reshape(%x){shape=(T*B, K)}
    %4: f32[T*B, N] = matmul(%3, %w)
    %5: f32[T, B, N] = reshape(%4){shape=(T, B, N)}
    %2: f32[B, N] = scan(%n, %h){n_carries=1, reverse=False}:
      body(%k: int, %p: f32[B, N]):
        %s: int = dim.bind(%k){symbol=@s} binds s
        %1: f32[B, N] = select(%5){axis=0, index=s}

So a recurrent layer multiplies all its inputs by their weights at once: one product that fills the device instead of
many that do not, and a launch less in each iteration. Every number is the same sum, rounded as often. Only where the
loop has as many iterations as there are rows and the weights do not change in it. The products of all rows are in
memory at once, as rows are. Does not handle: rows that are changed before they are multiplied, loops that may end
early.
"""

from jitgrad.dims import Dim, Size, Symbol, product
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Builder, Graph, Node, Value, type_symbols, walk
from jitgrad.script.passes.loops.licm import is_total
from jitgrad.script.passes.rewrite import Rewriter


def products_ahead(graph: Graph) -> Graph:
    """`graph` with products of a loop's rows before the loop; the same graph where there are none."""
    if not any(n.op == "matmul" for loop in walk(graph.block) if loop.op == "scan" for n in loop.blocks[0].nodes):
        return graph
    return _Ahead(graph).run()


class _Ahead(Rewriter):
    """Looks at a loop when its body is complete, as `licm` does."""

    def __init__(self, graph: Graph):
        super().__init__(graph)
        self.hoisted: list[Node] = []

    def leave_block(self, block: Block, owner: Node | None) -> None:
        if owner is None or owner.op != "scan":
            return
        inside = {*block.params, *[v for n in block.nodes for v in n.outputs]}
        bound: set[Symbol] = {*block.binds, *[s for n in block.nodes for s in n.binds]}
        counters = {n.attrs["symbol"] for n in block.nodes if n.op == "dim.bind" and n.inputs[0] is block.params[0]}
        rows = {n.output: n for n in block.nodes if n.op == "select" and n.inputs[0] not in inside
                and _symbol(n.attrs["index"]) in counters}
        count = trips(self, owner)
        for position, node in enumerate(block.nodes):
            if node.op != "matmul" or node.inputs[0] not in rows or node.inputs[1] in inside or not is_total(node):
                continue
            row, weights = rows[node.inputs[0]], node.inputs[1]
            whole, axis = row.inputs[0], row.attrs["axis"]
            dims = dims_of(whole)
            if len(dims) != 3 or len(dims_of(weights)) != 2 or axis == 2 or dims[axis] != count or not (
                    bound.isdisjoint(type_symbols(whole.type)) and bound.isdisjoint(type_symbols(weights.type))):
                continue
            made = self.product(node, whole, weights)
            block.nodes[position] = Node("select", (made,), row.attrs, node.outputs, (), node.span, ())

    def product(self, node: Node, whole: Value, weights: Value) -> Value:
        """The products of all rows."""
        before = Builder(Block())
        before.span = node.span
        *outer, inner = dims_of(whole)
        flat = before.one("reshape", whole, shape=(product(outer), inner))
        found = before.one("reshape", before.one("matmul", flat, weights), shape=(*outer, dims_of(weights)[1]))
        self.hoisted += before.block.nodes
        return found

    def visit(self, node: Node) -> None:
        if node.blocks and self.hoisted:  # the builder is at the block around the loop
            self.builder.block.nodes.extend(self.hoisted)
            self.hoisted = []


def trips(rewriter: Rewriter, loop: Node) -> Size | None:
    """The number of iterations, where it is a size or a number."""
    count = rewriter.source(loop.inputs[0], "dim.value")
    if count is not None:
        size: Size = count.attrs["dim"]
        return size
    number = rewriter.source(loop.inputs[0], "num.const")
    return None if number is None else int(number.attrs["value"])


def dims_of(value: Value) -> tuple[Size, ...]:
    """The sizes of a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.dims


def _symbol(index: Size) -> Symbol | None:
    """The symbol that an index is, None: it is none alone."""
    return index.symbol if isinstance(index, Dim) else None
