"""The innermost loops of convolutions: tiles of sums that stay in registers. `convolution.py` says of what.

A tile is some rows of vectors. What it reads of the image is a vector at a distance that a table names, so that no copy
of windows is made; what multiplies it is a number for each row.
"""

from __future__ import annotations

from collections.abc import Callable

from jitgrad.kernels.native import Native
from jitgrad.kernels.tiled.convolution import NAMES
from jitgrad.kernels.tiled.tiles import Tiles
from jitgrad.kernels.values import V

#: elements of the kernel, over all channels, that a tile goes over at once: what they read stays in the first cache
DEPTH = 128


class ConvolutionTiles(Tiles):
    """The tiles of convolutions."""

    def __init__(self, name: str, vector_bytes: int, has_fma: bool, has_avx512: bool):
        super().__init__(name, vector_bytes, has_fma, has_avx512)
        #: rows and vectors of tiles, the largest first: their sums, what they read and a weight are all the registers
        self.rows: tuple[int, ...]
        self.vectors: tuple[int, ...]
        self.dot_rows: tuple[int, ...]
        self.rows, self.vectors = ((6, 4, 2, 1), (4, 2, 1)) if has_avx512 else ((4, 2, 1), (3, 1))
        self.dot_rows, self.dot_columns = ((4, 2, 1), (6, 1)) if has_avx512 else ((2, 1), (4, 1))

    def _zero(self, f: Native, target: V, count: V) -> None:
        f.declares["llvm.memset.p0.i64"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        f.line(f"call void @llvm.memset.p0.i64(ptr {target.name}, i8 0, i64 {(count * self.size).name}, i1 false)")

    def _numbers(self, f: Native, words: V, *names: str) -> list[V]:
        return [f.load(words, NAMES.index(name)) for name in names]

    # --- tiles -------------------------------------------------------------------------------------------------------

    def _tile(self, rows: int, vectors: int) -> None:
        """result[r, :] += the sum over k of w[r * row + from(k)] * frame[start(k) + :], for some rows and vectors."""
        f, (w, row, table, count, frame, result, distance) = self._function(
            f"internal void @jg_tile{rows}x{vectors}_{self.name}",
            ["ptr %w", "i64 %row", "ptr %table", "i64 %count", "ptr %frame", "ptr %result", "i64 %distance"])
        targets = [f.at(result, distance * r, self.elem) for r in range(rows)]
        sums = [[f.variable(self._read(f, to, v * self.lanes)) for v in range(vectors)] for to in targets]
        starts = [f.at(w, row * r, self.elem) for r in range(rows)]
        with f.each(count) as k:
            entry = f.at(table, k.shl(1))
            start, source = f.load(entry), f.load(entry, 1)
            here = f.at(frame, start, self.elem)
            given = [self._read(f, here, v * self.lanes) for v in range(vectors)]
            for r in range(rows):
                weight = f.load(starts[r], source, self.elem).splat(self.lanes)
                for v in range(vectors):
                    sums[r][v].value = weight.mad(given[v], sums[r][v].value)
        for to, found in zip(targets, sums, strict=True):
            for v in range(vectors):
                self._write(f, found[v].value, to, v * self.lanes)
        self._finish(f, " noinline")

    def _product(self, f: Native, w: V, row: V, table: V, count: V, frame: V, result: V, distance: V, rows: V,
                 length: V) -> None:
        """All tiles of result[rows, length]; the last vector of a row may go beyond its end."""
        vectors = (length + (self.lanes - 1)).op("udiv", self.lanes)
        self._zero(f, result, rows * distance)
        with f.each((count + (DEPTH - 1)).op("udiv", DEPTH)) as chunk:
            begin = chunk * DEPTH
            now = (count - begin).intrinsic("smin", DEPTH)
            part = f.at(table, begin.shl(1))
            for n, at in self._tiles(f, vectors, self.vectors):
                place = at * self.lanes
                for r, first in self._tiles(f, rows, self.rows):
                    f.do(f"jg_tile{r}x{n}_{self.name}", f.at(w, first * row, self.elem), row, part, now,
                         f.at(frame, place, self.elem), f.at(result, first * distance + place, self.elem), distance)

    def _dots(self, rows: int, columns: int) -> None:
        """w[r, k] += the sum over all windows of some images of y[r, :] * frame[start(k) + :]."""
        f, (words, table, images, frame, y, w) = self._function(
            f"internal void @jg_dots{rows}x{columns}_{self.name}",
            ["ptr %words", "ptr %table", "i64 %images", "ptr %frame", "ptr %y", "ptr %w"])
        groups, outputs, y0, y1, y2, q1, q2, depth, length = self._numbers(
            f, words, "groups", "outputs", "y0", "y1", "y2", "q1", "q2", "depth", "length")
        whole = y2.op("udiv", self.lanes)
        rest = y2 - whole * self.lanes
        mask = self._first(f, rest)
        windows = y0 * y1 * y2
        zero = f.const(0.0, self.elem, self.lanes)
        sums = [[f.variable(zero) for _ in range(columns)] for _ in range(rows)]
        starts = [f.load(table, 2 * k) for k in range(columns)]

        def add(read: Callable[[V], V], here: list[V], there: list[V]) -> None:
            given = [read(p) for p in there]
            for r in range(rows):
                slope = read(here[r])
                for k in range(columns):
                    sums[r][k].value = slope.mad(given[k], sums[r][k].value)

        with f.each(images) as n, f.each(y0) as i0, f.each(y1) as i1:
            line = f.at(y, n * groups * outputs * windows + (i0 * y1 + i1) * y2, self.elem)
            here = [f.at(line, windows * r, self.elem) for r in range(rows)]
            image = f.at(frame, n * length + (i0 * q1 + i1) * q2, self.elem)
            there = [f.at(image, start, self.elem) for start in starts]
            with f.each(whole) as v:
                add(lambda p: self._read(f, p, v * self.lanes), here, there)
            with f.when(rest > 0):
                add(lambda p: self._read_some(f, p, whole * self.lanes, mask), here, there)
        for r in range(rows):
            for k in range(columns):
                total = sums[r][k].value
                while total.lanes > 1:
                    total = total.half(0) + total.half(1)
                place = depth * r + k
                f.store(f.load(w, place, self.elem) + total, w, place)
        self._finish(f, " noinline")

    def _outer(self, rows: int, vectors: int) -> None:
        """result[k, :] += the sum over all windows of some images of frame[start(k) + p] * y[p, :]; lanes: outputs."""
        f, (words, table, images, frame, y, wide, result) = self._function(
            f"internal void @jg_outer{rows}x{vectors}_{self.name}",
            ["ptr %words", "ptr %table", "i64 %images", "ptr %frame", "ptr %y", "i64 %wide", "ptr %result"])
        y0, y1, y2, q1, q2, length = self._numbers(f, words, "y0", "y1", "y2", "q1", "q2", "length")
        targets = [f.at(result, wide * r, self.elem) for r in range(rows)]
        sums = [[f.variable(self._read(f, to, v * self.lanes)) for v in range(vectors)] for to in targets]
        starts = [f.load(table, 2 * k) for k in range(rows)]
        with f.each(images) as n, f.each(y0) as i0, f.each(y1) as i1:
            line = f.at(y, (((n * y0 + i0) * y1) + i1) * y2 * wide, self.elem)
            image = f.at(frame, n * length + (i0 * q1 + i1) * q2, self.elem)
            there = [f.at(image, start, self.elem) for start in starts]
            with f.each(y2) as i2:
                here = f.at(line, i2 * wide, self.elem)
                slope = [self._read(f, here, v * self.lanes) for v in range(vectors)]
                for r in range(rows):
                    x = f.load(there[r], i2, self.elem).splat(self.lanes)
                    for v in range(vectors):
                        sums[r][v].value = x.mad(slope[v], sums[r][v].value)
        for to, found in zip(targets, sums, strict=True):
            for v in range(vectors):
                self._write(f, found[v].value, to, v * self.lanes)
        self._finish(f, " noinline")
