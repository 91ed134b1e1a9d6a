"""A kernel as explicit vector IR: a main loop over whole vectors, then one masked tail.

    text = emit(kernel, "k0")        # define internal void @k0(ptr %parts, i64 %begin, ...)
    text.text                        # the function
    text.declares                    # the declarations that it needs, by name
    body_key(kernel)                 # equal keys: equal texts but for the symbol

An operand of role "out" of a kernel with inner axes must not share memory with any other operand: between sweeps it may
hold values that a later sweep reads. In a kernel without inner axes, element-wise aliasing is fine.
Sizes are arguments. Strides that are ints are compiled in; a stride along the lanes that is an argument makes a
second form of the body, chosen at entry where all such strides are 1. Loops down columns have one for many columns.
"""

import operator
from collections.abc import Callable, Hashable
from functools import partial, reduce
from itertools import groupby

from jitgrad import dtypes
from jitgrad.classes import dataclass
from jitgrad.codegen.llvm import engine
from jitgrad.codegen.llvm.chunks import Accumulator, head, parameters, passed_on, shared, slots
from jitgrad.codegen.llvm.nest import Carried, Nest
from jitgrad.codegen.llvm.scalars import COMPUTED, EMIT, FOLDS, STORED, convert, elements, merged
from jitgrad.codegen.program.kernel import ROWS, Kernel, is_expensive
from jitgrad.codegen.program.plan import STORES, SUMS, Plan, is_reloaded, make_plan, needed
from jitgrad.dims import Size
from jitgrad.kernels.pool import ALIGNMENT, ARITIES
from jitgrad.kernels.values import Code, V, iota

INT64_MAX = (1 << 63) - 1
#: vectors of columns at a time where these are many: what is read of a row lies in one place, on one page
VECTORS = 4


@dataclass(frozen=True, slots=True)
class KernelText:
    """The text of one function; how to call it is said in `chunks.py`.

    Attributes:
        declares: name -> declaration line.
        functions: what else the callers' module needs, by name: the constant that says how the kernel is shared.
        total: it is a sum of everything.
    """

    text: str
    declares: dict[str, str]
    functions: dict[str, str]
    total: bool


def _pattern(strides: tuple[Size, ...]) -> tuple[int | None, ...]:
    return tuple(s if isinstance(s, int) else None for s in strides)


def body_key(kernel: Kernel) -> Hashable:
    """Everything of a kernel that its text depends on: not sizes, not names, not which Dim a stride is."""
    return (
        len(kernel.outer), len(kernel.inner), tuple(d.name for d in kernel.scalars),
        tuple((o.dtype.name, o.role, _pattern(o.strides)) for o in kernel.operands),
        tuple((s.op, s.args, s.dtype.name if s.dtype else None, s.operand, type(s.value).__name__, repr(s.value),
               s.number, s.axis, s.fn, _pattern(s.strides)) for s in kernel.body),
    )


def emit(kernel: Kernel, symbol: str) -> KernelText:
    """The kernel as the text of an internal function called `symbol`, which may be followed by its second form."""
    plan = make_plan(kernel, engine.host().vector_bytes)
    if not plan.is_downward:
        return _printed(plan, symbol)
    wide = _printed(make_plan(kernel, engine.host().vector_bytes, VECTORS), f"{symbol}_wide")
    found = _printed(plan, symbol, f"{symbol}_wide")
    return KernelText(f"{found.text}\n{wide.text}", wide.declares | found.declares, found.functions, found.total)


