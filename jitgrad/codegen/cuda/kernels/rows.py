"""Reductions over inner axes along which operands are contiguous: threads side by side share a row.

By the length of a row, with several stages (softmax, layer norm), so that a row is read from memory once:

    _warp     up to 32 lanes a row; what later stages need waits in registers
    _block    256 threads a row, likewise
    _shared   1024 threads a row; what later stages need waits in shared memory
    _sweeps   1024 threads a row; later stages read memory again
    _phase<k> of few long rows, or one, all threads of the device share rows: a launch for each stage

With one stage: `_warp`, whose rows any number of lanes shares, and `_split`, where several blocks share a row.

A kernel that adds up columns besides (the kind `mix`) has the first four forms, and at most `PARTS` blocks. A thread
has the same columns in all rows; their sums are where what waits is, and go to the block's part at the end.
"""

from collections.abc import Callable, Sequence

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.geometry import ANY, MOST_SHARED, Launch
from jitgrad.codegen.cuda.kernels.reducing import SHARING, Reducing
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED, STORED
from jitgrad.codegen.lower.column_sums import PARTS
from jitgrad.codegen.program.kernel import Kernel, is_expensive
from jitgrad.codegen.program.plan import Plan, needed

THREADS, MANY, MOST = 256, 1024, 1 << 16
#: 32-bit registers of a thread for what later stages need
REGISTERS = 32
#: bytes of a thread for that and for sums of columns
MIXED = 192
#: the longest row of a warp with one stage
WARP_ROW = 1024
#: the longest row of several axes for which launches for each stage are not worth it, however few rows there are
SHORT = 1 << 14
#: vectors of a thread, at least, where blocks share a row
VECTORS = 4


