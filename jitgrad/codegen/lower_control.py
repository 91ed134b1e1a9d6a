"""Control flow, sequences, optionals and effects as steps; inputs and outputs of the program.

What flows through a join is kept in variables: a number or one-element tensor in a register, any other tensor behind a pointer,
an Optional as a flag and its payload's variable, a sequence as an address. A carried tensor has two buffers: the body
writes the one while it reads the other, and nothing is copied unless the result is not made in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jitgrad.codegen.access import contiguous_strides
from jitgrad.codegen.program import (
    Allocate,
    ArenaAllocate,
    Assign,
    Buffer,
    CallStep,
    Column,
    CommitSlot,
    IfStep,
    LoopStep,
    NumberStep,
    Point,
    Ref,
    SeqGet,
    SeqGrow,
    SeqLength,
    SeqPlace,
    SeqPut,
    SeqStart,
)
from jitgrad.dims import Dim, Size, Symbol, product, symbols
from jitgrad.ops.types import BOOL, INT, NUMBER, OptionalType, SeqType, TensorType, Type
from jitgrad.script.ir import Block, Node, Value, walk

if TYPE_CHECKING:
    from jitgrad.codegen.lower import BlockLowering, Lowering


@dataclass(slots=True)
class Records:
    """Optionals: (flag, payload), the payload None where it is known to be absent."""

    optional: dict[Value, tuple[Value, Value | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """An array: made by the launcher and written in place (`fresh`) where its sizes are known at entry, else copied.

    `flag`: whether it is there, for an Optional.
    """

    ref: Ref
    fresh: bool
    shape: tuple[Size, ...]
    flags: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class NumberOutput:
    """Flags and a number or sequence."""

    type: Type
    parts: tuple[Value, ...]


def is_single(type_: Type) -> bool:
    """Whether a value of the type is a tensor that registers can hold."""
    return isinstance(type_, TensorType) and all(d == 1 for d in type_.dims)


# --- inputs and outputs --------------------------------------------------------------------------------------------


def bind_inputs(state: Lowering) -> list[tuple[Value, ...]]:
    """Windows on the inputs' memory; the flags and numbers that the launcher passes per input."""
    parts: list[tuple[Value, ...]] = []
    committed = {n.attrs["target"] for n in walk(state.graph.block) if n.op == "commit"}
    for i, value in enumerate(state.graph.inputs):
        mine: list[Value] = []
        inner = value
        while isinstance(inner.type, OptionalType):
            flag, payload = Value(BOOL), Value(inner.type.elem)
            state.records.optional[inner] = (flag, payload)
            mine.append(flag)
            inner = payload
        if isinstance(inner.type, TensorType):
            buffer = state.input_buffers[i] = Buffer(inner.type.dtype, 0, "input", i)
            state.refs[inner] = Ref(buffer, 0, inner.type.dims, contiguous_strides(inner.type.dims))
        else:
            mine.append(inner)
        parts.append(tuple(mine))
    for i in sorted(committed & set(state.input_buffers)):
        protect(state, i)
    return parts


def protect(state: Lowering, i: int) -> None:
    """Read a copy of an input that the program overwrites, unless every read comes before the write."""
    value = state.graph.inputs[i]
    if not isinstance(value.type, TensorType):
        return
    names = {value}
    last_read, first_write, depth_of_write = -1, 1 << 60, 0
    top = set(map(id, state.graph.block.nodes))
    for position, node in enumerate(walk(state.graph.block)):
        if node.op == "commit" and node.attrs["target"] == i:
            first_write = min(first_write, position)
            depth_of_write += id(node) not in top
        if any(v in names for v in node.inputs):
            last_read = position if node.op != "commit" or node.attrs["target"] != i else last_read
            if len(node.outputs) == 1 and node.op in VIEWS:
                names.add(node.outputs[0])
        if any(r in names for b in node.blocks for r in b.results):
            last_read = 1 << 60
    if last_read < first_write and not depth_of_write and not any(r in names for r in state.graph.outputs):
        return
    original = state.refs[value]
    copy = state.allocate(value.type.dtype, value.type.dims)
    state.copy_into(value, copy)
    state.refs[value] = copy
    state.originals[i] = original


