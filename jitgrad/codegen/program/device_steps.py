"""Steps of a device's program: launches of several kernels at once, regions that one kernel runs, what is in them."""

from typing import Any

from jitgrad.codegen.program.kernel import Kernel
from jitgrad.codegen.program.sequence_steps import SeqGrow
from jitgrad.codegen.program.step import Buffer, Step, Touched, Use, uses_in
from jitgrad.codegen.program.steps import Point, of_kernel
from jitgrad.dims import Size, Symbol
from jitgrad.script.graph.ir import Value


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
    def uses(self) -> list[Use]:
        return uses_in(self.conditions, self.counters, self.values, self.buffers, self.exits, self.told)
