"""Dead memory is filled with NaNs (`JITGRAD_DEBUG_ARENA=1`), so that a program that reads it shows.

The whole workspace is filled when a call begins, and each buffer when its live range does
(`codegen/program/buffers.py`; a growable one wherever room is made for it). A range that is too short, or an element
that nobody has written, is a NaN in the results, or -1 where they are integers.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.program.buffers import beginnings
from jitgrad.codegen.program.device_steps import PoisonStep
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.step import Buffer, with_inner
from jitgrad.codegen.program.steps import Allocate

#: fills bytes
POISON = Kernel((1,), (), (Operand(dtypes.uint8, (1,), "out"),), (), (
    Stmt("const", value=255, dtype=dtypes.uint8), Stmt("store", (0,), operand=0)), "poison")


def poisoned(program: Program) -> Program:
    """The program with what fills dead memory."""
    places: dict[Any, list[Buffer]] = {}
    for buffer, step in beginnings(program).items():
        if buffer.kind == "slot" and not buffer.keeps:  # read in the iteration after the one that wrote it
            places.setdefault(step, []).append(buffer)
    origins = dict(program.origins)

    def steps(given: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for step in given:
            found += [PoisonStep(b) for b in places.get(step, ())]
            found.append(with_inner(step, steps, origins))
            if isinstance(step, Allocate) and not step.buffer.keeps:
                found.append(PoisonStep(step.buffer))
        return found

    return replace(program, steps=[PoisonStep(None), *steps(program.steps)], origins=origins)
