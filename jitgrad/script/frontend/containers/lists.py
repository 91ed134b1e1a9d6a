"""Lists whose length is known at run time.

What such a list holds is a `RunItems`: for each leaf of an element (a tuple of two tensors has two) a list of the
graph, which is a value. The Python list is the location in the state that holds it, so names, tuples and closures that
share the list see every change. An element that is a tensor is a value too: a tensor that is in a list, or was read
from one, is not written in place any more.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jitgrad import dtypes
from jitgrad.dims import Symbol
from jitgrad.errors import Span, TypeMismatch, UnsupportedCall
from jitgrad.ops.types import INT
from jitgrad.script.frontend.containers import contents, list_methods
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context, Restart
from jitgrad.script.frontend.templates import locations, pools, run_lists
from jitgrad.script.frontend.templates.alternatives import Num
from jitgrad.script.frontend.templates.of_values import content_template, template_of
from jitgrad.script.frontend.templates.sequences import ListOf, list_of
from jitgrad.script.frontend.templates.sizes import Elements, Widener
from jitgrad.script.frontend.templates.template import Clash, Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import call, is_open, items_of, type_name, type_word
from jitgrad.script.frontend.values.values import Iterable, Number, Part, RunItems, SymDict, SymList, SymTensor
from jitgrad.script.graph.ir import Value

_EMPTY = "the type of this list's items is not known: nothing is put into it before it is used here"


def change(context: Context, target: SymList, items: Any) -> None:
    """Let a list hold something else."""
    contents.own(context, target)
    pools.write(context, target, items)


def of_run_time_length(context: Context, value: Any) -> SymTensor | SymList | None:
    """An iterable of run-time length, as something that has `len` and takes an index; None for others."""
    if not is_open(context, value):
        return None
    if isinstance(value, (SymTensor, SymList)):
        return value
    if isinstance(value, SymDict):
        keys: SymList = run_lists.content(context, value)[Part.KEYS]
        return keys
    found = call(context, list_methods.collected, value)
    assert isinstance(found, SymList)
    return found


# --- positions -----------------------------------------------------------------------------------------------------


def place(context: Context, held: RunItems, index: Any, text: str, empty: str = "") -> Value:
    """The position that an index means. IndexError with `text` (with `empty` where there is no element)."""
    if isinstance(index, SymTensor):
        from jitgrad.ops.backend import backend

        tensor = index
        index = effects.guarded(context, lambda: backend().item(tensor))
    kinds = (bool, int)
    if not isinstance(index, kinds) and not (isinstance(index, Number) and index.number_type in kinds):
        raise effects.raise_now(context, TypeError, (
            f"list indices must be integers or slices, not {type_name(index)}",))
    n = run_lists.length(context, held)
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
        raise effects.raise_now(context, IndexError, (text,))
    effects.emit(context, "check", condition.value, error=IndexError, template=(text,))


def get(context: Context, held: RunItems, index: Any, cls: type[SymList] = SymList) -> Any:
    """`xs[index]`, a part of it as a `cls`."""
    if isinstance(index, slice):
        made = cls()
        context.state.values[made] = _sliced(context, held, index)
        return made
    return run_lists.item_at(context, held, place(context, held, index, "list index out of range"))


def changes_while_looped(context: Context, target: SymList, place: Span | None) -> Exception:
    """A list changes while a loop goes over it, as only the run knows: a `for` at `place` takes item by item then."""
    if type(target) is SymList and ("live", place) not in context.decisions:
        return Restart(("live", place), "a loop changes the list that it goes over: item by item")
    return UnsupportedCall("a list that changes while a loop goes over it", context.span(),
                           hint="loop over a copy: `for x in xs.copy()`")


def is_live(context: Context) -> bool:
    """Whether the loop over what is evaluated here changes that."""
    return ("live", context.span()) in context.decisions


def _version(context: Context, value: SymList) -> Any:
    """What stays the same object while a list is not changed."""
    return run_lists.content(context, value) if value.entry is None else locations.fetch(
        context, context.state, value.entry.pool)


def iterable(context: Context, value: SymList, held: RunItems) -> Iterable:
    """What a `for` over the list goes over."""
    version, place = _version(context, value), context.span()

    def item(cx: Context, k: Any) -> Any:
        if _version(cx, value) is not version:
            raise changes_while_looped(cx, value, place)
        return run_lists.item_at(cx, held, numbers.value_of(cx, k))

    return Iterable(run_lists.length(context, held), item, False)


# --- changes -------------------------------------------------------------------------------------------------------


def _wider(context: Context, held: RunItems, item: Any) -> RunItems:
    """What a list holds, of a type that can hold `item` too."""
    pools.enter(context, item)
    run_lists.mark(context, item)
    elements = Elements(context, Symbol().number)
    try:
        elem = held.elem.join(template_of(context, item, True).as_element(elements), elements)
    except Clash as clash:
        raise TypeMismatch(f"a list whose items are {held.elem} cannot take {type_word(item)}: {clash}", context.span(),
                           hint="let it hold tensors of one dtype and rank, or numbers, or tuples of these") from None
    return held if elem == held.elem else RunItems(elem, tuple(run_lists.lower(context, elem, held)))


def put(context: Context, held: RunItems, k: Value, item: Any) -> RunItems:
    """With element k set, or appended where k is the length."""
    held = _wider(context, held, item)
    leaves = run_lists.put(context, held.elem, held.leaves, k, item)
    return RunItems(held.elem, tuple(leaves))


def append(context: Context, held: RunItems, item: Any) -> RunItems:
    return put(context, held, run_lists.length_of(context, held), item)


def set_item(context: Context, held: RunItems, index: Any, value: Any) -> RunItems:
    """`xs[index] = value`."""
    if isinstance(index, slice):
        given: Any = run_lists.run_items(context, value)
        if given is None:
            whole = of_run_time_length(context, value)
            if isinstance(whole, SymTensor):
                whole = call(context, list_methods.collected, whole)
            given = tuple(items_of(context, value)) if whole is None else run_lists.run_items(context, whole)
        if _has_step(context, index):
            target, values = run_lists.new(context, held), run_lists.new(context, given)
            made = call(context, list_methods.with_every, target, index, values)
            return as_run(context, run_lists.content(context, made))
        before, after = _around(context, held, index)
        return extend(context, extend(context, before, given), after)  # type: ignore[no-any-return]
    return put(context, held, place(context, held, index, "list assignment index out of range"), value)


def _has_step(context: Context, index: slice) -> bool:
    """Whether a slice takes every so many items."""
    return index.step is not None and static(context, index.step, "the step of a slice of a list") != 1


def _around(context: Context, held: RunItems, index: slice) -> tuple[RunItems, RunItems]:
    """What is before a slice, and what is after it."""
    n = run_lists.length(context, held)
    start = context.constant(0) if index.start is None else _clipped(context, index.start, n)
    stop = n.value if index.stop is None else _clipped(context, index.stop, n)
    stop = context.one("num.max", start, stop)
    rest = context.one("num.sub", n.value, stop)
    return _take(context, held, start), _gathered(
        context, held, rest, lambda i: run_lists.item_at(context, held, context.one("num.add", stop, i)))


def delete(context: Context, held: RunItems, index: Any) -> RunItems:
    """What `del xs[index]` leaves."""
    if isinstance(index, slice):
        if _has_step(context, index):
            made = call(context, list_methods.without_every, run_lists.new(context, held), index)
            return as_run(context, run_lists.content(context, made))
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
    item = run_lists.item_at(context, held, k)
    last = context.one("num.sub", run_lists.length_of(context, held), context.constant(1))
    if type(index) is int and index == -1:
        return item, _take(context, held, last)

    def moved(i: Value) -> Value:
        """Where element i of what is left is now."""
        after = context.one("num.ge", i, k)
        return context.one("num.add", i, context.one("num.cast", after, to="int"))

    return item, _gathered(context, held, last, lambda i: run_lists.item_at(context, held, moved(i)))


def about_to_change(context: Context, target: SymList, index: Any, value: Any = None) -> RunItems | None:
    """What a list holds if how much is known only at run time, or where a change at `index` makes it so."""
    held = run_lists.content(context, target)
    places = (index.start, index.stop) if isinstance(index, slice) else (index,)
    if isinstance(held, tuple) and held and (any(isinstance(p, Number) for p in places) or is_open(context, value)):
        return as_run(context, held)
    return held if isinstance(held, RunItems) else None


def insert(context: Context, held: RunItems, index: Any, item: Any) -> RunItems:
    """Python's `insert`: an index beyond either end means that end."""
    held = _wider(context, held, item)
    n = run_lists.length(context, held)
    k = _clipped(context, index, n)
    value = held.elem.rebuild(context, iter(run_lists.leaves_of(context, held.elem, item)))
    count = context.one("num.add", n.value, context.constant(1))

    def chosen(i: Value) -> Any:
        here = numbers.wrap(context, context.one("num.eq", i, k))
        after = context.one("num.cast", context.one("num.gt", i, k), to="int")

        def other() -> Any:
            return run_lists.item_at(context, held, context.one("num.sub", i, after))

        return dispatch.branch(context, here, lambda: value, other, frozenset())

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
        raise effects.raise_now(context, ValueError, ("slice step cannot be zero",))
    n, zero = run_lists.length(context, held), context.constant(0)
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
        return run_lists.item_at(context, held, context.one("num.add", start, offset))

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
    return run_lists.gathered(context, held.elem, count, run_lists.empty(context, held.elem), lambda k: (k, item(k)))


