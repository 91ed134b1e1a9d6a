"""Which older tensor a merged one is, and by which condition of the run.

Where a branch brings two tensors together, by name or in a container, the merged one has a storage of its own. An alias
says under which condition it stands for a tensor that was there before the branch: results and items of lists then are
that very tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.dims import Symbol, dim, substitute
from jitgrad.ops.types import BOOL, INT, Type
from jitgrad.script.frontend.state.context import Context, State
from jitgrad.script.frontend.templates.identities import item_at
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.sequences import Items
from jitgrad.script.frontend.templates.template import Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.values import HELD, RunPairs, Storage, SymTensor
from jitgrad.script.graph.ir import Block, Value, attr_symbols, map_attr

Step = Any  # an index of a tuple or list, or a name of a dict or object


@dataclass(slots=True)
class Place:
    """A tensor that a branch merges: where in the `number`-th value of the plan, and what it is on either side."""

    number: int
    steps: tuple[Step, ...]
    sides: tuple[Any, Any]


@dataclass(slots=True)
class _Alias:
    """On a side of a branch, a place is `target`, older memory.

    `flags`: what else must hold there. `sizes`: the symbols in its path that only that side knows.
    """

    place: int
    side: int
    target: SymTensor
    flags: tuple[tuple[Value, bool], ...]
    sizes: list[Symbol] = field(default_factory=list)


class Aliases:
    """The aliases of one branch: found before it is emitted, made after.

    Args:
        context: the evaluation.
        states: of the two sides.
        blocks: of the two sides.
        plan: what is merged: (location, template, the two values).
    """

    def __init__(self, context: Context, states: tuple[State, State], blocks: tuple[Block, Block], plan: list[Any]):
        self.context, self.states = context, states
        self.places: list[Place] = []
        for number, (_, t, pair) in enumerate(plan):
            self._walk(number, (), t, pair)
        inside = [{s for n in block.nodes for s in n.binds} for block in blocks]
        self.found: list[_Alias] = []
        for i, place in enumerate(self.places):
            for side, x in enumerate(place.sides):
                if isinstance(x, SymTensor):
                    self._reach(i, side, x, (), inside[side])

    def _walk(self, number: int, steps: tuple[Step, ...], t: Template, pair: tuple[Any, Any]) -> None:
        if isinstance(t, Tensor):
            self.places.append(Place(number, steps, pair))
        elif isinstance(t, Items) or (isinstance(t, Record) and t.type is not RunPairs):
            names = t.names if isinstance(t, Record) else range(len(t.items))
            held = [_content(state, v) for state, v in zip(self.states, pair, strict=True)]
            for name, item in zip(names, t.items, strict=True):
                self._walk(number, (*steps, name), item, (item_at(held[0], name), item_at(held[1], name)))

    def _reach(self, place: int, side: int, x: SymTensor, flags: tuple[tuple[Value, bool], ...],
               inside: set[Symbol]) -> None:
        """Note what a place is on one side: `x`, where `flags` hold."""
        if self._is_older(x.storage):
            self._add(place, side, x, flags, inside)
            return
        for condition, polarity, reference in heap.of(self.context).aliases.get(x.storage, ()):
            through = SymTensor(reference.storage, (*reference.path, *x.path), x._type, reference.copied)
            self._reach(place, side, through, (*flags, (condition, polarity)), inside)

    def _add(self, place: int, side: int, target: SymTensor, flags: tuple[tuple[Value, bool], ...],
             inside: set[Symbol]) -> None:
        used = {s for _, attrs in target.path for a in attrs.values()
                for s in attr_symbols(map_attr(a, self.context.sizes.canonical))}
        self.found.append(_Alias(place, side, target, flags,
                                sorted(used & inside, key=lambda s: s.number)))

    def _is_older(self, storage: Storage) -> bool:
        return storage.input >= 0 or all(storage in state.values for state in self.states)

    def lowered(self, side: int) -> list[Value]:
        """What the branch says of its aliases at the end of one side, emitted there."""
        context, found = self.context, []
        for alias in self.found:
            here = alias.side == side
            if alias.flags and not here:
                found.append(context.one("num.const", value=False))
            elif alias.flags:
                holds = [numbers.wrap(context, c) for c, _ in alias.flags]
                made: Any = True
                for number, (_, polarity) in zip(holds, alias.flags, strict=True):
                    made = numbers.both(context, made, number if polarity else numbers.negate(context, number))
                found.append(made.value)
            found += [context.one("dim.value", dim=dim(s)) if here else context.one("num.const", value=0)
                      for s in alias.sizes]
        return found

    @property
    def types(self) -> list[Type]:
        return [t for alias in self.found for t in ([BOOL] if alias.flags else []) + [INT] * len(alias.sizes)]

    def make(self, condition: Value, values: Sequence[Any], outputs: Iterator[Value]) -> None:
        """Link what has been merged: `values` of the plan, and what `lowered` became."""
        context = self.context
        merged = [_find(context, values[p.number], p.steps) for p in self.places]
        for alias in self.found:
            flag, polarity = (next(outputs), True) if alias.flags else (condition, alias.side == 0)
            target, known = alias.target, {}
            for s in alias.sizes:
                new = Symbol(not_one=s.not_one)
                context.builder.emit("dim.bind", (next(outputs),), types=(INT,), binds=(new,), symbol=new)
                known[s] = dim(new)
            tensor = merged[alias.place]
            if not isinstance(tensor, SymTensor) or tensor.path:
                continue
            path = target.path if not known else tuple([(op, {k: map_attr(
                map_attr(a, context.sizes.canonical), lambda d, known=known: substitute(d, known))
                for k, a in attrs.items()}) for op, attrs in target.path])
            reference = SymTensor(target.storage, path, target._type, target.copied)
            heap.of(context).aliases.setdefault(tensor.storage, []).append((flag, polarity, reference))
        for i, tensor in enumerate(merged):
            if not isinstance(tensor, SymTensor) or tensor.storage.alias:
                continue
            for x in self.places[i].sides:
                if isinstance(x, SymTensor) and x.storage.alias and not self._is_older(x.storage):
                    tensor.storage.alias = x.storage.alias


def _content(state: State, value: Any) -> Any:
    return state.values.get(value) if isinstance(value, HELD) else value


def _find(context: Context, value: Any, steps: tuple[Step, ...]) -> Any:
    for step in steps:
        value = item_at(_content(context.state, value), step)
    return value
