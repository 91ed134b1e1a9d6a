"""Dicts as values: attributes and methods."""

from __future__ import annotations

from typing import Any, ClassVar

from jitgrad.script.frontend.containers import contents, foreign_dicts, open_dicts
from jitgrad.script.frontend.evaluate import calls, merge
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values.protocol import Kind, Methods, register
from jitgrad.script.frontend.values.values import (
    UNBOUND,
    Number,
    SymDict,
    TensorMap,
)


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
    return default if found is UNBOUND else merge.bound(context, found, KeyError, "")


def _find_or_set(context: Context, target: TensorMap, key: Any, default: Any = None) -> Any:
    found = foreign_dicts.find(context, target, key)
    if found is UNBOUND:
        foreign_dicts.setitem(context, target, key, default)
        return default
    return merge.bound(context, found, KeyError, "")


_REQUIRED = object()


def _pop_key(context: Context, target: SymDict, key: Any, default: Any = _REQUIRED) -> Any:
    items = dict(contents.dict_of(context, target))
    place = calls.static(context, key, "a dict key")
    if place not in items:
        if default is _REQUIRED:
            raise merge.raise_now(context, KeyError, (str(place),))
        return default
    value = items.pop(place)
    foreign_dicts.change(context, target, items)
    return value


def _pop_item(context: Context, target: SymDict) -> Any:
    items = contents.dict_of(context, target)
    if not items:
        raise merge.raise_now(context, KeyError, ("popitem(): dictionary is empty",))
    key = list(items)[-1]
    return key, _pop_key(context, target, key)


def _clear_dict(context: Context, target: SymDict) -> None:
    foreign_dicts.change(context, target, {})


@register(SymDict)
class DictKind(Kind):
    """A dict of the script, or one that it was given."""

    methods: ClassVar[Methods] = {"get": _get, "keys": _keys, "values": _values, "items": _items, "update": _update,
               "copy": _copy_dict, "setdefault": _setdefault, "pop": _pop_key, "popitem": _pop_item,
               "clear": _clear_dict}

    def get_attribute(self, context: Context, obj: SymDict, name: str) -> Any:
        return open_dicts.method(context, obj, name, super().get_attribute(context, obj, name))

    def has_attribute(self, context: Context, obj: Any, name: str) -> Any:
        return hasattr(dict, name)


@register(TensorMap)
class TensorMapKind(Kind):
    """A dict of the caller's that is keyed by tensors."""

    methods: ClassVar[Methods] = {"get": _find, "setdefault": _find_or_set}
