"""What a loop computes anew in each iteration from the same values is computed once before it.

    %2: f32[N] = scan(%n, %x){n_carries=1, reverse=False}:
      body(%k: int, %p: f32[N]):
        %0: f32[N] = exp(%w)
        %1: f32[N] = add(%p, %0)
        yield %1

becomes

    %0: f32[N] = exp(%w)
    %2: f32[N] = scan(%n, %x){n_carries=1, reverse=False}:
      body(%k: int, %p: f32[N]):
        %1: f32[N] = add(%p, %0)
        yield %1

Inner loops first, so that a node may leave several. Constants move only with what needs them. Does not handle: nodes
with blocks (a loop may not end), effects, reads that only a condition makes valid (`opt.get`, `seq.get`), and ops with
a precondition (`select` from an axis that may be empty) unless the loop certainly runs and checks nothing before them.
"""

from jitgrad.dims import Dim, Symbol, product
from jitgrad.ops import OPS, Kind
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Graph, Node, Value, attr_symbols, type_symbols
from jitgrad.script.graph.irops import GUARDED, NOTHING, effect
from jitgrad.script.passes.rewrite import Rewriter


def licm(graph: Graph) -> Graph:
    """`graph` with loop-invariant total nodes before their loops."""
    return _Licm(graph).run() if any(n.blocks for n in graph.block.nodes) else graph


class _Licm(Rewriter):
    """Looks at a loop when its body is complete; what leaves goes to the block around it."""

    def __init__(self, graph: Graph):
        super().__init__(graph)
        self.hoisted: list[Node] = []

    def leave_block(self, block: Block, owner: Node | None) -> None:
        if owner is None or owner.op == "if" or not block.nodes:
            return
        local: set[Value] = set(block.params)
        symbols: set[Symbol] = set(block.binds)
        constants: dict[Value, Node] = {}
        leaving: dict[Node, None] = {}
        guarded = not self.runs(owner)  # what follows may rely on a check before it, or on the loop's being entered
        for node in block.nodes:
            if not node.inputs and node.op in ("full", "num.const") and _is_free(node, symbols):
                constants[node.outputs[0]] = node
                continue
            acts = effect(node.op, node.attrs) is not NOTHING
            total = not (acts or node.blocks or node.binds or node.op in GUARDED)
            if total and local.isdisjoint(node.inputs) and _is_free(node, symbols) and (not guarded or is_total(node)):
                for v in node.inputs:
                    if v in constants:
                        leaving[constants[v]] = None
                leaving[node] = None
                continue
            guarded = guarded or acts
            local.update(node.outputs)
            symbols.update(node.binds)
        if leaving:
            block.nodes = [n for n in block.nodes if n not in leaving]
            self.hoisted.extend(leaving)

    def runs(self, loop: Node) -> bool:
        """Whether a loop certainly has an iteration."""
        source = self.source(loop.inputs[0], "num.const")
        return source is not None and source.attrs["value"] >= 1

    def visit(self, node: Node) -> None:
        if node.blocks and self.hoisted:  # the builder is at the block around the loop
            self.builder.block.nodes.extend(self.hoisted)
            self.hoisted = []


def _is_free(node: Node, symbols: set[Symbol]) -> bool:
    """Whether a node's sizes are known before the loop."""
    if not symbols:
        return True
    if any(not symbols.isdisjoint(attr_symbols(a)) for a in node.attrs.values()):
        return False
    return all(symbols.isdisjoint(type_symbols(v.type)) for v in node.outputs)


def is_total(node: Node) -> bool:
    """Whether a node has a meaning on all operands of its types, with no check before it."""
    row = OPS.get(node.op)
    if row is None:
        return True
    if row.kind is Kind.POINTWISE:
        return _agree(node)
    if node.op == "matmul":
        a, b = (v.type for v in node.inputs)
        return (isinstance(a, TensorType) and isinstance(b, TensorType) and a.dims[-1] == b.dims[-2]
                and a.dims[:-2] == b.dims[:-2])
    if node.op in ("expand", "reshape"):
        before, after = node.inputs[0].type, node.outputs[0].type
        assert isinstance(before, TensorType)
        assert isinstance(after, TensorType)
        return _agree(node) if node.op == "expand" else product(before.dims) == product(after.dims)
    return "total" in row.traits


def _agree(node: Node) -> bool:
    """Whether operands certainly broadcast: every size is the result's or the number 1."""
    result = node.outputs[0].type
    assert isinstance(result, TensorType)
    for v in node.inputs:
        assert isinstance(v.type, TensorType)
        tail = result.dims[len(result.dims) - len(v.type.dims) :]
        if any(d != t and (isinstance(d, Dim) or d != 1) for d, t in zip(v.type.dims, tail, strict=True)):
            return False
    return True
