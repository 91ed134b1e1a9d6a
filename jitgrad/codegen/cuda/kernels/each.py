"""One pointwise kernel over many tuples of operands of different sizes, in one launch: the update of all parameters.

    each_source(kernel, "adam_3", shared, 32)   # extern "C" __global__ void jg_each_adam_3(table, tensors, chunks, ...)
    each_form("adam_3")                         # launched with outer = chunks, inner = 1

The kernel has one axis, along which each operand has stride 1 or 0 (`fits`). Its parameters are the table itself, by
value, the number of its entries, that of all chunks, then those of the kernel's scalars that are the same for all
(`shared`). An entry is words of 64 bits: the number of its first chunk, the size, the addresses, then its own scalars
(`width` words in all). A chunk is `CHUNK` elements of one entry, what a block does at a time.

Or it has one axis that it reduces (`EachReducing`: the squares of all gradients, for their norm): then an entry has at
least one chunk, and scratch memory comes last. Chunks of all entries stand in one row, of which each block takes an
equal part: it may begin in one entry and end in another. What a block has of an entry is a part; the parts of an entry
are joined by the block that comes last, in the order of the blocks. Block b and entry e share part number b + e, which
no others do.
"""

import re
from collections.abc import Sequence

from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.kernels.pointwise import MOST, THREADS
from jitgrad.codegen.cuda.kernels.reducing import SHARING, Reducing
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED, STORED
from jitgrad.codegen.cuda.kernels.writer import Writer
from jitgrad.codegen.program.kernel import RANDOM_WORD, Kernel, Operand
from jitgrad.codegen.program.plan import STORES, make_plan

CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS
#: words of the largest table: a kernel's parameters may take 4096 bytes
MOST_WORDS = 480
#: words that are left for numbers that all entries share
MOST_NUMBERS = 24


def fits(kernel: Kernel) -> bool:
    """Whether a kernel may be launched over many tuples of operands."""
    strides = [s for o in kernel.operands for s in o.strides]
    return (((not kernel.inner and len(kernel.outer) == 1) or is_sum(kernel))
            and all(isinstance(s, int) and s in (0, 1) for s in strides) and len(kernel.scalars) <= MOST_NUMBERS
            and not any(s.by_index or s.op == RANDOM_WORD for s in kernel.body))


def flat(kernel: Kernel) -> Kernel:
    """A kernel without axes as one over an axis of size 1; any other one as it is."""
    if kernel.outer or kernel.inner:
        return kernel
    operands = tuple([Operand(o.dtype, (0,), o.role) for o in kernel.operands])
    return Kernel((1,), (), operands, kernel.scalars, kernel.body, kernel.name)


def width(kernel: Kernel, shared: Sequence[bool]) -> int:
    """Words of an entry."""
    return 2 + len(kernel.operands) + list(shared).count(False)


def each_symbol(name: str) -> str:
    return re.sub(r"\W", "_", f"jg_each_{name}")


def each_form(kernel: Kernel, name: str) -> Form:
    """How to launch `each_source(kernel, name, ...)`: `outer` is the number of chunks."""
    if kernel.inner:
        scratch = EachReducing(kernel, MOST_WORDS).scratch_bytes()
        return Form(ANY, (Launch(each_symbol(name), THREADS, 1, SHARING, scratch=scratch),))
    return Form(ANY, (Launch(each_symbol(name), THREADS, 1, MOST),))


