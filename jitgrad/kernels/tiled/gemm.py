"""Matrix products by tiles: what the products of `products.py` are made by where that is faster than the BLAS.

    jg_tiled_float32(a, b, c, m, n, k, lda, ldb, ldc, kind)        # or float64

c[m, n] = a[m, k] @ b[k, n] (+ c); `kind` as there. A tile is some rows of some vectors of c. What it reads of b lies in
a panel, a copy of those columns. Each element is summed in the order of k: the same bits however c is cut.

Goto, van de Geijn: Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34 (2008), has the loops' order.
"""

from __future__ import annotations

import itertools

from jitgrad.kernels.native import Native
from jitgrad.kernels.products import ACCUMULATE, TILED, TRANS_A, TRANS_B
from jitgrad.kernels.tiled.tiles import ELEMENTS, Tiles
from jitgrad.kernels.values import V

#: rows of a panel: it stays in the second cache, the rows of a that go with it in the first
DEPTH = 256
#: bytes of a line of the cache, at which a panel begins
LINE = 64


class Gemm(Tiles):
    """The functions of one element type, for a machine."""

    vectors = (3, 2, 1)  # of a tile

    @property
    def rows(self) -> tuple[int, ...]:
        """Of a tile, the largest first: its sums, a row of the panel and an element of a are all the registers."""
        return (8, 4, 1) if self.machine[1] else (4, 1)

    def text(self) -> str:
        """The function and what it calls."""
        for r, n in itertools.product(self.rows, self.vectors):
            self._tile(r, n)
        self._whole()
        own = [d for name, d in self.declares.items() if not name.startswith("jg_tile")]
        return "\n".join([*own, *self.texts])

    def _tile(self, rows: int, vectors: int) -> None:
        """c[r, :] = the sum over k of a[r * row + k * step] * panel[k, :], on top of c where `more`; of the last vector
        `last` lanes.
        """
        f, (a, row, step, panel, count, c, ldc, last, more) = self._function(
            f"internal void @jg_tile{rows}x{vectors}_{self.name}",
            ["ptr %a", "i64 %row", "i64 %step", "ptr %panel", "i64 %count", "ptr %c", "i64 %ldc", "i64 %last",
             "i1 %more"])
        edge = self._first(f, last)
        masks = [*[f.const(True, "i1", self.lanes)] * (vectors - 1), edge]
        before = [mask & more.splat(self.lanes) for mask in masks]
        targets = [f.at(c, ldc * r, self.elem) for r in range(rows)]
        sums = [[f.variable(self._read_some(f, to, v * self.lanes, before[v])) for v in range(vectors)]
                for to in targets]
        starts = [f.at(a, row * r, self.elem) for r in range(rows)]
        with f.each(count) as k:
            here = f.at(panel, k * (vectors * self.lanes), self.elem)
            given = [self._read(f, here, v * self.lanes) for v in range(vectors)]
            place = k * step
            for r in range(rows):
                x = f.load(starts[r], place, self.elem).splat(self.lanes)
                for v in range(vectors):
                    sums[r][v].value = x.mad(given[v], sums[r][v].value)
        for to, found in zip(targets, sums, strict=True):
            for v in range(vectors - 1):
                self._write(f, found[v].value, to, v * self.lanes)
            self._write_some(f, found[-1].value, to, (vectors - 1) * self.lanes, edge)
        self._finish(f, " noinline")

    def _whole(self) -> None:
        """Panels of columns, as equal as can be, and over each all tiles of rows."""
        f, (a, b, c, m, n, k, lda, ldb, ldc, kind) = self._function(
            f"void @{TILED}{self.name}", [f"ptr %{name}" for name in "abc"] + [
                f"i64 %{name}" for name in ("m", "n", "k", "lda", "ldb", "ldc", "kind")])
        trans_a, trans_b, more = [(kind & (1 << bit)).ne(0) for bit in (TRANS_A, TRANS_B, ACCUMULATE)]
        row, step = trans_a.where(f.number(1), lda), trans_a.where(lda, 1)
        most = self.vectors[0]
        memory = f.room(DEPTH * most * self.lanes + LINE // self.size, self.elem).cast("ptrtoint", "i64")
        panel = ((memory + (LINE - 1)) & -LINE).cast("inttoptr", "ptr")
        blocks = (k + (DEPTH - 1)).op("udiv", DEPTH)
        depth = (k + (blocks - 1)).op("udiv", blocks)
        vectors = (n + (self.lanes - 1)).op("udiv", self.lanes)
        with f.each(blocks) as block:
            begin = block * depth
            count, again = (k - begin).intrinsic("smin", depth), more | (block > 0)
            done = f.variable(f.number(0))
            with f.loop() as stop:
                left = vectors - done.value
                with f.when(left.eq(0)):
                    stop()
                panels = (left + (most - 1)).op("udiv", most)
                wide = (left + (panels - 1)).op("udiv", panels)
                column = done.value * self.lanes
                columns = (n - column).intrinsic("smin", wide * self.lanes)
                last = columns - (wide - 1) * self.lanes
                with f.when(trans_b):
                    self._transposed(f, panel, f.at(b, column * ldb + begin, self.elem), count, columns, wide, ldb)
                with f.unless(trans_b):
                    self._copied(f, panel, f.at(b, begin * ldb + column, self.elem), count, last, wide, ldb)
                for r, first in self._tiles(f, m, self.rows):
                    given = (f.at(a, first * row + begin * step, self.elem), row, step, panel, count,
                             f.at(c, first * ldc + column, self.elem), ldc, last, again)
                    for n_vectors in self.vectors:
                        with f.when(wide.eq(n_vectors)):
                            f.do(f"jg_tile{r}x{n_vectors}_{self.name}", *given)
                done.value = done.value + wide
        self._finish(f)

    def _copied(self, f: Native, panel: V, b: V, count: V, last: V, wide: V, ldb: V) -> None:
        """A panel of columns of b from a place on; zeros beside the last."""
        edge, before = self._first(f, last), (wide - 1) * self.lanes
        with f.each(count) as i:
            source, target = f.at(b, i * ldb, self.elem), f.at(panel, i * wide * self.lanes, self.elem)
            with f.each(wide - 1) as v:
                self._write(f, self._read(f, source, v * self.lanes), target, v * self.lanes)
            self._write(f, self._read_some(f, source, before, edge), target, before)

    def _transposed(self, f: Native, panel: V, b: V, count: V, columns: V, wide: V, ldb: V) -> None:
        """A panel of rows of b."""
        to = wide * self.lanes
        f.do(f"jg_transpose_{8 * self.size}", panel, b, count, columns, to, ldb)
        with f.each(to - columns) as j, f.each(count) as i:
            f.store(f.const(0.0, self.elem, 1), panel, i * to + columns + j)


def text(vector_bytes: int, has_fma: bool, has_avx512: bool) -> str:
    """The functions of all element types."""
    return "\n".join([Gemm(name, vector_bytes, has_fma, has_avx512).text() for name in ELEMENTS])
