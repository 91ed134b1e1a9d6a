"""Lists and tuples as values: attributes and methods."""

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from jitgrad.errors import NotStatic
from jitgrad.ops.library.sizes import product
from jitgrad.ops.numbers import operator_of
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.containers import contents, generators, list_methods, lists, open_dicts
from jitgrad.script.frontend.containers.indexing import assign_at, is_empty, pick
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates import pools, run_lists
from jitgrad.script.frontend.values import numbers, protocol
from jitgrad.script.frontend.values.objects import bind, class_attribute, get_property, is_method
from jitgrad.script.frontend.values.plain import SizedKind, static
from jitgrad.script.frontend.values.protocol import (Kind, Methods, argument, call, is_dynamic, is_open, items_of,
                                                     register, truth)
from jitgrad.script.frontend.values.strings import listed
from jitgrad.script.frontend.values.values import Iterable, Method, Number, RunItems, SymList, SymTuple, Tail, sequence

#: how many run-time numbers are sorted by comparing neighbours, so that the length stays known
SORTED = 16


def gone_over(context: Context, value: Any) -> Any:
    """What a `for` goes over: of a list or dict that its body changes, the items there are when their turn comes."""
    if type(value) is SymList and lists.is_live(context):
        return call(context, list_methods.live, value)
    if open_dicts.is_open(context, value):
        return open_dicts.gone_over(context, value) or value
    return generators.opened(context, value)


def _change(context: Context, target: SymList, items: list[Any]) -> None:
    contents.own(context, target)
    pools.write(context, target, tuple(items))


def append(context: Context, target: SymList, value: Any) -> None:
    """`list.append`."""
    held = run_lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.append(context, held, value))
        return
    extend(context, target, (value,))


def extend(context: Context, target: SymList, values: Any) -> None:
    """`list.extend`."""
    if not isinstance(values, SymList) and is_open(context, values):
        values = call(context, list_methods.collected, values)
    held, more = contents.unread(context, target), run_lists.run_items(context, values)
    if isinstance(held, RunItems) or more is not None:
        given = more if more is not None else tuple(items_of(context, values))
        held = contents.context_items(context, target) if isinstance(held, Tail) else held
        lists.change(context, target, lists.extend(context, held, given))
        return
    new = items_of(context, values)
    contents.own(context, target)
    pools.write(context, target, type(held)((*held, *new)))


def _insert(context: Context, target: SymList, index: Any, value: Any) -> None:
    held = lists.about_to_change(context, target, index)
    if held is not None:
        lists.change(context, target, lists.insert(context, held, index, value))
        return
    items = items_of(context, target)
    place = static(context, index, "a list index")
    guarded(context, lambda: items.insert(place, value))
    _change(context, target, items)


def _pop(context: Context, target: SymList, index: Any = -1) -> Any:
    held = lists.about_to_change(context, target, index)
    if held is not None:
        item, rest = lists.pop(context, held, index)
        lists.change(context, target, rest)
        return item
    items = items_of(context, target)
    place = static(context, index, "a list index")
    value = guarded(context, lambda: items.pop(place))
    _change(context, target, items)
    return value


def _reverse(context: Context, target: SymList) -> None:
    held = run_lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.reversed_items(context, held))
        return
    _change(context, target, items_of(context, target)[::-1])


def _clear(context: Context, target: SymList) -> None:
    held = run_lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.cleared(context, held))
        return
    _change(context, target, [])


def _copy_list(context: Context, target: SymList) -> SymList:
    return run_lists.new(context, run_lists.content(context, target))


def _index(context: Context, target: SymList, value: Any) -> Any:
    return call(context, list_methods.index, target, value)


def _count(context: Context, target: SymList, value: Any) -> Any:
    return call(context, list_methods.count, target, value)


def _remove(context: Context, target: SymList, value: Any) -> Any:
    call(context, list_methods.remove, target, value)


def _sort(context: Context, target: SymList, key: Any = None, reverse: Any = False) -> None:
    lists.change(context, target, ordered(context, target, key, reverse))


