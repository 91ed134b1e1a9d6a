"""Lists whose length only the run knows.

What such a list holds is a `RunItems`: for each leaf of an element (a tuple of two tensors has two) a list of the
graph, which is a value. The Python list is the location in the state that holds it, so names, tuples and closures that
share the list see every change. An element that is a tensor is a value too: a tensor that is in a list, or was read
from one, is not written in place any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.dims import Dim, Size, Symbol, dim
from jitgrad.errors import NotStatic, TypeMismatch, UnsupportedCall
from jitgrad.ops.types import INT, ListType, OptionalType, Type, map_dims
from jitgrad.script.frontend.containers import contents, list_methods
from jitgrad.script.frontend.evaluate import calls, merge
from jitgrad.script.frontend.evaluate import leaves as lowering
from jitgrad.script.frontend.evaluate import templates as tp
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import is_open, items_of, type_name, type_word
from jitgrad.script.frontend.values.static import guarded
from jitgrad.script.frontend.values.values import (
    Instance,
    Iterable,
    Number,
    Part,
    RunItems,
    RunPairs,
    SymDict,
    SymList,
    SymTensor,
    Tail,
)
from jitgrad.script.graph.ir import Block, Value, sizes_of

_EMPTY = "the type of this list's items is not known: nothing is put into it before it is used here"


def content(context: Context, value: SymList) -> Any:
    """What a list holds now: a tuple or RunItems."""
    found = merge.fetch(context, context.state, value)
    return contents.context_items(context, value) if isinstance(found, Tail) else found


def run_items(context: Context, value: Any) -> RunItems | None:
    """What a list holds, if only the run knows how much."""
    found = content(context, value) if isinstance(value, SymList) else value
    return found if isinstance(found, RunItems) else None


def not_static(context: Context) -> NotStatic:
    """The refusal of a use that needs the length."""
    return NotStatic("the length of this list is known only at run time", context.span(),
                     hint="loop over it with `for`, or `torch.stack` it")


def change(context: Context, target: SymList, items: Any) -> None:
    """Let a list hold something else."""
    contents.own(context, target)
    context.state.values[target] = items


def new(context: Context, items: Any) -> SymList:
    """A list made by the script."""
    made = SymList()
    context.state.values[made] = items
    return made


def of_run_time_length(context: Context, value: Any) -> SymTensor | SymList | None:
    """An iterable whose length only the run knows, as something that has `len` and takes an index; None for others."""
    if not is_open(context, value):
        return None
    if isinstance(value, (SymTensor, SymList)):
        return value
    if isinstance(value, SymDict):
        keys: SymList = merge.fetch(context, context.state, value)[Part.KEYS]
        return keys
    found = calls.call(context, list_methods.collected, (value,), {})
    assert isinstance(found, SymList)
    return found


# --- what is in a list ---------------------------------------------------------------------------------------------


def settle(context: Context, t: tp.Template, *values: Any) -> tp.Template:
    """Note what becomes part of a list of run-time length; its template, with what the values say about memory."""
    if isinstance(t, tp.ListOf):
        if tp.holds_nothing(t.elem):
            raise tp.Clash("a list of empty lists, of which nothing says what they will hold")
        for v in values:
            held = context.state.values.get(v) if isinstance(v, SymList) else v
            if isinstance(held, tuple):
                mark(context, held)
        return t
    if isinstance(t, tp.Items):
        parts = [_parts(context, v, len(t.items)) for v in values]
        items = tuple([settle(context, item, *found) for item, *found in zip(t.items, *parts, strict=True)])
        return t if items == t.items else tp.Items(t.type, items)
    if isinstance(t, tp.Record):
        named = [_named(context, t, v) for v in values]
        items = tuple([settle(context, item, *(n.get(name) for n in named))
                       for name, item in zip(t.names, t.items, strict=True)])
        return t if items == t.items else tp.Record(t.type, t.names, items)
    return t


def _parts(context: Context, value: Any, n: int) -> tuple[Any, ...]:
    """The items of a tuple or list of a known length."""
    held = context.state.values.get(value) if isinstance(value, SymList) else value
    return held if isinstance(held, tuple) and len(held) == n else (None,) * n


def _named(context: Context, t: tp.Record, value: Any) -> dict[Any, Any]:
    """The content of a dict or object as a record has it."""
    held = context.state.values.get(value) if isinstance(value, (SymDict, Instance)) else value
    if not isinstance(held, dict):
        return {}
    if t.type is RunPairs and not isinstance(held, RunPairs):
        return {Part.KEYS: tuple(held), Part.VALUES: tuple(held.values())}
    return held


def mark(context: Context, value: Any) -> None:
    """Note the tensors of a value that is put into a list."""
    if isinstance(value, SymTensor):
        storage = value.storage
        if storage not in context.listed:
            context.listed[storage] = None
            storage.alias = storage.alias or tp.ELEMENT
    elif isinstance(value, tuple):
        for v in value:
            mark(context, v)
    elif isinstance(value, SymList):
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
    if isinstance(value, SymList):
        context.listed[value] = None
    for v in value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ():
        freeze(context, v)


def lower(context: Context, t: tp.ListOf, held: Any) -> list[Value]:
    """What a list holds as the graph lists of `t`, which holds it."""
    wanted = lowering.types(t)
    if isinstance(held, RunItems):
        if len(held.leaves) == len(wanted) and all(
                _same_kind(v.type, w) for v, w in zip(held.leaves, wanted, strict=True)) and (
                _statics(held.elem) == _statics(t.elem)):
            return list(held.leaves)
        return _converted(context, held, t)
    mark(context, held)
    leaves = [context.one("list.new", type=w) for w in wanted]
    for k, item in enumerate(held):
        leaves = _put(context, leaves, wanted, context.constant(k), _values(context, t.elem, item))
    return leaves


def _values(context: Context, elem: tp.Template, item: Any) -> list[Value]:
    """An item as graph values. Being put into a list is nothing that `no_grad` knows."""
    before, context.grad = context.grad, True
    try:
        return lowering.lower(context, elem, item)
    finally:
        context.grad = before


def _put(context: Context, leaves: Sequence[Value], types: Sequence[Type], k: Value,
         values: Sequence[Value]) -> list[Value]:
    result = []
    for leaf, type_, value in zip(leaves, types, values, strict=True):
        (out,) = context.builder.emit("list.put", (leaf, k, value), types=(type_,))
        result.append(out)
    return result


def _same_kind(a: Type, b: Type) -> bool:
    """Whether two types differ in sizes only."""
    return map_dims(a, lambda d: 0) == map_dims(b, lambda d: 0)


def _statics(t: tp.Template) -> list[Any]:
    """The alternatives of every union in a template: what its tags mean."""
    if isinstance(t, tp.Either):
        return [t.statics, *(_statics(t.inner) if t.inner is not None else ())]
    if isinstance(t, tp.ListOf):
        return _statics(t.elem)
    return [s for i in t.items for s in _statics(i)] if isinstance(t, tp.Items) else []


def _converted(context: Context, held: RunItems, t: tp.ListOf) -> list[Value]:
    """Every element as one of another type: ints as numbers of any kind, tensors as tensors or None."""
    wanted = lowering.types(t)
    starts = [context.one("list.new", type=w) for w in wanted]
    k, carried = Value(INT, "k"), [Value(w) for w in wanted]
    block = Block((k, *carried))
    with context.block(block):
        item = _item(context, held, k)
        block.results = tuple(_put(context, carried, wanted, k, _values(context, t.elem, item)))
    outputs = context.builder.emit("scan", (_length(context, held), *starts), blocks=(block,), types=wanted,
                                   n_carries=len(starts), reverse=False)
    merge.mark_history(context, outputs, lowering.histories(t))
    return list(outputs)


def _item(context: Context, held: RunItems, k: Value) -> Any:
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

        wanted = lowering.types(held.elem)[len(values)]
        type_ = wanted if _holds_list(wanted) else map_dims(wanted, size)  # an inner list's sizes stay open
        assert len(sizes_of(type_)) == len(sizes_of(wanted))
        (value,) = context.builder.emit("list.get", (leaf, k), types=(type_,), binds=tuple(own.values()))
        values.append(value)
        mapping.update({old: dim(new_) for old, new_ in own.items()})
    elem = tp.renamed(held.elem, lambda d: mapping.get(d.symbol, d) if isinstance(d, Dim) and d.symbol else d)
    item = lowering.rebuild(context, elem, iter(values))
    freeze(context, item)
    return item


def _holds_list(type_: Type) -> bool:
    while isinstance(type_, OptionalType):
        type_ = type_.elem
    return isinstance(type_, ListType)


def _length(context: Context, held: RunItems) -> Value:
    key = ("length", held.leaves[0])
    found = context.recall(key)
    if found is None:
        found = context.remember(key, context.one("list.len", held.leaves[0]))
    result: Value = found
    return result


def length(context: Context, held: RunItems) -> Number:
    """`len(xs)`."""
    number = numbers.wrap(context, _length(context, held))
    number.low = 0
    return number


# --- positions -----------------------------------------------------------------------------------------------------


def place(context: Context, held: RunItems, index: Any, text: str, empty: str = "") -> Value:
    """The position that an index means. IndexError with `text` (with `empty` where there is no element)."""
    if isinstance(index, SymTensor):
        from jitgrad.ops.backend import backend

        tensor = index
        index = guarded(context, lambda: backend().item(tensor))
    kinds = (bool, int)
    if not isinstance(index, kinds) and not (isinstance(index, Number) and index.number_type in kinds):
        raise merge.raise_now(context, TypeError, (
            f"list indices must be integers or slices, not {type_name(index)}",))
    n = length(context, held)
    if empty:
        _require(context, numbers.compare(context, "gt", n, 0), empty)
    negative = numbers.compare(context, "lt", index, 0)
    if negative is not True:
        fine = numbers.compare(context, "lt", index, n)
        if negative is not False:
            fine = numbers.both(context, fine, numbers.compare(context, "ge", index, numbers.unary(context, "neg", n)))
    else:
        fine = numbers.compare(context, "ge", n, -index if isinstance(index, int) else numbers.unary(
            context, "neg", index))
    _require(context, fine, text)
    value = numbers.value_of(context, index)
    if negative is False:
        return numbers.convert(context, value, INT)
    from_end = context.one("num.add", value, n.value)
    if negative is True:
        return from_end
    return context.one("num.select", negative.value, from_end, value)


def _require(context: Context, condition: Any, text: str) -> None:
    if condition is True:
        return
    if condition is False:
        raise merge.raise_now(context, IndexError, (text,))
    context.effect("check", condition.value, error=IndexError, template=(text,))


def get(context: Context, held: RunItems, index: Any, cls: type[SymList] = SymList) -> Any:
    """`xs[index]`, a part of it as a `cls`."""
    if isinstance(index, slice):
        made = cls()
        context.state.values[made] = _sliced(context, held, index)
        return made
    return _item(context, held, place(context, held, index, "list index out of range"))


def iterable(context: Context, value: SymList, held: RunItems) -> Iterable:
    """What a `for` over the list goes over."""
    def item(cx: Context, k: Any) -> Any:
        if cx.state.values.get(value) is not held and content(cx, value) is not held:
            raise UnsupportedCall("a list that changes while a loop goes over it", cx.span(),
                                  hint="loop over a copy: `for x in xs.copy()`")
        return _item(cx, held, numbers.value_of(cx, k))

    return Iterable(length(context, held), item, False)


# --- changes -------------------------------------------------------------------------------------------------------


def _wider(context: Context, held: RunItems, item: Any) -> RunItems:
    """What a list holds, of a type that can hold `item` too."""
    elements = tp.Elements(context, Symbol().number)
    try:
        one = tp.element(tp.template_of(context, item, True), elements)
        elem = tp.join(context, held.elem, one, elements)
    except tp.Clash as clash:
        raise TypeMismatch(f"a list whose items are {held.elem} cannot take {type_word(item)}: {clash}", context.span(),
                           hint="let it hold tensors of one dtype and rank, or numbers, or tuples of these") from None
    mark(context, item)
    return held if elem == held.elem else RunItems(elem, tuple(lower(context, tp.ListOf(elem), held)))


def put(context: Context, held: RunItems, k: Value, item: Any) -> RunItems:
    """With element k set, or appended where k is the length."""
    held = _wider(context, held, item)
    leaves = _put(context, held.leaves, lowering.types(tp.ListOf(held.elem)), k, _values(context, held.elem, item))
    return RunItems(held.elem, tuple(leaves))


def append(context: Context, held: RunItems, item: Any) -> RunItems:
    return put(context, held, _length(context, held), item)


def set_item(context: Context, held: RunItems, index: Any, value: Any) -> RunItems:
    """`xs[index] = value`."""
    if isinstance(index, slice):
        given: Any = run_items(context, value)
        if given is None:
            whole = of_run_time_length(context, value)
            if isinstance(whole, SymTensor):
                whole = calls.call(context, list_methods.collected, (whole,), {})
            given = tuple(items_of(context, value)) if whole is None else run_items(context, whole)
        before, after = _around(context, held, index)
        return extend(context, extend(context, before, given), after)  # type: ignore[no-any-return]
    return put(context, held, place(context, held, index, "list assignment index out of range"), value)


def _around(context: Context, held: RunItems, index: slice) -> tuple[RunItems, RunItems]:
    """What is before a slice, and what is after it."""
    step = 1 if index.step is None else static(context, index.step, "the step of a slice of a list")
    if step != 1:
        raise UnsupportedCall("a change of every so many items of a list of run-time length", context.span(),
                              hint="write a loop")
    n = length(context, held)
    start = context.constant(0) if index.start is None else _clipped(context, index.start, n)
    stop = n.value if index.stop is None else _clipped(context, index.stop, n)
    stop = context.one("num.max", start, stop)
    rest = context.one("num.sub", n.value, stop)
    return _take(context, held, start), _gathered(
        context, held, rest, lambda i: _item(context, held, context.one("num.add", stop, i)))


def delete(context: Context, held: RunItems, index: Any) -> RunItems:
    """What `del xs[index]` leaves."""
    if isinstance(index, slice):
        before, after = _around(context, held, index)
        return extend(context, before, after)  # type: ignore[no-any-return]
    place(context, held, index, "list assignment index out of range")
    return pop(context, held, index)[1]


def _take(context: Context, held: RunItems, n: Value) -> RunItems:
    leaves = [context.one("list.take", leaf, n) for leaf in held.leaves]
    return RunItems(held.elem, tuple(leaves))


def pop(context: Context, held: RunItems, index: Any) -> tuple[Any, RunItems]:
    """The element taken out, and what is left."""
    k = place(context, held, index, "pop index out of range", "pop from empty list")
    item = _item(context, held, k)
    last = context.one("num.sub", _length(context, held), context.constant(1))
    if type(index) is int and index == -1:
        return item, _take(context, held, last)

    def moved(i: Value) -> Value:
        """Where element i of what is left is now."""
        after = context.one("num.ge", i, k)
        return context.one("num.add", i, context.one("num.cast", after, to="int"))

    return item, _gathered(context, held, last, lambda i: _item(context, held, moved(i)))


def about_to_change(context: Context, target: SymList, index: Any, value: Any = None) -> RunItems | None:
    """What a list holds if only the run knows how much, or where a change at `index` makes it so."""
    held = content(context, target)
    places = (index.start, index.stop) if isinstance(index, slice) else (index,)
    if isinstance(held, tuple) and held and (any(isinstance(p, Number) for p in places) or is_open(context, value)):
        return as_run(context, held)
    return held if isinstance(held, RunItems) else None


def insert(context: Context, held: RunItems, index: Any, item: Any) -> RunItems:
    """Python's `insert`: an index beyond either end means that end."""
    held = _wider(context, held, item)
    n = length(context, held)
    k = _clipped(context, index, n)
    value = lowering.rebuild(context, held.elem, iter(_values(context, held.elem, item)))
    count = context.one("num.add", n.value, context.constant(1))

    def chosen(i: Value) -> Any:
        here = numbers.wrap(context, context.one("num.eq", i, k))
        after = context.one("num.cast", context.one("num.gt", i, k), to="int")

        def other() -> Any:
            return _item(context, held, context.one("num.sub", i, after))

        return merge.branch(context, here, lambda: value, other, frozenset())

    return _gathered(context, held, count, chosen)


