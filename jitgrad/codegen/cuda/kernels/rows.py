"""Reductions over inner axes along which operands are contiguous: threads side by side share a row.

By the length of a row, with several stages (softmax, layer norm), so that a row is read from memory once:

    _group    up to 256 threads a row, as few as hold it; what later stages need waits in registers
    _block    256 threads a row of up to 8,192 elements; what later stages need waits in shared memory, for three rows
    _shared   1024 threads a longer row, likewise
    _sweeps   512 threads a row; later stages read memory again
    _phase<k> of few long rows, or one, all threads of the device share rows: a launch for each stage

The last two make a variance in the pass in which they make the mean.

With one stage: `_warp`, whose rows any number of lanes shares, and `_split`, where several blocks share a row.

A kernel that adds up columns besides (the kind `mix`) has these but for `_block`, and at most `PARTS` blocks, two for a
multiprocessor: of 512 threads, or as many as share a row, up to 1024. A thread has the same columns in all rows; their
sums are where what waits is, and go to the block's part at the end. In `_group` it reads its next row as soon as it no
longer needs this one.
A multiprocessor holds three blocks of 256 threads, or as many threads: elements of a thread are as many as that leaves
registers for.
What threads do is printed twice where vectors wait: for rows that are whole vectors, and for others, which take few
registers and little text.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.geometry import ANY, MOST_SHARED, Form, Launch
from jitgrad.codegen.cuda.kernels.mixing import Mixing
from jitgrad.codegen.cuda.kernels.reducing import (SHARING, frontier, is_own, is_wide, keep, last_stage, most_alive,
                                                   places, stages_of, with_spreads)
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED, STORED
from jitgrad.codegen.lower.column_sums import PARTS
from jitgrad.codegen.program.kernel import Kernel

THREADS, MANY, MOST = 256, 1024, 1 << 16
#: threads that share a row of the form `_group`; the last two only with sums of columns
LANES = (32, 64, 128, 256, 512, 1024)
#: registers of a thread where a multiprocessor holds three blocks of 256 threads, and one of 1024; of them those for an
#: operand's address, and for loops, numbers of the row and what is computed: half as many again in float64
REGISTERS, FEWER_REGISTERS, ADDRESS, COMPUTING = 80, 64, 2, 20
#: bytes of a thread's registers for what waits without sums of columns, and for what it reads and writes at once
WAITING, AT_ONCE = 64, 128
#: elements that are read before the first is used, at most, where rows are not of whole vectors
BATCH = 4
#: statements beyond which a thread needs more registers than one of 1024 has
LONG = 36
#: the longest row of which a multiprocessor holds so many, each of a block, in shared memory
HELD_ROW, HELD_ROWS = 8192, 3
#: the longest row of a warp with one stage
WARP_ROW = 1024
#: the longest row of several axes for which launches for each stage are not worth it, however few rows there are
SHORT = 1 << 14
#: vectors of a thread, at least, where blocks share a row
VECTORS = 4


class Rows(Mixing):
    """One function of the kinds `row`, `mix`, `all`. `held`: "registers", "shared" or "" (nothing waits, or in memory);
    `most`: the longest row for which it is the best.
    """

    def __init__(self, kernel: Kernel, form: str, held: str = "", phase: int = -1, vectors: bool = True,
                 most: int = ANY):
        lane = lane_of(kernel)
        inner = range(len(kernel.outer), len(kernel.outer) + len(kernel.inner))
        ordered = any(s.fn in ("argmax", "argmin") for s in kernel.body) and lane != inner[-1]
        super().__init__(kernel, lane, vectors and not (ordered and len(inner) > 1), form == "split", phase)
        self.form, self.held, self.most = form, held, most
        self.inner, self.outer = inner, list(range(self.n_outer))
        self.group = form in ("warp", "group")
        self.sums = [i for i, s in enumerate(kernel.body) if s.op == "column"]
        self.wide = is_wide(kernel)
        self.lanes = LANES if self.sums else LANES[:-2]
        self.threads = self.lanes[-1] if form == "group" else THREADS
        self.small = held == "shared" and most < ANY  # `HELD_ROWS` of a multiprocessor
        if (held == "shared" and not self.small) or form == "sweeps":  # more would spill where there is much to compute
            few = self.sums or not (self.wide or len(kernel.body) > LONG)
            self.threads = MANY if held and few else MANY // 2
        self.side = "lanes" if self.group else str(self.threads)    # threads of a row
        self.joined = {"warp": "jg_warp<{join}>({part}, lanes)", "split": "jg_block<{join}>({part})"}.get(
            form, f"jg_group<{{join}}, {{number}}>({{part}}, {self.side})")
        self.leader = "lane == 0 && live" if self.group else "threadIdx.x == 0"
        self.short = self.group or bool(held)
        self.narrow(AT_ONCE // max(1, sum(kernel.operands[k].dtype.itemsize for k in self.units)))
        self.kept: list[int] = []
        self.place_of: dict[int, int] = {}
        self.vectors: list[int] = []    # loads of whole rows into registers
        self.singles: list[int] = []    # loads of one number for a row, likewise, where the next row's are read ahead
        self.chunks = 0
        self.batch = 1                  # elements of rows that are not whole, read before the first is used
        if held == "registers":
            self.wait_in_registers()
        elif held:
            self.kept = keep(self.plan)
            self.place_of = places(self.plan, self.kept, self.kept_bytes)
            self.packs = frozenset(self.kept if self.width > 1 else ())

    def narrow(self, most: int) -> None:
        """Let vectors have at most so many elements, but two."""
        while self.width > max(2, most):
            self.width //= 2

    def wait_in_registers(self) -> None:
        """What each thread keeps of how many elements."""
        kernel, plan = self.kernel, self.plan
        loads = [i for i, s in enumerate(kernel.body) if s.op == "load" and is_own(kernel, i)]
        if self.width > 1:
            self.vectors = [i for i in loads if plan.element[i] and kernel.body[i].operand in self.units]
        if self.sums:
            self.singles = [i for i in loads if not plan.element[i] and plan.stage[i] < 0]
        room = 4 * ((FEWER_REGISTERS if self.sums else REGISTERS) - ADDRESS * len(kernel.operands)
                    - COMPUTING * (3 if self.wide else 2) // 2)
        reads = sum(max(4, kernel.dtype_of(i).itemsize) for i, s in enumerate(kernel.body)
                    if plan.element[i] and s.op in ("load", "gather"))
        self.batch = max(1, min(BATCH, room // max(1, 2 * reads)))
        few = self.fitting(False, room if self.sums else min(room, WAITING))
        if self.sums and self.fitting(True, room) < few:
            self.fitting(False, room)
        self.narrow(few)
        self.chunks = max(1, few // self.width)

    def fitting(self, everything: bool, room: int) -> int:
        """How many elements of a thread have room, in whole vectors if that is one. Keeps all that later stages take of
        them, or what is costly.
        """
        plan = self.plan
        self.kept = frontier(plan, self.vectors) if everything else keep(plan)
        sizes = {i: self.kept_bytes(i) for i in {*self.kept, *self.vectors}}
        if self.sums:  # vectors of the next row wait for it
            most = most_alive(plan, {i: size for i, size in sizes.items() if i not in self.vectors}) + sum(
                sizes[i] for i in self.vectors)
        else:
            most = max(most_alive(plan, {i: sizes[i] for i in self.kept}), sum(sizes[i] for i in self.vectors))
        elements = min(room // max(1, most + self.sums_bytes()), HELD_ROW // self.lanes[-1])
        return elements // self.width * self.width or elements

    @property
    def longest(self) -> int:
        if self.held == "registers":
            return self.threads * self.chunks * self.width
        if self.held == "shared":
            unit = self.threads * self.width
            room = MOST_SHARED // HELD_ROWS if self.small else MOST_SHARED
            return min(room // self.held_bytes(), self.most) // unit * unit
        return WARP_ROW if self.group else self.most

    def held_bytes(self) -> int:
        """Bytes of shared memory for each element of a row."""
        return max((at + self.kept_bytes(i) for i, at in self.place_of.items()), default=0) + self.sums_bytes()

    def kept_bytes(self, i: int) -> int:
        size = self.kernel.dtype_of(i).itemsize
        if self.held == "registers" and i not in self.vectors:
            return max(size, 4)
        return size if self.as_stored(i) else max(size, 4) if self.kernel.dtype_of(i).is_floating_point else size

    def forms(self, symbol: str, above: int) -> list[Form]:
        """How rows longer than `above` are launched: as many threads as hold one. Few rows have smaller blocks."""
        if self.form != "group":
            return super().forms(symbol, above)
        found = []
        for lanes in self.lanes:
            bound = lanes * self.chunks * self.width
            if self.sums and lanes < MANY // 2:
                few = Launch(symbol, THREADS, THREADS // lanes, PARTS)
                found.append(Form(bound, (few,), PARTS * few.each))
            threads = max(lanes, MANY // 2) if self.sums else THREADS if lanes == 32 else lanes
            found.append(Form(bound, (Launch(symbol, threads, threads // lanes, PARTS if self.sums else MOST),)))
        return [form for form in found if form.bound > above]

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
        rows, columns = self.product(self.outer), self.product(self.inner)
        if self.width > 1:
            self.line(f"const bool aligned = {self.alignment()};")
        self.line(f"const i64 rows = {rows}, columns = {columns};")
        if self.held and self.width > 1:
            self.line(f"const bool whole = aligned && columns % {self.width} == 0;")
        if self.group:
            parts = f"(int)jg_parts(columns, {self.width})"
            bits = f"jg_sharing<{self.chunks}>({parts})" if self.held else f"jg_bits(jg_lanes({parts}))"
            self.line(f"const int bits = {bits}, lanes = 1 << bits, lane = threadIdx.x & (lanes - 1);")
            self.line("const int group = threadIdx.x >> bits, together = blockDim.x >> bits;  // rows of this block")
            self.line("const i64 step = (i64)gridDim.x * together;")
            head = "for (i64 first = (i64)blockIdx.x * together; first < rows; first += step)"
        else:
            head = "for (i64 row = blockIdx.x; row < rows; row += gridDim.x)"
        self.begin_sums()
        if self.ahead:
            self.declare_vectors()
            self.read_ahead("(i64)blockIdx.x * together", [*self.vectors, *self.singles])
        with self.block(head):
            if self.group:
                self.choose_row("first")
            else:
                self.line(f"const {'int' if self.held else 'i64'} length = {'(int)' if self.held else ''}columns;")
                self.decode("row", self.outer)
            self.begin_row(self.outer)
            if self.held and self.width > 1 and not self.sums:
                with self.block("if (whole)"):
                    self.whole = True
                    self.hold()
                    self.row()
                with self.block("else"):
                    self.other_rows()
            else:
                self.hold()
                self.row()
        self.end_sums()
        return self.function(symbol, self.threads, scratch, held=self.blocks)

    def other_rows(self) -> None:
        """A row that is not of whole vectors: element by element, and each stage reads memory again."""
        writer = Rows(self.kernel, self.form, vectors=False)
        writer.lines, writer.indent, writer.based, writer.bases = self.lines, self.indent, self.based, self.bases
        writer.joined, writer.side, writer.short, writer.batch = self.joined, self.side, True, self.batch
        writer.row()

    @property
    def blocks(self) -> int:
        """How many blocks a multiprocessor holds at least: so many that one is read while another computes.

        Without a number the compiler tries to hold more, and spills registers.
        """
        if self.sums:
            return MANY // self.threads
        return HELD_ROWS if self.form == "group" or self.small else 0

    def choose_row(self, first: str) -> None:
        """This thread's one of the rows from `first` on; the last one, of no length, where there are not so many."""
        self.line(f"const bool live = {first} + group < rows;")
        self.line(f"const i64 row = live ? {first} + group : rows - 1;")
        self.line("const int length = live ? (int)columns : 0;")
        self.decode("row", self.outer)

    # --- what waits for later stages ---

    def hold(self) -> None:
        """Places for the kept values."""
        if self.held == "shared":
            unit = self.threads * self.width
            self.line(f"const int capacity = (length + {unit - 1}) / {unit} * {unit};")
            for i in self.kept:
                kind = "char" if i in self.packs else self.kept_type(i)
                where = f"(char*)jg_shared + capacity * {self.place_of[i]}"
                self.line(f"{kind}* const h{i} = ({kind}*)({where});")
                self.slots[i] = f"h{i}"
            slot = f"(c * {self.width} + k)" if self.width > 1 else "c"
            self.slot_index = f"{slot} * {self.threads} + threadIdx.x"
        elif self.held:
            if not self.ahead:
                self.declare_vectors()
            for i in self.kept:
                if i not in self.preloaded:
                    self.line(f"{self.kept_type(i)} h{i}[{self.chunks * self.width}];")
                    self.slots[i] = f"h{i}"
            self.slot_index = f"c * {self.width} + k" if self.width > 1 else "c"

    def kept_type(self, i: int) -> str:
        return (STORED if self.as_stored(i) else COMPUTED)[self.kernel.dtype_of(i).name]

    def recall_vectors(self, indices: Iterable[int], stage: int) -> None:
        for i in indices:
            if i in self.packs and self.plan.stage[i] < stage:
                kind = f"{self.kept_type(i)}, {self.width}"
                self.line(f"const jg_pack<{kind}> x{i} = jg_kept<{self.threads}, {kind}>(h{i}, c);")
            elif i in self.packs and not self.is_vector(i, stage):
                self.line(f"jg_pack<{self.kept_type(i)}, {self.width}> y{i};")

    def keep_vectors(self, indices: Iterable[int], stage: int) -> None:
        for i in indices:
            if i in self.packs and self.plan.stage[i] == stage:
                self.line(f"jg_keep<{self.threads}>(h{i}, c, {'x' if self.is_vector(i, stage) else 'y'}{i});")

    # --- reading into registers ---

    @property
    def ahead(self) -> bool:
        """Whether the next row is read before its turn: with sums of columns, there are few blocks."""
        return bool(self.sums) and self.held == "registers"

    def declare_vectors(self) -> None:
        for i in self.vectors:
            self.line(f"jg_held<{self.kept_type(i)}, {self.width}> x{i}[{self.chunks}];")
            self.preloaded[i] = f"jg_of(x{i}[c], k)"
        for i in self.singles:
            self.line(f"{self.kept_type(i)} x{i};")
            self.preloaded[i] = f"x{i}"

    def read_ahead(self, first: str, which: Sequence[int]) -> None:
        """Read what belongs to this thread's one of the rows from `first` on."""
        if not which:
            return
        with self.block():
            self.choose_row(first)
            outside = dict(self.bases)
            self.begin_row(self.outer, sorted({self.kernel.body[i].operand for i in which}))
            for i in which:
                if i in self.singles:
                    self.line(f"x{i} = {self.place(self.kernel.body[i].operand)};")
            vectors = [i for i in which if i in self.vectors]
            if vectors:
                self.whole_or_not(lambda: self.read_chunks(vectors))
            self.bases = outside

    def read_chunks(self, which: Sequence[int]) -> None:
        """All of it before anything is computed."""
        call, count = ("jg_read", "") if self.whole else ("jg_read_some", ", length - e")
        with self.each_chunk():
            for i in which:
                place = self.vector_place(self.kernel.body[i].operand)
                self.line(f"jg_hold(x{i}[c], {call}<{self.width}>({place}{count}));")

    def first(self, chunk: str) -> str:
        """The lane index of this thread's vector number `chunk`."""
        own = f"({chunk} * {self.side} + {'lane' if self.group else '(int)threadIdx.x'})"
        return f"{own} * {self.width}" if self.width > 1 else own

    @contextmanager
    def each_chunk(self) -> Iterator[None]:
        """Around what is done for a thread's vector from `e` on."""
        self.line("#pragma unroll")
        with self.block(f"for (int c = 0; c < {self.chunks}; c++)"):
            self.line(f"const int e = {self.first('c')};")
            with self.block("if (e < length)"):
                yield

    def whole_or_not(self, write: Callable[[], None]) -> None:
        """Lines for rows of whole vectors, and for others."""
        if self.width == 1 or self.whole:
            write()
            return
        for head, self.whole in (("if (whole)", True), ("else", False)):
            with self.block(head):
                write()
        self.whole = False

    # --- loops ---

    def loop(self, indices: Sequence[int], stage: int) -> None:
        if self.held == "registers":
            self.whole_or_not(lambda: self.over_chunks(indices, stage))
            if self.ahead:
                over = [i for i in self.vectors if last_stage(self.plan, i) == stage]
                self.read_ahead("first + step", [*over, *(self.singles if stage == 0 else ())])
        elif self.held == "shared":
            self.whole_or_not(lambda: self.over_shared(indices, stage))
        elif len(self.inner) == 1:
            self.along_row(indices, stage)
        else:
            self.over_space(indices, stage)

    def over_chunks(self, indices: Sequence[int], stage: int) -> None:
        """Vectors in registers."""
        reads = [] if self.ahead else [i for i in self.vectors if self.plan.stage[i] == stage]
        if reads:
            self.read_chunks(reads)
        self.divisors(indices)
        with self.each_chunk():
            self.elements(indices, stage, "length")

    def over_shared(self, indices: Sequence[int], stage: int) -> None:
        """Vectors of which something waits in shared memory."""
        self.divisors(indices)
        with self.block(f"for (int c = 0, e = {self.first('0')}; e < length; c++, e += {self.side}{self.times})"):
            self.elements(indices, stage, "length")

    def divisors(self, indices: Sequence[int]) -> None:
        """What division by a number of the row takes, once for each row."""
        for i in self.quotients(indices):
            self.line(f"const jg_divisor d{i} = jg_divided_by(v{self.kernel.body[i].args[1]});")

    def along_row(self, indices: Sequence[int], stage: int) -> None:
        """Vectors of the one inner axis."""
        times = self.times
        if self.group:
            head = f"for (int e = lane{times}; e < length; e += lanes{times})"
        elif self.split:
            head = (f"for (i64 e = ((i64)blockIdx.y * {self.threads} + threadIdx.x){times}; e < length; "
                    f"e += (i64)gridDim.y * {self.threads * self.width})")
        else:
            kind = "int" if self.short else "i64"
            head = f"for ({kind} e = ({kind})threadIdx.x{times}; e < length; e += {self.side}{times})"
        if self.batch > 1:
            self.line(f"#pragma unroll {self.batch}")
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


