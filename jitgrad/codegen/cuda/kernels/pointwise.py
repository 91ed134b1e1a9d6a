"""Kernels without inner axes: threads stride over vectors of E neighbours along the lane axis.

Where an operand's neighbours are along another axis, as those of a transposed matrix, blocks take tiles (`Tiled`).

The tail of each row of vectors, and all of them where an operand is not aligned, is read and written element by
element. Operands may be the same memory element by element: a thread reads its vectors before it writes them.

Of few elements blocks are smaller, so that the whole device takes part, and what costs much to compute is done for two
elements a thread rather than eight, by a function of its own: `..._few`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.kernels.scalars import STORED, widen
from jitgrad.codegen.cuda.kernels.writer import Writer
from jitgrad.codegen.program.kernel import Kernel, is_expensive

#: threads of a block, and the most blocks: beyond, threads take several vectors each. Of 132 multiprocessors each gets
#: 48 blocks, which divides well into as many as it holds at a time
THREADS, MOST = 256, 132 * 48
#: the shortest axes whose elements are taken in tiles, and the most operands that have tiles
LEAST, MOST_TILES = 16, 4
#: bytes of shared memory for tiles of 64 by 64; more get smaller ones
MOST_SHARED = 36 << 10

#: multiprocessors of a large device, threads of a block that is one of many
PROCESSORS, SMALL = 132, 64
#: so many costly statements are worth a function of their own, whose threads take so many elements each
COSTLY, WIDTH = 2, 2


class Pointwise(Writer):
    """The kind `pw`."""

    widens = True

    def __init__(self, kernel: Kernel):
        super().__init__(kernel, lane_of(kernel))

    def form(self, symbol: str) -> Form:
        return Form(ANY, (Launch(symbol, THREADS, THREADS * self.width, MOST),))

    def source(self, symbol: str) -> str:
        self.describe()
        lane = self.lane
        if lane < 0:
            with self.block("if (jg_thread() == 0)"):
                for i in range(len(self.kernel.body)):
                    self.statement(i, 0)
            return self.function(symbol, THREADS)
        self.over_all([a for a in self.plan.order if a != lane])
        return self.function(symbol, THREADS)

    def over_all(self, others: Sequence[int]) -> None:
        """All elements: in vectors where memory is aligned."""
        if self.width == 1:
            self.walk(others)
            return
        with self.block(f"if ({self.alignment()})"):
            self.walk(others)
        with self.block("else"), self.alone():
            self.walk(others)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What is printed is for one element at a time, not for vectors."""
        kept = self.width, self.units
        self.width, self.units = 1, set()
        yield
        self.width, self.units = kept

    def walk(self, others: Sequence[int]) -> None:
        """The loop of a thread over its vectors. Divisions find the first one, and how far it is to the next."""
        if not others:
            self.line(f"const i64 total = {self.across};")
            with self.block("for (i64 t = jg_thread(); t < total; t += jg_threads())"):
                self.line(f"const i64 e = t{self.times};")
                self.vector()
            return
        self.line(f"const i64 across = {self.across};")
        digits = [("column", "across"), *[(f"i{a}", f"n{a}") for a in reversed(others)]]
        self.line("i64 rest = jg_thread(), pace = jg_threads(), above;")
        for name, size in digits[:-1]:
            self.line(f"above = jg_over(rest, {size});")
            self.line(f"i64 {name} = rest - above * {size}, by_{name} = 0;")
            self.line("rest = above;")
        last, most = digits[-1]
        self.line(f"i64 {last} = rest;")
        with self.block(f"if (pace < {' * '.join(size for _, size in digits)})"):  # else all is done in one go
            for name, size in digits[:-1]:
                self.line(f"above = jg_over(pace, {size});")
                self.line(f"by_{name} = pace - above * {size};")
                self.line("pace = above;")
        with self.block("else"):
            self.line(f"pace = {most};")
        with self.block(f"while ({last} < {most})"):
            self.line(f"const i64 e = column{self.times};")
            self.vector()
            carried = ""
            for name, size in digits[:-1]:
                self.line(f"{name} += by_{name}{carried};")
                self.line(f"const bool past_{name} = {name} >= {size};")
                self.line(f"if (past_{name}) {name} -= {size};")
                carried = f" + past_{name}"
            self.line(f"{last} += pace{carried};")

    def vector(self) -> None:
        """The statements for the elements from lane index `e` on: a vector, or one by one what is left of a row."""
        everything = range(len(self.kernel.body))
        if self.width == 1:
            self.elements(everything, 0, f"n{self.lane}")
            return
        self.line(f"const int m = jg_rest<{self.width}>(n{self.lane} - e);")
        with self.block(f"if (m == {self.width})"):
            self.whole = True
            self.elements(everything, 0, f"n{self.lane}")
            self.whole = False
        with self.block("else"), self.alone():
            self.line("const i64 first = e;")
            self.line("#pragma unroll 1")
            with self.block("for (int k = 0; k < m; k++)"):
                self.line("const i64 e = first + k;")
                self.elements(everything, 0, f"n{self.lane}")


