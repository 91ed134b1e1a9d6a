"""Templates: what a merged variable looks like, and its way through the graph.

Where branches meet, or a loop's end meets its head, `join` of the sides' templates gives the template of the merged
value. `lower` makes one side's value into graph values of the template's leaf types, in that side's block; `rebuild`
makes the merged value from the block's outputs.

    Same       one object on all sides: no leaves
    Static     a plain Python object
    Tensor     dtype and sizes; a size that differs between sides becomes a fresh symbol
    Num        a number of one kind, or of a kind known at run time
    Items      a tuple (or namedtuple), or a list, of templates
    ListOf     a list whose length is known at run time: the template of its elements
    Str        a string known at run time
    Words      one that is made alike of other values
    Record     a dict with static keys, or the attributes of an object, by name
    Either     static alternatives and perhaps one run-time template: None-or-value, unbound-or-value, objects
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

from jitgrad.dims import Size, Symbol, dim, substitute
from jitgrad.ops.types import Type
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates.sizes import Elements, Sizer
from jitgrad.script.graph.ir import Value


class Clash(Exception):
    """Two sides that no variable can hold; the text says why."""


class Template:
    """What the values are like that one variable may hold."""

    __slots__ = ()

    # --- structure -------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Template, ...]:
        """The templates that this one is made of."""
        return ()

    def map(self, change: Callable[[Template], Template]) -> Template:
        """The template with `change` applied to its parts."""
        return self

    def renamed(self, size: Callable[[Size], Size]) -> Template:
        """The template with `size` applied to the sizes of its tensors, lists' elements apart."""
        return self.map(lambda t: t.renamed(size))

    def after(self, fresh: Mapping[Symbol, Symbol]) -> Template:
        """The template with the symbols of a loop's block replaced by those that the loop's node binds."""
        mapping = {old: dim(new) for old, new in fresh.items()}
        return self.renamed(lambda d: substitute(d, mapping))

    def opened(self, elements: Elements) -> Template:
        """The template of an element where only `elements` are known."""
        return self.map(lambda t: t.opened(elements))

    def holds_nothing(self) -> bool:
        """Whether an element is an empty list, or has one in it: its items are not known."""
        return any(t.holds_nothing() for t in self.parts)

    @property
    def uninhabited(self) -> bool:
        """Whether there is no such element: a list of them is empty."""
        return any(t.uninhabited for t in self.parts)

    def tags(self) -> list[Any]:
        """The alternatives of every union in an element: what its tags mean."""
        return [s for t in self.parts for s in t.tags()]

    def alike(self, other: Template) -> bool:
        """Whether leaves of this template are, sizes aside, those of the other."""
        return False

    # --- joining ---------------------------------------------------------------------------------------------------

    @property
    def alternative(self) -> bool:
        """Whether this is one alternative of a union, or a union, beside every other template."""
        return False

    @property
    def number_kind(self) -> type | None:
        """The kind of number that the value is; None for others."""
        return None

    @property
    def text(self) -> Template | None:
        """Of a string of the run: the template of any string."""
        return None

    @property
    def low(self) -> int | None:
        """A lower bound of an int."""
        return None

    def join(self, other: Template, widen: Sizer) -> Template:
        """The template that holds both. Raises Clash."""
        return other.beside(self, widen) if other.alternative else self.joined(other, widen)

    def beside(self, first: Template, widen: Sizer) -> Template:
        """The union of `first` and this, an alternative."""
        raise NotImplementedError

    def joined(self, other: Template, widen: Sizer) -> Template:
        """`join` with what is no alternative."""
        raise Clash(f"{self} and {other}")

    def as_optional(self) -> Template:
        """The template beside a static object, where a branch put it there."""
        return self

    def as_element(self, elements: Elements) -> Template:
        """The template of one item as that of an element of a list of run-time length. Raises Clash."""
        raise Clash(f"a list of run-time length that holds {self}")

    # --- the way through the graph ---------------------------------------------------------------------------------

    def types(self) -> list[Type]:
        """The graph types of the leaves."""
        return [x for t in self.parts for x in t.types()]

    def histories(self) -> list[bool]:
        """Which leaves may carry a gradient."""
        return [x for t in self.parts for x in t.histories()]

    def lower(self, context: Context, value: Any) -> list[Value]:
        """`value`, which the template holds, as graph values of its leaf types."""
        return []

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> Any:
        """The merged value."""
        raise NotImplementedError

    def enlist(self, context: Context, *values: Any) -> Template:
        """Note what of `values` becomes part of a list of run-time length. Raises Clash."""
        return self


class Compound(Template):
    """A template of several items."""

    __slots__ = ()
    items: tuple[Template, ...]

    @property
    def parts(self) -> tuple[Template, ...]:
        return self.items

    def map(self, change: Callable[[Template], Template]) -> Self:
        return self.of(tuple([change(t) for t in self.items]))

    def of(self, items: tuple[Template, ...]) -> Self:
        """The same with other items."""
        return replace(self, items=items)  # type: ignore[type-var]

    def alike(self, other: Template) -> bool:
        return type(other) is type(self) and len(self.items) == len(other.parts) and all(
            a.alike(b) for a, b in zip(self.items, other.parts, strict=True))
