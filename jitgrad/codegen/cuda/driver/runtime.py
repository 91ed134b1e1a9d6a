"""What the host function of a device program calls: a library around the C functions of a driver.

Its LLVM text is compiled once per machine, like the CPU's library of functions (`run/runtime.py`), and linked
once per driver; programs hold declarations alone.

An error of the driver is kept in the block, the first one; launches after it do no harm, and the function reports it at
its end or where it waits for the device.
"""

import functools
from collections.abc import Mapping, Sequence

from jitgrad.codegen.cuda.kernels.geometry import Form
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.program.layout import Word
from jitgrad.codegen.run import store
from jitgrad.kernels.native import Library, Native
from jitgrad.kernels.values import V

#: the driver's error for a kernel that takes more than the device has; here, more shared memory, in all its forms
OUT_OF_RESOURCES = 701
#: bytes of which pieces of chunks are multiples
ALIGNMENT = 256


def handles(count: int) -> str:
    """The table of kernels, and how many blocks of each are resident at once (of regions): the loader fills them."""
    return (f"@jg_handles = global [{max(1, count)} x ptr] zeroinitializer\n"
            f"@jg_resident = global [{max(1, count)} x i64] zeroinitializer")


#: words of a launch in a table of forms: what `geometry.grid` computes with, and where the function's handle is
LAUNCH_WORDS = 8


def table(name: str, forms: Sequence[Form], numbers: Mapping[str, int]) -> str:
    """A kernel's forms as a constant that `jg_launch` reads, up to one of no launches; `numbers`: handles by symbol."""
    words: list[int | str] = []
    for form in forms:
        words += [form.bound, form.rows, len(form.launches)]
        for launch in form.launches:
            slot = f"ptrtoint (ptr getelementptr (ptr, ptr @jg_handles, i64 {numbers[launch.symbol]}) to i64)"
            words += [slot, launch.threads, launch.each, launch.most, launch.split, launch.blocks, launch.shared,
                      launch.unit]
    words += [0, 0, 0]
    return f"@{name} = internal constant [{len(words)} x i64] [{', '.join(f'i64 {w}' for w in words)}]"


LIBRARY = Library()


def called(f: Native, block: V, function: str, *arguments: V) -> V:
    """Call the driver; its first error is kept."""
    status = f.call(function, "i32", 1, *arguments)
    kept(f, block, status)
    return status


def kept(f: Native, block: V, status: V) -> None:
    """Keep the first error."""
    before = f.load(block, Word.ERROR)
    f.store(before.eq(0).where(status.cast("zext", "i64"), before), block, Word.ERROR)


def launched(f: Native, block: V, function: str, kernel: V, grid: Sequence[V | int], arguments: V) -> None:
    """Launch a kernel: blocks and threads along x, y, z, bytes of shared memory."""
    sizes = [n.cast("trunc", "i32") if isinstance(n, V) else f.number(n, "i32") for n in grid]
    called(f, block, function, kernel, *sizes, stream_of(f, block), arguments, f.null)


def stream_of(f: Native, block: V) -> V:
    return f.load(block, Word.STREAM, "ptr")


def up(a: V, b: V) -> V:
    """a / b, rounded up."""
    return (a + (b - 1)).op("sdiv", b)


@LIBRARY.function("void", block="ptr", table="ptr", outer="i64", inner="i64", arguments="ptr")
def jg_launch(f: Native, block: V, table: V, outer: V, inner: V, arguments: V) -> None:
    """The arithmetic of `geometry.py`."""
    with f.when(outer <= 0):
        f.leave()
    form = f.variable(table)
    with f.loop():
        bound, rows, count = [f.load(form.value, k) for k in range(3)]
        first = f.at(form.value, 3)
        with f.when(count.eq(0)):
            kept(f, block, f.number(OUT_OF_RESOURCES, "i32"))
            f.leave()
        with f.when((inner <= bound) & (outer <= rows) & (shared_bytes(f, first, inner) <= f.load(block, Word.SHARED))):
            with f.each(count) as k:
                launch_one(f, block, f.at(first, k * LAUNCH_WORDS), outer, inner, arguments)
            f.leave()
        form.value = f.at(first, count * LAUNCH_WORDS)


def shared_bytes(f: Native, launch: V, inner: V) -> V:
    shared, unit = f.load(launch, 6), f.load(launch, 7)
    return up(inner, unit) * unit * shared


