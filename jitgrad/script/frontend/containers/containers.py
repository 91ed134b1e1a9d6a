"""Methods of lists and dicts that a script knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers import contents, foreign_dicts, list_methods, lists, open_dicts
from jitgrad.script.frontend.evaluate import calls
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values import locations, numbers
from jitgrad.script.frontend.values.values import (
    UNBOUND,
    Method,
    Number,
    RunItems,
    SymDict,
    SymList,
    Tail,
    TensorMap,
    is_dynamic,
    type_word,
)


def _change(context: Context, target: SymList, items: list[Any]) -> None:
    contents.own(context, target)
    context.state.values[target] = tuple(items)


def append(context: Context, target: SymList, value: Any) -> None:
    """`list.append`."""
    held = run_lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.append(context, held, value))
        return
    extend(context, target, (value,))


def extend(context: Context, target: SymList, values: Any) -> None:
    """`list.extend`."""
    if not isinstance(values, SymList) and lists.is_open(context, values):
        values = calls.call(context, list_methods.collected, (values,), {})
    held, more = locations.fetch(context, context.state, target), run_lists.run_items(context, values)
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
    value = effects.guarded(context, lambda: items.pop(place))
    _change(context, target, items)
    return value


def _reverse(context: Context, target: SymList) -> None:
    held = run_lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.reversed_items(context, held))
        return
    _change(context, target, contents.items_of(context, target)[::-1])


def _clear(context: Context, target: SymList) -> None:
    held = run_lists.run_items(context, target)
    if held is not None:
        lists.change(context, target, lists.cleared(context, held))
        return
    _change(context, target, [])


def _copy_list(context: Context, target: SymList) -> SymList:
    return run_lists.new(context, run_lists.content(context, target))


def _index(context: Context, target: SymList, value: Any) -> Any:
    return calls.call(context, list_methods.index, (target, value), {})


def _count(context: Context, target: SymList, value: Any) -> Any:
    return calls.call(context, list_methods.count, (target, value), {})


def _remove(context: Context, target: SymList, value: Any) -> Any:
    calls.call(context, list_methods.remove, (target, value), {})


def _get(context: Context, target: SymDict, key: Any, default: Any = None) -> Any:
    if isinstance(key, Number):
        return foreign_dicts.look_up(context, contents.dict_of(context, target), key, lambda: default)
    return contents.dict_of(context, target).get(calls.static(context, key, "a dict key"), default)


def _keys(context: Context, target: SymDict) -> Any:
    return tuple(contents.dict_of(context, target))


def _values(context: Context, target: SymDict) -> Any:
    return tuple(contents.dict_of(context, target).values())


def _items(context: Context, target: SymDict) -> Any:
    return tuple(contents.dict_of(context, target).items())


def _update(context: Context, target: SymDict, other: Any = None, **named: Any) -> None:
    items = dict(contents.dict_of(context, target))
    if other is not None:
        items.update(pairs(context, other))
    items.update(named)
    foreign_dicts.change(context, target, items)


def pairs(context: Context, value: Any) -> dict[Any, Any]:
    """What `dict(value)` holds."""
    if isinstance(value, (SymDict, dict)):
        return contents.dict_of(context, value)
    found = {}
    for pair in contents.items_of(context, value):
        k, v = contents.items_of(context, pair)
        found[calls.static(context, k, "a dict key")] = v
    return found


def _copy_dict(context: Context, target: SymDict) -> SymDict:
    made = SymDict()
    context.state.values[made] = dict(contents.dict_of(context, target))
    return made


def _setdefault(context: Context, target: SymDict, key: Any, default: Any = None) -> Any:
    items = contents.dict_of(context, target)
    name = calls.static(context, key, "a dict key")
    if name not in items:
        foreign_dicts.change(context, target, {**items, name: default})
        return default
    return items[name]


def _find(context: Context, target: TensorMap, key: Any, default: Any = None) -> Any:
    found = foreign_dicts.find(context, target, key)
    return default if found is UNBOUND else unions.bound(context, found, KeyError, "")


def _find_or_set(context: Context, target: TensorMap, key: Any, default: Any = None) -> Any:
    found = foreign_dicts.find(context, target, key)
    if found is UNBOUND:
        foreign_dicts.setitem(context, target, key, default)
        return default
    return unions.bound(context, found, KeyError, "")


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
        order = effects.guarded(context, lambda: sorted(range(len(items)), key=lambda i: keys[i], reverse=reverse))
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


_REQUIRED = object()


def _pop_key(context: Context, target: SymDict, key: Any, default: Any = _REQUIRED) -> Any:
    items = dict(contents.dict_of(context, target))
    place = calls.static(context, key, "a dict key")
    if place not in items:
        if default is _REQUIRED:
            raise effects.raise_now(context, KeyError, (str(place),))
        return default
    value = items.pop(place)
    foreign_dicts.change(context, target, items)
    return value


def _pop_item(context: Context, target: SymDict) -> Any:
    items = contents.dict_of(context, target)
    if not items:
        raise effects.raise_now(context, KeyError, ("popitem(): dictionary is empty",))
    key = list(items)[-1]
    return key, _pop_key(context, target, key)


def _clear_dict(context: Context, target: SymDict) -> None:
    foreign_dicts.change(context, target, {})


#: how many run-time numbers are sorted by comparing neighbours, so that the length stays known
SORTED = 16

METHODS: dict[tuple[type, str], Callable[..., Any]] = {
    (SymList, "append"): append, (SymList, "extend"): extend, (SymList, "insert"): _insert, (SymList, "pop"): _pop,
    (SymList, "reverse"): _reverse, (SymList, "clear"): _clear, (SymList, "copy"): _copy_list,
    (SymList, "index"): _index, (SymList, "count"): _count, (SymList, "remove"): _remove,
    (SymDict, "get"): _get, (SymDict, "keys"): _keys, (SymDict, "values"): _values, (SymDict, "items"): _items,
    (SymDict, "update"): _update, (SymDict, "copy"): _copy_dict, (SymDict, "setdefault"): _setdefault,
    (SymDict, "pop"): _pop_key, (SymDict, "popitem"): _pop_item, (SymDict, "clear"): _clear_dict,
    (SymList, "sort"): _sort,
    (TensorMap, "get"): _find, (TensorMap, "setdefault"): _find_or_set,
}

__all__ = ["METHODS", "append", "extend"]


def method(context: Context, obj: Any, name: str) -> Method:
    """A method of a list or dict, bound."""
    found = METHODS.get((type(obj), name))
    if found is None:
        raise UnsupportedCall(f"`{name}` of {type_word(obj)}", context.span())
    made = Method(name, lambda cx, args, kwargs: found(cx, obj, *args, **kwargs))
    return open_dicts.method(context, obj, name, made) if isinstance(obj, SymDict) else made
