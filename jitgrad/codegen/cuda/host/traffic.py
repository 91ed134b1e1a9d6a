"""What a device program moves: per step how many launches, and which bytes they read from memory and write to it.

    program = prepared("forward", graph)
    for moved in traffic(program, sizes):           # sizes: the values of the symbols of the program's inputs
        moved.name, moved.launches, moved.read, moved.written

An operand counts as often as the kernel reads it: a row that waits in registers or shared memory is read once, one that
later stages read again counts for each of them. What a kernel reads for every row alike (a bias) counts once: it is in
a cache. So do the elements of a table that are read by index, one for each reading.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.codegen.cuda.host.device_regions import MOST_WORK
from jitgrad.codegen.cuda.kernels import geometry, text
from jitgrad.codegen.cuda.kernels.columns import Columns
from jitgrad.codegen.cuda.kernels.each import each_symbol
from jitgrad.codegen.cuda.kernels.reducing import Reducing
from jitgrad.codegen.cuda.kernels.rows import Rows
from jitgrad.codegen.cuda.schedule import launches
from jitgrad.codegen.cuda.schedule.regions import region_name
from jitgrad.codegen.lower.column_sums import PARTS
from jitgrad.codegen.lower.rules.products import mask_bytes
from jitgrad.codegen.program.device_steps import EachStep, ResidentStep
from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.plan import STORES, is_reloaded, needed
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.step import every
from jitgrad.codegen.program.steps import (AttentionStep, CallStep, ConvolutionStep, GemmStep, IfStep, KernelStep,
                                           LoadScalar, LoopStep)
from jitgrad.dims import Size, Symbol, evaluate, product
from jitgrad.script.graph.ir import Node


@dataclass(frozen=True, slots=True)
class Moved:
    """What one step does. Bytes are None where a size is known only while the program runs.

    Attributes:
        kind: "kernel", "product", "library" (a row that Python runs), or "wait": the host reads one element.
        name: the function that is launched, or the op.
        nodes: what it computes.
        launches: of kernels, or calls of a library; 0 for a wait.
        inside: "if", "else" and "loop" around it, from the outermost: a step of a loop is counted once. A kernel that
            is a loop itself counts as one that is inside.
    """

    kind: str
    name: str
    nodes: tuple[Node, ...] = field(repr=False)
    launches: int
    read: int | None
    written: int | None
    inside: tuple[str, ...] = ()


def traffic(program: Program, sizes: Mapping[Symbol, int]) -> list[Moved]:
    """The steps of a program for these sizes, in order."""
    return list(_Traffic(program, sizes).steps(program.steps, ()))


class _Traffic:
    def __init__(self, program: Program, sizes: Mapping[Symbol, int]):
        self.program, self.sizes = program, sizes

    def value(self, size: Size) -> int | None:
        """A size as a number; None where it is known only while the program runs."""
        try:
            return evaluate(size, self.sizes)
        except KeyError:
            return None

    def steps(self, steps: Iterable[Any], inside: tuple[str, ...]) -> Iterator[Moved]:
        for step in steps:
            nodes = self.program.origins.get(step, ())
            if isinstance(step, KernelStep):
                yield Moved("kernel", *self.kernel(step, nodes), inside)
            elif isinstance(step, EachStep):
                found = [_pointwise(step.kernel, (self.value(size),)) for size, _ in step.parts]
                yield Moved("kernel", each_symbol(step.kernel.name), nodes, 1, *_added(found), inside)
            elif isinstance(step, AttentionStep):
                yield Moved("kernel", step.name, nodes, 1, *self.sums(step.traffic), inside)
            elif isinstance(step, ConvolutionStep):
                if self.value(step.sizes[0]) != 0:  # else its images have columns
                    yield Moved("kernel", step.name, nodes, 1, *self.sums(step.traffic), inside)
            elif isinstance(step, GemmStep):
                yield self.product(step, nodes, inside)
            elif isinstance(step, LoadScalar) and not step.buffer.host:
                yield Moved("wait", "read", nodes, 0, step.buffer.dtype.itemsize, 0, inside)
            elif isinstance(step, CallStep) and step.kind == "library":
                node = self.program.sites[step.site].node
                yield Moved("library", node.op, nodes, 1, *self.sums(step.traffic(node)), inside)
            elif isinstance(step, ResidentStep):
                yield from self.region(step, nodes, inside)
            elif isinstance(step, IfStep):
                yield from self.steps(step.then, (*inside, "if"))
                yield from self.steps(step.otherwise, (*inside, "else"))
            elif isinstance(step, LoopStep):
                yield from self.steps(step.body, (*inside, "loop"))

    def kernel(self, step: KernelStep, nodes: tuple[Node, ...]
               ) -> tuple[str, tuple[Node, ...], int, int | None, int | None]:
        kernel = step.kernel
        name = text.symbol_of(kernel, kernel.name)
        space = tuple([self.value(s) for s in step.sizes])
        if not kernel.inner:
            return name, nodes, 1, *_pointwise(kernel, space)
        known = [n for n in space if n is not None]
        if len(known) < len(space):
            return name, nodes, 1, None, None
        outer, inner = math.prod(known[:len(kernel.outer)]), math.prod(known[len(kernel.outer):])
        suffix, writers = next((found[0][0], [w for _, w in found]) for found in text.writers(kernel)
                               if inner <= found[0][1].longest and outer <= found[0][1].most_rows)
        read, written = _added(_reducing(writer, known, outer, inner) for writer in writers)
        return name + suffix, nodes, len(writers) if outer else 0, read, written

    def region(self, step: ResidentStep, nodes: tuple[Node, ...], inside: tuple[str, ...]) -> Iterator[Moved]:
        """One launch, with the bytes of all in it once; a wait where something of it is read back. Its other steps,
        where a product is too large for a kernel.
        """
        work = [self.value(product(p.sizes)) for p in every(step.steps) if isinstance(p, GemmStep)]
        if any(w is not None and w > MOST_WORK for w in work):
            yield from self.steps(step.steps, inside)
            return
        read, written = _added((m.read, m.written) for m in self.steps(step.steps, inside))
        yield Moved("kernel", launches.symbol_of(region_name(step)), nodes, 1, read, written, (*inside, "loop"))
        if step.exits:
            yield Moved("wait", "read", nodes, 0, 8 * len(step.exits), 0, inside)

    def product(self, step: GemmStep, nodes: tuple[Node, ...], inside: tuple[str, ...]) -> Moved:
        width, (reads, writes) = step.dtype.itemsize, step.traffic
        if step.bias is not None:
            bias = width * (step.m if step.epilogue == "bgradb" else step.n)
            (writes if "grad" in step.epilogue else reads).append(bias)
        if step.aux is not None:
            kept = product((width, step.m, step.n)) if "gelu" in step.epilogue else step.m * mask_bytes(step.n)
            (writes if "aux" in step.epilogue else reads).append(kept)
        calls = self.value(product([size for size, *_ in step.batch[:-1]]))  # the driver takes the last batch axis
        return Moved("product", step.name, nodes, 1 if calls is None else calls, *self.sums((reads, writes)), inside)

    def sums(self, parts: tuple[list[Size], list[Size]]) -> tuple[int | None, int | None]:
        """Bytes read and written in all."""
        read, written = (_sum(map(self.value, part)) for part in parts)
        return read, written


def _added(found: Iterable[tuple[int | None, int | None]]) -> tuple[int | None, int | None]:
    """Bytes read and written in all; None where one is not known."""
    read, written = list(zip(*found, strict=True)) or ((), ())
    return _sum(read), _sum(written)


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = [*numbers]
    return None if None in found else sum(filter(None, found))


# --- kernels ---


def _pointwise(kernel: Kernel, space: Sequence[int | None]) -> tuple[int | None, int | None]:
    """Each element of an operand is read once and written once."""
    read: list[int | None] = []
    written: list[int | None] = []
    for k in range(len(kernel.operands)):
        size = _window(kernel, k, space)
        uses = {s.op for s in kernel.body if s.operand == k}
        if uses - {"store", "scatter"}:
            read.append(size)
        if uses & STORES:
            written.append(size)
    return _sum(read), _sum(written)


def _window(kernel: Kernel, k: int, space: Sequence[int | None]) -> int | None:
    """The bytes that one reading of an operand touches."""
    operand = kernel.operands[k]
    by_index = any(s.operand == k and s.by_index for s in kernel.body)
    total = operand.dtype.itemsize
    for size, stride in zip(space, operand.strides, strict=True):
        if stride != 0 or by_index:
            if size is None:
                return None
            total *= size
    return total


def _reducing(writer: Reducing, space: Sequence[int], outer: int, inner: int) -> tuple[int, int]:
    """Bytes of one launch of a kernel with inner axes, stage by stage."""
    kernel, plan, n_outer = writer.kernel, writer.plan, len(writer.kernel.outer)
    read = written = 0
    stages = range(plan.stages) if writer.phase < 0 else (writer.phase,)
    seen: set[int] = set()

    def bytes_of(k: int, level: bool) -> int:
        """Once where all rows read the same, or where it is of the row."""
        shape = [n if level or a < n_outer else 1 for a, n in enumerate(space)]
        found = _window(kernel, k, shape)
        assert found is not None
        return found

    for i, stmt in enumerate(kernel.body):
        if stmt.operand < 0 or plan.element[i]:
            continue
        if stmt.op in STORES and stmt.op != "scatter_add":
            written += bytes_of(stmt.operand, False)
        else:
            read += bytes_of(stmt.operand, False)
    for stage in stages:
        for i in needed(plan, stage):
            stmt, kept = kernel.body[i], plan.spill.get(i, -1)
            if is_reloaded(plan, i, stage):
                read += bytes_of(kept, True) if kept >= 0 else 0
                continue
            if kept >= 0:
                written += bytes_of(kept, True)
            if stmt.operand < 0:
                continue
            if stmt.op == "column":  # the blocks' sums; without a place of their own they are added up in memory
                again = 0 if getattr(writer, "held", "") else outer
                read += again * bytes_of(stmt.operand, True)
                written += (again + PARTS) * bytes_of(stmt.operand, True)
            elif stmt.op in STORES:
                written += bytes_of(stmt.operand, True)
            if stmt.op not in ("store", "scatter", "column"):
                shared = n_outer > 0 and stmt.op == "load" and not any(kernel.operands[stmt.operand].strides[:n_outer])
                if not (shared and stmt.operand in seen):
                    read += bytes_of(stmt.operand, True)
                    seen.add(stmt.operand)
    exchanged = _exchanged(writer, outer, inner)
    return read + exchanged, written + exchanged


def _exchanged(writer: Reducing, outer: int, inner: int) -> int:
    """Bytes of the parts that blocks which share a row leave to the last one."""
    assert isinstance(writer, (Rows, Columns))
    launch = writer.launch("")
    if not launch.split or not outer:
        return 0
    x, y = geometry.grid(launch, outer, inner)
    ending = [i for i in writer.reductions if writer.phase in (-1, writer.plan.stage[i])]
    return x * y * writer.parts * sum(writer.slot_bytes(i) for i in ending) if y > 1 else 0
