"""Where values live and which of them a gradient may flow through: one walk over a graph, then two searches.

The searches run over one flat graph of values in which a loop is a cycle (result -> parameter), so the fixpoint over
nested loops costs one linear pass.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad.dims import Symbol
from jitgrad.ops import NONDIFF, OPS
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.saved import saved
from jitgrad.ops.types import OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Block, Graph, Node, Value, flows, symbol_axes

#: ops outside the table through which a gradient flows
_PASSING = frozenset({"opt.some", "opt.get", "seq.get", "list.put", "list.get", "list.take"})


def is_differentiable(type_: Type) -> bool:
    """Whether a value of this type can have a cotangent: floating tensors, also inside Optional and Seq.

    Python numbers have none: `.item()` cuts the graph in eager too.
    """
    while isinstance(type_, (OptionalType, SeqType)):
        type_ = type_.elem
    return isinstance(type_, TensorType) and type_.dtype.is_floating_point


class Flow:
    """Facts about a graph.

    Attributes:
        home: the block that defines a value.
        producer: the node that makes a value (parameters have none).
        position: a node's place in its block.
        owner: the structural node that a nested block belongs to.
        bound: the symbols that a block and the nodes directly in it bind.
        captures: for a structural node, the values from outside that its blocks read.
        wanted: values that depend on `wrt` and on which `outputs` depend.
        maybe: symbols that only Optionals bind; they have a value where the payload is there.
        forward, backward: value -> the values that depend on it directly and differentiably; the same, turned round.
    """

    def __init__(self, graph: Graph, wrt: Iterable[Value], outputs: Iterable[Value]):
        self.home: dict[Value, Block] = {}
        self.producer: dict[Value, Node] = {}
        self.position: dict[Node, int] = {}
        self.owner: dict[Block, Node] = {}
        self.parent: dict[Block, Block] = {}
        self.bound: dict[Block, tuple[Symbol, ...]] = {}
        self.captures: dict[Node, dict[Value, None]] = {}
        self.maybe: set[Symbol] = set()
        self.forward: dict[Value, list[Value]] = {}
        self.backward: dict[Value, list[Value]] = {}
        self._visit_all(graph.block)
        varied = reachable(wrt, self.forward)
        useful = reachable(outputs, self.backward)
        self.wanted = varied & useful

    def extend(self, block: Block, around: Block) -> None:
        """Take note of a block of new code, which stands in `around`."""
        self.owner[block] = pseudo = Node("region", (), {}, (), (block,))
        self.captures[pseudo] = {}
        self.parent[block] = around
        self._visit_all(block)

    def _visit_all(self, block: Block) -> None:
        pending = [block]
        for b in pending:  # outer blocks before inner ones, so that captures are already known
            self._visit(b, pending)

    def _visit(self, block: Block, pending: list[Block]) -> None:
        home, producer = self.home, self.producer
        for p in block.params:
            home[p] = block
        binds = list(block.binds)
        self._note_maybe(block.binds, block.params)
        for at, node in enumerate(block.nodes):
            self.position[node] = at
            for v in node.outputs:
                home[v], producer[v] = block, node
            for v in node.inputs:
                if home[v] is not block:
                    self._uses(block, (v,))
            if node.binds:
                binds.extend(node.binds)
                self._note_maybe(node.binds, node.outputs)
            if node.blocks:
                self.captures[node] = {}
                for b in node.blocks:
                    self.owner[b], self.parent[b] = node, block
                pending.extend(node.blocks)
                for source, target in flows(node):
                    self._edge(source, target)
            else:
                self._edges(node)
        self._uses(block, block.results)
        self.bound[block] = tuple(binds)

    def _note_maybe(self, binds: Sequence[Symbol], values: Sequence[Value]) -> None:
        if any(isinstance(v.type, OptionalType) for v in values):
            plain = {symbol for v in values for _, symbol in symbol_axes(v.type)}
            self.maybe.update(s for s in binds if s not in plain)

    def _uses(self, block: Block, values: Sequence[Value]) -> None:
        for v in values:
            defining, reader = self.home[v], block
            while defining is not reader and reader in self.owner:
                captures = self.captures[self.owner[reader]]
                if v in captures:
                    break  # then the blocks further out have it too
                captures[v] = None
                reader = self.parent[reader]

    def _edges(self, node: Node) -> None:
        """A plain node: from each differentiable operand to each differentiable result."""
        call: Any = node.attrs.get("call")
        sources, targets = node.inputs, node.outputs
        if node.op == "callback":
            sources = tuple([node.inputs[i] for i in call.recorded])
        elif node.op == "custom":  # written by hand: from what it reaches to the results that have a gradient
            sources = tuple([node.inputs[call.results + k] for k in call.reaches])
            targets = tuple([node.outputs[i] for i in call.differentiable])
        elif node.op == "leaf":
            sources = node.inputs[1:]
        elif (node.op not in _PASSING) if (op := OPS.get(node.op)) is None else op.vjp is NONDIFF:
            return
        passing = [x for x in sources if is_differentiable(x.type)]
        for v in targets:
            if passing and is_differentiable(v.type):
                self.backward.setdefault(v, []).extend(passing)
                for x in passing:
                    self.forward.setdefault(x, []).append(v)

    def _edge(self, source: Value, target: Value) -> None:
        if is_differentiable(source.type) and is_differentiable(target.type):
            self.forward.setdefault(source, []).append(target)
            self.backward.setdefault(target, []).append(source)


def histories(graph: Graph, outputs: Sequence[Value]) -> tuple[int, ...]:
    """Per output a number, equal for outputs that share history: a gradient of one frees the other's. Views keep
    nothing, so to share one is to share no history. () where all outputs share theirs."""
    flow = Flow(graph, (), ())
    first: dict[Value, int] = {}
    numbers = list(range(len(outputs)))
    for k, output in enumerate(outputs):
        for v in reachable((output,), flow.backward):
            node = flow.producer.get(v)
            if node is not None and not has_trait(node.op, "view"):
                other, mine = numbers[first.setdefault(v, k)], numbers[k]
                numbers = [other if n == mine else n for n in numbers]
    return tuple(numbers) if len(set(numbers)) > 1 else ()


def reachable(start: Iterable[Value], edges: dict[Value, list[Value]]) -> set[Value]:
    """The differentiable values to which `edges` lead from `start`, itself included."""
    found = {v for v in start if is_differentiable(v.type)}
    pending = list(found)
    while pending:
        for v in edges.get(pending.pop(), ()):
            if v not in found:
                found.add(v)
                pending.append(v)
    return found


# --- what eager keeps ---


def kept_alike(graph: Graph) -> list[int]:
    """The outputs of which eager's tape keeps the memory as well, so that a derivative may read them where they are.

    `y = softmax(x); return y`: softmax's derivative reads y. `return exp(x).clone()` gives another tensor, though the
    program makes one array. So this looks at a graph before anything is simplified: for rows that read what they make,
    or take.
    """
    makers: dict[Value, Node] = {v: n for n in graph.block.nodes for v in n.outputs}
    takers: dict[Value, list[Node]] = {}
    for node in graph.block.nodes:
        for v in dict.fromkeys(node.inputs):
            takers.setdefault(v, []).append(node)
    return [i for i, v in enumerate(graph.outputs) if isinstance(v.type, TensorType) and (
        (v in makers and _reads_result(makers[v], v)) or any(_reads_operand(n, v) for n in takers.get(v, ())))]


def _reads_result(node: Node, value: Value) -> bool:
    op = OPS.get(node.op)
    return op is not None and op.vjp is not None and saved(op).ys[node.outputs.index(value):][:1] == (True,)


def _reads_operand(node: Node, value: Value) -> bool:
    op = OPS.get(node.op)
    if op is None or op.arity is None or len(node.inputs) != op.arity:
        return False
    return any(reads and v is value for reads, v in zip(saved(op).xs, node.inputs, strict=True))
