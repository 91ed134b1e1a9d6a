"""Templates of dicts and objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import run_lists
from jitgrad.script.frontend.templates.alternatives import Static
from jitgrad.script.frontend.templates.sequences import Items
from jitgrad.script.frontend.templates.sizes import Sizer
from jitgrad.script.frontend.templates.template import Clash, Compound, Template
from jitgrad.script.frontend.values import heap
from jitgrad.script.frontend.values.values import (UNBOUND, ExceptionValue, Instance, Part, RunPairs, SymDict, SymList,
                                                   SymTensor)
from jitgrad.script.graph.ir import Value


@dataclass(frozen=True, slots=True)
class Failure(Compound):
    """An exception of class `type`, by the templates of its arguments."""

    type: type
    items: tuple[Template, ...]

    def __str__(self) -> str:
        return f"a `{self.type.__name__}`"

    def joined(self, other: Template, widen: Sizer) -> Template:
        if not isinstance(other, Failure) or self.type is not other.type or len(self.items) != len(other.items):
            raise Clash(f"{self} and {other}")
        return self.of(tuple([x.join(y, widen) for x, y in zip(self.items, other.items, strict=True)]))

    def lower(self, context: Context, value: Any) -> list[Value]:
        return [x for t, v in zip(self.items, value.args, strict=True) for x in t.lower(context, v)]

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> ExceptionValue:
        return ExceptionValue(self.type, tuple([t.rebuild(context, leaves) for t in self.items]))


@dataclass(frozen=True, slots=True)
class Record(Compound):
    """A dict with static keys (`type` is SymDict) or an object of class `type`: names and their templates.

    With `type` RunPairs, a dict whose keys are known at run time: the lists of its keys and values.
    """

    type: type
    names: tuple[Any, ...]
    items: tuple[Template, ...]

    def __str__(self) -> str:
        if self.type is SymDict:
            return f"a dict with the keys {', '.join(map(repr, self.names))}" if self.names else "an empty dict"
        if self.type is RunPairs:
            return "a dict whose keys are known only at run time"
        return f"a `{self.type.__name__}`"

    def joined(self, other: Template, widen: Sizer) -> Template:
        if not isinstance(other, Record):
            raise Clash(f"{self} and {other}")
        if self.type is other.type and not (self.type is SymDict and self.names != other.names):
            return self._by_name(other, widen)
        mine, theirs = (self, other) if widen.apart else (self._as_pairs(), other._as_pairs())
        if mine.type is theirs.type is RunPairs:
            return mine._by_name(theirs, widen)
        raise Clash(f"{self} and {other}")

    def _by_name(self, other: Record, widen: Sizer) -> Record:
        names = (*self.names, *(n for n in other.names if n not in self.names))
        mine, theirs = dict(zip(self.names, self.items, strict=True)), dict(zip(other.names, other.items, strict=True))
        absent = Static(UNBOUND)
        return Record(self.type, names, tuple([mine.get(n, absent).join(theirs.get(n, absent), widen) for n in names]))

    def _as_pairs(self) -> Record:
        """A dict with static keys as one whose keys are known at run time, if the keys are of one kind."""
        if self.type is not SymDict or len({type(n) for n in self.names}) > 1 or not all(
                isinstance(n, (int, float, str, tuple)) for n in self.names):
            return self
        keys = tuple([Static(n) if not isinstance(n, tuple) else Items(type(n), tuple(map(Static, n)))
                      for n in self.names])
        return Record(RunPairs, tuple(Part), (Items(SymList, keys), Items(SymList, self.items)))

    def content(self, context: Context, value: Any) -> dict[Any, Any]:
        """What a dict or object holds, as this template has it; nothing for other values."""
        held = context.state.values.get(value) if isinstance(value, (SymDict, Instance)) else value
        if not isinstance(held, dict):
            return {}
        if self.type is RunPairs and not isinstance(held, RunPairs):
            return {Part.KEYS: tuple(held), Part.VALUES: tuple(held.values())}
        return held

    def lower(self, context: Context, value: Any) -> list[Value]:
        content = self.content(context, value)
        return [x for name, t in zip(self.names, self.items, strict=True)
                for x in t.lower(context, content.get(name, UNBOUND))]

    def rebuild(self, context: Context, leaves: Iterator[Value]) -> SymDict | Instance:
        held = SymDict() if self.type in (SymDict, RunPairs) else Instance(self.type)
        context.state.values[held] = self.rebuild_content(context, leaves)
        return held

    def rebuild_content(self, context: Context, leaves: Iterator[Value]) -> dict[Any, Any]:
        """The merged content of a dict or an object."""
        made = {name: t.rebuild(context, leaves) for name, t in zip(self.names, self.items, strict=True)}
        return RunPairs(made) if self.type is RunPairs else made

    def enlist(self, context: Context, *values: Any) -> Template:
        contents = [self.content(context, v) for v in values]
        if self.type is RunPairs:  # its lists hold copies, of known length too: of what is seen elsewhere
            for v in [v for c in contents for h in c.values() if isinstance(h, tuple) for v in h]:
                if not isinstance(v, SymTensor) or v.path or _is_elsewhere(context, v.storage):
                    run_lists.mark(context, v)
        items = tuple([t.enlist(context, *(c.get(name) for c in contents))
                       for name, t in zip(self.names, self.items, strict=True)])
        return self if items == self.items else self.of(items)


def _is_elsewhere(context: Context, storage: heap.Storage) -> bool:
    """Whether the caller or more than one variable or container refers to a storage."""
    return storage.input >= 0 or heap.places(context, lambda t: t.storage is storage) > 1
