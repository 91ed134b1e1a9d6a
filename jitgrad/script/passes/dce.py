"""What no result and no effect needs goes: nodes, and the carries, sequences and results of control flow.

    %0: f32[N] = exp(%x)
    %1: f32[N], %2: f32[N], %3: seq<f32[N]> = scan(%n, %x, %x){n_carries=2, reverse=False}:
      body(%k: int, %p: f32[N], %q: f32[N]):
        %4: f32[N] = mul(%p, %p)
        %5: f32[N] = add(%q, %p)
        yield %4, %5, %q
    return %1

becomes

    %1: f32[N] = scan(%n, %x){n_carries=1, reverse=False}:
      body(%k: int, %p: f32[N]):
        %4: f32[N] = mul(%p, %p)
        yield %4
    return %1

A size in a type or attribute that is needed keeps the value alive that binds its symbol. A graph's inputs stay. Does
not handle: loops that do not end (they go too, as everything total may).
"""

from collections.abc import Container, Sequence

from jitgrad.dims import Dim, Symbol, symbols
from jitgrad.ops.types import OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Block, Graph, Loop, Node, Value, attr_symbols, flows, payload, symbol_axes
from jitgrad.script.graph.irops import NOTHING, effect


def dce(graph: Graph) -> Graph:
    """`graph` without what nothing needs."""
    liveness = _Liveness(graph)
    return Graph(_sweep(graph.block, liveness), graph.name)


def without_outputs(graph: Graph, gone: Container[int]) -> Graph:
    """`graph` without some of its outputs, and without what only they need."""
    kept = [v for i, v in enumerate(graph.outputs) if i not in gone]
    if len(kept) == len(graph.outputs):
        return graph
    block = graph.block
    return dce(Graph(Block(block.params, block.nodes, tuple(kept), block.binds), graph.name))


class _Liveness:
    """Marks live values and nodes, from the graph's results and the effects backwards."""

    def __init__(self, graph: Graph):
        self.values: set[Value] = set()
        self.nodes: set[Node] = set()
        self.symbols: set[Symbol] = set()
        self.owner: dict[Value, Node] = {}  # of an output, and of a parameter of a block
        self.sources: dict[Value, list[Value]] = {}  # what becomes a value where blocks begin and end
        self.binder: dict[Symbol, list[Value]] = {}  # values in whose type a symbol stands alone, where it is bound
        self.around: dict[Node, Node] = {}  # the structural node in whose block a node is
        self.work: list[Value] = []
        roots = self.index(graph.block)
        self.need_all(graph.block.results)
        for node in roots:
            self.need_node(node)
        while self.work:
            self.trace(self.work.pop())

    def index(self, block: Block) -> list[Node]:
        """Note who defines and binds what; the nodes with effects."""
        roots: list[Node] = []
        stack: list[tuple[Block, Node | None]] = [(block, None)]
        self.bind(block.binds, block.params)
        raising: dict[Node, bool] = {}
        while stack:
            block, owner = stack.pop()
            idle = _idle(block, raising)
            for node in block.nodes:
                if owner is not None:
                    self.around[node] = owner
                for v in node.outputs:
                    self.owner[v] = node
                if node.binds:
                    self.bind(node.binds, node.outputs)
                if effect(node.op, node.attrs) is not NOTHING and node not in idle:
                    roots.append(node)
                for source, target in flows(node) if node.blocks else ():
                    self.sources.setdefault(target, []).append(source)
                for inner in node.blocks:
                    for p in inner.params:
                        self.owner[p] = node
                    self.bind(inner.binds, inner.params)
                    stack.append((inner, node))
        return roots

    def bind(self, binds: Sequence[Symbol], values: Sequence[Value]) -> None:
        alone: dict[Symbol, list[Value]] = {symbol: [] for symbol in binds}
        for v in values:
            for _, symbol in symbol_axes(payload(v.type)):
                if symbol in alone:
                    alone[symbol].append(v)
        for symbol, found in alone.items():
            # what may be absent binds nothing then
            found = [v for v in found if not isinstance(v.type, OptionalType)] or found
            self.binder[symbol] = found or list(values)  # dim.bind: its number

    # --- needs ---

    def need(self, value: Value) -> None:
        if value not in self.values:
            self.values.add(value)
            self.work.append(value)

    def need_all(self, values: Sequence[Value]) -> None:
        for v in values:
            self.need(v)

    def need_symbols(self, found: frozenset[Symbol]) -> None:
        if found <= self.symbols:
            return
        for symbol in sorted(found - self.symbols, key=lambda s: s.number):  # who binds may depend on the order
            self.symbols.add(symbol)
            candidates = self.binder.get(symbol)
            if candidates and not any(v in self.values for v in candidates):
                self.need(candidates[0])

    def need_type(self, type_: Type) -> None:
        while isinstance(type_, (SeqType, OptionalType)):
            type_ = type_.elem
        if isinstance(type_, TensorType):
            for size in type_.dims:
                if isinstance(size, Dim):
                    self.need_symbols(symbols(size))

    def need_node(self, node: Node) -> None:
        """A node must run, whichever of its outputs are needed; so must those around it."""
        pending: Node | None = node
        while pending is not None and pending not in self.nodes:
            self.nodes.add(pending)
            for a in pending.attrs.values():
                if a.__class__ is Dim or a.__class__ is tuple:
                    self.need_symbols(attr_symbols(a))
            if pending.op == "opt.none":
                self.need_type(pending.attrs["type"])
            if not pending.blocks:
                self.need_all(pending.inputs)
            else:
                self.need(pending.inputs[0])
                if pending.op == "while":
                    self.need(pending.blocks[0].results[0])
            pending = self.around.get(pending)

    def trace(self, value: Value) -> None:
        """What a live value needs."""
        self.need_type(value.type)
        if value in self.owner:
            self.need_node(self.owner[value])
            self.need_all(self.sources.get(value, ()))


