"""What flows through joins: the variables that branches and iterations set.

A number is kept in a register, and so is a one-element tensor of the host; any other tensor is behind a pointer, an
Optional is a flag and its payload's variable, a sequence an address.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.program.access import contiguous_strides
from jitgrad.codegen.program.step import Buffer, Ref
from jitgrad.codegen.program.steps import Assign, NumberStep, Point
from jitgrad.dims import Dim, Size, Symbol, product
from jitgrad.ops.types import BOOL, INT, NUMBER, TEXT, OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Node, Value
from jitgrad.script.graph.irops import infer


def opened(state: Lowering, value: Value) -> tuple[list[Value], Value | None, Type]:
    """The flags of an Optional of any depth, its payload (None: known to be absent) and that one's type."""
    flags: list[Value] = []
    inner: Value | None = value
    type_ = value.type
    while isinstance(type_, OptionalType):
        if inner is None:
            flags.append(flags[-1])
        else:
            flag, inner = state.optionals[inner]
            flags.append(flag)
        type_ = type_.elem
    return flags, inner, type_


def stored(state: Lowering, payload: Value | None, type_: Type) -> Value | Ref:
    """A payload as what is passed on: a tensor's window or a number; one that nobody reads where there is none."""
    if isinstance(type_, TensorType):
        return state.allocate(type_.dtype, (0,) * len(type_.dims)) if payload is None else state.ref(payload)
    if payload is not None:
        return payload
    whole = type_ in (INT, NUMBER, TEXT) or isinstance(type_, SeqType)
    return constant(state, False if type_ == BOOL else 0 if whole else 0.0)


def constant(state: Lowering, value: bool | int | float) -> Value:
    """A number as a Value."""
    return number(state, "num.const", value=value)


def number(state: Lowering, op: str, *inputs: Value, **attrs: Any) -> Value:
    """The result of an unchecked op on numbers."""
    (type_,) = infer(op, tuple([v.type for v in inputs]), attrs)
    out = Value(type_)
    state.emit(NumberStep(Node(op, inputs, attrs, (out,))))
    return out


def aim(state: Lowering, value: Value, ref: Ref) -> None:
    """Compute `value` at `ref` if it is computed in this block at all, and nobody else asked before."""
    if value not in state.dest:
        state.dest[value] = ref
        state.undo.append((state.dest, value))


def same_place(a: Ref, b: Ref) -> bool:
    """Whether the elements of two windows of one shape are in the same memory."""
    return a.buffer is b.buffer and a.offset == b.offset and all(
        one == other or size == 1 for size, one, other in zip(a.dims, a.strides, b.strides, strict=True))


def put_at(state: Lowering, value: Value, place: Ref) -> None:
    """Copy `value` to `place` unless it, or what it is a view of, was computed there."""
    if state.base(value) not in state.refs or not same_place(state.ref(value), place):
        state.copy_into(value, place)


def make_variable(state: Lowering, value: Value) -> None:
    """Let `value` be a variable that `Transfer` sets."""
    if isinstance(value.type, OptionalType):
        make_variable(state, state.open(value)[1])
    elif state.holds(value):
        state.set_register(value)
    elif isinstance(value.type, TensorType):
        pointer = Buffer(value.type.dtype, product(value.type.dims), "pointer")
        state.set_ref(value, Ref(pointer, 0, value.type.dims, contiguous_strides(value.type.dims)))


class Transfer:
    """Assignments to variables, done all at once by `emit`.

    `binds`: symbols that take the sizes of what is assigned.
    """

    def __init__(self, state: Lowering, binds: Iterable[Symbol]):
        self.state, self.binds = state, dict.fromkeys(sorted(binds, key=lambda s: s.number))
        self.values: list[tuple[Value, Value]] = []
        self.points: list[tuple[Buffer, Buffer, Size]] = []
        self.sizes: dict[Symbol, Size] = {}

    def add(self, target: Value, source: Value | None) -> None:
        """target = source; None: a payload that is not there."""
        state = self.state
        if source is None or target is source:
            return
        if isinstance(target.type, OptionalType):
            flag, payload = state.optionals[target]
            source_flag, source_payload = state.optionals[source]
            self.values.append((flag, source_flag))
            assert payload is not None
            self.add(payload, source_payload)
        elif isinstance(target.type, TensorType):
            if state.holds(target):
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
        for size, actual in zip(tensor(target).dims, dims, strict=True):
            if isinstance(size, Dim) and size.symbol in self.binds:
                self.sizes.setdefault(size.symbol, actual)

    def emit(self) -> None:
        if self.points:
            self.state.emit(Point(tuple(self.points)))
        for symbol in self.binds:
            self.sizes.setdefault(symbol, 0)  # no value has it here
        if self.values or self.sizes:
            self.state.emit(Assign(tuple(self.values), tuple(self.sizes.items())))
