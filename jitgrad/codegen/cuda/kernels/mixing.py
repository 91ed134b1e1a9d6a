"""Sums of columns in a kernel of rows (the kind `mix`): a thread has the same columns in all rows of its block.

Its sums are where what waits for later stages is: in registers, in shared memory, or in the block's own part of the
result. The end writes that part, and zeros to those that no block has.
"""

from jitgrad.codegen.cuda.kernels.reducing import Reducing
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED
from jitgrad.codegen.lower.column_sums import PARTS


class Mixing(Reducing):
    """What a writer of rows prints for its sums of columns.

    Attributes:
        sums: the statements that are sums of columns.
        held: where a row waits: "registers", "shared" or "".
        group: whether several rows may share a block.
        threads, chunks: of a row, and vectors of a thread.
        inner: the axes of a row.
    """

    sums: list[int]
    held: str
    group: bool
    threads: int
    chunks: int
    inner: range

    def held_bytes(self) -> int:
        """Bytes of shared memory for each element of a row."""
        raise NotImplementedError

    def first(self, chunk: str) -> str:
        """The first element of a chunk."""
        raise NotImplementedError

    def sums_bytes(self) -> int:
        """Bytes of the sums of a column."""
        return sum(self.kernel.dtype_of(i).itemsize for i in self.sums)

    def begin_sums(self) -> None:
        """Places for the sums of columns, all zero."""
        if self.held == "shared" and self.sums:
            unit = self.threads * self.width
            self.line(f"const int room = jg_parts(columns, {unit}) * {unit};")
        at = self.held_bytes() - self.sums_bytes()
        for i in self.sums:
            kind = COMPUTED[self.kernel.dtype_of(i).name]
            if self.held == "registers":
                self.line(f"{kind} a{i}[{self.chunks * self.width}] = {{}};")
            elif self.held:
                self.line(f"{kind}* const a{i} = ({kind}*)((char*)jg_shared + room * {at});")
                at += self.kernel.dtype_of(i).itemsize
                self.line(f"for (i64 j = threadIdx.x; j < room; j += blockDim.x) a{i}[j] = 0;")
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
        if self.group:
            widest = max(self.kernel.dtype_of(s).itemsize for s in self.sums)
            self.line(f"__shared__ u64 jg_sums[{self.threads // 2 * self.chunks * self.width * widest // 8}];")
        for i in self.sums:
            target = f"p{self.kernel.body[i].operand}"
            if self.group:
                self.join_groups(i)
            if self.held:
                with self.block("if (group == 0)" if self.group else None):
                    self.put_sums(i, f"{target}[blockIdx.x * columns + e + k] = {{}}")
            with self.block(f"for (i64 part = blockIdx.x + gridDim.x; part < {PARTS}; part += gridDim.x)"):
                self.line(f"for (i64 j = threadIdx.x; j < columns; j += blockDim.x) {target}[part * columns + j] = 0;")

    def join_groups(self, i: int) -> None:
        """Add up the sums of all rows that this block works on at once: by pairs, until the first has all."""
        kind = COMPUTED[self.kernel.dtype_of(i).name]
        self.line(f"{kind}* const g{i} = ({kind}*)jg_sums;")
        with self.block("for (int half = together >> 1; half; half >>= 1)"):
            with self.block("if (group >= half && group < 2 * half)"):
                self.put_sums(i, f"g{i}[(group - half) * columns + e + k] = {{}}")
            self.line("__syncthreads();")
            with self.block("if (group < half)"):
                self.put_sums(i, f"{{}} += g{i}[group * columns + e + k]")
            self.line("__syncthreads();")

    def put_sums(self, i: int, put: str) -> None:
        """What is done with each of a thread's sums, by `put`, that of column e + k."""
        end = f"{self.first('c')} < columns" if self.held == "shared" else f"c < {self.chunks}"
        self.line("#pragma unroll" if self.held == "registers" else "#pragma unroll 1")
        with self.block(f"for (int c = 0; {end}; c++)"):
            self.line(f"const int e = {self.first('c')};")
            self.line("#pragma unroll")
            with self.block(f"for (int k = 0; k < {self.width}; k++)"):
                self.line(f"if (e + k < columns) {put.format(f'a{i}[{self.slot_index}]')};")
