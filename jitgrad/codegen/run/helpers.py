"""Functions that programs call: memory, tables of inputs, signals, the arena of sequences (see `llvm/sequences.py`).

They are part of the run-time library (`runtime.py`), which is compiled once for a machine.
"""

from jitgrad.codegen.program.layout import Word
from jitgrad.kernels.blocks import TOO_MANY
from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

LIBRARY = Library()
#: words of a chunk of the arena: the one made before it, its bytes, those of them that are used
PREVIOUS, SIZE, USED = range(3)
#: bytes of a chunk in front of its memory; the least that one has
HEAD, LEAST = 64, 1 << 16


def allocated(f: Native, size: V) -> V:
    return f.call("jg_fresh", "ptr", 1, size)


@LIBRARY.function("i1", slot="ptr", size="i64")
def jg_grow(f: Native, slot: V, size: V) -> V:
    """Let a (pointer, capacity) have room; what was in it is lost. False: no memory.

    Room for nothing is an address too: a kernel loads what no axis changes before it knows that an axis is empty.
    """
    size = size | 1
    with f.when(f.load(slot, 1).compare("ult", size)):
        f.do("free", f.load(slot, elem="ptr"))
        padded = (size + size.lshr(3) + 127) & -64
        new = allocated(f, size.compare("ult", TOO_MANY).where(padded, TOO_MANY))
        good = new.compare("ne", f.null)
        f.store(new, slot)
        f.store(good.where(padded, 0), slot, 1)
        f.leave(good)
    return f.number(True, "i1")


@LIBRARY.function("i32", items="ptr", count="i64", table="ptr", data="i64", flags="i64")
def jg_gather(f: Native, items: V, count: V, table: V, data: V, flags: V) -> V:
    """Fill a table with the data pointers of arrays, given the offsets of two fields; the flags that all of them have.
    """
    together = f.variable(f.number(-1, "i32"))
    with f.each(count) as k:
        item = f.load(items, k, "ptr")
        f.store(f.field(item, data, "ptr"), table, k)
        together.value = together.value & f.field(item, flags, "i32")
    return together.value


@LIBRARY.function("i1", block="ptr")
def jg_poll(f: Native, block: V) -> V:
    """Run pending signal handlers; an exception that one raises is kept in the block's first free words. True: none."""
    lock = f.call("PyGILState_Ensure", "i32", 1)
    good = f.call("PyErr_CheckSignals", "i32", 1).eq(0)
    with f.unless(good):
        f.do("PyErr_Fetch", *[f.at(block, Word.FIRST_FREE + k) for k in range(3)])
        f.store(f.number(-1), block, Word.SITE)
    f.do("PyGILState_Release", lock)
    return good


@LIBRARY.function("ptr", block="ptr", size="i64")
def jg_arena(f: Native, block: V, size: V) -> V:
    """Memory of the arena, in its newest chunk or a new one; null: there is none."""
    with f.when(size.compare("uge", TOO_MANY)):
        f.leave(f.null)
    need, newest = (size + 63) & -64, f.load(block, Word.ARENA, "ptr")
    before = f.variable(f.number(LEAST // 2))
    with f.when(newest.compare("ne", f.null)):
        start, before.value = f.load(newest, USED), f.load(newest, SIZE)
        end = start + need
        with f.when(end.compare("ule", before.value)):
            f.store(end, newest, USED)
            f.leave(f.at(newest, start, "i8"))
    used, twice = need + HEAD, before.value.shl(1)
    room = used.compare("ugt", twice).where(used, twice)
    new = allocated(f, room)
    with f.when(new.compare("ne", f.null)):
        for word, value in ((PREVIOUS, newest), (SIZE, room), (USED, used)):
            f.store(value, new, word)
        f.store(new, block, Word.ARENA)
        f.leave(f.at(new, HEAD, "i8"))
    return f.null


@LIBRARY.function("i64", chunk="ptr")
def jg_arena_used(f: Native, chunk: V) -> V:
    """How much of a chunk is used; 0 where there is none."""
    with f.when(chunk.compare("ne", f.null)):
        f.leave(f.load(chunk, USED))
    return f.number(0)


@LIBRARY.function("void", block="ptr", keep="ptr", used="i64")
def jg_arena_release(f: Native, block: V, keep: V, used: V) -> None:
    """Free the chunks made after `keep`, of which so much is used."""
    with f.loop() as stop:
        newest = f.load(block, Word.ARENA, "ptr")
        with f.when(newest.compare("eq", keep)):
            stop()
        f.store(f.load(newest, PREVIOUS, "ptr"), block, Word.ARENA)
        f.do("free", newest)
    with f.when(keep.compare("ne", f.null)):
        f.store(used, keep, USED)


@LIBRARY.function("void", block="ptr")
def jg_arena_reset(f: Native, block: V) -> None:
    """Free all chunks but the newest, of which nothing is used."""
    newest = f.load(block, Word.ARENA, "ptr")
    with f.when(newest.compare("eq", f.null)):
        f.leave()
    with f.loop() as stop:
        older = f.load(newest, PREVIOUS, "ptr")
        with f.when(older.compare("eq", f.null)):
            stop()
        f.store(f.load(older, PREVIOUS, "ptr"), newest, PREVIOUS)
        f.do("free", older)
    f.store(f.number(HEAD), newest, USED)
