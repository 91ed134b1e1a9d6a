"""What lists of run-time length hold: for each leaf of an element a list of the graph, which is a value."""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.dims import Dim, Size, Symbol, dim
from jitgrad.errors import NotStatic
from jitgrad.ops.types import INT, ListType, OptionalType, Type, map_dims
from jitgrad.script.frontend.state import copies, layout, pooling
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import locations
from jitgrad.script.frontend.templates.template import Template
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.values import Container, Entry, Number, RunItems, SymList, SymTensor, Tail, Union
from jitgrad.script.graph.ir import Block, Value, sizes_of

#: why nobody writes to a tensor that was read from a list, or put into one
ELEMENT = "it is an element of a list"


def content(context: Context, value: Container) -> Any:
    """What a list, dict or object holds now: of a list, a tuple or RunItems."""
    if value.entry is not None:
        return _in_pool(context, value.entry)
    found = locations.fetch(context, context.state, value)
    if isinstance(found, Tail):
        found = context.state.values[value] = (*context.inputs.items(value), *found)
    return found


def _in_pool(context: Context, entry: Entry) -> Any:
    """What a container in a pool holds: its lists are its own."""
    held: RunItems = locations.fetch(context, context.state, entry.pool)
    _, made = item_at(context, held, entry.place)
    found = context.state.values.pop(made)
    if type(found) is dict:  # one object is known
        return {k: v.statics[0] if isinstance(v, Union) and v.inner is None and len(v.statics) == 1 else v
                for k, v in found.items()}
    return found


def run_items(context: Context, value: Any) -> RunItems | None:
    """What a list holds, if that is of run-time length."""
    found = content(context, value) if isinstance(value, SymList) else value
    return found if isinstance(found, RunItems) else None


def in_it(context: Context, value: Any) -> bool:
    """Whether a list of known length, or a tuple, has a list of run-time length in it."""
    items = content(context, value) if isinstance(value, SymList) else value
    return isinstance(items, (list, tuple)) and any(
        run_items(context, v) is not None or in_it(context, v) for v in items)


def not_static(context: Context) -> NotStatic:
    """The refusal of a use that needs the length."""
    return NotStatic("the length of this list is known only at run time", context.span(),
                     hint="loop over it with `for`, or `torch.stack` it")


def new(context: Context, items: Any, cls: type[SymList] = SymList) -> SymList:
    """A list made by the script."""
    made = cls()
    context.state.values[made] = items
    return made


# --- what is in a list of run-time length ---------------------------------------------------------------------------


def mark(context: Context, value: Any) -> None:
    """Note the tensors of a value that is put into a list."""
    if isinstance(value, SymTensor):
        storage = value.storage
        copies.identify(context, value)
        layout.leave(context, storage)
        if storage not in context.listed:
            context.listed[storage] = None
            storage.alias = storage.alias or ELEMENT
    elif isinstance(value, (tuple, Union)):
        for v in value.statics if isinstance(value, Union) else value:
            mark(context, v)
    elif isinstance(value, SymList) and value.entry is None:
        if pooling.wanted(context) and value.source is None:
            pooling.ask(context, value)
        context.listed[value] = None
        held = content(context, value)
        if not isinstance(held, RunItems):
            mark(context, held)


def is_listed(context: Context, value: Any) -> bool:
    """Whether a list, or one in a tuple or dict, is an item of a list of run-time length."""
    if isinstance(value, SymList):
        return value in context.listed
    parts: Any = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return any(is_listed(context, v) for v in parts)


def freeze(context: Context, value: Any) -> None:
    """Note the lists of a value that was read from a list of run-time length: they are not changed."""
    if isinstance(value, SymList) and value.entry is None:
        context.listed[value] = None
    for v in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        freeze(context, v)


def lower(context: Context, elem: Template, held: Any) -> list[Value]:
    """What a list holds as graph lists of elements that are `elem`."""
    wanted = types_of(elem)
    if isinstance(held, RunItems):
        if held.elem.uninhabited and not elem.uninhabited:
            return empty(context, elem)
        if len(held.leaves) == len(wanted) and all(
                _same_kind(v.type, w) for v, w in zip(held.leaves, wanted, strict=True)) and (
                held.elem.tags() == elem.tags()):
            return list(held.leaves)
        starts = empty(context, elem)  # every element as one of another type: ints as numbers of any kind, ...
        return list(gathered(context, elem, length_of(context, held), starts,
                             lambda k: (k, item_at(context, held, k))).leaves)
    mark(context, held)
    leaves = empty(context, elem)
    for k, item in enumerate(held):
        leaves = put(context, elem, leaves, context.constant(k), item)
    return leaves


