"""The leaves of templates: values lowered to graph values and rebuilt from them; what a union is and holds.

`lower` turns one side's value into graph values of its template's leaf types, emitting conversions into that side's
block; `rebuild` makes the merged value from the block's outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, ListType, OptionalType, TensorType, Type, map_dims
from jitgrad.script.frontend.evaluate.templates import (
    Either,
    Items,
    ListOf,
    Num,
    Record,
    Same,
    Static,
    Template,
    Tensor,
    Words,
    same_static,
)
from jitgrad.script.frontend.state import heap, item_origins
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.values import (
    HELD,
    UNBOUND,
    Instance,
    Part,
    RunItems,
    RunPairs,
    SymDict,
    SymList,
    SymTensor,
    Text,
    Union,
)
from jitgrad.script.graph.ir import Block, Value

_LEAF: dict[type, Type] = {bool: BOOL, int: INT, float: FLOAT, object: NUMBER}


def types(t: Template) -> list[Type]:
    """The graph types of a template's leaves."""
    if isinstance(t, Tensor):
        return [TensorType(t.dtype, t.dims), *[INT] * t.origin]
    if isinstance(t, Num):
        return [_LEAF[t.kind]]
    if isinstance(t, (Items, Record, Words)):
        return [x for item in t.items for x in types(item)]
    if isinstance(t, ListOf):
        return [ListType(x) for x in types(t.elem)]
    if isinstance(t, Either):
        tag: list[Type] = [INT] if tagged(t) else []
        return tag + [_optional(x) for x in (types(t.inner) if t.inner is not None else [])]
    return []


def _optional(t: Type) -> OptionalType:
    return t if isinstance(t, OptionalType) else OptionalType(t)


def tagged(t: Either) -> bool:
    """Whether a union needs a tag besides its leaves."""
    if len(t.statics) != 1 or t.inner is None:
        return True
    inner = types(t.inner)
    return not inner or isinstance(inner[0], OptionalType)


def histories(t: Template) -> list[bool]:
    """Which leaves may carry a gradient."""
    if isinstance(t, Tensor):
        return [t.history, *[False] * t.origin]
    if isinstance(t, (Items, Record, Words)):
        return [x for item in t.items for x in histories(item)]
    if isinstance(t, ListOf):
        return histories(t.elem)
    if isinstance(t, Either):
        inner = histories(t.inner) if t.inner is not None else []
        return ([False] if tagged(t) else []) + inner
    return [False] * len(types(t))


def lower(context: Context, t: Template, value: Any) -> list[Value]:
    """`value`, which the template holds, as graph values of its leaf types."""
    if isinstance(t, (Same, Static)):
        return []
    if isinstance(t, Tensor):
        if isinstance(value, SymTensor):
            return [heap.read(context, value), *(item_origins.values(context, value, t.origin) if t.origin > 0 else ())]
        filled = context.one("fill", numbers.value_of(context, value), shape=(), dtype=t.dtype)
        return [filled, *item_origins.none(context, t.origin)]
    if isinstance(t, Num):
        return [numbers.convert(context, numbers.value_of(context, value), _LEAF[t.kind])]
    if isinstance(t, ListOf):
        from jitgrad.script.frontend.containers import lists

        return lists.lower(context, t, lists.content(context, value) if isinstance(value, SymList) else value)
    if isinstance(t, Items):
        items = context.state.values[value] if isinstance(value, SymList) else value
        return [x for item, v in zip(t.items, items, strict=True) for x in lower(context, item, v)]
    if isinstance(t, Words):
        shown = [p[0] for p in value.parts if not isinstance(p, str)]
        return [x for item, v in zip(t.items, shown, strict=True) for x in lower(context, item, v)]
    if isinstance(t, Record):
        content = value if isinstance(value, dict) else context.state.values[value]
        if t.type is RunPairs and not isinstance(content, RunPairs):
            content = {Part.KEYS: tuple(content), Part.VALUES: tuple(content.values())}
        return [x for name, item in zip(t.names, t.items, strict=True)
                for x in lower(context, item, content.get(name, UNBOUND))]
    return _lower_either(context, t, value)


def _lower_either(context: Context, t: Either, value: Any) -> list[Value]:
    if isinstance(value, Union) and value.statics == t.statics and value.inner == t.inner:
        return ([value.tag] if value.tag is not None else []) + list(value.leaves)
    if isinstance(value, Union):
        return _retag(context, t, value)
    index = next((i for i, s in enumerate(t.statics) if same_static(s, value)), len(t.statics))
    tag = [context.constant(index)] if tagged(t) else []
    if t.inner is None:
        return tag
    if index < len(t.statics):
        return tag + [_absent(context, _elem(x)) for x in types(t.inner)]
    return tag + [v if isinstance(v.type, OptionalType) else context.one("opt.some", v)
                  for v in lower(context, t.inner, value)]


