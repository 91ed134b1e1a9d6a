"""What eager's tape would keep of the operations of a script, and which memory was written after that.

A script's values never change, so its gradient could be taken where eager refuses: "modified by an inplace operation".
This is the record by which it refuses, too (`gradients/tape.py`): for each operation with history which storages its
derivative reads, and each write in place, with the blocks around them and one number for the order of all. What is
written after a save in the same block, or in one around it, is overwritten. Where a branch or loop may write, the
evaluation begins again with `VERSIONS`: then how often a storage was written is a number in the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.errors import Span
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import NUMBERS, Context
from jitgrad.script.graph.ir import Block, Value

#: the attributes of the view `.data`, known by their identity
DATA: dict[str, Any] = {}
#: the decision that it is counted how often memory is written
VERSIONS = ("versions",)
#: the decision that it is not, after all: with the counts a loop does not settle
UNCOUNTED = ("versions", "uncounted")
#: how many operations one that works in place may be made of: what these save of its memory eager copies first
STEPS = 16


@dataclass(slots=True)
class Write:
    """A write in place. `path`: the blocks around it, outermost first; `data`: by way of `.data`, which eager does not
    count; `span`: then its place."""

    number: int
    path: tuple[Block, ...]
    data: bool
    span: Span | None


@dataclass(slots=True)
class Save:
    """Memory that the derivative of an operation reads.

    Attributes:
        result: the operation's first result.
        storage: the memory, `type_`: what of it is read.
        operand: the tensor that is read; None for a result.
        origin: which operation had made it, "" if none.
        version: how often it had been written, for certain; `counted`: in the run (0 where it is not counted).
        loops: the bodies of the loops around that go on with the same memory.
        place: in a loop, where the state has what was counted in the first iteration, and in the last one, plus 1.
    """

    result: Value
    storage: Any
    type_: TensorType
    operand: Any
    origin: str
    version: int
    counted: Any
    loops: tuple[Block, ...]
    place: tuple[Any, ...]
    number: int
    path: tuple[Block, ...]


@dataclass(slots=True)
class Versions:
    """The record of one evaluation.

    Attributes:
        operations: first result -> the operation's count and what it was made of.
        saves: by the first result of the operation that reads them again.
        writes: by storage.
        later: the storage that two of a branch's sides are after it.
        skipped: what a storage is after a loop without an iteration, and the place where the state says if that is so.
        entered: by loop, the storage that one from before it is at its head.
        paused: in operations that are made of others here, and are one for eager; where memory is exchanged.
    """

    operations: dict[Value, tuple[int, Sequence[Value]]] = field(default_factory=dict)
    saves: dict[Value, list[Save]] = field(default_factory=dict)
    writes: dict[Any, list[Write]] = field(default_factory=dict)
    later: dict[Any, Any] = field(default_factory=dict)
    skipped: dict[Any, list[tuple[Any, Any]]] = field(default_factory=dict)
    entered: dict[Any, dict[Any, Any]] = field(default_factory=dict)
    paused: bool = False

    def operation(self, results: Sequence[Value], operands: Sequence[Value]) -> None:
        """An operation is recorded by eager."""
        count = len(self.operations)
        for v in results:
            self.operations[v] = count, operands

    def keep(self, target: Any, value: Value, before: Value) -> None:
        """What the operation that made `value` saved of `target`, a tensor which takes that value, is copied by eager;
        `before`: what its memory held, whose own operation is another one."""
        pending, seen = [value], {value, before}
        oldest = self.operations[value][0] - STEPS if value in self.operations else 0
        while pending:
            v = pending.pop()
            count, operands = self.operations.get(v, (-1, ()))
            if count <= oldest and v is not value:
                continue
            if v in self.saves:
                self.saves[v] = [s for s in self.saves[v] if s.operand is not target and not (
                    s.operand is not None and s.storage is target.storage and not s.operand.path and not target.path)]
            pending += [x for x in operands if x not in seen]
            seen.update(operands)

    def overwritten(self) -> Iterator[tuple[Save, int | None]]:
        """What was written after it was saved, the latest operations first, and how often in all; None where it may
        have been."""
        for saves in reversed(self.saves.values()):
            for s in saves:
                writes = [w for w in self._writes(s.storage) if not w.data]
                if any(w.number > s.number or not set(s.loops).isdisjoint(w.path) for w in writes):
                    sure = [w for w in writes if leads(w.path, s.path)]
                    yield s, len(sure) if any(w.number > s.number for w in sure) else None

    def replaced(self) -> Iterator[tuple[Save, Write]]:
        """What may have been written by way of `.data` after it was saved, and by whom."""
        if any(w.data for writes in self.writes.values() for w in writes):
            for s in [s for saves in self.saves.values() for s in saves]:
                yield from [(s, w) for w in self._writes(s.storage) if w.data and w.number > s.number]

    def entering(self) -> Iterator[Save]:
        """What a loop may have written after it was saved, by a variable that it binds anew."""
        for s in [s for saves in self.saves.values() for s in saves] if self.entered else ():
            heads = [h for after in self._after(s.storage) for h in self._heads(after)]
            if any(w.number > s.number for h in heads for w in self._writes(h)):
                yield s

    def skipping(self) -> Iterator[tuple[Save, Any, list[Any]]]:
        """What was written after it was saved if loops between had no iteration: what it is then, and the places where
        the state says so."""
        for s in [s for saves in self.saves.values() for s in saves] if self.skipped else ():
            for after, places in self._skipped(s.storage):
                if any(w.number > s.number and not w.data for w in self._writes(after)):
                    yield s, after, places

    def _skipped(self, storage: Any) -> Iterator[tuple[Any, list[Any]]]:
        for one in self._after(storage):
            for after, place in self.skipped.get(one, ()):
                yield after, [place]
                yield from ((last, [place, *more]) for last, more in self._skipped(after))

    def _heads(self, storage: Any) -> Iterator[Any]:
        """What a storage is at the heads of loops, and of those in them."""
        for head in [d[storage] for d in self.entered.values() if storage in d]:
            yield head
            yield from self._heads(head)

    def last(self, storage: Any) -> Any:
        """What a storage is after the branches that follow."""
        while storage in self.later:
            storage = self.later[storage]
        return storage

    def _after(self, storage: Any) -> Iterator[Any]:
        while storage is not None:
            yield storage
            storage = self.later.get(storage)

    def _writes(self, storage: Any) -> Iterator[Write]:
        for s in self._after(storage):
            yield from self.writes.get(s, ())


def leads(outer: tuple[Block, ...], path: tuple[Block, ...]) -> bool:
    """Whether what stands in the block of `outer` is done whenever that of `path` is."""
    return outer == path[:len(outer)]


def of(context: Context) -> Versions:
    """The record of an evaluation."""
    return context.part(Versions)


def written(context: Context, tensor: Any) -> None:
    """A tensor is written in place."""
    known, storage = of(context), tensor.storage
    if known.paused:
        return
    data = any(attrs is DATA for _, attrs in tensor.path)
    known.writes.setdefault(storage, []).append(
        Write(next(NUMBERS), tuple(context.path), data, context.span() if data else None))
    if is_counted(context) and not data:
        context.state.values[("version", storage)] = dispatch.binary_number(
            context, "add", count(context, storage), 1, checked=False)


def is_counted(context: Context) -> bool:
    """Whether it is counted how often memory is written."""
    return VERSIONS in context.decisions and UNCOUNTED not in context.decisions


def count(context: Context, storage: Any) -> Any:
    """How often memory was written, as far as that is counted."""
    return context.state.values.get(("version", storage), 0)


def enter(context: Context, loop: Any, before: Sequence[Any], cells: Sequence[Any]) -> None:
    """A loop begins: what was there before it is there under other names at its head."""
    if len(before) == len(cells):
        of(context).entered.setdefault(loop, {}).update(
            {b: c for b, c in zip(before, cells, strict=True) if b is not c})


def follow(context: Context, loop: Any, body: Block, successors: Iterable[tuple[Any, Any, Any]], none: Any) -> None:
    """A loop has ended: what its last iteration made goes on under another name, or what was there before it, if there
    was no iteration (`none`, a bool or an int of the run; None where writes are not counted)."""
    known, place = of(context), ("skipped", loop)
    for before, ended, after in successors:
        if ended is not None and ended.block is body:
            known.later[ended] = after
        if before is not None and before is not after and none is not False:
            known.skipped.setdefault(before, []).append((after, place))
            if none is not None:
                context.state.values["first", place] = none


def save(context: Context, result: Value, tensor: Any, origin: str, operand: bool = True) -> None:
    """The derivative of the operation that made `result` reads a tensor again: an operand, or a result."""
    known, storage = of(context), tensor.storage
    around = tuple(context.path)
    counted, values = count(context, storage), context.state.values
    place = (storage, context.span())
    older = around.index(storage.block) if storage.block in around else 0
    loops = tuple([b for b in around[older + 1:] if b in context.bodies_open])
    if is_counted(context) and loops:
        now = dispatch.binary_number(context, "add", counted, 1, checked=False)
        first = values.get(("first", place), 0)
        unset = dispatch.compare_numbers(context, "eq", first, 0)
        values["first", place] = dispatch.binary_number(
            context, "add", first, dispatch.binary_number(context, "mul", unset, now, checked=False), checked=False)
        values["latest", place] = now
    version = sum(leads(w.path, around) for w in known.writes.get(storage, ()))
    known.saves.setdefault(result, []).append(Save(
        result, storage, tensor.type_, tensor if operand else None, origin, version, counted, loops, place,
        next(NUMBERS), around))