VIEWS = frozenset({"permute", "expand", "unsqueeze", "squeeze", "select", "slice", "flip", "diagonal", "reshape"})


def plan_outputs(state: Lowering) -> list[Any]:
    """Let results be computed in the arrays that the launcher makes for them."""
    outputs: list[Any] = []
    for i, value in enumerate(state.graph.outputs):
        if isinstance(value.type, TensorType) and state.known_at_entry(value.type.dims):
            type_ = value.type
            buffer = Buffer(type_.dtype, 0, "output", i)
            ref = Ref(buffer, 0, type_.dims, contiguous_strides(type_.dims))
            aim(state, value, ref)
            outputs.append(TensorOutput(ref, True, type_.dims))
        else:
            outputs.append(None)
    return outputs


def aim(state: Lowering, value: Value, ref: Ref) -> None:
    """Compute `value` at `ref` if it is computed in this block at all, and nobody else asked before."""
    if value not in state.dest:
        state.dest[value] = ref
        state.undo.append((state.dest, value))


def store_outputs(state: Lowering, outputs: list[Any]) -> None:
    """Copy results that were not computed in place."""
    for i, value in enumerate(state.graph.outputs):
        if isinstance(value.type, TensorType):
            planned = outputs[i]
            if planned is None:
                outputs[i] = TensorOutput(state.contiguous(value), False, value.type.dims)
                continue
            ref = state.refs.get(value)
            if ref is None or ref.buffer is not planned.ref.buffer:
                state.copy_into(value, planned.ref)
            continue
        flags: list[Value] = []
        inner: Value | None = value
        type_ = value.type
        while isinstance(type_, OptionalType):
            if inner is None:
                flags.append(flags[-1])
            else:
                flag, inner = state.records.optional[inner]
                flags.append(flag)
            type_ = type_.elem
        if isinstance(type_, TensorType):
            ref = absent(state, type_) if inner is None else state.ref(inner)
            outputs[i] = TensorOutput(ref, False, ref.dims, tuple(flags))
        else:
            outputs[i] = NumberOutput(value.type, (*flags, inner if inner is not None else zero(state, type_)))


def absent(state: Lowering, type_: TensorType) -> Ref:
    """A window that nobody reads."""
    shape = (0,) * len(type_.dims)
    return state.allocate(type_.dtype, shape)


def zero(state: Lowering, type_: Type) -> Value:
    return constant(state, False if type_ == BOOL else 0 if type_ in (INT, NUMBER) or isinstance(type_, SeqType) else 0.0)


def constant(state: Lowering, value: bool | int | float) -> Value:
    """A number as a Value."""
    from jitgrad.ops.types import FLOAT

    out = Value(BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT)
    state.emit(NumberStep(Node("num.const", (), {"value": value}, (out,))))
    return out


def number(state: Lowering, op: str, *inputs: Value, **attrs: Any) -> Value:
    """An unchecked number op on ints and bools."""
    comparison = op in ("num.lt", "num.gt", "num.ne", "num.eq")
    out = Value(BOOL if comparison else INT)
    state.emit(NumberStep(Node(op, inputs, attrs, (out,))))
    return out


# --- joins ---------------------------------------------------------------------------------------------------------


def make_variable(state: Lowering, value: Value) -> None:
    """Let `value` be a variable that `Transfer` sets."""
    if isinstance(value.type, OptionalType):
        flag, payload = Value(BOOL), Value(value.type.elem)
        state.records.optional[value] = (flag, payload)
        make_variable(state, payload)
    elif is_single(value.type):
        state.set_register(value)
    elif isinstance(value.type, TensorType):
        pointer = Buffer(value.type.dtype, 0, "pointer")
        state.set_ref(value, Ref(pointer, 0, value.type.dims, contiguous_strides(value.type.dims)))


