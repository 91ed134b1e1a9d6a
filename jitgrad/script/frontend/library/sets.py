"""Sets in scripts. One of known items that nothing changes is Python's; any other is an object that holds a dict.

In which order Python would go over such a set depends on the hashes of its items and on what it held before, so the
object has no order: `sorted(s)` gives one.
"""

from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.containers.generators import Generator
from jitgrad.script.frontend.library import builtins
from jitgrad.script.frontend.state.context import SETS, Context, Restart
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, HANDLERS, Args, by_parameters, handles
from jitgrad.script.frontend.templates import run_lists
from jitgrad.script.frontend.values.instances import instance
from jitgrad.script.frontend.values.protocol import call, is_dynamic, items_of
from jitgrad.script.frontend.values.values import Instance

_INSTEAD = "`sorted(s)` is a list of its items; `len`, `in`, `min`, `max`, `|`, `&` and `-` need no order"


def _order(value: Any) -> Any:
    raise AssertionError  # what a script calls is the handler


@handles(_order)
def _no_order(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    raise UnsupportedCall("the order of a set that changes or holds run-time values", context.span(), hint=_INSTEAD)


def _items(other: Any) -> Any:
    """What is gone over: of these sets a list of what they hold, for one may be updated by itself."""
    raise AssertionError  # what a script calls is the handler


@handles(_items)
def _items_handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return call(context, _listed, args[0]) if _is_set(args[0]) else args[0]


def _is_a_set(other: Any) -> bool:
    return isinstance(other, (set, frozenset))


class FrozenSet:
    """What scripts inline for a `frozenset` of run-time items."""

    stands_for: type = frozenset
    parts = ("held",)
    instead = _INSTEAD

    def __init__(self, given: Any = ()):
        self.held: dict[Any, Any] = {}
        for item in _items(given):
            self.held[item] = True

    def __contains__(self, item: Any) -> bool:
        return item in self.held

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Any:
        return _order(self)

    def __repr__(self) -> str:
        return str(_order(self))

    def issubset(self, other: Any) -> bool:
        return all(item in other for item in self.held)

    def issuperset(self, other: Any) -> bool:
        return all(item in self.held for item in _items(other))

    def isdisjoint(self, other: Any) -> bool:
        return not any(item in self.held for item in _items(other))

    def new(self, given: Any) -> Any:
        return FrozenSet(given)

    def copy(self) -> Any:
        return self.new(self)

    def union(self, *others: Any) -> Any:
        made = self.new(self)
        for other in others:
            for item in _items(other):
                made.held[item] = True
        return made

    def intersection(self, *others: Any) -> Any:
        made = self.new(())
        for item in self.held:
            if all(item in other for other in others):
                made.held[item] = True
        return made

    def difference(self, *others: Any) -> Any:
        made = self.new(())
        for item in self.held:
            if not any(item in other for other in others):
                made.held[item] = True
        return made

    def symmetric_difference(self, other: Any) -> Any:
        made = self.difference(other)
        for item in _items(other):
            if item not in self.held:
                made.held[item] = True
        return made

    def __eq__(self, other: Any) -> Any:
        return _is_a_set(other) and len(self.held) == len(other) and self.issubset(other)

    def __le__(self, other: Any) -> Any:
        return self.issubset(other) if _is_a_set(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return len(self.held) < len(other) and self.issubset(other) if _is_a_set(other) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return self.issuperset(other) if _is_a_set(other) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return len(self.held) > len(other) and self.issuperset(other) if _is_a_set(other) else NotImplemented

    def __or__(self, other: Any) -> Any:
        return self.union(other) if _is_a_set(other) else NotImplemented

    def __and__(self, other: Any) -> Any:
        return self.intersection(other) if _is_a_set(other) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self.difference(other) if _is_a_set(other) else NotImplemented

    def __xor__(self, other: Any) -> Any:
        return self.symmetric_difference(other) if _is_a_set(other) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return _like(other).union(self) if _is_a_set(other) else NotImplemented

    def __rand__(self, other: Any) -> Any:
        return _like(other).intersection(self) if _is_a_set(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return _like(other).difference(self) if _is_a_set(other) else NotImplemented

    def __rxor__(self, other: Any) -> Any:
        return _like(other).symmetric_difference(self) if _is_a_set(other) else NotImplemented


class Set(FrozenSet):
    """What scripts inline for a `set` of run-time items, or that changes."""

    stands_for = set

    def new(self, given: Any) -> Any:
        return Set(given)

    def add(self, item: Any) -> None:
        self.held[item] = True

    def discard(self, item: Any) -> None:
        if item in self.held:
            del self.held[item]

    def remove(self, item: Any) -> None:
        del self.held[item]

    def clear(self) -> None:
        self.held.clear()

    def update(self, *others: Any) -> None:
        for other in others:
            for item in _items(other):
                self.held[item] = True

    def intersection_update(self, *others: Any) -> None:
        self.held = self.intersection(*others).held

    def difference_update(self, *others: Any) -> None:
        self.held = self.difference(*others).held

    def symmetric_difference_update(self, other: Any) -> None:
        self.held = self.symmetric_difference(other).held

    def __ior__(self, other: Any) -> Any:
        if not _is_a_set(other):
            return NotImplemented
        self.update(other)
        return self

    def __iand__(self, other: Any) -> Any:
        if not _is_a_set(other):
            return NotImplemented
        self.intersection_update(other)
        return self

    def __isub__(self, other: Any) -> Any:
        if not _is_a_set(other):
            return NotImplemented
        self.difference_update(other)
        return self

    def __ixor__(self, other: Any) -> Any:
        if not _is_a_set(other):
            return NotImplemented
        self.symmetric_difference_update(other)
        return self


def _like(other: Any) -> Any:
    """A copy of a Python set, as one of these."""
    return Set(other) if isinstance(other, set) else FrozenSet(other)


def _is_set(value: Any) -> bool:
    return isinstance(value, Instance) and issubclass(value.cls, FrozenSet)


def _listed(value: Any) -> list[Any]:
    return list(value.held)


def _made(context: Context, cls: Any, items: Any = (), /) -> Any:
    """`set(items)` or `frozenset(items)`."""
    if SETS in context.decisions:
        return instance(context, cls, (items,), {})
    run_length = isinstance(items, Generator) or run_lists.run_items(context, items) is not None
    known = None if run_length else items_of(context, items)
    if known is None or is_dynamic(known):
        raise Restart(SETS, "a set holds run-time values")
    return guarded(context, lambda: cls.stands_for(known))


HANDLERS[set], HANDLERS[frozenset] = by_parameters(_made, Set), by_parameters(_made, FrozenSet)
CONSTRUCTORS[Set] = CONSTRUCTORS[FrozenSet] = instance


def _in_any_order(function: Callable[..., Any]) -> None:
    """Let `function`, whose result no order of the items changes, take sets."""
    plain = HANDLERS[function]

    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if len(args) == 1 and _is_set(args[0]):
            if "key" in kwargs:
                raise UnsupportedCall(f"`{function.__name__}` of a set with a `key`", context.span(),
                                      hint="the order of equal keys is that of the set: `sorted(s)` first")
            args = (call(context, _listed, args[0]),)
        return plain(context, args, kwargs)

    HANDLERS[function] = handler


#: loaded before, for its handlers are wrapped
WRAPPED = (builtins,)

for _function in (sorted, min, max, any, all):
    _in_any_order(_function)
