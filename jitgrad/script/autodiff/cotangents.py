"""Cotangents: what they are, their zeros, their sums.

A cotangent of a tensor is a tensor of its type; of an Optional an Optional, absent where nothing was reached; of a
Seq a Seq; of a List a List of Optionals, absent where an element was not reached, as are those beyond its end.
`reached` says whether any path led to the value, as eager's engine would know: a parameter that no path reached keeps
its `.grad`. Where that depends on the run, `reached` is a bool of the graph, and the cotangent's value is garbage (it
may be NaN) while the bool is false, unless it is `clean`: then it is zero. Sums mask garbage.
"""

from collections.abc import Callable, Iterable
from typing import TypeGuard

from jitgrad import dtypes
from jitgrad.classes import dataclass
from jitgrad.dims import Symbol, dim
from jitgrad.ops.types import BOOL, INT, ListType, OptionalType, SeqType, TensorType, Type, map_dims
from jitgrad.script.autodiff.amend import abstract, generic
from jitgrad.script.autodiff.frame import Context
from jitgrad.script.graph.ir import Block, Value, payload

#: True, False (a zero that stands for "not yet"), or a bool known at run time; for a Seq, a Seq of bools
Reached = Value | bool


@dataclass(frozen=True, slots=True, eq=False)
class Cotangent:
    """A cotangent's value and whether it counts."""

    value: Value
    reached: Reached = True
    clean: bool = True  # zero where not reached


def conform(context: Context, g: Value, type_: Type) -> Value:
    """`g` of an op's result's shape as the cotangent of an operand of `type_`: broadcast axes are summed."""
    if isinstance(type_, TensorType) and isinstance(g.type, TensorType) and g.type.dims != type_.dims:
        return context.builder.one("sum_to", g, shape=type_.dims)
    return g


def restate(context: Context, g: Value, type_: Type) -> Value:
    """`g` with its sizes written as those of `type_`, which they equal."""
    if isinstance(type_, TensorType) and isinstance(g.type, TensorType) and g.type.dims != type_.dims:
        return context.builder.one("reshape", g, shape=type_.dims)
    return g


def cotangent_type(type_: Type) -> Type:
    """The type of a cotangent of values of `type_`. It says nothing of the sizes of a list's elements."""
    if isinstance(type_, ListType):
        elem = cotangent_type(type_.elem)
        places = iter(_ANY)
        return ListType(map_dims(elem if isinstance(elem, OptionalType) else OptionalType(elem),
                                 lambda size: next(places)))
    if isinstance(type_, (SeqType, OptionalType)):
        return type(type_)(cotangent_type(type_.elem))
    return type_


#: symbols that nobody binds, for every size of an element, the same each time
_ANY = tuple(dim(Symbol(f"any{i}")) for i in range(64))


def holds_list(type_: Type) -> bool:
    """Whether a value of `type_` is a list, or may hold one: its cotangent's type then says nothing of sizes."""
    return isinstance(payload(type_), ListType)


def tells(type_: Type) -> bool:
    """Whether a cotangent of a value of `type_` says itself what was reached, by what is absent from it."""
    return isinstance(type_, (OptionalType, ListType))


def reach_type(type_: Type) -> Type:
    """The type of `reached` for values of `type_`."""
    return SeqType(reach_type(type_.elem)) if _is_seq(type_) else BOOL


def _is_seq(type_: Type) -> TypeGuard[SeqType]:
    return isinstance(type_, SeqType) and not isinstance(type_, ListType)


def as_bool(context: Context, reached: Reached) -> Value:
    """`reached` of a tensor as a bool of the graph."""
    return reached if isinstance(reached, Value) else context.builder.one("num.const", value=reached)


def either(context: Context, a: Reached, b: Reached) -> Reached:
    """Whether one of two is reached."""
    if a is True or b is True:
        return True
    if a is False or b is False:
        return b if a is False else a
    assert isinstance(a, Value)
    assert isinstance(b, Value)
    return context.builder.one("num.or", a, b)


def any_reached(context: Context, given: Iterable[Cotangent | None]) -> Reached:
    """Whether one of several is reached; None is not."""
    reached: Reached = False
    for c in given:
        if c is not None:
            reached = either(context, reached, c.reached)
    return reached