def _printed(plan: Plan, symbol: str, wide: str = "") -> KernelText:
    """The kernel in one form; `wide`: the function of the other, which takes over where columns are many."""
    host, kernel = engine.host(), plan.kernel
    code = Code(host.has_fma, host.has_avx512)
    strides = {key: f"%s{number}" for number, key in enumerate(kernel.argument_strides())}
    prefixes = {"size": "n", "operand": "p", "stride": "s", "scalar": "c"}
    arguments = [("ptr" if kind == "operand" else "i64", f"%{prefixes[kind]}{number}")
                 for kind, some in groupby(parameters(kernel), lambda p: p.kind) for number, _ in enumerate(some)]
    code.lines.append(head(symbol, arguments) + "\nentry:")
    emitter = _Emitter(plan, code, strides)
    if wide:
        many = V(code, f"%n{plan.lane}", "i64", 1) >= VECTORS * plan.lanes
        emitter.line(f"br i1 {many.name}, label %wide, label %usual")
        emitter.start("wide")
        emitter.line(f"call {passed_on(wide, arguments)}")
        emitter.line("ret void")
        emitter.start("usual")
    by_argument = [name for (where, _, axis), name in strides.items() if where == "o" and axis == plan.lane]
    accumulators: list[Accumulator] = []
    if plan.is_total:
        accumulators = emitter.total(by_argument)
    elif plan.turned >= 0:
        emitter.enter_function()
        emitter.transposed()
        emitter.line("ret void")
    else:
        emitter.forms(by_argument, emitter.body)
    code.lines.append("}\n")
    functions = shared(code, plan, symbol, accumulators) if plan.cut >= 0 and len(arguments) <= ARITIES[-1] else {}
    return KernelText("\n".join(code.lines), code.declares, functions, plan.is_total)


