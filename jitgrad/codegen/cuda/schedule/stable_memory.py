"""Tensors that pointers lead to, copied to memory of which the host knows where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jitgrad import dtypes
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.codegen.program.step import Buffer
from jitgrad.codegen.program.steps import KernelStep, Point
from jitgrad.dims import Symbol, dim

_SIZE = dim(Symbol())


def copying(d: dtypes.dtype) -> Kernel:
    """A kernel that copies."""
    operands = (Operand(d, (1,)), Operand(d, (1,), "out"))
    return Kernel((_SIZE,), (), operands, (), (Stmt("load", operand=0), Stmt("store", (0,), operand=1)), "copy")


def copies(pairs: Iterable[tuple[Buffer, Buffer]]) -> list[KernelStep]:
    """Copies from each source to its place, all of what is there. No source is a place: the memory of a carried tensor
    is its own (`lower/rules/control.py`).
    """
    return [KernelStep(copying(place.dtype), (place.size,), ((source, 0), (place, 0)), (), ())
            for source, place in pairs]


def pointing(stable: Mapping[Buffer, Buffer]) -> Point:
    """Let pointers lead to their stable memory."""
    return Point(tuple([(pointer, place, 0) for pointer, place in stable.items()]))


def stable_buffers(pointers: Iterable[Buffer]) -> dict[Buffer, Buffer]:
    """Memory for what each pointer leads to, shared with nobody, to which the pointer may lead from now on."""
    stable = {pointer: Buffer(pointer.dtype, pointer.size, "slot", keeps=True) for pointer in pointers}
    for pointer, place in stable.items():
        pointer.aliases.add(place)
    return stable
