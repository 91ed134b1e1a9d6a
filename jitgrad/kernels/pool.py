"""The threads that native code computes with: `jg_parallel` runs a function over chunks of a range on several cores.

    jg_parallel(function, context, count, length, work)     # function(context, begin, end) for `length` of 0 .. count
    jg_length(count, row, cost, unit)                       # how long chunks are, by the work that a kernel has
    jg_shared_8(how, 0, a0, ... a7)                         # kernel(parts, begin, a0, ... a7), as `how` says
    jg_set_threads(count), jg_forget_threads()              # the latter in a child process: it has none

Chunks depend on sizes alone, never on the number of threads, and neither does what is computed of them.

One job runs at a time. Its owner takes chunks like everybody else and, when none is left, waits for those that others
took: never for somebody to show up. A second caller meanwhile runs its chunks one by one. Who takes a chunk computes
floating-point numbers as the owner does (`modes.py`).
Each thread has a range of the chunks, the same one in every job of as many: what one job wrote is in the caches of the
core that reads it in the next. It takes its chunks from the front, and then those of others from their ends. A range is
one word, which is exchanged: the job's number, the next chunk, the end. So who comes late takes none of another job.
Who finds nothing to do looks `SPINS` times, then sleeps. Threads are made by the first job that could use them.
To wake one takes longer than a small job: that is for jobs of which the others' share is `WORTH`, or less if with what
was done alone just before it is as much.

Where other processes need the processors, a thread may lose its own in the middle of a chunk, and the owner waits for
it. So after a job whose owner waited for longer than chunks take, it does the next one alone, after another such job
the next two, then four, and so on; a job without such a wait ends that.
"""

import signal
import time
from collections.abc import Callable

from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

LIBRARY = Library()
#: looks for work, or for the end of it, with a pause of the processor's between (20 to 100 us in all), before sleeping
SPINS = 2000
#: work (see `plan.cost`) that is worth another thread's while, and how much a chunk has about; some 15 us
GRAIN = 1 << 19
#: a wait is long from so many times what a chunk takes on, and so many nanoseconds
LONG, WAIT = 4, 150_000
#: work that others must do for it to be worth waking them, some 0.12 ms: they come 0.04 ms later, and find what they
#: need in another core's caches (`benchmarks.peers`: the GRU); and nanoseconds between jobs whose work adds up
WORTH, PAUSE = 4 << 20, 40_000
#: jobs that an owner does alone at most, after long waits
ALONE = 64
#: work from which a kernel is cut
WORK = 2 * GRAIN
#: chunks at most, a multiple of 4
MOST = 128
#: bytes at whose multiples accumulators lie: those of the widest vector
ALIGNMENT = 64
#: threads at most, and chunks of a job at most
LIMIT, LARGEST = 256, (1 << 16) - 1
#: numbers of arguments, besides its bounds, with which a kernel that is shared is called: it may have fewer
ARITIES = (8, 16, 24, 32, 48, 64, 128)
#: words of a job's context before the kernel's arguments
GIVEN = 4
#: words of what is to be known of a kernel (`jg_share`)
KERNEL, RANK, CUT, COST, UNIT, JOIN, PART, MOVES = range(8)
MASK32 = (1 << 32) - 1

# words of the state, those that are written together in a cache line of their own
(RANGES, FUNCTION, CONTEXT, COUNT, LENGTH, CHUNKS, MODES) = range(7)
(DONE, WAITING) = range(8, 10)
(EPOCH, SLEEPERS, STOP) = range(16, 19)
(BUSY, WANTED, STARTED, READY, SKIP, SKIPS, ALONE_FOR, ENDED) = range(24, 32)
#: places of a mutex, two conditions and two sets of signals, each of at most 128 bytes; then of the threads, and of
#: their ranges, a cache line each
MUTEX, WORKERS, OWNER, ALL_SIGNALS, SIGNALS = range(32, 112, 16)
THREADS, LINE = 112, 8
CLAIMS = THREADS + LIMIT
WORDS = CLAIMS + LINE * LIMIT

