"""Whether a value requires a gradient, where that is known only at run time.

    %y = if(%c) {%w} {%x}             %y, %r = if(%c) {%w, True} {%x, False}         %w requires a gradient, %x does not

What an op makes of several values requires one if any of them does. Where branches or iterations bring values together
that differ in this, a bool goes the same way: one more result of the branch, one more variable of the loop (or whether
it ran at all). Beside a list goes a list of bools, which is made, filled and read as it is. Values for which the form
of the graph decides cost nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jitgrad.classes import cached_property
from jitgrad.ops.types import BOOL, INT, ListType, Type
from jitgrad.script.autodiff.amend import generic
from jitgrad.script.autodiff.flow import Flow, is_differentiable, reachable
from jitgrad.script.autodiff.inner import flow_of
from jitgrad.script.graph.ir import Block, Builder, Loop, Node, Value, payload, walk

#: True, False, or a bool of the graph; of a list (all of its items, none of them) a list of bools
Answer = bool | Value


def requires_grad(path: Sequence[Block], values: Sequence[Value], root: Callable[[Value], bool],
                  operations: bool = False, flow: Flow | None = None) -> list[Answer]:
    """Whether each of `values` requires a gradient; with `operations`, whether it depends on a root, differentiably.

    Args:
        path: the blocks under construction, outermost first; their nodes may gain results.
        values: what can be read at the end of `path`.
        root: whether a leaf, or a value that no node of `path` makes, requires one; with `operations`, whether what an
            operation makes is a root.
        flow: facts about `path` and `values`, if they are known; they hold as long as all answers are True or False.
    """
    history = _history(path, values, root, operations, flow)
    return [history.answer(v) for v in values]


def certainly(path: Sequence[Block], values: Sequence[Value], root: Callable[[Value], bool]) -> bool:
    """Whether all of `values` require a gradient in any case; they may stand in blocks that ended."""
    must = _history(path, values, root, False, None).must
    return all(v in must for v in values)


def _history(path: Sequence[Block], values: Sequence[Value], root: Callable[[Value], bool], operations: bool,
             flow: Flow | None) -> "_History":
    if flow is None:
        flow = flow_of([n for b in path for n in b.nodes], values)
    return _History(flow, reachable(values, flow.backward), path, root, operations)


class _History:
    """The answers for the values in `behind`."""

    def __init__(self, flow: Flow, behind: set[Value], path: Sequence[Block], root: Callable[[Value], bool],
                 operations: bool):
        self.flow, self.path = flow, path
        self.parts: dict[Value, tuple[Value, ...]] = {}  # result of a branch, or what a loop carries -> what it may be
        self.loops: dict[Value, tuple[Node, int]] = {}  # its parameters and results -> the loop, and which carry it is
        self.sequences: set[Value] = set()  # taken to require a gradient if any element does
        sources = set()
        for v in behind:
            node = flow.producer.get(v)
            if node is None:
                owner = flow.owner.get(flow.home[v])
                if owner is not None and owner.op in ("while", "scan"):
                    self._carried(v, owner)
                elif owner is None and not operations and root(v):
                    sources.add(v)
            elif node.op == "leaf" and len(node.inputs) == 1 and not operations:
                sources.update([v] if root(v) else ())
            elif node.op == "if":
                k = node.outputs.index(v)
                self.parts[v] = tuple(b.results[k] for b in node.blocks)
            elif node.op in ("while", "scan"):
                self._carried(v, node)
            elif operations and root(v):
                sources.add(v)
        self.may = reachable(sources, flow.forward) & behind
        self.must = self._must(sources)
        self.known: dict[Value, Value] = {}

    @cached_property
    def places(self) -> dict[Value, Block]:
        """The blocks that values stand in, for what is added beside them."""
        blocks = [b for outer in self.path for b in (outer, *(c for n in walk(outer) for c in n.blocks))]
        return {v: b for b in blocks for v in (*b.params, *(v for n in b.nodes for v in n.outputs))}

    def _carried(self, v: Value, node: Node) -> None:
        """Note what a loop carries."""
        loop = Loop(node)
        if v in loop.seq_params or v in loop.y_outputs:
            self.sequences.add(v)
        for params in (loop.carry_params, loop.carry_outputs):
            if v in params:
                k = params.index(v)
                self.parts[v] = (loop.carries[k], loop.carry_results[k])
                self.loops[v] = node, k

    def _must(self, sources: set[Value]) -> set[Value]:
        """The values that require a gradient in any case: the largest set in which each is justified."""
        must = set(self.may)
        given = sources | self.sequences
        pending = list(must)
        while pending:
            v = pending.pop()
            if v not in must or v in given:
                continue
            behind: Sequence[Value] = self.parts[v] if v in self.parts else self.flow.backward.get(v, [])
            if v in self.parts or holds_list(v.type):
                stays = all(x in must or self._absent(x) for x in behind)
            else:
                stays = any(x in must for x in behind)
            if not stays:
                must.discard(v)
                pending += [x for x in self.flow.forward.get(v, ()) if x in must]
        return must

    def _absent(self, v: Value) -> bool:
        """Whether a value is None, or a list of nothing."""
        node = self.flow.producer.get(v)
        return node is not None and node.op in ("opt.none", "list.new")

    def answer(self, v: Value) -> Answer:
        if v not in self.may:
            return False
        return True if v in self.must else self._bool(v)

    # --- bools of the graph ------------------------------------------------------------------------------------------

    def _bool(self, v: Value) -> Value:
        found = self.known.get(v)
        if found is None:
            if v in self.loops:
                self._through_loop(v)
            elif v in self.parts:
                self._through_branch(v)
            else:
                self._through_op(v)
            found = self.known[v]
        return found

    def _through_op(self, v: Value) -> None:
        """Of an op's result, right after the op: whether any operand does; of a list what is done to the list."""
        node = self.flow.producer.get(v)
        builder = Builder()
        if holds_list(v.type) and (node is None or not node.op.startswith(("list.", "opt."))):
            self.known[v] = self._filled(builder, v, v in self.may)
        elif node is not None and node.op in ("list.new", "opt.none") and holds_list(v.type):
            self.known[v] = builder.one("list.new", type=twin(v.type))
        elif node is not None and node.op.startswith("list."):
            operands = [self._operand(builder, x) if is_differentiable(x.type) else x for x in node.inputs]
            (self.known[v],) = builder.emit(node.op, operands, types=[twin(v.type)])
        else:
            self.known[v], *others = [self._bool(x) for x in dict.fromkeys(self.flow.backward[v]) if x in self.may]
            for other in others:
                self.known[v] = builder.one("num.or", self.known[v], other)
        if node is None:
            self.places[v].nodes[:0] = builder.block.nodes
            return
        nodes, at = self._maker(v)
        while at + 1 < len(nodes) and nodes[at + 1].op == "num.or":  # what is there for other values
            at += 1
        nodes[at + 1:at + 1] = builder.block.nodes

    def _operand(self, builder: Builder, v: Value) -> Value:
        """What goes with an operand or result; a constant is made here."""
        answer = self.answer(v)
        if isinstance(answer, Value) or holds_list(v.type):
            return self._bool(v)
        return builder.one("num.const", value=answer)

    def _filled(self, builder: Builder, v: Value, answer: bool) -> Value:
        """The answers for the items of a list that was there before, or that an op makes as a whole: one for all."""
        if not isinstance(v.type, ListType):
            return builder.one("num.const", value=answer)
        type_ = twin(v.type)
        elem, fresh = generic(v.type.elem)
        k, total = Value(INT, "k"), Value(type_)
        with builder.into(Block((k, total))) as body:
            (x,) = builder.emit("list.get", (v, k), types=(elem,), binds=fresh)
            body.results = (builder.one("list.put", total, k, self._filled(builder, x, answer)),)
        return builder.emit("scan", [builder.one("list.len", v), builder.one("list.new", type=type_)], blocks=[body],
                            types=[type_], n_carries=1, reverse=False)[0]

    def _maker(self, v: Value) -> tuple[list[Node], int]:
        """The nodes among which one makes v, and its place."""
        nodes = self.places[v].nodes
        return nodes, next(k for k, n in enumerate(nodes) if v in n.outputs)

    def _result(self, block: Block, v: Value) -> Value:
        """The bool of a block's result, in the block."""
        builder = Builder(block)
        return self._operand(builder, v)

    def _through_branch(self, v: Value) -> None:
        node = self.flow.producer[v]
        found = [self._result(block, result) for block, result in zip(node.blocks, self.parts[v], strict=True)]
        for block, result in zip(node.blocks, found, strict=True):  # after all that these have added
            block.results = (*block.results, result)
        made = self.known[v] = Value(twin(v.type))
        self._replace(v, lambda n: replace(n, outputs=(*n.outputs, made)))

    def _through_loop(self, v: Value) -> None:
        node, k = self.loops[v]
        loop, body = Loop(node), node.blocks[0]
        param, out = loop.carry_params[k], loop.carry_outputs[k]
        later = loop.carry_results[k]
        if v is out and loop.carries[k] not in self.may and later in self.must and not holds_list(v.type):
            self.known[out] = self._ran(loop, out)
            return
        self.known[param], self.known[out] = Value(twin(v.type)), Value(twin(v.type))
        builder = Builder()
        initial = self._operand(builder, loop.carries[k])
        nodes, at = self._maker(out)
        nodes[at:at] = builder.block.nodes
        result = self._result(body, loop.carry_results[k])
        now = Loop(self.loops[v][0])  # there may be more carries
        body.params = _with(body.params, now.first + now.n, self.known[param])
        body.results = _with(body.results, now.lead + now.n, result)

        def widened(n: Node) -> Node:
            return replace(n, inputs=_with(n.inputs, 1 + now.n, initial), attrs=now.attrs(now.n + 1),
                           outputs=_with(n.outputs, now.lead + now.n, self.known[out]))

        self._replace(out, widened)

    def _ran(self, loop: Loop, out: Value) -> Value:
        """Whether a loop ran at all: what it makes then requires a gradient, what it begins with does not."""
        zero = Node("num.const", (), {"value": 0}, (Value(INT),))
        some = Node("num.gt", (loop.trips, zero.output), {}, (Value(BOOL),))
        nodes, at = self._maker(out)
        nodes[at + 1:at + 1] = [zero, some]
        return some.output

    def _replace(self, v: Value, change: Callable[[Node], Node]) -> None:
        """Replace the node that makes v, here and where it is known."""
        nodes, at = self._maker(v)
        old, block = nodes[at], self.places[v]
        new = nodes[at] = change(old)
        for x in new.outputs:
            self.flow.producer[x] = new
            self.places[x] = block
        for x, (node, k) in list(self.loops.items()):
            if node is old:
                self.loops[x] = new, k


def holds_list(type_: Type) -> bool:
    """Whether a value of this type is a list, or None."""
    return isinstance(payload(type_), ListType)


def twin(type_: Type) -> Type:
    """The type of the answer for a value: of a list a list, where there may be none too."""
    inner = payload(type_)
    return ListType(twin(inner.elem)) if isinstance(inner, ListType) else BOOL


def _with(values: tuple[Value, ...], at: int, new: Value) -> tuple[Value, ...]:
    return (*values[:at], new, *values[at:])
