"""`jg_arrays`: whether NumPy arrays are what a program was compiled for, asked of their memory by native code.

    jg_arrays(items: the arrays, one pointer each; table: int64 words) -> 1: all as the table says, 0: look closer

The table (`codegen/run/arrays.py` makes it) has a head, a record for each array, and pairs of sizes:

    head     address of the class ndarray, byte offset of `nd` in an array, number of records, number of pairs,
             address of the scratch memory, its number of entries - 1, number of the call
    record   number of the item, address of the dtype, rank, part, sizes: a number, or -1 for any but 1
    pair     item, axis, item, axis: two equal sizes; with -1 for the second item its number instead

An array's part is 1 where it is written, 0 where it is not, 2 where memory does not matter. The owner of what is
written (the array, or its base) must be nobody else's: the scratch memory is a hash table of owners that are written,
emptied by counting calls. So records of part 1 come first.
"""

from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

#: byte offsets from `nd`, and of an object's class; `codegen/run/arrays.py` looks whether they are so here
SHAPE, BASE, DTYPE, CLASS = 8, 24, 32, 8
#: words of the head, and of a record without its sizes
HEAD, RECORD, PAIR = 7, 4, 4
#: the part of an array
READ, WRITTEN, ANYWHERE = 0, 1, 2

LIBRARY = Library()


@LIBRARY.function("i64", items="ptr", table="ptr")
def jg_arrays(f: Native, items: V, table: V) -> V:
    kind, nd, count, pairs, scratch, mask, calls = [f.load(table, k) for k in range(HEAD)]
    call = calls + 1
    f.store(call, table, HEAD - 1)
    place = f.variable(f.at(table, HEAD))

    def fields_of(item: V) -> V:
        return f.at(f.load(items, item), nd, "i8")

    with f.each(count):
        record = place.value
        array = f.load(items, f.load(record))
        look_closer_unless(f, f.field(array, CLASS).eq(kind))
        fields = fields_of(f.load(record))
        rank = f.load(fields, elem="i32").cast("sext", "i64")
        look_closer_unless(f, f.field(fields, DTYPE).eq(f.load(record, 1)) & rank.eq(f.load(record, 2)))
        with f.each(rank) as axis:
            size, wanted = f.load(f.field(fields, SHAPE), axis), f.load(record, axis + RECORD)
            look_closer_unless(f, wanted.eq(-1).where(size.ne(1), size.eq(wanted)))
        part = f.load(record, 3)
        with f.when(part.ne(ANYWHERE)):
            owner, base = f.variable(array), f.field(fields, BASE)
            with f.when(base.ne(0)):
                look_closer_unless(f, f.field(base, CLASS).eq(kind))
                look_closer_unless(f, f.field(f.at(base, nd, "i8"), BASE).eq(0))
                owner.value = base
            own_memory(f, owner.value, part.eq(WRITTEN), scratch, mask, call)
        place.value = f.at(record, rank + RECORD)
    with f.each(pairs) as k:
        item, axis, other, other_axis = [f.load(place.value, k * PAIR + i) for i in range(PAIR)]
        expected = f.variable(other_axis)
        with f.when(other.ne(-1)):
            expected.value = f.load(f.field(fields_of(other), SHAPE), other_axis)
        look_closer_unless(f, f.load(f.field(fields_of(item), SHAPE), axis).eq(expected.value))
    return f.number(1)


def look_closer_unless(f: Native, good: V) -> None:
    with f.unless(good):
        f.leave(f.number(0))


def own_memory(f: Native, owner: V, written: V, scratch: V, mask: V, call: V) -> None:
    """Look the owner of an array's memory up among those that are written, and enter it there if it is `written`."""
    place = f.variable((owner.lshr(4) * 11400714819323198485).lshr(32))
    with f.loop() as stop:
        slot = place.value & mask
        entry = f.at(scratch, slot.shl(1))
        with f.when(f.load(entry).ne(call)):
            with f.when(written):
                f.store(call, entry)
                f.store(owner, entry, 1)
            stop()
        look_closer_unless(f, f.load(entry, 1).ne(owner))
        place.value = slot + 1