def each_source(kernel: Kernel, name: str, shared: Sequence[bool], entries: int) -> str:
    """The kernel over a table with room for so many entries."""
    assert fits(kernel)
    writer = EachReducing(kernel, MOST_WORDS) if kernel.inner else Writer(kernel, 0)
    words, count, own = width(kernel, shared), len(kernel.operands), [k for k, s in enumerate(shared) if not s]
    assert entries * words <= MOST_WORDS
    named = [*[f"p{k}" for k in range(count)], *[f"c{k}" for k in own]]
    writer.line(f"// an entry: first chunk, size, {', '.join(named)}")
    fixed = [f"const __grid_constant__ jg_table<{entries * words}> table", "i64 tensors", "i64 chunks"]
    if isinstance(writer, EachReducing):
        with writer.block("for (i64 chunk = jg_first(chunks, blockIdx.x), until = jg_first(chunks, blockIdx.x + 1), "
                          "stop; chunk < until; chunk = stop)"):
            writer.line(f"const i64* const entry = jg_entry(table.w, tensors, {words}, chunk);")
            writer.line(f"const i64 number = (entry - table.w) / {words}, n0 = entry[1];")
            writer.line(f"const i64 behind = entry[0] + jg_most(1, jg_parts(n0, {CHUNK}));")
            writer.line("const i64 first = jg_block_of(chunks, entry[0]), last = jg_block_of(chunks, behind - 1);")
            writer.line("stop = until < behind ? until : behind;")
            writer.line(f"const i64 begin = (chunk - entry[0]) * {CHUNK};")
            writer.line(f"const i64 end = stop == behind ? n0 : (stop - entry[0]) * {CHUNK};")
            open_entry(writer, own)
            writer.row()
    else:
        with writer.block("for (i64 chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x)"):
            writer.line(f"const i64* const entry = jg_entry(table.w, tensors, {words}, chunk);")
            writer.line(f"const i64 n0 = entry[1], begin = (chunk - entry[0]) * {CHUNK};")
            writer.line(f"const i64 end = n0 - begin < {CHUNK} ? n0 : begin + {CHUNK};")
            open_entry(writer, own)
            writer.stretch(range(len(kernel.body)), THREADS)
    fixed += writer.numbers([k for k, s in enumerate(shared) if s])
    return writer.function(each_symbol(name), THREADS, bool(kernel.inner), fixed)


def open_entry(writer: Writer, own: Sequence[int]) -> None:
    """The operands and numbers of an entry."""
    operands = writer.kernel.operands
    for k, operand in enumerate(operands):
        kind = f"{'const ' if operand.role == 'in' else ''}{STORED[operand.dtype.name]}"
        writer.line(f"{kind}* const p{k} = jg_global<{kind}>(entry[{k + 2}]);")
    for place, k in enumerate(own, len(operands) + 2):
        kind = COMPUTED[writer.kernel.scalars[k].name]
        writer.line(f"const {kind} c{k} = jg_number<{kind}>::of(entry[{place}]);")
    if writer.width > 1:
        writer.line(f"const bool aligned = {writer.alignment()};")


def is_sum(kernel: Kernel) -> bool:
    """Whether a kernel makes numbers of one contiguous axis, in one sweep."""
    if kernel.outer or len(kernel.inner) != 1 or any(o.role == "inout" for o in kernel.operands):
        return False
    plan = make_plan(kernel, 0)
    return (plan.stages == 1 and any(s.op == "reduce" for s in kernel.body)
            and not any(s.op in STORES and (plan.element[i] or plan.stage[i] < 0) for i, s in enumerate(kernel.body)))


class EachReducing(Reducing):
    """Prints such a kernel: what a block does of one entry, `begin` to `end`, shared by the blocks `first` to `last`.

    `most`: the largest number of an entry, and one.
    """

    joined = "jg_block<{join}>({part})"
    leader = "threadIdx.x == 0"
    from_part, own_part, part_b = " + number", "blockIdx.x", "b"
    over_parts = f"i64 b = first + threadIdx.x; b <= last; b += {THREADS}"
    sharing = "(u32*)scratch + number, (u32)(last - first + 1)"
    several, what_is_shared = "last > first", "parts"

    def __init__(self, kernel: Kernel, most: int):
        super().__init__(kernel, 0, split=True)
        self.most = most

    @property
    def shares(self) -> int:
        return SHARING + self.most

    def loop(self, indices: Sequence[int], stage: int) -> None:
        self.stretch(indices, THREADS)
