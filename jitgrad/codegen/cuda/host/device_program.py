"""The host's part of a program for a device: the CPU's native function, but kernels are launched, products asked for.

What stands behind a step is one call of a C function whose address the driver gives (`driver.py`); sizes, numbers,
branches and loops are computed as on the CPU. Nothing here reads the device's memory but `read_scalar`, which waits for
it.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from jitgrad.codegen.cuda.driver import blaslt
from jitgrad.codegen.cuda.host.device_regions import as_word, resident_step
from jitgrad.codegen.cuda.host.printer import DevicePrinter, poison_memory
from jitgrad.codegen.cuda.kernels import each
from jitgrad.codegen.cuda.kernels.tiled import attention, convolution
from jitgrad.codegen.llvm.scalars import STORED, widen
from jitgrad.codegen.llvm.steps import kernel_arguments, load_scalar
from jitgrad.codegen.program.device_steps import Barrier, EachPut, EachStep, PoisonStep, ResidentStep
from jitgrad.codegen.program.layout import Word
from jitgrad.codegen.program.steps import AttentionStep, ConvolutionStep, GemmStep, KernelStep, LoadScalar
from jitgrad.kernels.values import V


def launch(p: DevicePrinter, step: KernelStep) -> None:
    """Store the arguments, launch."""
    table, scratch = p.module.forms(step.kernel)
    arguments = kernel_arguments(p, step)
    if scratch:
        p.scratch = max(p.scratch, scratch)
        arguments.append(("ptr", p.load_word(Word.SCRATCH, "ptr").name))
    n = len(step.kernel.outer)
    rows = columns = p.product(step.sizes[:n])
    if step.kernel.inner:
        columns = p.product(step.sizes[n:])
    if any(s.op == "column" for s in step.kernel.body):  # sums of no rows are zero
        rows = p.here(rows).intrinsic("smax", 1)
    _call(p, table, arguments, rows, columns)


def _call(p: DevicePrinter, table: str, arguments: list[tuple[str, str]], rows: V, columns: V) -> None:
    p.arguments = max(p.arguments, len(arguments))
    for k, (type_, name) in enumerate(arguments):
        p.line(f"store {type_} {name}, ptr %argument.{k}")
    p.line(f"call void @jg_launch(ptr %block, ptr @{table}, i64 {rows.name}, i64 {columns.name}, ptr %arguments)")


def attend(p: DevicePrinter, step: AttentionStep) -> None:
    """A block for some rows of a head."""
    heads = (*step.reads, *step.makes)
    sizes = [p.size(s) for s in step.sizes]
    arguments = [("ptr", p.address(r.buffer, r.offset)) for r in (*heads, *step.given, *step.counted, *step.mask)]
    arguments += [("i64", v.name) for v in sizes]
    arguments += [("i64", p.size(r.strides[axis]).name) for r in heads for axis in (0, 2, 1)]
    arguments += [("i64", p.size(0 if size == 1 else stride).name) for r in step.mask
                  for size, stride in zip(r.dims, r.strides, strict=True)]
    scale = 1.0 / math.sqrt(step.width) if step.scale is None else step.scale
    arguments.append(("float", p.code.const(scale, "float", 1).name))
    batches, count, n_q, n_k = sizes
    rows = attention.shape(step.kind, step.width).rows
    parts = ((n_k if step.kind == "dkv" else n_q) + (rows - 1)).op("sdiv", p.const(rows))
    _call(p, p.module.attention(step), arguments, batches * count * parts, p.const(1))


def convolve(p: DevicePrinter, step: ConvolutionStep) -> None:
    """A block for some outputs of a group, at some places or at some rows of columns of a part of the places."""
    words = [p.size(s) for s in step.words]
    arguments = [*[("ptr", p.address(r.buffer, r.offset)) for r in step.places], *[("i64", v.name) for v in words]]
    by_places = step.role == "y"
    columns = p.product((step.y.dims[0], *step.y.dims[2:]) if by_places else step.w.dims[2:])
    sizes = (words[3], convolution.rows_for(step.words[3])), (columns, convolution.ACROSS[step.role])
    down, across = ((n + (of - 1)).op("sdiv", p.const(of)) for n, of in sizes)
    blocks = across * words[1] * down
    _call(p, p.module.convolution(step), arguments, blocks if by_places else blocks * words[-1], p.const(1))


def put(p: DevicePrinter, step: EachPut) -> None:
    """An entry of a table: first chunk, size, addresses, numbers."""
    of = step.each
    batch = p.batch(of)
    words: list[V | str] = []
    numbers: list[V] = []
    for value, d, same in zip(step.scalars, of.kernel.scalars, of.shared, strict=True):
        (numbers if same else words).append(as_word(p.as_dtype(value, d)))
    chunks = batch.word(p, 1)
    first = p.code.read("i64", chunks)
    size = p.size(step.size)
    words = [first, size, *[p.address(*place) for place in step.starts], *words]
    start = 2 + batch.shared + step.number * batch.width
    for k, word in [*enumerate(numbers, 2), *enumerate(words, start)]:
        text = f"{word.type} {word.name}" if isinstance(word, V) else f"ptr {word}"
        p.line(f"store {text}, ptr {batch.word(p, k)}")
    own = (p.here(size) + (each.CHUNK - 1)).ashr(each.CHUNK_BITS)
    after = first + (own.intrinsic("smax", 1) if of.kernel.inner else own)
    p.line(f"store i64 {after.name}, ptr {chunks}")
    p.line(f"store i64 {step.number + 1}, ptr {batch.word(p, 0)}")


def as_integer(p: DevicePrinter, address: str) -> V:
    return p.code.emit(f"ptrtoint ptr {address} to i64", "i64", 1)


def poison(p: DevicePrinter, step: PoisonStep) -> None:
    """Fill a buffer, or all of the workspace, with NaNs."""
    if step.buffer is None:
        poison_memory(p, p.load_word(Word.WORKSPACE, "ptr").name, p.load_word(Word.CAPACITY))
    else:
        poison_memory(p, p.address(step.buffer, 0), p.size(step.buffer.size * step.buffer.dtype.itemsize))


def product(p: DevicePrinter, step: GemmStep) -> None:
    """One call for the innermost batch axis, inside loops over the others; nothing for empty results."""
    m, n, k, *leading = (p.size(s) for s in (step.m, step.n, step.k, step.lda, step.ldb, step.ldc))
    starts = [p.address(*place) for place in (step.a, step.b, step.c)]
    extra = [place and as_integer(p, p.address(*place)) for place in (step.bias, step.aux)]
    batch = [tuple([p.size(s) for s in axis]) for axis in step.batch]
    full = m > 0 if step.epilogue == "bgradb" else n > 0
    if "grad" not in step.epilogue:  # an empty sum is zeros
        full = (m > 0) & (n > 0)
    code = getattr(blaslt, step.epilogue.upper()) if step.epilogue else 0
    columns = (m if step.trans_a else k, k if step.trans_b else n, n)
    with p.code.when(full):
        leading = [v.intrinsic("smax", c).intrinsic("smax", 1) for v, c in zip(leading, columns, strict=True)]
        strided = batch.pop() if batch else (p.const(1), p.const(0), p.const(0), p.const(0))

        def call(a: str, b: str, c: str) -> None:
            places = [as_integer(p, x) for x in (a, b, c)]
            flags = blaslt.DTYPES.index(step.dtype), step.trans_a, step.trans_b, step.accumulate
            words: list[int | V] = [*flags, m, n, k, *leading, *places, *strided, code, *[x or 0 for x in extra]]
            p.products = True
            for position, word in enumerate(words):
                value: object = word.name if isinstance(word, V) else int(word)
                p.line(f"store i64 {value}, ptr %described.{position}")
            p.line("call void @jg_product(ptr %block, ptr %product)")

        _batched(p, STORED[step.dtype.name], batch, starts, call)


def _batched(p: DevicePrinter, elem: str, batch: list[tuple[V, ...]], starts: list[str], call: Any) -> None:
    """Loops over the batch axes, each (size, strides), around the call."""
    if not batch:
        call(*starts)
        return
    (count, *strides), *inner = batch
    with p.code.each(count) as i:
        moved = [p.code.element(start, (i * stride).name, elem) for start, stride in zip(starts, strides, strict=True)]
        _batched(p, elem, inner, moved, call)


def read_scalar(p: DevicePrinter, step: LoadScalar) -> None:
    """Wait for the stream, and bring one element to a register; from the host's memory without waiting."""
    if step.buffer.host:
        load_scalar(p, step)
        return
    p.read = p.read or p.variable("i64")
    p.read_device(p.read, p.address(step.buffer, step.offset), step.buffer.dtype.itemsize)
    p.define(step.value, widen(p.code.read(STORED[step.buffer.dtype.name], p.read), step.buffer.dtype))


class DeviceProgramPrinter(DevicePrinter):
    """Prints one program's host function."""

    PRINT: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **DevicePrinter.PRINT, KernelStep: launch, GemmStep: product, LoadScalar: read_scalar, EachPut: put,
        EachStep: lambda p, s: p.batch(s).launch(p), PoisonStep: poison, ResidentStep: resident_step,
        AttentionStep: attend, ConvolutionStep: convolve, Barrier: lambda p, s: None}
