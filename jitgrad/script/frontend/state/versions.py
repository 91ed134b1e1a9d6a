"""What eager's tape would keep of the operations of a script, and which memory was written after that.

A script's values never change, so its gradient could be taken where eager refuses: "modified by an inplace operation".
This is the record by which it refuses, too (`gradients/tape.py`): for each operation with history which storages its
derivative reads (a save), and each write in place, with the blocks around them and one number for the order of all.
What is written after a save in the same block, or in one around it, is overwritten. Where a branch or loop may write,
or has another name for the memory, the evaluation begins again with `VERSIONS`, and the state says what the run did:

    ("version", storage, COUNT)     how often its memory was written
    ("version", storage, number)    when that save last read it: which of the save's executions, at which version
    ("version", storage, LACKS)     1 where what it holds has no history, though in another run it may have one
    ("execution", number)           how often a save in a loop was executed
    ("spoiled", number)             the last of these of which memory was written since, at which version it was read
    ("written", number)             and how often that memory has been written

The first three go with the memory wherever branches and iterations bring memory together under another name
(`templates/identities.py`, `evaluate/carried/reference_heads.py`): names refer to objects then.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.errors import Span
from jitgrad.ops.types import TensorType
from jitgrad.script.autodiff import history
from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import NUMBERS, Context, State
from jitgrad.script.graph.ir import Block, Value

#: the number of what is no save: how often memory was written
COUNT = 0
#: whether what memory holds has no history in this run
LACKS = -1
#: an execution and a version plus 1 are one number: the former is so often in it
EXECUTION = 2 ** 31


class Data(dict[str, Any]):
    """The attributes of a step that is `.data`: none."""


@dataclass(slots=True)
class Write:
    """A write in place. `path`: the blocks around it, outermost first; `data`: by way of `.data`, whose writes eager
    counts apart; `span`: its place; `fresh`: of memory that its block has made, and that has no other name so far."""

    number: int
    path: tuple[Block, ...]
    data: bool
    span: Span | None
    fresh: bool

    def may_follow(self, s: Save, storage: Any) -> bool:
        """Whether it may write to a storage, which may be the memory of a save, after that."""
        return self.number > s.number or not set(s.older if storage is s.storage else s.loops).isdisjoint(self.path)


@dataclass(slots=True)
class Save:
    """Memory that the derivative of an operation reads.

    Attributes:
        result: the operation's first result.
        storage: the memory, `type_`: what of it is read.
        operand: the tensor that is read; None for a result. `data`: by way of `.data`, or it may be.
        origin: which operation had made it, "" if none.
        site: its number, the same in every evaluation of a loop's body.
        number: its place in the order of saves and writes; `path`: the blocks around it, outermost first.
        loops: those of them that are bodies of loops; `older`: those of these that go on with the same memory.
        varied: the operation's operands that may have a history: it reads nothing where they have none. `alone`: those
            of them for each of whose gradients it reads the memory, whatever the others have.
    """

    result: Value
    storage: Any
    type_: TensorType
    operand: Any
    data: bool
    origin: str
    site: int
    number: int
    path: tuple[Block, ...]
    loops: tuple[Block, ...]
    older: tuple[Block, ...]
    varied: Sequence[Value]
    alone: Callable[[], Sequence[Value]]


@dataclass(slots=True)
class Versions:
    """The record of one evaluation.

    Attributes:
        saves: by the first result of the operation that reads them again.
        writes: by storage.
        parents: what may be the same memory, storages and kinds of tensors that are merged: one of each set is above.
        sites: by storage, the saves that may have read it.
        alternatives: of the memory of what is read of one of several tensors: these, and whether it is that.
        count: how many saves there are, those of one evaluation of each body.
        data: whether anything is written or read by way of `.data`.
        refused: whether the program is, for what this record says: without the counts it would only be less known.
        paused: in operations that are made of others here, and are one for eager; where memory is exchanged.
    """

    saves: dict[Value, list[Save]] = field(default_factory=dict)
    writes: dict[Any, list[Write]] = field(default_factory=dict)
    parents: dict[Any, Any] = field(default_factory=dict)
    sites: dict[Any, set[int]] = field(default_factory=dict)
    alternatives: dict[Any, list[tuple[Any, Callable[[], Any]]]] = field(default_factory=dict)
    count: int = COUNT
    data: bool = False
    refused: bool = False
    paused: bool = False

    def keep(self, context: Context, target: Any, since: int) -> None:
        """What an operation in place that began at a number has saved itself of its target, before that is written, is
        copied by eager."""
        for s in [*itertools.takewhile(lambda s: s.number > since, self.all_saves())]:
            read = self.alternatives.get(s.storage, [(s.operand, None)]) if s.operand is not None else []
            for one, is_it in read:
                if _is_array(one, target):
                    self._kept(context, s, target.storage, is_it)

    def _kept(self, context: Context, s: Save, storage: Any, is_it: Callable[[], Any] | None) -> None:
        """Memory that a save has read, where it `is_it`, is copied, if it has not been written since."""
        if context.counts_writes:
            read = number(context, context.state, storage, s.site)
            now = _sum(context, number(context, context.state, storage, COUNT), 1)
            version = dispatch.binary_number(context, "mod", read, EXECUTION, checked=False)
            left = dispatch.select_number(context, dispatch.compare_numbers(context, "eq", version, now), 0, read)
            context.state.values["version", storage, s.site] = left if is_it is None else dispatch.select_number(
                context, is_it(), left, read)
        elif is_it is None and all(w.data or w.number < s.number for w in self.writes.get(storage, ())):
            self.saves[s.result].remove(s)

    def all_saves(self) -> Iterator[Save]:
        """Those of the latest operations first."""
        for saves in reversed(self.saves.values()):
            yield from saves

    def overwritten(self, settled: bool) -> Iterator[tuple[Save, tuple[int, int] | None]]:
        """What may have been written after it was saved. Where it certainly was: how often when it was saved, and how
        often by now; `settled`: though there may be other writes, which are not counted."""
        for s, writes in self._written():
            found = [(storage, w) for storage, w in writes if not (w.data or s.data)]
            if any(w.may_follow(s, storage) for storage, w in found):
                known = [storage is s.storage and leads(w.path, s.path) for storage, w in found]
                sure = any(k and w.number > s.number for k, (_, w) in zip(known, found, strict=True)) if settled else (
                    not s.older and all(known))
                yield s, (sum(w.number < s.number for _, w in found), len(found)) if sure else None

    def replaced(self) -> Iterator[tuple[Save, Write]]:
        """What may have been written after it was saved, one of both by way of `.data`, and by whom."""
        for s, writes in self._written() if self.data else ():
            yield from [(s, w) for storage, w in writes if (w.data or s.data) and w.may_follow(s, storage)]

    def _written(self) -> Iterator[tuple[Save, list[tuple[Any, Write]]]]:
        """The saves, with the writes to what may be their memory."""
        written: dict[Any, list[tuple[Any, Write]]] = {}
        for storage, writes in self.writes.items():
            written.setdefault(self._root(storage), []).extend((storage, w) for w in writes)
        for s in self.all_saves() if written else ():
            found = written.get(self._root(s.storage))
            if found:
                yield s, [(storage, w) for storage, w in found if storage is s.storage or not w.fresh]

    def join(self, one: Any, other: Any) -> None:
        """Two storages, or kinds of tensors, may be the same memory."""
        one, other = self._root(one), self._root(other)
        if one != other:
            self.parents[one] = other

    def _root(self, storage: Any) -> Any:
        parents = self.parents
        while storage in parents:
            above = parents[storage]
            if above in parents:
                parents[storage] = parents[above]  # the next way is shorter
            storage = above
        return storage


def leads(outer: tuple[Block, ...], path: tuple[Block, ...]) -> bool:
    """Whether what stands in the block of `outer` is done whenever that of `path` is."""
    return outer == path[:len(outer)]


def of(context: Context) -> Versions:
    """The record of an evaluation."""
    return context.part(Versions)


def is_data(tensor: Any) -> bool:
    """Whether it is a tensor that `.data` has made, or a view of one."""
    return any(isinstance(attrs, Data) for _, attrs in tensor.path)


def written(context: Context, tensor: Any) -> None:
    """A tensor is written in place."""
    known, storage = of(context), tensor.storage
    if known.paused:
        return
    data = is_data(tensor)
    known.data |= data
    known.writes.setdefault(storage, []).append(
        Write(next(NUMBERS), tuple(context.path), data, context.span(),
              storage.block is context.path[-1] and storage not in known.parents))
    if not context.counts_writes or data:
        return
    values = context.state.values
    now = values["version", storage, COUNT] = _sum(context, number(context, context.state, storage, COUNT), 1)
    for site in sorted(known.sites.get(storage, ())):
        read, latest = number(context, context.state, storage, site), values.get(("spoiled", site), 0)
        if not _is_zero(read):
            last = dispatch.compare_numbers(context, "ge", read, latest)
            values["spoiled", site] = dispatch.select_number(context, last, read, latest)
            values["written", site] = dispatch.select_number(context, last, now, values.get(("written", site), 0))


def inherit(context: Context, storage: Any, made: Any) -> None:
    """A storage that is the memory of another one has been written as often."""
    known = of(context)
    known.writes[made] = [*known.writes.get(storage, ())]
    for site, value in [*numbers(context, context.state, storage)]:
        put(context, made, site, value)


def moved(context: Context, storage: Any, to: Any) -> None:
    """Memory has another name from here on, and none of the old one."""
    known = of(context)
    inherit(context, storage, to)
    known.writes.pop(storage, None)
    for s in known.all_saves():
        if s.storage is storage:
            s.storage = to


def save(context: Context, result: Value, tensor: Any, origin: str, varied: Sequence[Value],
         alone: Callable[[], Sequence[Value]], lacking: Any, operand: bool = True) -> None:
    """The derivative of the operation that made `result` reads a tensor again: an operand, or a result; where it is
    `lacking` the history of what it is made of (0, 1, or a number of the run), it does not."""
    known, storage = of(context), tensor.storage
    known.count += 1
    around, site = tuple(context.path), known.count
    loops = tuple([b for b in around if b in context.bodies_open])
    older = around.index(storage.block) if storage.block in around else 0
    alternatives = known.alternatives.get(storage, [(tensor, None)])
    data = any(is_data(one) for one, _ in alternatives)
    known.data |= data
    known.saves.setdefault(result, []).append(Save(
        result, storage, tensor.type_, tensor if operand else None, data, origin, site, next(NUMBERS), around, loops,
        tuple([b for b in loops if b in around[older + 1:]]), varied, alone))
    if not context.counts_writes:
        return
    values, execution = context.state.values, 1
    if loops:
        execution = values["execution", site] = _sum(context, values.get(("execution", site), 0), 1)
    for one, is_it in alternatives:
        if is_data(one):
            continue
        memory = one.storage
        read = _sum(context, dispatch.binary_number(context, "mul", execution, EXECUTION, checked=False),
                    _sum(context, number(context, context.state, memory, COUNT), 1))
        for holds in [*([] if is_it is None else [is_it()]),
                      *([] if _is_zero(lacking) else [dispatch.compare_numbers(context, "eq", lacking, 0)])]:
            read = dispatch.select_number(context, holds, read, number(context, context.state, memory, site))
        values["version", memory, site] = read
        known.sites.setdefault(memory, set()).add(site)


def made_alike(tensors: Sequence[Any]) -> str | None:
    """What eager's `grad_fn` says of one of several tensors, "" if that is not certain."""
    names = {"" if path else held.made for held, path in (t.source for t in tensors)}
    return names.pop() if len(names) == 1 else ""