class Transfer:
    """Assignments to variables, done all at once by `emit`. `binds`: symbols that take the sizes of what is assigned."""

    def __init__(self, state: Lowering, binds: Sequence[Symbol]):
        self.state, self.binds = state, set(binds)
        self.values: list[tuple[Value, Value]] = []
        self.points: list[tuple[Buffer, Buffer, Size]] = []
        self.sizes: dict[Symbol, Size] = {}

    def add(self, target: Value, source: Value | None) -> None:
        """target = source; None: a payload that is not there."""
        state = self.state
        if source is None or target is source:
            return
        if isinstance(target.type, OptionalType):
            flag, payload = state.records.optional[target]
            source_flag, source_payload = state.records.optional[source]
            self.values.append((flag, source_flag))
            assert payload is not None
            self.add(payload, source_payload)
        elif isinstance(target.type, TensorType):
            if is_single(target.type):
                self.values.append((target, state.register(source)))
            else:
                ref = state.contiguous(source)
                self.point(target, ref)
        else:
            self.values.append((target, source))

    def point(self, target: Value, ref: Ref) -> None:
        pointer = self.state.refs[target].buffer
        pointer.aliases.add(ref.buffer)
        self.points.append((pointer, ref.buffer, ref.offset))
        self.bind(target, ref.dims)

    def bind(self, target: Value, dims: Sequence[Size]) -> None:
        assert isinstance(target.type, TensorType)
        for size, actual in zip(target.type.dims, dims, strict=True):
            if isinstance(size, Dim) and size.symbol in self.binds:
                self.sizes.setdefault(size.symbol, actual)  # type: ignore[arg-type]

    def emit(self) -> None:
        if self.points:
            self.state.emit(Point(tuple(self.points)))
        for symbol in self.binds - self.sizes.keys():
            self.sizes[symbol] = 0  # no value has it here
        if self.values or self.sizes:
            self.state.emit(Assign(tuple(self.values), tuple(self.sizes.items())))


def lower_block(state: Lowering, block: Block) -> list[Any]:
    from jitgrad.codegen.lower import BlockLowering

    return BlockLowering(state, block).run()


def if_node(state: Lowering, node: Node) -> None:
    """Both branches set the results' variables."""
    for out in node.outputs:
        make_variable(state, out)
    branches = []
    for block in node.blocks:
        mark = state.mark()
        steps = lower_block(state, block)
        outer, state.steps = state.steps, steps
        transfer = Transfer(state, node.binds)
        for out, result in zip(node.outputs, block.results, strict=True):
            transfer.add(out, result)
        transfer.emit()
        branches.append(state.steps)
        state.steps = outer
        state.release(mark)
    state.emit(IfStep(node.inputs[0], branches[0], branches[1]))


# --- loops ---------------------------------------------------------------------------------------------------------


