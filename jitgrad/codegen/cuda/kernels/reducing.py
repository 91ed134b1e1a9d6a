"""What kernels with inner axes share: rows (results) with values of their own, and joining the parts of a reduction.

Threads that work on one row each have a part `r<i>` of a reduction; `joined` is the call that joins them within a
block. Where several blocks along y share the inner space of a row, each writes its part to the scratch memory, and the
block that comes last joins those, in the order of the blocks: the result does not depend on which one that is.
A `phase` is one of several launches, one per stage, where a stage needs a reduction that all blocks make: results of
earlier phases wait in the scratch memory.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import accumulate
from typing import Any

from jitgrad.codegen.cuda.kernels.geometry import ANY, TICKETS, Form, Launch
from jitgrad.codegen.cuda.kernels.writer import Writer
from jitgrad.codegen.program.kernel import SPREAD, Kernel, is_expensive
from jitgrad.codegen.program.plan import STORES, Plan, make_plan, needed
from jitgrad.dtypes import float32, float64

#: the most blocks that share rows: each of 132 multiprocessors holds eight of 256 threads
SHARING = 132 * 8
#: bytes of a result that waits for a later phase, and the most rows whose results do: blocks of a sweep, a row each,
#: would be less than two for each of 132 multiprocessors
WAITING, FEW_ROWS = 32, 2 * 132 - 1


class Reducing(Writer):
    """A writer of rows. A kind sets `joined`, `leader` and `parts` and prints `loop`."""

    joined = ""         # the call that joins r<i> over the threads of a row, of the operator and r<i>
    leader = ""         # the condition on which a thread writes its row's values
    parts = 1           # rows that a block works on at once
    # parts in scratch memory: where they begin, this block's, that of block b, the loop over blocks, who shares them
    from_part = ""
    own_part = "(i64)blockIdx.x * gridDim.y + blockIdx.y"
    part_b = "((i64)blockIdx.x * gridDim.y + b)"
    over_parts = "u32 b = threadIdx.x; b < gridDim.y; b += blockDim.x"
    sharing = "(u32*)scratch + blockIdx.x, gridDim.y"
    counts = ""         # the condition in front of what is written for each of a thread's rows
    several, what_is_shared = "gridDim.y > 1", "of the row's parts"

    def __init__(self, kernel: Kernel, lane: int, vectors: bool = True, split: bool = False, phase: int = -1):
        super().__init__(kernel, lane, vectors)
        self.split, self.phase = split, phase
        self.reductions = [i for i, s in enumerate(kernel.body) if s.op == "reduce"]

    def loop(self, indices: Sequence[int], stage: int) -> None:
        """The element-level statements of a stage, over the inner space."""
        raise NotImplementedError

    def launch(self, symbol: str) -> Launch:
        """How the function is launched."""
        raise NotImplementedError

    def forms(self, symbol: str, above: int) -> list[Form]:
        """How it is launched alone, by the length of rows; shorter ones than `above` have another function."""
        return [Form(self.longest, (self.launch(symbol),))]

    @property
    def longest(self) -> int:
        """The longest row that this function takes."""
        return ANY

    def scratch_bytes(self) -> int:
        """What of the scratch memory this function uses."""
        return self.parts_at(len(self.kernel.body)) if self.split else 0

    @property
    def most_rows(self) -> int:
        """How many rows there may be."""
        return FEW_ROWS if self.phase >= 0 and self.n_outer else ANY

    @property
    def waiting_bytes(self) -> int:
        """Where the results of one reduction wait."""
        return WAITING * (self.most_rows if self.phase >= 0 and self.n_outer else 1)

    @property
    def shares(self) -> int:
        """How many parts of each reduction the scratch memory has room for."""
        return SHARING * self.parts

    def row(self) -> None:
        """All statements of one row, its outer indices known: those of one value, then stage after stage."""
        plan, body = self.plan, self.kernel.body
        of_row = [i for i in range(len(body)) if not plan.element[i]]
        first = [i for i in of_row if plan.stage[i] < 0]
        if self.phase > 0:
            first = [i for i in first if body[i].op not in STORES]
        self.at_row(first, self.split)
        for stage in range(plan.stages):
            after = [i for i in of_row if plan.stage[i] == stage and body[i].op != "reduce"]
            if self.phase > stage:
                ended = [i for i in self.reductions if plan.stage[i] == stage]
                self.recall(ended)
                self.at_row(sorted([*ended, *[i for i in after if body[i].op not in STORES]]))
            elif self.phase in (-1, stage):
                self.sweep(stage, after)

    def at_row(self, indices: Sequence[int], shared: bool = False) -> None:
        """Statements of one value per row, results of reductions among them: all threads compute, one stores.

        `shared`: all blocks along y are here.
        """
        stores = [i for i in indices if self.kernel.body[i].op in STORES]
        for i in indices:
            if self.kernel.body[i].op == "reduce":
                self.result(i)
            elif i not in stores:
                self.statement(i, self.plan.stages)
        if stores:
            if any(o.role == "inout" for o in self.kernel.operands):
                self.line("__syncthreads();")
            with self.block(f"if ({self.leader}{' && blockIdx.y == 0' if shared else ''})"):
                for i in stores:
                    self.statement(i, self.plan.stages)

    def sweep(self, stage: int, after: Sequence[int]) -> None:
        """One pass over the inner space, the reductions that end with it, and what of the row needs them."""
        indices = needed(self.plan, stage)
        ending = [i for i in indices if self.kernel.body[i].op == "reduce"]
        self.start(ending)
        self.loop(indices, stage)
        self.join_threads(ending)
        self.ended(ending, after)

    def ended(self, ending: Sequence[int], after: Sequence[int]) -> None:
        """The end of a pass: a block has its part of these reductions."""
        if not self.split:
            self.finished(ending, after)
            return
        if not ending:
            self.at_row(after, shared=True)
            return
        self.line(f"bool mine = true;  // whether this block has all {self.what_is_shared}")
        with self.block(f"if ({self.several})"):
            self.exchange(ending)
        with self.block("if (mine)"):
            self.finished(ending, after)
            if self.phase >= 0:
                with self.block(f"if ({self.leader})"), self.neighbours():
                    for i in ending:
                        self.line(f"{self.counts}{self.waiting(i)}->value = {self.part_of(i)};")

    def join_threads(self, ending: Iterable[int]) -> None:
        """Join the parts of a block's threads."""
        for i in ending:
            number = self.reductions.index(i) if len(self.reductions) > 1 else -1
            self.line(f"r{i} = {self.joined.format(join=self.join(i), number=number, part=f'r{i}')};")

    def finished(self, ending: Iterable[int], after: Sequence[int]) -> None:
        """The results of reductions, and what of the row needs them."""
        self.at_row(sorted([*ending, *after]))

    def exchange(self, ending: Sequence[int]) -> None:
        """Write this block's parts; the last block joins all."""
        for i in ending:
            kind = f"jg_slot<{self.accumulator(i)}>*"
            self.line(f"{kind} const parts{i} = ({kind})(scratch + {self.parts_at(i)}){self.from_part};")
        with self.block(f"if ({self.leader})"), self.neighbours():
            for i in ending:
                self.line(f"parts{i}[{self.own_part}].value = {self.part_of(i)};")
        self.line(f"mine = jg_last({self.sharing});")
        with self.block("if (mine)"):
            for i in ending:
                with self.neighbours():
                    self.line(f"{self.part_of(i)} = {self.identity(i)};")
            with self.block(f"for ({self.over_parts})"), self.neighbours():
                for i in ending:
                    part = self.part_of(i)
                    self.line(f"{part} = {self.join(i)}::of({part}, jg_fresh(parts{i} + {self.part_b}));")
            self.join_threads(ending)

    def neighbours(self) -> AbstractContextManager[Any]:
        """Around what is done for each of a thread's rows."""
        return nullcontext()

    def parts_at(self, i: int) -> int:
        """Where the parts of a reduction begin, behind those of earlier statements."""
        before = sum(self.slot_bytes(j) for j in self.reductions if j < i)
        return TICKETS + self.waiting_bytes * len(self.reductions) + self.shares * before

    def waiting(self, i: int) -> str:
        """Where the result of a reduction is kept for later phases."""
        return self.waits(i, "row" if self.n_outer else "")

    def waits(self, i: int, row: str) -> str:
        """The same, of a row."""
        own = f" + {WAITING} * {row}" if row else ""
        place = TICKETS + self.waiting_bytes * self.reductions.index(i)
        return f"((jg_slot<{self.accumulator(i)}>*)(scratch + {place}{own}))"

    def recall(self, reductions: Sequence[int]) -> None:
        """Read what was kept by earlier phases."""
        self.start(reductions)
        with self.neighbours():
            for i in reductions:
                self.line(f"{self.part_of(i)} = jg_fresh({self.waiting(i)});")