def _absent(context: Context, elem: Type) -> Value:
    """Nothing, where an `elem` might be. It has no sizes; those that the merge binds are not known here."""
    return context.one("opt.none", type=map_dims(elem, lambda d: d if isinstance(d, int) else 0))


def _elem(t: Type) -> Type:
    return t.elem if isinstance(t, OptionalType) else t


def _retag(context: Context, t: Either, value: Union) -> list[Value]:
    """A union as a wider one: its tag translated, its leaves kept or absent."""
    numbering = [next(i for i, s in enumerate(t.statics) if same_static(s, v)) for v in value.statics]
    if value.inner is not None:
        numbering.append(len(t.statics))
    old = tag_of(context, value)
    new = context.constant(numbering[-1])
    for k in range(len(numbering) - 2, -1, -1):
        condition = context.one("num.eq", old, context.constant(k))
        new = context.one("num.select", condition, context.constant(numbering[k]), new)
    result = [new] if tagged(t) else []
    if t.inner is None:
        return result
    if value.inner is None:
        return result + [_absent(context, _elem(x)) for x in types(t.inner)]
    if _alike(value.inner, t.inner):
        return result + list(value.leaves)
    present = context.one("num.eq", old, context.constant(len(value.statics)))
    return result + _converted(context, t.inner, value, present)


def _alike(a: Template, b: Template) -> bool:
    """Whether leaves of one template are, sizes aside, those of the other."""
    if isinstance(a, (Same, Static)) and isinstance(b, (Same, Static)):
        return same_static(a.value, b.value)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype is b.dtype and max(a.origin, 0) == max(b.origin, 0)
    if isinstance(a, Num) and isinstance(b, Num):
        return a.kind is b.kind
    if isinstance(a, ListOf) and isinstance(b, ListOf):
        return _alike(a.elem, b.elem)
    if isinstance(a, Either) and isinstance(b, Either):
        inner = a.inner is b.inner or (a.inner is not None and b.inner is not None and _alike(a.inner, b.inner))
        return inner and len(a.statics) == len(b.statics) and all(map(same_static, a.statics, b.statics))
    if isinstance(a, (Items, Record, Words)) and type(a) is type(b):
        return len(a.items) == len(b.items) and all(map(_alike, a.items, b.items))
    return False


def _converted(context: Context, t: Template, value: Union, present: Value) -> list[Value]:
    """The run-time value of a union, where it is there, as Optionals of another template."""
    before, context.grad = context.grad, True  # `no_grad` knows nothing of it
    then, other = Block(), Block()
    with context.block(then):
        parts = [v if isinstance(v.type, OptionalType) else context.one("opt.some", v)
                 for v in lower(context, t, payload(context, value, known=True))]
        then.results = tuple(parts)
    kinds = [_optional(v.type) for v in parts]
    with context.block(other):
        other.results = tuple(_absent(context, kind.elem) for kind in kinds)
    outputs = context.builder.emit("if", (present,), blocks=(then, other), types=kinds)
    context.grad = before
    context.builder.history.update(o.id for o, v in zip(outputs, parts, strict=True)
                                   if v.id in context.builder.history)
    return list(outputs)


def tag_of(context: Context, value: Union) -> Value:
    """The tag of a union, computed from presence where it has none."""
    if value.tag is not None:
        return value.tag
    has = context.one("opt.has", value.leaves[0])
    return context.one("num.cast", has, to="int")


