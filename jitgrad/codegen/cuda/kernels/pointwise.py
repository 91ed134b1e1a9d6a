"""Kernels without inner axes: threads stride over vectors of E neighbours along the lane axis.

The tail of each row of vectors, and all of them where an operand is not aligned, is read and written element by
element. Operands may be the same memory element by element: a thread reads its vectors before it writes them.
"""

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.kernels.writer import Writer
from jitgrad.codegen.program.kernel import Kernel

#: threads of a block, and the most blocks: beyond, threads take several vectors each
THREADS, MOST = 256, 1 << 16


class Pointwise(Writer):
    """The kind `pw`."""

    def __init__(self, kernel: Kernel):
        super().__init__(kernel, lane_of(kernel))

    def form(self, symbol: str) -> Form:
        return Form(ANY, (Launch(symbol, THREADS, THREADS * self.width, MOST),))

    def source(self, symbol: str) -> str:
        self.describe()
        lane, width, everything = self.lane, self.width, range(len(self.kernel.body))
        if lane < 0:
            with self.block("if (jg_thread() == 0)"):
                for i in everything:
                    self.statement(i, 0)
            return self.function(symbol, THREADS)
        others = [a for a in self.plan.order if a != lane]
        if width > 1:
            self.line(f"const bool aligned = {self.alignment()};")
        if others:
            self.line(f"const i64 across = {self.across}, total = {self.product(others)} * across;")
        else:
            self.line(f"const i64 total = {self.across};")
        with self.block("for (i64 t = jg_thread(); t < total; t += jg_threads())"):
            if others:
                self.line(f"const i64 row = jg_over(t, across), e = (t - row * across){self.times};")
                self.decode("row", others)
            else:
                self.line(f"const i64 e = t{self.times};")
            self.elements(everything, 0, f"n{lane}")
        return self.function(symbol, THREADS)
