"""A `Program` as one native function: `i64 @name(ptr %block, ptr %items)`.

`layout.py` says what lies behind the two pointers and what the function returns: data pointers and sizes are read from
the Python objects of the call, the rest from its block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jitgrad import dtypes
from jitgrad.codegen import buffers, llvm_numbers
from jitgrad.codegen.layout import (
    ARENA,
    DATA_OFFSET,
    DIMS_OFFSET,
    FAILED,
    FIRST_FREE,
    FLAGS_OFFSET,
    NO_MEMORY,
    NOT_CONTIGUOUS,
    RAISED,
    SITE,
    WORKSPACE,
    Layout,
    native_name,
)
from jitgrad.codegen.llvm_emit import COMPUTED, EMIT, STORED, convert, narrow, widen
from jitgrad.codegen.llvm_numbers import part_types
from jitgrad.codegen.llvm_sequences import Sequences
from jitgrad.codegen.lower_effects import NumberOutput
from jitgrad.codegen.program import (
    Allocate,
    ArenaAllocate,
    Assign,
    Buffer,
    CallStep,
    CommitSlot,
    GemmStep,
    IfStep,
    KernelStep,
    LoadScalar,
    LoopStep,
    NumberStep,
    Point,
    Program,
    Ref,
    ScalarStep,
    SeqCopy,
    SeqGet,
    SeqGrow,
    SeqLength,
    SeqPlace,
    SeqPut,
    SeqReach,
    SeqStart,
    StoreScalar,
)
from jitgrad.dims import Atom, Dim, Size, Symbol, symbols
from jitgrad.dtypes import dtype
from jitgrad.kernels.blas import gemm_symbol
from jitgrad.kernels.values import Code, V
from jitgrad.ops.types import TensorType
from jitgrad.script.ir import Value

if TYPE_CHECKING:
    from jitgrad.codegen.module import ModuleText

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112
#: cycles between two looks at pending signals (about 50 ms)
POLL_CYCLES = 100_000_000
#: an ndarray's flags: C-contiguous and aligned
CONTIGUOUS = 0x101


#: a program of more steps than this is glue all the same: good code for it would take seconds
LARGE = 3000


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
    return loops and count <= LARGE


class ProgramPrinter:
    """Prints one program's function."""

    def __init__(self, module: ModuleText, program: Program):
        self.module, self.program = module, program
        self.layout = Layout()
        self.layout.words = FIRST_FREE + max(4, _payload_words(program.steps))
        self.entry = Code()                 # before everything: allocas, inputs, sizes known at entry, the workspace
        self.code = Code()
        self.code.count = 1 << 24           # names of the two never meet
        self.allocas: list[str] = []
        self.labels = 0
        self.known: dict[Size, str] = {}    # sizes that are computed in `entry`
        self.sizes: dict[Symbol, str] = {}  # other symbols: their variable
        self.values: dict[Value, tuple[V, ...]] = {}
        self.variables: dict[Value, tuple[str, ...]] = {}
        self.pointers: dict[Buffer, str] = {}
        self.slot_of, self.slots = buffers.assign(program)
        self.numbers = llvm_numbers.Numbers(self)
        self.sequences = Sequences(self)
        self.arena = False
        #: code that runs once is glue between kernels: the quick code generator makes it in a third of the time
        self.quick = not _repeats(program.steps)

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

    def leave_unless(self, good: V, status: int, site: int | None = None) -> None:
        """Return `status` where `good` is false."""
        bad, fine = self.label("leave"), self.label("go")
        self.line(f"br i1 {good.name}, label %{fine}, label %{bad}")
        self.start(bad)
        if site is not None:
            self.store_word(SITE, self.const(site))
        self.line(f"ret i64 {status}")
        self.start(fine)

    # --- sizes ---

    def size(self, size: Size, code: Code | None = None) -> V:
        """A size as i64. What is known at entry is computed there, once."""
        code = code or self.code
        if isinstance(size, int):
            return V(code, str(size), "i64", 1)
        name = self.known.get(size)
        if name is None and all(s in self.program.input_symbols for s in symbols(size)):
            name = self.known[size] = self._compute(size, self.entry).name
        if name is not None:
            return V(code, name, "i64", 1)
        return self._compute(size, code)

    def _compute(self, size: Dim, code: Code) -> V:
        total: V | None = None
        for later, coefficient in self._parts(size):
            term = None
            if coefficient == size:
                term = self._sum(size, code)
            elif coefficient != 1 or not later:
                term = V(code, self.size(coefficient, code).name, "i64", 1)
            for atom in later:
                factor = self._atom(atom, code)
                term = factor if term is None else V(code, term.name, "i64", 1) * factor
            assert term is not None
            total = term if total is None else V(code, total.name, "i64", 1) + term
        assert total is not None
        return total

    def _parts(self, size: Dim) -> list[tuple[tuple[Atom, ...], Size]]:
        """`size` as a sum of products: atoms that are known only here, and a factor that is known at entry."""
        known = self.program.input_symbols
        parts: dict[tuple[Atom, ...], Size] = {}
        for monomial, coefficient in size.terms:
            later = tuple([a for a in monomial if not all(s in known for s in symbols(_alone(a)))])
            factor: Size = coefficient
            for a in monomial:
                if a not in later:
                    factor = _alone(a) * factor
            parts[later] = factor + parts.get(later, 0)
        return list(parts.items())

    def _sum(self, size: Size, code: Code) -> V:
        """A sum of products of atoms that are known at entry."""
        if isinstance(size, int):
            return V(code, str(size), "i64", 1)
        total: V | None = None
        for monomial, coefficient in size.terms:
            term: V | None = None
            for atom in monomial:
                factor = self._atom(atom, code)
                term = factor if term is None else V(code, term.name, "i64", 1) * factor
            if term is None:
                term = V(code, str(coefficient), "i64", 1)
            elif coefficient != 1:
                term = term * coefficient
            total = term if total is None else total + term
        assert total is not None
        return total

    def _atom(self, atom: Atom, code: Code) -> V:
        """A symbol, or a function of sizes, which is computed once where it is known at entry."""
        if isinstance(atom, Symbol):
            return self._symbol(atom, code)
        single = _alone(atom)
        name = self.known.get(single)
        if name is None and all(s in self.program.input_symbols for s in symbols(single)):
            name = self.known[single] = self._call(atom, self.entry).name
        return V(code, name, "i64", 1) if name is not None else self._call(atom, code)

    def _symbol(self, symbol: Symbol, code: Code) -> V:
        found = self.known.get(_alone(symbol))
        if found is not None:
            return V(code, found, "i64", 1)
        return code.emit(f"load i64, ptr {self.size_variable(symbol)}", "i64", 1)

    def size_variable(self, symbol: Symbol) -> str:
        found = self.sizes.get(symbol)
        if found is None:
            found = self.sizes[symbol] = self.variable("i64")
        return found

    def _call(self, call: Any, code: Code) -> V:
        a, *rest = [self.size(s, code) for s in call.args]
        a = V(code, a.name, "i64", 1)
        if call.fn == "not_one":
            return a.ne(1).cast("zext", "i64")
        for b in rest:
            if call.fn in ("min", "max"):
                a = a.intrinsic("s" + call.fn, b)
            elif call.fn == "bcast":
                a = a.ne(1).where(a, b)
            else:
                divisor = V(code, b.name, "i64", 1).eq(0).where(1, b)
                quotient, remainder = a.op("sdiv", divisor), a.op("srem", divisor)
                off = remainder.ne(0) & ((remainder ^ divisor) < 0)
                a = off.where(quotient - 1, quotient) if call.fn == "floordiv" else off.where(
                    remainder + divisor, remainder)
        return a

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
        self.store_numbers()
        self.line("ret i64 0")
        for code in (self.entry, self.code):
            self.module.declares.update(code.declares)
            self.module.externals |= code.externals
        reset = ["  call void @jg_arena_reset(ptr %block)"] if self.arena else []
        attributes = "nounwind noinline optnone" if self.quick else "nounwind"
        head = f"define i64 @{native_name(program.name)}(ptr %block, ptr %items) {attributes} {{"
        lines = [head, "entry:", *self.allocas,
                 *self.entry.lines, *reset, "  br label %body", "body:", *self.code.lines, "}", ""]
        return "\n".join(lines)

    def read_inputs(self) -> None:
        """Pointers, sizes and numbers of the inputs; sends non-contiguous arrays back."""
        code, layout = self.entry, self.layout
        data, dims, flags = (self.load_word(w, "i64", code) for w in (DATA_OFFSET, DIMS_OFFSET, FLAGS_OFFSET))
        together: V | None = None  # the flags that all arrays have
        places: dict[int, list[tuple[Symbol, int]]] = {}
        for symbol, (i, axis) in self.program.input_symbols.items():
            places.setdefault(i, []).append((symbol, axis))
        for i, parts in enumerate(self.program.input_parts):
            if parts:
                self.read_parts(i, parts)
            if i not in self.program.input_buffers:
                continue
            item = self.item(len(layout.objects))
            layout.objects.append(i)
            self.pointers[self.program.input_buffers[i]] = self.field(item, data, "ptr")
            found = V(code, self.field(item, flags, "i32"), "i32", 1)
            together = found if together is None else together & found
            if i in places:
                shape = self.field(item, dims, "ptr")
                for symbol, axis in places[i]:
                    at = code.name()
                    code.lines.append(f"  {at} = getelementptr i64, ptr {shape}, i64 {axis}")
                    self.known[_alone(symbol)] = code.emit(f"load i64, ptr {at}", "i64", 1).name
        for k, output in enumerate(self.program.outputs):
            if getattr(output, "fresh", False):
                item = self.item(len(layout.objects) + len(layout.arrays))
                layout.arrays.append(k)
                self.pointers[output.ref.buffer] = self.field(item, data, "ptr")
        if together is not None:
            good = (together & CONTIGUOUS).eq(CONTIGUOUS)
            bad, fine = self.label("strided"), self.label("go")
            code.lines += [f"  br i1 {good.name}, label %{fine}, label %{bad}", f"{bad}:",
                           f"  ret i64 {NOT_CONTIGUOUS}", f"{fine}:"]

    def item(self, number: int) -> str:
        code = self.entry
        at = code.name()
        code.lines.append(f"  {at} = getelementptr ptr, ptr %items, i64 {number}")
        return code.emit(f"load ptr, ptr {at}", "ptr", 1).name

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
        total = V(code, "0", "i64", 1)
        for number, slot in enumerate(self.slots):
            if slot.growable:
                layout.growable[number] = layout.take(2)
                continue
            largest: V | None = None
            for size, itemsize in slot.sizes:
                bytes_ = self.size(size, code) * itemsize
                largest = bytes_ if largest is None else largest.intrinsic("smax", bytes_)
            assert largest is not None
            offsets[number] = total
            total = total + ((largest + 63) & -64)
        if not offsets:
            return
        place = self.word(WORKSPACE, code)
        good = code.name()
        fine, bad = self.label("go"), self.label("memory")
        self.module.reserves = True
        code.lines += [f"  {good} = call i1 @jg_reserve(ptr {place}, i64 {total.name})",
                       f"  br i1 {good}, label %{fine}, label %{bad}", f"{bad}:", f"  ret i64 {NO_MEMORY}", f"{fine}:"]
        start = code.emit(f"load ptr, ptr {place}", "ptr", 1)
        starts: dict[int, str] = {}
        for number, offset in offsets.items():
            name = starts[number] = code.name()
            code.lines.append(f"  {name} = getelementptr i8, ptr {start.name}, i64 {offset.name}")
        for buffer, number in self.slot_of.items():
            if number in starts:
                self.pointers[buffer] = starts[number]

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

    # --- steps ---

    def steps(self, steps: Sequence[Any]) -> None:
        for step in steps:
            PRINT[type(step)](self, step)

    def kernel_step(self, step: KernelStep) -> None:
        symbol = self.module.kernel(step)
        arguments = [f"i64 {self.size(s).name}" for s in step.sizes]
        arguments += [f"ptr {self.address(b, o)}" for b, o in step.starts]
        arguments += [f"i64 {self.size(s).name}" for s in step.strides]
        for value, d in zip(step.scalars, step.kernel.scalars, strict=True):
            v = self.as_dtype(value, d)
            arguments.append(f"{v.type} {v.name}")
        self.line(f"call void @{symbol}({', '.join(arguments)})")

    def gemm_step(self, step: GemmStep) -> None:
        """The call, inside loops over the batch axes; nothing for empty results."""
        d = dtypes.uint8 if step.dtype is dtypes.bool_ else step.dtype
        found = gemm_symbol(d)
        symbol = f"jg_gemm_{d.name}"
        self.module.gemms[symbol] = d
        self.module.externals.add(symbol)
        integer = f"i{found.int_bits}"
        real = "float" if d is dtypes.float32 else "double"
        self.module.declares[symbol] = (f"declare void @{symbol}(i32, i32, i32, {integer}, {integer}, {integer}, "
                                        f"{real}, ptr, {integer}, ptr, {integer}, {real}, ptr, {integer})")
        m, n, k = (self.size(s) for s in (step.m, step.n, step.k))
        some, after = self.label("product"), self.label("go")
        full = (m > 0) & (n > 0)
        self.line(f"br i1 {full.name}, label %{some}, label %{after}")
        self.start(some)
        leading = []
        for size, columns in ((step.lda, m if step.trans_a else k), (step.ldb, k if step.trans_b else n),
                              (step.ldc, n)):
            leading.append(self.size(size).intrinsic("smax", columns).intrinsic("smax", 1))
        starts = [self.address(*place) for place in (step.a, step.b, step.c)]
        sizes = [v if integer == "i64" else v.cast("trunc", integer) for v in (m, n, k, *leading)]
        m, n, k, lda, ldb, ldc = sizes

        def call(a: str, b: str, c: str) -> None:
            one, beta = self.code.const(1.0, real, 1).name, self.code.const(float(step.accumulate), real, 1).name
            self.line(f"call void @{symbol}(i32 {ROW_MAJOR}, i32 {TRANS if step.trans_a else NO_TRANS}, "
                      f"i32 {TRANS if step.trans_b else NO_TRANS}, {integer} {m.name}, {integer} {n.name}, "
                      f"{integer} {k.name}, {real} {one}, ptr {a}, {integer} {lda.name}, ptr {b}, "
                      f"{integer} {ldb.name}, {real} {beta}, ptr {c}, {integer} {ldc.name})")

        self.batched(step, 0, starts, call)
        self.line(f"br label %{after}")
        self.start(after)

    def batched(self, step: GemmStep, axis: int, starts: list[str], call: Any) -> None:
        if axis == len(step.batch):
            call(*starts)
            return
        size, *strides = step.batch[axis]
        i, end = self.loop_head(self.size(size))
        elem = STORED[step.dtype.name]
        moved = []
        for start, stride in zip(starts, strides, strict=True):
            name = self.code.name()
            offset = i * self.size(stride)
            self.line(f"{name} = getelementptr {elem}, ptr {start}, i64 {offset.name}")
            moved.append(name)
        self.batched(step, axis + 1, moved, call)
        self.loop_end(i, end)

    def loop_head(self, count: V) -> tuple[V, tuple[str, str, str]]:
        """Start `for i in range(count)` with a variable as counter."""
        counter = self.variable("i64")
        head, body, after = self.label("each"), self.label("do"), self.label("done")
        self.line(f"store i64 0, ptr {counter}")
        self.line(f"br label %{head}")
        self.start(head)
        i = self.code.emit(f"load i64, ptr {counter}", "i64", 1)
        go = i < count
        self.line(f"br i1 {go.name}, label %{body}, label %{after}")
        self.start(body)
        return i, (counter, head, after)

    def loop_end(self, i: V, labels: tuple[str, str, str]) -> None:
        counter, head, after = labels
        following = i + 1
        self.line(f"store i64 {following.name}, ptr {counter}")
        self.line(f"br label %{head}")
        self.start(after)

    def scalar_step(self, step: ScalarStep) -> None:
        node = step.node
        out = node.outputs[0]
        assert isinstance(out.type, TensorType)
        d = out.type.dtype
        if node.op == "full":
            self.define(out, self.code.const(node.attrs["value"], COMPUTED[d.name], 1))
            return
        if node.op == "fill":
            self.define(out, self.numbers.to_dtype(step.args[0], d))
            return
        args = [self.one(v) for v in step.args]
        source = step.args[1] if node.op == "where" else step.args[0]
        assert isinstance(source.type, TensorType)
        self.define(out, EMIT[node.op](args, source.type.dtype, d, node.attrs.get("n", 0)))

    def load_scalar(self, step: LoadScalar) -> None:
        d = step.buffer.dtype
        stored = STORED[d.name]
        raw = self.code.emit(f"load {stored}, ptr {self.address(step.buffer, step.offset)}", stored, 1)
        self.define(step.value, widen(raw, d))

    def store_scalar(self, step: StoreScalar) -> None:
        d = step.buffer.dtype
        value = narrow(self.one(step.value), d)
        self.line(f"store {value.type} {value.name}, ptr {self.address(step.buffer, step.offset)}")

    def number_step(self, step: NumberStep) -> None:
        self.numbers.step(step)

    def allocate(self, step: Allocate) -> None:
        buffer = step.buffer
        place = self.word(self.layout.growable[self.slot_of[buffer]])
        bytes_ = self.size(buffer.size) * buffer.dtype.itemsize
        self.module.reserves = True
        good = self.code.emit(f"call i1 @jg_reserve(ptr {place}, i64 {bytes_.name})", "i1", 1)
        self.leave_unless(good, NO_MEMORY)

    def point(self, step: Point) -> None:
        found = [(self.pointer_variable(t), self.address(b, o)) for t, b, o in step.targets]
        for variable, address in found:
            self.line(f"store ptr {address}, ptr {variable}")

    def assign(self, step: Assign) -> None:
        stores: list[tuple[str, V]] = []
        for target, source in step.values:
            parts = self.numbers.as_type(source, target.type)
            stores += list(zip(self.value_variables(target), parts, strict=True))
        for symbol, size in step.sizes:
            stores.append((self.size_variable(symbol), self.size(size)))
        for name, v in stores:
            self.line(f"store {v.type} {v.name}, ptr {name}")

    def value_variables(self, value: Value) -> tuple[str, ...]:
        found = self.variables.get(value)
        if found is None:
            found = self.variables[value] = tuple(self.variable(t) for t in part_types(value.type))
        return found

    def if_step(self, step: IfStep) -> None:
        then, otherwise, after = self.label("then"), self.label("else"), self.label("join")
        self.line(f"br i1 {self.one(step.condition).name}, label %{then}, label %{otherwise}")
        for label, steps in ((then, step.then), (otherwise, step.otherwise)):
            self.start(label)
            self.steps(steps)
            self.line(f"br label %{after}")
        self.start(after)

    def loop_step(self, step: LoopStep) -> None:
        head, body, after = self.label("loop"), self.label("body"), self.label("end")
        self.line(f"br label %{head}")
        self.start(head)
        self.line(f"br i1 {self.one(step.condition).name}, label %{body}, label %{after}")
        self.start(body)
        kept = self.remember_arena() if step.frees else None
        self.steps(step.body)
        if kept is not None:
            self.module.arena = self.arena = True
            self.line(f"call void @jg_arena_release(ptr %block, ptr {kept[0].name}, i64 {kept[1].name})")
        self.poll()
        self.line(f"br label %{head}")
        self.start(after)

    def remember_arena(self) -> tuple[V, V]:
        """The newest chunk and how much of it is used."""
        chunk = self.load_word(ARENA, "ptr")
        none, some, after = self.label("none"), self.label("some"), self.label("go")
        empty = self.code.emit(f"icmp eq ptr {chunk.name}, null", "i1", 1)
        self.line(f"br i1 {empty.name}, label %{none}, label %{some}")
        self.start(some)
        place = self.code.name()
        self.line(f"{place} = getelementptr i64, ptr {chunk.name}, i64 2")
        used = self.code.emit(f"load i64, ptr {place}", "i64", 1)
        self.line(f"br label %{after}")
        self.start(none)
        self.line(f"br label %{after}")
        self.start(after)
        return chunk, self.code.emit(f"phi i64 [ {used.name}, %{some} ], [ 0, %{none} ]", "i64", 1)

    def poll(self) -> None:
        """Every 50 ms or so, let Python handle its signals."""
        if not hasattr(self, "clock"):
            self.clock = self.variable("i64")
            self.entry.declares["llvm.readcyclecounter"] = "declare i64 @llvm.readcyclecounter()"
            now = self.entry.emit("call i64 @llvm.readcyclecounter()", "i64", 1)
            self.entry.lines.append(f"  store i64 {now.name}, ptr {self.clock}")
        now = self.code.emit("call i64 @llvm.readcyclecounter()", "i64", 1)
        before = self.code.emit(f"load i64, ptr {self.clock}", "i64", 1)
        due = (now - before).compare("ugt", POLL_CYCLES)
        look, go = self.label("signals"), self.label("go")
        self.line(f"br i1 {due.name}, label %{look}, label %{go}")
        self.start(look)
        self.line(f"store i64 {now.name}, ptr {self.clock}")
        self.module.polls = True
        good = self.code.emit("call i64 @jg_poll(ptr %block)", "i64", 1)
        self.leave_unless(good.eq(1), RAISED)
        self.line(f"br label %{go}")
        self.start(go)

    def call_python(self, site: int) -> None:
        """`jg_callback(block, site)`: 1 if all went well."""
        self.module.declares["jg_callback"] = "declare i64 @jg_callback(ptr, i64)"
        self.module.externals.add("jg_callback")
        good = self.code.emit(f"call i64 @jg_callback(ptr %block, i64 {site})", "i64", 1)
        self.leave_unless(good.eq(1), RAISED)

    def pass_values(self, values: Sequence[Value | Ref | Size]) -> None:
        """What a site needs, in the payload words (see `payload_words`)."""
        at = self.layout.payload
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

    def call_step(self, step: CallStep) -> None:
        if step.kind != "check":
            self.pass_values(step.values)
            self.call_python(step.site)
            return
        assert step.condition is not None
        bad, fine = self.label("raise"), self.label("go")
        self.line(f"br i1 {self.one(step.condition).name}, label %{fine}, label %{bad}")
        self.start(bad)
        self.steps(step.before)
        self.pass_values(step.values)
        self.store_word(SITE, self.const(step.site))
        self.line(f"ret i64 {FAILED}")
        self.start(fine)

    def commit_slot(self, step: CommitSlot) -> None:
        """A word that says so, and the value."""
        at = self.layout.commits.get(step.target)
        if at is None:
            count = sum(1 + len(p.dims) if isinstance(p, Ref) else len(part_types(p.type)) for p in step.parts)
            at = self.layout.commits[step.target] = self.layout.take(1 + count)
        self.store_word(at, self.const(1))
        self.store_parts(at + 1, step.parts)


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
    return most


