"""A loop of a region whose products are too large for its kernel: its steps are launched, and the device repeats them.

    steps = repeated(region, memory, known)    # instead of the region's own; None where the host has to loop

The body's launches and products are the same in every iteration, so they can be the body of a WHILE node of a graph
(`replay.py`). What the host would keep from one iteration to the next is in memory: numbers are words of a `state`, and
two small kernels, at the beginning and at the end of the body, compute them with the condition, the first word; tensors
are copied to a place that stays (`stable_memory.py`). A loop that keeps something of each iteration, or has branches,
is the host's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.cuda.schedule.stable_memory import copies, pointing, stable_buffers
from jitgrad.codegen.program.device_steps import Barrier, Recall, RepeatStep, ResidentStep
from jitgrad.codegen.program.effects import Memory
from jitgrad.codegen.program.step import Buffer, Use, all_uses, every
from jitgrad.codegen.program.steps import (
    Allocate,
    Assign,
    CallStep,
    GemmStep,
    KernelStep,
    LoadScalar,
    LoopStep,
    NumberStep,
    Point,
    ScalarStep,
)
from jitgrad.dims import Size, Symbol, product, symbols
from jitgrad.script.graph.ir import Value

NUMBERS = (NumberStep, ScalarStep, LoadScalar, Assign)
#: done, or tested, by the host before
BEFORE = (Allocate, Barrier, CallStep)


def repeated(region: ResidentStep, memory: Memory, known: Collection[Symbol]) -> list[Any] | None:
    """The steps with which the device repeats a region's loop. `known`: the sizes that are known when a call begins."""
    steps = [s for s in region.steps if not isinstance(s, BEFORE)]
    loops = [k for k, s in enumerate(steps) if isinstance(s, LoopStep)]
    if region.seqs or len(loops) != 1:
        return None
    first, loop, after = steps[:loops[0]], steps[loops[0]], steps[loops[0] + 1:]
    points, before = [[s for s in first if isinstance(s, Point) is which] for which in (True, False)]
    if any(m in all_uses(s) for p in points for m in p.sets for s in before):
        return None
    body = [s for s in loop.body if not isinstance(s, BEFORE)]
    if not any(isinstance(s, GemmStep) for s in body) or not is_flat(before, body, memory):
        return None
    numbers = [s for s in body if isinstance(s, NUMBERS)]
    made = {m: None for s in [*before, *numbers] for m in s.sets}
    if any(isinstance(m, Symbol) for m in made) or any(m in made for s in body if is_work(s) for m in all_uses(s)):
        return None
    tensors = carried(body, after, region, memory, known)
    if tensors is None:
        return None

    read = entry(numbers)
    after = without_unread(after, region.exits)
    values = [v for v in made if isinstance(v, Value)]
    read_after = {*region.exits, *[m for s in every(after) for m in all_uses(s)]}
    wanted = [v for v in values if v in read_after]
    words = tuple(dict.fromkeys([loop.condition, *[v for v in values if v in read], *wanted]))
    given = {*region.values, *[m for s in before for m in s.sets]}
    if any(v not in given for v in words):
        return None
    state = Buffer(dtypes.int64, len(words), "slot", keeps=True)
    recalled = [Recall(v, state, k) for k, v in enumerate(words)]
    stable = stable_buffers(tensors)
    memory.known.clear()
    work = [*[s for s in body if is_work(s)], small_kernel([*recalled, *numbers], words, state),
            *copies((source, stable[pointer]) for pointer, source in tensors.items())]
    return [*points, *copies(stable.items()), pointing(stable), small_kernel(before, words, state),
            RepeatStep(work, state, words, tuple(wanted)), *after]


def is_work(step: Any) -> bool:
    """Whether a step is something that is launched."""
    return isinstance(step, (KernelStep, GemmStep))


def is_flat(before: Sequence[Any], body: Sequence[Any], memory: Memory) -> bool:
    """Whether a body is launches, then numbers, then moves of pointers, or can be put in that order; and only numbers
    are before it.
    """
    if not all(isinstance(s, NUMBERS) for s in before) or not all(
            is_work(s) or isinstance(s, (*NUMBERS, Point)) for s in body):
        return False
    points = [k for k, s in enumerate(body) if isinstance(s, Point)]
    if len(points) > 1 or (points and any(is_work(s) or isinstance(s, LoadScalar) for s in body[points[0]:])):
        return False
    turns = moved(body)
    return not any(overwrites(later, s.buffer, turns, memory) for k, s in enumerate(body) if isinstance(s, LoadScalar)
                   for later in body[k:] if is_work(later))