def rebuild(context: Context, t: Template, leaves: Iterator[Value]) -> Any:
    """The merged value."""
    if isinstance(t, (Same, Static)):
        return t.value
    if isinstance(t, Tensor):
        tensor = heap.new_tensor(context, next(leaves), t.alias)
        tensor.storage.ordered, tensor.storage.was_leaf = t.ordered, t.leaf
        tensor.storage.origin = tuple([next(leaves) for _ in range(t.origin)])
        tensor.storage.unknown = t.origin == item_origins.UNKNOWN
        tensor.storage.device = t.device
        return tensor
    if isinstance(t, Num):
        number = numbers.wrap(context, next(leaves))
        number.low = t.low
        return number
    if isinstance(t, Items):
        items = [rebuild(context, item, leaves) for item in t.items]
        if t.type is SymList:
            made = SymList()
            context.state.values[made] = tuple(items)
            return made
        return t.type(*items) if hasattr(t.type, "_fields") else t.type(items)
    if isinstance(t, ListOf):
        made = SymList()
        context.state.values[made] = RunItems(t.elem, tuple(next(leaves) for _ in types(t)))
        return made
    if isinstance(t, Words):
        shown = iter([rebuild(context, item, leaves) for item in t.items])
        return Text([p if isinstance(p, str) else (next(shown), *p) for p in t.frame])
    if isinstance(t, Record):
        held = SymDict() if t.type in (SymDict, RunPairs) else Instance(t.type)
        context.state.values[held] = rebuild_content(context, t, leaves)
        return held
    tag = next(leaves) if tagged(t) else None
    inner = tuple(next(leaves) for _ in types(t.inner)) if t.inner is not None else ()
    return Union(t.statics, t.inner, tag, inner)


def maybe(type_: TensorType, value: Value) -> Union:
    """None or a tensor: an Optional of the graph."""
    return Union((None,), Tensor(type_.dtype, type_.dims, False), None, (value,))


def rebuild_content(context: Context, t: Record, leaves: Iterator[Value]) -> dict[Any, Any]:
    """The merged content of a dict or an object."""
    made = {name: rebuild(context, item, leaves) for name, item in zip(t.names, t.items, strict=True)}
    return RunPairs(made) if t.type is RunPairs else made


# --- unions --------------------------------------------------------------------------------------------------------


def is_static(context: Context, value: Union, which: Any) -> Any:
    """Whether a union is its static alternative `which`: a bool, or a run-time bool."""
    index = next((i for i, s in enumerate(value.statics) if same_static(s, which)), None)
    if index is None:
        return False
    if value.tag is None:
        has = numbers.wrap(context, context.one("opt.has", value.leaves[0]))
        return numbers.negate(context, has)
    return numbers.wrap(context, context.one("num.eq", value.tag, context.constant(index)))


def payload(context: Context, value: Union, known: bool = False) -> Any:
    """The run-time value of a union that is known to hold it.

    `known`: an exit flag or a tag says so, not `opt.has` itself.
    """
    flags = {"known": True} if known or tagged(Either(value.statics, value.inner)) or len(value.leaves) > 1 else {}
    assert value.inner is not None
    inner_types = types(value.inner)
    leaves = [v if isinstance(w, OptionalType) else context.one("opt.get", v, **flags)
              for v, w in zip(value.leaves, inner_types, strict=True)]
    return rebuild(context, value.inner, iter(leaves))


def settle(context: Context, value: Union, known: bool = False) -> Any:
    """`payload` from here on: every name of a tensor that may be None is one reference now, and all see a write; so of
    a list, a dict or an object."""
    made: Any = payload(context, value, known)
    if not isinstance(made, (SymTensor, *HELD)):
        return made
    values = context.state.values
    for key, held in values.items():
        if isinstance(held, tuple):
            if any(_same_union(v, value) for v in held):
                content: list[Any] = [made if _same_union(v, value) else v for v in held]
                values[key] = type(held)(*content) if hasattr(held, "_fields") else type(held)(content)
        elif isinstance(held, dict):
            if any(_same_union(v, value) for v in held.values()):
                values[key] = {k: made if _same_union(v, value) else v for k, v in held.items()}
        elif _same_union(held, value):
            values[key] = made
            if isinstance(key, tuple) and key[0] == "grad" and isinstance(made, SymTensor) and key[1].input >= 0:
                context.optional_grads[made.storage] = key
    return made


def _same_union(a: Any, b: Union) -> bool:
    return isinstance(a, Union) and a.leaves == b.leaves and a.inner == b.inner


def without(context: Context, value: Any, which: Any, known: bool = False) -> Any:
    """A value known not to be its static alternative `which`; `known` as for `payload`."""
    if not isinstance(value, Union) or not any(same_static(s, which) for s in value.statics):
        return value
    rest = tuple(s for s in value.statics if not same_static(s, which))
    if not rest:
        return settle(context, value, known)
    if len(rest) == 1 and value.inner is None:
        return rest[0]
    narrowed = Either(rest, value.inner)
    removed = next(i for i, s in enumerate(value.statics) if same_static(s, which))
    tag = None
    if tagged(narrowed):
        old = tag_of(context, value)
        above = context.one("num.gt", old, context.constant(removed))
        tag = context.one("num.sub", old, context.one("num.cast", above, to="int"))
    return Union(rest, value.inner, tag, value.leaves)
