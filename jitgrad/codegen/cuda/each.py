"""One pointwise kernel over many tuples of operands of different sizes, in one launch: the update of all parameters.

    each_source(kernel, "adam_3")      # extern "C" __global__ void jg_each_adam_3(table, tensors, chunks, numbers...)
    words, chunks = table(sizes, addresses)
    each_form(kernel, "adam_3")        # launched with outer = chunks, inner = 1

The kernel has one axis, along which each operand has stride 1 or 0 (`fits`). Its parameters are the address of the
table in device memory, the number of its entries, that of all chunks, then the kernel's scalars, the same for all.
An entry is 2 + operands words of 64 bits: the number of its first chunk, the size, the addresses. A chunk is `CHUNK`
elements of one entry, what a block does at a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jitgrad.codegen.cuda.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.pointwise import MOST, THREADS
from jitgrad.codegen.cuda.scalars import STORED
from jitgrad.codegen.cuda.writer import Writer
from jitgrad.codegen.kernel import Kernel

CHUNK = 1 << 14


def fits(kernel: Kernel) -> bool:
    """Whether a kernel may be launched over many tuples of operands."""
    strides = [s for o in kernel.operands for s in o.strides]
    return (not kernel.inner and len(kernel.outer) == 1 and all(isinstance(s, int) and s in (0, 1) for s in strides)
            and all(s.op not in ("gather", "scatter", "scatter_add", "random.word") for s in kernel.body))


def table(sizes: Sequence[int], addresses: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """The words of the table for entries of these sizes, and the number of chunks."""
    words: list[int] = []
    chunks = 0
    for size, own in zip(sizes, addresses, strict=True):
        words += [chunks, size, *own]
        chunks += -(-size // CHUNK)
    return words, chunks


def each_symbol(name: str) -> str:
    return re.sub(r"\W", "_", f"jg_each_{name}")


def each_form(kernel: Kernel, name: str) -> Form:
    """How to launch `each_source(kernel, name)`: `outer` is the number of chunks."""
    return Form(ANY, (Launch(each_symbol(name), THREADS, 1, MOST),))


def each_source(kernel: Kernel, name: str) -> str:
    """The kernel over a table of operands."""
    assert fits(kernel)
    writer = Writer(kernel, 0)
    width = writer.width
    writer.line(f"// an entry: first chunk, size, {', '.join(f'p{k}' for k in range(len(kernel.operands)))}")
    with writer.block("for (i64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x)"):
        writer.line(f"const i64* const entry = jg_entry(table, tensors, {2 + len(kernel.operands)}, chunk);")
        writer.line(f"const i64 n0 = entry[1], begin = (chunk - entry[0]) * {CHUNK};")
        writer.line(f"const i64 end = n0 - begin < {CHUNK} ? n0 : begin + {CHUNK};")
        for k, operand in enumerate(kernel.operands):
            kind = f"{'const ' if operand.role == 'in' else ''}{STORED[operand.dtype.name]}"
            writer.line(f"{kind}* const p{k} = jg_global<{kind}>(entry[{k + 2}]);")
        if width > 1:
            writer.line(f"const bool aligned = {writer.alignment()};")
        times = f" * {width}" if width > 1 else ""
        with writer.block(f"for (i64 e = begin + (i64)threadIdx.x{times}; e < end; e += {THREADS * width})"):
            writer.elements(range(len(kernel.body)), 0, "end")
    return writer.function(each_symbol(name), THREADS, fixed=("const i64* table", "i64 tensors", "i64 chunks"))


__all__ = ["CHUNK", "each_form", "each_source", "each_symbol", "fits", "table"]
