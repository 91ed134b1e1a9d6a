"""Sequences and the arena that holds them, as instructions.

A sequence's value is the address of its header, in 8-byte words: length, room, then per column
    tensor: data, bytes per element, whether every element has its own sizes, the sizes (if not)
    word, pair: data
A column is an array; where tensors have their own sizes its elements are (pointer, sizes). The header describes itself,
so a function reads what another one wrote.

The arena is a chain of chunks (previous, capacity, used; 64 bytes), newest first, whose address is a word of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgrad.codegen.llvm.conversions import part_types
from jitgrad.codegen.llvm.printer import Printer
from jitgrad.codegen.program.layout import NO_MEMORY
from jitgrad.codegen.program.sequence_steps import (
    ArenaAllocate,
    SeqCopy,
    SeqGet,
    SeqGrow,
    SeqLength,
    SeqPlace,
    SeqPut,
    SeqReach,
    SeqStart,
)
from jitgrad.codegen.program.step import Buffer, Column, Ref
from jitgrad.dims import product
from jitgrad.kernels.values import V

LENGTH, ROOM, COLUMNS = 0, 1, 2
FIRST_ROOM = 16


def _offset(columns: Sequence[Column], column: int) -> int:
    """The header word at which a column starts."""
    at = COLUMNS
    for c in columns[:column]:
        at += 3 + c.rank if c.kind == "tensor" else 1
    return at


def _has_tensors(column: Column) -> bool:
    """Whether a column has the elements of tensors in it, and not where they are."""
    return column.kind == "tensor" and column.dims is not None


class Sequences:
    """Prints steps of sequences."""

    def __init__(self, printer: Printer):
        self.printer = printer

    def allocate(self, bytes_: V) -> str:
        p = self.printer
        p.module.arena = p.arena = True
        found = p.code.emit(f"call ptr @jg_arena(ptr %block, i64 {bytes_.name})", "ptr", 1)
        good = p.code.emit(f"icmp ne ptr {found.name}, null", "i1", 1)
        p.leave_unless(good, NO_MEMORY)
        return found.name

    def column(self, column: Column, bytes_: V) -> str:
        """Memory for a column."""
        return self.tensors(bytes_) if _has_tensors(column) else self.allocate(bytes_)

    def tensors(self, bytes_: V) -> str:
        """Memory for the elements of tensors."""
        return self.allocate(bytes_)

    def move(self, column: Column, to: str, source: V, bytes_: V) -> None:
        """Copy a column, or the beginning of one."""
        self.printer.line(f"call ptr @memcpy(ptr {to}, ptr {source.name}, i64 {bytes_.name})")

    def word(self, header: str, number: int) -> str:
        name = self.printer.code.name()
        self.printer.line(f"{name} = getelementptr i64, ptr {header}, i64 {number}")
        return name

    def load(self, header: str, number: int, kind: str = "i64") -> V:
        return self.printer.code.emit(f"load {kind}, ptr {self.word(header, number)}", kind, 1)

    def store(self, header: str, number: int, value: V) -> None:
        self.printer.line(f"store {value.type} {value.name}, ptr {self.word(header, number)}")

    def header(self, seq: object) -> str:
        p = self.printer
        address = p.one(seq)  # type: ignore[arg-type]
        return p.code.emit(f"inttoptr i64 {address.name} to ptr", "ptr", 1).name

    def entry(self, header: str, columns: Sequence[Column], column: int) -> V:
        """Bytes per element of a column."""
        c = columns[column]
        if c.kind == "tensor":
            return self.load(header, _offset(columns, column) + 1)
        return self.printer.const(16 if c.kind == "pair" else 8)

    def start(self, step: SeqStart) -> None:
        p = self.printer
        columns = step.columns
        room = p.const(FIRST_ROOM) if step.capacity is None else p.one(step.capacity).intrinsic("smax", 0)
        header = self.allocate(p.const(8 * _offset(columns, len(columns))))
        self.store(header, LENGTH, p.const(0))
        self.store(header, ROOM, room)
        for number, c in enumerate(columns):
            at = _offset(columns, number)
            if c.kind == "tensor":
                assert c.dtype is not None
                if c.dims is not None:
                    entry = p.size(product(c.dims)) * c.dtype.itemsize
                    for axis, size in enumerate(c.dims):
                        self.store(header, at + 3 + axis, p.size(size))
                else:
                    entry = p.const(8 * (1 + c.rank))
                self.store(header, at + 1, entry)
                self.store(header, at + 2, p.const(c.dims is None))
            else:
                entry = self.entry(header, columns, number)
            data = self.column(c, p.here(entry) * room)
            self.store(header, at, V(p.code, data, "ptr", 1))
        p.define(step.seq, p.code.emit(f"ptrtoint ptr {header} to i64", "i64", 1))

    def grow(self, step: SeqGrow | SeqReach) -> None:
        """Twice the room where there is none for element `k`, or as much as that takes."""
        p = self.printer
        header, k = self.header(step.seq), p.one(step.k)
        room = self.load(header, ROOM)
        full = k >= room
        more, fine = p.label("grow"), p.label("go")
        p.line(f"br i1 {full.name}, label %{more}, label %{fine}")
        p.start(more)
        wanted = room.shl(1).intrinsic("smax", k + 1)
        self.store(header, ROOM, wanted)
        for number, column in enumerate(step.columns):
            entry = self.entry(header, step.columns, number)
            used = entry * room
            data = self.column(column, entry * p.here(wanted))
            at = _offset(step.columns, number)
            self.move(column, data, self.load(header, at, "ptr"), used)
            self.store(header, at, V(p.code, data, "ptr", 1))
        p.line(f"br label %{fine}")
        p.start(fine)

    def reach(self, step: SeqReach) -> None:
        p = self.printer
        self.grow(SeqGrow(step.seq, step.columns, step.k))
        header, k = self.header(step.seq), p.one(step.k)
        length = self.load(header, LENGTH)
        beyond = k >= length
        more, fine = p.label("reach"), p.label("go")
        p.line(f"br i1 {beyond.name}, label %{more}, label %{fine}")
        p.start(more)
        end = k + 1
        if step.flags:
            start = self.element(header, step.columns, 0, length)
            bytes_ = (p.here(end) - length) * 8
            p.line(f"call ptr @memset(ptr {start}, i32 0, i64 {bytes_.name})")
        self.store(header, LENGTH, end)
        p.line(f"br label %{fine}")
        p.start(fine)

    def copy(self, step: SeqCopy) -> None:
        """A header and columns with as much room as the source has elements, and some more."""
        p = self.printer
        source, columns = self.header(step.source), step.columns
        length = self.load(source, LENGTH)
        room = length + FIRST_ROOM
        words = 8 * _offset(columns, len(columns))
        header = self.allocate(p.const(words))
        p.line(f"call ptr @memcpy(ptr {header}, ptr {source}, i64 {words})")
        self.store(header, ROOM, p.here(room))
        for number, column in enumerate(columns):
            entry = self.entry(source, columns, number)
            data = self.column(column, entry * p.here(room))
            at = _offset(columns, number)
            used = p.here(entry) * p.here(length)
            self.move(column, data, self.load(source, at, "ptr"), used)
            self.store(header, at, V(p.code, data, "ptr", 1))
        p.define(step.out, p.code.emit(f"ptrtoint ptr {header} to i64", "i64", 1))

    def column_of(self, header: str, columns: Sequence[Column], column: int) -> tuple[V, V]:
        """The address of a column, and the bytes of its elements."""
        return self.load(header, _offset(columns, column), "ptr"), self.entry(header, columns, column)

    def element(self, header: str, columns: Sequence[Column], column: int, k: V) -> str:
        """The address of an element in its column."""
        p = self.printer
        data = self.load(header, _offset(columns, column), "ptr")
        offset = k * self.entry(header, columns, column)
        name = p.code.name()
        p.line(f"{name} = getelementptr i8, ptr {data.name}, i64 {offset.name}")
        return name

    def place(self, step: SeqPlace) -> None:
        p = self.printer
        at = self.element(self.header(step.seq), step.columns, step.column, p.one(step.k))
        p.line(f"store ptr {at}, ptr {p.pointer_variable(step.target)}")

    def put(self, step: SeqPut) -> None:
        p = self.printer
        at = self.element(self.header(step.seq), step.columns, step.column, p.one(step.k))
        if isinstance(step.what, Ref):
            self.store(at, 0, V(p.code, p.address(step.what.buffer, step.what.offset), "ptr", 1))
            for axis, size in enumerate(step.what.dims):
                self.store(at, 1 + axis, p.size(size))
            return
        for j, part in enumerate(p.parts(step.what)):
            self.store(at, j, part.cast("zext", "i64") if part.elem == "i1" else part)

    def get(self, step: SeqGet) -> None:
        p = self.printer
        header = self.header(step.seq)
        at = self.element(header, step.columns, step.column, p.one(step.k))
        if isinstance(step.target, Buffer):
            self.get_tensor(step, header, at, step.target)
            return
        for j, (name, kind) in enumerate(zip(p.value_variables(step.target), part_types(step.target.type),
                                             strict=True)):
            value = self.load(at, j, "i64" if kind == "i1" else kind)
            value = value.ne(0) if kind == "i1" else value
            p.line(f"store {value.type} {value.name}, ptr {name}")

    def get_tensor(self, step: SeqGet, header: str, at: str, target: Buffer) -> None:
        """The element itself, or what its record says."""
        p = self.printer
        base = _offset(step.columns, step.column)
        own = self.load(header, base + 2).ne(0)
        record, plain, after = p.label("record"), p.label("plain"), p.label("go")
        pointer = p.pointer_variable(target)
        p.line(f"br i1 {own.name}, label %{record}, label %{plain}")
        p.start(record)
        p.line(f"store ptr {self.load(at, 0, 'ptr').name}, ptr {pointer}")
        for axis, symbol in step.sizes:
            p.line(f"store i64 {self.load(at, 1 + axis).name}, ptr {p.size_variable(symbol)}")
        p.line(f"br label %{after}")
        p.start(plain)
        p.line(f"store ptr {at}, ptr {pointer}")
        for axis, symbol in step.sizes:
            p.line(f"store i64 {self.load(header, base + 3 + axis).name}, ptr {p.size_variable(symbol)}")
        p.line(f"br label %{after}")
        p.start(after)

    def length(self, step: SeqLength) -> None:
        header = self.header(step.seq)
        if step.out is not None:
            self.printer.define(step.out, self.load(header, LENGTH))
        if step.k is not None:
            self.store(header, LENGTH, self.printer.one(step.k))

    def arena(self, step: ArenaAllocate) -> None:
        p = self.printer
        bytes_ = p.size(step.size) * step.target.dtype.itemsize
        p.line(f"store ptr {self.tensors(bytes_)}, ptr {p.pointer_variable(step.target)}")


#: class of step -> the method that prints it
METHODS: Mapping[type, Callable[[Any, Any], None]] = {
    SeqStart: Sequences.start, SeqGrow: Sequences.grow, SeqReach: Sequences.reach, SeqCopy: Sequences.copy,
    SeqPlace: Sequences.place, SeqPut: Sequences.put, SeqGet: Sequences.get, SeqLength: Sequences.length,
    ArenaAllocate: Sequences.arena}