def number(context: Context, state: State, storage: Any, site: int) -> Any:
    """How often memory was written, when a save read it last, 0 where it never was, or whether it `lacks` a history."""
    if site == LACKS:
        return lacks(context, state, storage)
    return state.values.get(("version", storage, site), 0)


def numbers(context: Context, state: State, storage: Any) -> Iterator[tuple[int, Any]]:
    """What the state says of memory, where that is not 0."""
    if context.counts_writes:
        for site in (COUNT, LACKS, *sorted(of(context).sites.get(storage, ()))):
            found = number(context, state, storage, site)
            if not _is_zero(found):
                yield site, found


def numbers_of(context: Context, tensor: Any) -> Iterator[tuple[int, Any]]:
    """What the state says of what a tensor shows, where that is not 0."""
    if context.counts_writes:
        yield from [(site, n) for site, n in numbers(context, context.state, tensor.storage) if site != LACKS]
        if not _is_zero(lack := lacking(context, tensor)):
            yield LACKS, lack


def lacks(context: Context, state: State, storage: Any) -> Any:
    """Whether what memory holds has no history: 0, 1 or a number of the run."""
    found = state.values.get(("version", storage, LACKS))
    if found is not None:
        return found
    held = state.values.get(storage) or context.inputs.values[storage.input]
    return int(not context.has_history(held))