class Loop:
    """A `while` or `scan` under construction."""

    def __init__(self, state: Lowering, node: Node):
        self.state, self.node, self.body = state, node, node.blocks[0]
        self.scan = node.op == "scan"
        n = node.attrs["n_carries"] if self.scan else len(node.inputs) - 1
        self.inits, self.xs = node.inputs[1:n + 1], node.inputs[n + 1:]
        skip = 1 if self.scan else 0
        self.params = self.body.params[skip:skip + n]
        self.elements = self.body.params[skip + n:]
        first = 0 if self.scan else 1
        self.results = self.body.results[first:first + n]
        self.ys = self.body.results[first + n:]
        self.finals = node.outputs[first:first + n]
        self.seqs = node.outputs[first + n:]
        self.inner = set(self.body.binds) | {s for k in walk(self.body) for b in (k, *k.blocks) for s in b.binds}
        self.inner |= {k.attrs["symbol"] for k in walk(self.body) if k.op == "dim.bind"}
        self.next: dict[int, Ref] = {}   # carry -> where the body writes it
        self.other: dict[int, Buffer] = {}
        self.k = Value(INT)              # iterations done
        self.position = self.k           # of the element read and written

    def lower(self) -> None:
        state = self.state
        condition = Value(BOOL)
        zero = constant(state, 0)
        trips = self.node.inputs[0]
        start = Transfer(state, self.body.binds)
        start.values.append((self.k, zero))
        for param, init in zip(self.params, self.inits, strict=True):
            make_variable(state, param)
            start.add(param, init)
        self.begin_sequences(trips)
        self.begin_buffers()
        start.values.append((condition, number(state, "num.lt", zero, trips) if self.scan else trips))
        start.emit()
        mark = state.mark()
        outer, state.steps = state.steps, []
        self.begin_iteration(trips)
        head = state.steps
        state.steps = [*head, *lower_block(state, self.body)]
        self.end_iteration(trips, condition)
        steps, state.steps = state.steps, outer
        state.release(mark)
        state.emit(LoopStep(condition, steps, self.frees()))
        self.finish()

    def frees(self) -> bool:
        """Whether nothing that an iteration takes from the arena is read after it."""
        kinds = [v.type for v in (*self.params, *self.ys)]
        while any(isinstance(t, OptionalType) for t in kinds):
            kinds = [t.elem if isinstance(t, OptionalType) else t for t in kinds]
        if any(isinstance(t, SeqType) for t in kinds):
            return False
        grows = bool(self.ys) and not self.scan
        return not grows and all(c.dims is not None for cs in self.columns for c in cs if c.kind == "tensor") and any(
            k.op in ("while", "scan") for k in walk(self.body))

    def fixed(self, type_: Type) -> bool:
        """Whether a tensor's sizes do not depend on the iteration."""
        return isinstance(type_, TensorType) and not any(s in self.inner for d in type_.dims for s in symbols(d))

    # --- sequences of results ---

    def begin_sequences(self, trips: Value) -> None:
        self.columns: list[tuple[Column, ...]] = []
        for seq in self.seqs:
            assert isinstance(seq.type, SeqType)
            columns = tuple(columns_of(seq.type.elem, lambda t: not type_unknown(self.state, t, self.inner)))
            self.columns.append(columns)
            self.state.emit(SeqStart(seq, columns, trips if self.scan else None))

    def begin_buffers(self) -> None:
        """Two buffers per carried tensor of fixed size, unless the body returns the carry as it is."""
        state = self.state
        for j, (param, result) in enumerate(zip(self.params, self.results, strict=True)):
            if is_single(param.type) or result is param or not self.fixed(result.type):
                continue
            assert isinstance(result.type, TensorType)
            if self.scan and result in self.ys and self.columns[self.ys.index(result)][0].dims is not None:
                continue  # the sequence keeps it
            d, shape = result.type.dtype, result.type.dims
            a, b = state.allocate(d, shape), state.allocate(d, shape)
            following, other = Buffer(d, 0, "pointer"), Buffer(d, 0, "pointer")
            for pointer in (following, other):
                pointer.aliases |= {a.buffer, b.buffer}
            state.emit(Point(((following, a.buffer, 0), (other, b.buffer, 0))))
            self.next[j] = Ref(following, 0, shape, contiguous_strides(shape))
            self.other[j] = other

    def begin_iteration(self, trips: Value) -> None:
        """Elements of the sequences that are read; places of the results."""
        state = self.state
        if self.scan:
            if self.node.attrs.get("reverse"):
                last = number(state, "num.sub", trips, constant(state, 1))
                self.position = number(state, "num.sub", last, self.k)
            state.emit(Assign(((self.body.params[0], self.position),)))
            binds = set(self.body.binds)
            for seq, param in zip(self.xs, self.elements, strict=True):
                read_element(state, seq, self.position, param, binds)
        for j, ref in self.next.items():
            aim(state, self.results[j], ref)
        self.places: list[Ref | None] = []
        for seq, columns, y in zip(self.seqs, self.columns, self.ys, strict=True):
            if not self.scan:
                state.emit(SeqGrow(seq, columns, self.k))
            place = None
            if isinstance(y.type, TensorType) and columns[0].dims is not None:
                place = element_place(state, seq, columns, 0, self.position)
                if y not in state.dest and (self.scan or y not in self.results):
                    aim(state, y, place)
            self.places.append(place)

    def end_iteration(self, trips: Value, condition: Value) -> None:
        """Store the ys, then let the results become the carries."""
        state = self.state
        for seq, columns, y, place in zip(self.seqs, self.columns, self.ys, self.places, strict=True):
            if place is not None:
                put_at(state, y, place)
            else:
                write_element(state, seq, columns, 0, self.position, y)
        staged = [self.stage(j) for j in range(len(self.params))]
        ready = [self.settle(j, value) for j, value in enumerate(staged)]
        transfer = Transfer(state, self.body.binds)
        moves: list[tuple[Buffer, Buffer, Size]] = []
        for j, (param, result) in enumerate(zip(self.params, self.results, strict=True)):
            if result is param:
                if isinstance(param.type, TensorType):
                    transfer.bind(param, param.type.dims)
                continue
            if j in self.next:
                following, other = self.next[j].buffer, self.other[j]
                transfer.point(param, self.next[j])
                moves += [(following, other, 0), (other, following, 0)]
            else:
                transfer.add(param, ready[j])
        transfer.points += moves
        transfer.values.append((self.k, number(state, "num.add", self.k, constant(state, 1))))
        if self.scan:
            transfer.values.append((condition, number(state, "num.lt", transfer.values[-1][1], trips)))
        else:
            transfer.values.append((condition, self.body.results[0]))
        transfer.emit()

    def stage(self, j: int) -> Value:
        """Bring a result out of the way of what the carries are set to."""
        state, param, result = self.state, self.params[j], self.results[j]
        if result is param:
            return result
        if j in self.next:
            put_at(state, result, self.next[j])
            return result
        place = self.places[self.ys.index(result)] if self.scan and result in self.ys else None
        if place is not None and not is_single(param.type):
            kept = Value(result.type)  # the sequence's memory stays; only the pointer moves on
            state.set_ref(kept, place)
            return kept
        return self.copied(result, temporary=True)

    def settle(self, j: int, value: Value) -> Value:
        """Where a staged result waits for the next iteration."""
        place = self.scan and self.results[j] in self.ys and self.places[self.ys.index(self.results[j])] is not None
        if j in self.next or self.results[j] is self.params[j] or (place and not is_single(self.params[j].type)):
            return value
        return self.copied(value, temporary=False)

    def copied(self, value: Value, temporary: bool) -> Value:
        """A copy of a tensor, or of an Optional's payload where it is there; other values stay as they are."""
        state = self.state
        if isinstance(value.type, OptionalType):
            return self.copied_optional(value, temporary)
        if not isinstance(value.type, TensorType) or is_single(value.type):
            return value
        ref = state.ref(value)
        if temporary and ref.buffer.kind in ("slot", "growable") and ref is state.contiguous(value):
            return value
        copy, d = Value(value.type), ref.dtype
        buffer = Buffer(d, product(ref.dims), "growable", keeps=not temporary)
        state.emit(Allocate(buffer))
        state.set_ref(copy, Ref(buffer, 0, ref.dims, contiguous_strides(ref.dims)))
        state.copy_into(value, state.refs[copy])
        return copy

    def copied_optional(self, value: Value, temporary: bool) -> Value:
        state = self.state
        flag, payload = state.records.optional[value]
        if payload is None or is_single(payload.type) or not isinstance(payload.type, (TensorType, OptionalType)):
            return value
        outer, state.steps = state.steps, []
        moved = self.copied(payload, temporary)
        if moved is payload:
            state.steps = outer
            return value
        inner = Value(payload.type)
        make_variable(state, inner)
        transfer = Transfer(state, ())
        transfer.add(inner, moved)
        transfer.emit()
        steps, state.steps = state.steps, outer
        state.emit(IfStep(flag, steps, []))
        if isinstance(payload.type, TensorType):
            dims = state.ref(payload).dims
            state.refs[inner] = Ref(state.refs[inner].buffer, 0, dims, contiguous_strides(dims))
        kept = Value(value.type)
        state.records.optional[kept] = (flag, inner)
        return kept

    def finish(self) -> None:
        """The outputs: the carries as they are, and the sequences."""
        state = self.state
        transfer = Transfer(state, self.node.binds)
        if not self.scan:
            transfer.values.append((self.node.outputs[0], self.k))
        for seq in self.seqs:
            state.emit(SeqLength(seq, k=self.k))
        for final, param in zip(self.finals, self.params, strict=True):
            make_variable(state, final)
            transfer.add(final, param)
        transfer.emit()