def _clipped(context: Context, index: Any, n: Number) -> Value:
    """An index of a slice: from the end where it is negative, and not beyond either end."""
    if isinstance(index, SymTensor):
        raise UnsupportedCall("a tensor as a list position", context.span(), hint="write `int(index)`")
    negative = numbers.compare(context, "lt", index, 0)
    value = numbers.value_of(context, index)
    if negative is not False:
        from_end = context.one("num.max", context.one("num.add", value, n.value), context.constant(0))
        if negative is True:
            return from_end
        value = context.one("num.select", negative.value, from_end, value)
    return context.one("num.min", value, n.value)


def _sliced(context: Context, held: RunItems, index: slice) -> RunItems:
    """`xs[start:stop:step]`; step is a literal."""
    step = 1 if index.step is None else static(context, index.step, "the step of a slice of a list")
    if step == 0:
        raise merge.raise_now(context, ValueError, ("slice step cannot be zero",))
    n, zero = length(context, held), context.constant(0)
    if step > 0:
        start = zero if index.start is None else _clipped(context, index.start, n)
        stop = n.value if index.stop is None else _clipped(context, index.stop, n)
        if step == 1 and index.start is None:
            return _take(context, held, stop)
        span = context.one("num.sub", stop, start)
    else:
        last = context.one("num.sub", n.value, context.constant(1))
        start = last if index.start is None else _clipped_down(context, index.start, n)
        stop = context.constant(-1) if index.stop is None else _clipped_down(context, index.stop, n)
        span = context.one("num.sub", start, stop)
    count = context.one("num.floordiv", context.one("num.add", span, context.constant(abs(step) - 1)),
                        context.constant(abs(step)))

    def at(i: Value) -> Any:
        offset = context.one("num.mul", i, context.constant(step))
        return _item(context, held, context.one("num.add", start, offset))

    return _gathered(context, held, context.one("num.max", count, zero), at)


