"""Results of a region's reductions that every thread has: the condition of a loop, say, is not read from memory.

    for read, (step, operand) in known_everywhere(steps).items(): ...

A reduction of all elements (no outer axes, one stage) has a barrier of the grid inside, instead of the ticket by which
a last block is found: each block leaves its part, all meet, and each block joins all parts, in their order. What is
computed of the results is computed by all threads, alike; one stores it. Where a number is then read of what was
stored, with nothing but numbers in between, every thread has it already: one barrier an iteration instead of two, and
nobody waits for a last block, or for memory. Parts have two places, in turn: who is late still reads the other one.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.reducing import SHARING
from jitgrad.codegen.cuda.kernels.rows import Rows
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED, convert, narrow, widen
from jitgrad.codegen.program.device_steps import Barrier
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.step import every
from jitgrad.codegen.program.steps import Assign, KernelStep, LoadScalar, NumberStep, Point, ScalarStep

NOTHING: Mapping[int, str] = MappingProxyType({})
#: a read of a number, and the kernel and operand that it is the result of
Known = dict[LoadScalar, tuple[KernelStep, int]]


class Everywhere(Rows):
    """The kind `all` in a region. `told`: the variable that a result is put into besides, by operand; `begin`: where
    parts begin in the scratch memory; `meet`: the statement by which all blocks meet.
    """

    def __init__(self, kernel: Kernel, threads: int, begin: int = 0, told: Mapping[int, str] = NOTHING, meet: str = ""):
        super().__init__(kernel, "split")
        self.threads, self.restrict = threads, ""
        self.parts_begin, self.told, self.meet = begin, told, meet

    def part_bytes(self) -> int:
        """Of one place of the parts."""
        return SHARING * sum(self.slot_bytes(i) for i in self.reductions)

    def ended(self, ending: Sequence[int], after: Sequence[int]) -> None:
        at = self.parts_begin
        for i in ending:
            kind = f"jg_slot<{self.accumulator(i)}>*"
            self.line(f"{kind} const parts{i} = ({kind})(scratch + {at} + turn * {self.part_bytes()});")
            at += SHARING * self.slot_bytes(i)
        self.line("turn ^= 1;")
        with self.block("if (threadIdx.x == 0)"):
            for i in ending:
                self.line(f"parts{i}[blockIdx.y].value = r{i};")
        self.line(self.meet)
        for i in ending:
            self.line(f"r{i} = {self.identity(i)};")
        with self.block("for (u32 b = threadIdx.x; b < gridDim.y; b += blockDim.x)"):
            for i in ending:
                self.line(f"r{i} = {self.join(i)}::of(r{i}, jg_fresh(parts{i} + b));")
        self.join_threads(ending)
        for i in ending:
            self.result(i)
        self.at_row(after, shared=True)
        for operand, name in self.told.items():
            self.line(f"{name} = {self.stored(operand)};")

    def stored(self, operand: int) -> str:
        """What memory then holds."""
        (stmt,) = (s for s in self.kernel.body if s.op == "store" and s.operand == operand)
        d, source = self.kernel.operands[operand].dtype, self.kernel.dtype_of(stmt.args[0])
        value = f"v{stmt.args[0]}"
        if not d.is_half or COMPUTED[source.name] != "float":
            value = convert(value, source, d)
        return widen(narrow(value, d), d)


def is_total(kernel: Kernel) -> bool:
    """Whether a kernel can be done that way."""
    if kernel.outer or not kernel.inner or lane_of(kernel) < 0:
        return False
    if any(s.op in ("column", "scatter_add") for s in kernel.body) or any(
            o.role == "inout" and not any(o.strides) for o in kernel.operands):
        return False
    plan = Rows(kernel, "split").plan
    return plan.stages == 1 and any(s.op == "reduce" for s in kernel.body)


def known_everywhere(steps: Iterable[Any]) -> Known:
    """The reads of numbers that need none: each follows the kernel that made it, in the same list of steps."""
    found: Known = {}
    for block in blocks(steps):
        kernel: KernelStep | None = None
        for step in block:
            if isinstance(step, KernelStep):
                kernel = step if is_total(step.kernel) else None
            elif isinstance(step, LoadScalar) and kernel is not None:
                operand = result_at(kernel, step)
                if operand >= 0:
                    found[step] = kernel, operand
            elif not isinstance(step, (NumberStep, ScalarStep, LoadScalar, Point, Assign, Barrier)):
                kernel = None
    return found


def blocks(steps: Iterable[Any]) -> list[list[Any]]:
    """Lists of steps: these, and those inside them."""
    own = list(steps)
    return [own, *[list(block) for step in every(own) for block in step.blocks]]


def result_at(step: KernelStep, read: LoadScalar) -> int:
    """The operand of a kernel that is stored where a number is read, -1: none, or it may be another's."""
    if read.buffer.kind == "pointer" or any(
            b.kind == "pointer" for o, (b, _) in zip(step.kernel.operands, step.starts, strict=True)
            if o.role != "in" and not any(o.strides)):
        return -1
    places = [k for k, (o, start) in enumerate(zip(step.kernel.operands, step.starts, strict=True))
              if o.role == "out" and start == (read.buffer, read.offset)]
    plain = len(places) == 1 and sum(s.operand == places[0] for s in step.kernel.body) == 1
    return places[0] if plain and not any(step.kernel.operands[places[0]].strides) else -1