# --- one pass for two ---

def stages_of(kernel: Kernel) -> int:
    """How many passes over its inner space a kernel takes."""
    return make_plan(kernel, 0).stages


def is_wide(kernel: Kernel) -> bool:
    """Whether a kernel computes in float64, whose values take two registers."""
    return any(d is float64 for d in (*[o.dtype for o in kernel.operands], *[s.dtype for s in kernel.body]))


def with_spreads(kernel: Kernel) -> Kernel:
    """The kernel whose sums of squared distances from a number of the row, its mean say, need no pass of their own.

    They are made while the number is: see `jg_moments`. For a kernel of which no row is kept, so that a pass costs
    what reading does.
    """
    plan, body = make_plan(kernel, 0), list(kernel.body)
    for i in range(len(body)):
        distance = _squared(plan, i)
        if distance:
            body[i] = replace(body[i], fn=SPREAD, args=distance)
    wanted = [s.op in STORES for s in body]
    for i in range(len(body) - 1, -1, -1):
        if wanted[i]:
            for a in body[i].args:
                wanted[a] = True
    place = list(accumulate(wanted, initial=0))
    return replace(kernel, body=tuple([replace(s, args=tuple([place[a] for a in s.args]))
                                       for s, w in zip(body, wanted, strict=True) if w]))