def _clipped_down(context: Context, index: Any, n: Number) -> Value:
    """An end of a slice that goes down: at least -1, at most the last position."""
    value = numbers.value_of(context, index)
    from_end = context.one("num.max", context.one("num.add", value, n.value), context.constant(-1))
    last = context.one("num.sub", n.value, context.constant(1))
    negative = context.one("num.lt", value, context.constant(0))
    return context.one("num.select", negative, from_end, context.one("num.min", value, last))


def _gathered(context: Context, held: RunItems, count: Value, item: Callable[[Value], Any]) -> RunItems:
    """A list of `count` elements, each as `item` of its position says."""
    t = tp.ListOf(held.elem)
    wanted = lowering.types(t)
    starts = [context.one("list.new", type=w) for w in wanted]
    k, carried = Value(INT, "k"), [Value(w) for w in wanted]
    merge.mark_history(context, carried, lowering.histories(t))
    block = Block((k, *carried))
    with context.block(block):
        block.results = tuple(_put(context, carried, wanted, k, _values(context, held.elem, item(k))))
    outputs = context.builder.emit("scan", (count, *starts), blocks=(block,), types=wanted, n_carries=len(starts),
                                   reverse=False)
    merge.mark_history(context, outputs, lowering.histories(t))
    return RunItems(held.elem, tuple(outputs))


