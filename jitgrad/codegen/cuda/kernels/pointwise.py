"""Kernels without inner axes: threads stride over vectors of E neighbours along the lane axis.

The tail of each row of vectors, and all of them where an operand is not aligned, is read and written element by
element. Operands may be the same memory element by element: a thread reads its vectors before it writes them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.kernels.writer import Writer
from jitgrad.codegen.program.kernel import Kernel

#: threads of a block, and the most blocks: beyond, threads take several vectors each. Of 132 multiprocessors each gets
#: 48 blocks, which divides well into as many as it holds at a time
THREADS, MOST = 256, 132 * 48


class Pointwise(Writer):
    """The kind `pw`."""

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
        others = [a for a in self.plan.order if a != lane]
        if self.width == 1:
            self.walk(others)
        else:
            with self.block(f"if ({self.alignment()})"):
                self.walk(others)
            with self.block("else"), self.alone():
                self.walk(others)
        return self.function(symbol, THREADS)

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
            for whole, part in (("rest", f"i64 {name}"), ("pace", f"const i64 by_{name}")):
                self.line(f"above = jg_over({whole}, {size});")
                self.line(f"{part} = {whole} - above * {size};")
                self.line(f"{whole} = above;")
        last, most = digits[-1]
        self.line(f"i64 {last} = rest;")
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
