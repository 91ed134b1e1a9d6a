"""Which buffers of a program share memory: live ranges, and slots coloured greedily.

Steps are numbered in program order. A buffer lives from the first to the last step that names it, or that names a
pointer which may point into it; what is named inside a loop but made before it lives until the loop ends, and what is
named inside a loop and after it lives from the loop's start.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jitgrad.codegen.program.program import (
    Buffer,
    CallStep,
    IfStep,
    Leaving,
    LoopStep,
    NumberStep,
    Program,
    ResidentStep,
)
from jitgrad.dims import Size


@dataclass(slots=True)
class Range:
    """First and last position, and the loops around the first (their last positions)."""

    first: int
    last: int
    loops: tuple[int, ...]


@dataclass(slots=True)
class Slot:
    """Memory that several buffers use in turn; its size is the largest of theirs (size, bytes per element)."""

    sizes: dict[tuple[Size, int], None]
    growable: bool


def assign(program: Program) -> tuple[dict[Buffer, int], list[Slot]]:
    """A slot number for every "slot" and "growable" buffer, and the slots."""
    ranges = live_ranges(program)
    chosen: dict[Buffer, int] = {}
    slots: list[Slot] = []
    busy: list[tuple[int, int]] = []        # (position of the last use, number) of slots in use
    free: set[int] = set()
    queues: dict[Any, list[int]] = {}       # numbers of free slots, by kind and by what they have held; some are gone
    for buffer, live in sorted(ranges.items(), key=lambda p: (p[1].first, p[0].id)):
        key, growable = (buffer.size, buffer.dtype.itemsize), buffer.kind == "growable"
        while busy and busy[0][0] < live.first:
            number = heapq.heappop(busy)[1]
            free.add(number)
            for queue in (slots[number].growable, *[(slots[number].growable, held) for held in slots[number].sizes]):
                heapq.heappush(queues.setdefault(queue, []), number)
        best = None
        if buffer.keeps:
            live.last = 1 << 60
        else:
            best = _first(queues.get((growable, key)), free)
            if best is None:
                best = _first(queues.get(growable), free)
        if best is None:
            best = len(slots)
            slots.append(Slot({}, growable))
        slots[best].sizes[key] = None
        heapq.heappush(busy, (live.last, best))
        chosen[buffer] = best
    return chosen, slots


def _first(queue: list[int] | None, free: set[int]) -> int | None:
    """Take the first slot of a queue that is still free."""
    while queue:
        number = heapq.heappop(queue)
        if number in free:
            free.remove(number)
            return number
    return None


def live_ranges(program: Program) -> dict[Buffer, Range]:
    """The live range of every workspace buffer."""
    return _walked(program).ranges


def beginnings(program: Program) -> dict[Buffer, Any]:
    """The step before which each workspace buffer holds nothing that is needed: that at which its range begins."""
    walker = _walked(program)
    return {buffer: walker.where[live.first] for buffer, live in walker.ranges.items() if live.first in walker.where}


def _walked(program: Program) -> _Walker:
    walker = _Walker()
    walker.steps(program.steps, ())
    for output in program.outputs:
        for buffer in buffers_of(output):
            walker.touch(buffer, walker.position + 1, ())
    return walker


class _Walker:
    def __init__(self) -> None:
        self.position = 0
        self.ranges: dict[Buffer, Range] = {}
        self.ends: dict[int, int] = {}      # loop number -> its last position
        self.later: list[tuple[Buffer, int]] = []
        self.where: dict[int, Any] = {}     # position -> step

    def steps(self, steps: list[Any], loops: tuple[int, ...]) -> None:
        left: dict[Leaving, tuple[int, int]] = {}  # what is stored after exceptions: where first, where last
        for step in steps:
            self.position += 1
            self.where[self.position] = step
            if isinstance(step, IfStep):
                self.steps(step.then, loops)
                self.steps(step.otherwise, loops)
            elif isinstance(step, CallStep):
                self.steps(step.before, loops)
            elif isinstance(step, ResidentStep):  # barriers tell buffers apart, not memory that several use in turn
                for buffer in all_buffers([*step.steps, *step.otherwise]):
                    self.touch(buffer, self.position, loops)
            if isinstance(step, (CallStep, NumberStep)) and step.leaving is not None:
                left[step.leaving] = left.get(step.leaving, (self.position, 0))[0], self.position
            elif isinstance(step, LoopStep):
                number = self.position
                touched = len(self.later)
                self.steps(step.body, (*loops, number))
                self.position += 1
                for buffer, made_at in self.later[touched:]:
                    if made_at < number:  # made before the loop: needed in every iteration
                        self.ranges[buffer].last = max(self.ranges[buffer].last, self.position)
            for buffer in buffers_of(step):
                self.touch(buffer, self.position, loops)
        parts: dict[Leaving, tuple[int, int]] = {}
        for leaving, (first, last) in left.items():
            for part in leaving.chain():
                before = parts.get(part, (first, last))
                parts[part] = min(first, before[0]), max(last, before[1])
        for part, places in parts.items():
            self.left(part, places, loops)

    def left(self, part: Leaving, places: tuple[int, int], loops: tuple[int, ...]) -> None:
        """What places that leave the program read, from the first to the last one of them."""
        found = buffers_of(part)
        pending = list(part.before)
        for step in pending:
            found += buffers_of(step)
            if isinstance(step, IfStep):
                pending += [*step.then, *step.otherwise]
        for position in places:
            for buffer in found:
                self.touch(buffer, position, loops)

    def touch(self, buffer: Buffer, position: int, loops: tuple[int, ...]) -> None:
        """A step at `position` uses a buffer: it, or those that it may point into, must be there."""
        seen, pending = {buffer}, [buffer]
        while pending:  # pointers may lead to one buffer on very many ways: each is looked at once
            buffer = pending.pop()
            if buffer.kind in ("slot", "growable"):
                self.extend(buffer, position, loops)
            pending += sorted(buffer.aliases - seen, key=lambda b: b.id)
            seen |= buffer.aliases

    def extend(self, buffer: Buffer, position: int, loops: tuple[int, ...]) -> None:
        """A buffer's range reaches to `position`."""
        found = self.ranges.get(buffer)
        if found is None:
            found = self.ranges[buffer] = Range(position, position, loops)
        found.last = max(found.last, position)
        left = [loop for loop in found.loops if loop not in loops]
        if left:  # filled by a loop, a part in each iteration: needed from its start
            found.first, found.loops = min(found.first, left[0]), loops[:found.loops.index(left[0])]
        self.later.append((buffer, found.first))


def buffers_of(step: Any) -> list[Buffer]:
    """The buffers that a step (or an output) itself names."""
    found: list[Buffer] = []
    for name in step.__slots__:
        value = getattr(step, name)
        if name not in ("then", "otherwise", "body", "before", "steps"):
            _collect(value, found)
    return found


def all_buffers(steps: Iterable[Any]) -> list[Buffer]:
    """The buffers that steps name, and those inside of them."""
    found: dict[Buffer, None] = {}
    for step in steps:
        found.update(dict.fromkeys(buffers_of(step)))
        for name in ("then", "otherwise", "body", "before", "steps"):
            found.update(dict.fromkeys(all_buffers(getattr(step, name, ()))))
    return list(found)


def _collect(value: Any, found: list[Buffer]) -> None:
    if isinstance(value, Buffer):
        found.append(value)
    elif isinstance(value, tuple):
        for v in value:
            _collect(v, found)
    elif hasattr(value, "buffer"):
        found.append(value.buffer)