class Tiled(Pointwise):
    """The kind `pw` where operands have their neighbours across the lanes, along axis `other`.

    A block takes squares of SIDE elements along both axes. It reads those operands along `other`, what is to be written
    to such ones it writes along `other`, and in between they are in shared memory, `tile<k>`: all accesses to memory
    are of neighbours. Rows of a tile are an odd number of words apart, so that a column is in different banks.
    """

    def __init__(self, kernel: Kernel):
        super().__init__(kernel)
        self.other, self.across_lanes = across(kernel, self.lane)
        self.side = 64
        if sum(self.side * self.pitch(k) * kernel.operands[k].dtype.itemsize for k in self.across_lanes) > MOST_SHARED:
            self.side = 32
        self.inside = False     # whether statements are printed for a place of a tile

    def over_all(self, others: Sequence[int]) -> None:
        with self.block(f"if (n{self.lane} >= {LEAST} && n{self.other} >= {LEAST})"):
            self.tiles([a for a in others if a != self.other])
        with self.block("else"):
            super().over_all(others)

    def tiles(self, others: Sequence[int]) -> None:
        side, lane, other = self.side, self.lane, self.other
        for k in self.across_lanes:
            self.line(f"__shared__ {STORED[self.kernel.operands[k].dtype.name]} tile{k}[{side} * {self.pitch(k)}];")
        if self.width > 1:
            self.line(f"const bool aligned = {self.alignment()};")
        self.line(f"const i64 wide = jg_parts(n{lane}, {side}), high = jg_parts(n{other}, {side});")
        self.line(f"const i64 total = {self.product(others)} * wide * high;")
        with self.block("for (i64 t = blockIdx.x; t < total; t += gridDim.x)"):
            self.line("const i64 line = jg_over(t, wide), from_lane = (t - line * wide) * " + f"{side};")
            self.line(f"const i64 row = jg_over(line, high), from_other = (line - row * high) * {side};")
            self.decode("row", others)
            self.line("__syncthreads();")
            self.line(f"const int lanes = jg_rest<{side}>(n{lane} - from_lane);")
            self.line(f"const int others = jg_rest<{side}>(n{other} - from_other);")
            for k in self.across_lanes:
                if self.kernel.operands[k].role == "in":
                    self.read_tile(k)
            self.line("__syncthreads();")
            per_line = side // self.width
            self.line(f"#pragma unroll {min(2, side * per_line // THREADS)}")
            with self.block(f"for (int v = threadIdx.x; v < {side * per_line}; v += {THREADS})"):
                self.line(f"const int beside = v / {per_line}, along = v % {per_line}{self.times};")
                self.line(f"const i64 i{other} = from_other + beside, e = from_lane + along;")
                with self.block("if (beside < others && along < lanes)"):
                    self.inside = True
                    self.elements(range(len(self.kernel.body)), 0, f"n{lane}")
                    self.inside = False
            written = [k for k in self.across_lanes if self.kernel.operands[k].role != "in"]
            if written:
                self.line("__syncthreads();")
                for k in written:
                    self.write_tile(k)

    def pitch(self, k: int) -> int:
        """Elements from one row of a tile to the next."""
        return self.side + max(1, 4 // self.kernel.operands[k].dtype.itemsize)

    @contextmanager
    def places(self, k: int) -> Iterator[str]:
        """The loop of a thread over its places of a tile, `at` in memory: threads side by side have neighbours along
        `other`. Gives what says whether place `j` is inside.
        """
        side, lane, other, apart = self.side, self.lane, self.other, THREADS // self.side
        operand = self.kernel.operands[k]
        kind = f"{'const ' if operand.role == 'in' else ''}{STORED[operand.dtype.name]}*"
        self.line(f"const int beside = threadIdx.x % {side}, first = threadIdx.x / {side};")
        self.line(f"const i64 i{other} = from_other + beside, i{lane} = from_lane + first;")
        self.line(f"{kind} at = &{self.place(k)};")
        (step,) = self.term(str(apart), operand.strides[lane], ("o", k, lane))
        self.line("#pragma unroll")
        with self.block(f"for (int j = 0; j < {side // apart}; j++, at += {step})"):
            yield f"beside < others && first + j * {apart} < lanes"

    def read_tile(self, k: int) -> None:
        """All reads are under way before the first is waited for."""
        kind, apart = STORED[self.kernel.operands[k].dtype.name], THREADS // self.side
        with self.block():
            self.line(f"{kind} got[{self.side // apart}] = {{}};")
            with self.places(k) as inside:
                self.line(f"if ({inside}) got[j] = *at;")
            self.line("#pragma unroll")
            self.line(f"for (int j = 0; j < {self.side // apart}; j++) "
                      f"tile{k}[(first + j * {apart}) * {self.pitch(k)} + beside] = got[j];")

    def write_tile(self, k: int) -> None:
        apart = THREADS // self.side
        with self.block(), self.places(k) as inside:
            self.line(f"if ({inside}) *at = tile{k}[(first + j * {apart}) * {self.pitch(k)} + beside];")

    def in_tile(self, k: int, vector: bool) -> str:
        return f"tile{k}[(along{' + k' if vector else ''}) * {self.pitch(k)} + beside]"

    def value(self, i: int, stage: int, vector: bool) -> str:
        stmt = self.kernel.body[i]
        if self.inside and stmt.op == "load" and stmt.operand in self.across_lanes:
            return widen(self.in_tile(stmt.operand, vector), self.kernel.dtype_of(i))
        return super().value(i, stage, vector)

    def target(self, i: int, vector: bool) -> str:
        """Where a store goes."""
        k = self.kernel.body[i].operand
        return self.in_tile(k, vector) if self.inside and k in self.across_lanes else super().target(i, vector)


def across(kernel: Kernel, lane: int) -> tuple[int, list[int]]:
    """The axis along which most bytes of operands have their neighbours that have none along the lanes, and these
    operands; -1 if there are none, or they are not read or written just once.
    """
    found: dict[int, list[int]] = {}
    for k, operand in enumerate(kernel.operands):
        uses = [s.op for s in kernel.body if s.operand == k]
        if lane < 0 or operand.strides[lane] in (0, 1) or uses not in (["load"], ["store"]) or operand.role == "inout":
            continue
        for axis, stride in enumerate(operand.strides):
            if axis != lane and isinstance(stride, int) and stride == 1:
                found.setdefault(axis, []).append(k)
    if not found:
        return -1, []
    axis = max(found, key=lambda a: sum(kernel.operands[k].dtype.itemsize for k in found[a]))
    return axis, sorted(found[axis], key=lambda k: kernel.operands[k].role != "in")[:MOST_TILES]


def pointwise(kernel: Kernel) -> Pointwise:
    """The writer of a kernel without inner axes."""
    return Tiled(kernel) if across(kernel, lane_of(kernel))[1] else Pointwise(kernel)


class Few(Pointwise):
    """The same for two elements a thread."""

    def __init__(self, kernel: Kernel):
        super().__init__(kernel)
        self.width = min(self.width, WIDTH)


def has_own(kernel: Kernel) -> bool:
    """Whether a kernel has a function for few elements."""
    writer = pointwise(kernel)
    return (not isinstance(writer, Tiled) and sum(is_expensive(s.op) for s in kernel.body) >= COSTLY
            and writer.width > WIDTH)


def forms(kernel: Kernel, symbol: str) -> tuple[Form, ...]:
    """How to launch a pointwise kernel: by the number of its elements, which is `inner` here as well as `outer`."""
    writer = pointwise(kernel)
    whole = writer.form(symbol)
    if isinstance(writer, Tiled):
        return (whole,)
    (launch,) = whole.launches
    bound = 2 * PROCESSORS * launch.each
    small: Launch = replace(launch, threads=SMALL, each=launch.each // (launch.threads // SMALL))
    if has_own(kernel):
        width = Few(kernel).width
        small = replace(small, symbol=f"{symbol}_few", threads=2 * SMALL, each=2 * SMALL * width)
    return Form(bound, (small,)), whole


def source(kernel: Kernel, symbol: str) -> str:
    """The functions that `forms` launches."""
    own = [Few(kernel).source(f"{symbol}_few")] if has_own(kernel) else []
    return "\n".join([pointwise(kernel).source(symbol), *own])