def extend(context: Context, held: Any, other: Any) -> Any:
    """What `xs + ys` holds; at least one of the two is of run-time length."""
    if not isinstance(other, RunItems):
        for item in other:
            held = append(context, held, item)
        return held
    if not isinstance(held, RunItems):
        held = as_run(context, held, other)
    try:
        joined = ListOf(held.elem).join(ListOf(other.elem), Widener(context, Symbol().number))
    except Clash as clash:
        raise TypeMismatch(f"a list whose items are {held.elem} and one of {other.elem}: {clash}",
                           context.span()) from None
    assert isinstance(joined, ListOf)
    starts = run_lists.lower(context, joined.elem, held)
    n = run_lists.length_of(context, held)
    return run_lists.gathered(context, joined.elem, run_lists.length_of(context, other), starts, lambda k: (
        context.one("num.add", n, k), run_lists.item_at(context, other, k)))


def as_run(context: Context, items: tuple[Any, ...], like: RunItems | None = None) -> RunItems:
    """Items of a known number as a list of run-time length; an empty one is of the type of `like`."""
    pools.enter(context, items)
    if not items:
        if like is None:
            raise TypeMismatch(_EMPTY, context.span(), hint="put an item into it first")
        t: Template = ListOf(like.elem)
    else:
        try:
            t = list_of(content_template(context, items, True), Widener(context, Symbol().number))
            if like is not None and t.elem.holds_nothing():
                t = t.join(ListOf(like.elem), Widener(context, Symbol().number))
            t = t.enlist(context, items)
        except Clash as clash:
            raise TypeMismatch(f"a list of run-time length cannot hold these items: {clash}", context.span()) from None
    t = t.enlist(context, items)
    assert isinstance(t, ListOf)
    return RunItems(t.elem, tuple(run_lists.lower(context, t.elem, items)))


