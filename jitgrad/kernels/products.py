"""Matrix products in native code: in loops over batches, and large ones in pieces, on the pool's threads.

    jg_product_float_64(gemm, kind, a, b, c, m, n, k, lda, ldb, ldc, rank, axes)      # of floats, sizes in 64 bits

c[m, n] = a[m, k] @ b[k, n] (+ c), once per index of a batch of `rank` axes; `axes`: four words of each, its size and
the elements by which a, b and c move. `gemm` is the address of what `blas.py` finds. It makes small products; larger
ones, and those of a transposed b, which it would copy, are made by tiles (`tiled/gemm.py`).

Two pools of threads whose members wait for work by spinning take each other's processors. So the BLAS, which has
threads of its own, works on one while native code multiplies, and what is worth it is cut for ours: the rows or columns
of c, or the batch. Pieces depend on sizes alone, so results are the same on any number of threads.
"""

import itertools
from collections.abc import Sequence

from jitgrad.kernels.blas import NO_TRANS, ROW_MAJOR, TRANS
from jitgrad.kernels.native import Library, Native, Variable
from jitgrad.kernels.values import V

LIBRARY = Library()
#: bits of `kind`, which has the bytes of an element above them; BY_TILES and PACKED are found here
TRANS_A, TRANS_B, ACCUMULATE, SHARED, BY_TILES, PACKED, ITEMSIZE = 0, 1, 2, 3, 4, 5, 8
#: what the names of the functions begin with that make a product by tiles, and pack a for it (`tiled/gemm.py`)
TILED, PACK = "jg_tiled_", "jg_pack_"
#: rows, columns and depth from which on tiles are faster than OpenBLAS: of larger products, and where b is transposed,
#: which takes more rows to be worth a copy
ROWS, TURNED_ROWS, COLUMNS, DEEP = 8, 12, 8, 16
#: multiplications up to which OpenBLAS never takes more than one thread for a product
ALONE = 1 << 18
#: multiplications of a piece at least
PIECE = 1 << 20
#: columns of a piece, which costs another look at all of a: 5 % at so many; of rows, which costs another copy of b to
#: panels, twice as many; and the least of the smaller of two pieces
USUAL, LEAST = 128, 32
#: pieces of a product at most, and what their length is a multiple of
MOST, ROUND = 16, 16

# words of the state: addresses of the functions that set and get the BLAS's threads, a lock, calls under way, how many
# threads there are without
SET, GET, LOCK, USERS, BEFORE = range(5)
#: words of what pieces are computed from, after those that a product is given: pieces of an item, rows or columns of
#: one, and items that are added up in one
(TILES, LENGTH, INSIDE), WORDS = range(13, 16), 16


def text() -> str:
    """The functions and their state."""
    return "@jg_blas = internal global [5 x i64] zeroinitializer, align 64\n" + LIBRARY.text()


def _state(f: Native, number: int) -> V:
    return f.at(V(f, "@jg_blas", "ptr", 1), number)


@LIBRARY.function("void", setter="i64", getter="i64")
def jg_blas_control(f: Native, setter: V, getter: V) -> None:
    """The addresses of `void set(int)` and `int get(void)` for the BLAS's threads; 0: there is no such thing."""
    f.store(getter, _state(f, GET))
    f.store(setter, _state(f, SET))


@LIBRARY.function("void")
def jg_blas_forget(f: Native) -> None:
    """In a child process: none of its parent's threads multiplies here."""
    with f.when(f.load(_state(f, USERS)) > 0):
        _set_threads(f, f.load(_state(f, BEFORE)))
    for number in (LOCK, USERS):
        f.store(f.number(0), _state(f, number))


@LIBRARY.function("void", count="i64")
def jg_blas_threads(f: Native, count: V) -> None:
    """Let the BLAS have so many threads; where native code multiplies, after that."""
    _lock(f)
    with f.part() as done:
        with f.when(f.load(_state(f, USERS)) > 0):
            f.store(count, _state(f, BEFORE))
            done()
        _set_threads(f, count)
    _unlock(f)


def _set_threads(f: Native, count: V) -> None:
    f.run(f.load(_state(f, SET), elem="ptr"), count.cast("trunc", "i32"))