def masked(context: Context, c: Cotangent) -> Value:
    """The value of a cotangent of a tensor, zero where it is not reached."""
    if c.clean or not isinstance(c.reached, Value):
        return c.value
    F, g = context.F, context.F.wrap(c.value)
    condition = context.builder.one("fill", c.reached, shape=(), dtype=dtypes.bool_)
    value: Value = F.where(F.wrap(condition), g, 0).value
    return value


def add(context: Context, a: Cotangent, b: Cotangent) -> Cotangent:
    """The sum of two cotangents of one value."""
    type_ = a.value.type
    if isinstance(type_, OptionalType):
        return Cotangent(add_optional(context, a.value, b.value))
    if isinstance(type_, ListType):
        return Cotangent(_add_list(context, a.value, b.value))
    if isinstance(type_, SeqType):
        return _add_seq(context, a, b, type_)
    value = context.builder.one("add", masked(context, a), masked(context, b))
    return Cotangent(value, either(context, a.reached, b.reached))


def add_optional(context: Context, a: Value, b: Value) -> Value:
    """Present where one of the two is; their sizes may be different symbols, for only what is there has sizes."""
    assert isinstance(a.type, OptionalType)
    assert isinstance(b.type, OptionalType)
    builder, elem = context.builder, b.type.elem

    def get(v: Value) -> Value:
        return builder.one("opt.get", v, known=True)

    def chosen(condition: Value, then: Block, other: Block) -> Value:
        type_, fresh = (b.type, ()) if a.type == b.type else generic(b.type)
        (v,) = builder.emit("if", [condition], blocks=[then, other], types=[type_], binds=fresh)
        return v

    with builder.into(Block()) as both:
        value = add(context, Cotangent(restate(context, get(a), elem)), Cotangent(get(b)))
        both.results = (builder.one("opt.some", value.value),)
    with builder.into(Block()) as first:
        first.results = (chosen(builder.one("opt.has", b), both, Block(results=(a,))),)
    return chosen(builder.one("opt.has", a), first, Block(results=(b,)))


def _add_list(context: Context, a: Value, b: Value) -> Value:
    """What is in either."""
    type_ = a.type
    assert isinstance(type_, ListType)
    builder = context.builder
    k, total = Value(INT, "k"), Value(a.type)
    block = Block((k, total))
    with builder.into(block):
        elem, fresh = generic(type_.elem)
        (g,) = builder.emit("list.get", (b, k), types=(elem,), binds=fresh)
        block.results = (add_element(context, total, k, g),)
    return builder.emit("scan", [builder.one("list.len", b), a], blocks=[block], types=[a.type], n_carries=1,
                        reverse=False)[0]


def add_element(context: Context, g: Value, k: Value, more: Value) -> Value:
    """The cotangent of a list with the Optional `more` added to element k."""
    type_, fresh = generic(more.type)  # it may be there where `more` is not
    (old,) = context.builder.emit("list.get", (g, k), types=(type_,), binds=fresh)
    return context.builder.one("list.put", g, k, add_optional(context, old, more))


def _elements(context: Context, xs: list[Value],
              body: Callable[[Value, list[Value]], list[Value]]) -> tuple[Value, ...]:
    """A scan over sequences of one length without carries."""
    builder = context.builder
    n = builder.one("seq.len", xs[0])
    params = [Value(INT, "k")]
    binds: list[Symbol] = []
    for x in xs:
        assert isinstance(x.type, SeqType)
        type_, fresh = generic(x.type.elem)
        params.append(Value(type_))
        binds.extend(fresh)
    block = Block(tuple(params), binds=tuple(binds))
    with builder.into(block):
        block.results = tuple(body(params[0], params[1:]))
    types = [SeqType(abstract(r.type, binds)[0]) for r in block.results]
    return builder.emit("scan", [n, *xs], blocks=[block], types=types, n_carries=0, reverse=False)