def types_of(elem: Template) -> list[Type]:
    """The graph types of a list of elements."""
    return [ListType(t) for t in elem.types()]


def empty(context: Context, elem: Template) -> list[Value]:
    """The graph lists of a list without elements."""
    return [context.one("list.new", type=t) for t in types_of(elem)]


def leaves_of(context: Context, elem: Template, item: Any) -> list[Value]:
    """An item as graph values. Being put into a list is nothing that `no_grad` knows."""
    before, context.grad = context.grad, True
    try:
        return elem.lower(context, item)
    finally:
        context.grad = before


def put(context: Context, elem: Template, leaves: Sequence[Value], k: Value, item: Any) -> list[Value]:
    """Lists whose element at a position is an item."""
    result = []
    for leaf, type_, value in zip(leaves, types_of(elem), leaves_of(context, elem, item), strict=True):
        (out,) = context.builder.emit("list.put", (leaf, k, value), types=(type_,))
        result.append(out)
    return result


def _same_kind(a: Type, b: Type) -> bool:
    """Whether two types differ in sizes only."""
    return map_dims(a, lambda d: 0) == map_dims(b, lambda d: 0)


def item_at(context: Context, held: RunItems, k: Value) -> Any:
    """The element at a position that exists. Sizes that differ per element are bound here."""
    values: list[Value] = []
    mapping: dict[Symbol, Size] = {}
    for leaf in held.leaves:
        assert isinstance(leaf.type, ListType)
        own: dict[Symbol, Symbol] = {}

        def size(d: Size, own: dict[Symbol, Symbol] = own) -> Size:
            symbol = d.symbol if isinstance(d, Dim) else None
            if symbol is None or symbol not in context.open:
                return d
            return dim(own.setdefault(symbol, Symbol(not_one=symbol.not_one)))

        wanted = held.elem.types()[len(values)]
        type_ = wanted if _holds_list(wanted) else map_dims(wanted, size)  # an inner list's sizes stay open
        assert len(sizes_of(type_)) == len(sizes_of(wanted))
        (value,) = context.builder.emit("list.get", (leaf, k), types=(type_,), binds=tuple(own.values()))
        values.append(value)
        mapping.update({old: dim(new_) for old, new_ in own.items()})
    elem = held.elem.renamed(lambda d: mapping.get(d.symbol, d) if isinstance(d, Dim) and d.symbol else d)
    item = elem.rebuild(context, iter(values))
    freeze(context, item)
    return item


def _holds_list(type_: Type) -> bool:
    while isinstance(type_, OptionalType):
        type_ = type_.elem
    return isinstance(type_, ListType)


def length_of(context: Context, held: RunItems) -> Value:
    key = ("length", held.leaves[0])
    found = context.recall(key)
    if found is None:
        found = context.remember(key, context.one("list.len", held.leaves[0]))
    result: Value = found
    return result


def length(context: Context, held: RunItems) -> Number:
    """`len(xs)`."""
    number = numbers.wrap(context, length_of(context, held))
    number.low = 0
    return number


def gathered(context: Context, elem: Template, count: Value, starts: Sequence[Value],
             item: Callable[[Value], tuple[Value, Any]]) -> RunItems:
    """The list `starts` with `count` more elements: `item` gives the position and the value of each, by its number."""
    wanted = types_of(elem)
    k, carried = Value(INT, "k"), [Value(w) for w in wanted]
    context.mark_history(carried, elem.histories())
    block = Block((k, *carried))
    with context.block(block):
        at, made = item(k)
        block.results = tuple(put(context, elem, carried, at, made))
    outputs = context.builder.emit("scan", (count, *starts), blocks=(block,), types=wanted, n_carries=len(starts),
                                   reverse=False)
    context.mark_history(outputs, elem.histories())
    return RunItems(elem, tuple(outputs))
