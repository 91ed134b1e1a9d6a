"""A `Program` as one native function: `i64 @name(ptr %block, ptr %items)`.

`layout.py` says what lies behind the two pointers and what the function returns: data pointers and sizes are read from
the Python objects of the call, the rest from its block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from jitgrad.codegen.llvm import numbers
from jitgrad.codegen.llvm.numbers import part_types
from jitgrad.codegen.llvm.scalars import STORED, convert
from jitgrad.codegen.llvm.sequences import Sequences
from jitgrad.codegen.llvm.sizes import Sizes, alone
from jitgrad.codegen.llvm.steps import PRINT, remember_arena
from jitgrad.codegen.program import buffers
from jitgrad.codegen.program.layout import (
    DATA_OFFSET,
    DIMS_OFFSET,
    FIRST_FREE,
    FLAGS_OFFSET,
    LEFT,
    NO_MEMORY,
    NOT_CONTIGUOUS,
    RAISED,
    WORKSPACE,
    Layout,
    native_name,
)
from jitgrad.codegen.program.program import (
    Buffer,
    CallStep,
    IfStep,
    Leaving,
    LoopStep,
    NumberOutput,
    NumberStep,
    Program,
    Ref,
    ResidentStep,
    TensorOutput,
)
from jitgrad.dims import Dim, Size, Symbol
from jitgrad.dtypes import dtype
from jitgrad.kernels.values import Code, V
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Value

if TYPE_CHECKING:
    from jitgrad.codegen.llvm.module import ModuleText

#: an ndarray's flags: C-contiguous and aligned
CONTIGUOUS = 0x101


#: a program of more steps than this is glue all the same: good code for it would take seconds
LARGE = 3000
#: from so many arrays on, glue reads them in a loop
MANY_INPUTS = 8


def _repeats(steps: Sequence[Any]) -> bool:
    """Whether a program has a loop, and is not too large for the slow code generator."""
    count, loops, pending = 0, False, [steps]
    while pending:
        for step in pending.pop():
            count += 1
            if isinstance(step, IfStep):
                pending += [step.then, step.otherwise]
            elif isinstance(step, LoopStep):
                loops = True
                pending.append(step.body)
            elif isinstance(step, ResidentStep):
                pending.append(step.steps)
    return loops and count <= LARGE


class ProgramPrinter:
    """Prints one program's function."""

    PRINT: ClassVar[dict[type, Any]] = PRINT

    def __init__(self, module: ModuleText, program: Program):
        self.module, self.program = module, program
        self.layout = Layout()
        self.layout.leaving = FIRST_FREE + max(4, _payload_words(program.steps))
        self.layout.words = self.layout.leaving + _leaving_words(program.steps)
        self.entry = Code()                 # before everything: allocas, inputs, sizes known at entry, the workspace
        self.code = Code()
        self.code.count = 1 << 24           # names of the two never meet
        self.byte_counts: dict[tuple[Size, int], str] = {}
        self.exits: set[int] = set()        # statuses with which some place leaves
        self.allocas: list[str] = []
        self.labels = 0
        self.sizes = Sizes(self)
        self.values: dict[Value, tuple[V, ...]] = {}
        self.variables: dict[Value, tuple[str, ...]] = {}
        self.pointers: dict[Buffer, str] = {}
        self.slot_of, self.slots = buffers.assign(program)
        self.numbers = numbers.Numbers(self)
        self.sequences = self.new_sequences()
        self.arena = False
        #: by list of steps around: site of what is stored -> its label; status and that site -> that of leaving so
        self.told: list[dict[int | tuple[int, int], str]] = [{}]
        self.status = ""  # the variable that has what a program returns that stores before
        self.clock = ""  # the variable that has when signals were last looked at
        #: code that runs once is glue between kernels: the quick code generator makes it in a third of the time
        self.quick = not _repeats(program.steps)

    def new_sequences(self) -> Sequences:
        """What prints steps of sequences."""
        return Sequences(self)

    # --- small things ---

    def line(self, text: str) -> None:
        self.code.lines.append("  " + text)

    def label(self, prefix: str) -> str:
        self.labels += 1
        return f"{prefix}.{self.labels}"

    def start(self, label: str) -> None:
        self.code.lines.append(f"{label}:")

    def const(self, value: int) -> V:
        return V(self.code, str(int(value)), "i64", 1)

    def here(self, v: V) -> V:
        """The same value, its next operation printed at the current place."""
        return V(self.code, v.name, v.elem, v.lanes)

    def variable(self, llvm_type: str) -> str:
        name = f"%var{len(self.allocas)}"
        self.allocas.append(f"  {name} = alloca {llvm_type}")
        return name

    def word(self, number: int, code: Code | None = None) -> str:
        """The address of a word of the block."""
        code = code or self.code
        name = code.name()
        code.lines.append(f"  {name} = getelementptr i64, ptr %block, i64 {number}")
        return name

    def load_word(self, number: int, elem: str = "i64", code: Code | None = None) -> V:
        code = code or self.code
        return code.emit(f"load {elem}, ptr {self.word(number, code)}", elem, 1)

    def store_word(self, number: int, value: V) -> None:
        if value.elem == "i1":
            value = value.cast("zext", "i64")
        self.line(f"store {value.type} {value.name}, ptr {self.word(number)}")

    def leave_unless(self, good: V, status: int, leaving: Leaving | None = None) -> None:
        """Return `status` where `good` is false."""
        fine = self.label("go")
        if leaving is None:
            self.exits.add(status)
            self.line(f"br i1 {good.name}, label %{fine}, label %exit{status}")
        else:
            known = self.known_label((status, leaving.site))
            bad = known or self.label("leave")
            self.line(f"br i1 {good.name}, label %{fine}, label %{bad}")
            if not known:
                self.told[-1][status, leaving.site] = bad
                self.start(bad)
                self.leave(status, leaving)
        self.start(fine)

    def leave(self, status: int, leaving: Leaving | None) -> None:
        """Return `status`, with what is to be stored told before.

        The code that tells is shared by all places that leave after the first one, in its list of steps or inside.
        """
        if leaving is None:
            self.give_up(str(status))
            return
        self.status = self.status or self.variable("i64")
        self.line(f"store i64 {status}, ptr {self.status}")
        self.store_word(LEFT, self.const(leaving.site + 1))
        for part in leaving.chain():
            label = self.known_label(part.site)
            if label:
                self.line(f"br label %{label}")
                return
            label = self.told[-1][part.site] = self.label("leave")
            self.line(f"br label %{label}")
            self.start(label)
            values, self.values = self.values, dict(self.values)  # what is computed here is so only here
            self.steps(part.before)
            at = self.layout.leaving + part.word
            self.layout.left[part.site] = at, part.more.site if part.more is not None else -1
            self.pass_values(part.values, at)
            self.values = values
        self.give_up(self.code.emit(f"load i64, ptr {self.status}", "i64", 1).name)

    def give_up(self, status: str) -> None:
        """Return from the middle of the program."""
        self.line(f"ret i64 {status}")

    def known_label(self, key: int | tuple[int, int]) -> str:
        """The label of code that tells, or leaves, and that is shared; "" where there is none to be seen from here."""
        return next((told[key] for told in reversed(self.told) if key in told), "")

    def size(self, size: Size, code: Code | None = None) -> V:
        """A size as i64."""
        return self.sizes.value(size, code)

    def size_variable(self, symbol: Symbol) -> str:
        return self.sizes.variable_of(symbol)

    # --- memory ---

    def base(self, buffer: Buffer) -> str:
        """The pointer to a buffer's start."""
        if buffer.kind == "pointer":
            return self.code.emit(f"load ptr, ptr {self.pointer_variable(buffer)}", "ptr", 1).name
        if buffer.kind == "growable":
            return self.load_word(self.layout.growable[self.slot_of[buffer]], "ptr").name
        return self.pointers[buffer]

    def pointer_variable(self, buffer: Buffer) -> str:
        found = self.pointers.get(buffer)
        if found is None:
            found = self.pointers[buffer] = self.variable("ptr")
        return found

    def address(self, buffer: Buffer, offset: Size) -> str:
        """The pointer to an element."""
        start = self.base(buffer)
        if offset == 0:
            return start
        name = self.code.name()
        self.line(f"{name} = getelementptr {STORED[buffer.dtype.name]}, ptr {start}, i64 {self.size(offset).name}")
        return name

    # --- the function ---

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
            self.module.externals |= code.externals
        attributes = "nounwind noinline optnone" if self.quick else "nounwind"
        head = f"define i64 @{native_name(program.name)}(ptr %block, ptr %items) {attributes} {{"
        lines = [head, "entry:", *self.allocas,
                 *self.entry.lines, *self.prologue(), "  br label %body", "body:", *self.code.lines, "}", ""]
        return "\n".join(lines)

    def print_exits(self) -> None:
        """Where places leave to that have nothing to tell."""
        for status in sorted(self.exits):
            self.start(f"exit{status}")
            self.give_up(str(status))

    def prologue(self) -> list[str]:
        """What is done before the steps, once it is known what they need."""
        return ["  call void @jg_arena_reset(ptr %block)"] if self.arena else []

    def epilogue(self) -> None:
        """What is done after the steps: nothing."""

    def mark_arena(self) -> Any:
        """Remember how much of the arena is used."""
        self.module.arena = self.arena = True
        return remember_arena(self)

    def release_arena(self, mark: Any) -> None:
        """Give back what was taken of the arena since."""
        self.line(f"call void @jg_arena_release(ptr %block, ptr {mark[0].name}, i64 {mark[1].name})")

    def read_inputs(self) -> None:
        """Pointers, sizes and numbers of the inputs; sends non-contiguous arrays back."""
        code, layout = self.entry, self.layout
        data, dims, flags = (self.load_word(w, "i64", code) for w in (DATA_OFFSET, DIMS_OFFSET, FLAGS_OFFSET))
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
            item = self.item(number) if table is None or i in places else ""
            if table is not None:
                pointer = self.element(table[0], number)
            else:
                pointer = self.field(item, data, "ptr")
                found = V(code, self.field(item, flags, "i32"), "i32", 1)
                together = found if together is None else together & found
            self.pointers[self.program.input_buffers[i]] = pointer
            if i in places:
                shape = self.field(item, dims, "ptr")
                for symbol, axis in places[i]:
                    at = code.name()
                    code.lines.append(f"  {at} = getelementptr i64, ptr {shape}, i64 {axis}")
                    self.sizes.known[alone(symbol)] = code.emit(f"load i64, ptr {at}", "i64", 1).name
        for k, output in enumerate(self.program.outputs):
            if isinstance(output, TensorOutput) and output.fresh:
                item = self.item(len(layout.objects) + len(layout.arrays))
                layout.arrays.append(k)
                self.pointers[output.ref.buffer] = self.field(item, data, "ptr")
        if together is not None:
            good = (together & CONTIGUOUS).eq(CONTIGUOUS)
            bad, fine = self.label("strided"), self.label("go")
            code.lines += [f"  br i1 {good.name}, label %{fine}, label %{bad}", f"{bad}:",
                           f"  ret i64 {NOT_CONTIGUOUS}", f"{fine}:"]

    def item(self, number: int) -> str:
        return self.element("%items", number)

    def element(self, table: str, number: int) -> str:
        """The pointer at a place of a table of pointers."""
        code = self.entry
        at = code.name()
        code.lines.append(f"  {at} = getelementptr ptr, ptr {table}, i64 {number}")
        return code.emit(f"load ptr, ptr {at}", "ptr", 1).name

    def table(self, count: int, data: V, flags: V) -> tuple[str, V] | None:
        """A table of the inputs' data pointers and the flags that all have, both found by a loop; None for a few."""
        if count < MANY_INPUTS:
            return None
        name = self.variable(f"[{count} x ptr]")
        self.module.gathers = True
        return name, self.entry.emit(f"call i32 @jg_gather(ptr %items, i64 {count}, ptr {name}, i64 {data.name}, "
                                     f"i64 {flags.name})", "i32", 1)

    def field(self, item: str, offset: V, elem: str) -> str:
        code = self.entry
        at = code.name()
        code.lines.append(f"  {at} = getelementptr i8, ptr {item}, i64 {offset.name}")
        return code.emit(f"load {elem}, ptr {at}", elem, 1).name

    def read_parts(self, i: int, parts: Sequence[Value]) -> None:
        """The flags and numbers of an input."""
        code, layout = self.entry, self.layout
        kinds = [(v, t) for v in parts for t in part_types(v.type)]
        at = layout.numbers[i] = layout.take(len(kinds))
        for value, kind in kinds:
            v = self.load_word(at, "i64" if kind == "i1" else kind, code)
            self.values[value] = (*self.values.get(value, ()), v.ne(0) if kind == "i1" else v)
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
                largest, *others = [V(code, name, "i64", 1) for name in needs]
                for other in others:
                    largest = largest.intrinsic("smax", other)
                padded[needs] = (largest + 63) & -64
            offsets[number] = total
            total = total + padded[needs]
        if not offsets:
            return
        good = self.reserve(WORKSPACE, total, code)
        fine, bad = self.label("go"), self.label("memory")
        code.lines += [f"  br i1 {good.name}, label %{fine}, label %{bad}", f"{bad}:", f"  ret i64 {NO_MEMORY}",
                       f"{fine}:"]
        start = code.emit(f"load ptr, ptr {self.word(WORKSPACE, code)}", "ptr", 1)
        starts: dict[int, str] = {}
        for number, offset in offsets.items():
            name = starts[number] = code.name()
            code.lines.append(f"  {name} = getelementptr i8, ptr {start.name}, i64 {offset.name}")
        for buffer, number in self.slot_of.items():
            if number in starts:
                self.pointers[buffer] = starts[number]

    def reserve(self, word: int, bytes_: V, code: Code) -> V:
        """Let the memory at a word of the block have room for so many bytes; whether it has."""
        self.module.reserves = True
        return code.emit(f"call i1 @jg_reserve(ptr {self.word(word, code)}, i64 {bytes_.name})", "i1", 1)

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
                self.store_parts(at, (*output.flags, output.ref))

    def store_parts(self, at: int, parts: Sequence[Value | Ref]) -> None:
        """Flags and numbers, or a window's address and sizes, from word `at` on."""
        for part in parts:
            if isinstance(part, Ref):
                self.line(f"store ptr {self.address(part.buffer, part.offset)}, ptr {self.word(at)}")
                for j, size in enumerate(part.dims):
                    self.store_word(at + 1 + j, self.size(size))
                at += 1 + len(part.dims)
            else:
                for v in self.parts(part):
                    self.store_word(at, v)
                    at += 1

    # --- values ---

    def parts(self, value: Value) -> tuple[V, ...]:
        """The registers of a value: one, or tag and bits of a Number, or flag and payload of an Optional."""
        found = self.values.get(value)
        if found is not None:
            return tuple(self.here(v) for v in found)
        types = part_types(value.type)
        names = self.value_variables(value)
        return tuple(self.code.emit(f"load {t}, ptr {n}", t, 1) for t, n in zip(types, names, strict=True))

    def one(self, value: Value) -> V:
        (v,) = self.parts(value)
        return v

    def define(self, value: Value, *parts: V) -> None:
        self.values[value] = parts

    def as_dtype(self, value: Value, d: dtype) -> V:
        """A number or register in the computing type of dtype `d`."""
        if isinstance(value.type, TensorType):
            return convert(self.one(value), value.type.dtype, d)
        return self.numbers.to_dtype(value, d)

    def value_variables(self, value: Value) -> tuple[str, ...]:
        found = self.variables.get(value)
        if found is None:
            found = self.variables[value] = tuple(self.variable(t) for t in part_types(value.type))
        return found

    # --- Python ---

    def call_python(self, site: int, leaving: Leaving | None = None) -> None:
        """`jg_callback(block, site)`: 1 if all went well."""
        self.module.declares["jg_callback"] = "declare i64 @jg_callback(ptr, i64)"
        self.module.externals.add("jg_callback")
        good = self.code.emit(f"call i64 @jg_callback(ptr %block, i64 {site})", "i64", 1)
        self.leave_unless(good.eq(1), RAISED, leaving)

    def pass_values(self, values: Sequence[Value | Ref | Size], at: int | None = None) -> None:
        """What a site needs, from word `at` on, by default in the payload words (see `_payload_words`)."""
        at = self.layout.payload if at is None else at
        for value in values:
            if isinstance(value, (int, Dim)):
                self.store_word(at, self.size(value))
                at += 1
            elif isinstance(value, Ref):
                self.line(f"store ptr {self.address(value.buffer, value.offset)}, ptr {self.word(at)}")
                for size in (*value.dims, *value.strides):
                    at += 1
                    self.store_word(at, self.size(size))
                at += 1
            else:
                for part in self.parts(value):
                    self.store_word(at, part)
                    at += 1

    # --- steps ---

    def steps(self, steps: Sequence[Any]) -> None:
        self.told.append({})
        for step in steps:
            self.PRINT[type(step)](self, step)
        self.told.pop()


