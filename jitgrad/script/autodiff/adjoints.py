"""Adjoints of nodes without blocks that are no rows of the table: Optionals, sequences, lists, callbacks."""

from collections.abc import Callable

from jitgrad.ops.types import BOOL, ListType, OptionalType, map_dims
from jitgrad.script.autodiff.cotangents import (Cotangent, add_element, any_reached, cotangent_type, masked, present,
                                                spread, tells, where, zero)
from jitgrad.script.autodiff.frame import Frame
from jitgrad.script.autodiff.reverse import Cotangents, Reverse, adjoint
from jitgrad.script.graph.ir import Node, Value


@adjoint("callback")
def callback(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    """A Python function: its own tape, found by the handle that is the last output."""
    context, call = reverse.context, node.attrs["call"]
    given = [cotangents.pop(v, None) for v in node.outputs]
    wanted = tuple(i for i in call.recorded if node.inputs[i] in reverse.flow.wanted)
    present = tuple(k for k, c in enumerate(given) if c is not None)
    if not wanted or not present:
        return
    reached = any_reached(context, given)
    values = [masked(context, c) for c in given if c is not None]
    types = [frame.type(node.inputs[i].type) for i in wanted] + [BOOL] * len(wanted)
    found = reverse.builder.emit("callback.vjp", [frame.fetch(node.outputs[-1]), *values], types=types, call=call,
                              wanted=wanted, present=present)
    for k, i in enumerate(wanted):
        flag = found[len(wanted) + k]
        if isinstance(reached, Value):
            flag = reverse.builder.one("num.and", flag, reached)
        value = Cotangent(found[k], flag, not isinstance(reached, Value))
        reverse.accumulate(frame, cotangents, node.inputs[i], value)


@adjoint("opt.some")
def opt_some(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    """The payload is reached where the Optional's cotangent is there."""
    c = cotangents.pop(node.output)
    (x,) = node.inputs
    if x not in reverse.flow.wanted:
        return
    _payload(reverse, frame, x, c.value, cotangents)


def _payload(reverse: Reverse, frame: Frame, x: Value, optional: Value, cotangents: Cotangents) -> None:
    """What an Optional cotangent holds, if anything, is for `x`."""
    context, builder, type_ = reverse.context, reverse.builder, frame.type(x.type)
    has = builder.one("opt.has", optional)
    value, *rest = where(context, has, type_, lambda: Cotangent(builder.one("opt.get", optional, known=True)),
                         lambda: frame.fetch(x))
    reverse.accumulate(frame, cotangents, x, Cotangent(value, rest[0] if rest else tells(type_) or has))


@adjoint("list.put")
def list_put(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    """What reached element k is the item's; nothing of it is the list's that held another, or none, there."""
    c = cotangents.pop(node.output)
    elements, k, item = node.inputs
    builder, wanted, at = reverse.builder, reverse.flow.wanted, frame.fetch(k)
    if item in wanted:
        type_ = cotangent_type(frame.type(item.type))
        optional = type_ if isinstance(type_, OptionalType) else OptionalType(type_)
        (g,) = builder.emit("list.get", (c.value, at), types=(optional,))
        if isinstance(type_, OptionalType):
            reverse.accumulate(frame, cotangents, item, Cotangent(g))
        else:
            _payload(reverse, frame, item, g, cotangents)
    if elements in wanted:
        assert isinstance(c.value.type, ListType)
        assert isinstance(c.value.type.elem, OptionalType)
        nothing = builder.one("opt.none", type=map_dims(c.value.type.elem.elem, lambda size: 0))  # has no sizes
        reverse.accumulate(frame, cotangents, elements, Cotangent(builder.one("list.put", c.value, at, nothing)))


@adjoint("list.get")
def list_get(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    """Added to element k of the list's cotangent."""
    c = cotangents.pop(node.output)
    elements, k = node.inputs
    if elements not in reverse.flow.wanted:
        return
    more = c.value if isinstance(c.value.type, OptionalType) else present(reverse.context, c)
    before = cotangents.get(elements) or zero(reverse.context, elements.type, lambda: elements)
    cotangents[elements] = Cotangent(add_element(reverse.context, before.value, frame.fetch(k), more))


#: of ops whose operand gets all that reaches the result: which operands these are, and what they get
HANDED_ON: dict[str, tuple[slice, Callable[[Reverse, Frame, Node, Cotangent], Cotangent]]] = {
    # it belongs to the leaf, not to the update that gave it its new content
    "leaf": (slice(1, None), lambda reverse, frame, node, c: c),
    # the Optional's is there where the payload's is reached
    "opt.get": (slice(1), lambda reverse, frame, node, c: Cotangent(present(reverse.context, c))),
    # a sequence of zeros but for one element
    "seq.get": (slice(1), lambda reverse, frame, node, c: spread(
        reverse.context, frame.fetch(node.inputs[1]), c, frame.fetch(node.inputs[0]))),
    # nothing reached the elements that were dropped
    "list.take": (slice(1), lambda reverse, frame, node, c: c),
}


@adjoint(*HANDED_ON)
def handed_on(reverse: Reverse, frame: Frame, node: Node, cotangents: Cotangents) -> None:
    operands, rule = HANDED_ON[node.op]
    c = cotangents.pop(node.output)
    for x in node.inputs[operands]:
        reverse.accumulate(frame, cotangents, x, rule(reverse, frame, node, c))