def ordered(context: Context, values: Any, key: Any, reverse: Any) -> Any:
    """What a sorted list holds: sorted by Python where the keys are known, by comparing neighbours where they are a
    few numbers, else as a list of run-time length.
    """
    reverse = bool(static(context, reverse, "`reverse`"))
    whole = lists.of_run_time_length(context, values)
    if whole is not None:
        measured = whole if key is None else call(context, list_methods.measured, whole, key)
        return lists.ordered(context, whole, measured, reverse)
    return _ordered(context, items_of(context, values), key, reverse)


def _ordered(context: Context, items: list[Any], key: Any, reverse: bool) -> Any:
    keys = [call(context, key, x) if key is not None else x for x in items]
    if not is_dynamic(keys):
        order = guarded(context, lambda: sorted(range(len(items)), key=lambda i: keys[i], reverse=reverse))
        return tuple([items[i] for i in order])
    if len(items) > SORTED or not all(isinstance(k, (bool, int, float, Number)) for k in keys) or not all(
            isinstance(x, (bool, int, float, Number)) for x in items):
        made, given = (run_lists.new(context, lists.as_run(context, tuple(part))) for part in (items, keys))
        return lists.ordered(context, made, given, reverse)
    pairs = list(zip(keys, items, strict=True))
    for end in range(len(pairs) - 1, 0, -1):
        for k in range(end):
            (a, x), (b, y) = pairs[k], pairs[k + 1]
            swap = numbers.compare(context, "lt", a, b) if reverse else numbers.compare(context, "lt", b, a)
            pairs[k] = numbers.select(context, swap, b, a), numbers.select(context, swap, y, x)
            pairs[k + 1] = numbers.select(context, swap, a, b), numbers.select(context, swap, x, y)
    return tuple([x for _, x in pairs])


class _SequenceKind(SizedKind):
    """What lists and tuples have in common."""

    rank = 1

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        for cls in (tuple, SymList):
            if isinstance(a, cls) and isinstance(b, cls) and (is_dynamic(a) or is_dynamic(b)):
                return _compared(context, op, a, b)
        return NotImplemented

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        if is_open(context, obj):
            return call(context, list_methods.contains, obj, item)
        return contents.any_same(context, items_of(context, obj), item)