def extend(context: Context, held: Any, other: Any) -> Any:
    """What `xs + ys` holds; at least one of the two is of run-time length."""
    if not isinstance(other, RunItems):
        for item in other:
            held = append(context, held, item)
        return held
    if not isinstance(held, RunItems):
        held = as_run(context, held, other)
    try:
        joined = tp.join(context, tp.ListOf(held.elem), tp.ListOf(other.elem), tp.Widener(context, Symbol().number))
    except tp.Clash as clash:
        raise TypeMismatch(f"a list whose items are {held.elem} and one of {other.elem}: {clash}",
                           context.span()) from None
    assert isinstance(joined, tp.ListOf)
    t = tp.ListOf(joined.elem)
    wanted = lowering.types(t)
    starts = lower(context, t, held)
    n = _length(context, held)
    k, carried = Value(INT, "k"), [Value(w) for w in wanted]
    merge.mark_history(context, carried, lowering.histories(t))
    block = Block((k, *carried))
    with context.block(block):
        at = context.one("num.add", n, k)
        block.results = tuple(_put(context, carried, wanted, at, _values(context, t.elem, _item(context, other, k))))
    outputs = context.builder.emit("scan", (_length(context, other), *starts), blocks=(block,), types=wanted,
                                   n_carries=len(starts), reverse=False)
    merge.mark_history(context, outputs, lowering.histories(t))
    return RunItems(t.elem, tuple(outputs))


