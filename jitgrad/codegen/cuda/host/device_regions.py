"""The host's part of a region: one cooperative launch, or the region's steps where the kernel cannot do them.

What the kernel reads is words of a table by value (`resident.py`). It waits for nothing unless the region has exits; a
kernel that keeps what the gradient needs stops where a sequence is full, and is launched again when there is room.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.host.printer import DevicePrinter
from jitgrad.codegen.cuda.schedule import launches, resident
from jitgrad.codegen.llvm import sequences
from jitgrad.codegen.llvm.conversions import part_types
from jitgrad.codegen.llvm.sizes import alone
from jitgrad.codegen.program.device_steps import ResidentStep
from jitgrad.codegen.program.layout import Word
from jitgrad.codegen.program.sequence_steps import SeqGrow
from jitgrad.codegen.program.step import Buffer, every
from jitgrad.codegen.program.steps import Allocate, GemmStep, KernelStep, Point
from jitgrad.dims import Size, Symbol, product, symbols
from jitgrad.kernels.values import V
from jitgrad.ops.types import INT
from jitgrad.script.graph.ir import Value

#: counters below this do not leave 64 bits in a loop on the device
LARGE_COUNT = 1 << 62
#: the multiplications of a product that a kernel does rather than cuBLASLt, which only the host can call
MOST_WORK = 1 << 26
#: iterations for which a region's sequences have room at first, and the bytes that each may take for them
MOST_KEPT, KEPT_BYTES = 128, 16 << 20
#: elements for which a thread of a region is worth it
ELEMENTS = 4


def resident_step(p: DevicePrinter, step: ResidentStep) -> None:
    """Launch the kernel of a region, and read what it has set; where the kernel cannot do it, print its steps."""
    here, host, after = p.label("resident"), p.label("host"), p.label("go")
    for inner in every(step.steps):  # make room for all that the kernel needs
        if isinstance(inner, Allocate):
            p.PRINT[Allocate](p, inner)
    kept = {v: tuple([p.variable(t) for t in part_types(v.type)]) for v in step.exits
            if isinstance(v, Value) and v not in p.variables}
    if step.seqs:
        make_room(p, step)
    p.line(f"br i1 {device_can(p, step).name}, label %{here}, label %{host}")
    p.start(here)
    on_device(p, step, kept, here, after)
    p.start(host)
    by_host(p, step.steps, kept)
    p.line(f"br label %{after}")
    p.start(after)
    for value, names in kept.items():
        p.define(value, *[p.code.read(t, n) for t, n in zip(part_types(value.type), names, strict=True)])


def by_host(p: DevicePrinter, steps: Sequence[Any], kept: dict[Value, tuple[str, ...]]) -> None:
    """Print steps, on one of two ways; `kept`: where the values are stored that are read behind both."""
    values, p.values = p.values, dict(p.values)
    p.steps(steps)
    for value, names in kept.items():
        for name, part in zip(names, p.parts(value), strict=True):
            p.code.write(part, name)
    p.values = values


def on_device(p: DevicePrinter, step: ResidentStep, kept: dict[Value, tuple[str, ...]], here: str, after: str) -> None:
    """Launch the kernel; again, at the label `here`, until no sequence is full; then go on at `after`."""
    words: list[V | str] = [as_word(p.one(v)) for v in step.values]
    words += [p.sizes.value(alone(s)) for s in step.sizes]
    words += [p.address(b, 0) for b in step.buffers]
    mirrors = kept_on_device(p, step, words)
    if step.told is not None:
        words.append(p.address(step.told, 0))
    if resident.has_loops(step):
        words.append(p.load_word(Word.STOP))
    number, scratch = p.module.resident(step)
    p.scratch = max(p.scratch, scratch)
    function = p.code.read("ptr", p.code.element("@jg_handles", number, "ptr")).name
    most = p.code.read("i64", p.code.element("@jg_resident", number)).name
    p.line(f"call void @jg_together(ptr %block, ptr {function}, i64 {blocks(p, step).name}, i64 {most}, "
           f"i64 {launches.threads_of(step)}, ptr {arguments_of(p, words)})")
    if step.settled is not None:
        p.PRINT[Point](p, step.settled)
    full = read_exits(p, step, step.told, kept) if step.told is not None else None
    read_mirrors(p, *mirrors)
    if full is None:
        p.line(f"br label %{after}")
        return
    more = p.label("full")
    p.line(f"br i1 {full.name}, label %{more}, label %{after}")
    p.start(more)
    for one in step.seqs:
        sequences.grow(p, one)
    p.line(f"br label %{here}")


def arguments_of(p: DevicePrinter, words: list[V | str]) -> str:
    """The pointers to a region's parameters: the table of words, and the scratch memory."""
    table, scratch, arguments = p.variable(f"[{max(1, len(words))} x i64]"), p.variable("ptr"), p.variable("[2 x ptr]")
    for k, word in enumerate(words):
        p.code.write(word if isinstance(word, V) else V(p.code, word, "ptr", 1), p.code.element(table, k))
    p.line(f"store ptr {p.load_word(Word.SCRATCH, 'ptr').name}, ptr {scratch}")
    p.line(f"store ptr {table}, ptr {arguments}")
    p.line(f"store ptr {scratch}, ptr {p.code.element(arguments, 1, 'ptr')}")
    return arguments


def device_can(p: DevicePrinter, step: ResidentStep) -> V:
    """Whether the device may do a region: checks hold, counters are not large, products are small."""
    good = p.code.const(True, "i1", 1)
    for condition in step.conditions:
        good = good & p.one(condition)
    for counter in step.counters:
        good = good & (p.one(counter) + LARGE_COUNT).compare("ult", 2 * LARGE_COUNT)
    for sizes in sizes_known_before(step, GemmStep):
        good = good & (p.product(sizes) <= MOST_WORK)
    return good