def _squared(plan: Plan, i: int) -> tuple[int, ...]:
    """The value and the number of the row of whose distance statement i sums the squares; () if it does not, or if the
    number is known before anyway.
    """
    body, stmt = plan.kernel.body, plan.kernel.body[i]
    if stmt.op != "reduce" or stmt.fn != "sum" or stmt.dtype not in (float32, float64):
        return ()
    square = body[stmt.args[0]]
    distance = body[square.args[0]] if square.op == "mul" and square.args[0] == square.args[1] else None
    if distance is None or distance.op != "sub" or any(
            plan.kernel.dtype_of(a) is not stmt.dtype for a in (*stmt.args, *distance.args)):
        return ()
    value, number = sorted(distance.args, key=lambda a: not plan.element[a])
    found = plan.element[value] and not plan.element[number]
    return (value, number) if found and max(plan.stage[value], plan.stage[number]) < plan.stage[i] else ()


# --- what waits for later stages ---

def is_own(kernel: Kernel, i: int) -> bool:
    """Whether statement i reads for each row anew; what was read for another row too is in a cache."""
    stmt, n_outer = kernel.body[i], len(kernel.outer)
    return stmt.op in ("load", "gather") and (not n_outer or stmt.op == "gather" or any(
        s != 0 for s in kernel.operands[stmt.operand].strides[:n_outer]))


def frontier(plan: Plan, vectors: Collection[int]) -> list[int]:
    """Element values that statements of later stages take: with them, nothing is computed again but from what is cheap.

    They become `plan.spill`, at operand -1. Of `vectors`, loads, what was loaded is kept and not its conversions.
    """
    kernel, body = plan.kernel, plan.kernel.body
    plan.spill.clear()
    costly: list[bool] = []
    for i, stmt in enumerate(body):
        own = is_own(kernel, i) or is_expensive(stmt.op) or any(costly[a] for a in stmt.args)
        costly.append(plan.element[i] and own)
    for i, stmt in enumerate(body):
        for a in stmt.args:
            if not costly[a] or plan.stage[a] >= plan.stage[i]:
                continue
            source = a
            while body[source].op == "cast" and _is_same(kernel, source):
                source = body[source].args[0]
            plan.spill[source if source in vectors else a] = -1
    return sorted(plan.spill)


def _is_same(kernel: Kernel, i: int) -> bool:
    """Whether a cast only widens a half type, as which it is computed anyway."""
    return kernel.dtype_of(i).name == "float32" and kernel.dtype_of(kernel.body[i].args[0]).is_half


def keep(plan: Plan) -> list[int]:
    """Element values to keep for later stages: what is costly to compute, and what is read for each row anew.

    They become `plan.spill`, at operand -1.
    """
    kernel, body = plan.kernel, plan.kernel.body
    plan.spill.clear()
    for costly in (True, False):
        for i in range(len(body) - 1, -1, -1):
            stmt = body[i]
            if not plan.element[i]:
                continue
            if (is_expensive(stmt.op) if costly else is_own(kernel, i)) and any(
                    i in needed(plan, s) for s in range(plan.stage[i] + 1, plan.stages)):
                plan.spill[i] = -1
    return sorted(plan.spill)


def last_stage(plan: Plan, i: int) -> int:
    """The last stage that needs the value of statement i."""
    return max(s for s in range(plan.stage[i], plan.stages) if i in needed(plan, s))


def most_alive(plan: Plan, sizes: dict[int, int]) -> int:
    """The largest total of what waits from one stage to the next."""
    return max((sum(size for i, size in sizes.items() if plan.stage[i] <= s < last_stage(plan, i))
                for s in range(plan.stages)), default=0)


def places(plan: Plan, kept: Sequence[int], size: Callable[[int], int]) -> dict[int, int]:
    """Where each kept value waits: its first byte, to be multiplied by the number of elements.

    The place of a value whose last stage has come is given to another of that size.
    """
    found: dict[int, int] = {}
    free: dict[int, list[tuple[int, int]]] = {}     # by size: (last stage of the holder, place)
    end = 0
    for i in sorted(kept, key=lambda i: (-size(i), plan.stage[i])):
        place = next((slot for slot in free.get(size(i), []) if slot[0] <= plan.stage[i]), None)
        if place is not None:
            free[size(i)].remove(place)
        at = place[1] if place is not None else end
        found[i] = at
        end = max(end, at + size(i))
        free.setdefault(size(i), []).append((last_stage(plan, i), at))
    return found
