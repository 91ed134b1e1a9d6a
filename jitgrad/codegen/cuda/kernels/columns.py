"""Reductions over inner axes where operands are contiguous along an outer one, as the gradient of a bias.

Threads side by side take neighbouring vectors of E results each, up to 32 of them; the other threads of a block take
other parts of the inner space, and the blocks along y do, too: with one stage, and of few long ones with a launch for
each (`_phase<k>`, see `reducing.py`). Of each of its results a thread has a part `r<i>[k]`; what is of a result and
later needed for its elements is in `g<i>[k]`.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.geometry import ANY, Launch
from jitgrad.codegen.cuda.kernels.reducing import FEW_ROWS, SHARING, Reducing, is_wide, stages_of, with_spreads
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED
from jitgrad.codegen.program.kernel import SPREAD, Kernel, is_expensive
from jitgrad.codegen.program.plan import STORES, is_reloaded

THREADS, MANY, MOST = 256, 1024, 1 << 16
#: elements of a thread, at least, where blocks share the inner space: few, for what takes time are reads one by one
ELEMENTS = 4
#: 32-bit registers of a thread for parts and other values of results, where a block has `MANY` threads
REGISTERS = 24
#: blocks of a multiprocessor, at least, where much is computed: what each takes of `SHARING` is then done in two turns
BUSY = 3
#: blocks that share results where each leaves much: two of a multiprocessor
FEWER = SHARING // 4
#: vectors of a thread, at least, that are read at a time: twice as many take all registers a thread has
FEW = 4
#: the longest inner space of several stages for which launches for each are not worth it, however few results there are
SHORT = 512


class Columns(Reducing):
    """The kind `col`."""

    widens = True
    over_parts = "u32 b = group; b < gridDim.y; b += groups"

    def __init__(self, kernel: Kernel, phase: int = -1, most: int = ANY):
        super().__init__(kernel, lane_of(kernel), phase=phase)
        self.split, self.most = self.plan.stages <= 1 or phase >= 0, most
        self.threads = THREADS if self.split else MANY
        if not self.split:
            sizes = [max(4, kernel.dtype_of(i).itemsize) for i in (*self.reductions, *self.of_row())]
            if max(sizes) > 4:  # twice the registers for each thread
                self.threads //= 2
            while self.width > 1 and (sum(sizes) // 4 * self.width > REGISTERS or max(sizes) > 4):
                self.width //= 2
        if self.width == 1:  # a vector of one: nothing is read or written as vectors
            self.units = set()
        self.at = "[k]" if self.width > 1 else "[0]"
        self.parts = 32 * self.width
        self.own_part, self.part_b = (
            f"((i64)blockIdx.x * gridDim.y + {block}) * {self.parts} + lane{self.times} + k"
            for block in ("blockIdx.y", "b"))
        self.leader = "group == 0 && live"
        self.counts = "if (k < m) " if self.width > 1 else ""
        self.busy = any(is_expensive(s.op) for s in kernel.body)
        self.blocks = SHARING
        if phase >= 0 or any(s.fn == SPREAD for s in kernel.body):  # fewer, for the last one has much to join
            self.blocks = min(SHARING, FEWER * (1 if self.n_outer == 1 else self.width))  # see `launch`

    @property
    def longest(self) -> int:
        return self.most

    @property
    def most_rows(self) -> int:
        return super().most_rows if self.phase < 0 else FEW_ROWS * 32 * self.width

    def waiting(self, i: int) -> str:
        others = len(self.plan.order) - len(self.kernel.inner) > 1
        return self.waits(i, f"(({f'line * n{self.lane} + ' if others else ''}e{' + k' if self.width > 1 else ''}))")

    def of_row(self) -> list[int]:
        """Values of a result, but for constants."""
        body = self.kernel.body
        return [i for i in range(len(body)) if not self.plan.element[i]
                and body[i].op not in STORES and body[i].op not in ("const", "scalar")]

    def launch(self, symbol: str) -> Launch:
        each = 32 * self.width if self.n_outer == 1 else 32  # rows of vectors with a tail are more
        if not self.split:
            return Launch(symbol, self.threads, each, MOST)
        return Launch(symbol, self.threads, each, MOST, self.threads // 32 * ELEMENTS, self.blocks,
                      scratch=self.scratch_bytes())

    def source(self, symbol: str, scratch: bool) -> str:
        self.describe()
        others = [a for a in self.plan.order if a < self.n_outer and a != self.lane]
        if self.width > 1:
            self.line(f"const bool aligned = {self.alignment()};")
        if others:
            self.line(f"const i64 across = {self.across}, results = {self.product(others)} * across;")
        else:
            self.line(f"const i64 results = {self.across};")
        self.line(f"const i64 elements = {self.product(range(self.n_outer, self.n))};")
        self.line("const int lanes = jg_lanes(results), lane = threadIdx.x & (lanes - 1);")
        self.line(f"const int group = threadIdx.x / lanes, groups = {self.threads} / lanes;")
        with self.block("for (i64 tile = (i64)blockIdx.x * lanes; tile < results; tile += (i64)gridDim.x * lanes)"):
            self.line("const bool live = tile + lane < results;")
            self.line("const i64 number = live ? tile + lane : results - 1;")
            self.line("const i64 length = live ? elements : 0;")
            if others:
                self.line(f"const i64 line = jg_over(number, across), e = (number - line * across){self.times};")
                self.decode("line", others)
            else:
                self.line(f"const i64 e = number{self.times};")
            if self.width > 1:
                self.line(f"const bool full = aligned && e + {self.width} <= n{self.lane};")
                self.line(f"const int m = jg_rest<{self.width}>(n{self.lane} - e);")
            self.begin_row(others)
            self.row()
        return self.function(symbol, self.threads, scratch, held=BUSY if self.busy and self.split else 0)

    def neighbours(self) -> AbstractContextManager[None]:
        """Around what is done for each of a thread's results."""
        self.line("#pragma unroll")
        return self.block(f"for (int k = 0; k < {self.width}; k++)")

    # --- values of results ---

    def at_row(self, indices: Sequence[int], shared: bool = False) -> None:
        self.rows = frozenset()
        self.read_vectors({i: k for i in indices if (k := self.reads_vector(i, self.plan.stages)) >= 0})
        stores = [i for i in indices if self.kernel.body[i].op in STORES]
        for i in indices:
            if i not in stores:
                self.keep(i)
        values = [i for i in indices if i not in stores and self.kernel.body[i].op not in ("const", "scalar")]
        self.declare(values, self.plan.stages, {})
        if values:
            with self.neighbours():
                self.indexed(values)
                self.recall_values(values, self.plan.stages)
                for i in values:
                    if self.kernel.body[i].op == "reduce":
                        self.result(i)
                    else:
                        self.statement(i, self.plan.stages, vector=self.width > 1)
                    self.line(f"g{i}[k] = v{i};")
        if not stores:
            return
        if any(o.role == "inout" for o in self.kernel.operands):
            self.line("__syncthreads();")
        with self.block(f"if ({self.leader}{' && blockIdx.y == 0' if shared else ''})"):
            self.write(stores)

    def write(self, stores: Sequence[int]) -> None:
        """Store values of results."""
        writes = {i: k for i in stores if (k := self.writes_vector(i, self.plan.stages)) >= 0}
        self.declare((), self.plan.stages, writes)
        with self.neighbours():
            self.indexed(stores)
            self.recall_values(stores, self.plan.stages)
            for i in stores:
                self.statement(i, self.plan.stages, vector=self.width > 1)
        self.write_vectors(writes)

    def indexed(self, indices: Sequence[int]) -> None:
        if self.lane_index_used(indices, self.plan.stages):
            self.line(f"const i64 i{self.lane} = e + k;")

    def keep(self, i: int) -> None:
        """A place for a value of each result."""
        if self.kernel.body[i].op not in ("const", "scalar"):
            self.line(f"{COMPUTED[self.kernel.dtype_of(i).name]} g{i}[{self.width}];")

    def recall_values(self, indices: Iterable[int], stage: int, k: str = "k") -> None:
        """Names for the values of a result that statements need, and do not make."""
        self.name_values(self.needed_values(indices, stage), stage, k)

    def quotients(self, indices: Sequence[int]) -> list[int]:
        """None: each of a thread's results would have a divisor of its own."""
        return []

    def recall_arguments(self, i: int, known: Sequence[int], stage: int) -> None:
        self.name_values(self.needed_values([*known, i], stage) - self.needed_values(known, stage), stage, "0")

    def needed_values(self, indices: Iterable[int], stage: int) -> set[int]:
        """Values of a result that statements need, and do not make."""
        made = set(indices)
        return {a for i in made if not is_reloaded(self.plan, i, stage) for a in self.arguments(i, stage)
                if a not in made and not self.plan.element[a]}

    def arguments(self, i: int, stage: int) -> tuple[int, ...]:
        """What statement i takes: a reduction its elements in a loop, behind it what is not known before."""
        stmt = self.kernel.body[i]
        elements = len(stmt.args) - (stmt.fn == SPREAD) if stmt.op == "reduce" else 0
        return stmt.args[:elements] if elements and stage < self.plan.stages else stmt.args[elements:]

    def name_values(self, values: Iterable[int], stage: int, k: str) -> None:
        for a in sorted(values):
            kind = COMPUTED[self.kernel.dtype_of(a).name]
            if self.kernel.body[a].op in ("const", "scalar"):
                self.define(a, self.kernel.dtype_of(a), self.value(a, stage, False))
            else:
                self.line(f"const {kind} v{a} = g{a}[{k}];")

    def each(self, indices: Sequence[int], stage: int, position: str, vector: bool = True) -> None:
        self.recall_values(indices, stage, "k" if vector and self.width > 1 else "0")
        super().each(indices, stage, "j", vector)

    # --- reductions ---

    def loop(self, indices: Sequence[int], stage: int) -> None:
        inner = list(range(self.n_outer, self.n))
        begin, step = (("(i64)blockIdx.y * groups + group", "(i64)gridDim.y * groups")
                       if self.split else ("group", "groups"))

        def loop(at_a_time: int) -> None:
            self.line(f"#pragma unroll {at_a_time}")
            with self.block(f"for (i64 j = {begin}; j < length; j += {step})"):
                self.decode("j", inner)
                self.elements(indices, stage, "")

        if self.width == 1:
            loop(self.at_a_time(indices, stage))
            return
        with self.block("if (full)"):
            self.whole = True
            loop(self.at_a_time(indices, stage))
            self.whole = False
        with self.block("else"):
            loop(1)

    def at_a_time(self, indices: Sequence[int], stage: int) -> int:
        """Rounds of the loop whose reads are under way at once; with many operands one keeps memory busy."""
        if self.busy:
            return 1  # what is computed hides the reads of other warps; twice of it would leave room for few of them
        reads = sum(self.kernel.body[i].op == "load" or is_reloaded(self.plan, i, stage) for i in indices)
        most, together = (2, FEW) if self.width > 1 else (4, FEW * 2)
        return max(1, min(most, together // max(1, reads)))

    def start(self, reductions: Iterable[int]) -> None:
        for i in reductions:
            self.line(f"{self.accumulator(i)} r{i}[{self.width}];")
            with self.neighbours():
                self.line(f"r{i}[k] = {self.identity(i)};")

    def part_of(self, i: int) -> str:
        return f"r{i}{self.at}"

    def join_threads(self, ending: Iterable[int]) -> None:
        for i in ending:
            part = self.part_of(i)
            with self.neighbours():
                self.line(f"{part} = jg_columns<{self.join(i)}>({part}, lanes);")


def functions(kernel: Kernel) -> list[list[tuple[str, Columns]]]:
    """The functions of a kernel, with what their names end in: of those that are launched together a list."""
    divided = kernel if is_wide(kernel) else with_spreads(kernel)  # parts of doubles, four words each, have no room
    stages = stages_of(divided)
    if stages <= 1 or any(o.role == "inout" for o in kernel.operands):
        return [[("", Columns(divided if stages <= 1 else kernel))]]
    phases = [(f"_phase{s}", Columns(divided, phase=s)) for s in range(stages)]
    return [[("", Columns(kernel, most=SHORT))], phases, [("", Columns(kernel))]]