def loop_node(state: Lowering, node: Node) -> None:
    Loop(state, node).lower()


def put_at(state: Lowering, value: Value, place: Ref) -> None:
    """Copy `value` to `place` unless it was computed there."""
    ref = state.refs.get(value)
    if ref is None or ref.buffer is not place.buffer or ref.offset != place.offset or ref.strides != place.strides:
        state.copy_into(value, place)


# --- sequences -----------------------------------------------------------------------------------------------------


def type_unknown(state: Lowering, type_: TensorType, inner: set[Symbol]) -> bool:
    """Whether sizes of an element's type are not known before the loop."""
    return any(s in inner or s not in state.visible for d in type_.dims for s in symbols(d))


def columns_of(type_: Type, uniform: Callable[[TensorType], bool]) -> list[Column]:
    """The columns of sequences of a type."""
    if isinstance(type_, TensorType):
        return [Column("tensor", type_.dtype, len(type_.dims), type_.dims if uniform(type_) else None)]
    if isinstance(type_, OptionalType):
        return [Column("word"), *columns_of(type_.elem, lambda t: False)]
    return [Column("pair" if type_ == NUMBER else "word")]


def element_place(state: Lowering, seq: Value, columns: tuple[Column, ...], column: int, k: Value) -> Ref:
    """The storage of element k."""
    c = columns[column]
    assert c.dtype is not None and c.dims is not None
    pointer = Buffer(c.dtype, 0, "pointer")
    state.emit(SeqPlace(seq, columns, column, k, pointer))
    return Ref(pointer, 0, c.dims, contiguous_strides(c.dims))


