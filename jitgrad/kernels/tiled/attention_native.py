"""The functions of `attention.py`: loops over blocks around products of tiles, and what is done with rows of scores."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from jitgrad.kernels.math import math32, math64
from jitgrad.kernels.native import Native
from jitgrad.kernels.products import ACCUMULATE, TILED, TRANS_A, TRANS_B
from jitgrad.kernels.tiled.attention import ADDED, FLAGS, NAMES, NO_MASK, PREFIX, ROLES
from jitgrad.kernels.tiled.tiles import Tiles, parts
from jitgrad.kernels.values import V, iota

#: queries, and keys, that meet at a time: rows of tiles, and two panels of theirs
ROWS, KEYS = 128, 96
#: multiplications of what a thread takes at a time, at least
CHUNK = 1 << 19
#: heads of all batches from which on the gradient is shared by heads alone; keys of a share of fewer, at least
HEADS, SHARE = 16, 4 * KEYS

Numbers = dict[str, V]


class Attention(Tiles):
    """The functions of one element type, for a machine."""

    rows = 8  # of a tile

    def text(self) -> str:
        """Both functions and what they call."""
        for role, share in (("forward", self._forward), ("backward", self._backward)):
            self._whole(role, share)
        return "\n".join([*self.declares.values(), *self.texts])

    def _whole(self, role: str, share: Callable[[Native, Numbers, dict[str, V], V, V], None]) -> None:
        """The function, which shares heads and blocks of queries, or, for the gradient, of keys."""
        inner = f"jg_attend_{role}_{self.name}"
        names = ("words", *ROLES[role], "sums")
        f, (context, begin, end) = self._function(f"internal void @{inner}", ["ptr %context", "i64 %begin", "i64 %end"])
        words, *places = [f.load(context, number, "ptr") for number in range(len(names))]
        share(f, self._numbers(f, words), dict(zip(names[1:], places, strict=True)), begin, end)
        self._finish(f)
        f, given = self._function(f"void @{PREFIX}{role}_{self.name}", [f"ptr %{name}" for name in names[:-1]])
        context = f.room(len(names))
        for number, place in enumerate(given):
            f.store(place, context, number)
        g = self._numbers(f, given[0])
        items = g["batches"] * g["heads"]
        each = g["queries"] * g["keys"] * g["width"]
        shares, sums = self._blocks(g), f.null
        if role == "backward":
            shares, sums = self._sums(f, g)
        f.store(sums, context, len(given))
        length = (shares * CHUNK).op("udiv", each.intrinsic("smax", 1)).intrinsic("smax", 1)
        f.do("jg_parallel", V(f, f"@{inner}", "ptr", 1), context, items * shares, length, items * each * 2)
        if role == "backward":
            with f.when(sums.compare("ne", f.null)):
                self._added(f, g, given[1 + ROLES[role].index("dq")], shares, sums)
                f.do("jg_block_free", f.number(0), sums, f.number(0))
        self._finish(f)

    def _numbers(self, f: Native, words: V) -> Numbers:
        kinds = {"scale": "double"}
        found = {name: f.load(words, number, kinds.get(name, "i64")) for number, name in enumerate(NAMES)}
        usual = 1.0 / found["width"].cast("sitofp", "double").intrinsic("sqrt")
        scale = found["scaled"].ne(0).where(found["scale"], usual)
        found["scale"] = scale.cast("fptrunc", "float") if self.elem == "float" else scale
        return found

    def _blocks(self, g: Numbers) -> V:
        """How many blocks the queries are."""
        return parts(g["queries"], ROWS)

    def _shares(self, g: Numbers) -> V:
        """How many shares the keys of a head are for the gradient: the same whatever the number of threads."""
        heads = (g["batches"] * g["heads"]).intrinsic("smax", 1)
        most = (heads + (HEADS - 1)).op("udiv", heads)
        return g["keys"].op("udiv", SHARE).intrinsic("smin", most).intrinsic("smax", 1)

    def _sums(self, f: Native, g: Numbers) -> tuple[V, V]:
        """The shares, and memory for what each adds to the gradient of the queries, zeros. Without it there is one."""
        shares, sums = self._shares(g), f.variable(f.null)
        with f.when(shares > 1):
            count = shares * g["batches"] * g["heads"] * g["queries"] * g["width"]
            sums.value = f.call("jg_block_zeros", "ptr", 1, f.number(0), count, f.number(self.size))
        return sums.value.compare("ne", f.null).where(shares, 1), sums.value

    def _added(self, f: Native, g: Numbers, dq: V, shares: V, sums: V) -> None:
        """The gradient of the queries: what all shares add, in their order."""
        items, width = g["batches"] * g["heads"], g["width"]
        with f.each(items) as item, f.each(g["queries"]) as row:
            line = self._place(f, g, {"dq": dq}, "dq", item, row)
            with self._vectors(f, width) as (at, there):
                total = f.variable(self._constant(f, 0.0))
                with f.each(shares) as share:
                    start = ((share * items + item) * g["queries"] + row) * width
                    total.value = total.value + self._read_some(f, f.at(sums, start, self.elem), at, there)
                self._write_some(f, total.value, line, at, there)

    def _place(self, f: Native, g: Numbers, places: dict[str, V], name: str, item: V, row: V) -> V:
        """Where a row of an operand is, of a head's number among all."""
        batch, head = item.op("udiv", g["heads"]), item.op("urem", g["heads"])
        return f.at(places[name], batch * g[f"{name}_batch"] + head * g[f"{name}_head"] + row * g[f"{name}_row"],
                    self.elem)

    def _product(self, f: Native, a: V, b: V, c: V, sizes: tuple[V, V, V], steps: tuple[V | int, V | int, V | int],
                 kind: V | int) -> None:
        numbers = [v if isinstance(v, V) else f.number(v) for v in (*sizes, *steps, kind)]
        f.do(f"{TILED}{self.name}", a, b, c, *numbers)

    # --- rows --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _vectors(self, f: Native, count: V) -> Iterator[tuple[V, V]]:
        """A loop over the vectors of so many elements: where one begins, and which of its lanes are there."""
        with f.each(parts(count, self.lanes)) as number:
            at = number * self.lanes
            yield at, self._first(f, count - at)

    def _joined(self, x: V, join: Callable[[V, V], V]) -> V:
        """All lanes as one."""
        while x.lanes > 1:
            x = join(x.half(0), x.half(1))
        return x

    @property
    def _math(self) -> ModuleType:
        """The functions of the element type."""
        return math32 if self.elem == "float" else math64

    def _exp(self, x: V) -> V:
        found: V = self._math.exp(x)
        return found

    def _constant(self, f: Native, value: float) -> V:
        return f.const(value, self.elem, self.lanes)

    def _scaled(self, f: Native, row: V, count: V, factor: V) -> None:
        with self._vectors(f, count) as (at, there):
            self._write_some(f, self._read_some(f, row, at, there) * factor.splat(self.lanes), row, at, there)

    def _zeros(self, f: Native, row: V, count: V) -> None:
        with self._vectors(f, count) as (at, there):
            self._write_some(f, self._constant(f, 0.0), row, at, there)

    def _masked(self, f: Native, g: Numbers, score: V, mask: V, at: V, there: V) -> V:
        """Scores with what a row of the mask says of them."""
        result = f.variable(score)
        step = g["mask_key"]
        with f.when(g["mask"].eq(ADDED)):
            with f.when(step.eq(0)):
                result.value = score + f.load(mask, 0, self.elem).splat(self.lanes)
            with f.unless(step.eq(0)):
                result.value = score + self._read_some(f, mask, at, there)
        with f.when(g["mask"].eq(FLAGS)):
            seen = f.variable(f.load(mask, 0, "i8").splat(self.lanes))
            with f.unless(step.eq(0)):
                seen.value = self._bytes(f, mask, at, there)
            result.value = seen.value.ne(0).where(score, -math.inf)
        return result.value

    def _bytes(self, f: Native, pointer: V, index: V, there: V) -> V:
        name, kind = f"llvm.masked.load.v{self.lanes}i8.p0", f"<{self.lanes} x i8>"
        f.declares[name] = f"declare {kind} @{name}(ptr, i32, {there.type}, {kind})"
        return f.emit(f"call {kind} @{name}(ptr {f.at(pointer, index, 'i8').name}, i32 1, {there.type} {there.name}, "
                      f"{kind} zeroinitializer)", "i8", self.lanes)

    def _mask_row(self, f: Native, g: Numbers, places: dict[str, V], item: V, row: V, key: V) -> V:
        """Where the mask of a query is, from a key on."""
        batch, head = item.op("udiv", g["heads"]), item.op("urem", g["heads"])
        moved = (batch * g["mask_batch"] + head * g["mask_head"] + row * g["mask_row"] + key * g["mask_key"])
        return f.at(places["mask"], moved * g["mask"].eq(FLAGS).where(f.number(1), self.size), "i8")

    @contextmanager
    def _scores(self, f: Native, g: Numbers, places: dict[str, V], item: V, row: V, key: V, count: V, line: V
                ) -> Iterator[tuple[V, V]]:
        """A loop over a query's scores of some keys: where a vector of them is, and they, -inf where it sees no key."""
        factor = f.variable(g["scale"])
        with f.when(g["mask"].ne(NO_MASK)):
            mask = self._mask_row(f, g, places, item, row, key)
            with self._vectors(f, count) as (at, there):
                score = self._read(f, line, at) * g["scale"].splat(self.lanes)
                self._write(f, self._masked(f, g, score, mask, at, there), line, at)
            factor.value = f.const(1.0, self.elem, 1)
        seen = g["causal"].ne(0).where((row + 1 - key).intrinsic("smin", count), count).cast("trunc", "i32")
        lanes, times = iota(f, "i32", self.lanes), factor.value.splat(self.lanes)
        with f.each(parts(count, self.lanes)) as number:
            at = number * self.lanes
            there = lanes < (seen - at.cast("trunc", "i32")).splat(self.lanes)
            yield at, there.where(self._read(f, line, at) * times, -math.inf)

    # --- shares ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _each_block(self, f: Native, g: Numbers, first: V, limit: V, start: V | int = 0) -> Iterator[tuple[V, V, V]]:
        """A loop over blocks of keys: the first of one, how many, and how many of the queries from `first` on see none.
        """
        count = (limit - start).intrinsic("smax", 0)
        blocks = parts(count, KEYS)
        length = parts(parts(count, blocks.intrinsic("smax", 1)), self.lanes) * self.lanes
        with f.each(blocks) as number:
            key = number * length + start
            none = (key - first).intrinsic("smax", 0) & -self.rows
            yield key, (limit - key).intrinsic("smin", length), g["causal"].ne(0).where(none, 0)

    def _limit(self, g: Numbers, row: V, rows: V) -> V:
        """How many keys any of some queries sees."""
        return g["causal"].ne(0).where((row + rows).intrinsic("smin", g["keys"]), g["keys"])

    def _forward(self, f: Native, g: Numbers, places: dict[str, V], begin: V, end: V) -> None:
        scores, most, before, total = (self._room(f, ROWS * n) for n in (KEYS, 1, 1, 1))
        width, blocks = g["width"], self._blocks(g)
        zero, infinity = f.const(0.0, self.elem, 1), f.const(math.inf, self.elem, 1)
        with f.each(end - begin) as done:
            number = begin + done
            item, first = number.op("udiv", blocks), number.op("urem", blocks) * ROWS
            rows = (g["queries"] - first).intrinsic("smin", ROWS)
            q, y = (self._place(f, g, places, name, item, first) for name in "qy")
            limit = self._limit(g, first, rows)
            with f.each(rows) as r:
                f.store(-infinity, most, r)
                f.store(zero, total, r)
                with f.when(limit.eq(0)):
                    self._zeros(f, f.at(y, r * g["y_row"], self.elem), width)
            with self._each_block(f, g, first, limit) as (key, count, none):
                k, v = (self._place(f, g, places, name, item, key) for name in "kv")
                seeing, a, b, c = rows - none, *[f.at(x, none * by, self.elem) for x, by in (
                    (q, g["q_row"]), (scores, KEYS), (y, g["y_row"]))]
                self._product(f, a, k, b, (seeing, count, width), (g["q_row"], g["k_row"], KEYS), 1 << TRANS_B)
                # in two loops, so that of each many rows are under way at once
                with f.each(seeing) as r:
                    self._largest(f, g, places, item, first, none + r, key, count, scores, most, before)
                with f.each(seeing) as r:
                    self._weights(f, g, none + r, key, count, scores, most, before, total, y)
                self._product(f, b, v, c, (seeing, width, count), (KEYS, g["v_row"], g["y_row"]),
                              (key > 0).where(f.number(1 << ACCUMULATE), 0))
            lse = f.at(places["lse"], item * g["queries"] + first, self.elem)
            with f.each(rows) as r:
                largest, found = f.load(most, r, self.elem), f.load(total, r, self.elem)
                none = g["mask"].ne(NO_MASK) & largest.eq(-math.inf) & found.eq(0.0)
                found = (none | limit.eq(0)).where(1.0, found)
                self._scaled(f, f.at(y, r * g["y_row"], self.elem), width, 1.0 / found)
                f.store(none.where(infinity, largest + self._math.log(found)), lse, r)

    def _largest(self, f: Native, g: Numbers, places: dict[str, V], item: V, first: V, r: V, key: V, count: V,
                 scores: V, most: V, before: V) -> None:
        """The largest of a query's scores so far, and what it was before."""
        line = f.at(scores, r * KEYS, self.elem)
        found = f.variable(self._constant(f, -math.inf))
        with self._scores(f, g, places, item, first + r, key, count, line) as (at, score):
            self._write(f, score, line, at)
            found.value = _larger(score, found.value)
        old = f.load(most, r, self.elem)
        f.store(old, before, r)
        f.store(_larger(self._joined(found.value, _larger), old), most, r)

    def _weights(self, f: Native, g: Numbers, r: V, key: V, count: V, scores: V, most: V, before: V, total: V,
                 y: V) -> None:
        """A query's scores as exp(score - the largest so far), and what was found before scaled to that."""
        line, new = f.at(scores, r * KEYS, self.elem), f.load(most, r, self.elem)
        used = new.eq(-math.inf).where(0.0, new)
        sums = f.variable(self._constant(f, 0.0))
        with f.each(parts(count, self.lanes)) as number:
            weight = self._exp(self._read(f, line, number * self.lanes) - used.splat(self.lanes))
            self._write(f, weight, line, number * self.lanes)
            sums.value = sums.value + weight
        added = self._joined(sums.value, operator.add)
        with f.when(key > 0):
            factor = self._exp(f.load(before, r, self.elem) - used)
            self._scaled(f, f.at(y, r * g["y_row"], self.elem), g["width"], factor)
            f.store(f.load(total, r, self.elem) * factor + added, total, r)
        with f.unless(key > 0):
            f.store(added, total, r)

    def _backward(self, f: Native, g: Numbers, places: dict[str, V], begin: V, end: V) -> None:
        weights, slopes, delta = self._room(f, ROWS * KEYS), self._room(f, ROWS * KEYS), self._room(f, ROWS)
        width, items, apart = g["width"], g["batches"] * g["heads"], places["sums"].compare("ne", f.null)
        shares = apart.where(self._shares(g), 1)
        length = parts(parts(g["keys"], shares), KEYS) * KEYS
        with f.each(end - begin) as done:
            number = begin + done
            item, start = number.op("udiv", shares), number.op("urem", shares) * length
            stop = (start + length).intrinsic("smin", g["keys"])
            with f.each((stop - start).intrinsic("smax", 0)) as within:
                for name in ("dk", "dv"):
                    self._zeros(f, self._place(f, g, places, name, item, start + within), width)
            with f.each(self._blocks(g)) as block:
                first = block * ROWS
                rows = (g["queries"] - first).intrinsic("smin", ROWS)
                q, y, dy, dq = (self._place(f, g, places, name, item, first) for name in ("q", "y", "g", "dq"))
                own = ((number.op("urem", shares) * items + item) * g["queries"] + first) * width
                dq, step = apart.where(f.at(places["sums"], own, self.elem), dq), apart.where(width, g["dq_row"])
                limit = self._limit(g, first, rows).intrinsic("smin", stop)
                lse = f.at(places["lse"], item * g["queries"] + first, self.elem)
                with f.each(rows) as r:
                    total = f.variable(self._constant(f, 0.0))
                    lines = f.at(y, r * g["y_row"], self.elem), f.at(dy, r * g["g_row"], self.elem)
                    with self._vectors(f, width) as (at, there):
                        a, b = (self._read_some(f, line, at, there) for line in lines)
                        total.value = a.mad(b, total.value)
                    f.store(self._joined(total.value, operator.add), delta, r)
                    with f.when(limit.eq(0)):
                        self._zeros(f, f.at(dq, r * step, self.elem), width)
                with self._each_block(f, g, first, limit, start) as (key, count, none):
                    k, v, dk, dv = (self._place(f, g, places, name, item, key) for name in ("k", "v", "dk", "dv"))
                    seeing, a, b, c, p, s = rows - none, *[f.at(x, none * by, self.elem) for x, by in (
                        (q, g["q_row"]), (dy, g["g_row"]), (dq, step), (weights, KEYS), (slopes, KEYS))]
                    self._product(f, a, k, p, (seeing, count, width), (g["q_row"], g["k_row"], KEYS), 1 << TRANS_B)
                    self._product(f, b, v, s, (seeing, count, width), (g["g_row"], g["v_row"], KEYS), 1 << TRANS_B)
                    with f.each(seeing) as r:
                        self._slopes(f, g, places, item, first, none + r, key, count, weights, slopes, lse, delta)
                    across = 1 << TRANS_A | 1 << ACCUMULATE
                    self._product(f, p, b, dv, (count, width, seeing), (KEYS, g["g_row"], g["dv_row"]), across)
                    self._product(f, s, a, dk, (count, width, seeing), (KEYS, g["q_row"], g["dk_row"]), across)
                    self._product(f, s, k, c, (seeing, width, count), (KEYS, g["k_row"], step),
                                  (apart | (key > 0)).where(f.number(1 << ACCUMULATE), 0))

    def _slopes(self, f: Native, g: Numbers, places: dict[str, V], item: V, first: V, r: V, key: V, count: V,
                weights: V, slopes: V, lse: V, delta: V) -> None:
        """A query's scores as weights, and what reaches the weights as what reaches the products of query and keys."""
        line, slope = (f.at(block, r * KEYS, self.elem) for block in (weights, slopes))
        with self._scores(f, g, places, item, first + r, key, count, line) as (at, score):
            weight = self._exp(score - f.load(lse, r, self.elem).splat(self.lanes))
            self._write(f, weight, line, at)
            reached = weight * (self._read(f, slope, at) - f.load(delta, r, self.elem).splat(self.lanes))
            self._write(f, reached * g["scale"].splat(self.lanes), slope, at)


def _larger(a: V, b: V) -> V:
    """The second where one is NaN, which comes back as an exponential."""
    return (a > b).where(a, b)

