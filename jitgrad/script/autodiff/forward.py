"""Forward mode: a graph that computes tangents beside its values, in one pass and with nothing saved.

    f(x) = sin(x)      tangent_function(graph, (0,), (0,)):   x, dx -> sin(x), dx * cos(x)

There is one table of derivatives, of vjps; the rules here turn a vjp round. A vjp is linear in its cotangent, so:

- a pointwise op has a diagonal Jacobian, its own transpose: the vjp applied to the tangent is the pushforward;
- another op that is linear in all its operands (its vjp reads no values) is applied to the tangents themselves;
- any other vjp is written out for a placeholder g and differentiated with respect to g, with the tangents as
  cotangents. That gradient does not depend on g, so the placeholder dies, and nothing is left at run time but J v.

Branches and loops carry the tangents of what they carry. Values that do not depend on `wrt`, or on which no wanted
output depends, have none. A tangent has its value's type: of an Optional it is there where the value is.
"""

from collections.abc import Sequence
from typing import Any

from jitgrad.errors import NonDifferentiable
from jitgrad.ops import NONDIFF, OPS
from jitgrad.ops.opdef import POINTWISE, OpDef
from jitgrad.ops.rules import partial_vjp
from jitgrad.ops.saved import saved
from jitgrad.ops.types import INT, ListType, OptionalType, SeqType, TensorType
from jitgrad.script.autodiff.amend import generic
from jitgrad.script.autodiff.flow import Flow, is_differentiable
from jitgrad.script.autodiff.frame import Context, Frame
from jitgrad.script.autodiff.prepare import expand_composites
from jitgrad.script.graph.ir import Block, Builder, Graph, Loop, Node, Value, within
from jitgrad.script.graph.namespace import GraphNamespace


def tangent_function(graph: Graph, wrt: Sequence[int], outputs: Sequence[int]) -> Graph:
    """The graph's inputs, then a tangent for each of `wrt` -> its outputs, then the tangent of each of `outputs`.

    Effects happen as in the graph. A tangent that is zero for certain is returned as zeros.

    Raises:
        NonDifferentiable: with the place in the user's source, where a tangent would have to pass an op without a
            derivative.
    """
    graph = expand_composites(graph)
    wanted = Flow(graph, [graph.inputs[i] for i in wrt], [graph.outputs[i] for i in outputs]).wanted
    forward = Forward(wanted)
    params = [Value(graph.inputs[i].type, f"d_{graph.inputs[i].name}") for i in wrt]
    forward.tangents.update((graph.inputs[i], p) for i, p in zip(wrt, params, strict=True))
    block = forward.block(graph.block)
    with forward.builder.into(block):
        tangents = [forward.fetch(graph.outputs[i]) for i in outputs]
    block.params = (*block.params, *params)
    block.results = (*block.results, *tangents)
    return Graph(block, f"{graph.name}_tangent")