def write_element(state: Lowering, seq: Value, columns: tuple[Column, ...], column: int, k: Value, value: Value) -> int:
    """Store element k, from `column` on; the column after it."""
    if isinstance(value.type, OptionalType):
        flag, payload = state.records.optional[value]
        state.emit(SeqPut(seq, columns, column, k, flag))
        after = column + 1 + len(columns_of(value.type.elem, lambda t: False))
        if payload is not None:
            outer, state.steps = state.steps, []
            write_element(state, seq, columns, column + 1, k, payload)
            steps, state.steps = state.steps, outer
            state.emit(IfStep(flag, steps, []))
        return after
    if isinstance(value.type, TensorType):
        mark = state.mark()
        ref = state.ref(value)
        pointer = Buffer(ref.dtype, 0, "pointer")
        state.emit(ArenaAllocate(pointer, product(ref.dims)))
        target = Ref(pointer, 0, ref.dims, contiguous_strides(ref.dims))
        state.copy_into(value, target)
        state.emit(SeqPut(seq, columns, column, k, target))
        state.release(mark)
        return column + 1
    state.emit(SeqPut(seq, columns, column, k, value))
    return column + 1


def read_element(state: Lowering, seq: Value, k: Value, target: Value, binds: set[Symbol]) -> None:
    """Let `target` be element k."""
    assert isinstance(seq.type, SeqType)
    columns = tuple(columns_of(seq.type.elem, lambda t: False))
    _read(state, seq, columns, 0, k, target, binds)


