"""A program's function under construction: its registers, labels and memory, and the ways out of it.

What prints the kinds of steps works on this (numbers, sequences, products, ...); `program.py` puts all of it together.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from jitgrad.codegen.llvm.conversions import as_dtype, as_type, part_types
from jitgrad.codegen.llvm.function import Function
from jitgrad.codegen.llvm.module import ModuleText
from jitgrad.codegen.llvm.scalars import STORED
from jitgrad.codegen.llvm.sizes import Sizes
from jitgrad.codegen.program import buffers
from jitgrad.codegen.program.layout import Layout, Status, Word
from jitgrad.codegen.program.program import Program
from jitgrad.codegen.program.step import Buffer, Column, Leaving, Ref, every
from jitgrad.dims import Dim, Size, Symbol
from jitgrad.dtypes import dtype
from jitgrad.kernels.values import Code, V
from jitgrad.ops.types import Type
from jitgrad.script.graph.ir import Value

#: at most so many steps are given good code as one function: that takes a tenth of a second
SHORT = 100
#: lines of quick code from which on they are a function
LIMIT = 6000


class Printer(Function):
    """Prints steps into one function, after an `entry` with inputs, sizes known there and the workspace.

    Attributes:
        PRINT: class of step -> what prints it.
        quick: the function runs each step once at most, so that the quick code generator may make it.
    """

    PRINT: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {}

    def __init__(self, module: ModuleText, program: Program, layout: Layout, quick: bool):
        super().__init__()
        self.module, self.program, self.layout, self.quick = module, program, layout, quick
        self.exits: set[int] = set()        # statuses with which some place leaves
        self.sizes = Sizes(self, program.input_symbols)
        self.values: dict[Value, tuple[V, ...]] = {}
        self.variables: dict[Value, tuple[str, ...]] = {}
        self.pointers: dict[Buffer, str] = {}
        self.tabled: dict[Buffer, tuple[str, int]] = {}  # tables that other pointers are in
        self.slot_of, self.slots = buffers.assign(program)
        self.arena = False
        #: by list of steps around: site of what is stored -> its label; status and that site -> that of leaving so
        self.told: list[dict[int | tuple[int, int], str]] = [{}]
        #: by list of steps around: site of what is stored -> the mark of what tells it
        self.tellers: list[dict[int, str]] = [{}]
        self.status = ""  # the variable that has what a program returns that stores before
        self.clock = ""  # the variable that has when signals were last looked at

    def word(self, number: int, code: Code | None = None) -> str:
        """The address of a word of the block."""
        code = code or self.code
        return code.element("%block", number)

    def load_word(self, number: int, elem: str = "i64", code: Code | None = None) -> V:
        code = code or self.code
        return code.read_word(elem, self.word(number, code))

    def store_word(self, number: int, value: V) -> None:
        if value.elem == "i1":
            value = value.cast("zext", "i64")
        self.code.write(value, self.word(number))

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

        The code that tells is shared by all places that leave after the first one, in its list of steps or inside: in
        quick code, which is in pieces, it is functions.
        """
        if leaving is not None:
            self.store_word(Word.LEFT, self.const(leaving.site + 1))
        if leaving is None or self.quick:
            if leaving is not None:
                self.tell(leaving)
            self.give_up(str(status))
            return
        self.status = self.status or self.variable("i64")
        self.line(f"store i64 {status}, ptr {self.status}")
        for part in leaving.chain():
            label = self.known_label(part.site)
            if label:
                self.line(f"br label %{label}")
                return
            label = self.told[-1][part.site] = self.label("leave")
            self.line(f"br label %{label}")
            self.start(label)
            self.tell_part(part)
        self.give_up(self.code.read("i64", self.status).name)

    def tell(self, leaving: Leaving) -> None:
        """Call what tells."""
        known: dict[int, str] = dict(itertools.chain.from_iterable(t.items() for t in self.tellers))
        for part in reversed(list(itertools.takewhile(lambda p: p.site not in known, leaving.chain()))):
            start = len(self.code.lines)
            self.tell_part(part)
            if part.more is not None:
                self.code.lines.append(known[part.more.site])
            known[part.site] = self.tellers[-1][part.site] = self.cut(start, quick=True, shared=True)
            del self.code.lines[start:]
        self.code.lines.append(known[leaving.site])

    def tell_part(self, part: Leaving) -> None:
        """Tell what is to be stored, without what is more."""
        values, self.values = self.values, dict(self.values)  # what is computed here is so only here
        self.steps(part.before)
        at = self.layout.leaving + part.word
        self.layout.left[part.site] = at, part.more.site if part.more is not None else -1
        self.pass_values(part.values, at)
        self.values = values

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
            return self.code.read("ptr", self.pointer_variable(buffer)).name
        if buffer.kind == "growable":
            return self.load_word(self.layout.growable[self.slot_of[buffer]], "ptr").name
        found = self.pointers.get(buffer)
        if found is None:
            code = self.code if self.quick else self.entry
            found = code.read("ptr", code.element(*self.tabled[buffer], "ptr")).name
            if not self.quick:
                self.pointers[buffer] = found
        return found

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
        return self.code.element(start, self.size(offset).name, STORED[buffer.dtype.name])

    def reserve(self, word: int, bytes_: V, code: Code) -> V:
        """Let the memory at a word of the block have room for so many bytes; whether it has."""
        return code.call("jg_grow", "i1", 1, V(code, self.word(word, code), "ptr", 1), bytes_)

    def take(self, bytes_: V) -> str:
        """Memory of the arena."""
        self.arena = True
        found = self.code.call("jg_arena", "ptr", 1, self.pointer("%block"), bytes_)
        self.leave_unless(found.compare("ne", self.pointer("null")), Status.NO_MEMORY)
        return found.name

    def tensors(self, bytes_: V) -> str:
        """Memory for the elements of tensors, which lives as long as the call's sequences."""
        return self.take(bytes_)

    def move(self, column: Column, to: str, source: V, bytes_: V) -> None:
        """Copy a column of a sequence, or the beginning of one."""
        self.code.call("memcpy", "ptr", 1, self.pointer(to), source, bytes_)

    def mark_arena(self) -> Any:
        """The newest chunk of the arena, and how much of it is used."""
        self.arena = True
        chunk = self.load_word(Word.ARENA, "ptr")
        return chunk, self.code.call("jg_arena_used", "i64", 1, chunk)

    def release_arena(self, mark: Any) -> None:
        """Give back what was taken of the arena since."""
        self.code.do("jg_arena_release", self.pointer("%block"), *mark)

    # --- values ---

    def parts(self, value: Value) -> tuple[V, ...]:
        """The registers of a value: one, or tag and bits of a Number, or flag and payload of an Optional."""
        found = self.values.get(value)
        if found is not None:
            return tuple(self.here(v) for v in found)
        types = part_types(value.type)
        names = self.value_variables(value)
        return tuple(self.code.read(t, n) for t, n in zip(types, names, strict=True))

    def one(self, value: Value) -> V:
        (v,) = self.parts(value)
        return v

    def define(self, value: Value, *parts: V) -> None:
        self.values[value] = parts

    def as_dtype(self, value: Value, d: dtype) -> V:
        """A number or register in the computing type of dtype `d`."""
        return as_dtype(self.parts(value), value.type, d)

    def as_type(self, value: Value, type_: Type) -> tuple[V, ...]:
        """The registers of `value` as those of a value of `type_`."""
        return as_type(self.parts(value), value.type, type_)

    def value_variables(self, value: Value) -> tuple[str, ...]:
        found = self.variables.get(value)
        if found is None:
            found = self.variables[value] = tuple(self.variable(t) for t in part_types(value.type))
        return found

    # --- Python ---

    def call_python(self, site: int, leaving: Leaving | None = None) -> None:
        self.leave_unless(self.called_back(site), Status.RAISED, leaving)

    def called_back(self, site: object) -> V:
        """Let Python do what a site says; whether all went well."""
        number = V(self.code, str(site), "i64", 1)
        return self.code.call("jg_callback", "i64", 1, self.pointer("%block"), number).eq(1)

    def pass_values(self, values: Sequence[Value | Ref | Size], at: int | None = None, strides: bool = True) -> None:
        """Flags and numbers, sizes, a window's address, sizes and `strides`, from word `at` on, by default that of the
        payload.
        """
        at = self.layout.payload if at is None else at
        for value in values:
            if isinstance(value, (int, Dim)):
                self.store_word(at, self.size(value))
                at += 1
            elif isinstance(value, Ref):
                self.line(f"store ptr {self.address(value.buffer, value.offset)}, ptr {self.word(at)}")
                for size in (*value.dims, *(value.strides if strides else ())):
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
        self.tellers.append({})
        start = len(self.code.lines)
        for step in steps:
            self.PRINT[type(step)](self, step)
            if self.quick and len(self.code.lines) - start > LIMIT:
                start = self.cut_from(start)
        self.told.pop()
        self.tellers.pop()

    def cut_entry(self) -> None:
        """Make functions of a long entry."""
        self._cut_entry(LIMIT)

    def cut_from(self, start: int, quick: bool = True) -> int:
        """Make a function of the lines from `start` on; where the lines go on."""
        self.cut(start, quick)
        self.told[-1].clear()  # nobody branches into it
        return len(self.code.lines)

    @contextmanager
    def repeated(self, body: Sequence[Any]) -> Iterator[None]:
        """Around what prints a loop. In quick code a short one is a function of good code."""
        quick, again, start = self.quick, self.again, len(self.code.lines)
        self.quick = quick and not is_short(body)
        self.again = again or self.quick
        yield
        apart, self.quick, self.again = quick and not self.quick, quick, again
        if apart:
            self.cut_from(start, quick=False)


def is_short(steps: Iterable[Any]) -> bool:
    """Whether good code for steps, and those in them, is made in little time."""
    return next(itertools.islice(every(steps), SHORT, None), None) is None