def moved(body: Sequence[Any]) -> dict[Buffer, tuple[Buffer, Size]]:
    """The pointers that a body moves, and where to."""
    return {pointer: (source, offset) for s in body if isinstance(s, Point) for pointer, source, offset in s.targets}


def overwrites(step: KernelStep | GemmStep, buffer: Buffer, turns: Collection[Buffer], memory: Memory) -> bool:
    """Whether a launch may write what another step of the body has read from a buffer.

    The pointers that a body moves take `turns`: none is where another one is at the same time.
    """
    places = memory.places(buffer)
    for written in step.memory[1]:
        other = memory.places(written)
        if written is buffer or (not (written in turns and buffer in turns) and (
                places is None or other is None or not places.isdisjoint(other))):
            return True
    return False


def without_unread(steps: Sequence[Any], exits: Collection[Use]) -> list[Any]:
    """Steps behind a loop without the numbers that nobody reads."""
    kept: list[Any] = []
    read: set[Use] = set(exits)
    for step in reversed(steps):
        if not isinstance(step, NUMBERS) or not read.isdisjoint(step.sets):
            kept.insert(0, step)
            read.update(m for s in every([step]) for m in all_uses(s))
    return kept


# --- numbers ---


def entry(steps: Sequence[Any], words: Sequence[Value] = ()) -> dict[Use, None]:
    """What steps on numbers read, and of `words`, that they have not set themselves before."""
    have: set[Use] = set()
    found: dict[Use, None] = {}
    for step in steps:
        found |= {m: None for m in all_uses(step) if m not in have}
        have.update(step.sets)
    return found | {v: None for v in words if v not in have}


def small_kernel(steps: Sequence[Any], words: tuple[Value, ...], state: Buffer) -> ResidentStep:
    """A kernel of one thread that does steps on numbers, and writes `words` to `state`."""
    read = entry(steps, words)
    return ResidentStep([*steps], (), (), tuple([m for m in read if isinstance(m, Value)]),
                        tuple([m for m in read if isinstance(m, Symbol)]),
                        tuple([m for m in read if isinstance(m, Buffer)]), (), words, state, alone=True)


# --- tensors ---


def carried(body: Sequence[Any], after: Sequence[Any], region: ResidentStep, memory: Memory,
            known: Collection[Symbol]) -> dict[Buffer, Buffer] | None:
    """The pointers whose tensors live from one iteration to the next, and where each finds its next one; None where one
    of them cannot stay where it is.

    The other pointers that a body moves are to memory that an iteration fills before it reads it.
    """
    found: dict[Buffer, Buffer] = {}
    read_after = {*region.exits, *[m for s in every(after) for m in all_uses(s)]}
    turns = moved(body)
    for pointer, (source, offset) in turns.items():
        if pointer in read_after or is_read_first(pointer, body):
            known_size = pointer.size != 0 and symbols(pointer.size) <= set(known)
            if offset != 0 or not known_size or any(overwrites(s, pointer, turns, memory) for s in body if is_work(s)):
                return None
            found[pointer] = source
    return None if any(source in found for source in found.values()) else found


def is_read_first(pointer: Buffer, body: Sequence[Any]) -> bool:
    """Whether an iteration may read what was at a pointer before it has filled it."""
    for step in body:
        if isinstance(step, Point) or pointer not in all_uses(step):
            continue
        if isinstance(step, KernelStep):
            reads, _ = step.memory
            strides = [o.strides for o, (b, _) in zip(step.kernel.operands, step.starts, strict=True) if b is pointer]
            filled = [product([n for n, s in zip(step.sizes, found, strict=True) if s != 0]) for found in strides]
            return pointer in reads or filled != [pointer.size]
        if isinstance(step, GemmStep):
            reads, _ = step.memory
            results = product((step.m, step.n, *[axis[0] for axis in step.batch]))
            return pointer in reads or step.accumulate or results != pointer.size
        return True
    return False