def _read(state: Lowering, seq: Value, columns: tuple[Column, ...], column: int, k: Value, target: Value,
          binds: set[Symbol]) -> None:
    if isinstance(target.type, OptionalType):
        flag, payload = Value(BOOL), Value(target.type.elem)
        state.records.optional[target] = (flag, payload)
        state.emit(SeqGet(seq, columns, column, k, flag))
        outer, state.steps = state.steps, []
        _read(state, seq, columns, column + 1, k, payload, _payload_symbols(state, payload, binds))
        steps, state.steps = state.steps, outer
        state.emit(IfStep(flag, steps, []))
    elif isinstance(target.type, TensorType):
        pointer = Buffer(target.type.dtype, 0, "pointer")
        wanted = [(axis, d.symbol) for axis, d in enumerate(target.type.dims)
                  if isinstance(d, Dim) and d.symbol is not None and d.symbol in binds]
        state.emit(SeqGet(seq, columns, column, k, pointer, tuple(wanted)))
        state.set_ref(target, Ref(pointer, 0, target.type.dims, contiguous_strides(target.type.dims)))
    else:
        state.emit(SeqGet(seq, columns, column, k, target))


def _payload_symbols(state: Lowering, payload: Value, binds: set[Symbol]) -> set[Symbol]:
    """Symbols that a payload's sizes define: those bound here, and those that nobody else binds."""
    if not isinstance(payload.type, TensorType):
        return binds
    return binds | {s for d in payload.type.dims for s in symbols(d) if s not in state.visible}


def seq_get(state: Lowering, node: Node) -> None:
    read_element(state, node.inputs[0], node.inputs[1], node.outputs[0], set(node.binds))


def seq_len(state: Lowering, node: Node) -> None:
    state.emit(SeqLength(node.inputs[0], out=node.outputs[0]))


# --- optionals -----------------------------------------------------------------------------------------------------


def opt_some(state: Lowering, node: Node) -> None:
    """The payload is in memory and contiguous, or in a register."""
    value = node.inputs[0]
    payload = value
    if isinstance(value.type, TensorType):
        payload = Value(value.type)
        if is_single(value.type):
            state.emit(Assign(((payload, state.register(value)),)))
            state.set_register(payload)
        else:
            state.set_ref(payload, state.contiguous(value))
    state.records.optional[node.outputs[0]] = (constant(state, True), payload)


def opt_none(state: Lowering, node: Node) -> None:
    state.records.optional[node.outputs[0]] = (constant(state, False), None)


def opt_has(state: Lowering, node: Node) -> None:
    state.emit(Assign(((node.outputs[0], state.records.optional[node.inputs[0]][0]),)))


def opt_get(state: Lowering, node: Node) -> None:
    """The payload under another name."""
    out = node.outputs[0]
    _, payload = state.records.optional[node.inputs[0]]
    if payload is None:  # never run: the flag is false
        payload = Value(out.type)
        make_variable(state, payload)
    if isinstance(out.type, OptionalType):
        state.records.optional[out] = state.records.optional[payload]
    elif isinstance(out.type, TensorType) and not state.in_register(payload):
        ref = state.ref(payload)
        transfer = Transfer(state, node.binds)
        transfer.bind(out, ref.dims)
        transfer.emit()
        state.set_ref(out, Ref(ref.buffer, ref.offset, out.type.dims, contiguous_strides(out.type.dims)))
    else:
        state.emit(Assign(((out, payload),)))
        if isinstance(out.type, TensorType):
            state.set_register(out)


# --- effects and numbers -------------------------------------------------------------------------------------------


def passed(state: Lowering, values: Sequence[Value]) -> tuple[Value | Ref, ...]:
    """Values as a site passes them."""
    found: list[Value | Ref] = []
    for value in values:
        inner: Value | None = value
        while inner is not None and isinstance(inner.type, OptionalType):
            flag, inner = state.records.optional[inner]
            found.append(flag)
        type_ = value.type
        while isinstance(type_, OptionalType):
            type_ = type_.elem
        if isinstance(type_, TensorType):
            found.append(absent(state, type_) if inner is None else state.ref(inner))
        else:
            found.append(zero(state, type_) if inner is None else inner)
    return tuple(found)