#: a hint that this is a loop that waits, by the beginning of the machine's triple: the intrinsic and its arguments
_PAUSES = {"x86_64": ("llvm.x86.sse2.pause", ""), "aarch64": ("llvm.aarch64.hint", "i32 1"),
           "arm64": ("llvm.aarch64.hint", "i32 1")}


def text(triple: str) -> str:
    """The functions and their state, for a machine."""
    pause = Native()
    for start, (hint, arguments) in _PAUSES.items():
        if triple.startswith(start):
            pause.declares[hint] = f"declare void @{hint}({arguments.partition(' ')[0]})"
            pause.line(f"call void @{hint}({arguments})")
    pause.leave()
    return "\n".join([f"@jg_pool = internal global [{WORDS} x i64] zeroinitializer, align 64",
                      *pause.declares.values(), *pause.defined("internal void @jg_pause", []),
                      LIBRARY.text()])


def _word(f: Native, number: V | int) -> V:
    return f.at(V(f, "@jg_pool", "ptr", 1), number)


def _get(f: Native, number: V | int, elem: str = "i64") -> V:
    return f.atomic_load(_word(f, number), elem)


def _set(f: Native, number: V | int, value: V | int) -> None:
    f.atomic_store(f.number(value) if isinstance(value, int) else value, _word(f, number))


def _now(f: Native) -> V:
    """Nanoseconds."""
    found = f.room(2)
    f.call("clock_gettime", "i32", 1, f.number(time.CLOCK_MONOTONIC, "i32"), found)
    return f.load(found) * 1_000_000_000 + f.load(found, 1)


def _wake(f: Native, condition: int, some: V | None = None) -> None:
    """All who sleep on a condition, or some of them."""
    f.call("pthread_mutex_lock", "i32", 1, _word(f, MUTEX))
    with f.part() as done:
        if some is not None:
            with f.when(some < _get(f, SLEEPERS)):
                with f.each(some):
                    f.call("pthread_cond_signal", "i32", 1, _word(f, condition))
                done()
        f.call("pthread_cond_broadcast", "i32", 1, _word(f, condition))
    f.call("pthread_mutex_unlock", "i32", 1, _word(f, MUTEX))


def _await(f: Native, condition: int, sleepers: int, holds: Callable[[], V]) -> None:
    """Look until something holds, or sleep until then; who makes it hold looks at the number of sleepers after."""
    with f.part() as done:
        with f.each(SPINS):
            with f.when(holds()):
                done()
            f.do("jg_pause")
        f.call("pthread_mutex_lock", "i32", 1, _word(f, MUTEX))
        f.atomic_add(_word(f, sleepers), 1)
        with f.loop() as stop:
            with f.when(holds()):
                stop()
            f.call("pthread_cond_wait", "i32", 1, _word(f, condition), _word(f, MUTEX))
        f.atomic_add(_word(f, sleepers), -1)
        f.call("pthread_mutex_unlock", "i32", 1, _word(f, MUTEX))


@LIBRARY.function("internal i64", count="i64", row="i64", cost="i64", unit="i64")
def jg_length(f: Native, count: V, row: V, cost: V, unit: V) -> V:
    """The length of the chunks of an axis: a multiple of `unit`, or all of it, where a place is row * cost work."""
    places = count * row
    with f.when(places <= f.number(WORK).op("udiv", cost)):
        f.leave(count.intrinsic("smax", 1))
    pieces = (((places * cost).op("udiv", GRAIN) + 3) & -4).intrinsic("smax", 4).intrinsic("smin", MOST)
    length = (count + pieces - 1).op("udiv", pieces)
    return (length + unit - 1).op("udiv", unit) * unit


