"""Dicts as values: attributes and methods."""

from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.numbers import operator_of
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.containers import contents, dict_methods, foreign_dicts, open_dicts
from jitgrad.script.frontend.containers.iteration import IterableKind
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates import locations, unions
from jitgrad.script.frontend.templates.unions import bound
from jitgrad.script.frontend.values import numbers, protocol
from jitgrad.script.frontend.values.objects import ObjectKind
from jitgrad.script.frontend.values.plain import SizedKind, static
from jitgrad.script.frontend.values.protocol import Methods, call, is_dynamic, items_of, register, truth
from jitgrad.script.frontend.values.strings import listed
from jitgrad.script.frontend.values.values import (UNBOUND, Attributes, Instance, Iterable, Number, RunText, SymDict,
                                                   SymTensor, TensorMap, Text, sequence)


def _get(context: Context, target: SymDict, key: Any, default: Any = None) -> Any:
    if isinstance(key, Number):
        return foreign_dicts.look_up(context, contents.dict_of(context, target), key, lambda: default)
    return contents.dict_of(context, target).get(foreign_dicts.key_of(context, target, key), default)


_VALUES: type = type({}.values())


class DictView(Iterable):
    """`d.keys()`, `d.values()`, `d.items()` of a dict whose keys are known while compiling."""

    __slots__ = ("cls", "taken", "target")

    def __init__(self, context: Context, target: SymDict, cls: type, taken: Callable[[dict[Any, Any]], Any]):
        self.target, self.cls, self.taken = target, cls, taken
        n = len(contents.dict_of(context, target))

        def now(cx: Context) -> int:
            if open_dicts.is_open(cx, target):
                raise UnsupportedCall("a dict to which some runs add while a loop goes over it", cx.span(),
                                      hint="loop over `list(d)`")
            if len(contents.dict_of(cx, target)) != n:
                raise effects.raise_now(cx, RuntimeError, ("dictionary changed size during iteration",))
            return n

        super().__init__(n, lambda cx, k: self.items(cx)[k], True, now)

    def items(self, context: Context) -> tuple[Any, ...]:
        """What it shows now."""
        return tuple(self.taken(contents.dict_of(context, self.target)))


@register(DictView)
class DictViewKind(IterableKind):
    """A view of a dict: a loop goes over what there is when it begins."""

    def class_of(self, obj: Any) -> type:
        found: type = obj.cls
        return found

    def iterate(self, context: Context, obj: Any) -> Iterable:
        return DictView(context, obj.target, obj.cls, obj.taken)

    def length(self, context: Context, obj: Any) -> Any:
        return protocol.length(context, obj.target)

    def truth(self, context: Context, obj: Any) -> Any:
        return truth(context, self.length(context, obj))

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        return protocol.contains(context, obj.items(context), item)

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        """Set operations; views of values have none."""
        sides = [v.items(context) if isinstance(v, DictView) and v.cls is not _VALUES else v for v in (a, b)]
        if any(map(is_dynamic, sides)):
            raise UnsupportedCall("a set operation on run-time values", context.span(), hint="write a loop")
        one, other = (set(s) if s is not v else v for s, v in zip(sides, (a, b), strict=True))
        return effects.guarded(context, lambda: operator_of(op)(one, other))

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        return self.binary(context, op, a, b)

    def text(self, context: Context, obj: Any, conversion: str, spec: str) -> list[Any]:
        self.no_format(context, obj, spec)
        return listed(context, obj, f"{obj.cls.__name__}([", [("", v) for v in obj.items(context)], "])")


def _view(cls: type, taken: Callable[[dict[Any, Any]], Any]) -> Callable[[Context, SymDict], DictView]:
    return lambda context, target: DictView(context, target, cls, taken)


_keys = _view(type({}.keys()), dict.keys)


def _update(context: Context, target: SymDict, other: Any = None, **named: Any) -> None:
    items = dict(contents.dict_of(context, target))
    if other is not None:
        items.update(pairs(context, other))
    items.update(named)
    foreign_dicts.change(context, target, items)


def pairs(context: Context, value: Any) -> dict[Any, Any]:
    """What `dict(value)` holds."""
    if isinstance(value, (SymDict, dict, Attributes)):
        return contents.dict_of(context, value)
    if isinstance(value, Instance) and hasattr(value.cls, "keys"):
        keys = call(context, protocol.get_attribute(context, value, "keys"))
        return {static(context, k, "a dict key"): protocol.get_item(context, value, k) for k in items_of(context, keys)}
    found = {}
    for pair in items_of(context, value):
        k, v = items_of(context, pair)
        found[static(context, k, "a dict key")] = v
    return found


