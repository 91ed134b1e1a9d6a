"""The reverse sweep over a block: from the cotangents of its results to those of everything it reads.

Rows of the op table go through their vjp, under `GraphNamespace`. Cotangents of a selected or indexed part are added
to the whole in place of being spread out and summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jitgrad.errors import NonDifferentiable
from jitgrad.ops import NONDIFF, OPS
from jitgrad.ops.rules import partial_vjp
from jitgrad.ops.types import BOOL, ListType, OptionalType, SeqType, TensorType, map_dims
from jitgrad.script.autodiff import control, regions
from jitgrad.script.autodiff.cotangents import (
    Cotangent,
    Reached,
    add,
    add_element,
    as_reached,
    conform,
    cotangent_type,
    either,
    masked,
    present,
    reach_type,
    spread,
    tells,
    zero,
)
from jitgrad.script.autodiff.frame import Context, Frame
from jitgrad.script.graph.ir import Block, Node, Value

Cotangents = dict[Value, Cotangent]



class Reverse:
    """A differentiation under way.

    `cotangents` maps values of the forward, of the frame's block or around it, to what has been found so far; that of
    a value is used up by the node that makes it, and kept in `targets` if it was asked for.
    """

    def __init__(self, context: Context, targets: Iterable[Value] = ()):
        self.targets: dict[Value, Cotangent | None] = dict.fromkeys(targets)
        self.context, self.flow = context, context.flow
        self.builder, self.F = context.builder, context.F
        self.ends: dict[tuple[Frame, object], tuple[Node, list[Value]]] = {}  # see `graph/custom.py`
        self.sometimes: dict[Node, set[int]] = {}  # per loop: carries not reached in every iteration

    def sweep(self, frame: Frame, cotangents: Cotangents) -> None:
        """Go through the nodes of the frame's block from the last to the first, writing into the frame's mirror."""
        builder = self.builder
        span = builder.span
        with builder.into(frame.out):
            for node in reversed(frame.block.nodes):
                for v in node.outputs:
                    if v in cotangents:
                        self.targets.update((x, cotangents[x]) for x in node.outputs
                                            if x in self.targets and x in cotangents)
                        builder.span = node.span
                        self.node(frame, node, cotangents)
                        break
        builder.span = span

    def accumulate(self, frame: Frame, cotangents: Cotangents, x: Value, c: Cotangent) -> None:
        """Add to the cotangent of `x` one that may still have the shape of an op's result."""
        if x not in self.flow.wanted:
            return
        context = self.context
        value = conform(context, c.value, frame.type(x.type))
        if value is not c.value:
            c = Cotangent(value, c.reached, c.clean)
        before = cotangents.get(x)
        cotangents[x] = c if before is None else add(context, before, c)

    def node(self, frame: Frame, node: Node, cotangents: Cotangents) -> None:
        """The adjoint of one node, some of whose outputs have cotangents."""
        if node.op == "if":
            control.branches(self, frame, node, cotangents)
        elif node.op in ("while", "scan"):
            control.loop(self, frame, node, cotangents)
        elif node.op == regions.REGION:
            regions.region(self, frame, node, cotangents)
        elif node.op == "custom":
            regions.custom(self, frame, node, cotangents)
        elif node.op in OPS:
            self.row(frame, node, cotangents)
        elif node.op == "callback":
            self.callback(frame, node, cotangents)
        elif node.op in _SPECIAL:
            _SPECIAL[node.op](self, frame, node, cotangents.pop(node.output), cotangents)
        else:
            raise NonDifferentiable(f"`{node.op}` has no derivative", node.span)

    def row(self, frame: Frame, node: Node, cotangents: Cotangents) -> None:
        """An op of the table."""
        op, wanted, F = OPS[node.op], self.flow.wanted, self.F
        given = [cotangents.pop(v, None) for v in node.outputs]
        needs = [x in wanted for x in node.inputs]
        if op.vjp is NONDIFF or True not in needs:
            return
        first = node.inputs[0]
        if op.adds_back is not None and first in cotangents and sum(needs) == 1:
            (c,) = given
            assert c is not None
            self.add_back(frame, node, op.adds_back, c, cotangents)
            return
        if not callable(op.vjp):
            raise NonDifferentiable(f"`{node.op}` has no derivative", node.span)
        if len(given) == 1:
            (c,) = given
            assert c is not None
            reached = c.reached
            g: Any = F.wrap(c.value)
            y: Any = F.wrap(frame.fetch(node.outputs[0]))
        else:  # a rule of several results reads them all; what is not reached counts as absent or as zero
            reached = False
            for c in given:
                if c is not None:
                    reached = either(self.context, reached, c.reached)
            g = tuple(None if c is None else F.wrap(masked(self.context, c)) for c in given)
            y = tuple(F.wrap(frame.fetch(v)) if isinstance(v.type, TensorType) else None for v in node.outputs)
        xs = [F.wrap(frame.fetch(x)) for x in node.inputs]
        results = partial_vjp(op, needs, F, g, y, xs, frame.attrs(node.attrs))
        for x, result in zip(node.inputs, results, strict=True):
            if result is not None and x in wanted:
                self.accumulate(frame, cotangents, x, Cotangent(result.value, reached, reached is True))

    def callback(self, frame: Frame, node: Node, cotangents: Cotangents) -> None:
        """A Python function: its own tape, found by the handle that is the last output."""
        context, call = self.context, node.attrs["call"]
        given = [cotangents.pop(v, None) for v in node.outputs]
        wanted = tuple(i for i in call.recorded if node.inputs[i] in self.flow.wanted)
        present = tuple(k for k, c in enumerate(given) if c is not None)
        if not wanted or not present:
            return
        reached: Reached = False
        for c in given:
            if c is not None:
                reached = either(context, reached, c.reached)
        values = [masked(context, c) for c in given if c is not None]
        types = [frame.type(node.inputs[i].type) for i in wanted] + [BOOL] * len(wanted)
        found = self.builder.emit("callback.vjp", [frame.fetch(node.outputs[-1]), *values], types=types, call=call,
                                  wanted=wanted, present=present)
        for k, i in enumerate(wanted):
            flag = found[len(wanted) + k]
            if isinstance(reached, Value):
                flag = self.builder.one("num.and", flag, reached)
            value = Cotangent(found[k], flag, not isinstance(reached, Value))
            self.accumulate(frame, cotangents, node.inputs[i], value)

    def add_back(self, frame: Frame, node: Node, how: tuple[str, Mapping[str, Any]], c: Cotangent,
                 cotangents: Cotangents) -> None:
        """The cotangent of a part, added to what is known of the whole."""
        x, *rest = node.inputs
        whole = cotangents[x]
        op, attrs = how
        part = conform(self.context, masked(self.context, c), frame.type(node.output.type))
        others = [frame.fetch(v) for v in rest]
        operands = [*others, part] if op == "scatter_add" else [part, *others]
        value = self.builder.one(op, masked(self.context, whole), *operands, **frame.attrs(node.attrs), **attrs)
        cotangents[x] = Cotangent(value, either(self.context, whole.reached, c.reached))

    def leaf(self, frame: Frame, node: Node, c: Cotangent, cotangents: Cotangents) -> None:
        """The gradient belongs to the leaf, not to the update that gave it its new content."""
        for root in node.inputs[1:]:
            self.accumulate(frame, cotangents, root, c)

    # --- absence and sequences ---

    def opt_some(self, frame: Frame, node: Node, c: Cotangent, cotangents: Cotangents) -> None:
        """The payload is reached where the Optional's cotangent is there."""
        (x,) = node.inputs
        if x not in self.flow.wanted:
            return
        self.payload(frame, x, c.value, cotangents)

    def payload(self, frame: Frame, x: Value, optional: Value, cotangents: Cotangents) -> None:
        """What an Optional cotangent holds, if anything, is for `x`."""
        context, builder, type_ = self.context, self.builder, frame.type(x.type)
        has = builder.one("opt.has", optional)
        is_seq = isinstance(type_, SeqType) and not isinstance(type_, ListType)
        with builder.into(Block()) as there:
            value = builder.one("opt.get", optional, known=True)
            there.results = (value, as_reached(context, True, type_, lambda: value)) if is_seq else (value,)
        with builder.into(Block()) as absent:
            nothing = zero(context, type_, lambda: frame.fetch(x))
            flags = (as_reached(context, nothing.reached, type_, lambda: frame.fetch(x)),) if is_seq else ()
            absent.results = (nothing.value, *flags)
        types = [cotangent_type(type_), *([reach_type(type_)] if is_seq else [])]
        value, *rest = context.structural("if", [has], [there, absent], types)
        self.accumulate(frame, cotangents, x, Cotangent(value, rest[0] if rest else tells(type_) or has))

    def opt_get(self, frame: Frame, node: Node, c: Cotangent, cotangents: Cotangents) -> None:
        """The Optional's cotangent is there where the payload's is reached."""
        self.accumulate(frame, cotangents, node.inputs[0], Cotangent(present(self.context, c)))

    def seq_get(self, frame: Frame, node: Node, c: Cotangent, cotangents: Cotangents) -> None:
        """A sequence of zeros but for one element."""
        seq, k = node.inputs
        self.accumulate(frame, cotangents, seq, spread(self.context, frame.fetch(k), c, frame.fetch(seq)))

    # --- lists ---

    def list_put(self, frame: Frame, node: Node, c: Cotangent, cotangents: Cotangents) -> None:
        """What reached element k is the item's; nothing of it is the list's that held another, or none, there."""
        elements, k, item = node.inputs
        builder, wanted, at = self.builder, self.flow.wanted, frame.fetch(k)
        if item in wanted:
            type_ = cotangent_type(frame.type(item.type))
            optional = type_ if isinstance(type_, OptionalType) else OptionalType(type_)
            (g,) = builder.emit("list.get", (c.value, at), types=(optional,))
            if isinstance(type_, OptionalType):
                self.accumulate(frame, cotangents, item, Cotangent(g))
            else:
                self.payload(frame, item, g, cotangents)
        if elements in wanted:
            assert isinstance(c.value.type, ListType)
            assert isinstance(c.value.type.elem, OptionalType)
            nothing = builder.one("opt.none", type=map_dims(c.value.type.elem.elem, lambda size: 0))  # has no sizes
            self.accumulate(frame, cotangents, elements, Cotangent(builder.one("list.put", c.value, at, nothing)))

    def list_get(self, frame: Frame, node: Node, c: Cotangent, cotangents: Cotangents) -> None:
        """Added to element k of the list's cotangent."""
        elements, k = node.inputs
        if elements not in self.flow.wanted:
            return
        more = c.value if isinstance(c.value.type, OptionalType) else present(self.context, c)
        before = cotangents.get(elements) or zero(self.context, elements.type, lambda: elements)
        cotangents[elements] = Cotangent(add_element(self.context, before.value, frame.fetch(k), more))

    def list_take(self, frame: Frame, node: Node, c: Cotangent, cotangents: Cotangents) -> None:
        """Nothing reached the elements that were dropped."""
        self.accumulate(frame, cotangents, node.inputs[0], c)


_SPECIAL: Mapping[str, Callable[[Reverse, Frame, Node, Cotangent, Cotangents], None]] = {
    "leaf": Reverse.leaf, "opt.some": Reverse.opt_some, "opt.get": Reverse.opt_get, "seq.get": Reverse.seq_get,
    "list.put": Reverse.list_put, "list.get": Reverse.list_get, "list.take": Reverse.list_take,
}
