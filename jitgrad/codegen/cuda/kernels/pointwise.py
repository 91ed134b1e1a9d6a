"""Kernels without inner axes: threads stride over vectors of E neighbours along the lane axis.

The tail of each row of vectors, and all of them where an operand is not aligned, is read and written element by
element. Operands may be the same memory element by element: a thread reads its vectors before it writes them.

Of few elements blocks are smaller, so that the whole device takes part, and what costs much to compute is done for two
elements a thread rather than eight, by a function of its own: `..._few`.
"""

from dataclasses import replace

from jitgrad.codegen.cuda.kernels.addresses import lane_of
from jitgrad.codegen.cuda.kernels.geometry import ANY, Form, Launch
from jitgrad.codegen.cuda.kernels.writer import Writer
from jitgrad.codegen.program.kernel import Kernel, is_expensive

#: threads of a block, and the most blocks: beyond, threads take several vectors each
THREADS, MOST = 256, 1 << 16

#: multiprocessors of a large device, threads of a block that is one of many
PROCESSORS, SMALL = 132, 64
#: so many costly statements are worth a function of their own, whose threads take so many elements each
COSTLY, WIDTH = 2, 2


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


class Few(Pointwise):
    """The same for two elements a thread."""

    def __init__(self, kernel: Kernel):
        super().__init__(kernel)
        self.width = min(self.width, WIDTH)


def has_own(kernel: Kernel) -> bool:
    """Whether a kernel has a function for few elements."""
    return (sum(is_expensive(s.op) for s in kernel.body) >= COSTLY and Pointwise(kernel).width > WIDTH)


def forms(kernel: Kernel, symbol: str) -> tuple[Form, ...]:
    """How to launch a pointwise kernel: by the number of its elements, which is `inner` here as well as `outer`."""
    whole = Pointwise(kernel).form(symbol)
    (launch,) = whole.launches
    bound = 2 * PROCESSORS * launch.each
    small: Launch = replace(launch, threads=SMALL, each=launch.each // (launch.threads // SMALL))
    if has_own(kernel):
        width = Few(kernel).width
        small = replace(small, symbol=f"{symbol}_few", threads=2 * SMALL, each=2 * SMALL * width)
    return Form(bound, (small,)), whole
