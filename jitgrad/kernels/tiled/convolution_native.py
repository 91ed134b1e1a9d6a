"""The functions of `convolution.py`: frames, tables, and the loops around tiles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jitgrad.kernels.native import Native
from jitgrad.kernels.tiled.convolution import LANES, NAMES, PREFIX, ROLES, SHARES, SLACK
from jitgrad.kernels.tiled.convolution_tiles import ConvolutionTiles
from jitgrad.kernels.values import V

Numbers = dict[str, V]
#: words that a share is given: addresses, and of the images' gradient the part and the entries of its table; after them
#: the state of each room: not used yet, in use, or used and its frame's padding still zeros
GIVEN = 9
UNUSED, TAKEN, READY = range(3)


class Convolution(ConvolutionTiles):
    """The functions of one element type, for a machine."""

    def text(self) -> str:
        """The three functions and what they call."""
        for r, n in itertools.product(self.rows, self.vectors):
            self._tile(r, n)
        for r, n in itertools.product(self.dot_rows, self.dot_columns):
            self._dots(r, n)
        for r, n in itertools.product((self.rows[0], 1), self.vectors):
            self._outer(r, n)
        for role in ROLES:
            self._whole(role)
        own = [d for name, d in self.declares.items() if name == "jg_parallel" or not name.startswith("jg_")]
        return "\n".join([*own, *self.texts])

    def _named(self, f: Native, words: V) -> Numbers:
        return dict(zip(NAMES, self._numbers(f, words, *NAMES), strict=True))

    # --- what is called ----------------------------------------------------------------------------------------------

    def _whole(self, role: str) -> None:
        """The function that shares the images, some at a time; of weights it adds what the shares have summed."""
        share = self._share(role)
        f, given = self._function(
            f"void @{PREFIX}{role}_{self.name}", [f"ptr %{name}" for name in ("words", "x", "w", "y", "scratch")])
        words, _, w, _, scratch = given
        g = self._named(f, words)
        context, multiplications = f.room(GIVEN + SHARES), g["images"]
        for name in ("groups", "outputs", "y0", "y1", "y2", "depth"):
            multiplications = multiplications * g[name]
        with f.each(g["shares"]) as k:
            f.store(f.number(UNUSED), context, k + GIVEN)

        def each_image(*part: V) -> None:
            for k, v in enumerate((*given, *part)):
                f.store(v, context, k)
            f.do("jg_parallel", V(f, f"@{share}", "ptr", 1), context, g["images"], self._length(g),
                 multiplications)

        if role == "x":
            with f.each(g["stride0"]) as r0, f.each(g["stride1"]) as r1, f.each(g["stride2"]) as r2:
                each_image(r0, r1, r2, self._fill_part(f, g, scratch, (r0, r1, r2)))
        else:
            self._fill_table(f, g, scratch)
            each_image()
        if role == "w":
            self._add_up(f, g, f.at(scratch, g["sums"], self.elem), w)
        self._finish(f)

    def _length(self, g: Numbers) -> V:
        """How many images a share has."""
        return (g["images"] + g["shares"] - 1).op("udiv", g["shares"]).intrinsic("smax", 1)

    def _share(self, role: str) -> str:
        """The function of one share: in a room with a frame, which no other works in meanwhile."""
        name = f"jg_share_{role}_{self.name}"
        f, (context, begin, end) = self._function(
            f"internal void @{name}", ["ptr %context", "i64 %begin", "i64 %end"])
        words, x, w, y, scratch = [f.load(context, k, "ptr") for k in range(5)]
        g = self._named(f, words)
        number = f.variable(f.number(0))
        with f.loop() as stop:
            state = f.at(context, number.value + GIVEN)
            found = f.atomic_load(state)
            with f.when(found.ne(TAKEN)), f.when(f.exchange(state, found, TAKEN)):
                frame, result = [f.at(scratch, number.value * g["room"] + g[what], self.elem)
                                 for what in ("frame", "result")]
                with f.when(found.eq(UNUSED)):
                    self._zero(f, frame, g["length"] * g["block"])
                    if role == "w":
                        self._zero(f, result, g["block"] * self._windows(g) * self._wide(g))
                if role == "y":
                    self._results(f, g, x, w, y, begin, end, scratch, frame, result)
                elif role == "x":
                    part = [f.load(context, k) for k in range(5, GIVEN)]
                    self._images(f, g, w, y, x, begin, end, scratch, frame, result, part)
                else:
                    sums = f.at(scratch, begin.op("udiv", self._length(g)) * self._summed(g) + g["sums"], self.elem)
                    self._weights(f, g, x, y, begin, end, scratch, frame, result, sums, words)
                f.atomic_store(f.number(READY), state)
                stop()
            following = number.value + 1
            number.value = following.eq(g["shares"]).where(f.number(0), following)
        self._finish(f)
        return name

    def _results(self, f: Native, g: Numbers, x: V, w: V, y: V, begin: V, end: V, table: V, frame: V, result: V
                 ) -> None:
        distance = g["plane"] + SLACK
        windows = self._windows(g)
        length = ((g["y0"] - 1) * g["q1"] + g["y1"] - 1) * g["q2"] + g["y2"]
        with f.each(end - begin) as done:
            n = begin + done
            self._fill(f, g, f.at(x, n * g["x_image"], self.elem), frame)
            with f.each(g["groups"]) as group:
                first = group * g["outputs"]
                self._product(f, f.at(w, first * g["depth"], self.elem), g["depth"], table, g["depth"],
                              f.at(frame, group * g["channels"] * g["parts"] * g["plane"], self.elem), result, distance,
                              g["outputs"], length)
                target = f.at(y, (n * g["groups"] * g["outputs"] + first) * windows, self.elem)
                with f.each(g["outputs"]) as o, f.each(g["y0"]) as i0, f.each(g["y1"]) as i1:
                    self._copy(f, f.at(result, o * distance + (i0 * g["q1"] + i1) * g["q2"], self.elem),
                               f.at(target, o * windows + (i0 * g["y1"] + i1) * g["y2"], self.elem), g["y2"])

    # --- the gradient of the weights ---------------------------------------------------------------------------------

    def _windows(self, g: Numbers) -> V:
        return g["y0"] * g["y1"] * g["y2"]

    def _wide(self, g: Numbers) -> V:
        """Outputs, rounded up to whole vectors."""
        return (g["outputs"] + (LANES - 1)).op("udiv", LANES) * LANES

    def _summed(self, g: Numbers) -> V:
        """Elements of a share's sums."""
        return g["groups"] * g["depth"] * self._wide(g)

    def _in_lanes(self, g: Numbers) -> V:
        """Whether lanes are outputs; else they are windows."""
        return g["outputs"] > self.lanes // 2

    def _weights(self, f: Native, g: Numbers, x: V, y: V, first_image: V, end: V, table: V, frame: V, turned: V,
                 sums: V, words: V) -> None:
        windows, wide, in_lanes = self._windows(g), self._wide(g), self._in_lanes(g)
        whole = g["groups"] * g["outputs"]
        self._zero(f, sums, self._summed(g))
        begun = f.variable(first_image)
        with f.loop() as stop:
            begin = begun.value
            with f.when(begin >= end):
                stop()
            count = (end - begin).intrinsic("smin", g["block"])
            with f.each(count) as n:
                self._fill(f, g, f.at(x, (begin + n) * g["x_image"], self.elem),
                           f.at(frame, n * g["length"], self.elem))
            with f.each(g["groups"]) as group:
                moved = f.at(frame, group * g["channels"] * g["parts"] * g["plane"], self.elem)
                first = group * g["outputs"]
                slopes = f.at(y, (begin * whole + first) * windows, self.elem)
                with f.when(in_lanes):
                    self._turn(f, slopes, count, g["outputs"], windows, whole * windows, wide, turned)
                    total = f.at(sums, group * g["depth"] * wide, self.elem)
                    for rows, k in self._tiles(f, g["depth"], (self.rows[0], 1)):
                        for columns, v in self._tiles(f, wide.op("udiv", self.lanes), self.vectors):
                            o = v * self.lanes
                            f.do(f"jg_outer{rows}x{columns}_{self.name}", words, f.at(table, k.shl(1)), count, moved,
                                 f.at(turned, o, self.elem), wide, f.at(total, k * wide + o, self.elem))
                with f.unless(in_lanes):
                    total = f.at(sums, first * g["depth"], self.elem)
                    for rows, o in self._tiles(f, g["outputs"], self.dot_rows):
                        for columns, k in self._tiles(f, g["depth"], self.dot_columns):
                            f.do(f"jg_dots{rows}x{columns}_{self.name}", words, f.at(table, k.shl(1)), count, moved,
                                 f.at(slopes, o * windows, self.elem), f.at(total, o * g["depth"] + k, self.elem))
            begun.value = begin + count

    def _add_up(self, f: Native, g: Numbers, sums: V, w: V) -> None:
        """The sums of all shares, in order, as weights."""
        weights, size, wide = g["groups"] * g["outputs"] * g["depth"], self._summed(g), self._wide(g)
        length = self._length(g)
        shares = (g["images"] + length - 1).op("udiv", length)
        with f.when(shares.eq(0)):
            self._zero(f, w, weights)
            f.leave()
        with f.each(shares - 1) as k:
            other = f.at(sums, (k + 1) * size, self.elem)
            with f.each(size.op("udiv", self.lanes)) as v:
                at = v * self.lanes
                self._write(f, self._read(f, sums, at) + self._read(f, other, at), sums, at)
        with f.unless(self._in_lanes(g)):
            self._copy(f, sums, w, weights)
            f.leave()
        with f.each(g["groups"]) as group:
            total = f.at(sums, group * g["depth"] * wide, self.elem)
            target = f.at(w, group * g["outputs"] * g["depth"], self.elem)
            with f.each(g["outputs"]) as o, f.each(g["depth"]) as k:
                f.store(f.load(total, k * wide + o, self.elem), target, o * g["depth"] + k)

    def _turn(self, f: Native, y: V, images: V, outputs: V, windows: V, distance: V, wide: V, to: V) -> None:
        """The results' slopes with outputs as the last axis; those behind the last output stay 0."""
        with f.each(images) as n, f.each(windows) as p:
            line = f.at(to, (n * windows + p) * wide, self.elem)
            with f.each(outputs) as o:
                f.store(f.load(y, n * distance + o * windows + p, self.elem), line, o)

    def _images(self, f: Native, g: Numbers, w: V, y: V, x: V, begin: V, end: V, table: V, frame: V, result: V,
                part: Sequence[V]) -> None:
        """One part: elements that are at one distance modulo the stride, to which the same of the kernel lead."""
        *place, count = part
        distance, wide = g["plane"] + SLACK, 2 * g["plane"] + SLACK
        windows, size = self._windows(g), g["x0"] * g["x1"] * g["x2"]
        whole = g["groups"] * g["outputs"]
        with f.each(end - begin) as done:
            n = begin + done
            with f.each(whole) as o, f.each(g["y0"]) as i0, f.each(g["y1"]) as i1:
                self._copy(f, f.at(y, (n * whole + o) * windows + (i0 * g["y1"] + i1) * g["y2"], self.elem),
                           f.at(frame, o * wide + g["plane"] + (i0 * g["q1"] + i1) * g["q2"], self.elem), g["y2"])
            with f.each(g["groups"]) as group:
                first = group * g["outputs"]
                self._product(f, f.at(w, first * g["depth"], self.elem), g["taps"], table, count,
                              f.at(frame, first * wide + g["plane"], self.elem), result, distance, g["channels"],
                              g["plane"])
                target = f.at(x, ((n * g["groups"] + group) * g["channels"]) * size, self.elem)
                with f.each(g["channels"]) as c:
                    self._take(f, g, f.at(result, c * distance, self.elem), f.at(target, c * size, self.elem), place)

    # --- tables, frames and copies -----------------------------------------------------------------------------------

    def _at(self, f: Native, g: Numbers, at: Sequence[V]) -> tuple[V, V]:
        """Of an element of a padded image: its part, and the place in it."""
        (a, i), (b, j), (c, k) = [(v.op("urem", g[f"stride{axis}"]), v.op("udiv", g[f"stride{axis}"]))
                                  for axis, v in enumerate(at)]
        return (a * g["stride1"] + b) * g["stride2"] + c, (i * g["q1"] + j) * g["q2"] + k

    @contextmanager
    def _kernel(self, f: Native, g: Numbers) -> Iterator[tuple[V, list[V]]]:
        """A loop over the elements of the kernel: number, and place in the padded image."""
        with f.each(g["k0"]) as k0, f.each(g["k1"]) as k1, f.each(g["k2"]) as k2:
            moved = [k * g[f"dilation{axis}"] for axis, k in enumerate((k0, k1, k2))]
            yield (k0 * g["k1"] + k1) * g["k2"] + k2, moved

    def _fill_table(self, f: Native, g: Numbers, table: V) -> None:
        """Per channel and element of the kernel: where its windows start in the frame, and its weight."""
        with f.each(g["channels"]) as c, self._kernel(f, g) as (tap, moved):
            part, place = self._at(f, g, moved)
            k = c * g["taps"] + tap
            entry = f.at(table, k.shl(1))
            f.store((c * g["parts"] + part) * g["plane"] + place, entry)
            f.store(k, entry, 1)

    def _fill_part(self, f: Native, g: Numbers, table: V, part: tuple[V, V, V]) -> V:
        """The same for the results' gradients that reach a part of the images; how many."""
        wide = 2 * g["plane"] + SLACK
        count = f.variable(f.number(0))
        wanted = (part[0] * g["stride1"] + part[1]) * g["stride2"] + part[2]
        with f.each(g["outputs"]) as o, self._kernel(f, g) as (tap, moved):
            found, place = self._at(f, g, moved)
            with f.when(found.eq(wanted)):
                now = count.value
                entry = f.at(table, now.shl(1))
                f.store(o * wide - place, entry)
                f.store(o * g["depth"] + tap, entry, 1)
                count.value = now + 1
        return count.value

    def _fill(self, f: Native, g: Numbers, image: V, frame: V) -> None:
        """Copy an image into its frame."""
        with f.each(g["groups"] * g["channels"]) as c, f.each(g["x0"]) as i0, f.each(g["x1"]) as i1:
            row = f.at(image, c * g["x_channel"] + i0 * g["x_step0"] + i1 * g["x_step1"], self.elem)
            part, place = self._at(f, g, (i0 + g["padding0"], i1 + g["padding1"], f.number(0)))
            line = f.at(frame, (c * g["parts"] + part) * g["plane"] + place, self.elem)
            with f.part() as done:
                with f.when(g["stride2"].eq(1) & g["x_step2"].eq(1)):
                    self._copy(f, row, f.at(line, g["padding2"], self.elem), g["x2"])
                    done()
                with f.each(g["stride2"]) as r:
                    to = f.at(line, r * g["plane"], self.elem)
                    first, count = self._row_of(g, r)
                    with f.each(count) as k:
                        q = first + k
                        source = q * g["stride2"] + r - g["padding2"]
                        f.store(f.load(row, source * g["x_step2"], self.elem), to, q)

    def _row_of(self, g: Numbers, r: V) -> tuple[V, V]:
        """Of the elements q * stride + r - padding that are in a row: the first q, and how many."""
        stride, padding = g["stride2"], g["padding2"]
        first = (padding - r + stride - 1).intrinsic("smax", 0).op("udiv", stride)
        end = (g["x2"] + padding - r + stride - 1).intrinsic("smax", 0).op("udiv", stride)
        return first, end - first

    def _take(self, f: Native, g: Numbers, result: V, target: V, part: Sequence[V]) -> None:
        """Copy a part of one channel out of its frame."""
        with f.each(g["q0"]) as q0, f.each(g["q1"]) as q1:
            i0, i1 = (q * g[f"stride{axis}"] + part[axis] - g[f"padding{axis}"] for axis, q in enumerate((q0, q1)))
            inside = i0.compare("ult", g["x0"]) & i1.compare("ult", g["x1"])  # below zero is large
            with f.when(inside), f.part() as done:
                row = f.at(result, (q0 * g["q1"] + q1) * g["q2"], self.elem)
                line = f.at(target, (i0 * g["x1"] + i1) * g["x2"], self.elem)
                with f.when(g["stride2"].eq(1)):
                    self._copy(f, f.at(row, g["padding2"], self.elem), line, g["x2"])
                    done()
                first, count = self._row_of(g, part[2])
                with f.each(count) as k:
                    q = first + k
                    f.store(f.load(row, q, self.elem), line, q * g["stride2"] + part[2] - g["padding2"])

    def _copy(self, f: Native, source: V, target: V, count: V) -> None:
        f.declares["llvm.memcpy.p0.p0.i64"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        size = count * self.size
        f.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target.name}, ptr {source.name}, i64 {size.name}, i1 false)")
