"""Reductions over inner axes where operands are contiguous along an outer one, as the gradient of a bias.

A warp takes 32 neighbouring results, a thread one of them; the warps of a block share the inner space, and with one
stage the blocks along y do, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.codegen.cuda.geometry import Launch
from jitgrad.codegen.cuda.reducing import SHARING, Reducing
from jitgrad.codegen.cuda.writer import lane_of
from jitgrad.codegen.kernel import Kernel

THREADS, MANY, MOST = 256, 1024, 1 << 16
#: elements of a thread, at least, where blocks share the inner space
ELEMENTS = 16


class Columns(Reducing):
    """The kind `col`."""

    joined = "jg_columns<{join}>({part})"
    leader = "threadIdx.x < 32 && live"
    parts, part = 32, "threadIdx.x % 32"

    def __init__(self, kernel: Kernel):
        super().__init__(kernel, lane_of(kernel), vectors=False)
        self.split = self.plan.stages <= 1
        self.threads = THREADS if self.split else MANY

    def launch(self, symbol: str) -> Launch:
        if not self.split:
            return Launch(symbol, self.threads, 32, MOST)
        return Launch(symbol, self.threads, 32, MOST, self.threads // 32 * ELEMENTS, SHARING,
                      scratch=self.scratch_bytes())

    def source(self, symbol: str, scratch: bool) -> str:
        self.describe()
        outer = [a for a in self.plan.order if a < self.n_outer]
        inner = range(self.n_outer, self.n)
        self.line(f"const i64 results = {self.product(outer)}, elements = {self.product(inner)};")
        with self.block("for (i64 tile = (i64)blockIdx.x * 32; tile < results; tile += (i64)gridDim.x * 32)"):
            self.line("const bool live = tile + threadIdx.x % 32 < results;")
            self.line("const i64 number = live ? tile + threadIdx.x % 32 : results - 1;")
            self.line("const i64 length = live ? elements : 0;")
            self.decode("number", outer)
            self.begin_row(outer)
            self.row()
        return self.function(symbol, self.threads, scratch)

    def loop(self, indices: Sequence[int], stage: int) -> None:
        inner = list(range(self.n_outer, self.n))
        begin, step = (("(i64)blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32", "(i64)gridDim.y * (blockDim.x / 32)")
                       if self.split else ("threadIdx.x / 32", "blockDim.x / 32"))
        self.line("#pragma unroll 4")
        with self.block(f"for (i64 e = {begin}; e < length; e += {step})"):
            self.decode("e", inner)
            self.each(indices, stage, "e")


__all__ = ["Columns"]