def reversed_items(context: Context, held: RunItems) -> RunItems:
    """What `xs[::-1]` holds."""
    return _sliced(context, held, slice(None, None, -1))


def cleared(context: Context, held: RunItems) -> RunItems:
    """Nothing, of the same type."""
    return RunItems(held.elem, tuple(context.one("list.new", type=v.type) for v in held.leaves))


def unpacked(context: Context, held: RunItems, n: int) -> Iterator[Any]:
    """The elements of a list that is unpacked into n names, whose length has been checked."""
    return iter([run_lists.item_at(context, held, context.constant(k)) for k in range(n)])


def holds_tensors(context: Context, value: SymTensor | SymList) -> bool:
    """Whether every element is a tensor."""
    held = run_lists.run_items(context, value)
    return held is None or isinstance(held.elem, Tensor)


def ordered(context: Context, items: SymTensor | SymList, keys: SymTensor | SymList, reverse: bool) -> Any:
    """What a sorted list holds. Keys that are numbers, or tensors of one element, are sorted as a tensor."""
    if _are_scalars(context, keys):
        keys = call(context, list_methods.read, keys)
    held = run_lists.run_items(context, keys)
    kind = held.elem.kind if held is not None and isinstance(held.elem, Num) else object
    if kind is object:
        found = call(context, list_methods.ordered, items, keys, reverse)
    else:
        dtype = dtypes.float64 if kind is float else dtypes.int64
        found = call(context, list_methods.sorted_by, items, keys, dtype, reverse)
    return run_lists.content(context, found)


def _are_scalars(context: Context, value: SymTensor | SymList) -> bool:
    if isinstance(value, SymTensor):
        return value.ndim == 1
    held = run_lists.run_items(context, value)
    return held is not None and isinstance(held.elem, Tensor) and not held.elem.dims
