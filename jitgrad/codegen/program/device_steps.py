"""Steps of a device's program: launches of several kernels at once, regions that one kernel runs, what is in them."""

from collections.abc import Iterator
from typing import Any, Literal

from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.sequence_steps import SeqGrow
from jitgrad.codegen.program.step import Buffer, Ref, Step, Touched, Use, uses_in
from jitgrad.codegen.program.steps import Point, of_kernel
from jitgrad.dims import Size, Symbol, product
from jitgrad.script.graph.ir import Value

#: the kernels of attention: it, the gradient of queries, those of keys and values
Attention = Literal["forward", "dq", "dkv"]


class EachStep(Step):
    """Run a kernel of one axis for several tuples of operands, each of its own size: what `EachPut`s have put.

    `parts`: size and (buffer, offset) per operand, of each; `shared`: per scalar, whether all parts have the same.
    """

    READS = ()

    kernel: Kernel
    parts: tuple[tuple[Size, tuple[tuple[Buffer, Size], ...]], ...]
    shared: tuple[bool, ...]


class EachPut(Step):
    """Say what part `number` of `each` is. Numbers are computed here; the kernel runs at `each`, or where the program
    leaves before that."""

    each: EachStep
    number: int
    size: Size
    starts: tuple[tuple[Buffer, Size], ...]
    scalars: tuple[Value, ...]

    @property
    def memory(self) -> Touched:
        return of_kernel(self.each.kernel, self.starts)  # of a list inside: its group runs there


class AttentionStep(Step):
    """Attention of heads, or a part of its gradient: `cuda/kernels/attention.py` says what its kinds read and make.

    `sizes`: batches, heads, queries, keys; `reads`, `makes`: (batches, rows, heads, width), the last axis contiguous;
    `given`, `counted`: a number for each query, (batches, heads, queries), which it reads, or makes; `mask`: what is
    added to the scores, or whether they count, (batches, heads, queries, keys), each of these or 1.
    """

    kind: Attention
    width: int
    causal: bool
    scale: float
    sizes: tuple[Size, ...]
    reads: tuple[Ref, ...]
    makes: tuple[Ref, ...]
    given: tuple[Ref, ...]
    counted: tuple[Ref, ...]
    mask: tuple[Ref, ...] = ()

    @property
    def memory(self) -> Touched:
        read, made = ([r.buffer for r in refs] for refs in self._refs)
        return read, made

    @property
    def traffic(self) -> tuple[list[Size], list[Size]]:
        """The bytes of what is read and made, each once: rows that several blocks read are in a cache."""
        read, made = ([product((r.dtype.itemsize, *r.dims)) for r in refs] for refs in self._refs)
        return read, made

    @property
    def _refs(self) -> tuple[tuple[Ref, ...], tuple[Ref, ...]]:
        return (*self.reads, *self.given, *self.mask), (*self.makes, *self.counted)

    @property
    def name(self) -> str:
        """For people."""
        return "jg_attention" if self.kind == "forward" else f"jg_attention_{self.kind}"


class PoisonStep(Step):
    """Fill a buffer that holds nothing yet with NaNs, or (None) the whole workspace: see `cuda/schedule/poison.py`."""

    buffer: Buffer | None


class Barrier(Step):
    """Inside a `ResidentStep`: what was written before is seen by what follows."""

    READS = ()


class ResidentStep(Step):
    """Steps with branches and loops that one kernel of a device runs, without the host: see `cuda/regions.py`.

    The host runs them where one of `conditions` does not hold, or one of `counters` is so large that it might overflow.
    So where their products are too large.

    Attributes:
        values: what is read from registers.
        sizes: the symbols that are read.
        buffers: those whose addresses are taken.
        seqs: sequences that the steps, one loop, write to: where one is full the kernel stops, and is launched again.
        exits: what is set here and read after: it is read from `told`, which waits for the device.
        settled: moves of pointers with which the steps end, and of which the host knows without waiting.
    """

    BLOCKS = ("steps",)
    READS = ()

    steps: list[Any]
    conditions: tuple[Value, ...]
    counters: tuple[Value, ...]
    values: tuple[Value, ...]
    sizes: tuple[Symbol, ...]
    buffers: tuple[Buffer, ...]
    seqs: tuple[SeqGrow, ...]
    exits: tuple[Value | Buffer, ...]
    told: Buffer | None
    settled: Point | None = None

    @property
    def uses(self) -> Iterator[Use]:
        return uses_in(self.conditions, self.counters, self.values, self.buffers, self.exits, self.told)