@register(SymList)
class ListKind(_SequenceKind):
    """A list of the script, or one that it was given."""

    methods: ClassVar[Methods] = {
        **contents.OPERATORS, "append": append, "extend": extend, "insert": _insert, "pop": _pop, "reverse": _reverse,
        "clear": _clear,
        "copy": _copy_list, "index": _index, "count": _count, "remove": _remove, "sort": _sort}

    def class_of(self, obj: SymList) -> type:
        return list

    def result(self, results: Leaving, obj: SymList) -> sig.Result:
        if obj.source is not None:
            return sig.Given(obj.source)
        items = results.content(obj, run_lists.content(results.context, obj))
        return self.whole(results, type(obj), items, results.identity(obj))

    def maker(self, obj: SymList) -> Callable[[], Any]:
        return list

    def recipe(self, results: Leaving, cls: type, items: tuple[sig.Result, ...]) -> sig.Result:
        return self.whole(results, cls, sig.Container(list, None, items), -1)

    def whole(self, results: Leaving, cls: type, items: Any, identity: int) -> sig.Result:
        found: sig.Result = replace(items, identity=identity)
        return found

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        return contents.identical(context, a, b)

    def text(self, context: Context, obj: SymList, conversion: str, spec: str) -> list[Any]:
        self.no_format(context, obj, spec)
        return listed(context, obj, "[", [("", v) for v in items_of(context, obj)], "]")

    def printer(self, context: Context, obj: SymList) -> Callable[[Any], Any] | None:
        whole = not isinstance(run_lists.content(context, obj), RunItems)
        return None if whole else lambda stream: call(context, list_methods.show, obj, stream)

    def in_place(self, context: Context, op: str, obj: SymList, value: Any) -> Any:
        if op != "add":
            return super().in_place(context, op, obj, value)
        extend(context, obj, value)
        return obj

    def argument(self, context: Context, obj: SymList) -> Any:
        return [argument(context, v) for v in contents.context_items(context, obj)]

    def get_item(self, context: Context, obj: SymList, index: Any) -> Any:
        held = lists.about_to_change(context, obj, index) if isinstance(index, slice) else run_lists.run_items(
            context, obj)
        if held is not None:
            return lists.get(context, held, index, type(obj))
        found = pick(context, obj, index)
        return contents.new_list(context, found) if isinstance(index, slice) else found

    def set_item(self, context: Context, obj: SymList, index: Any, value: Any) -> None:
        contents.own(context, obj)
        held = run_lists.run_items(context, obj)
        if held is None and isinstance(index, slice):
            held = lists.about_to_change(context, obj, index, value)
        if held is not None:
            pools.write(context, obj, lists.set_item(context, held, index, value))
            return
        items = list(contents.context_items(context, obj))
        if isinstance(index, Number):
            pools.write(context, obj, assign_at(context, items, index, value))
            return
        place = static(context, index, "a list index")
        new = items_of(context, value) if isinstance(place, slice) else value
        guarded(context, lambda: operator.setitem(items, place, new))
        pools.write(context, obj, tuple(items))

    def delete_item(self, context: Context, obj: SymList, index: Any) -> None:
        contents.own(context, obj)
        held = lists.about_to_change(context, obj, index)
        if held is not None:
            pools.write(context, obj, lists.delete(context, held, index))
            return
        items = list(contents.context_items(context, obj))
        if is_empty(items, index):
            return
        place = static(context, index, "the place of a `del`")
        guarded(context, lambda: operator.delitem(items, place))
        pools.write(context, obj, tuple(items))

    def length(self, context: Context, obj: SymList) -> Any:
        held = run_lists.content(context, obj)
        return len(held) if isinstance(held, tuple) else run_lists.length(context, held)

    def iterate(self, context: Context, obj: SymList) -> Iterable:
        held = run_lists.content(context, obj)
        if not isinstance(held, tuple):
            return lists.iterable(context, obj, held)

        place = context.span()

        def now(cx: Context) -> tuple[Any, ...]:
            found = run_lists.content(cx, obj)
            if not isinstance(found, tuple):
                raise lists.changes_while_looped(cx, obj, place)
            return found

        return Iterable(len(held), lambda cx, k: now(cx)[k], True, lambda cx: len(now(cx)))

    def items(self, context: Context, obj: SymList) -> list[Any] | None:
        held = run_lists.content(context, obj)
        return list(held) if isinstance(held, tuple) else None

    def is_open(self, context: Context, obj: SymList) -> bool:
        return run_lists.run_items(context, obj) is not None

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if op not in ("add", "mul") or not isinstance(a, (SymList, int, Number) if op == "mul" else SymList):
            return NotImplemented
        if isinstance(a, SymTuple) or isinstance(b, SymTuple):
            raise run_lists.not_static(context)
        if op == "add":
            return _sum(context, a, b) if isinstance(b, SymList) else NotImplemented
        return _repeated(context, *((a, b) if isinstance(a, SymList) else (b, a)))


def _sum(context: Context, a: Any, b: Any) -> SymList:
    held, more = run_lists.content(context, a), run_lists.content(context, b)
    if isinstance(held, tuple) and isinstance(more, tuple):
        return contents.new_list(context, [*held, *more])
    return run_lists.new(context, lists.extend(context, held, more))


def _repeated(context: Context, items: SymList, times: Any) -> Any:
    if not isinstance(times, (int, Number)) or (isinstance(times, Number) and times.number_type not in (int, bool)):
        return NotImplemented
    held = run_lists.content(context, items)
    if isinstance(held, tuple) and isinstance(times, int):
        return contents.new_list(context, [*held] * times)
    made: SymList = call(context, list_methods.repeated, items, times)
    return made


def _compared(context: Context, op: str, a: Any, b: Any) -> Any:
    """Two tuples or two lists: equal items; the order is that of the first items that differ."""
    if not is_open(context, a) and not is_open(context, b):
        return _compared_items(context, op, items_of(context, a), items_of(context, b))
    if op in ("eq", "ne"):
        same = call(context, list_methods.equal, a, b)
        return same if op == "eq" else numbers.negate(context, same)
    first, second = (a, b) if op in ("lt", "ge") else (b, a)
    found = call(context, list_methods.less, first, second)
    return found if op in ("lt", "gt") else numbers.negate(context, found)


