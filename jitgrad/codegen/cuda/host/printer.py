"""The host's function of a device's program under construction: batches of launches, arguments, scratch memory.

Kernels that are launched together (`grouping.py`) have a batch, the table that `EachPut`s fill and one launch takes.
Nothing here reads the device's memory. Addresses and sizes of arrays come as words of the block: the launcher reads the
Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.codegen.cuda.driver.blaslt import WORDS
from jitgrad.codegen.cuda.host.module import DeviceModule
from jitgrad.codegen.cuda.kernels import each
from jitgrad.codegen.cuda.schedule.poison import POISON
from jitgrad.codegen.llvm.program import ProgramPrinter
from jitgrad.codegen.llvm.sizes import alone
from jitgrad.codegen.program.device_steps import EachStep, PoisonStep
from jitgrad.codegen.program.layout import Status, Word
from jitgrad.codegen.program.program import TensorOutput
from jitgrad.codegen.program.step import Column, every
from jitgrad.dims import Size
from jitgrad.kernels.values import Code, V


@dataclass(frozen=True, slots=True)
class Batch:
    """What is to be launched together: words of the function's own memory.

    How many entries there are, how many chunks, the numbers that all share, then the table; all zero where nothing
    waits. `arguments` points to them in the order of the kernel's parameters.
    """

    number: int
    forms: str
    shared: int     # words of numbers
    width: int      # words of an entry
    words: int      # of all, the last one the address of scratch memory
    scratch: bool

    def word(self, p: DevicePrinter, k: int) -> str:
        """The address of a word."""
        return p.code.element(f"%batch.{self.number}", k)

    def launch(self, p: DevicePrinter) -> None:
        """Launch what waits, and forget it."""
        count, chunks = self.word(p, 0), self.word(p, 1)
        some = p.code.read("i64", chunks)
        if self.scratch:
            p.line(f"store ptr {p.load_word(Word.SCRATCH, 'ptr').name}, ptr {self.word(p, self.words - 1)}")
        p.line(f"call void @jg_launch(ptr %block, ptr @{self.forms}, i64 {some.name}, i64 1, "
               f"ptr %batch.{self.number}.arguments)")
        p.line(f"store i64 0, ptr {count}")
        p.line(f"store i64 0, ptr {chunks}")

    def prologue(self) -> list[str]:
        batch = f"%batch.{self.number}"
        lines = [f"  {batch} = alloca [{self.words} x i64]",
                 f"  call void @llvm.memset.p0.i64(ptr {batch}, i8 0, i64 {8 * self.words}, i1 false)",
                 f"  {batch}.arguments = alloca [{4 + self.shared} x ptr]"]
        for k, word in enumerate((2 + self.shared, 0, 1, *range(2, 2 + self.shared), self.words - 1)):
            lines += [f"  {batch}.from.{k} = getelementptr i64, ptr {batch}, i64 {word}",
                      f"  {batch}.to.{k} = getelementptr ptr, ptr {batch}.arguments, i64 {k}",
                      f"  store ptr {batch}.from.{k}, ptr {batch}.to.{k}"]
        return lines


class DevicePrinter(ProgramPrinter):
    """Prints one program's host function."""

    module: DeviceModule

    def __init__(self, module: Any, program: Any):
        self.arguments = 0      # the most that a kernel takes
        self.products = False
        self.scratch = 0        # bytes of scratch memory that kernels need
        self.chunks = False     # whether anything is in device memory that grows
        self.read = ""          # where elements are read to
        self.batches: dict[EachStep, Batch] = {}
        self.groups = any(isinstance(s, EachStep) for s in every(program.steps))  # launched together
        self.poisons = any(isinstance(s, PoisonStep) for s in program.steps)  # dead memory
        super().__init__(module, program)

    def product(self, sizes: Iterable[Size]) -> V:
        """Sizes multiplied."""
        return reduce(V.__mul__, map(self.size, sizes), self.const(1))

    def read_device(self, to: str, source: str, size: object) -> None:
        """Wait for the device, and bring so many bytes of its memory to the host."""
        good = self.code.emit(f"call i1 @jg_read(ptr %block, ptr {to}, ptr {source}, i64 {size})", "i1", 1)
        self.leave_unless(good, Status.DEVICE_FAILED)

    def batch(self, step: EachStep) -> Batch:
        """Where the entries of a group wait."""
        found = self.batches.get(step)
        if found is None:
            forms, room, scratch = self.module.each_forms(step)
            shared, width = sum(step.shared), each.width(step.kernel, step.shared)
            self.scratch = max(self.scratch, scratch)
            found = self.batches[step] = Batch(len(self.batches), forms, shared, width, 3 + shared + room * width,
                                               scratch > 0)
        return found

    def give_up(self, status: str) -> None:
        """Launch what waits, and return."""
        if not self.groups:
            super().give_up(status)
            return
        self.status = self.status or self.variable("i64")
        self.line(f"store i64 {status}, ptr {self.status}")
        self.line("br label %given.up")

    def print_exits(self) -> None:
        super().print_exits()
        if self.groups and self.status:
            self.start("given.up")
            for batch in self.batches.values():
                batch.launch(self)
            super().give_up(self.code.read("i64", self.status).name)

    def read_inputs(self) -> None:
        """Pointers, sizes and numbers of the inputs, pointers of the outputs that the launcher makes."""
        code, layout, program = self.entry, self.layout, self.program
        for i, parts in enumerate(program.input_parts):  # first: the launcher packs neighbours at once
            if parts:
                self.read_parts(i, parts)
        for i, buffer in program.input_buffers.items():
            layout.objects.append(i)
            at = layout.pointers[i] = layout.take(1)
            self.pointers[buffer] = self.load_word(at, "ptr", code).name
        for symbol, (i, axis) in program.input_symbols.items():
            at = layout.take(1)
            layout.sizes.append((i, axis, at))
            self.sizes.known[alone(symbol)] = self.load_word(at, "i64", code).name
        for k, output in enumerate(program.outputs):
            if isinstance(output, TensorOutput) and output.fresh:
                at = layout.outputs[k] = layout.take(1)
                self.pointers[output.ref.buffer] = self.load_word(at, "ptr", code).name

    def reserve(self, word: int, bytes_: V, code: Code) -> V:
        return code.emit(f"call i1 @jg_reserve(ptr %block, i64 {word}, i64 {bytes_.name})", "i1", 1)

    def prologue(self) -> list[str]:
        lines = super().prologue()
        if self.scratch:
            lines += [f"  %scratched = call i1 @jg_reserve(ptr %block, i64 {Word.SCRATCH}, i64 {self.scratch})",
                      "  br i1 %scratched, label %scratch.go, label %scratch.none", "scratch.none:",
                      f"  ret i64 {Status.NO_MEMORY}", "scratch.go:"]
        if self.chunks:
            lines.append("  call void @jg_chunks_reset(ptr %block)")
        lines += [f"  %arguments = alloca [{max(1, self.arguments)} x ptr]",
                  f"  %values = alloca [{max(1, self.arguments)} x i64]"]
        for k in range(self.arguments):
            lines += [f"  %argument.{k} = getelementptr i64, ptr %values, i64 {k}",
                      f"  %place.{k} = getelementptr ptr, ptr %arguments, i64 {k}",
                      f"  store ptr %argument.{k}, ptr %place.{k}"]
        for batch in self.batches.values():
            lines += batch.prologue()
            self.module.declares["llvm.memset"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        if self.products:
            lines.append(f"  %product = alloca [{WORDS} x i64]")
            lines += [f"  %described.{k} = getelementptr i64, ptr %product, i64 {k}" for k in range(WORDS)]
        return lines

    def epilogue(self) -> None:
        """Report an error of the driver. A failing kernel is told by what waits for it."""
        self.leave_unless(self.load_word(Word.ERROR).eq(0), Status.DEVICE_FAILED)

    def mark_arena(self) -> Any:
        return super().mark_arena(), self.load_word(Word.CHUNKS), self.load_word(Word.CHUNK_USED)

    def release_arena(self, mark: Any) -> None:
        host, chunks, used = mark
        super().release_arena(host)
        self.line(f"call void @jg_chunks_release(ptr %block, i64 {chunks.name}, i64 {used.name})")

    # --- sequences: headers, flags and places are the host's, the elements of tensors the device's ---

    def tensors(self, bytes_: V) -> str:
        self.chunks = True
        found = self.code.emit(f"call ptr @jg_take(ptr %block, i64 {bytes_.name})", "ptr", 1)
        self.leave_unless(self.code.emit(f"icmp ne ptr {found.name}, null", "i1", 1), Status.NO_MEMORY)
        if self.poisons:
            poison_memory(self, found.name, self.here(bytes_))
        return found.name

    def move(self, column: Column, to: str, source: V, bytes_: V) -> None:
        if column.is_tensors:
            self.line(f"call void @jg_copy(ptr %block, ptr {to}, ptr {source.name}, i64 {bytes_.name})")
        else:
            super().move(column, to, source, bytes_)


def poison_memory(p: DevicePrinter, start: str, size: V) -> None:
    table, _ = p.module.forms(POISON)
    p.arguments = max(p.arguments, 2)
    p.line(f"store i64 {size.name}, ptr %argument.0")
    p.line(f"store ptr {start}, ptr %argument.1")
    p.line(f"call void @jg_launch(ptr %block, ptr @{table}, i64 {size.name}, i64 {size.name}, ptr %arguments)")
