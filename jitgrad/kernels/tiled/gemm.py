"""Matrix products by tiles: what the products of `products.py` are made by where that is faster than the BLAS.

    jg_tiled_float32(a, b, c, m, n, k, lda, ldb, ldc, kind)        # or float64
    jg_pack_float32(words, begin, end)      # words: target, a, k, lda; the rows begin .. end of a transposed a

c[m, n] = a[m, k] @ b[k, n] (+ c); `kind` as there. A tile is some rows of some vectors of c. What it reads of b lies in
a panel, a copy of those columns, unless hardly anybody would read it again. A transposed a is read as it is, a line of
the cache for each k, or packed: the rows of a tile side by side, those beyond the last whole tile one after the other.
Each element is summed in the order of k: the same bits however c is cut.

Goto, van de Geijn: Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34 (2008), has the reasons.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from jitgrad.kernels.native import Native
from jitgrad.kernels.products import ACCUMULATE, PACK, PACKED, TILED, TRANS_A, TRANS_B
from jitgrad.kernels.tiled.tiles import ELEMENTS, Tiles, parts
from jitgrad.kernels.values import V

#: rows of a panel: it stays in the second cache, the rows of a that go with it in the first
DEPTH = 256
#: panels at a time where many rows go over them, and how many rows are many: fewer read a panel while the first cache
#: has it
PANELS, MANY = 3, 64
#: rows up to which b is read where it is, if it has whole vectors
FEW = 16
#: elements of k in a turn of the largest tile's loop: their places are parts of instructions
UNROLLED = 4
#: the functions that others call
EXPORTS = tuple([f"{TILED}{name}" for name in ELEMENTS])


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
        for n in self.vectors:
            self._tile(self.rows[0], n, turned=True)
        self._packed()
        self._whole()
        own = [d for name, d in self.declares.items() if not name.startswith("jg_tile")]
        return "\n".join([*own, *self.texts])

    def _name(self, rows: int, vectors: int, turned: bool) -> str:
        return f"jg_tile{rows}x{vectors}{'_turned' * turned}_{self.name}"

    def _tile(self, rows: int, vectors: int, turned: bool = False) -> None:
        """c[r, :] = the sum over k of a[r * by + k] * panel[k * wide, :], on top of c where `more`; of the last vector
        `last` lanes. Where a is turned it is a[k * by + r].
        """
        f, (a, by, panel, wide, count, c, ldc, last, more) = self._function(
            f"internal void @{self._name(rows, vectors, turned)}",
            ["ptr %a", "i64 %by", "ptr %panel", "i64 %wide", "i64 %count", "ptr %c", "i64 %ldc", "i64 %last",
             "i1 %more"])
        targets = [f.at(c, ldc * r, self.elem) for r in range(rows)]
        for to, v in itertools.product(targets, range(vectors)):
            self._ahead(f, to, v * self.lanes)
        sums = [[f.variable(f.const(0.0, self.elem, self.lanes)) for _ in range(vectors)] for _ in targets]

        def steps(begin: V, times: int) -> None:
            starts = [f.at(a, by * k + begin * by if turned else by * k + begin, self.elem)
                      for k in range(times if turned else rows)]
            for k in range(times):
                here = f.at(panel, (begin + k) * wide, self.elem)
                given = [self._read(f, here, v * self.lanes) for v in range(vectors)]
                for r in range(rows):
                    start, place = (starts[k], r) if turned else (starts[r], k)
                    x = f.load(start, place, self.elem).splat(self.lanes)
                    for v in range(vectors):
                        sums[r][v].value = x.mad(given[v], sums[r][v].value)

        done = f.number(0)
        if rows == self.rows[0]:
            done = count & -UNROLLED
            with f.each(done.op("udiv", UNROLLED)) as turn:
                steps(turn * UNROLLED, UNROLLED)
        with f.each(count - done) as k:
            steps(done + k, 1)
        edge = self._first(f, last)
        masks = [*[f.const(True, "i1", self.lanes)] * (vectors - 1), edge]
        before = [mask & more.splat(self.lanes) for mask in masks]
        for to, found in zip(targets, sums, strict=True):
            results = [found[v].value + self._read_some(f, to, v * self.lanes, before[v]) for v in range(vectors)]
            for v in range(vectors - 1):
                self._write(f, results[v], to, v * self.lanes)
            self._write_some(f, results[-1], to, (vectors - 1) * self.lanes, edge)
        self._finish(f, " noinline")

    def _packed(self) -> None:
        """Some rows of a transposed a, packed: all of them for each k, so that it is read once and in order."""
        f, (words, begin, end) = self._function(f"void @{PACK}{self.name}", ["ptr %words", "i64 %begin", "i64 %end"])
        target, a = (f.load(words, number, "ptr") for number in range(2))
        k, lda = (f.load(words, number) for number in range(2, 4))
        rows = self.rows[0]
        tiles = (end - begin).op("udiv", rows)
        with f.each(k) as i, f.each(tiles) as tile:
            first = begin + tile * rows
            row = f.read(self.elem, f.at(a, i * lda + first, self.elem).name, rows, self.size)
            f.write(row, f.at(target, first * k + i * rows, self.elem).name, self.size)
        first = begin + tiles * rows
        f.do(f"jg_transpose_{8 * self.size}", f.at(target, first * k, self.elem), f.at(a, first, self.elem),
             end - first, k, k, lda)
        self._finish(f)

    def _whole(self) -> None:
        """Panels of columns, as equal as can be, some at a time, and over them all tiles of rows."""
        f, (a, b, c, m, n, k, lda, ldb, ldc, kind) = self._function(
            f"void @{TILED}{self.name}", [f"ptr %{name}" for name in "abc"] + [
                f"i64 %{name}" for name in ("m", "n", "k", "lda", "ldb", "ldc", "kind")])
        trans_a, trans_b, more, packed = [(kind & (1 << bit)).ne(0) for bit in (TRANS_A, TRANS_B, ACCUMULATE, PACKED)]
        most, largest = self.vectors[0], self.rows[0]
        memory, turned = self._room(f, PANELS * DEPTH * most * self.lanes), self._room(f, largest * DEPTH)
        blocks = parts(k, DEPTH)
        depth, vectors = parts(k, blocks), parts(n, self.lanes)
        wide = parts(vectors, parts(vectors, most))
        together = (m < MANY).where(wide, wide * PANELS)
        in_place = (m <= FEW) & (n & (self.lanes - 1)).eq(0) & ~trans_b
        with f.each(blocks) as block, f.each(parts(vectors, together)) as group:
            begin, before = block * depth, group * together
            count, again = (k - begin).intrinsic("smin", depth), more | (block > 0)
            panels = parts((vectors - before).intrinsic("smin", together), wide)

            @contextmanager
            def each_panel() -> Iterator[tuple[V, V, V, V, V]]:
                """Where it is, how far apart its rows are, its first column, its vectors, and the last one's lanes."""
                with f.each(panels) as number:
                    first = before + number * wide
                    own, column = (vectors - first).intrinsic("smin", wide), first * self.lanes
                    place = in_place.where(f.at(b, begin * ldb + column, self.elem),
                                           f.at(memory, number * wide * count * self.lanes, self.elem))
                    yield (place, in_place.where(ldb, own * self.lanes), column, own,
                           (n - column - (own - 1) * self.lanes).intrinsic("smin", self.lanes))

            with each_panel() as (panel, _, column, own, last):
                with f.when(trans_b):
                    self._transposed(f, panel, f.at(b, column * ldb + begin, self.elem), count,
                                     (own - 1) * self.lanes + last, own, ldb)
                with f.unless(trans_b | in_place):
                    self._copied(f, panel, f.at(b, begin * ldb + column, self.elem), count, last, own, ldb)
            for r, first in self._tiles(f, m, self.rows):
                straight, across = (f.at(a, at, self.elem) for at in (first * lda + begin, begin * lda + first))
                if r == largest:
                    place, ready = trans_a.where(across, straight), begin * largest
                    by = packed.where(largest, lda)
                else:
                    with f.when(trans_a & ~packed):
                        f.do(f"jg_transpose_{8 * self.size}", turned, across, f.number(r), count, count, lda)
                    place, ready = trans_a.where(turned, straight), begin
                    by = trans_a.where(packed.where(k, count), lda)
                place = packed.where(f.at(a, first * k + ready, self.elem), place)
                with each_panel() as (panel, apart, column, own, last):
                    given = place, by, panel, apart, count, f.at(c, first * ldc + column, self.elem), ldc, last, again
                    for vs, way in itertools.product(self.vectors, (False, True) if r == largest else (False,)):
                        with f.when(own.eq(vs) & trans_a.eq(way) if r == largest else own.eq(vs)):
                            f.do(self._name(r, vs, way), *given)
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