def _bound(binds: Sequence[Symbol], values: Sequence[Value]) -> tuple[Symbol, ...]:
    """Those of some symbols that still stand alone in the type of a value."""
    if not binds:
        return ()
    alone = {symbol for v in values for _, symbol in symbol_axes(payload(v.type))}
    return tuple([s for s in binds if s in alone])


def _idle(block: Block, raising: dict[Node, bool]) -> set[Node]:
    """The `pending` nodes of a block after which, before the next one, nothing raises. `raising`: see `_raises`."""
    found: set[Node] = set()
    if any(node.op == "pending" for node in block.nodes):
        needed = False
        for node in reversed(block.nodes):
            if node.op != "pending":
                needed = needed or _raises(node, raising)
            elif not needed:
                found.add(node)
            else:
                needed = node.attrs["more"]
    return found


def _raises(node: Node, known: dict[Node, bool]) -> bool:
    """Whether a node or one inside it raises on its own; `known` keeps the answers."""
    if node not in known:
        known[node] = node.op == "check" or bool(node.attrs.get("checked")) or any(
            _raises(n, known) for b in node.blocks for n in b.nodes)
    return known[node]


# --- rebuilding ----------------------------------------------------------------------------------------------------


def _sweep(root: Block, live: _Liveness) -> Block:
    """The live part of a block; nested blocks by an explicit stack."""
    new_root = Block(root.params, [], root.results, root.binds)
    stack = [(root, new_root)]
    while stack:
        old, new = stack.pop()
        nodes = new.nodes
        for node in old.nodes:
            if node not in live.nodes:
                continue
            if node.blocks:
                node, pairs = _trim(node, live)
                stack.extend(pairs)
            nodes.append(node)
    return new_root


def _trim(node: Node, live: _Liveness) -> tuple[Node, list[tuple[Block, Block]]]:
    """A structural node with its live outputs, carries and sequences; (old, new) blocks, the new ones still empty."""
    values = live.values
    attrs = node.attrs
    outputs = node.outputs
    if node.op == "if":
        keep = [i for i, v in enumerate(outputs) if v in values]
        blocks = [Block((), [], tuple([b.results[i] for i in keep]), ()) for b in node.blocks]
        inputs = node.inputs
    else:
        loop, body = Loop(node), node.blocks[0]
        carries = [i for i in range(loop.n) if loop.carry_params[i] in values or loop.carry_outputs[i] in values]
        xs = [i for i, p in enumerate(loop.seq_params, loop.n) if p in values]
        ys = [i for i, v in enumerate(loop.y_outputs, loop.n) if v in values]
        inputs = (node.inputs[0], *[node.inputs[i + 1] for i in (*carries, *xs)])
        params = (*body.params[:loop.first], *[body.params[i + loop.first] for i in (*carries, *xs)])
        keep = [*range(loop.lead), *[i + loop.lead for i in (*carries, *ys)]]
        attrs = loop.attrs(len(carries))
        blocks = [Block(params, [], tuple([body.results[i] for i in keep]), _bound(body.binds, params))]
    kept = tuple([outputs[i] for i in keep])
    binds = _bound(node.binds, kept)
    new = Node(node.op, inputs, attrs, kept, tuple(blocks), node.span, binds)
    return new, list(zip(node.blocks, blocks, strict=True))
