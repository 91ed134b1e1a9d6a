"""What steps do to memory: which buffers each reads and writes, so that steps can be moved, or kept apart by barriers.

Memory is told apart by buffers. A pointer stands for all buffers that it may point into; one into the memory of
sequences stands for anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from jitgrad.classes import dataclass, field
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.sequence_steps import ArenaAllocate, SeqGet, SeqPlace
from jitgrad.codegen.program.step import Buffer, Leaving, Step, every


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
        self.known: dict[Buffer, frozenset[Buffer] | None] = {}
        self.told: dict[Leaving, Effects] = {}
        self.wild = {step.target for step in every(program.steps) if isinstance(step, (SeqGet, SeqPlace, ArenaAllocate))
                     and isinstance(step.target, Buffer)}  # pointers that sequences set

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

    def all(self, steps: Iterable[Step]) -> Effects:
        found = Effects()
        for step in steps:
            found.add(self.effects(step))
        return found

    def effects(self, step: Step) -> Effects:
        """What a step, or one inside it, does to memory."""
        touched = step.memory
        if touched is None:
            return Effects(unknown=True)
        found = self.touching(*touched)
        for block in (*step.blocks, step.before):
            found.add(self.all(block))
        for part in step.leaving.chain() if step.leaving is not None else ():
            if part not in self.told:
                self.told[part] = self.all(part.before)
            found.add(self.told[part])
        return found
