"""Kernels that are equal but for their operands are launched together: the updates of all parameters are one launch.

    program = grouped(lower(name, graph, device=True))

A group's members are `KernelStep`s of one list of steps. What a member is called with is computed where it stood
(`EachPut`), and all run where the last one stood (`EachStep`). So a member is moved down, behind the steps in between:
none of them may write what it reads or writes, or read what it writes. Where the program leaves in between, the
members so far run first (`device_program.py`): a check that fails after an update finds it done.

Memory is told apart by buffers. A pointer stands for all buffers that it may point into; one into the memory of
sequences stands for anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jitgrad.codegen import llvm_kernel
from jitgrad.codegen.cuda import each
from jitgrad.codegen.program import (
    Allocate,
    ArenaAllocate,
    Assign,
    Buffer,
    CallStep,
    CommitSlot,
    EachPut,
    EachStep,
    GemmStep,
    IfStep,
    KernelStep,
    Leaving,
    LoadScalar,
    LoopStep,
    NumberStep,
    Point,
    Program,
    ScalarStep,
    SeqGet,
    SeqPlace,
    StoreScalar,
)
from jitgrad.script.ir import Node


def grouped(program: Program) -> Program:
    """The program with equal kernels together where that changes nothing."""
    return _Grouping(program).program


@dataclass(slots=True)
class Effects:
    """What a step reads and writes; `unknown`: more than that, so that nothing is moved behind it."""

    reads: set[Buffer] = field(default_factory=set)
    writes: set[Buffer] = field(default_factory=set)
    unknown: bool = False

    def add(self, other: Effects) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        self.unknown |= other.unknown

    def meets(self, other: Effects) -> bool:
        """Whether the order of the two matters."""
        return not (self.writes.isdisjoint(other.writes) and self.writes.isdisjoint(other.reads)
                    and self.reads.isdisjoint(other.writes))


@dataclass(slots=True)
class Group:
    """Kernels that may run where the last one of them stands: their positions in the list of steps."""

    kernel: Any
    members: list[int]
    effects: Effects


class _Grouping:
    def __init__(self, program: Program):
        self.wild: set[Buffer] = set()          # pointers that sequences set
        self.known: dict[Buffer, frozenset[Buffer] | None] = {}
        self.told: dict[Leaving, Effects] = {}
        self.origins = dict(program.origins)
        self.find_wild(program.steps)
        self.program = replace(program, steps=self.steps(program.steps), origins=self.origins)

    def find_wild(self, steps: Iterable[Any]) -> None:
        for step in steps:
            if isinstance(step, (SeqGet, SeqPlace, ArenaAllocate)) and isinstance(step.target, Buffer):
                self.wild.add(step.target)
            for inner in _inside(step):
                self.find_wild(inner)

    # --- one list of steps ---

    def steps(self, steps: Sequence[Any]) -> list[Any]:
        steps = [self.rebuilt(s) for s in steps]
        keys = [self.key(s) for s in steps]
        times = Counter(k for k in keys if k is not None)
        groups: dict[Hashable, Group] = {}
        done: list[Group] = []
        for position, (step, key) in enumerate(zip(steps, keys, strict=True)):
            if groups:
                own = self.effects(step)
                for other in [k for k, g in groups.items() if own.unknown or g.effects.meets(own)]:
                    done.append(groups.pop(other))
            if key is None or times[key] < 2:
                continue
            group = groups.get(key)
            if group is None:
                group = groups[key] = Group(each.flat(step.kernel), [], Effects())
            group.members.append(position)
            group.effects.add(self.effects(step))
            if (len(group.members) + 1) * each.width(group.kernel, [False] * len(group.kernel.scalars)) > (
                    each.MOST_WORDS):
                done.append(groups.pop(key))
        made: dict[int, list[Any]] = {}
        for group in [*done, *groups.values()]:
            if len(group.members) > 1:
                made.update(self.together(steps, group))
        return [new for position, step in enumerate(steps) for new in made.get(position, [step])]

    def rebuilt(self, step: Any) -> Any:
        """A step with the lists in it grouped."""
        new: Any
        if isinstance(step, IfStep):
            new = IfStep(step.condition, self.steps(step.then), self.steps(step.otherwise))
        elif isinstance(step, LoopStep):
            new = LoopStep(step.condition, self.steps(step.body), step.frees)
        else:
            return step
        self.origins[new] = self.origins.get(step, ())
        return new

    def key(self, step: Any) -> Hashable:
        """What members of a group have in common; None for what is never one.

        A member keeps what it reads alive until the group runs. So it writes what lives on anyway, or reads nothing.
        """
        if not isinstance(step, KernelStep):
            return None
        kernel = each.flat(step.kernel)
        if not each.fits(kernel) or 2 * each.width(kernel, [False] * len(kernel.scalars)) > each.MOST_WORDS:
            return None
        reads, writes = _operands(step)
        if self.effects(step).unknown or (any(b.kind in ("slot", "growable") for b in writes) and reads):
            return None
        return llvm_kernel.body_key(kernel)

    def together(self, steps: Sequence[Any], group: Group) -> dict[int, list[Any]]:
        """What stands where the members stood."""
        own: list[KernelStep] = [steps[m] for m in group.members]
        sizes = [s.sizes[0] if s.sizes else 1 for s in own]
        shared = tuple([all(v is values[0] for v in values) for values in zip(*[s.scalars for s in own], strict=True)])
        step = EachStep(group.kernel, tuple(zip(sizes, [s.starts for s in own], strict=True)), shared)
        made: dict[int, list[Any]] = {}
        nodes: dict[Node, None] = {}
        for number, (member, position) in enumerate(zip(own, group.members, strict=True)):
            put = EachPut(step, number, sizes[number], member.starts, member.scalars)
            self.origins[put] = self.origins.get(member, ())
            nodes.update(dict.fromkeys(self.origins[put]))
            made[position] = [put]
        made[group.members[-1]].append(step)
        self.origins[step] = tuple(nodes)
        return made

    # --- what steps do to memory ---

    def memory(self, buffer: Buffer) -> frozenset[Buffer] | None:
        """Where a buffer may be; None: anywhere."""
        if buffer in self.known:
            return self.known[buffer]
        found: set[Buffer] = set()
        seen, pending = {buffer}, [buffer]
        while pending:
            b = pending.pop()
            if b.kind != "pointer":
                found.add(b)
            elif b in self.wild or not b.aliases:
                self.known[buffer] = None
                return None
            pending += b.aliases - seen
            seen |= b.aliases
        result = self.known[buffer] = frozenset(found)
        return result

    def touching(self, reads: Iterable[Buffer], writes: Iterable[Buffer]) -> Effects:
        found = Effects()
        for buffers, into in ((reads, found.reads), (writes, found.writes)):
            for buffer in buffers:
                memory = self.memory(buffer)
                if memory is None:
                    found.unknown = True
                else:
                    into |= memory
        return found

    def all(self, steps: Iterable[Any]) -> Effects:
        found = Effects()
        for step in steps:
            found.add(self.effects(step))
        return found

    def effects(self, step: Any) -> Effects:
        """What a step, or one inside it, does to memory."""
        if isinstance(step, KernelStep):
            return self.touching(*_operands(step))
        if isinstance(step, GemmStep):
            return self.touching([step.a[0], step.b[0]], [step.c[0]])
        if isinstance(step, EachPut):  # of a list inside: its group runs there
            return self.touching(*_of_kernel(step.each.kernel, step.starts))
        if isinstance(step, LoadScalar):
            return self.touching([step.buffer], [])
        if isinstance(step, (Allocate, StoreScalar)):
            return self.touching([], [step.buffer])
        if isinstance(step, (Assign, CommitSlot, EachStep, Point, ScalarStep)):
            return Effects()
        if isinstance(step, NumberStep) or (isinstance(step, CallStep) and step.kind == "check"):
            found = self.all(step.before) if isinstance(step, CallStep) else Effects()
            for part in step.leaving.chain() if step.leaving is not None else ():
                if part not in self.told:
                    self.told[part] = self.all(part.before)
                found.add(self.told[part])
            return found
        if isinstance(step, (IfStep, LoopStep)):
            return self.all(s for inner in _inside(step) for s in inner)
        return Effects(unknown=True)


def _inside(step: Any) -> tuple[list[Any], ...]:
    """The lists of steps in a step."""
    if isinstance(step, IfStep):
        return step.then, step.otherwise
    return (step.body,) if isinstance(step, LoopStep) else ()


def _of_kernel(kernel: Any, starts: Sequence[Any]) -> tuple[list[Buffer], list[Buffer]]:
    both = list(zip(kernel.operands, [b for b, _ in starts], strict=True))
    return [b for o, b in both if o.role != "out"], [b for o, b in both if o.role != "in"]


def _operands(step: KernelStep) -> tuple[list[Buffer], list[Buffer]]:
    """What a kernel reads, and what it writes."""
    return _of_kernel(step.kernel, step.starts)


__all__ = ["grouped"]