def launch_one(f: Native, block: V, launch: V, outer: V, inner: V, arguments: V) -> None:
    slot, threads, each, most, split, blocks = [f.load(launch, k) for k in range(6)]
    x, y = up(outer, each).intrinsic("smin", most), f.variable(f.number(1))
    with f.when(split.ne(0)):
        y.value = up(inner, split).intrinsic("smin", blocks.op("sdiv", x)).intrinsic("smax", 1)
    launched(f, block, "jg_cuda_launch", f.load(slot, elem="ptr"),
             (x, y.value, 1, threads, 1, 1, shared_bytes(f, launch, inner)), arguments)


@LIBRARY.function("void", block="ptr", function="ptr", wanted="i64", most="i64", threads="i64", arguments="ptr")
def jg_together(f: Native, block: V, function: V, wanted: V, most: V, threads: V, arguments: V) -> None:
    blocks = wanted.intrinsic("smin", most).intrinsic("smax", 1)
    launched(f, block, "jg_cuda_together", function, (blocks, 1, 1, threads, 1, 1, 0), arguments)


@LIBRARY.function("void", block="ptr", words="ptr")
def jg_product(f: Native, block: V, words: V) -> None:
    called(f, block, "jg_cuda_matmul", stream_of(f, block), words)


@LIBRARY.function("void", block="ptr", to="ptr", source="ptr", size="i64")
def jg_copy(f: Native, block: V, to: V, source: V, size: V) -> None:
    with f.when(size.ne(0)):
        places = [place.cast("ptrtoint", "i64") for place in (to, source)]
        called(f, block, "jg_cuda_copy", *places, size, stream_of(f, block))


@LIBRARY.function("i1", block="ptr", to="ptr", source="ptr", size="i64")
def jg_read(f: Native, block: V, to: V, source: V, size: V) -> V:
    """Whether all went well so far."""
    with f.when(f.load(block, Word.ERROR).ne(0)):
        f.leave(f.number(False, "i1"))
    return called(f, block, "jg_cuda_read", to, source.cast("ptrtoint", "i64"), size, stream_of(f, block)).eq(0)


@LIBRARY.function("i1", block="ptr", word="i64", size="i64")
def jg_reserve(f: Native, block: V, word: V, size: V) -> V:
    with f.when(f.load(block, word + 1).compare("ult", size)):
        f.leave(memory(f, block, word, size).compare("ne", f.null))
    return f.number(True, "i1")


@LIBRARY.function("ptr", block="ptr", size="i64")
def jg_take(f: Native, block: V, size: V) -> V:
    need = (size.intrinsic("umax", 1) + (ALIGNMENT - 1)) & -ALIGNMENT
    used = f.load(block, Word.CHUNK_USED)
    end = used + need
    with f.when(end.compare("ule", f.load(block, Word.CHUNK_SIZE))):
        f.store(end, block, Word.CHUNK_USED)
        f.leave(f.at(f.load(block, Word.CHUNK, "ptr"), used, "i8"))
    return memory(f, block, f.number(Word.CHUNK), need)


@LIBRARY.function("void", block="ptr")
def jg_chunks_reset(f: Native, block: V) -> None:
    with f.when(f.load(block, Word.CHUNKS).compare("ugt", 1)):
        memory(f, block, f.number(Word.CHUNK), f.number(-1))
    f.store(f.number(0), block, Word.CHUNK_USED)


@LIBRARY.function("void", block="ptr", chunks="i64", used="i64")
def jg_chunks_release(f: Native, block: V, chunks: V, used: V) -> None:
    with f.when(f.load(block, Word.CHUNKS).eq(chunks)):
        f.store(used, block, Word.CHUNK_USED)


def memory(f: Native, block: V, word: V, size: V) -> V:
    """Memory from the workspace: see `launcher.py`."""
    return f.call("jg_cuda_memory", "ptr", 1, block, word, size)


#: the library's functions
NAMES = tuple(LIBRARY.functions)


@functools.cache
def _object() -> bytes:
    """The library's object, from the disk cache if it is there."""
    text = LIBRARY.text()
    key = store.key_of("device runtime", engine.version(), engine.host().identity, text)
    return store.kept(key, lambda: engine.compile_module(text))


@functools.cache
def _linked(driver: tuple[tuple[str, int], ...]) -> tuple[engine.Loaded, dict[str, int]]:
    loaded = engine.load(_object(), dict(driver), NAMES)
    return loaded, {name: loaded.address(name) for name in NAMES}


def symbols(driver: Mapping[str, int]) -> dict[str, int]:
    """Addresses of the functions, around those of a driver: jg_cuda_launch and its like."""
    return _linked(tuple(driver.items()))[1]