def _copy_dict(context: Context, target: SymDict) -> SymDict:
    return contents.new_dict(context, dict(contents.dict_of(context, target)))


def _setdefault(context: Context, target: SymDict, key: Any, default: Any = None) -> Any:
    items = contents.dict_of(context, target)
    name = foreign_dicts.key_of(context, target, key)
    if name not in items:
        foreign_dicts.change(context, target, {**items, name: default})
        return default
    return items[name]


def _find(context: Context, target: TensorMap, key: Any, default: Any = None) -> Any:
    found = foreign_dicts.find(context, target, key)
    return default if found is UNBOUND else bound(context, found, KeyError, "")


def _find_or_set(context: Context, target: TensorMap, key: Any, default: Any = None) -> Any:
    found = foreign_dicts.find(context, target, key)
    if found is UNBOUND:
        foreign_dicts.setitem(context, target, key, default)
        return default
    return bound(context, found, KeyError, "")


_REQUIRED = object()


def _pop_key(context: Context, target: SymDict, key: Any, default: Any = _REQUIRED) -> Any:
    items = dict(contents.dict_of(context, target))
    place = static(context, key, "a dict key")
    if place not in items:
        return effects.guarded(context, lambda: items.pop(place)) if default is _REQUIRED else default
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


@register(SymDict)
class DictKind(SizedKind):
    """A dict of the script, or one that it was given."""

    rank = 1

    methods: ClassVar[Methods] = {**contents.OPERATORS, "get": _get, "keys": _keys,
               "values": _view(_VALUES, dict.values), "items": _view(type({}.items()), dict.items), "update": _update,
               "copy": _copy_dict, "setdefault": _setdefault, "pop": _pop_key, "popitem": _pop_item,
               "clear": _clear_dict}

    def class_of(self, obj: SymDict) -> type:
        return dict

    def maker(self, obj: SymDict) -> Callable[[], Any]:
        return dict

    def result(self, results: Leaving, obj: SymDict) -> sig.Result:
        if obj.source is not None:
            return sig.Given(obj.source)
        content = locations.fetch(results.context, results.context.state, obj)
        return results.content(obj, content, results.identity(obj))

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        return contents.identical(context, a, b)

    def text(self, context: Context, obj: SymDict, conversion: str, spec: str) -> list[Any]:
        self.no_format(context, obj, spec)
        return listed(context, obj, "{", [(f"{k!r}: ", v) for k, v in contents.dict_of(context, obj).items()], "}")

    def printer(self, context: Context, obj: SymDict) -> Callable[[Any], Any] | None:
        if not open_dicts.is_open(context, obj):
            return None
        return lambda stream: call(context, dict_methods.show, *open_dicts.parts(context, obj), stream)

    def get_attribute(self, context: Context, obj: SymDict, name: str) -> Any:
        return open_dicts.method(context, obj, name, super().get_attribute(context, obj, name))

    def get_item(self, context: Context, obj: SymDict, index: Any) -> Any:
        return unions.switch(context, index, lambda key: self._item(context, obj, key))

    def _item(self, context: Context, obj: SymDict, index: Any) -> Any:
        if open_dicts.finds(context, obj, index):
            return open_dicts.getitem(context, obj, index)
        items = contents.dict_of(context, obj)
        if isinstance(index, Number):
            return foreign_dicts.look_up(context, items, index)
        key = foreign_dicts.key_of(context, obj, index)
        return effects.guarded(context, lambda: items[key])

    def set_item(self, context: Context, obj: SymDict, index: Any, value: Any) -> None:
        unions.switch(context, index, lambda key: self._set_item(context, obj, key, value))

    def _set_item(self, context: Context, obj: SymDict, index: Any, value: Any) -> None:
        if open_dicts.takes(context, obj, index):
            open_dicts.setitem(context, obj, index, value)
            return
        key = foreign_dicts.key_of(context, obj, index)
        foreign_dicts.change(context, obj, {**contents.dict_of(context, obj), key: value})

    def delete_item(self, context: Context, obj: SymDict, index: Any) -> None:
        unions.switch(context, index, lambda key: self._delete_item(context, obj, key))

    def _delete_item(self, context: Context, obj: SymDict, index: Any) -> None:
        if open_dicts.takes(context, obj, index):
            open_dicts.delitem(context, obj, index)
        else:
            _pop_key(context, obj, static(context, index, "the place of a `del`"))

    def length(self, context: Context, obj: SymDict) -> Any:
        if open_dicts.is_open(context, obj):
            return open_dicts.length(context, obj)
        return len(contents.dict_of(context, obj))

    def iterate(self, context: Context, obj: SymDict) -> Iterable:
        if open_dicts.is_open(context, obj):
            return open_dicts.iterable(context, obj)
        return _keys(context, obj)

    def is_open(self, context: Context, obj: SymDict) -> bool:
        return open_dicts.is_open(context, obj)

    def contains(self, context: Context, obj: SymDict, item: Any) -> Any:
        return unions.switch(context, item, lambda key: self._contains(context, obj, key))

    def _contains(self, context: Context, obj: SymDict, item: Any) -> Any:
        if open_dicts.finds(context, obj, item):
            return open_dicts.contains(context, obj, item)
        if isinstance(item, Number):
            return protocol.contains(context, tuple(contents.dict_of(context, obj)), item)
        key = item if isinstance(item, SymTensor) else static(context, item, "a dict key")
        return key in contents.dict_of(context, obj)

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if op == "or" and isinstance(a, (SymDict, dict)) and isinstance(b, (SymDict, dict)):
            return contents.new_dict(context, {**contents.dict_of(context, a), **contents.dict_of(context, b)})
        return NotImplemented

    def in_place(self, context: Context, op: str, obj: Any, value: Any) -> Any:
        if op != "or":
            return super().in_place(context, op, obj, value)
        call(context, self.get_attribute(context, obj, "update"), value)
        return obj

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if not (isinstance(a, SymDict) and isinstance(b, SymDict)) or op not in ("eq", "ne"):
            return NotImplemented
        same = _equal(context, a, b)
        return same if op == "eq" else numbers.negate(context, same)


