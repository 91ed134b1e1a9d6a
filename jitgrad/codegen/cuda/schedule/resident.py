"""A region of a program as one kernel: its loops and branches, with the kernels in them, between barriers of the grid.

    step = ...                             # a `ResidentStep`, which `regions.py` makes
    resident_source(step, "newton_3")      # extern "C" __global__ void jg_loop_newton_3(table, scratch)

All blocks are resident at once (a cooperative launch), so that they can wait for each other. Every thread computes the
numbers, of which all have the same; kernels are the loops of `pointwise.py`, `rows.py` and `columns.py` in braces, over
the blocks that there are: `blockIdx` and `gridDim` in a reduction are its own, of blocks divided anew. The one
parameter is a table of words: registers, sizes, addresses, in the order of the step's fields; then where `exits` go,
and, if there are loops, where the host says that they shall stop.

Names: `V<k>` values, `N<k>` sizes, `B<k>` addresses, numbered as they come; in braces those of `writer.py`. Addresses
are integers until they are used (`jg_global`). Nothing is `__restrict__`: what one iteration reads another has written.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.cuda.kernels.addresses import Lines
from jitgrad.codegen.cuda.kernels.columns import Columns
from jitgrad.codegen.cuda.kernels.geometry import TICKETS
from jitgrad.codegen.cuda.kernels.pointwise import Pointwise
from jitgrad.codegen.cuda.kernels.rows import Rows
from jitgrad.codegen.cuda.kernels.scalars import COMPUTED, EXPRESSIONS, STORED, convert, literal, widen
from jitgrad.codegen.cuda.kernels.writer import Writer
from jitgrad.codegen.cuda.schedule.everywhere import Everywhere, known_everywhere
from jitgrad.codegen.cuda.schedule.launches import bounds, functions, places_at, symbol_of, threads_of
from jitgrad.codegen.cuda.schedule.regions import EPILOGUES
from jitgrad.codegen.llvm.conversions import DTYPES
from jitgrad.codegen.program.device_steps import Barrier, ResidentStep
from jitgrad.codegen.program.sequence_steps import ArenaAllocate, SeqGrow, SeqPlace, SeqPut
from jitgrad.codegen.program.step import Buffer, Ref, every
from jitgrad.codegen.program.steps import (Allocate, Assign, CallStep, GemmStep, IfStep, KernelStep, LoadScalar,
                                           LoopStep, NumberStep, Point, ScalarStep)
from jitgrad.dims import Call, Size, Symbol, render
from jitgrad.dtypes import dtype
from jitgrad.ops.numbers import NUMBERS, family
from jitgrad.ops.types import FLOAT, INT, TensorType, Type
from jitgrad.script.graph.ir import Node, Value

#: iterations after which all blocks meet in a loop that has no barrier: to be told to stop
RARELY = 1 << 14


def resident_source(step: ResidentStep, name: str) -> str:
    """The kernel of a region."""
    return _Region(step).source(symbol_of(name))


def dtype_of(value: Value) -> dtype:
    """The dtype of a register."""
    return value.type.dtype if isinstance(value.type, TensorType) else DTYPES[value.type]


def has_loops(step: ResidentStep) -> bool:
    return any(isinstance(s, LoopStep) for s in every(step.steps))


def kept_words(step: ResidentStep) -> Iterator[dict[Any, str]]:
    """What the table says of each sequence (room, address and bytes of each column's elements) and of each place where
    memory is taken from the arena, with the names of these words: what `device_regions.py` stores, in this order.
    """
    for k, one in enumerate(step.seqs):
        names: dict[Any, str] = {(one.seq, "room"): f"room{k}"}
        for column in range(len(one.columns)):
            names |= {(one.seq, column): f"first{k}_{column}", (one.seq, f"{column} each"): f"each{k}_{column}"}
        yield names
    for k, piece in enumerate(pieces(step)):
        yield {(piece, "arena"): f"arena{k}", (piece, "arena each"): f"piece{k}"}


def pieces(step: ResidentStep) -> list[ArenaAllocate]:
    """Where a region takes memory from the arena, once in an iteration."""
    return [s for s in every(step.steps) if isinstance(s, ArenaAllocate)]


class _Region(Lines):
    """Prints one kernel."""

    def __init__(self, step: ResidentStep):
        super().__init__()
        self.step, self.threads = step, threads_of(step)
        self.names: dict[Any, str] = {}
        self.kept: dict[Any, str] = {}          # where sequences and pieces of the arena are
        self.declared: dict[str, str] = {}      # variables of the whole kernel: their types
        self.known = known_everywhere(step.steps)
        self.told: dict[KernelStep, dict[int, str]] = {}    # results that all threads have: the variables
        for number, (kernel, operand) in enumerate(dict.fromkeys(self.known.values())):
            name = self.told.setdefault(kernel, {})[operand] = f"T{number}"
            self.declared[name] = COMPUTED[kernel.kernel.operands[operand].dtype.name]
        self.meet = "jg_meet(arrived);"
        if has_loops(step):
            self.meet = "if (jg_meet_or_stop(arrived, stop, seen)) return;"

    # --- names ---

    def name(self, what: Value | Symbol | Buffer) -> str:
        found = self.names.get(what)
        if found is None:
            letter = "V" if isinstance(what, Value) else "B" if isinstance(what, Buffer) else "N"
            found = self.names[what] = f"{letter}{len(self.names)}"
        return found

    def variable(self, what: Value | Symbol | Buffer) -> str:
        """The name of what is set in several places: declared where the kernel begins."""
        name = self.name(what)
        self.declared.setdefault(name, self.kind(what))
        return name

    def kind(self, what: Value | Symbol | Buffer) -> str:
        return COMPUTED[dtype_of(what).name] if isinstance(what, Value) else "i64"

    # --- the function ---

    def source(self, symbol: str) -> str:
        step = self.step
        entry: list[Value | Symbol | Buffer] = [*step.values, *step.sizes, *step.buffers]
        read: list[str] = []
        changing = {m for s in every(step.steps) for m in s.sets}
        for k, what in enumerate(entry):
            kind = self.kind(what)
            name = self.variable(what) if what in changing else f"const {kind} {self.name(what)}"
            read.append(f"{name} = " + (f"table.w[{k}];" if kind == "i64" else f"jg_number<{kind}>::of(table.w[{k}]);"))
        words = len(entry)
        for names in kept_words(step):
            self.kept.update(names)
            for name in names.values():
                read.append(f"const i64 {name} = table.w[{words}];")
                words += 1
        words += step.told is not None
        if has_loops(step):
            read.append(f"const u32* const stop = jg_global<const u32>(table.w[{words}]);")
            read.append("bool seen = false;")
            words += 1
        if self.told:
            read.append("u32 turn = 0;")
        if step.seqs:
            read.append("bool full = false;")
        self.steps(step.steps)
        if step.exits:
            with self.block("if (jg_thread() == 0)"):
                self.line(f"i64* const told = jg_global<i64>(table.w[{words - 1 - has_loops(step)}]);")
                if step.seqs:
                    self.line(f"told[{len(step.exits)}] = full;")
                for k, what in enumerate(step.exits):
                    self.line(f"told[{k}] = jg_bits({self.name(what)});")
        by_kind: dict[str, list[str]] = {}
        for name, kind in self.declared.items():
            by_kind.setdefault(kind, []).append(f"{name} = 0")
        head = [f"    {kind} {', '.join(names)};" for kind, names in by_kind.items()]
        return "\n".join([
            f'extern "C" __global__ void __launch_bounds__({bounds(self.step)})',
            f"{symbol}(const __grid_constant__ jg_table<{max(1, words)}> table, char* scratch) {{",
            f"    u32* const arrived = (u32*)scratch + {TICKETS // 4 - 1};", *head, *[f"    {r}" for r in read],
            *self.lines, "}", ""])

    def steps(self, steps: Sequence[Any]) -> None:
        for step in steps:
            PRINT[type(step)](self, step)

    def if_step(self, step: IfStep) -> None:
        with self.block(f"if ({self.name(step.condition)})"):
            self.steps(step.then)
        if step.otherwise:
            with self.block("else"):
                self.steps(step.otherwise)

    def loop_step(self, step: LoopStep) -> None:
        begin = len(self.lines)
        with self.block(f"while ({self.name(step.condition)})"):
            self.steps(step.body)
            if not any(self.meet in line for line in self.lines[begin:]):  # it may never end, in C++ too
                turns = f"turns{len(self.declared)}"
                self.declared[turns] = "u32"
                self.line(f"if ((++{turns} & {RARELY - 1}) == 0) {{ {self.meet} }}")

    def assign(self, step: Assign) -> None:
        pairs = [(self.variable(t), self.kind(t), self.raised(s, t.type)) for t, s in step.values]
        pairs += [(self.variable(t), "i64", self.size(s)) for t, s in step.sizes]
        self.at_once(pairs)

    def point(self, step: Point) -> None:
        self.at_once([(self.variable(t), "i64", self.address(b, o)) for t, b, o in step.targets])

    def at_once(self, pairs: Sequence[tuple[str, str, str]]) -> None:
        """Set variables to what all had before."""
        if len(pairs) == 1:
            self.line(f"{pairs[0][0]} = {pairs[0][2]};")
            return
        with self.block():
            for k, (_, kind, text) in enumerate(pairs):
                self.line(f"const {kind} to{k} = {text};")
            for k, (name, _, _) in enumerate(pairs):
                self.line(f"{name} = to{k};")

    def grow(self, step: SeqGrow) -> None:
        """Stop where there is no room: nothing of this iteration is done yet."""
        with self.block(f"if ({self.name(step.k)} >= {self.kept[step.seq, 'room']})"):
            self.line("full = true;")
            self.line("break;")

    def element(self, of: Any, column: int | str, k: Value) -> str:
        """The address of an element of a column, or of a piece of the arena, in iteration k."""
        return f"{self.kept[of, column]} + {self.name(k)} * {self.kept[of, f'{column} each']}"

    def place(self, step: SeqPlace) -> None:
        self.line(f"{self.variable(step.target)} = {self.element(step.seq, step.column, step.k)};")

    def arena(self, step: ArenaAllocate) -> None:
        self.line(f"{self.variable(step.target)} = {self.element(step, 'arena', self.step.seqs[0].k)};")

    def put(self, step: SeqPut) -> None:
        """A number, or where a tensor is and its sizes: words that the host copies."""
        what = step.what
        words = ([self.address(what.buffer, what.offset), *[self.size(s) for s in what.dims]] if isinstance(what, Ref)
                 else [f"jg_bits({self.name(what)})"])
        with self.block("if (jg_thread() == 0)"):
            self.line(f"i64* const to = jg_global<i64>({self.element(step.seq, step.column, step.k)});")
            for j, word in enumerate(words):
                self.line(f"to[{j}] = {word};")

    def load(self, step: LoadScalar) -> None:
        if step in self.known:
            kernel, operand = self.known[step]
            self.define(step.value, self.told[kernel][operand])
            return
        d = step.buffer.dtype
        stored = STORED[d.name]
        place = f"jg_global<{stored}>({self.address(step.buffer, step.offset)})"
        self.define(step.value, widen(f"jg_seen({place})", d))

    def define(self, value: Value, text: str) -> None:
        name = self.name(value)
        if value in self.step.exits:
            self.line(f"{self.variable(value)} = {text};")
        else:
            self.line(f"const {self.kind(value)} {name} = {text};")

    # --- sizes and places ---

    def size(self, size: Size) -> str:
        text = render(size, self.atom, " * ", lambda n: f"{n}" if abs(n) < 1 << 31 else f"{n}LL")
        return text if isinstance(size, int) or len(size.terms) == 1 else f"({text})"

    def atom(self, atom: Symbol | Call) -> str:
        if isinstance(atom, Symbol):
            return self.name(atom)
        function, arguments = f"jg_size_{atom.fn}", [f"(i64)({self.size(a)})" for a in atom.args]
        if len(arguments) == 1:
            return f"{function}({arguments[0]})"
        return reduce(lambda text, other: f"{function}({text}, {other})", arguments)

    def address(self, buffer: Buffer, offset: Size) -> str:
        if offset == 0:
            return self.name(buffer)
        return f"{self.name(buffer)} + {buffer.dtype.itemsize} * (i64)({self.size(offset)})"

    # --- kernels and products ---

    def kernel(self, step: KernelStep) -> None:
        kernel = step.kernel
        n = len(kernel.outer)
        with self.block():
            self.line(f"// {kernel.name}")
            if not kernel.inner:
                flat = Pointwise(kernel)
                flat.restrict = ""
                flat.source("")
                self.braces(flat, step)
                return
            outer = " * ".join([f"(i64)({self.size(s)})" for s in step.sizes[:n]]) or "1"
            inner = " * ".join([f"(i64)({self.size(s)})" for s in step.sizes[n:]]) or "1"
            self.line(f"const i64 outer = {outer}, inner = {inner};")
            if step in self.told:
                self.everywhere(step)
                return
            ways = functions(kernel, self.threads)
            for k, (bound, passes) in enumerate(ways):
                last = k + 1 == len(ways)
                head = None if last and not k else "else" if last else f"if (inner <= {bound})"
                with self.block(head):
                    for number, writer in enumerate(passes):
                        if number:
                            self.line(self.meet)
                        self.one_pass(writer, step)

    def everywhere(self, step: KernelStep) -> None:
        """A reduction whose result every thread has afterwards."""
        writer = Everywhere(step.kernel, self.threads, places_at(self.step), self.told[step], self.meet)
        writer.source("", False)
        self.line("const jg_place at = {0, blockIdx.x}, of = {1, gridDim.x};")
        with self.block():
            self.line("const jg_place blockIdx = at, gridDim = of;")
            self.braces(writer, step)

    def one_pass(self, writer: Rows | Columns, step: KernelStep) -> None:
        writer.source("", False)
        launch = writer.launch("")
        split = min(launch.split, self.threads * writer.width) if isinstance(writer, Rows) else launch.split
        with self.block():
            self.line(f"const jg_share share = jg_shared_by(outer, inner, {launch.each}, {split});")
            with self.block("if (share.mine)"):
                self.line("const jg_place blockIdx = share.at, gridDim = share.of;")
                self.braces(writer, step)

    def braces(self, writer: Writer, step: KernelStep) -> None:
        """What a writer has printed, with the kernel's parameters as constants."""
        given = [self.size(s) for s in step.sizes]
        operands = [self.address(b, o) for b, o in step.starts]
        strides = [self.size(s) for s in step.strides]
        both = zip(step.scalars, step.kernel.scalars, strict=True)
        scalars = [convert(self.name(v), dtype_of(v), d) for v, d in both]
        declared = [*writer.parameters(), *writer.numbers(range(len(scalars)))]
        for text, value in zip(declared, [*given, *operands, *strides, *scalars], strict=True):
            kind, name = text.rsplit(" ", 1)
            if "*" in kind:
                self.line(f"{kind} const {name} = jg_global<{kind[:-1]}>({value});")
            else:
                self.line(f"const {kind} {name} = {value};")
        self.lines += ["    " * (self.indent - 1) + line for line in writer.lines]

    def product(self, step: GemmStep) -> None:
        d = step.dtype
        stored = STORED[d.name]
        accumulated = "double" if d is dtypes.float64 else "float"
        with self.block():
            batch = [(self.size(n), *[self.size(s) for s in strides]) for n, *strides in step.batch]
            places = [[self.address(*place)] for place in (step.a, step.b, step.c)]
            for k, (count, *strides) in enumerate(batch):
                self.line(f"for (i64 i{k} = 0; i{k} < {count}; i{k}++)")
                for place, stride in zip(places, strides, strict=True):
                    place.append(f"{d.itemsize} * i{k} * (i64)({stride})")
            a, b, c = (f"jg_global<{stored}>({' + '.join(p)})" for p in places)
            sizes = ", ".join(self.size(s) for s in (step.m, step.n, step.k, step.lda, step.ldb, step.ldc))
            flags = ", ".join(str(bool(f)).lower() for f in (step.trans_a, step.trans_b, step.accumulate))
            bias = "nullptr" if step.bias is None else f"jg_global<{stored}>({self.address(*step.bias)})"
            what = EPILOGUES.get(step.epilogue, 0)
            chosen = f"{stored}, {accumulated}, {flags}, {what}, {self.threads}"
            self.line(f"jg_product<{chosen}>({a}, {b}, {c}, {bias}, {sizes});")

    # --- numbers ---

    def raised(self, value: Value, type_: Type) -> str:
        """A value as one of a type to which it can be raised."""
        source = dtype_of(value)
        target = type_.dtype if isinstance(type_, TensorType) else DTYPES[type_]
        return convert(self.name(value), source, target)

    def truth(self, value: Value) -> str:
        return convert(self.name(value), dtype_of(value), dtypes.bool_)

    def number(self, step: NumberStep) -> None:
        node = step.node
        if node.op == "dim.bind":
            (value,) = node.inputs
            self.line(f"{self.variable(node.attrs['symbol'])} = {self.name(value)};")
        self.define(node.outputs[0], self.number_text(node))

    def number_text(self, node: Node) -> str:
        op, inputs, out = node.op, node.inputs, node.outputs[0]
        if op == "num.const":
            return literal(node.attrs["value"], dtype_of(out))
        if op == "dim.value":
            return self.size(node.attrs["dim"])
        if op == "dim.bind":
            return self.name(inputs[0])
        if op in ("item", "num.cast"):
            return self.raised(inputs[0], out.type)
        if op == "num.not":
            return f"!{self.truth(inputs[0])}"
        if op == "num.select":
            one, other = (self.raised(v, out.type) for v in inputs[1:])
            return f"({self.truth(inputs[0])} ? {one} : {other})"
        floats = op == "num.truediv" or any(v.type == FLOAT for v in inputs)
        args = [self.raised(v, FLOAT if floats else out.type if family(op) == "bitwise" else INT)
                for v in inputs]
        if op in ("num.min", "num.max"):
            return f"({args[1]} {'<' if op == 'num.min' else '>'} {args[0]} ? {args[1]} : {args[0]})"
        if family(op) == "comparison" or not floats:
            return f"({f' {NUMBERS[op].infix} '.join(args)})"
        if op in ("num.neg", "num.abs"):
            return f"(-{args[0]})" if op == "num.neg" else f"fabs({args[0]})"
        return f"__d{op[4:].removeprefix('true')}_rn({', '.join(args)})"  # not joined to one with the next operation

    def scalar(self, step: ScalarStep) -> None:
        node, args = step.node, [self.name(v) for v in step.args]
        source = dtype_of(step.args[1] if node.op == "where" else step.args[0])
        out = node.outputs[0]
        self.define(out, EXPRESSIONS[node.op](args, source, dtype_of(out), node.attrs.get("n", 0)))


PRINT: dict[type, Callable[[_Region, Any], None]] = {
    KernelStep: _Region.kernel, GemmStep: _Region.product, NumberStep: _Region.number, ScalarStep: _Region.scalar,
    LoadScalar: _Region.load, Point: _Region.point, Assign: _Region.assign,
    IfStep: _Region.if_step, LoopStep: _Region.loop_step, SeqGrow: _Region.grow, SeqPlace: _Region.place,
    SeqPut: _Region.put, ArenaAllocate: _Region.arena,
    Barrier: lambda p, s: p.line(p.meet),
    Allocate: lambda p, s: None, CallStep: lambda p, s: None,  # done, or tested, by the host before
}
