"""Sequences, lists and optionals as steps: columns of elements, reading and writing them, flags and payloads."""

from collections.abc import Callable
from typing import Any

from jitgrad.codegen.lower.rules.joins import Transfer, constant, make_variable, number
from jitgrad.codegen.lower.state import Lowering, is_single
from jitgrad.codegen.program.access import contiguous_strides
from jitgrad.codegen.program.sequence_steps import (ArenaAllocate, SeqCopy, SeqGet, SeqLength, SeqPlace, SeqPut,
                                                    SeqReach, SeqStart)
from jitgrad.codegen.program.step import Buffer, Column, Ref
from jitgrad.codegen.program.steps import Assign, IfStep, Point
from jitgrad.dims import Dim, Symbol, product, symbols
from jitgrad.ops.types import INT, NUMBER, ListType, OptionalType, SeqType, TensorType, Type
from jitgrad.script.graph.ir import Node, Value


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
    assert c.dtype is not None
    assert c.dims is not None
    pointer = Buffer(c.dtype, 0, "pointer")
    state.emit(SeqPlace(seq, columns, column, k, pointer))
    return Ref(pointer, 0, c.dims, contiguous_strides(c.dims))


def write_element(state: Lowering, seq: Value, columns: tuple[Column, ...], column: int, k: Value,
                  value: Value) -> None:
    """Store element k, from `column` on."""
    if isinstance(value.type, OptionalType):
        flag, payload = state.optionals[value]
        state.emit(SeqPut(seq, columns, column, k, flag))
        if payload is not None:
            with state.collecting() as steps:
                write_element(state, seq, columns, column + 1, k, payload)
            state.emit(IfStep(flag, steps, []))
    elif isinstance(value.type, TensorType):
        with state.scope():
            ref = state.ref(value)
            pointer = Buffer(ref.dtype, 0, "pointer")
            state.emit(ArenaAllocate(pointer, product(ref.dims)))
            target = Ref(pointer, 0, ref.dims, contiguous_strides(ref.dims))
            state.copy_into(value, target)
            state.emit(SeqPut(seq, columns, column, k, target))
    else:
        state.emit(SeqPut(seq, columns, column, k, value))


def read_element(state: Lowering, seq: Value, k: Value, target: Value, binds: set[Symbol],
                 inside: Value | None = None, column: int = 0) -> None:
    """Let `target` be element k, from `column` on. `inside`: whether there is one; it is absent where there is none."""
    assert isinstance(seq.type, SeqType)
    columns = tuple(columns_of(seq.type.elem, lambda t: False))
    if isinstance(target.type, OptionalType):
        flag, payload = state.open(target)
        read: Any = SeqGet(seq, columns, column, k, flag)
        if inside is not None:
            state.emit(Assign(((flag, constant(state, False)),)))
            read = IfStep(inside, [read], [])
        state.emit(read)
        with state.collecting() as steps:
            read_element(state, seq, k, payload, _payload_symbols(state, payload, binds), column=column + 1)
        if isinstance(payload.type, TensorType) and is_single(payload.type):
            # one number may be brought to a register where it is not known to be there: then from memory of our own
            pointer, spare = state.ref(payload).buffer, Buffer(payload.type.dtype, 1, "slot")
            pointer.aliases.add(spare)
            state.emit(Point(((pointer, spare, 0),)))
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


# --- lists ---------------------------------------------------------------------------------------------------------
#
# A list is a sequence that grows; `linear` has seen to it that who changes one may do so in place. The memory of an
# element that is a tensor is written once: a list that replaces or drops it forgets only where it is, so a tensor read
# from a list stays what it is.


def _columns(value: Value) -> tuple[Column, ...]:
    assert isinstance(value.type, ListType)
    return tuple(columns_of(value.type.elem, lambda t: False))


def _is_sparse(value: Value) -> bool:
    """Whether elements may be absent."""
    return isinstance(value.type, ListType) and isinstance(value.type.elem, OptionalType)


def _length(state: Lowering, value: Value) -> Value:
    out = Value(INT)
    state.emit(SeqLength(value, out=out))
    return out


def list_new(state: Lowering, node: Node) -> None:
    state.emit(SeqStart(node.output, _columns(node.output), None))


def list_copy(state: Lowering, node: Node) -> None:
    state.emit(SeqCopy(node.inputs[0], _columns(node.output), node.output))


def list_put(state: Lowering, node: Node) -> None:
    """Set element k, or append it."""
    elements, k, value = node.inputs
    columns = _columns(elements)
    state.emit(SeqReach(elements, columns, k, _is_sparse(elements)))
    write_element(state, elements, columns, 0, k, value)
    state.emit(Assign(((node.output, elements),)))


def list_take(state: Lowering, node: Node) -> None:
    """Forget what comes after the first k elements."""
    elements, k = node.inputs
    least = number(state, "num.max", k, constant(state, 0))
    state.emit(SeqLength(elements, k=number(state, "num.min", _length(state, elements), least)))
    state.emit(Assign(((node.output, elements),)))


def list_get(state: Lowering, node: Node) -> None:
    elements, k = node.inputs
    inside = number(state, "num.lt", k, _length(state, elements)) if _is_sparse(elements) else None
    read_element(state, elements, k, node.output, set(node.binds), inside)


# --- optionals -----------------------------------------------------------------------------------------------------


def opt_some(state: Lowering, node: Node) -> None:
    """The payload is in memory and contiguous, or in a register."""
    value = node.inputs[0]
    payload = value
    if isinstance(value.type, TensorType):
        payload = Value(value.type)
        if state.holds(value):
            state.emit(Assign(((payload, state.register(value)),)))
            state.set_register(payload)
        else:
            state.set_ref(payload, state.contiguous(value))
    state.optionals[node.outputs[0]] = (constant(state, True), payload)


def opt_none(state: Lowering, node: Node) -> None:
    state.optionals[node.outputs[0]] = (constant(state, False), None)


def opt_has(state: Lowering, node: Node) -> None:
    state.emit(Assign(((node.outputs[0], state.optionals[node.inputs[0]][0]),)))


def opt_get(state: Lowering, node: Node) -> None:
    """The payload under another name."""
    out = node.outputs[0]
    _, payload = state.optionals[node.inputs[0]]
    if payload is None:  # never run: the flag is false
        payload = Value(out.type)
        make_variable(state, payload)
    if isinstance(out.type, OptionalType):
        state.optionals[out] = state.optionals[payload]
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


RULES: dict[str, Callable[[Any, Node], None]] = {
    "seq.get": seq_get, "seq.len": seq_len, "opt.some": opt_some, "opt.none": opt_none, "opt.has": opt_has,
    "opt.get": opt_get, "list.new": list_new, "list.copy": list_copy, "list.put": list_put, "list.take": list_take,
    "list.get": list_get, "list.len": seq_len,
}