def _equal(context: Context, first: SymDict, second: SymDict) -> Any:
    if open_dicts.is_open(context, first) or open_dicts.is_open(context, second):
        return open_dicts.equal(context, first, second)
    a, b = contents.dict_of(context, first), contents.dict_of(context, second)
    return contents.all_same(context, [(a[key], b[key]) for key in a]) if set(a) == set(b) else False


@register(TensorMap)
class TensorMapKind(SizedKind):
    """A dict of the caller's that is keyed by tensors."""

    methods: ClassVar[Methods] = {"get": _find, "setdefault": _find_or_set}

    def result(self, results: Leaving, obj: TensorMap) -> sig.Result:
        return sig.Given(obj.source)

    def class_of(self, obj: TensorMap) -> type:
        return dict

    def get_item(self, context: Context, obj: TensorMap, index: Any) -> Any:
        return foreign_dicts.getitem(context, obj, index)

    def set_item(self, context: Context, obj: TensorMap, index: Any, value: Any) -> None:
        foreign_dicts.setitem(context, obj, index, value)

    def length(self, context: Context, obj: TensorMap) -> Any:
        return foreign_dicts.length(context, obj)

    def contains(self, context: Context, obj: TensorMap, item: Any) -> Any:
        return numbers.negate(context, foreign_dicts.lacks(context, obj, item))


@register(dict)
class StaticDictKind(ObjectKind):
    """A dict of the evaluator's own, or one that never changes."""

    def is_dynamic(self, obj: dict[Any, Any]) -> bool:
        return any(is_dynamic(v) for v in obj.values())

    def iterate(self, context: Context, obj: dict[Any, Any]) -> Iterable:
        return sequence(list(obj))

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        return DictKind.binary(self, context, op, a, b)  # type: ignore[arg-type]


@register(list)
class StaticListKind(ObjectKind):
    """A list of the evaluator's own."""

    def is_dynamic(self, obj: list[Any]) -> bool:
        return any(map(is_dynamic, obj))


@register(set, frozenset)
class SetKind(ObjectKind):
    """A set, whose items are static."""

    def iterate(self, context: Context, obj: Any) -> Iterable:
        return sequence(list(obj))

    def in_place(self, context: Context, op: str, obj: Any, value: Any) -> Any:
        if isinstance(obj, set) and hasattr(obj, f"__i{op}__"):
            contents.set_changes(context)
        return super().in_place(context, op, obj, value)

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        if isinstance(item, (Number, Text, RunText)):
            return protocol.contains(context, tuple(obj), item)
        return super().contains(context, obj, item)
