"""A `Program` as one native function: `i64 @name(ptr %block, ptr %items)`.

`layout.py` says what lies behind the two pointers and what the function returns: data pointers and sizes are read from
the Python objects of the call, the rest from its block.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from jitgrad.codegen.llvm import sequences, steps
from jitgrad.codegen.llvm.conversions import part_types
from jitgrad.codegen.llvm.function import Parts
from jitgrad.codegen.llvm.module import QUICK, ModuleText
from jitgrad.codegen.llvm.numbers import number_step
from jitgrad.codegen.llvm.printer import Printer, is_short
from jitgrad.codegen.llvm.sizes import alone
from jitgrad.codegen.program.layout import Layout, Status, Word, native_name
from jitgrad.codegen.program.program import NumberOutput, Program, TensorOutput
from jitgrad.codegen.program.step import every
from jitgrad.codegen.program.steps import LoopStep, NumberStep
from jitgrad.dims import Size, Symbol, is_difference
from jitgrad.kernels.values import V
from jitgrad.script.graph.ir import Value

#: an ndarray's flags: C-contiguous and aligned
CONTIGUOUS = 0x101


#: from so many arrays on, glue reads them in a loop
MANY_INPUTS = 8


class ProgramPrinter(Printer):
    """Prints one program's function."""

    PRINT: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **steps.PRINT, **sequences.PRINT, NumberStep: number_step}

    def __init__(self, module: ModuleText, program: Program):
        layout, steps = Layout(), list(every(program.steps))
        layout.leaving = Word.FIRST_FREE + max([4, *[s.payload for s in steps]])
        layout.words = layout.leaving + max([0, *[s.leaving.end for s in steps if s.leaving is not None]])
        #: code that runs once is glue between kernels: the quick code generator makes it in a third of the time
        quick = not is_short(program.steps) or not any(isinstance(s, LoopStep) for s in steps)
        super().__init__(module, program, layout, quick)
        self.byte_counts: dict[tuple[Size, int], str] = {}

    def text(self) -> str:
        program = self.program
        self.read_inputs()
        self.workspace()
        self.steps(program.steps)
        self.epilogue()
        self.store_numbers()
        self.line("ret i64 0")
        self.print_exits()
        for code in (self.entry, self.code):
            self.module.declares.update(code.declares)
        if self.quick:
            self.cut_entry()
        attributes = f"nounwind{QUICK if self.quick else ''}"
        head = f"define i64 @{native_name(program.name)}(ptr %block, ptr %items) {attributes} {{"
        lines = [*self.entry.lines, *self.prologue(), "  br label %body", "body:", *self.code.lines]
        variables = [*self.allocas, *self.code.allocas]
        if self.pieces:
            lines = Parts(self, lines, variables, native_name(self.program.name), self.module.part).lines
            variables = []
        return "\n".join([head, "entry:", *variables, *lines, "}", ""])

    def print_exits(self) -> None:
        """Where places leave to that have nothing to tell."""
        for status in sorted(self.exits):
            self.start(f"exit{status}")
            self.give_up(str(status))

    def prologue(self) -> list[str]:
        """What is done before the steps, once it is known what they need."""
        if not self.arena:
            return []
        self.module.declares["jg_arena_reset"] = "declare void @jg_arena_reset(ptr)"
        return ["  call void @jg_arena_reset(ptr %block)"]

    def epilogue(self) -> None:
        """What is done after the steps: nothing."""

    def read_inputs(self) -> None:
        """Pointers, sizes and numbers of the inputs; sends non-contiguous arrays back."""
        code, layout = self.entry, self.layout
        data, dims, flags = (self.load_word(w, "i64", code) for w in (
            Word.DATA_OFFSET, Word.DIMS_OFFSET, Word.FLAGS_OFFSET))
        together: V | None = None  # the flags that all arrays have
        places: dict[int, list[tuple[Symbol, int]]] = {}
        for symbol, (i, axis) in self.program.input_symbols.items():
            places.setdefault(i, []).append((symbol, axis))
        table = self.table(len(self.program.input_buffers), data, flags) if self.quick else None
        if table is not None:
            together = table[1]
        for i, parts in enumerate(self.program.input_parts):
            if parts:
                self.read_parts(i, parts)
            if i not in self.program.input_buffers:
                continue
            number = len(layout.objects)
            layout.objects.append(i)
            item = self.element("%items", number) if table is None or i in places else ""
            if table is not None:
                self.tabled[self.program.input_buffers[i]] = table[0], number
            else:
                self.pointers[self.program.input_buffers[i]] = self.field(item, data, "ptr")
                found = V(code, self.field(item, flags, "i32"), "i32", 1)
                together = found if together is None else together & found
            if i in places:
                shape = self.field(item, dims, "ptr")
                for symbol, axis in places[i]:
                    self.sizes.known[alone(symbol)] = code.read("i64", code.element(shape, axis)).name
        for k, output in enumerate(self.program.outputs):
            if isinstance(output, TensorOutput) and output.fresh:
                item = self.element("%items", len(layout.objects) + len(layout.arrays))
                layout.arrays.append(k)
                self.pointers[output.ref.buffer] = self.field(item, data, "ptr")
        if together is not None:
            with code.unless((together & CONTIGUOUS).eq(CONTIGUOUS)):
                code.leave(code.number(Status.NOT_CONTIGUOUS))

    def element(self, table: str, number: int) -> str:
        """The pointer at a place of a table of pointers."""
        return self.entry.read("ptr", self.entry.element(table, number, "ptr")).name

    def table(self, count: int, data: V, flags: V) -> tuple[str, V] | None:
        """A table of the inputs' data pointers and the flags that all have, both found by a loop; None for a few."""
        if count < MANY_INPUTS:
            return None
        code, name = self.entry, self.variable(f"[{count} x ptr]")
        items, table = (V(code, pointer, "ptr", 1) for pointer in ("%items", name))
        return name, code.call("jg_gather", "i32", 1, items, code.const(count, "i64", 1), table, data, flags)

    def field(self, item: str, offset: V, elem: str) -> str:
        code = self.entry
        return code.read(elem, code.element(item, offset.name, "i8")).name

    def read_parts(self, i: int, parts: Sequence[Value]) -> None:
        """The flags and numbers of an input."""
        code, layout = self.entry, self.layout
        kinds = [(v, t) for v in parts for t in part_types(v.type)]
        at = layout.numbers[i] = layout.take(len(kinds))
        for value, kind in kinds:
            self.values[value] = (*self.values.get(value, ()), self.load_word(at, kind, code))
            at += 1

    def workspace(self) -> None:
        """Offsets of the slots, and enough memory for them."""
        code, layout = self.entry, self.layout
        offsets: dict[int, V] = {}
        padded: dict[tuple[str, ...], V] = {}  # the bytes of a slot by what its buffers take: many slots are equal
        total = V(code, "0", "i64", 1)
        for number, slot in enumerate(self.slots):
            if slot.growable:
                layout.growable[number] = layout.take(2)
                continue
            needs = tuple(sorted({self.bytes(size, itemsize).name for size, itemsize in slot.sizes}))
            if needs not in padded:
                # a size that is negative is refused by the step that has it, till when memory is laid out without it
                signed = any(is_difference(size) for size, _ in slot.sizes)
                largest, *others = [V(code, name, "i64", 1) for name in (*needs, *["0"] * signed)]
                for other in others:
                    largest = largest.intrinsic("smax", other)
                padded[needs] = (largest + 63) & -64
            offsets[number] = total
            total = total + padded[needs]
        if not offsets:
            return
        with code.unless(self.reserve(Word.WORKSPACE, total, code)):
            code.leave(code.number(Status.NO_MEMORY))
        start = code.read("ptr", self.word(Word.WORKSPACE, code))
        starts = {number: code.element(start.name, offset.name, "i8") for number, offset in offsets.items()}
        for buffer, number in self.slot_of.items():
            if number in starts:
                self.pointers[buffer] = starts[number]

    def bytes(self, size: Size, itemsize: int) -> V:
        """How many bytes so many elements take, computed at entry, once."""
        code = self.entry
        name = self.byte_counts.get((size, itemsize))
        if name is None:
            name = self.byte_counts[size, itemsize] = (self.size(size, code) * itemsize).name
        return V(code, name, "i64", 1)

    def store_numbers(self) -> None:
        """Results that are not arrays of Python's."""
        for k, output in enumerate(self.program.outputs):
            if isinstance(output, NumberOutput):
                parts = [p for v in output.parts for p in self.parts(v)]
                at = self.layout.outputs[k] = self.layout.take(len(parts))
                for j, part in enumerate(parts):
                    self.store_word(at + j, part)
            elif not output.fresh:
                at = self.layout.outputs[k] = self.layout.take(len(output.flags) + 1 + len(output.shape))
                self.pass_values((*output.flags, output.ref), at, strides=False)
            elif output.flags:
                at = self.layout.flags[k] = self.layout.take(len(output.flags))
                self.pass_values(output.flags, at, strides=False)
