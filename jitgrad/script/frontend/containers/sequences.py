"""Lists and tuples as values: attributes and methods."""

from __future__ import annotations

from typing import Any, ClassVar

from jitgrad.errors import UnresolvedAttribute
from jitgrad.ops.library.core import product
from jitgrad.script.frontend.containers import contents, list_methods, lists
from jitgrad.script.frontend.evaluate import calls, merge
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.objects import bind, class_attribute, get_property, is_method
from jitgrad.script.frontend.values.protocol import Kind, Methods, register
from jitgrad.script.frontend.values.static import guarded
from jitgrad.script.frontend.values.values import (
    Method,
    Number,
    RunItems,
    SymList,
    SymTuple,
    Tail,
    is_dynamic,
)

#: how many run-time numbers are sorted by comparing neighbours, so that the length stays known
SORTED = 16


def _change(context: Context, target: SymList, items: list[Any]) -> None:
    contents.own(context, target)
    context.state.values[target] = tuple(items)


def append(context: Context, target: SymList, value: Any) -> None:
    """`list.append`."""
    held = lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.append(context, held, value))
        return
    extend(context, target, (value,))


def extend(context: Context, target: SymList, values: Any) -> None:
    """`list.extend`."""
    if not isinstance(values, SymList) and lists.is_open(context, values):
        values = calls.call(context, list_methods.collected, (values,), {})
    held, more = merge.fetch(context, context.state, target), lists.run_items(context, values)
    if isinstance(held, RunItems) or more is not None:
        given = more if more is not None else tuple(contents.items_of(context, values))
        held = contents.context_items(context, target) if isinstance(held, Tail) else held
        lists.change(context, target, lists.extend(context, held, given))
        return
    new = contents.items_of(context, values)
    contents.own(context, target)
    context.state.values[target] = type(held)((*held, *new))


def _insert(context: Context, target: SymList, index: Any, value: Any) -> None:
    held = lists.about_to_change(context, target, index)
    if held is not None:
        lists.change(context, target, lists.insert(context, held, index, value))
        return
    items = contents.items_of(context, target)
    items.insert(calls.static(context, index, "a list index"), value)
    _change(context, target, items)


def _pop(context: Context, target: SymList, index: Any = -1) -> Any:
    held = lists.about_to_change(context, target, index)
    if held is not None:
        item, rest = lists.pop(context, held, index)
        lists.change(context, target, rest)
        return item
    items = contents.items_of(context, target)
    place = calls.static(context, index, "a list index")
    value = guarded(context, lambda: items.pop(place))
    _change(context, target, items)
    return value


def _reverse(context: Context, target: SymList) -> None:
    held = lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.reversed_items(context, held))
        return
    _change(context, target, contents.items_of(context, target)[::-1])


def _clear(context: Context, target: SymList) -> None:
    held = lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.cleared(context, held))
        return
    _change(context, target, [])


def _copy_list(context: Context, target: SymList) -> SymList:
    return lists.new(context, lists.content(context, target))


def _index(context: Context, target: SymList, value: Any) -> Any:
    return calls.call(context, list_methods.index, (target, value), {})


def _count(context: Context, target: SymList, value: Any) -> Any:
    return calls.call(context, list_methods.count, (target, value), {})


def _remove(context: Context, target: SymList, value: Any) -> Any:
    calls.call(context, list_methods.remove, (target, value), {})


def _sort(context: Context, target: SymList, key: Any = None, reverse: Any = False) -> None:
    lists.change(context, target, ordered(context, target, key, reverse))


def ordered(context: Context, values: Any, key: Any, reverse: Any) -> Any:
    """What a sorted list holds: sorted by Python where the keys are known, by comparing neighbours where they are a
    few numbers, else as a list of run-time length.
    """
    reverse = bool(calls.static(context, reverse, "`reverse`"))
    whole = lists.of_run_time_length(context, values)
    if whole is not None:
        measured = whole if key is None else calls.call(context, list_methods.measured, (whole, key), {})
        return lists.ordered(context, whole, measured, reverse)
    return _ordered(context, contents.items_of(context, values), key, reverse)


def _ordered(context: Context, items: list[Any], key: Any, reverse: bool) -> Any:
    keys = [calls.call(context, key, (x,), {}) if key is not None else x for x in items]
    if not is_dynamic(keys):
        order = guarded(context, lambda: sorted(range(len(items)), key=lambda i: keys[i], reverse=reverse))
        return tuple([items[i] for i in order])
    if len(items) > SORTED or not all(isinstance(k, (bool, int, float, Number)) for k in keys) or not all(
            isinstance(x, (bool, int, float, Number)) for x in items):
        made, given = (lists.new(context, lists.as_run(context, tuple(part))) for part in (items, keys))
        return lists.ordered(context, made, given, reverse)
    pairs = list(zip(keys, items, strict=True))
    for end in range(len(pairs) - 1, 0, -1):
        for k in range(end):
            (a, x), (b, y) = pairs[k], pairs[k + 1]
            swap = numbers.compare(context, "lt", a, b) if reverse else numbers.compare(context, "lt", b, a)
            pairs[k] = numbers.select(context, swap, b, a), numbers.select(context, swap, y, x)
            pairs[k + 1] = numbers.select(context, swap, a, b), numbers.select(context, swap, x, y)
    return tuple([x for _, x in pairs])


@register(SymList)
class ListKind(Kind):
    """A list of the script."""

    methods: ClassVar[Methods] = {
        "append": append, "extend": extend, "insert": _insert, "pop": _pop, "reverse": _reverse, "clear": _clear,
        "copy": _copy_list, "index": _index, "count": _count, "remove": _remove, "sort": _sort}

    def has_attribute(self, context: Context, obj: Any, name: str) -> Any:
        return hasattr(list, name)


@register(SymTuple)
class SymTupleKind(Kind):
    """A tuple of any length."""

    def has_attribute(self, context: Context, obj: Any, name: str) -> Any:
        return hasattr(tuple, name)


@register(tuple)
class TupleKind(Kind):
    """A tuple, a named one included."""

    methods: ClassVar[Methods] = {"numel": lambda cx, obj: product(obj),
               "index": lambda cx, obj, *args: guarded(cx, lambda: obj.index(*args)),
               "count": lambda cx, obj, value: obj.count(value)}

    def get_attribute(self, context: Context, obj: tuple[Any, ...], name: str) -> Any:
        fields = getattr(type(obj), "_fields", ())
        if name in fields:
            return obj[fields.index(name)]
        if name == "_fields":
            return fields
        if name == "_replace" and fields:
            replace: Any = obj._replace  # type: ignore[attr-defined]
            return Method(name, lambda cx, args, kwargs: guarded(cx, lambda: replace(**kwargs)))
        if name == "_asdict" and fields:
            return Method(name, lambda cx, args, kwargs: contents.new_dict(
                cx, dict(zip(fields, obj, strict=True))))
        attribute = class_attribute(type(obj), name)
        if isinstance(attribute, property) and hasattr(attribute.fget, "__code__"):
            return get_property(context, obj, name, attribute)
        if fields and is_method(attribute):
            return bind(obj, attribute)
        return super().get_attribute(context, obj, name)

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        return UnresolvedAttribute(f"`tuple` has no `{name}`", context.span())
