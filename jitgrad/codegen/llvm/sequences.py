"""Sequences and the arena that holds them, as instructions.

A sequence's value is the address of its header, in 8-byte words: length, room, then per column
    tensor: data, bytes per element, whether every element has its own sizes, the sizes (if not)
    word, pair: data
A column is an array; where tensors have their own sizes its elements are (pointer, sizes). The header describes itself,
so a function reads what another one wrote.

The arena is a chain of chunks (previous, capacity, used; 64 bytes), newest first, whose address is a word of the block.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.codegen.llvm.conversions import part_types
from jitgrad.codegen.llvm.printer import Printer
from jitgrad.codegen.program.sequence_steps import (ArenaAllocate, SeqCopy, SeqGet, SeqGrow, SeqLength, SeqPlace,
                                                    SeqPut, SeqReach, SeqStart)
from jitgrad.codegen.program.step import Buffer, Column, Ref
from jitgrad.dims import product
from jitgrad.kernels.values import V
from jitgrad.script.graph.ir import Value

LENGTH, ROOM, COLUMNS = 0, 1, 2
FIRST_ROOM = 16


def _offset(columns: Sequence[Column], column: int) -> int:
    """The header word at which a column starts."""
    at = COLUMNS
    for c in columns[:column]:
        at += 3 + c.rank if c.kind == "tensor" else 1
    return at


def memory_for(p: Printer, column: Column, bytes_: V) -> str:
    """Memory for a column."""
    return p.tensors(bytes_) if column.is_tensors else p.take(bytes_)


def load(p: Printer, header: str, number: int, kind: str = "i64") -> V:
    return p.code.read(kind, p.code.element(header, number))


def store(p: Printer, header: str, number: int, value: V) -> None:
    p.code.write(value, p.code.element(header, number))


def header_of(p: Printer, seq: Value) -> str:
    return p.code.emit(f"inttoptr i64 {p.one(seq).name} to ptr", "ptr", 1).name


def entry_bytes(p: Printer, header: str, columns: Sequence[Column], column: int) -> V:
    """Bytes per element of a column."""
    c = columns[column]
    if c.kind == "tensor":
        return load(p, header, _offset(columns, column) + 1)
    return p.const(16 if c.kind == "pair" else 8)


def start(p: Printer, step: SeqStart) -> None:
    columns = step.columns
    room = p.const(FIRST_ROOM) if step.capacity is None else p.one(step.capacity).intrinsic("smax", 0)
    header = p.take(p.const(8 * _offset(columns, len(columns))))
    store(p, header, LENGTH, p.const(0))
    store(p, header, ROOM, room)
    for number, c in enumerate(columns):
        at = _offset(columns, number)
        if c.kind == "tensor":
            assert c.dtype is not None
            if c.dims is not None:
                entry = p.size(product(c.dims)) * c.dtype.itemsize
                for axis, size in enumerate(c.dims):
                    store(p, header, at + 3 + axis, p.size(size))
            else:
                entry = p.const(8 * (1 + c.rank))
            store(p, header, at + 1, entry)
            store(p, header, at + 2, p.const(c.dims is None))
        else:
            entry = entry_bytes(p, header, columns, number)
        data = memory_for(p, c, p.here(entry) * room)
        store(p, header, at, p.pointer(data))
    p.define(step.seq, p.code.emit(f"ptrtoint ptr {header} to i64", "i64", 1))


def grow(p: Printer, step: SeqGrow | SeqReach) -> None:
    """Twice the room where there is none for element `k`, or as much as that takes."""
    header, k = header_of(p, step.seq), p.one(step.k)
    room = load(p, header, ROOM)
    with p.code.when(k >= room):
        wanted = room.shl(1).intrinsic("smax", k + 1)
        store(p, header, ROOM, wanted)
        for number, column in enumerate(step.columns):
            entry = entry_bytes(p, header, step.columns, number)
            used = entry * room
            data = memory_for(p, column, entry * p.here(wanted))
            at = _offset(step.columns, number)
            p.move(column, data, load(p, header, at, "ptr"), used)
            store(p, header, at, p.pointer(data))


def reach(p: Printer, step: SeqReach) -> None:
    grow(p, SeqGrow(step.seq, step.columns, step.k))
    header, k = header_of(p, step.seq), p.one(step.k)
    length = load(p, header, LENGTH)
    with p.code.when(k >= length):
        end = k + 1
        if step.flags:
            start = element_of(p, header, step.columns, 0, length)
            bytes_ = (p.here(end) - length) * 8
            p.code.call("memset", "ptr", 1, p.pointer(start), p.code.const(0, "i32", 1), bytes_)
        store(p, header, LENGTH, end)


def copy(p: Printer, step: SeqCopy) -> None:
    """A header and columns with as much room as the source has elements, and some more."""
    source, columns = header_of(p, step.source), step.columns
    length = load(p, source, LENGTH)
    room = length + FIRST_ROOM
    words = 8 * _offset(columns, len(columns))
    header = p.take(p.const(words))
    p.code.call("memcpy", "ptr", 1, p.pointer(header), p.pointer(source), p.const(words))
    store(p, header, ROOM, p.here(room))
    for number, column in enumerate(columns):
        entry = entry_bytes(p, source, columns, number)
        data = memory_for(p, column, entry * p.here(room))
        at = _offset(columns, number)
        used = p.here(entry) * p.here(length)
        p.move(column, data, load(p, source, at, "ptr"), used)
        store(p, header, at, p.pointer(data))
    p.define(step.out, p.code.emit(f"ptrtoint ptr {header} to i64", "i64", 1))


def column_of(p: Printer, header: str, columns: Sequence[Column], column: int) -> tuple[V, V]:
    """The address of a column, and the bytes of its elements."""
    return load(p, header, _offset(columns, column), "ptr"), entry_bytes(p, header, columns, column)


def element_of(p: Printer, header: str, columns: Sequence[Column], column: int, k: V) -> str:
    """The address of an element in its column."""
    data = load(p, header, _offset(columns, column), "ptr")
    offset = k * entry_bytes(p, header, columns, column)
    return p.code.element(data.name, offset.name, "i8")


def place(p: Printer, step: SeqPlace) -> None:
    at = element_of(p, header_of(p, step.seq), step.columns, step.column, p.one(step.k))
    p.line(f"store ptr {at}, ptr {p.pointer_variable(step.target)}")


def put(p: Printer, step: SeqPut) -> None:
    at = element_of(p, header_of(p, step.seq), step.columns, step.column, p.one(step.k))
    if isinstance(step.what, Ref):
        store(p, at, 0, p.pointer(p.address(step.what.buffer, step.what.offset)))
        for axis, size in enumerate(step.what.dims):
            store(p, at, 1 + axis, p.size(size))
        return
    for j, part in enumerate(p.parts(step.what)):
        store(p, at, j, part.cast("zext", "i64") if part.elem == "i1" else part)


def get(p: Printer, step: SeqGet) -> None:
    header = header_of(p, step.seq)
    at = element_of(p, header, step.columns, step.column, p.one(step.k))
    if isinstance(step.target, Buffer):
        get_tensor(p, step, header, at, step.target)
        return
    for j, (name, kind) in enumerate(zip(p.value_variables(step.target), part_types(step.target.type),
                                         strict=True)):
        p.code.write(p.code.read_word(kind, p.code.element(at, j)), name)


def get_tensor(p: Printer, step: SeqGet, header: str, at: str, target: Buffer) -> None:
    """The element itself, or what its record says."""
    base = _offset(step.columns, step.column)
    own = load(p, header, base + 2).ne(0)
    pointer = p.pointer_variable(target)
    with p.code.part() as done:
        with p.code.when(own):
            p.code.write(load(p, at, 0, "ptr"), pointer)
            for axis, symbol in step.sizes:
                p.code.write(load(p, at, 1 + axis), p.size_variable(symbol))
            done()
        p.code.write(p.pointer(at), pointer)
        for axis, symbol in step.sizes:
            p.code.write(load(p, header, base + 3 + axis), p.size_variable(symbol))


def length(p: Printer, step: SeqLength) -> None:
    header = header_of(p, step.seq)
    if step.out is not None:
        p.define(step.out, load(p, header, LENGTH))
    if step.k is not None:
        store(p, header, LENGTH, p.one(step.k))


def arena(p: Printer, step: ArenaAllocate) -> None:
    bytes_ = p.size(step.size) * step.target.dtype.itemsize
    p.line(f"store ptr {p.tensors(bytes_)}, ptr {p.pointer_variable(step.target)}")


PRINT: Mapping[type, Callable[[Any, Any], None]] = {
    SeqStart: start, SeqGrow: grow, SeqReach: reach, SeqCopy: copy, SeqPlace: place, SeqPut: put, SeqGet: get,
    SeqLength: length, ArenaAllocate: arena}