def _compared_items(context: Context, op: str, a: list[Any], b: list[Any]) -> Any:
    def asked(op: str, x: Any, y: Any) -> Any:
        return truth(context, protocol.compare(context, op, x, y))

    if op in ("eq", "ne"):
        result = contents.all_same(context, list(zip(a, b, strict=True))) if len(a) == len(b) else False
        return result if op == "eq" else numbers.negate(context, result)
    if not a or not b:
        return operator_of(op)(len(a), len(b))
    equal = contents.is_same(context, a[0], b[0])
    if not isinstance(equal, Number):
        return _compared_items(context, op, a[1:], b[1:]) if equal else asked(op, a[0], b[0])
    return dispatch.branch(context, equal, lambda: _compared_items(context, op, a[1:], b[1:]),
                           lambda: asked(op, a[0], b[0]))


@register(SymTuple)
class SymTupleKind(ListKind):
    """A tuple of any length."""

    methods: ClassVar[Methods] = {}
    set_item, delete_item = Kind.set_item, Kind.delete_item

    def class_of(self, obj: SymList) -> type:
        return tuple

    def whole(self, results: Leaving, cls: type, items: Any, identity: int) -> sig.Result:
        return sig.Made(tuple, (items,), -1)

    def printer(self, context: Context, obj: SymList) -> Callable[[Any], Any] | None:
        raise run_lists.not_static(context)


@register(tuple)
class TupleKind(_SequenceKind):
    """A tuple, a named one included."""

    dynamic = False
    methods: ClassVar[Methods] = {
        "numel": lambda cx, obj: product(obj),
        "index": lambda cx, obj, value, *ends: call(cx, list_methods.index_in_tuple, obj, value, *ends),
        "count": _count}

    def is_dynamic(self, obj: tuple[Any, ...]) -> bool:
        return any(is_dynamic(v) for v in obj)

    def argument(self, context: Context, obj: tuple[Any, ...]) -> Any:
        return obj if hasattr(obj, "_fields") else tuple.__new__(type(obj), [argument(context, v) for v in obj])

    def result(self, results: Leaving, obj: tuple[Any, ...]) -> sig.Result:
        return self.recipe(results, type(obj), tuple([results.tree(v) for v in obj]))

    def text(self, context: Context, obj: tuple[Any, ...], conversion: str, spec: str) -> list[Any]:
        if not self.is_dynamic(obj):
            return super().text(context, obj, conversion, spec)
        self.no_format(context, obj, spec)
        name = "" if type(obj) is tuple else type(obj).__name__
        if hasattr(obj, "_fields"):
            return listed(context, obj, f"{name}(", [(f"{n}=", v) for n, v in zip(obj._fields, obj, strict=True)], ")")
        opening, closing = (f"{name}([", "])") if name else ("(", ",)" if len(obj) == 1 else ")")
        return listed(context, obj, opening, [("", v) for v in obj], closing)

    def get_attribute(self, context: Context, obj: tuple[Any, ...], name: str) -> Any:
        fields = getattr(type(obj), "_fields", ())
        if name in fields:
            return obj[fields.index(name)]
        if name == "_fields":
            return fields
        if name == "_replace" and fields:
            replace: Any = obj._replace  # type: ignore[attr-defined]
            return Method(name, lambda cx, args, kwargs: guarded(cx, lambda: replace(**kwargs)))
        if name == "__class__":
            return type(obj)
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
        return effects.no_attribute(context, "tuple", name)

    def get_item(self, context: Context, obj: tuple[Any, ...], index: Any) -> Any:
        if isinstance(index, slice) and not is_empty(obj, index) and any(
                isinstance(p, Number) for p in (index.start, index.stop)):
            return lists.get(context, lists.as_run(context, obj), index, SymTuple)
        return pick(context, obj, index)

    def length(self, context: Context, obj: tuple[Any, ...]) -> Any:
        return len(obj)

    def iterate(self, context: Context, obj: tuple[Any, ...]) -> Iterable:
        return sequence(obj)

    def truth(self, context: Context, obj: tuple[Any, ...]) -> Any:
        return bool(obj)

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, (tuple, int)) and isinstance(b, (tuple, int)):
            return guarded(context, lambda: operator_of(op)(a, b))
        if op == "mul" and isinstance(a, (tuple, Number)) and isinstance(b, (tuple, Number)):
            raise NotStatic("how often a tuple is repeated is known only at run time", context.span(),
                            hint="repeat a list: `[x] * n`")
        return NotImplemented