def as_run(context: Context, items: tuple[Any, ...], like: RunItems | None = None) -> RunItems:
    """Items of a known number as a list of run-time length; an empty one is of the type of `like`."""
    if not items:
        if like is None:
            raise TypeMismatch(_EMPTY, context.span(), hint="put an item into it first")
        t: tp.Template = tp.ListOf(like.elem)
    else:
        try:
            t = tp.list_of(context, tp.content_template(context, items, True), Symbol().number)
            if like is not None and tp.holds_nothing(t.elem):
                t = tp.join(context, t, tp.ListOf(like.elem), tp.Widener(context, Symbol().number))
            t = settle(context, t, items)
        except tp.Clash as clash:
            raise TypeMismatch(f"a list of run-time length cannot hold these items: {clash}", context.span()) from None
    t = settle(context, t, items)
    assert isinstance(t, tp.ListOf)
    return RunItems(t.elem, tuple(lower(context, t, items)))


def reversed_items(context: Context, held: RunItems) -> RunItems:
    """What `xs[::-1]` holds."""
    return _sliced(context, held, slice(None, None, -1))


def cleared(context: Context, held: RunItems) -> RunItems:
    """Nothing, of the same type."""
    return RunItems(held.elem, tuple(context.one("list.new", type=v.type) for v in held.leaves))