@LIBRARY.function("void", function="ptr", context="ptr", count="i64", length="i64", work="i64")
def jg_parallel(f: Native, function: V, context: V, count: V, length: V, work: V) -> None:
    """function(context, begin, end) for each chunk, `work` (see `plan.cost`) in all; returns when all are done."""
    length = length.intrinsic("smax", (count + (LARGEST - 1)).op("udiv", LARGEST))
    chunks = (count + length - 1).op("udiv", length)
    with f.when((chunks > 1) & (_get(f, WANTED) > 1)), f.when(f.exchange(_word(f, BUSY), 0, 1)), f.part() as alone:
        skip = _get(f, SKIP)
        with f.when(skip > 0):
            _set(f, SKIP, skip - 1)
            _set(f, BUSY, 0)
            alone()
        f.do("jg_start_threads")
        job, wanted = _get(f, EPOCH) + 1, _get(f, WANTED)
        ranges = wanted.intrinsic("smin", chunks)
        for number, value in ((RANGES, ranges), (FUNCTION, function), (CONTEXT, context), (COUNT, count),
                              (LENGTH, length), (CHUNKS, chunks), (MODES, f.call("jg_modes", "i64", 1)), (DONE, 0)):
            _set(f, number, value)
        with f.each(ranges) as k:
            first, end = ((chunks * number).op("udiv", ranges) for number in (k, k + 1))
            _set(f, k * LINE + CLAIMS, job.shl(32) | first.shl(16) | end)
        _set(f, EPOCH, job)
        begun = _now(f)
        total = (begun - _get(f, ENDED) < PAUSE).where(work + _get(f, ALONE_FOR), work)
        with f.when((_get(f, SLEEPERS) > 0) & (total * (wanted - 1) > wanted * WORTH)):
            _wake(f, WORKERS, chunks - 1)
        mine = f.call("jg_work", "i64", 1, job, f.number(0))
        ended = _now(f)
        _await(f, OWNER, WAITING, lambda: _get(f, DONE).eq(chunks))
        usual, waited = (ended - begun).op("udiv", mine.intrinsic("smax", 1)), _now(f) - ended
        skips = ((mine > 0) & (waited > usual * LONG + WAIT)).where(
            (_get(f, SKIPS) * 2).intrinsic("smax", 1).intrinsic("smin", ALONE), 0)
        _set(f, ALONE_FOR, mine.eq(chunks).where(total, 0))
        _set(f, ENDED, ended)
        _set(f, SKIPS, skips)
        _set(f, SKIP, skips)
        _set(f, BUSY, 0)
        f.leave()
    with f.each(chunks) as k:
        begin = k * length
        f.run(function, context, begin, (begin + length).intrinsic("smin", count))


def _enter_shared(arity: int) -> None:
    """The function that shares a kernel of so many arguments, and the one that calls it for a chunk.

    All arguments are words (addresses and integers travel alike); those behind a kernel's own it does not look at.
    """
    words = {f"a{k}": "i64" for k in range(arity)}
    chunk = f"jg_chunk_{arity}"

    def share(f: Native, how: V, begin: V, *given: V) -> None:
        context = f.room(GIVEN + arity)
        for k, word in enumerate((how, f.null, f.number(1), f.number(arity), *given)):
            f.store(word, context, k)
        f.do("jg_share", V(f, f"@{chunk}", "ptr", 1), context)

    def call(f: Native, context: V, begin: V, end: V) -> None:
        given = f.room(arity)
        parts = f.call("jg_enter_chunk", "ptr", 1, context, begin, end, given)
        kernel = f.load(f.load(context, 0, "ptr"), KERNEL, "ptr")
        f.run(kernel, parts, begin, *[f.load(given, k) for k in range(arity)])

    LIBRARY.function("void", name=f"jg_shared_{arity}", how="ptr", begin="i64", **words)(share)
    LIBRARY.function("internal void", name=chunk, context="ptr", begin="i64", end="i64")(call)


