"""A program's steps as instructions: class of step -> function that prints it.

Kernels, single scalars, moves of pointers and numbers, branches, loops, calls of Python. Products (`products.py`),
number nodes (`numbers.py`) and sequences (`sequences.py`) are modules of their own.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jitgrad.codegen.llvm import chunks
from jitgrad.codegen.llvm.conversions import part_types
from jitgrad.codegen.llvm.printer import Printer
from jitgrad.codegen.llvm.products import attention_step, convolution_step, gemm_step
from jitgrad.codegen.llvm.scalars import COMPUTED, EMIT, STORED, narrow, widen
from jitgrad.codegen.lower.kernels import constant
from jitgrad.codegen.program.layout import Status, Word
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import (Allocate, Assign, AttentionStep, CallStep, CommitSlot, ConvolutionStep,
                                           GemmStep, IfStep, KernelStep, LoadScalar, LoopStep, Point, ScalarStep,
                                           StoreScalar)
from jitgrad.dtypes import float32
from jitgrad.kernels.values import V
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import FLOAT, NUMBER, TensorType

#: cycles between two looks at pending signals (about 50 ms)
POLL_CYCLES = 100_000_000


def kernel_step(p: Printer, step: KernelStep) -> None:
    """The call; by whoever shares the kernel among threads where it is much work."""
    known = p.module.kernel(step)
    arguments = memory_arguments(p, step)
    for value, d in zip(step.scalars, step.kernel.scalars, strict=True):
        number = p.one(value) if d is float32 and value.type == FLOAT else p.as_dtype(value, d)  # the kernel rounds
        arguments.append(("i64", number.word().name))
    much = chunks.much(step.kernel, [p.size(s) for s in step.sizes]) if known.shared else None
    chunks.call(p.code, known, arguments, much)


def memory_arguments(p: Printer, step: KernelStep) -> list[tuple[str, str]]:
    """Types and registers of the first arguments of a kernel (`llvm_kernel.parameters`): sizes, addresses, strides."""
    arguments = [("i64", p.size(s).name) for s in step.sizes]
    arguments += [("ptr", p.address(b, o)) for b, o in step.starts]
    return [*arguments, *[("i64", p.size(s).name) for s in step.strides]]


def kernel_arguments(p: Printer, step: KernelStep) -> list[tuple[str, str]]:
    """Types and registers of the arguments of a kernel, scalars as what they are."""
    arguments = memory_arguments(p, step)
    for value, d in zip(step.scalars, step.kernel.scalars, strict=True):
        v = p.as_dtype(value, d)
        arguments.append((v.type, v.name))
    return arguments


def scalar_step(p: Printer, step: ScalarStep) -> None:
    node = step.node
    out = node.outputs[0]
    assert isinstance(out.type, TensorType)
    d = out.type.dtype
    if node.op == "full":
        p.define(out, p.code.const(constant(node.attrs["value"], d), COMPUTED[d.name], 1))
        return
    if node.op == "fill":
        p.define(out, p.as_dtype(step.args[0], d))
        return
    args = [p.one(v) for v in step.args]
    source = step.args[1] if node.op == "where" else step.args[0]
    assert isinstance(source.type, TensorType)
    value = EMIT[node.op](args, source.type.dtype, d, node.attrs.get("n", 0))
    p.define(out, widen(narrow(value, d), d) if d.is_half and not has_trait(node.op, "exact") else value)


def load_scalar(p: Printer, step: LoadScalar) -> None:
    d = step.buffer.dtype
    p.define(step.value, widen(p.code.read(STORED[d.name], p.address(step.buffer, step.offset)), d))


def store_scalar(p: Printer, step: StoreScalar) -> None:
    d = step.buffer.dtype
    value = narrow(p.one(step.value), d)
    p.code.write(value, p.address(step.buffer, step.offset))


def allocate(p: Printer, step: Allocate) -> None:
    buffer = step.buffer
    bytes_ = p.size(buffer.size) * buffer.dtype.itemsize
    p.leave_unless(p.reserve(p.layout.growable[p.slot_of[buffer]], bytes_, p.code), Status.NO_MEMORY)


def point(p: Printer, step: Point) -> None:
    found = [(p.pointer_variable(t), p.address(b, o)) for t, b, o in step.targets]
    for variable, address in found:
        p.line(f"store ptr {address}, ptr {variable}")


def assign(p: Printer, step: Assign) -> None:
    stores: list[tuple[str, V]] = []
    for target, source in step.values:
        parts = p.as_type(source, target.type)
        stores += list(zip(p.value_variables(target), parts, strict=True))
    for symbol, size in step.sizes:
        stores.append((p.size_variable(symbol), p.size(size)))
    for name, v in stores:
        p.code.write(v, name)


def if_step(p: Printer, step: IfStep) -> None:
    with p.code.part() as done:
        with p.code.when(p.one(step.condition)):
            p.steps(step.then)
            done()
        p.steps(step.otherwise)


def loop_step(p: Printer, step: LoopStep) -> None:
    with p.repeated(step.body), p.code.loop() as stop:
        with p.code.unless(p.one(step.condition)):
            stop()
        kept = p.mark_arena() if step.frees else None
        p.steps(step.body)
        if step.frees:
            p.release_arena(kept)
        poll(p)


def poll(p: Printer) -> None:
    """Every 50 ms or so, let Python handle its signals."""
    if not p.clock:
        p.clock = p.variable("i64")
        p.entry.write(p.entry.call("llvm.readcyclecounter", "i64", 1), p.clock)
    now = p.code.call("llvm.readcyclecounter", "i64", 1)
    with p.code.when((now - p.code.read("i64", p.clock)).compare("ugt", POLL_CYCLES)):
        p.code.write(now, p.clock)
        p.leave_unless(p.code.call("jg_poll", "i1", 1, p.pointer("%block")), Status.RAISED)


def call_step(p: Printer, step: CallStep) -> None:
    if step.kind != "check":
        p.pass_values(step.values)
        p.call_python(step.site)
        for value in step.results:
            (kind,) = part_types(value.type)
            p.define(value, p.load_word(p.layout.payload, kind))
        return
    assert step.condition is not None
    with p.code.unless(p.one(step.condition)):
        p.steps(step.before)
        p.pass_values(step.values)
        p.store_word(Word.SITE, p.const(step.site))
        p.leave(Status.FAILED, step.leaving)


def commit_slot(p: Printer, step: CommitSlot) -> None:
    """A word that says so, and the value; a number with its kind, which may not be the same at every commit."""
    number = step.parts[0] if len(step.parts) == 1 and not isinstance(step.parts[0], Ref) else None
    at = p.layout.commits.get(step.target)
    if at is None:
        count = 2 if number is not None else sum(
            1 + len(v.dims) if isinstance(v, Ref) else len(part_types(v.type)) for v in step.parts)
        at = p.layout.commits[step.target] = p.layout.take(1 + count)
    p.store_word(at, p.const(1))
    if number is None:
        p.pass_values(step.parts, at + 1, strides=False)
        return
    for offset, part in enumerate(p.as_type(number, NUMBER)):
        p.store_word(at + 1 + offset, part)


PRINT: Mapping[type, Callable[[Any, Any], None]] = {
    KernelStep: kernel_step, GemmStep: gemm_step, ConvolutionStep: convolution_step,
    AttentionStep: attention_step, ScalarStep: scalar_step,
    LoadScalar: load_scalar, StoreScalar: store_scalar, Allocate: allocate, Point: point, Assign: assign,
    IfStep: if_step, LoopStep: loop_step, CallStep: call_step, CommitSlot: commit_slot,
}