def unpacked(context: Context, held: RunItems, n: int) -> Iterator[Any]:
    """The elements of a list that is unpacked into n names, whose length has been checked."""
    return iter([_item(context, held, context.constant(k)) for k in range(n)])


def holds_tensors(context: Context, value: SymTensor | SymList) -> bool:
    """Whether every element is a tensor."""
    held = run_items(context, value)
    return held is None or isinstance(held.elem, tp.Tensor)


def ordered(context: Context, items: SymTensor | SymList, keys: SymTensor | SymList, reverse: bool) -> Any:
    """What a sorted list holds. Keys that are numbers, or tensors of one element, are sorted as a tensor."""
    if _are_scalars(context, keys):
        keys = calls.call(context, list_methods.read, (keys,), {})
    held = run_items(context, keys)
    kind = held.elem.kind if held is not None and isinstance(held.elem, tp.Num) else object
    if kind is object:
        found = calls.call(context, list_methods.ordered, (items, keys, reverse), {})
    else:
        dtype = dtypes.float64 if kind is float else dtypes.int64
        found = calls.call(context, list_methods.sorted_by, (items, keys, dtype, reverse), {})
    return content(context, found)


def _are_scalars(context: Context, value: SymTensor | SymList) -> bool:
    if isinstance(value, SymTensor):
        return value.ndim == 1
    held = run_items(context, value)
    return held is not None and isinstance(held.elem, tp.Tensor) and not held.elem.dims
