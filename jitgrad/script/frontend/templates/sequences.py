"""Templates of tuples and lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

from jitgrad.classes import dataclass
from jitgrad.dims import Size
from jitgrad.ops.types import ListType, Type
from jitgrad.script.frontend.state import pooling
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import run_lists
from jitgrad.script.frontend.templates.sizes import Elements, Sizer
from jitgrad.script.frontend.templates.template import Clash, Compound, Template
from jitgrad.script.frontend.values.values import Pool, RunItems, SymList
from jitgrad.script.graph.ir import Value


@dataclass(frozen=True, slots=True)
class Items(Compound):
    """A tuple, a namedtuple or (`type` is a SymList) a list of known length."""

    type: type
    items: tuple[Template, ...]

    def __str__(self) -> str:
        word = "list" if self.type is SymList else self.type.__name__ if _is_list(self) else "tuple"
        return f"a {word} of {len(self.items)}"

    def holds_nothing(self) -> bool:
        return (_is_list(self) and not self.items) or any(t.holds_nothing() for t in self.items)

    def joined(self, other: Template, widen: Sizer) -> Template:
        if _is_list(self) and _is_list(other):
            return _join_lists(self, other, widen)
        if not isinstance(other, Items) or self.type is not other.type or len(self.items) != len(other.items):
            raise Clash(f"{self} and {other}")
        return self.of(tuple([x.join(y, widen) for x, y in zip(self.items, other.items, strict=True)]))

    def as_element(self, elements: Elements) -> Template:
        if not _is_list(self):
            return self.map(lambda t: t.as_element(elements))
        return list_of(self, elements) if self.items else self  # an empty list joins every other

    def lower(self, context: Context, value: Any) -> list[Value]:
        items = context.state.values[value] if isinstance(value, SymList) else value
        return [x for t, v in zip(self.items, items, strict=True) for x in t.lower(context, v)]

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> Any:
        items = [t.rebuild(context, leaves) for t in self.items]
        if issubclass(self.type, SymList):
            return run_lists.new(context, tuple(items), self.type)
        made: Any = self.type
        return made(*items) if hasattr(made, "_fields") else made(items)

    def enlist(self, context: Context, *values: Any) -> Template:
        columns = [self._items_of(context, v) for v in values]
        items = tuple([t.enlist(context, *found) for t, *found in zip(self.items, *columns, strict=True)])
        return self if items == self.items else self.of(items)

    def _items_of(self, context: Context, value: Any) -> tuple[Any, ...]:
        n = len(self.items)
        held = context.state.values.get(value) if isinstance(value, SymList) else value
        return held if isinstance(held, tuple) and len(held) == n else (None,) * n


@dataclass(frozen=True, slots=True)
class ListOf(Template):
    """A list of run-time length. Sizes of elements are open (they may differ), or known before it."""

    elem: Template
    type: type[SymList] = SymList

    def __str__(self) -> str:
        return f"a list whose items are {self.elem}"

    @property
    def parts(self) -> tuple[Template, ...]:
        return (self.elem,)

    def map(self, change: Callable[[Template], Template]) -> ListOf:
        return ListOf(change(self.elem), self.type)

    def renamed(self, size: Callable[[Size], Size]) -> ListOf:
        return self

    def alike(self, other: Template) -> bool:
        return isinstance(other, ListOf) and self.elem.alike(other.elem)

    def joined(self, other: Template, widen: Sizer) -> Template:
        if not _is_list(other):
            raise Clash(f"{self} and {other}")
        return _join_lists(self, other, widen)

    def as_element(self, elements: Elements) -> Template:
        return ListOf(self.elem.opened(elements), self.type)

    def types(self) -> list[Type]:
        return [ListType(x) for x in self.elem.types()]

    def lower(self, context: Context, value: Any) -> list[Value]:
        return run_lists.lower(context, self.elem,
                               run_lists.content(context, value) if isinstance(value, SymList) else value)

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> SymList:
        return run_lists.new(context, RunItems(self.elem, tuple([next(leaves) for _ in self.types()])), self.type)

    def enlist(self, context: Context, *values: Any) -> Template:
        if issubclass(self.type, Pool):
            return self
        for v in values:
            held = context.state.values.get(v) if isinstance(v, SymList) else v
            if isinstance(held, tuple):
                run_lists.mark(context, held)
        if self.elem.holds_nothing():
            pooling.begin(context)
            raise Clash("a list of empty lists, of which nothing says what they will hold")
        return self


def list_of(t: Template, widen: Sizer) -> ListOf:
    """A list's template as one of run-time length, where `widen` says. Raises Clash."""
    if isinstance(t, ListOf):
        return t
    assert isinstance(t, Items)
    first, *rest = t.items
    elements = Elements(widen.context, widen.mark)
    elem = first.as_element(elements)
    for item in rest:
        elem = elem.join(item.as_element(elements), elements)
    return ListOf(elem, t.type)


def _is_list(t: Template) -> TypeGuard[Items | ListOf]:
    return isinstance(t, ListOf) or (isinstance(t, Items) and issubclass(t.type, SymList))


def _join_lists(a: Items | ListOf, b: Items | ListOf, widen: Sizer) -> Template:
    """Of equal known length: item by item; else a list of run-time length."""
    if a.type is not b.type:
        raise Clash(f"{a} and {b}")
    if isinstance(a, Items) and isinstance(b, Items) and len(a.items) == len(b.items) and (
            not a.items or not widen.of_elements):
        return a.of(tuple([x.join(y, widen) for x, y in zip(a.items, b.items, strict=True)]))
    if isinstance(a, Items) and not a.items:
        a, b = b, a
    elem = list_of(a, widen).elem
    elements = Elements(widen.context, widen.mark)
    if isinstance(b, Items) and not b.items:
        return ListOf(elem.opened(elements), a.type)
    return ListOf(elem.join(list_of(b, widen).elem, elements), a.type)