def sizes_known_before(step: ResidentStep, *kinds: type[KernelStep | GemmStep]) -> Iterator[tuple[Size, ...]]:
    """The sizes of those steps of a region whose sizes nothing in it sets."""
    bound = {s for inner in every(step.steps) for s in inner.sets if isinstance(s, Symbol)}
    for inner in every(step.steps):
        if isinstance(inner, kinds) and not any(s in bound for size in inner.sizes for s in symbols(size)):
            yield inner.sizes


def blocks(p: DevicePrinter, step: ResidentStep) -> V:
    """How many blocks have something to do in the largest kernel of a region, of which the sizes are known before."""
    most = p.const(1)
    for sizes in dict.fromkeys(sizes_known_before(step, KernelStep, GemmStep)):
        if sizes:
            most = most.intrinsic("smax", p.product(sizes))
    each = ELEMENTS * launches.threads_of(step)
    return (most + (each - 1)).op("sdiv", p.const(each))


def make_room(p: DevicePrinter, step: ResidentStep) -> None:
    """Room in a region's sequences for more than a few iterations: each time that there is none the host waits."""
    for one in step.seqs:
        element = p.const(1)
        for column in one.columns:
            if column.dims is not None and column.dtype is not None:
                element = element + p.size(product(column.dims)) * column.dtype.itemsize
        room = p.const(KEPT_BYTES).op("sdiv", element).intrinsic("smin", MOST_KEPT).intrinsic("smax", 1)
        wanted = Value(INT)
        p.define(wanted, room - 1)
        sequences.grow(p, SeqGrow(one.seq, one.columns, wanted))


@dataclass(frozen=True, slots=True)
class Mirror:
    """A column of numbers, of which the kernel writes a copy: from iteration `first` on.

    host: where the column is; at: where the copy begins, in bytes; each: bytes of an element.
    """

    step: SeqGrow
    host: V
    at: V
    each: V
    first: V


def kept_on_device(p: DevicePrinter, step: ResidentStep, words: list[V | str]) -> tuple[list[Mirror], str, V]:
    """Add the words of `resident.kept_words`. The columns of numbers, where their copies are, and how many bytes."""
    mirrors: list[Mirror] = []
    places: dict[int, Mirror] = {}
    rooms: list[V] = []
    total = p.const(0)
    for one in step.seqs:
        header = sequences.header_of(p, one.seq)
        rooms.append(sequences.load(p, header, sequences.ROOM))
        words.append(rooms[-1])
        for number, column in enumerate(one.columns):
            place, each = sequences.column_of(p, header, one.columns, number)
            if column.kind != "tensor" or column.dims is None:
                places[len(words)] = mirror = Mirror(one, place, total, each, p.one(one.k))
                mirrors.append(mirror)
                total = p.here(total) + p.here(each) * p.here(rooms[-1])
            words += [place.name, each]
    device = p.tensors(total) if mirrors else ""
    for position, mirror in places.items():
        words[position] = p.code.element(device, mirror.at.name, "i8")
    for piece in resident.pieces(step):
        each = (p.size(piece.size) * piece.target.dtype.itemsize + 255) & -256
        words += [p.tensors(each * p.here(rooms[0])), each]
    return mirrors, device, total


def read_mirrors(p: DevicePrinter, mirrors: list[Mirror], device: str, total: V) -> None:
    """Bring the numbers that the kernel has written to the host: all at once, then each to its column."""
    if not mirrors:
        return
    copy = p.take(p.here(total))
    p.read_device(copy, device, total.name)
    for mirror in mirrors:
        begin = p.here(mirror.first) * p.here(mirror.each)
        size = p.one(mirror.step.k) * p.here(mirror.each) - begin
        to = p.code.element(mirror.host.name, begin.name, "i8")
        at = p.here(mirror.at) + begin
        source = p.code.element(copy, at.name, "i8")
        p.code.call("memcpy", "ptr", 1, p.pointer(to), p.pointer(source), size)


def read_exits(p: DevicePrinter, step: ResidentStep, told: Buffer, kept: dict[Value, tuple[str, ...]]) -> V | None:
    """Wait for the kernel of a region, and take what it has set; whether it stopped because a sequence is full."""
    count = len(step.exits) + bool(step.seqs)
    found = p.variable(f"[{count} x i64]")
    p.read_device(found, p.address(told, 0), 8 * count)
    for k, one in enumerate(step.exits):
        place = p.code.element(found, k)
        if isinstance(one, Buffer):
            p.code.write(p.code.read("ptr", place), p.pointer_variable(one))
            continue
        (name,) = kept.get(one) or p.value_variables(one)
        p.code.write(from_word(p.code.read("i64", place), part_types(one.type)[0]), name)
    return p.code.read_word("i1", p.code.element(found, len(step.exits))) if step.seqs else None


def from_word(word: V, kind: str) -> V:
    """The number whose bits are in a word: the inverse of `as_word`."""
    if kind == "i1":
        return word.ne(0)
    if kind == "double":
        return word.cast("bitcast", "double")
    if kind == "float":
        return word.cast("trunc", "i32").cast("bitcast", "float")
    return word if kind == "i64" else word.cast("trunc", kind)


def as_word(value: V) -> V:
    """A number's bits in a word."""
    if value.elem in ("float", "double"):
        value = value.cast("bitcast", "i32" if value.elem == "float" else "i64")
    return value if value.elem == "i64" else value.cast("zext" if value.elem == "i1" else "sext", "i64")
