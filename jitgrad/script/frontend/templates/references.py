"""What a merged name may go on referring to, and of what it is a copy.

Where branches or iterations bring two tensors together, or two containers, the merged one is made of what they hold,
which is what kernels read best. A write to such a copy, or to what it is a copy of, asks for references (`Restart` with
`REFERENCES`): the evaluation begins again with names that refer to one of several objects (`identities.py`). A
container beside None or another object is one of several from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jitgrad.classes import dataclass, replace
from jitgrad.script.frontend.state.context import State
from jitgrad.script.frontend.templates.alternatives import Either, same_static
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.sequences import Items, ListOf
from jitgrad.script.frontend.templates.sizes import Sizer
from jitgrad.script.frontend.templates.template import Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values.values import UNBOUND, RunPairs, SymTensor, Union, is_held, refers

#: why a copy is not written
CHOSEN = "a branch or a loop chose it"


def copied(state: State, t: Template, value: Any) -> Iterator[Any]:
    """The storages and containers of a value that is merged by what they hold."""
    if isinstance(t, Tensor):
        if isinstance(value, SymTensor):
            yield value.storage
    elif isinstance(t, Either):
        if t.inner is not None and not isinstance(value, Union) and not any(same_static(s, value) for s in t.statics):
            yield from copied(state, t.inner, value)
    elif isinstance(t, ListOf):
        if is_held(value):
            yield value
    elif isinstance(t, (Items, Record)):
        held = value
        if is_held(value):
            yield value
            held = state.values.get(value)
        if isinstance(t, Record) and t.type is RunPairs:
            return  # its lists are its own
        names = t.names if isinstance(t, Record) else range(len(t.items))
        for name, item in zip(names, t.items, strict=True):
            if (isinstance(held, dict) and name in held) or (isinstance(held, tuple) and len(held) == len(t.items)):
                yield from copied(state, item, held[name])


def names_of(held: Any) -> tuple[Any, ...]:
    """The keys or indices of what a container holds, or of its template."""
    if isinstance(held, (Record, dict)):
        return held.names if isinstance(held, Record) else tuple(held)
    return tuple(range(len(held.items if isinstance(held, Items) else held)))


def item_at(held: Any, name: Any) -> Any:
    """The item of a tuple or dict; None where there is none."""
    if isinstance(held, dict):
        return held.get(name)
    return held[name] if isinstance(held, tuple) and isinstance(name, int) and name < len(held) else None


def as_copies(t: Template) -> Template:
    """The template of what is a copy."""
    if isinstance(t, Either):
        return replace(t, copied=True)
    return t.map(as_copies) if isinstance(t, (Items, Record)) else t


@dataclass(frozen=True, slots=True)
class Outside:
    """What was there before a branch or loop, at the end of it.

    Attributes:
        older: says so of a tensor or container.
        widen: of the merge.
        beside: what the other side has in the same place (UNBOUND: nothing is known of it).
    """

    older: Callable[[Any], bool]
    widen: Sizer
    beside: Any = UNBOUND

    def refers(self, value: Any) -> bool:
        """Whether the merged name may refer to `value` itself: a container beside None or an object of another kind."""
        return is_held(value) and self.older(value) and not is_held(self.beside)

    def ends(self, value: Any) -> bool:
        """Whether an alternative of a union is a tensor or container that ends here: what it holds goes on."""
        return refers(value) and not self.older(value)

    def item(self, k: int) -> Outside:
        """The same for the item of a tuple."""
        return replace(self, beside=self.beside[k] if isinstance(self.beside, tuple) and k < len(self.beside) else None)


def item_along(held: Any, steps: tuple[Any, ...]) -> Any:
    """What is at the end of a way from item to item."""
    for step in steps:
        held = item_at(held, step)
    return held


def unions_in(value: Any) -> Iterator[Union]:
    """The unions in what a location holds."""
    if isinstance(value, Union):
        yield value
    elif isinstance(value, (tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from unions_in(item)


def with_instead(value: Any, union: Union, one: Any) -> Any:
    """What a location holds, with `one` for a union."""
    if isinstance(value, Union):
        return one if value.tag is union.tag and value.leaves == union.leaves else value
    if isinstance(value, (tuple, dict)) and any(with_instead(v, union, one) is not v for v in (
            value.values() if isinstance(value, dict) else value)):
        if isinstance(value, dict):
            return type(value)({k: with_instead(v, union, one) for k, v in value.items()})
        items = [with_instead(v, union, one) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