class _Emitter(Nest):
    """Prints one kernel along its plan."""

    def __init__(self, plan: Plan, code: Code, strides: dict[tuple[str, int, int], str]):
        super().__init__(plan, code, strides)
        self.sweep = 0
        self.dtype_of = self.kernel.dtype_of
        self.values: list[V | None] = [None] * len(self.kernel.body)
        self.splats: list[V | None] = [None] * len(self.kernel.body)

    def forms(self, names: list[str], body: Callable[[], None]) -> None:
        """The body, and before it, where there are `names`, one for unit strides along the lanes: all of `names` are 1.
        """
        if names:
            condition = reduce(operator.and_, (V(self.code, name, "i64", 1).eq(1) for name in names))
            unit, general = self.label("unit"), self.label("general")
            self.line(f"br i1 {condition.name}, label %{unit}, label %{general}")
            self.start(unit)
            self.unit = True
            self.enter_function()
            body()
            self.start(general)
            self.unit = False
        self.enter_function()
        body()

    def enter_function(self) -> None:
        self.pointers = [V(self.code, f"%p{k}", "ptr", 1) for k in range(len(self.kernel.operands))]

    def body(self) -> None:
        """The whole kernel."""
        self.outer(0)
        self.line("ret void")

    def total(self, names: list[str]) -> list[Accumulator]:
        """A sum of everything: the sums of a chunk, or the end of it, or both. See `chunks.py`."""
        code, before, reductions = self.code, self.before(0), self.reductions(0)
        self.enter_function()
        self.statements([i for i in before if self.kernel.body[i].op not in STORES])
        fresh = self.fresh(reductions)
        parts, begin = V(code, "%parts", "ptr", 1), V(code, "%begin", "i64", 1)
        alone = parts.compare("eq", V(code, "null", "ptr", 1))
        offsets, size = slots([(a.elem, a.lanes) for a in fresh])
        room = code.emit(f"alloca [{size} x i8], align {ALIGNMENT}", "ptr", 1)
        place = alone.where(room, parts)

        def sweep() -> None:
            for a, offset in zip(self.sweep_over(0), offsets, strict=True):
                code.write(a, code.element(place.name, offset, "i8"), ALIGNMENT)
            self.line("br label %swept")

        self.line(f"br i1 {(begin < 0).name}, label %ending, label %sweep")
        self.start("sweep")
        self.forms(names, sweep)
        self.start("swept")
        self.line(f"br i1 {alone.name}, label %ending, label %out")
        self.start("out")
        self.line("ret void")
        self.start("ending")
        self.enter_function()
        self.statements([i for i in before if self.kernel.body[i].op in STORES])
        self.conclude(0, [code.read(a.elem, code.element(place.name, offset, "i8"), a.lanes, ALIGNMENT)
                          for a, offset in zip(fresh, offsets, strict=True)])
        self.line("ret void")
        return [(fn, d, group[0].lanes) for fn, d, group in (
            (self.kernel.body[i].fn, self.acc_dtype(i), group) for i, group in self.groups(reductions, fresh))]

    def before(self, d: int) -> list[int]:
        """The statements of depth `d` that wait for no reduction."""
        plan = self.plan
        return [i for i, depth in enumerate(plan.depth) if depth == d and plan.stage[i] < 0 and not plan.element[i]]

    # --- statements ---

    def value(self, i: int, vector: bool) -> V:
        """The value of statement `i`, in every lane if asked."""
        found = self.splats[i] if vector and self.splats[i] is not None else self.values[i]
        assert found is not None
        return found.splat(self.plan.lanes) if vector else found

    def define(self, i: int, value: V) -> None:
        self.values[i] = value
        self.splats[i] = value.splat(self.plan.lanes) if self.plan.splat[i] and value.lanes == 1 else None

    def statements(self, indices: list[int]) -> None:
        for i in indices:
            self.statement(i)

    def gather_pointer(self, i: int) -> V:
        """The address of a gather or scatter: the operand's, moved by sum(index * stride)."""
        stmt = self.kernel.body[i]
        pointer = self.pointers[stmt.operand]
        elem = STORED[self.kernel.operands[stmt.operand].dtype.name]
        indices = stmt.args[stmt.op != "gather":]
        if self.contiguous(stmt.operand) and any(self.plan.vector[a] for a in indices):  # one address per lane
            pointer = self.offset(pointer, iota(self.code, "i64", self.plan.lanes), elem)
        for position, a in enumerate(indices):
            offset = self.values[a]
            assert offset is not None
            stride = self.stride("b", i, position, stmt.strides[position])
            if isinstance(stride, V):
                offset = offset * stride.splat(offset.lanes)
            elif stride != 1:
                offset = offset * stride
            pointer = self.offset(pointer, offset, elem)
        return pointer

    def statement(self, i: int) -> None:
        stmt, plan = self.kernel.body[i], self.plan
        vector = plan.vector[i]
        op = stmt.op
        if op in STORES:
            self.store(i)
            return
        kept = plan.spill.get(i)
        if kept is not None and is_reloaded(plan, i, self.sweep):
            value = self.read(self.pointers[kept], self.kernel.operands[kept].dtype, vector)
        elif op == "load":
            value = self.read(self.pointers[stmt.operand], self.kernel.operands[stmt.operand].dtype, vector)
        elif op == "gather":
            value = self.read(self.gather_pointer(i), self.kernel.operands[stmt.operand].dtype, vector)
        elif op == "const":
            assert stmt.dtype is not None
            self.values[i] = self.code.const(stmt.value, COMPUTED[stmt.dtype.name], 1)
            return
        elif op == "scalar":
            value = V(self.code, f"%c{stmt.number}", "i64", 1).from_word(
                COMPUTED[self.kernel.scalars[stmt.number].name])
        elif op == "index":
            value = self.place(stmt.axis)
            if vector:
                value = value.splat(plan.lanes) + iota(self.code, "i64", plan.lanes)
        elif op == "reduce":  # a kernel without inner axes: one element
            value = self.single(i)
        else:
            args = [self.value(a, vector) for a in stmt.args]
            source = self.dtype_of(stmt.args[1] if op == "where" else stmt.args[0])
            value = EMIT[op](args, source, stmt.dtype or source, stmt.value)
            if kept is not None:
                self.write(self.pointers[kept], value, self.kernel.operands[kept].dtype, self.contiguous(kept))
        self.define(i, value)

    def single(self, i: int) -> V:
        """A reduction over no axes."""
        stmt = self.kernel.body[i]
        first = self.value(stmt.args[0], self.plan.vector[i])
        if stmt.fn in ("argmax", "argmin"):
            return self.code.const(0, "i64", first.lanes)
        if stmt.fn == "dot":
            return first * self.value(stmt.args[1], self.plan.vector[i])
        return self.reduced(i, first, self.dtype_of(stmt.args[0]))

    def store(self, i: int) -> None:
        stmt, d = self.kernel.body[i], self.kernel.operands[self.kernel.body[i].operand].dtype
        vector = self.plan.vector[i]
        value, source = self.value(stmt.args[0], vector), self.dtype_of(stmt.args[0])
        if stmt.op != "store" or not d.is_half or value.elem != "float":  # else writing rounds
            value = convert(value, source, d)
        pointer = (self.pointers[stmt.operand] if stmt.op == "store" else
                   self.column_pointer(i) if stmt.op == "column" else self.gather_pointer(i))
        if stmt.op in ("scatter_add", "column"):
            total = FOLDS["sum"].combine(self.read(pointer, d, vector), value, d)
            value = total if stmt.op == "scatter_add" else (
                self.row().op("urem", ROWS).eq(0).splat(value.lanes).where(value, total))
        self.write(pointer, value, d, self.contiguous(stmt.operand) and pointer.lanes == 1)

    def row(self) -> V:
        """The number of the current row."""
        return reduce(lambda row, a: row * self.size(a) + self.place(a), range(1, self.n_outer), self.place(0))

    def column_pointer(self, i: int) -> V:
        """The address of the sum of a column in the block of the current row, which the block's first row begins."""
        operand, columns = self.kernel.body[i].operand, map(self.size, range(self.n_outer, self.n))
        offset = self.row().op("udiv", ROWS) * reduce(operator.mul, columns)
        return self.offset(self.pointers[operand], offset, STORED[self.kernel.operands[operand].dtype.name])

    # --- the nest ---

    def outer(self, d: int) -> None:
        """Loops over the outer axes from depth `d` on, with the statements there that wait for no reduction."""
        plan = self.plan
        self.statements(self.before(d))
        if d == self.n_outer:
            for stage in range(plan.stages):
                self.conclude(stage, self.sweep_over(stage))
            return
        axis = plan.order[d]
        saved = list(self.pointers)
        everything = set(range(len(self.kernel.operands)))

        def body(i: V, carried: Carried) -> Carried:
            self.pointers = list(saved)
            self.enter(axis, i, everything)
            self.outer(d + 1)
            return []

        if axis == plan.lane:
            self.lane_loop([], list, lambda a, b: a, body, 1, False)
        else:
            self.loop(0, self.size(axis), 1, [], body)
        self.pointers = saved

    def reductions(self, stage: int) -> list[int]:
        """What a sweep reduces."""
        return [i for i in needed(self.plan, stage) if self.kernel.body[i].op == "reduce"]

    def sweep_over(self, stage: int) -> Carried:
        """One sweep over the inner axes: what it has summed in each lane."""
        plan, body = self.plan, self.kernel.body
        reductions = self.reductions(stage)
        elements = [i for i in needed(plan, stage) if body[i].op != "reduce"]
        by_depth = {d: [i for i in elements if plan.depth[i] == d] for d in range(self.n_outer + 1, self.n + 1)}
        operands = {body[i].operand for i in elements} - {-1} | {plan.spill[i] for i in elements if i in plan.spill}
        self.sweep = stage
        sums = any(body[i].fn in SUMS and self.acc_dtype(i).is_floating_point for i in reductions)
        cheap = not any(is_expensive(body[i].op) for i in elements)
        unroll = 2 if reductions and cheap and all(body[i].fn not in ("argmax", "argmin") for i in reductions) else 1

        fresh, merge = partial(self.fresh, reductions), partial(self.merge, reductions)

        def inner(d: int, carried: Carried) -> Carried:
            if d == self.n:
                return self.accumulate(reductions, carried)
            axis = plan.order[d]
            saved = list(self.pointers)

            def iteration(i: V, accumulators: Carried) -> Carried:
                self.pointers = list(saved)
                self.enter(axis, i, operands)
                self.statements(by_depth[d + 1])
                return inner(d + 1, accumulators)

            if axis == plan.lane:
                result = self.lane_loop(carried, fresh, merge, iteration, unroll, sums)
            elif sums:
                result = self.in_blocks(self.size(axis), 1, carried, fresh, merge,
                                        lambda start, end: self.loop(start, end, 1, fresh(), iteration))
            else:
                result = self.loop(0, self.size(axis), 1, carried, iteration)
            self.pointers = saved
            return result

        return inner(self.n_outer, self.fresh(reductions))

    def conclude(self, stage: int, totals: Carried) -> None:
        """The results of a sweep, and the row-level statements that they make possible."""
        plan, body = self.plan, self.kernel.body
        for i, group in self.groups(self.reductions(stage), totals):
            self.finish(i, group)
        self.statements([i for i in range(len(body))
                         if not plan.element[i] and plan.stage[i] == stage and body[i].op != "reduce"])

    # --- reductions ---

    def acc_dtype(self, i: int) -> dtypes.dtype:
        return self.dtype_of(self.kernel.body[i].args[0])

    def acc_lanes(self, i: int) -> int:
        plan = self.plan
        if plan.lane < 0:
            return 1
        return plan.lanes if plan.lane >= self.n_outer or plan.vector[i] else 1

    def fresh(self, reductions: list[int]) -> Carried:
        """Identities: one accumulator per reduction, two for argmax and argmin."""
        result: Carried = []
        for i in reductions:
            fn, d, lanes = self.kernel.body[i].fn, self.acc_dtype(i), self.acc_lanes(i)
            first, *place = elements(fn, d)
            result.append(self.code.const(FOLDS[fn].identity(d), first, lanes))
            result += [self.code.const(INT64_MAX, elem, lanes) for elem in place]
        return result

    def groups(self, reductions: list[int], carried: Carried) -> list[tuple[int, Carried]]:
        result, at = [], 0
        for i in reductions:
            n = 2 if self.kernel.body[i].fn in ("argmax", "argmin") else 1
            result.append((i, carried[at:at + n]))
            at += n
        return result

    def merge(self, reductions: list[int], a: Carried, b: Carried) -> Carried:
        result: Carried = []
        for (i, x), (_, y) in zip(self.groups(reductions, a), self.groups(reductions, b), strict=True):
            result += self.merge_one(i, x, y)
        return result

    def merge_one(self, i: int, a: Carried, b: Carried) -> Carried:
        return merged(self.kernel.body[i].fn, self.acc_dtype(i), a, b)

    def accumulate(self, reductions: list[int], carried: Carried) -> Carried:
        """One more element (or vector of them) in every accumulator."""
        result: Carried = []
        for i, group in self.groups(reductions, carried):
            stmt, d = self.kernel.body[i], self.acc_dtype(i)
            vector = group[0].lanes > 1
            masked = self.mask is not None and self.plan.lane >= self.n_outer
            values = [self.value(a, vector) for a in stmt.args]
            if stmt.fn in ("any", "all"):
                values = [v if v.elem == "i1" else v.ne(0) for v in values]
            if masked:
                assert self.mask is not None
                values = [self.mask.where(v, FOLDS[stmt.fn].identity(d)) for v in values]
            if stmt.fn == "dot":
                a, b = values
                result.append(a.fma(b, group[0]) if a.is_float else group[0] + a * b)
            elif len(group) == 2:
                result += self.merge_one(i, group, [values[0], self.position(vector, masked)])
            else:
                result += self.merge_one(i, group, values)
        return result

    def position(self, vector: bool, masked: bool) -> V:
        """The number of the current element in the flattened inner space; past the end of a row: the largest."""
        total: V | None = None
        for axis in range(self.n_outer, self.n):
            i = self.place(axis)
            if vector:
                i = i.splat(self.plan.lanes)
                if axis == self.plan.lane:
                    i = i + iota(self.code, "i64", self.plan.lanes)
            total = i if total is None else total * self.size(axis).splat(i.lanes) + i
        assert total is not None
        return self.mask.where(total, INT64_MAX) if masked and self.mask is not None else total

    def finish(self, i: int, group: Carried) -> None:
        """Across the lanes, and into the dtype of the result."""
        if self.plan.lane >= self.n_outer:
            while group[0].lanes > 1:
                group = self.merge_one(i, [g.half(0) for g in group], [g.half(1) for g in group])
        self.define(i, group[1] if len(group) == 2 else self.reduced(i, group[0], self.acc_dtype(i)))

    def reduced(self, i: int, value: V, source: dtypes.dtype) -> V:
        stmt = self.kernel.body[i]
        if stmt.fn in ("any", "all"):
            value, source = value if value.elem == "i1" else value.ne(0), dtypes.bool_
        return convert(value, source, stmt.dtype or source)