@LIBRARY.function("internal void", chunk="ptr", context="ptr")
def jg_share(f: Native, chunk: V, context: V) -> None:
    """Compute a kernel: the words of `context` are its `how`, its parts, the chunks' length and its arguments.

    `how` points to words at `KERNEL` ...: the function; the number of its axes, whose sizes are the first arguments;
    which of them is cut; the cost of a place; the unit of a chunk's length. Of a sum of everything, what joins two
    chunks' accumulators (else null) and the bytes of these. How many arguments move with the start of the chunk, and
    three words of each: the argument, bytes, and the argument these are to be multiplied by, or -1.
    """
    how = f.load(context, 0, "ptr")
    cut, join, size = f.load(how, CUT), f.load(how, JOIN, "ptr"), f.load(how, PART)
    count = f.load(context, cut + GIVEN)
    row = f.variable(f.number(1))
    with f.each(f.load(how, RANK)) as axis, f.unless(axis.eq(cut)):
        row.value = row.value * f.load(context, axis + GIVEN)
    cost = f.load(how, COST)
    length = f.call("jg_length", "i64", 1, count, row.value, cost, f.load(how, UNIT))
    work = count * row.value * cost
    f.store(length, context, 2)
    with f.when(join.compare("eq", f.null)):
        f.do("jg_parallel", chunk, context, count, length, work)
        f.leave()
    chunks = (count + length - 1).op("udiv", length)
    parts = f.call("aligned_alloc", "ptr", 1, f.number(ALIGNMENT), chunks * size)
    f.store(parts, context, 1)
    with f.when(parts.compare("eq", f.null)):  # there is no memory: without chunks none is needed
        f.run(chunk, context, f.number(0), count)
        f.leave()
    f.do("jg_parallel", chunk, context, count, length, work)
    with f.each(chunks - 1) as k:
        f.run(join, parts, f.at(parts, (k + 1) * size, "i8"))
    f.run(chunk, context, f.number(-1), count)
    f.do("free", parts)


@LIBRARY.function("internal ptr", context="ptr", begin="i64", end="i64", given="ptr")
def jg_enter_chunk(f: Native, context: V, begin: V, end: V, given: V) -> V:
    """Put a kernel's arguments for a chunk into `given`; where its accumulators go. Before the start: for what is left.
    """
    how, parts = f.load(context, 0, "ptr"), f.load(context, 1, "ptr")
    with f.each(f.load(context, 3)) as k:
        f.store(f.load(context, k + GIVEN), given, k)
    with f.when(begin < 0):
        f.leave(parts)
    f.store(end - begin, given, f.load(how, CUT))
    with f.each(f.load(how, MOVES)) as k:
        place, size, by = (f.load(how, k * 3 + (MOVES + 1 + j)) for j in range(3))
        step = f.variable(size)
        with f.when(by >= 0):
            step.value = size * f.load(context, by + GIVEN)
        f.store(f.load(given, place) + begin * step.value, given, place)
    with f.when(parts.compare("eq", f.null)):
        f.leave(parts)
    return f.at(parts, begin.op("udiv", f.load(context, 2)) * f.load(how, PART), "i8")


for _arity in ARITIES:
    _enter_shared(_arity)


@LIBRARY.function("internal i64", job="i64", me="i64")
def jg_work(f: Native, job: V, me: V) -> V:
    """Take chunks of a job until there are none, those of thread `me` first; how many."""
    taken = f.variable(f.number(0))
    with f.each(_get(f, RANGES)) as others:
        whose = (me + others).op("urem", _get(f, RANGES).intrinsic("smax", 1))
        own, place = whose.eq(me), _word(f, whose * LINE + CLAIMS)
        with f.loop() as stop:
            claim = f.atomic_load(place)
            first, end = claim.lshr(16) & LARGEST, claim & LARGEST
            with f.when(claim.lshr(32).ne(job & MASK32) | (first >= end)):
                stop()
            with f.when(f.exchange(place, claim, own.where(claim + (1 << 16), claim - 1))):
                f.do("jg_compute_with", _get(f, MODES))
                length, count, chunks = _get(f, LENGTH), _get(f, COUNT), _get(f, CHUNKS)
                begin = own.where(first, end - 1) * length
                function, context = _get(f, FUNCTION, "ptr"), _get(f, CONTEXT, "ptr")
                f.run(function, context, begin, (begin + length).intrinsic("smin", count))
                taken.value = taken.value + 1
                last = (f.atomic_add(_word(f, DONE), 1) + 1).eq(chunks)
                with f.when(last), f.when(_get(f, WAITING) > 0):
                    _wake(f, OWNER)
    return taken.value