def _lock(f: Native) -> None:
    with f.loop() as stop:
        with f.when(f.exchange(_state(f, LOCK), 0, 1)):
            stop()
        f.call("sched_yield", "i32", 1)


def _unlock(f: Native) -> None:
    f.atomic_store(f.number(0), _state(f, LOCK))


@LIBRARY.function("internal void", change="i64")
def jg_blas_users(f: Native, change: V) -> None:
    """One more thread multiplies (1), or one less (-1): the first lets the BLAS have one thread, the last as before."""
    _lock(f)
    users = f.load(_state(f, USERS))
    with f.when(users.eq(0)):
        now = f.through(f.load(_state(f, GET), elem="ptr"), "i32").cast("sext", "i64")
        f.store(now, _state(f, BEFORE))
        with f.when(now > 1):
            _set_threads(f, f.number(1))
    left = users + change
    f.store(left, _state(f, USERS))
    before = f.load(_state(f, BEFORE))
    with f.when(left.eq(0) & (before > 1)):
        _set_threads(f, before)
    _unlock(f)


def _bit(kind: V, number: int) -> V:
    return (kind & (1 << number)).ne(0)


def _enter(real: str, integer: str) -> None:
    """The functions for one signature of `gemm`."""
    suffix = f"{real}_{integer[1:]}"
    kinds = {name: "ptr" if name in ("gemm", "axes") else "i64" for name in (
        "gemm", "kind", "a", "b", "c", "m", "n", "k", "lda", "ldb", "ldc", "rank", "axes")}
    pieces, name = f"jg_pieces_{suffix}", {"float": "float32", "double": "float64"}[real]

    def multiply(f: Native, gemm: V, kind: V, places: Sequence[V], sizes: Sequence[V]) -> None:
        trans_a, trans_b = (_bit(kind, bit).where(f.number(TRANS, "i32"), NO_TRANS) for bit in (TRANS_A, TRANS_B))
        m, n, k, lda, ldb, ldc = (v if integer == "i64" else v.cast("trunc", integer) for v in sizes)
        a, b, c = (place.cast("inttoptr", "ptr") for place in places)
        with f.when(_bit(kind, BY_TILES)):
            f.do(TILED + name, a, b, c, *sizes, kind)
        with f.unless(_bit(kind, BY_TILES)):
            beta = _bit(kind, ACCUMULATE).where(f.const(1.0, real, 1), 0.0)
            f.run(gemm, f.number(ROW_MAJOR, "i32"), trans_a, trans_b, m, n, k, f.const(1.0, real, 1), a, lda, b, ldb,
                  beta, c, ldc)

    def product(f: Native, *given: V) -> None:
        gemm, kind, a, b, c, m, n, k, lda, ldb, ldc, rank, axes = given
        with f.unless((m > 0) & (n > 0)):
            f.leave()
        lda, ldb, ldc = (v.intrinsic("smax", least).intrinsic("smax", 1) for v, least in (
            (lda, _bit(kind, TRANS_A).where(m, k)), (ldb, _bit(kind, TRANS_B).where(k, n)), (ldc, n)))
        each = m * n * k
        rows = _bit(kind, TRANS_B).where(f.number(TURNED_ROWS), ROWS)
        by_tiles = ((m >= rows) & (n >= COLUMNS) & (k >= DEEP) & ((each > ALONE) | _bit(kind, TRANS_B))
                    & _bit(kind, SHARED))
        kind = by_tiles.where(kind | (1 << BY_TILES), kind)
        with f.when(rank.eq(0) & ((each <= ALONE) | ~_bit(kind, SHARED))):
            multiply(f, gemm, kind, (a, b, c), (m, n, k, lda, ldb, ldc))
            f.leave()
        context = f.room(WORDS)
        for number, v in enumerate((gemm, kind, a, b, c, m, n, k, lda, ldb, ldc, rank, axes)):
            f.store(v, context, number)
        items, repeats = f.variable(f.number(1)), f.variable(f.number(0, "i1"))
        with f.each(rank) as axis:
            count = f.load(axes, axis.shl(2))
            items.value = items.value * count
            repeats.value = repeats.value | ((count > 1) & f.load(axes, axis.shl(2) + 3).eq(0))
        alone = f.load(_state(f, SET)).eq(0) | ~_bit(kind, SHARED)
        tiles, length = f.variable(f.number(1)), f.variable(f.number(0))
        with f.unless(alone):
            long = m.intrinsic("smax", n)
            usual = (n >= m).where(f.number(USUAL), 2 * USUAL)
            wanted = long.op("udiv", LEAST).intrinsic("smin", 2).intrinsic("smax", long.op("udiv", usual))
            wanted = wanted.intrinsic("smin", each.op("udiv", PIECE)).intrinsic("smin", MOST).intrinsic("smax", 1)
            length.value = ((long + wanted - 1).op("udiv", wanted) + (ROUND - 1)) & -ROUND
            tiles.value = (long + length.value - 1).op("udiv", length.value)
        block = f.variable(f.null)
        turned = by_tiles & _bit(kind, TRANS_A) & rank.eq(0) & (tiles.value > 1) & (n > USUAL)
        with f.when(turned):  # each piece of columns goes over all of a
            block.value = f.call("jg_block_new", "ptr", 1, f.number(0), m * k * kind.lshr(ITEMSIZE))
        packed = block.value.compare("ne", f.null)
        with f.when(packed):
            words = f.room(4)
            for number, v in enumerate((block.value, a, k, lda)):
                f.store(v, words, number)
            f.do("jg_parallel", V(f, f"@{PACK}{name}", "ptr", 1), words, m, f.number(USUAL), m * k)
            f.store(kind | (1 << PACKED), context, 1)
            f.store(block.value, context, 2)
        # what is added up for several items goes to one piece, in order
        inside, count = (repeats.value.where(x, y) for x, y in ((items.value, f.number(1)), (f.number(1), items.value)))
        count = count * tiles.value
        for number, v in ((TILES, tiles.value), (LENGTH, length.value), (INSIDE, inside)):
            f.store(v, context, number)
        with f.when(alone | (each * items.value <= ALONE)):
            f.do(pieces, context, f.number(0), count)
            f.leave()
        f.do("jg_blas_users", f.number(1))
        together = (tiles.value * PIECE).op("udiv", (each * inside).intrinsic("smax", 1)).intrinsic("smax", 1)
        f.do("jg_parallel", V(f, f"@{pieces}", "ptr", 1), context, count, together, (each * items.value).lshr(1))
        f.do("jg_blas_users", f.number(-1))
        f.do("jg_block_free", f.number(0), block.value, f.number(0))

    def compute(f: Native, context: V, begin: V, end: V) -> None:
        words = [f.load(context, number, kind) for number, kind in enumerate((*kinds.values(), *["i64"] * 3))]
        gemm, kind, a, b, c, m, n, k, lda, ldb, ldc, rank, axes, tiles, length, inside = words
        size = kind.lshr(ITEMSIZE)
        with f.each(end - begin) as done, f.each(inside) as within:
            number = done + begin
            left = f.variable(number.op("udiv", tiles) + within)
            places = [f.variable(p) for p in (a, b, c)]
            with f.each(rank) as back:
                axis = (rank - 1 - back).shl(2)
                count = f.load(axes, axis)
                index = left.value.op("urem", count)
                left.value = left.value.op("udiv", count)
                for j, place in enumerate(places):
                    place.value = place.value + index * f.load(axes, axis + (1 + j)) * size
            rows, columns = f.variable(m), f.variable(n)
            with f.when(tiles > 1):
                start = number.op("urem", tiles) * length

                def cut(along: Variable, whole: V, operand: Variable, by: V, by_c: V) -> None:
                    along.value = length.intrinsic("smin", whole - start)
                    operand.value = operand.value + start * by * size
                    places[2].value = places[2].value + start * by_c * size

                with f.when(n >= m):
                    cut(columns, n, places[1], _bit(kind, TRANS_B).where(ldb, 1), f.number(1))
                with f.when(n < m):
                    by = _bit(kind, PACKED).where(k, _bit(kind, TRANS_A).where(f.number(1), lda))
                    cut(rows, m, places[0], by, ldc)
            multiply(f, gemm, kind, [p.value for p in places], (rows.value, columns.value, k, lda, ldb, ldc))

    LIBRARY.function("void", name=f"jg_product_{suffix}", **kinds)(product)
    LIBRARY.function("internal void", name=pieces, context="ptr", begin="i64", end="i64")(compute)


for _kind in itertools.product(("float", "double"), ("i32", "i64")):
    _enter(*_kind)