def _alone(atom: Atom) -> Dim:
    return Dim((((atom,), 1),))


PRINT: dict[type, Any] = {
    KernelStep: ProgramPrinter.kernel_step, GemmStep: ProgramPrinter.gemm_step,
    ScalarStep: ProgramPrinter.scalar_step, LoadScalar: ProgramPrinter.load_scalar,
    StoreScalar: ProgramPrinter.store_scalar, NumberStep: ProgramPrinter.number_step,
    Allocate: ProgramPrinter.allocate, Point: ProgramPrinter.point, Assign: ProgramPrinter.assign,
    IfStep: ProgramPrinter.if_step, LoopStep: ProgramPrinter.loop_step, CallStep: ProgramPrinter.call_step,
    CommitSlot: ProgramPrinter.commit_slot,
    SeqStart: lambda p, s: p.sequences.start(s), SeqGrow: lambda p, s: p.sequences.grow(s),
    SeqPlace: lambda p, s: p.sequences.place(s), SeqPut: lambda p, s: p.sequences.put(s),
    SeqGet: lambda p, s: p.sequences.get(s), SeqLength: lambda p, s: p.sequences.length(s),
    SeqReach: lambda p, s: p.sequences.reach(s), SeqCopy: lambda p, s: p.sequences.copy(s),
    ArenaAllocate: lambda p, s: p.sequences.arena(s),
}