def item(state: Lowering, node: Node) -> None:
    state.emit(NumberStep(Node("item", (state.register(node.inputs[0]),), node.attrs, node.outputs)))


def plain(state: Lowering, node: Node) -> None:
    state.emit(NumberStep(node))


def check(state: Lowering, node: Node) -> None:
    """The values are brought to memory only where it fails."""
    outer, state.steps = state.steps, []
    mark = state.mark()
    values = passed(state, node.inputs[1:])
    before, state.steps = state.steps, outer
    state.release(mark)
    state.emit(CallStep(state.site("check", node), "check", node.inputs[0], values, before))


def print_node(state: Lowering, node: Node) -> None:
    state.emit(CallStep(state.site("print", node), "print", None, passed(state, node.inputs)))


def commit(state: Lowering, node: Node) -> None:
    """Write an input's memory, or note what its slot becomes."""
    target, value = node.attrs["target"], node.inputs[0]
    if isinstance(state.graph.inputs[target].type, TensorType):
        memory = state.originals.get(target) or state.refs[state.graph.inputs[target]]
        base = state.base(value)
        if base is not value and base in state.refs and state.refs[base].buffer is memory.buffer:
            copy = state.allocate(memory.dtype, memory.dims)
            state.copy_into(value, copy)
            value = Value(value.type)
            state.set_ref(value, copy)
        state.copy_into(value, memory)
        return
    parts: list[Value | Ref] = []
    inner: Value | None = value
    type_ = value.type
    wanted = state.graph.inputs[target].type
    if isinstance(wanted, OptionalType) and not isinstance(type_, OptionalType):
        parts.append(constant(state, True))
    while isinstance(type_, OptionalType):
        assert inner is not None
        flag, inner = state.records.optional[inner]
        parts.append(flag)
        type_ = type_.elem
    if isinstance(type_, TensorType):
        parts.append(absent(state, type_) if inner is None else arena_copy(state, inner, parts))
    else:
        parts.append(zero(state, type_) if inner is None else inner)
    state.emit(CommitSlot(target, tuple(parts)))


def arena_copy(state: Lowering, value: Value, flags: Sequence[Value | Ref]) -> Ref:
    """A copy of a tensor that lives until the call returns."""
    ref = state.ref(value)
    pointer = Buffer(ref.dtype, 0, "pointer")
    target = Ref(pointer, 0, ref.dims, contiguous_strides(ref.dims))
    outer, state.steps = state.steps, []
    state.emit(ArenaAllocate(pointer, product(ref.dims)))
    state.copy_into(value, target)
    steps, state.steps = state.steps, outer
    if flags and isinstance(flags[-1], Value):
        state.emit(IfStep(flags[-1], steps, []))
    else:
        state.steps += steps
    return target


def order_commits(block: BlockLowering) -> None:
    """A write to an input waits for the reads of what was there."""
    state = block.state
    inputs = state.graph.inputs
    for unit in list(block.depends):
        if isinstance(unit, Node) and unit.op == "commit":
            target = inputs[unit.attrs["target"]]
            if isinstance(target.type, TensorType) and unit.attrs["target"] not in state.originals:
                for other, reads in block.reads.items():
                    if other is not unit and target in reads:
                        block.depends[unit].add(other)


RULES: dict[str, Callable[[Any, Node], None]] = {
    "item": item, "dim.value": plain, "dim.bind": plain, "check": check, "print": print_node, "commit": commit,
    "if": if_node, "while": loop_node, "scan": loop_node, "seq.get": seq_get, "seq.len": seq_len,
    "opt.some": opt_some, "opt.none": opt_none, "opt.has": opt_has, "opt.get": opt_get,
}