class Rows(Reducing):
    """One function of the kinds `row`, `mix`, `all`. `held`: "registers", "shared" or "" (nothing waits, or in memory).
    """

    def __init__(self, kernel: Kernel, form: str, held: str = "", phase: int = -1):
        lane = lane_of(kernel)
        inner = range(len(kernel.outer), len(kernel.outer) + len(kernel.inner))
        ordered = any(s.fn in ("argmax", "argmin") for s in kernel.body) and lane != inner[-1]
        super().__init__(kernel, lane, vectors=not (ordered and len(inner) > 1), split=form == "split", phase=phase)
        self.form, self.held = form, held
        self.inner = inner
        self.threads = MANY if form == "sweeps" or held == "shared" else THREADS
        self.group = form == "warp"
        self.joined = "jg_warp<{join}>({part}, lanes)" if self.group else "jg_block<{join}>({part})"
        self.leader = "lane == 0 && live" if self.group else "threadIdx.x == 0"
        self.kept = keep(self.plan) if held else []
        self.place_of = places(self.plan, self.kept, self.kept_bytes) if held else {}
        words = most_alive(self.plan, {i: max(4, kernel.dtype_of(i).itemsize) // 4 for i in self.kept})
        self.chunks = max(1, REGISTERS // words // self.width) if words else 0
        self.sums = [i for i, s in enumerate(kernel.body) if s.op == "column"]
        if self.sums and held:
            own = most_alive(self.plan, {i: self.kept_bytes(i) for i in self.kept}) + self.sums_bytes()
            self.chunks = max(1, MIXED // own // self.width)

    @property
    def longest(self) -> int:
        """The longest row that this function takes."""
        if self.held == "registers":
            return (32 if self.group else self.threads) * self.chunks * self.width
        if self.held == "shared":
            unit = self.threads * self.width
            return MOST_SHARED // self.held_bytes() // unit * unit
        return WARP_ROW if self.group else ANY

    def held_bytes(self) -> int:
        """Bytes of shared memory for each element of a row."""
        return max((at + self.kept_bytes(i) for i, at in self.place_of.items()), default=0) + self.sums_bytes()

    def sums_bytes(self) -> int:
        """Bytes of the sums of a column."""
        return sum(self.kernel.dtype_of(i).itemsize for i in self.sums)

    def kept_bytes(self, i: int) -> int:
        size = self.kernel.dtype_of(i).itemsize
        return size if self.as_stored(i) else max(size, 4) if self.kernel.dtype_of(i).is_floating_point else size

    def launch(self, symbol: str) -> Launch:
        if self.split:
            return Launch(symbol, self.threads, 1, MOST, THREADS * self.width * VECTORS, SHARING,
                          scratch=self.scratch_bytes())
        each, most = self.threads // 32 if self.group else 1, PARTS if self.sums else MOST
        if self.held == "shared":
            return Launch(symbol, self.threads, each, most, shared=self.held_bytes(), unit=self.threads * self.width)
        return Launch(symbol, self.threads, each, most)

    def source(self, symbol: str, scratch: bool) -> str:
        self.describe()
        if self.width > 1:
            self.line(f"const bool aligned = {self.alignment()};")
        outer = list(range(self.n_outer))
        rows, columns = self.product(outer), self.product(self.inner)
        self.line(f"const i64 rows = {rows}, columns = {columns};")
        if self.group:
            self.line(f"const int lanes = jg_lanes(jg_parts(columns, {self.width})), lane = threadIdx.x & (lanes - 1);")
            self.line(f"const int together = {self.threads} / lanes;  // rows of this block")
            head = "for (i64 first = (i64)blockIdx.x * together; first < rows; first += (i64)gridDim.x * together)"
        else:
            head = "for (i64 row = blockIdx.x; row < rows; row += gridDim.x)"
        self.begin_sums()
        with self.block(head):
            length = "int" if self.held or self.group else "i64"
            if self.group:
                self.line("const bool live = first + threadIdx.x / lanes < rows;")
                self.line("const i64 row = live ? first + threadIdx.x / lanes : rows - 1;")
                self.line("const int length = live ? (int)columns : 0;")
            else:
                self.line(f"const {length} length = {'(int)' if length == 'int' else ''}columns;")
            self.decode("row", outer)
            self.begin_row(outer)
            self.hold()
            self.row()
        self.end_sums()
        return self.function(symbol, self.threads, scratch)

    # --- what waits for later stages ---

    def hold(self) -> None:
        """Places for the kept values."""
        if self.held == "shared":
            unit = self.threads * self.width
            self.line(f"const i64 capacity = jg_parts(length, {unit}) * {unit};")
            for i in self.kept:
                kind = self.kept_type(i)
                where = f"(char*)jg_shared + capacity * {self.place_of[i]}"
                self.line(f"{kind}* const h{i} = ({kind}*)({where});")
                self.slots[i] = f"h{i}"
            self.slot_index = f"(c * {self.width} + k) * {self.threads} + threadIdx.x" if self.width > 1 else (
                f"c * {self.threads} + threadIdx.x")
        elif self.held:
            for i in self.kept:
                stmt = self.kernel.body[i]
                if stmt.op == "load" and stmt.operand in self.units and self.width > 1:
                    self.line(f"jg_pack<{self.kept_type(i)}, {self.width}> x{i}[{self.chunks}];")
                    self.preloaded[i] = f"x{i}[c].at[k]"
                else:
                    self.line(f"{self.kept_type(i)} h{i}[{self.chunks * self.width}];")
                    self.slots[i] = f"h{i}"
            self.slot_index = f"c * {self.width} + k" if self.width > 1 else "c"

    def kept_type(self, i: int) -> str:
        return (STORED if self.as_stored(i) else COMPUTED)[self.kernel.dtype_of(i).name]

    def preload(self, stage: int) -> None:
        """Read what waits in registers from this stage on: all of it before anything is computed."""
        found = [i for i in self.kept if i in self.preloaded and self.plan.stage[i] == stage]
        if not found:
            return
        for head, call, count in (("if (aligned && columns % {w} == 0)", "jg_read", ""),
                                  ("else", "jg_read_some", ", length - e")):
            with self.block(head.format(w=self.width)):
                self.line("#pragma unroll")
                with self.block(f"for (int c = 0; c < {self.chunks}; c++)"):
                    self.line(f"const int e = {self.first('c')};")
                    reads = [f"x{i}[c] = {call}<{self.width}>({self.vector_place(self.kernel.body[i].operand)}{count});"
                             for i in found]
                    with self.block("if (e < length)"):
                        for read in reads:
                            self.line(read)

    def first(self, chunk: str) -> str:
        """The lane index of this thread's vector number `chunk`."""
        side = "lanes" if self.group else str(self.threads)
        own = f"({chunk} * {side} + {'lane' if self.group else '(int)threadIdx.x'})"
        return f"{own} * {self.width}" if self.width > 1 else own

    # --- sums of columns ---

    def begin_sums(self) -> None:
        """Places for the sums of columns, all zero."""
        if self.held == "shared" and self.sums:
            unit = self.threads * self.width
            self.line(f"const i64 room = jg_parts(columns, {unit}) * {unit};")
        at = self.held_bytes() - self.sums_bytes()
        for i in self.sums:
            kind = COMPUTED[self.kernel.dtype_of(i).name]
            if self.held == "registers":
                self.line(f"{kind} a{i}[{self.chunks * self.width}] = {{}};")
            elif self.held:
                self.line(f"{kind}* const a{i} = ({kind}*)((char*)jg_shared + room * {at});")
                at += self.kernel.dtype_of(i).itemsize
                self.line(f"for (i64 j = threadIdx.x; j < room; j += {self.threads}) a{i}[j] = 0;")
            else:
                self.line(f"{kind}* const a{i} = p{self.kernel.body[i].operand} + blockIdx.x * columns;")
                self.line(f"for (i64 j = threadIdx.x; j < columns; j += {self.threads}) a{i}[j] = 0;")
        if self.sums and self.held != "registers":
            self.line("__syncthreads();")

    def store(self, i: int, stage: int, vector: bool) -> None:
        stmt = self.kernel.body[i]
        if stmt.op != "column":
            super().store(i, stage, vector)
            return
        guard = "if (k < m) " if vector and not self.held else ""
        place = self.slot_index if self.held else self.offset(stmt.operand, self.inner)
        self.line(f"{guard}a{i}[{place}] += v{stmt.args[0]};")

    def end_sums(self) -> None:
        """Write this block's part, and zeros to those that no block has."""
        if not self.sums:
            return
        for i in self.sums:
            target = f"p{self.kernel.body[i].operand}"
            kind = COMPUTED[self.kernel.dtype_of(i).name]
            if self.group:
                own = self.join_groups(i, kind)
                with self.block(f"for (i64 j = threadIdx.x; j < columns; j += {self.threads})"):
                    self.line(f"{kind} total = 0;")
                    self.line(f"for (int g = 0; g < together; g++) total += {own}[g * columns + j];")
                    self.line(f"{target}[blockIdx.x * columns + j] = total;")
            elif self.held:
                self.put_sums(i, f"{target}[blockIdx.x * columns + e + k]")
            with self.block(f"for (i64 part = blockIdx.x + gridDim.x; part < {PARTS}; part += gridDim.x)"):
                self.line(f"for (i64 j = threadIdx.x; j < columns; j += {self.threads}) "
                          f"{target}[part * columns + j] = 0;")

    def join_groups(self, i: int, kind: str) -> str:
        """The sums of all rows that this block works on at once, side by side in shared memory."""
        if i == self.sums[0]:
            widest = max(self.kernel.dtype_of(s).itemsize for s in self.sums)
            self.line(f"__shared__ u64 jg_groups[{self.threads * self.chunks * self.width * widest // 8}];")
        else:
            self.line("__syncthreads();")
        self.line(f"{kind}* const g{i} = ({kind}*)jg_groups;")
        self.put_sums(i, f"g{i}[threadIdx.x / lanes * columns + e + k]")
        self.line("__syncthreads();")
        return f"g{i}"

    def put_sums(self, i: int, place: str) -> None:
        """Write a thread's sums, that of column e + k to `place`."""
        end = f"{self.first('c')} < columns" if self.held == "shared" else f"c < {self.chunks}"
        self.line("#pragma unroll" if self.held == "registers" else "#pragma unroll 1")
        with self.block(f"for (int c = 0; {end}; c++)"):
            self.line(f"const i64 e = {self.first('c')};")
            self.line("#pragma unroll")
            with self.block(f"for (int k = 0; k < {self.width}; k++)"):
                self.line(f"if (e + k < columns) {place} = a{i}[{self.slot_index}];")

    # --- loops ---

    def loop(self, indices: Sequence[int], stage: int) -> None:
        if self.held == "registers":
            self.preload(stage)
            self.line("#pragma unroll")
            with self.block(f"for (int c = 0; c < {self.chunks}; c++)"):
                self.line(f"const int e = {self.first('c')};")
                with self.block("if (e < length)"):
                    self.elements(indices, stage, "length")
        elif self.held == "shared":
            step = self.threads * self.width
            with self.block(f"for (int c = 0, e = {self.first('0')}; e < length; c++, e += {step})"):
                self.elements(indices, stage, "length")
        elif len(self.inner) == 1:
            self.along_row(indices, stage)
        else:
            self.over_space(indices, stage)

    def along_row(self, indices: Sequence[int], stage: int) -> None:
        """Vectors of the one inner axis."""
        times = self.times
        if self.group:
            head = f"for (int e = lane{times}; e < length; e += lanes{times})"
        elif self.split:
            head = (f"for (i64 e = ((i64)blockIdx.y * {self.threads} + threadIdx.x){times}; e < length; "
                    f"e += (i64)gridDim.y * {self.threads * self.width})")
        else:
            head = f"for (i64 e = (i64)threadIdx.x{times}; e < length; e += {self.threads * self.width})"
        with self.block(head):
            self.elements(indices, stage, "length")

    def over_space(self, indices: Sequence[int], stage: int) -> None:
        """Vectors of several inner axes, numbered row after row of the lane axis."""
        others = [a for a in self.inner if a != self.lane]
        begin, step = (("(i64)blockIdx.y * blockDim.x + threadIdx.x", "(i64)gridDim.y * blockDim.x") if self.split
                       else ("threadIdx.x", "blockDim.x"))
        with self.block(""):
            self.line(f"const i64 across = {self.across}, vectors = {self.product(others)} * across;")
            with self.block(f"for (i64 t = {begin}; t < vectors; t += {step})"):
                self.line(f"const i64 line = jg_over(t, across), e = (t - line * across){self.times};")
                self.decode("line", others)
                position = ""
                for axis in self.inner:
                    index = "e" if axis == self.lane else f"i{axis}"
                    position = f"({position}) * n{axis} + {index}" if position else index
                self.elements(indices, stage, f"n{self.lane}", position)


def keep(plan: Plan) -> list[int]:
    """Element values to keep for later stages: what is costly to compute, and what is read for each row anew.

    They become `plan.spill`, at operand -1. What was read for another row too is in a cache.
    """
    kernel, body = plan.kernel, plan.kernel.body
    n_outer = len(kernel.outer)
    plan.spill.clear()
    for costly in (True, False):
        for i in range(len(body) - 1, -1, -1):
            stmt = body[i]
            if not plan.element[i]:
                continue
            own = stmt.op in ("load", "gather") and (not n_outer or stmt.op == "gather" or any(
                s != 0 for s in kernel.operands[stmt.operand].strides[:n_outer]))
            if (is_expensive(stmt.op) if costly else own) and any(
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


def functions(kernel: Kernel) -> list[tuple[int, list[tuple[str, Rows]]]]:
    """The forms of a kernel, by the longest row that each takes: its functions, with what their names end in."""
    stages = Rows(kernel, "sweeps").plan.stages
    single, alone = len(kernel.inner) == 1, not kernel.outer
    forms: list[tuple[int, list[tuple[str, Rows]]]] = []

    def add(suffix: str, writer: Rows) -> None:
        if writer.longest > (forms[-1][0] if forms else 0):
            forms.append((writer.longest, [(suffix, writer)]))

    if any(s.op == "column" for s in kernel.body):
        if single:
            add("_warp", Rows(kernel, "warp", "registers"))
            add("_block", Rows(kernel, "block", "registers"))
            add("_shared", Rows(kernel, "block", "shared"))
        add("_sweeps" if forms else "", Rows(kernel, "sweeps"))
        return forms
    if stages <= 1:
        if single and not alone:
            add("_warp", Rows(kernel, "warp"))
        add("_split" if forms else "", Rows(kernel, "split"))
        return forms
    if single and Rows(kernel, "block", "registers").kept:
        if not alone:
            add("_warp", Rows(kernel, "warp", "registers"))
        add("_block", Rows(kernel, "block", "registers"))
        if not alone:
            add("_shared", Rows(kernel, "block", "shared"))
    phases = [(f"_phase{s}", Rows(kernel, "split", phase=s)) for s in range(stages)]
    divided = all(o.role != "inout" for o in kernel.operands)
    if alone and divided:
        forms.append((ANY, phases))
    elif divided and not single:
        sweeps = [("_sweeps", Rows(kernel, "sweeps"))]
        forms += [(SHORT, sweeps), (ANY, phases), (ANY, sweeps)]
    else:
        add("_sweeps" if forms else "", Rows(kernel, "sweeps"))
    return forms