@LIBRARY.function("internal ptr", given="ptr")
def jg_worker(f: Native, given: V) -> V:
    """What a thread does, whose number is above that of the last job before it: works on jobs until it is stopped."""
    words = given.cast("ptrtoint", "i64")
    last = f.variable(words & MASK32)
    with f.loop() as stop:
        _await(f, WORKERS, SLEEPERS, lambda: (_get(f, EPOCH) & MASK32).ne(last.value))
        last.value = _get(f, EPOCH) & MASK32
        with f.when(_get(f, STOP).ne(0)):
            stop()
        f.call("jg_work", "i64", 1, last.value, words.lshr(32))
    return f.null


@LIBRARY.function("internal void")
def jg_start_threads(f: Native) -> None:
    """As many as are wanted and can be had. Signals are for the threads that Python knows. For who is BUSY."""
    with f.when(_get(f, STARTED) >= _get(f, WANTED) - 1):
        f.leave()
    with f.when(_get(f, READY).eq(0)):
        f.call("pthread_mutex_init", "i32", 1, _word(f, MUTEX), f.null)
        f.call("pthread_cond_init", "i32", 1, _word(f, WORKERS), f.null)
        f.call("pthread_cond_init", "i32", 1, _word(f, OWNER), f.null)
        f.call("sigfillset", "i32", 1, _word(f, ALL_SIGNALS))
        _set(f, READY, 1)
    change = f.number(int(signal.SIG_SETMASK), "i32")
    f.call("pthread_sigmask", "i32", 1, change, _word(f, ALL_SIGNALS), _word(f, SIGNALS))
    with f.loop() as stop:
        started = _get(f, STARTED)
        with f.when(started >= _get(f, WANTED) - 1):
            stop()
        given = ((started + 1).shl(32) | (_get(f, EPOCH) & MASK32)).cast("inttoptr", "ptr")
        failed = f.call("pthread_create", "i32", 1, _word(f, started + THREADS), f.null, V(f, "@jg_worker", "ptr", 1),
                        given).ne(0)
        with f.when(failed):
            _set(f, WANTED, started + 1)
            stop()
        _set(f, STARTED, started + 1)
    f.call("pthread_sigmask", "i32", 1, change, _word(f, SIGNALS), f.null)


@LIBRARY.function("void", count="i64")
def jg_set_threads(f: Native, count: V) -> None:
    """How many threads work on a job from now on, the caller's included; those that are there end."""
    with f.loop() as stop:
        with f.when(f.exchange(_word(f, BUSY), 0, 1)):
            stop()
        f.call("sched_yield", "i32", 1)
    with f.when(_get(f, STARTED) > 0):
        _set(f, STOP, 1)
        _set(f, EPOCH, _get(f, EPOCH) + 1)
        _wake(f, WORKERS)
        with f.each(_get(f, STARTED)) as k:
            f.call("pthread_join", "i32", 1, _get(f, k + THREADS), f.null)
        _set(f, STARTED, 0)
        _set(f, STOP, 0)
    _set(f, WANTED, count.intrinsic("smin", LIMIT).intrinsic("smax", 1))
    for number in (SKIP, SKIPS, ALONE_FOR, BUSY):
        _set(f, number, 0)


@LIBRARY.function("void")
def jg_forget_threads(f: Native) -> None:
    """In a child process: whatever the parent's threads were about, none of them is here."""
    for number in (WAITING, SLEEPERS, STOP, STARTED, READY, SKIP, SKIPS, ALONE_FOR, BUSY):
        _set(f, number, 0)
