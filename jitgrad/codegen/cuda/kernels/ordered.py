"""Scatters in a fixed order: for each place, the elements that go there, one after the other, by one thread.

The kernel (`lower/rules/ordered.py`) has places, sorted along its first axis; a thread has a position on it and a
vector of elements along the others; the thread at the first position of a place walks over all that have this place
and adds, `AHEAD` rows being read before the first is added; what is put is put by the last of them.
"""

from jitgrad.codegen.cuda.kernels.pointwise import THREADS, Pointwise
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED, STORED, narrow, widen
from jitgrad.codegen.cuda.kernels.writer import Writer
from jitgrad.codegen.program.kernel import ORDERED, Kernel

#: rows that are on their way at a time
AHEAD = 4


def is_ordered(kernel: Kernel) -> bool:
    return kernel.body[-1].op in ORDERED


class Ordered(Pointwise):
    """The kind `gather`."""

    def __init__(self, kernel: Kernel):
        Writer.__init__(self, kernel, len(kernel.outer) - 1)
        store = kernel.body[-1]
        self.store_, self.value_, self.place_ = len(kernel.body) - 1, *store.args
        self.at_ = kernel.body[self.place_].args[0]
        self.to, self.source_, self.places, self.order = (kernel.body[i].operand for i in (
            self.store_, self.value_, self.place_, self.at_))
        d = kernel.operands[self.to].dtype
        both = [kernel.operands[k].strides[self.lane] for k in (self.to, self.source_)]
        self.width = 16 // d.itemsize if len(kernel.outer) > 1 and both == [1, 1] else 1

    def source(self, symbol: str) -> str:
        self.describe()
        kernel, width, rest = self.kernel, self.width, list(range(1, len(self.kernel.outer)))
        d = kernel.operands[self.to].dtype
        kind, computed = STORED[d.name], COMPUTED[d.name]
        pack = f"jg_pack<{kind}, {width}>"
        lanes = f"jg_parts(n{self.lane}, {width})" if rest and width > 1 else f"n{self.lane}" if rest else "1"
        self.line(f"const i64 across = {lanes}, total = {self.product(range(max(1, len(rest))))} * across;")
        with self.block("for (i64 t = jg_thread(); t < total; t += jg_threads())"):
            self.line(f"const i64 row = jg_over(t, across), e = (t - row * across) * {width};")
            self.decode("row", [0, *rest[:-1]])
            self.line(f"const int m = {f'jg_rest<{width}>(n{self.lane} - e)' if rest and width > 1 else '1'};")
            order, places = f"p{self.order}", f"p{self.places}"
            self.line(f"const i64 place = {places}[{order}[i0]];")
            step = self.strides.get(("b", self.value_, 0), str(kernel.body[self.value_].strides[0]))
            to, source = (f"p{k} + {self._elements(k)}" for k in (self.to, self.source_))
            if kernel.body[self.store_].op == "ordered_put":
                self.line(f"if (i0 + 1 < n0 && {places}[{order}[i0 + 1]] == place) continue;")
                self.line(f"jg_write_row<{width}>({to} + place, jg_read_row<{width}>({source} + {order}[i0] * {step}, "
                          "m), m);")
            else:
                self.line(f"if (i0 > 0 && {places}[{order}[i0 - 1]] == place) continue;")
                self.line(f"{pack} sum = jg_read_row<{width}>({to} + place, m);")
                self.line(f"{computed} sums[{width}];")
                self.each_lane(f"sums[k] = {widen('sum.at[k]', d)};")
                added = f"sums[k] + {widen('x[u].at[k]', d)}"
                if d.is_half:  # each sum is rounded, as on the CPU
                    added = widen(narrow(f"({added})", d), d)
                self.line("bool more = true;")
                with self.block(f"for (i64 j = i0; more; j += {AHEAD})"):
                    self.line(f"{pack} x[{AHEAD}];")
                    self.line(f"bool here[{AHEAD}];")
                    self.line("#pragma unroll")
                    with self.block(f"for (int u = 0; u < {AHEAD}; u++)"):
                        self.line(f"const i64 at = j + u < n0 ? {order}[j + u] : {order}[i0];")
                        self.line(f"here[u] = j + u < n0 && {places}[at] == place;")
                        self.line(f"x[u] = jg_read_row<{width}>({source} + at * {step}, here[u] ? m : 0);")
                    self.line("#pragma unroll")
                    with self.block(f"for (int u = 0; u < {AHEAD}; u++)"), self.block("if (here[u])"):
                        self.each_lane(f"sums[k] = {added};")
                    self.line(f"more = here[{AHEAD - 1}];")
                self.each_lane(f"sum.at[k] = {narrow('sums[k]', d)};")
                self.line(f"jg_write_row<{width}>({to} + place, sum, m);")
        return self.function(symbol, THREADS)

    def each_lane(self, text: str) -> None:
        self.line("#pragma unroll")
        self.line(f"for (int k = 0; k < {self.width}; k++) {text}")

    def _elements(self, k: int) -> str:
        """The distance of the element at the current indices, the first axis left out."""
        strides = self.kernel.operands[k].strides
        rest = range(1, len(strides))
        terms = [t for a in rest for t in self.term("e" if a == self.lane else f"i{a}", strides[a], ("o", k, a))]
        return " + ".join(terms) or "0"