def functions(kernel: Kernel) -> list[list[tuple[str, Rows]]]:
    """The functions of a kernel, with what their names end in: of those that are launched together a list."""
    single, alone = len(kernel.inner) == 1, not kernel.outer
    mixes = any(s.op == "column" for s in kernel.body)
    found: list[list[tuple[str, Rows]]] = []

    def add(suffix: str, writer: Rows) -> None:
        if not found or writer.longest > found[-1][0][1].longest:
            found.append([(suffix, writer)])

    if single and not mixes and not alone and stages_of(kernel) <= 1:
        add("_warp", Rows(kernel, "warp"))
    elif single and (mixes or Rows(kernel, "group", "registers").kept):
        add("_group", Rows(kernel, "group", "registers"))
        if not alone and not mixes:
            add("_block", Rows(kernel, "block", "shared", most=HELD_ROW))
        if not alone:
            add("_shared", Rows(kernel, "block", "shared"))
    kernel = with_spreads(kernel)
    stages = stages_of(kernel)
    if stages <= 1 and not mixes:
        add("_split" if found else "", Rows(kernel, "split"))
        return found
    phases = [(f"_phase{s}", Rows(kernel, "split", phase=s)) for s in range(stages)]
    divided = not mixes and all(o.role != "inout" for o in kernel.operands)
    if not alone and not single and divided:
        add("_sweeps", Rows(kernel, "sweeps", most=SHORT))
    if divided:
        found.append(phases)
    if not alone or not divided:
        found.append([("_sweeps" if found else "", Rows(kernel, "sweeps"))])
    return found