def _add_seq(context: Context, a: Cotangent, b: Cotangent, type_: SeqType) -> Cotangent:
    """Element by element."""
    xs = [a.value, b.value, *(r for r in (a.reached, b.reached) if isinstance(r, Value))]

    def body(k: Value, elements: list[Value]) -> list[Value]:
        x, y, *bools = elements
        reached = [bools.pop(0) if isinstance(c.reached, Value) else c.reached for c in (a, b)]
        total = add(context, Cotangent(x, reached[0], a.clean),
                    Cotangent(restate(context, y, x.type), reached[1], b.clean))
        return [total.value, *([total.reached] if isinstance(total.reached, Value) else [])]

    value, *bools = _elements(context, xs, body)
    return Cotangent(value, bools[0] if bools else either(context, a.reached, b.reached))


def zero(context: Context, type_: Type, like: Callable[[], Value]) -> Cotangent:
    """Nothing reached: a zero of `type_`. `like()` is the value that it is the cotangent of (read for a Seq)."""
    if isinstance(type_, TensorType):
        return Cotangent(context.F.constant(0, type_.dims, type_.dtype).value, False)
    if isinstance(type_, OptionalType):
        return Cotangent(context.builder.one("opt.none", type=cotangent_type(type_.elem)))
    if isinstance(type_, ListType):
        return Cotangent(context.builder.one("list.new", type=cotangent_type(type_)))
    assert isinstance(type_, SeqType)

    def body(k: Value, elements: list[Value]) -> list[Value]:
        (x,) = elements
        c = zero(context, x.type, lambda: x)
        reached = as_reached(context, c.reached, x.type, lambda: x)
        return [c.value] if tells(x.type) else [c.value, reached]

    value, *bools = _elements(context, [like()], body)
    return Cotangent(value, bools[0] if bools else True)


def as_reached(context: Context, reached: Reached, type_: Type, like: Callable[[], Value]) -> Value:
    """`reached` of a value of `type_` as a value of the graph."""
    if isinstance(reached, Value):
        return reached
    if not _is_seq(type_):
        return as_bool(context, reached)

    def body(k: Value, elements: list[Value]) -> list[Value]:
        (x,) = elements
        return [as_reached(context, reached, x.type, lambda: x)]

    return _elements(context, [like()], body)[0]


def where(context: Context, condition: Value, type_: Type, there: Callable[[], Cotangent],
          like: Callable[[], Value]) -> tuple[Value, ...]:
    """A cotangent of `type_` where a condition holds, else zero; of a sequence also whether its elements are reached.

    `like()` is the value that it is the cotangent of.
    """
    builder, whole = context.builder, _is_seq(type_)

    def side(made: Callable[[], Cotangent]) -> Block:
        with builder.into(Block()) as block:
            c = made()
            block.results = (c.value, as_reached(context, c.reached, type_, lambda: c.value)) if whole else (c.value,)
        return block

    blocks = [side(there), side(lambda: zero(context, type_, like))]
    types = [cotangent_type(type_), *([reach_type(type_)] if whole else [])]
    return builder.emit("if", [condition], blocks=blocks, types=types)


def present(context: Context, c: Cotangent) -> Value:
    """A cotangent as one of an Optional, absent where it is not reached.

    A sequence counts as reached, its unreached elements being zero.
    """
    builder = context.builder
    if not isinstance(c.reached, Value) or isinstance(c.value.type, SeqType):
        return builder.one("opt.some", c.value)
    with builder.into(Block()) as some:
        some.results = (builder.one("opt.some", c.value),)
    with builder.into(Block()) as none:
        none.results = (builder.one("opt.none", type=c.value.type),)
    return builder.emit("if", [c.reached], blocks=[some, none], types=[OptionalType(c.value.type)])[0]


def spread(context: Context, at: Value, c: Cotangent, seq: Value) -> Cotangent:
    """The cotangent of a sequence of which only element `at` was read."""
    builder = context.builder

    def body(k: Value, elements: list[Value]) -> list[Value]:
        (x,) = elements
        here = builder.one("num.eq", k, at)
        value, *flags = where(context, here, x.type, lambda: Cotangent(restate(context, c.value, x.type), c.reached),
                              lambda: x)
        if flags or tells(x.type):
            return [value, *flags]
        return [value, builder.one("num.and", here, c.reached) if isinstance(c.reached, Value) else here]

    value, *bools = _elements(context, [seq], body)
    return Cotangent(value, bools[0] if bools else True, c.clean)