def _leaving_words(steps: Sequence[Any]) -> int:
    """The most words that a place that leaves needs for what is stored then."""
    most = 0
    for step in steps:
        if isinstance(step, (CallStep, NumberStep)):
            most = max(most, step.leaving.end if step.leaving is not None else 0)
        elif isinstance(step, IfStep):
            most = max(most, _leaving_words(step.then), _leaving_words(step.otherwise))
        elif isinstance(step, LoopStep):
            most = max(most, _leaving_words(step.body))
        elif isinstance(step, ResidentStep):
            most = max(most, _leaving_words(step.steps))
    return most


def _payload_words(steps: Sequence[Any]) -> int:
    """The most words that a site passes: a number takes up to 4, a window an address, sizes and strides."""
    most = 0
    for step in steps:
        if isinstance(step, CallStep):
            most = max(most, sum(1 + 2 * len(v.dims) if isinstance(v, Ref) else 4 for v in step.values))
        elif isinstance(step, NumberStep):
            most = max(most, 4 * len(step.node.inputs))
        elif isinstance(step, IfStep):
            most = max(most, _payload_words(step.then), _payload_words(step.otherwise))
        elif isinstance(step, LoopStep):
            most = max(most, _payload_words(step.body))
        elif isinstance(step, ResidentStep):
            most = max(most, _payload_words(step.steps))
    return most
