"""What steps read and set: values, symbols of sizes, and buffers whose addresses they take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.program.effects import inside
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.program import (
    ArenaAllocate,
    Assign,
    Buffer,
    KernelStep,
    LoadScalar,
    NumberStep,
    Point,
    Recall,
    ScalarStep,
    SeqPlace,
    SeqPut,
)
from jitgrad.dims import Dim, Symbol, symbols
from jitgrad.ops.types import Type
from jitgrad.script.graph.ir import Node, Value

Mention = Value | Symbol | Buffer


def read_by(step: Any) -> Iterator[Mention]:
    """What a step reads, without the lists of steps in it: values, symbols, buffers whose address it takes."""
    if isinstance(step, Assign):
        parts: Iterable[Any] = [*[source for _, source in step.values], *[size for _, size in step.sizes]]
    elif isinstance(step, Point):
        parts = [part for _, *source in step.targets for part in source]
    elif isinstance(step, KernelStep):
        parts = [step.sizes, step.starts, step.strides, step.scalars]
    elif isinstance(step, (NumberStep, ScalarStep)):
        dims = [d for d in step.node.attrs.values() if isinstance(d, Dim)]
        parts = [*step.node.inputs, *dims, getattr(step, "leaving", None)]
    elif isinstance(step, LoadScalar):
        parts = [step.buffer, step.offset]
    elif isinstance(step, (SeqPlace, SeqPut)):
        parts = [step.seq, step.k, getattr(step, "what", None)]
    elif isinstance(step, ArenaAllocate):
        parts = [step.size]
    elif isinstance(step, Recall):
        parts = [step.state]
    else:
        parts = [getattr(step, name) for name in step.__slots__ if name not in ("then", "otherwise", "body", "steps")]
    yield from mentions(parts)


def mentions(part: Any) -> Iterator[Mention]:
    """What is named in a part of a step, an output, a size."""
    if isinstance(part, (Value, Buffer)):
        yield part
    elif isinstance(part, Dim):
        yield from symbols(part)
    elif isinstance(part, Node):
        yield from part.inputs
    elif isinstance(part, (tuple, list)):
        for p in part:
            yield from mentions(p)
    elif hasattr(part, "__slots__") and not isinstance(part, (Kernel, Type, dtypes.dtype, Symbol)):
        for name in part.__slots__:
            yield from mentions(getattr(part, name))


def set_by(step: Any) -> list[Mention]:
    """What a step sets, without the lists of steps in it."""
    if isinstance(step, Assign):
        return [*[target for target, _ in step.values], *[symbol for symbol, _ in step.sizes]]
    if isinstance(step, Point):
        return [target for target, _, _ in step.targets]
    if isinstance(step, (ArenaAllocate, SeqPlace)):
        return [step.target]
    if isinstance(step, (LoadScalar, Recall)):
        return [step.value]
    if isinstance(step, (NumberStep, ScalarStep)):
        bound = [step.node.attrs["symbol"]] if step.node.op == "dim.bind" else []
        return [*step.node.outputs, *bound]
    return []


def every(steps: Iterable[Any]) -> Iterator[Any]:
    """All steps, those inside of others too."""
    for step in steps:
        yield step
        for inner in inside(step):
            yield from every(inner)


__all__ = ["Mention", "every", "mentions", "read_by", "set_by"]
