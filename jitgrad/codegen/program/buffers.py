"""Which buffers of a program share memory: live ranges, and slots coloured greedily.

Steps are numbered in program order. A buffer lives from the first to the last step that names it, or that names a
pointer which may point into it; what is named inside a loop but made before it lives until the loop ends, and what is
named inside a loop and after it lives from the loop's start.
"""

from __future__ import annotations

import heapq
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.codegen.program.device_steps import ResidentStep
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.step import Buffer, Leaving, every
from jitgrad.codegen.program.steps import LoopStep
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
        for buffer in output.uses:
            if isinstance(buffer, Buffer):
                walker.touch(buffer, walker.position + 1, ())
    return walker


class _Walker:
    def __init__(self) -> None:
        self.position = 0
        self.ranges: dict[Buffer, Range] = {}
        self.touched: list[dict[Buffer, None]] = [{}]  # workspace that is named in each loop around, and outside
        self.reached: dict[Buffer, list[Buffer]] = {}  # the workspace that a buffer is or may point into
        self.where: dict[int, Any] = {}     # position -> step

    def steps(self, steps: list[Any], loops: tuple[int, ...]) -> None:
        left: dict[Leaving, tuple[int, int]] = {}  # what is stored after exceptions: where first, where last
        for step in steps:
            self.position += 1
            self.where[self.position] = step
            if isinstance(step, ResidentStep):  # barriers tell buffers apart, not memory that several use in turn
                for inner in every([step]):
                    for part in (inner, *every(inner.before)):
                        for buffer in part.named:
                            self.touch(buffer, self.position, loops)
            elif isinstance(step, LoopStep):
                self.loop(step, loops)
            else:
                for block in (*step.blocks, step.before):
                    if block:
                        self.steps(block, loops)
            if step.leaving is not None:
                left[step.leaving] = left.get(step.leaving, (self.position, 0))[0], self.position
            for buffer in step.named:
                self.touch(buffer, self.position, loops)
        parts: dict[Leaving, tuple[int, int]] = {}
        for leaving, (first, last) in left.items():
            for part in leaving.chain():
                before = parts.get(part, (first, last))
                parts[part] = min(first, before[0]), max(last, before[1])
        for part, places in parts.items():
            self.left(part, places, loops)

    def loop(self, step: LoopStep, loops: tuple[int, ...]) -> None:
        number = self.position
        self.touched.append({})
        self.steps(step.body, (*loops, number))
        self.position += 1
        touched = self.touched.pop()
        for buffer in touched:
            live = self.ranges[buffer]
            if live.first < number:  # made before the loop: needed in every iteration
                live.last = max(live.last, self.position)
        self.touched[-1].update(touched)

    def left(self, part: Leaving, places: tuple[int, int], loops: tuple[int, ...]) -> None:
        """What places that leave the program read, from the first to the last one of them."""
        found = [b for b in part.uses if isinstance(b, Buffer)]
        for position in places:
            for buffer in found:
                self.touch(buffer, position, loops)

    def touch(self, buffer: Buffer, position: int, loops: tuple[int, ...]) -> None:
        """A step at `position` uses a buffer: it, or those that it may point into, must be there."""
        for held in self.workspace(buffer):
            self.extend(held, position, loops)

    def workspace(self, buffer: Buffer) -> list[Buffer]:
        """The workspace that a buffer is or may point into."""
        found = self.reached.get(buffer)
        if found is None:
            seen, pending = {buffer: None}, [buffer]
            while pending:  # pointers may lead to one buffer on very many ways: each is looked at once
                for other in pending.pop().aliases:
                    if other not in seen:
                        seen[other] = None
                        pending.append(other)
            found = self.reached[buffer] = sorted([b for b in seen if b.kind in ("slot", "growable")],
                                                  key=lambda b: b.id)
        return found

    def extend(self, buffer: Buffer, position: int, loops: tuple[int, ...]) -> None:
        """A buffer's range reaches to `position`."""
        found = self.ranges.get(buffer)
        if found is None:
            found = self.ranges[buffer] = Range(position, position, loops)
        found.last = max(found.last, position)
        left = [loop for loop in found.loops if loop not in loops]
        if left:  # filled by a loop, a part in each iteration: needed from its start
            found.first, found.loops = min(found.first, left[0]), loops[:found.loops.index(left[0])]
        self.touched[-1][buffer] = None
