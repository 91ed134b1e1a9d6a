"""What a merged tensor is: one of several memories, by conditions of the run.

Where a branch brings two tensors together, by name or in a container, the merged one has a storage of its own. An alias
says under which condition that is the memory of another tensor: one that was there before the branch
(`Context.aliases`), or another one that the same branch merges (`Context.peers`: `y` and `y[0]`, both made in the
branch). A write to either is copied to the other where the condition holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.dims import Symbol, dim, substitute
from jitgrad.ops.types import BOOL, INT, Type
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context, State
from jitgrad.script.frontend.templates.alternatives import Either
from jitgrad.script.frontend.templates.records import Record
from jitgrad.script.frontend.templates.sequences import Items
from jitgrad.script.frontend.templates.template import Template
from jitgrad.script.frontend.templates.tensors import Tensor
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.values import HELD, UNBOUND, RunPairs, Storage, SymTensor
from jitgrad.script.graph.ir import Block, Value, attr_symbols, map_attr

_SHARED = "a branch put it beside another view of the same memory"

Step = Any  # an index of a tuple or list, or a name of a dict or object


@dataclass(slots=True)
class Place:
    """A tensor that a branch merges: where in the `number`-th value of the plan, and what it is on either side."""

    number: int
    steps: tuple[Step, ...]
    sides: tuple[Any, Any]


@dataclass(slots=True)
class _Alias:
    """On a side of a branch, a place is `target`: older memory, or a view of what is at place `peer`.

    `flags`: what else must hold there. `sizes`: the symbols in its path that only that side knows.
    """

    place: int
    side: int
    target: SymTensor
    peer: int
    flags: tuple[tuple[Value, bool], ...]
    sizes: list[Symbol] = field(default_factory=list)

    @property
    def outputs(self) -> int:
        return (1 if self.flags else 0) + len(self.sizes)


class Aliases:
    """The aliases of one branch: found before it is emitted, made after.

    Args:
        context: the evaluation.
        states: of the two sides.
        blocks: of the two sides.
        plan: what is merged: (location, template, the two values); templates of what may not be written are replaced.
    """

    def __init__(self, context: Context, states: tuple[State, State], blocks: tuple[Block, Block], plan: list[Any]):
        self.context, self.states = context, states
        self.places: list[Place] = []
        self._refused: set[int] = set()
        loose: list[tuple[int, tuple[set[Storage], set[Storage]]]] = []
        for number, (_, t, pair) in enumerate(plan):
            self._walk(number, (), t, pair, loose)
        self._freeze(plan, loose)
        inside = [{s for n in block.nodes for s in n.binds} for block in blocks]
        self.found: list[_Alias] = []
        for i, place in enumerate(self.places):
            for side, x in enumerate(place.sides):
                if isinstance(x, SymTensor):
                    self._reach(i, side, x, (), inside[side])

    def _walk(self, number: int, steps: tuple[Step, ...], t: Template, pair: tuple[Any, Any],
              loose: list[tuple[int, tuple[set[Storage], set[Storage]]]]) -> None:
        if isinstance(t, Tensor):
            self.places.append(Place(number, steps, pair))
        elif isinstance(t, Items) or (isinstance(t, Record) and t.type is not RunPairs):
            names = t.names if isinstance(t, Record) else range(len(t.items))
            held = [_content(state, v) for state, v in zip(self.states, pair, strict=True)]
            for name, item in zip(names, t.items, strict=True):
                self._walk(number, (*steps, name), item, (_at(held[0], name), _at(held[1], name)), loose)
        elif isinstance(t, Either) and UNBOUND not in t.statics:
            first, second = [{x.storage for x in _tensors(state, v)}
                             for state, v in zip(self.states, pair, strict=True)]
            loose.append((number, (first, second)))

    def _freeze(self, plan: list[Any], loose: list[tuple[int, tuple[set[Storage], set[Storage]]]]) -> None:
        """What is left out on one side is not written where it is known by another name too."""
        for k, (number, sides) in enumerate(loose):
            for side, storages in enumerate(sides):
                named = [i for i, p in enumerate(self.places)
                         if isinstance(p.sides[side], SymTensor) and p.sides[side].storage in storages]
                again = any(storages & other[side] for j, (_, other) in enumerate(loose) if j != k)
                if named or again:
                    self._refused.update(named)
                    key, t, pair = plan[number]
                    plan[number] = (key, t.unwritable(), pair)

    def _reach(self, place: int, side: int, x: SymTensor, flags: tuple[tuple[Value, bool], ...],
               inside: set[Symbol]) -> None:
        """Note what a place is on one side: `x`, where `flags` hold."""
        if self._is_older(x.storage):
            self._add(place, side, x, -1, flags, inside)
            return
        for condition, polarity, reference in heap.of(self.context).aliases.get(x.storage, ()):
            through = SymTensor(reference.storage, (*reference.path, *x.path), x._type, reference.copied)
            self._reach(place, side, through, (*flags, (condition, polarity)), inside)
        best = -1
        for i, other in enumerate(self.places):
            y = other.sides[side]
            if i == place or not isinstance(y, SymTensor) or y.storage is not x.storage:
                continue
            n = len(y.path)
            prefix = n <= len(x.path) and heap.same_reference(y, SymTensor(x.storage, x.path[:n], x._type))
            if prefix and (n < len(x.path) or i < place):
                if best < 0 or n > len(self.places[best].sides[side].path):
                    best = i
            elif not prefix and not heap.same_reference(x, SymTensor(y.storage, y.path[:len(x.path)], y._type)):
                self._refused.update((i, place))
        if best >= 0:
            rest = x.path[len(self.places[best].sides[side].path):]
            self._add(place, side, SymTensor(x.storage, rest, x._type, x.copied), best, flags, inside)

    def _add(self, place: int, side: int, target: SymTensor, peer: int, flags: tuple[tuple[Value, bool], ...],
             inside: set[Symbol]) -> None:
        used = {s for _, attrs in target.path for a in attrs.values()
                for s in attr_symbols(map_attr(a, self.context.sizes.canonical))}
        self.found.append(_Alias(place, side, target, peer, flags,
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
            if alias.peer < 0:
                reference = SymTensor(target.storage, path, target._type, target.copied)
                heap.of(context).aliases.setdefault(tensor.storage, []).append((flag, polarity, reference))
                continue
            whole = merged[alias.peer]
            if isinstance(whole, SymTensor) and whole.storage is not tensor.storage:
                reference = SymTensor(whole.storage, (*whole.path, *path), target._type, target.copied)
                heap.of(context).peers.setdefault(tensor.storage, []).append((flag, polarity, reference))
        for i, tensor in enumerate(merged):
            if not isinstance(tensor, SymTensor) or tensor.storage.alias:
                continue
            if i in self._refused:
                tensor.storage.alias = _SHARED
            for x in self.places[i].sides:
                if isinstance(x, SymTensor) and x.storage.alias and not self._is_older(x.storage):
                    tensor.storage.alias = x.storage.alias


def _content(state: State, value: Any) -> Any:
    return state.values.get(value) if isinstance(value, HELD) else value


def _at(held: Any, name: Step) -> Any:
    if isinstance(held, dict):
        return held.get(name)
    return held[name] if isinstance(held, tuple) and isinstance(name, int) and name < len(held) else None


def _tensors(state: State, value: Any) -> Iterator[SymTensor]:
    """The tensors in a value."""
    pending, seen = [value], set()
    while pending:
        v = pending.pop()
        if isinstance(v, SymTensor):
            yield v
        elif isinstance(v, tuple):
            pending += v
        elif isinstance(v, HELD) and v not in seen:
            seen.add(v)
            held = state.values.get(v)
            pending += held.values() if isinstance(held, dict) else held if isinstance(held, tuple) else ()


def _find(context: Context, value: Any, steps: tuple[Step, ...]) -> Any:
    for step in steps:
        value = _at(_content(context.state, value), step)
    return value


# --- writes --------------------------------------------------------------------------------------------------------


def propagate(context: Context, storage: Storage) -> None:
    """After a write to a storage: let every storage that may be the same memory show it.

    First what it is, where its conditions hold; then all that are one of these read them again, the older before the
    later: each merged tensor once.
    """
    touched = {storage}
    _write_back(context, storage, touched, frozenset({storage}))
    known = heap.of(context)
    merged = [s for s in context.state.values
              if isinstance(s, Storage) and s is not storage and (s in known.aliases or s in known.peers)]
    for other in merged:
        for condition, polarity, reference in _of(context, other):
            if reference.storage in touched:
                touched.add(other)

                def read(other: Storage = other, reference: SymTensor = reference) -> None:
                    whole = SymTensor(other, (), other.type)
                    heap.write(context, whole, heap.read(context, reference), linked=False)

                _if(context, condition, polarity, read)


def _of(context: Context, storage: Storage) -> list[tuple[Value, bool, Any]]:
    return [*heap.of(context).aliases.get(storage, ()), *heap.of(context).peers.get(storage, ())]


def _write_back(context: Context, storage: Storage, touched: set[Storage], busy: frozenset[Storage]) -> None:
    """Write what a merged storage holds to the memory that it is, and to what that is in turn."""
    for condition, polarity, reference in _of(context, storage):
        if reference.storage in busy:
            continue
        touched.add(reference.storage)

        def copy(reference: SymTensor = reference) -> None:
            heap.write(context, reference, heap.read(context, SymTensor(storage, (), storage.type)), linked=False)
            _write_back(context, reference.storage, touched, busy | {reference.storage})

        _if(context, condition, polarity, copy)


def _if(context: Context, condition: Value, polarity: bool, run: Callable[[], None]) -> None:
    def skip() -> None:
        return None

    dispatch.branch(context, numbers.wrap(context, condition), run if polarity else skip, skip if polarity else run)