def lacking(context: Context, tensor: Any) -> Any:
    """Whether a tensor has no history: 0, 1 or a number of the run."""
    return lacks(context, context.state, tensor.source[0]) if tensor.requires_grad else 1


def all_lack(context: Context, found: Iterable[Any]) -> Any:
    """Whether all of several lack a history: 0, 1 or a number of the run."""
    result: Any = 1
    for n in found:
        if type(n) is not int:
            result = n if type(result) is int else dispatch.binary_number(context, "mul", result, n, checked=False)
        elif n == 0:
            return 0
    return result


def tell(context: Context, storage: Any, lacks: Any) -> None:
    """What memory holds from here on has a history where it does not lack one."""
    if context.counts_writes:
        context.state.values["version", storage, LACKS] = lacks


def certain(context: Context, values: Sequence[Value]) -> bool:
    """Whether each of `values` has a history in any run, as far as the loops around here do not decide it."""
    heads = {p for b in context.path[1:] for p in b.params}
    return history.certainly(context.path, values, lambda v: v not in heads and context.has_history(v))


def put(context: Context, storage: Any, site: int, value: Any) -> None:
    """Say the same of memory under another name."""
    context.state.values["version", storage, site] = value
    if site > COUNT:
        of(context).sites.setdefault(storage, set()).add(site)


def _is_array(one: Any, other: Any) -> bool:
    """Whether two tensors surely have the very same array in eager: one is the other, or detached from it."""
    if is_data(one) or is_data(other):
        return one is other
    views = [[attrs for op, attrs in t.path if op != "detach"] for t in (one, other)]
    return one.storage is other.storage and len(views[0]) == len(views[1]) and all(map(operator.is_, *views))


def _is_zero(value: Any) -> bool:
    return type(value) is int and value == 0


def _sum(context: Context, a: Any, b: Any) -> Any:
    return dispatch.binary_number(context, "add", a, b, checked=False)
