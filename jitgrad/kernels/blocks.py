"""Memory of large arrays, kept for the next array of about the size: what is new to a process costs a fault per page.

    jg_block_new(0, size), jg_block_zeros(0, count, size), jg_block_resize(0, block, size)   # null: no memory
    jg_block_free(0, block, size)
    jg_keep_blocks(size)        # keep so many bytes at most; gives back what is above

They are a memory handler of NumPy's (NEP 49), which passes a context (0) first. In front of a block are the address to
free and its capacity. What is freed goes to a slot, over the oldest if none is empty or more than the limit is kept. A
slot is emptied and filled by exchanging one word, so any thread may free and allocate, and may be lost in a fork while
it does. Small blocks are the system's.
"""

from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

LIBRARY = Library()
#: blocks kept at most; a power of two
SLOTS = 64
#: bytes from which a block is large, and is kept
LEAST = 1 << 18
#: bytes in front of a large block, which keeps it at a multiple of the widest vector's, and of a small one
HEAD, SMALL_HEAD = 64, 16
#: where large blocks begin differs, in turn, by so many bytes: places that a large power of two is between share few
#: lines of the first cache, and a store to one of them is taken for one to the other
STEP, STEPS = 5 * 64, 32
#: words before a block: its memory's address, the bytes of that
PLACE, CAPACITY = -2, -1
#: from so many bytes on, memory starts at such a page and asks for pages of this size
HUGE, HUGE_PAGE = 1 << 22, 1 << 21
#: advice of Linux's `madvise` for that
USE_HUGE_PAGES = 14
#: more bytes than there are
TOO_MANY = 1 << 47
# words of the state; then the slots
KEPT, LIMIT, TURN, BEGUN, FIRST = 0, 1, 2, 3, 8


def text() -> str:
    """The functions and their state."""
    return f"@jg_blocks = internal global [{FIRST + SLOTS} x i64] zeroinitializer, align 64\n" + LIBRARY.text()


def _word(f: Native, number: V | int) -> V:
    return f.at(V(f, "@jg_blocks", "ptr", 1), number)


def _swap(f: Native, slot: V, new: V | int) -> V:
    """Put an address, or 0, into a slot; what was there, or -1 where another thread was quicker."""
    old = f.atomic_load(slot)
    return f.exchange(slot, old, new).where(old, -1)


def _capacity(f: Native, block: V) -> V:
    return f.load(f.at(block, CAPACITY))


def _drop(f: Native, block: V) -> None:
    """Free what was in a slot, if anything was."""
    with f.when(block > 0):
        f.atomic_add(_word(f, KEPT), f.number(0) - _capacity(f, block))
        f.do("free", f.load(f.at(block, PLACE), elem="ptr"))


@LIBRARY.function("ptr", size="i64")
def jg_fresh(f: Native, size: V) -> V:
    """Memory from the system, in huge pages where it is large and the system has them; null: none."""
    huge = size.compare("uge", HUGE)
    place = f.call("aligned_alloc", "ptr", 1, huge.where(f.number(HUGE_PAGE), HEAD), (size + (HEAD - 1)) & -HEAD)
    with f.when(huge & place.compare("ne", f.null)):
        f.call("madvise", "i32", 1, place, size, f.number(USE_HUGE_PAGES, "i32"))
    return place


def _block(f: Native, place: V, head: V | int, size: V) -> V:
    """The block in new memory, of which so much follows its head; null where there is none."""
    block = f.at(place, head, "i8")
    with f.when(place.compare("ne", f.null)):
        f.store(place, block, PLACE)
        f.store(size, block, CAPACITY)
    return place.compare("ne", f.null).where(block, f.null)


@LIBRARY.function("internal ptr", size="i64")
def jg_kept_block(f: Native, size: V) -> V:
    """A block that was kept and has room, but no more than a quarter too much; null: none."""
    with f.each(SLOTS) as k:
        slot = _word(f, k + FIRST)
        with f.when(f.atomic_load(slot).ne(0)):
            start = _swap(f, slot, 0)
            with f.when(start > 0):
                capacity = _capacity(f, start)
                with f.when((capacity >= size) & (capacity - size <= size.lshr(2))):
                    f.atomic_add(_word(f, KEPT), f.number(0) - capacity)
                    f.leave(f.at(start, 0))
                with f.unless(f.exchange(slot, 0, start)):
                    _drop(f, start)
    return f.null


