"""What steps do to memory: which buffers each reads and writes, so that steps can be moved, or kept apart by barriers.

Memory is told apart by buffers. A pointer stands for all buffers that it may point into; one into the memory of
sequences stands for anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from jitgrad.codegen.program.program import (
    Allocate,
    ArenaAllocate,
    Assign,
    Barrier,
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
    Recall,
    RepeatStep,
    ResidentStep,
    ScalarStep,
    SeqGet,
    SeqPlace,
    StoreScalar,
)


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


class Memory:
    """The memory of a program."""

    def __init__(self, program: Program):
        self.wild: set[Buffer] = set()          # pointers that sequences set
        self.known: dict[Buffer, frozenset[Buffer] | None] = {}
        self.told: dict[Leaving, Effects] = {}
        self.find_wild(program.steps)

    def find_wild(self, steps: Iterable[Any]) -> None:
        for step in steps:
            if isinstance(step, (SeqGet, SeqPlace, ArenaAllocate)) and isinstance(step.target, Buffer):
                self.wild.add(step.target)
            for inner in inside(step):
                self.find_wild(inner)

    def places(self, buffer: Buffer) -> frozenset[Buffer] | None:
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
                memory = self.places(buffer)
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
            return self.touching(*operands(step))
        if isinstance(step, GemmStep):
            more = [place[0] for place in (step.bias, step.aux) if place is not None]
            return self.touching([step.a[0], step.b[0], *more], step.writes)
        if isinstance(step, EachPut):  # of a list inside: its group runs there
            return self.touching(*_of_kernel(step.each.kernel, step.starts))
        if isinstance(step, (LoadScalar, Recall)):
            return self.touching([step.buffer if isinstance(step, LoadScalar) else step.state], [])
        if isinstance(step, (Allocate, StoreScalar)):
            return self.touching([], [step.buffer])
        if isinstance(step, (Assign, Barrier, CommitSlot, EachStep, Point, ScalarStep)):
            return Effects()
        if isinstance(step, NumberStep) or (isinstance(step, CallStep) and step.kind == "check"):
            found = self.all(step.before) if isinstance(step, CallStep) else Effects()
            for part in step.leaving.chain() if step.leaving is not None else ():
                if part not in self.told:
                    self.told[part] = self.all(part.before)
                found.add(self.told[part])
            return found
        if isinstance(step, (IfStep, LoopStep, RepeatStep, ResidentStep)):
            return self.all(s for inner in inside(step) for s in inner)
        return Effects(unknown=True)


def inside(step: Any) -> tuple[list[Any], ...]:
    """The lists of steps in a step."""
    if isinstance(step, IfStep):
        return step.then, step.otherwise
    if isinstance(step, ResidentStep):
        return step.steps, step.otherwise
    return (step.body,) if isinstance(step, (LoopStep, RepeatStep)) else ()


def _of_kernel(kernel: Any, starts: Sequence[Any]) -> tuple[list[Buffer], list[Buffer]]:
    both = list(zip(kernel.operands, [b for b, _ in starts], strict=True))
    return [b for o, b in both if o.role != "out"], [b for o, b in both if o.role != "in"]


def operands(step: KernelStep) -> tuple[list[Buffer], list[Buffer]]:
    """What a kernel reads, and what it writes."""
    return _of_kernel(step.kernel, step.starts)


__all__ = ["Effects", "Memory", "inside", "operands"]
