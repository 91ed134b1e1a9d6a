"""Tensors that pointers lead to, copied to memory of which the host knows where it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jitgrad import dtypes
from jitgrad.codegen.kernel import Kernel, Operand, Stmt
from jitgrad.codegen.program import Buffer, KernelStep, Point
from jitgrad.dims import Size, Symbol, dim

_SIZE = dim(Symbol())


def copy(source: Buffer, offset: Size, to: Buffer) -> KernelStep:
    """All that is in `to`, from `source`."""
    return KernelStep(copying(to.dtype), (to.size,), ((source, offset), (to, 0)), (), ())


def copying(d: dtypes.dtype) -> Kernel:
    """A kernel that copies."""
    operands = (Operand(d, (1,)), Operand(d, (1,), "out"))
    return Kernel((_SIZE,), (), operands, (), (Stmt("load", operand=0), Stmt("store", (0,), operand=1)), "copy")


def copies(sources: Mapping[Buffer, Buffer], homes: Mapping[Buffer, Buffer]) -> list[KernelStep]:
    """Copies of what is at `sources[pointer]` to the home of each pointer. No source is a home: the memory of a carried
    tensor is its own (`lower_control.py`).
    """
    return [copy(sources[pointer], 0, home) for pointer, home in homes.items()]


def at_home(homes: Mapping[Buffer, Buffer]) -> Point:
    """Let pointers lead to their homes."""
    return Point(tuple([(pointer, home, 0) for pointer, home in homes.items()]))


def new_homes(pointers: Iterable[Buffer]) -> dict[Buffer, Buffer]:
    """Memory for what each pointer leads to, shared with nobody, to which the pointer may lead from now on."""
    homes = {pointer: Buffer(pointer.dtype, pointer.size, "slot", keeps=True) for pointer in pointers}
    for pointer, home in homes.items():
        pointer.aliases.add(home)
    return homes


__all__ = ["at_home", "copies", "new_homes"]