@LIBRARY.function("ptr", context="i64", size="i64")
def jg_block_new(f: Native, context: V, size: V) -> V:
    with f.when(size.compare("ult", LEAST)):
        f.leave(_block(f, f.call("malloc", "ptr", 1, size + SMALL_HEAD), SMALL_HEAD, size))
    block = f.variable(f.call("jg_kept_block", "ptr", 1, size))
    with f.when(block.value.compare("ne", f.null)):
        f.leave(block.value)
    need = size.compare("ult", TOO_MANY).where(size, TOO_MANY) + (HEAD + STEP * STEPS)
    head = (f.atomic_add(_word(f, BEGUN), 1) & (STEPS - 1)) * STEP + HEAD
    block.value = _block(f, f.call("jg_fresh", "ptr", 1, need), head, size)
    with f.when(block.value.compare("eq", f.null)):  # what is kept is less urgent
        with f.each(SLOTS) as k:
            _drop(f, _swap(f, _word(f, k + FIRST), 0))
        block.value = _block(f, f.call("jg_fresh", "ptr", 1, need), head, size)
    return block.value


@LIBRARY.function("ptr", context="i64", count="i64", size="i64")
def jg_block_zeros(f: Native, context: V, count: V, size: V) -> V:
    block = f.call("jg_block_new", "ptr", 1, context, count * size)  # NumPy has seen that the product is a number
    with f.when(block.compare("ne", f.null)):
        f.call("memset", "ptr", 1, block, f.number(0, "i32"), count * size)
    return block


@LIBRARY.function("ptr", context="i64", block="ptr", size="i64")
def jg_block_resize(f: Native, context: V, block: V, size: V) -> V:
    new = f.call("jg_block_new", "ptr", 1, context, size)
    with f.when((block.compare("ne", f.null)) & (new.compare("ne", f.null))):
        f.call("memcpy", "ptr", 1, new, block, _capacity(f, block).intrinsic("umin", size))
        f.do("jg_block_free", context, block, size)
    return new


@LIBRARY.function("void", context="i64", block="ptr", size="i64")
def jg_block_free(f: Native, context: V, block: V, size: V) -> None:
    """Of `size` it needs nothing: an array may have been given another dtype."""
    with f.when(block.compare("eq", f.null)):
        f.leave()
    capacity, limit = _capacity(f, block), f.atomic_load(_word(f, LIMIT))
    with f.when(capacity.compare("ult", LEAST) | (capacity > limit)):
        f.do("free", f.load(f.at(block, PLACE), elem="ptr"))
        f.leave()
    start = block.cast("ptrtoint", "i64")
    f.atomic_add(_word(f, KEPT), capacity)
    f.do("jg_shrink_blocks", limit)
    with f.each(SLOTS) as k, f.when(f.exchange(_word(f, k + FIRST), 0, start)):
        f.leave()
    turn = f.atomic_add(_word(f, TURN), 1) & (SLOTS - 1)
    old = _swap(f, _word(f, turn + FIRST), start)
    _drop(f, old.eq(-1).where(start, old))


@LIBRARY.function("internal void", limit="i64")
def jg_shrink_blocks(f: Native, limit: V) -> None:
    """Give back what is kept above the limit, slot after slot."""
    with f.each(SLOTS):
        with f.when(f.atomic_load(_word(f, KEPT)) <= limit):
            f.leave()
        turn = f.atomic_add(_word(f, TURN), 1) & (SLOTS - 1)
        _drop(f, _swap(f, _word(f, turn + FIRST), 0))


@LIBRARY.function("void", limit="i64")
def jg_keep_blocks(f: Native, limit: V) -> None:
    f.atomic_store(limit, _word(f, LIMIT))
    f.do("jg_shrink_blocks", limit)