class Forward:
    """A pass under way. `tangents` maps values to their tangents; what is not in it has a tangent of zero."""

    def __init__(self, wanted: set[Value]):
        self.wanted = wanted
        self.builder = Builder()
        self.F = GraphNamespace(self.builder)
        self.tangents: dict[Value, Value] = {}

    def block(self, block: Block) -> Block:
        """A copy of `block`, its values the same, that computes tangents as well; results as they were."""
        new = Block(block.params, [], block.results, block.binds)
        with self.builder.into(new):
            for node in block.nodes:
                self.builder.span = node.span
                if not any(v in self.wanted for v in node.outputs):
                    new.nodes.append(node)
                elif node.op == "if":
                    self.branches(node)
                elif node.blocks:
                    self.loop(node)
                else:
                    new.nodes.append(node)
                    self.plain(node)
        return new

    def fetch(self, v: Value) -> Value:
        """The tangent of `v`, made where it is zero."""
        found = self.tangents.get(v)
        return self.zero(v) if found is None else found

    def zero(self, v: Value) -> Value:
        """A tangent of zero for `v`."""
        builder, type_ = self.builder, v.type
        if isinstance(type_, TensorType):
            return self.F.constant(0, type_.dims, type_.dtype).value
        if isinstance(type_, OptionalType):
            with builder.into(Block()) as some:
                some.results = (builder.one("opt.some", self.zero(builder.one("opt.get", v, known=True))),)
            return builder.emit("if", [builder.one("opt.has", v)], blocks=[some, Block(results=(v,))],
                                types=[type_])[0]
        if isinstance(type_, ListType):
            return self.zeros(v, type_)
        assert isinstance(type_, SeqType)
        elem, binds = generic(type_.elem)
        x = Value(elem)
        with builder.into(Block((Value(INT, "k"), x), binds=binds)) as body:
            body.results = (self.zero(x),)
        return builder.emit("scan", [builder.one("seq.len", v), v], blocks=[body], types=[type_], n_carries=0,
                            reverse=False)[0]

    def zeros(self, v: Value, type_: ListType) -> Value:
        """A tangent of zero for every element of a list."""
        builder = self.builder
        elem, fresh = generic(type_.elem)
        k, total = Value(INT, "k"), Value(type_)
        with builder.into(Block((k, total))) as body:
            (x,) = builder.emit("list.get", (v, k), types=(elem,), binds=fresh)
            body.results = builder.emit("list.put", (total, k, self.zero(x)), types=(type_,))
        return builder.emit("scan", [builder.one("list.len", v), builder.one("list.new", type=type_)], blocks=[body],
                            types=[type_], n_carries=1, reverse=False)[0]

    def like(self, t: Value, v: Value) -> Value:
        """`t`, which may still have to be repeated, with the type of `v`."""
        if isinstance(v.type, TensorType) and t.type != v.type:
            return self.builder.one("expand", t, shape=v.type.dims)
        return t

    # --- structure ---

    def branches(self, node: Node) -> None:
        """An `if`: each branch computes the tangents of its results."""
        moving = [i for i, v in enumerate(node.outputs) if v in self.wanted]
        blocks = []
        for block in node.blocks:
            new = self.block(block)
            with self.builder.into(new):
                extra = [self.like(self.fetch(block.results[i]), block.results[i]) for i in moving]
            new.results = (*new.results, *extra)
            blocks.append(new)
        self.emit(node, node.inputs, blocks, node.attrs, node.outputs, [node.outputs[i] for i in moving], ())

    def loop(self, node: Node) -> None:
        """A `while` or `scan`: carries, elements and results, each with its tangent beside it."""
        parts = Loop(node)
        carries = [i for i, p in enumerate(parts.carry_params) if p in self.wanted]
        seqs = [i for i, p in enumerate(parts.seq_params) if p in self.wanted]
        ys = [i for i, v in enumerate(parts.y_outputs) if v in self.wanted]
        starts = [self.like(self.fetch(parts.carries[i]), parts.carries[i]) for i in carries]
        elements = [self.fetch(parts.seqs[i]) for i in seqs]
        carry_params = [self.param(parts.carry_params[i]) for i in carries]
        seq_params = [self.param(parts.seq_params[i]) for i in seqs]
        body = self.block(parts.body)
        with self.builder.into(body):
            moved = [self.like(self.fetch(r), r) for r in (parts.carry_results[i] for i in carries)]
            made = [self.like(self.fetch(r), r) for r in (parts.y_results[i] for i in ys)]
        body.params = (*body.params[:parts.first], *parts.carry_params, *carry_params, *parts.seq_params, *seq_params)
        body.results = (*body.results[:parts.lead], *parts.carry_results, *moved, *parts.y_results, *made)
        inputs = (node.inputs[0], *parts.carries, *starts, *parts.seqs, *elements)
        attrs = parts.attrs(parts.n + len(carries))
        self.emit(node, inputs, [body], attrs, (*node.outputs[:parts.lead], *parts.carry_outputs),
                  [parts.carry_outputs[i] for i in carries], parts.y_outputs, [parts.y_outputs[i] for i in ys])

    def param(self, p: Value) -> Value:
        """A parameter for the tangent of one."""
        t = self.tangents[p] = Value(p.type, f"d_{p.name}" if p.name else "")
        return t

    def emit(self, node: Node, inputs: Sequence[Value], blocks: Sequence[Block], attrs: Any, before: Sequence[Value],
             moving: Sequence[Value], after: Sequence[Value], made: Sequence[Value] = ()) -> None:
        """Append a structural node; outputs: `before`, tangents of `moving`, `after`, tangents of `made`."""
        tangents = [self.param(v) for v in (*moving, *made)]
        outputs = (*before, *tangents[: len(moving)], *after, *tangents[len(moving):])
        self.builder.block.nodes.append(
            Node(node.op, tuple(inputs), attrs, outputs, tuple(blocks), node.span, node.binds))

    # --- plain nodes ---

    def plain(self, node: Node) -> None:
        """The tangents of a node without blocks, some of whose outputs are wanted."""
        tangents = [self.tangents.get(x) for x in node.inputs]
        if all(t is None for t in tangents):
            return
        row = OPS.get(node.op)
        if row is not None:
            for v, t in zip(node.outputs, self.row(row, node, tangents), strict=True):
                if t is not None:
                    self.tangents[v] = self.like(t, v)
        elif node.op == "leaf":  # the content of the first operand with the history of the second
            if tangents[-1] is not None and len(tangents) > 1:
                self.tangents[node.output] = self.like(tangents[-1], node.output)
        elif node.op == "list.put":
            elements, k, item = node.inputs
            item = self.like(self.fetch(item), item)
            (self.tangents[node.output],) = self.builder.emit("list.put", (self.fetch(elements), k, item),
                                                              types=(node.output.type,))
        elif node.op in ("opt.some", "opt.get", "seq.get", "list.get", "list.take"):
            assert tangents[0] is not None
            attrs: dict[str, Any] = {"known": True} if node.op == "opt.get" else {}  # there where the value is
            operands = (tangents[0], *node.inputs[1:])
            (self.tangents[node.output],) = self.builder.emit(node.op, operands, types=(node.output.type,), **attrs)
        else:
            raise NonDifferentiable(f"`{node.op}` has no derivative", node.span)

    def row(self, op: OpDef, node: Node, tangents: Sequence[Value | None]) -> Sequence[Value | None]:
        """An op of the table."""
        if op.vjp is NONDIFF:
            return [None] * len(node.outputs)
        if not callable(op.vjp):
            raise NonDifferentiable(f"`{node.op}` has no derivative", node.span)
        if op.kind is POINTWISE:
            return [self.diagonal(op, node, tangents)]
        if _is_linear(op, node):
            operands = [self.fetch(x) if is_differentiable(x.type) else x for x in node.inputs]
            return self.builder.emit(op.name, operands, **node.attrs)
        return self.transposed(op, node, tangents)

    def diagonal(self, op: OpDef, node: Node, tangents: Sequence[Value | None]) -> Value | None:
        """A pointwise op: its vjp with each operand's tangent in place of the cotangent."""
        F, total = self.F, None
        y, xs = F.wrap(node.output), [F.wrap(x) for x in node.inputs]
        for i, t in enumerate(tangents):
            if t is None:
                continue
            needs = [k == i for k in range(len(xs))]
            found = partial_vjp(op, needs, F, F.wrap(t), y, xs, dict(node.attrs))[i]
            if found is not None:
                total = found if total is None else total + found
        if total is None:
            return None
        if total.dtype is not y.dtype:  # a cast, whose Jacobian is a cast
            total = F.cast(total, dtype=y.dtype)
        result: Value = total.value
        return result

    def transposed(self, op: OpDef, node: Node, tangents: Sequence[Value | None]) -> list[Value | None]:
        """The gradient of the op's vjp with respect to its cotangents, of which it is a linear function."""
        from jitgrad.script.autodiff import _differentiate

        builder, F = self.builder, self.F
        gs = [Value(v.type, "g") if is_differentiable(v.type) else None for v in node.outputs]
        needs = [t is not None for t in tangents]
        with builder.into(Block()) as block:
            handles = [None if g is None else F.wrap(g) for g in gs]
            ys = [F.wrap(v) for v in node.outputs]
            several = len(node.outputs) > 1
            found = partial_vjp(op, needs, F, tuple(handles) if several else handles[0],
                                tuple(ys) if several else ys[0], [F.wrap(x) for x in node.inputs], dict(node.attrs))
            results, seeds = [], []
            for x, t, c in zip(node.inputs, tangents, found, strict=True):
                if t is not None and c is not None:
                    assert isinstance(x.type, TensorType)
                    results.append(c.value if c.shape == x.type.dims else
                                   builder.one("sum_to", c.value, shape=x.type.dims))
                    seeds.append(self.like(t, x))
        placeholders = [g for g in gs if g is not None]
        block.params = (*placeholders, *dict.fromkeys((*node.inputs, *node.outputs)))
        block.results = tuple(results)
        graph = expand_composites(Graph(block))
        context = Context(Flow(graph, placeholders, results), frozen=False, thorough=False)
        frame = Frame(context, graph.block, None)
        pairs = _differentiate(context, frame, placeholders, results, seeds)
        frame.out.nodes[:0] = graph.block.nodes  # of which what reads a placeholder is not needed
        frame.finish(pairs)
        read = {v for n in within(frame.out.nodes) for v in n.inputs}
        for g in placeholders:  # where the vjp is linear only as a whole (`matrix_exp`): at any cotangent, so at zero
            if g in read:
                assert isinstance(g.type, TensorType)
                attrs = {"value": 0, "shape": g.type.dims, "dtype": g.type.dtype}
                builder.block.nodes.append(Node("full", (), attrs, (g,)))
        builder.block.nodes += frame.out.nodes
        values = iter(pairs[::2])
        return [None if g is None else next(values) for g in gs]


def _is_linear(op: OpDef, node: Node) -> bool:
    """Whether an op that is not pointwise is linear in all its floating operands together: no part of its vjp reads a
    differentiable value, so it is affine, and it adds no constant (`pad` may).
    """
    if op.compose is not None or node.attrs.get("value", 0) != 0:
        return False
    floats = [is_differentiable(x.type) for x in node.inputs]
    reads = saved(op, floats, types=[x.type for x in node.inputs], attrs=dict(node.attrs))
    return not reads.y and not any(r and f for r, f in zip(reads.xs, floats, strict=True))
