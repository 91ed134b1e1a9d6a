"""Effects as steps; inputs and outputs of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitgrad import dtypes
from jitgrad.codegen.lower import deferred_stores
from jitgrad.codegen.lower.rules.joins import absent, aim, constant, put_at, zero
from jitgrad.codegen.program.access import contiguous_strides
from jitgrad.codegen.program.program import (
    ArenaAllocate,
    Buffer,
    CallStep,
    CommitSlot,
    IfStep,
    LoadScalar,
    NumberStep,
    Ref,
    StoreScalar,
)
from jitgrad.dims import Size, product
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import BOOL, FLOAT, INT, OptionalType, TensorType, Type
from jitgrad.script.graph.ir import Graph, Node, Value, committed, type_symbols, walk

if TYPE_CHECKING:
    from jitgrad.codegen.lower.driver import Lowering


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


def bind_inputs(state: Lowering) -> list[tuple[Value, ...]]:
    """Windows on the inputs' memory; the flags and numbers that the launcher passes per input."""
    parts: list[tuple[Value, ...]] = []
    for i, value in enumerate(state.graph.inputs):
        mine: list[Value] = []
        inner = value
        while isinstance(inner.type, OptionalType):
            flag, payload = Value(BOOL), Value(inner.type.elem)
            state.records.optional[inner] = (flag, payload)
            mine.append(flag)
            inner = payload
        if isinstance(inner.type, TensorType):
            buffer = state.input_buffers[i] = Buffer(inner.type.dtype, 0, "input", i, host=i in state.host_inputs)
            if buffer.host:
                state.emit(LoadScalar(inner, buffer, 0))
                state.set_register(inner)
                parts.append(tuple(mine))
                continue
            state.refs[inner] = Ref(buffer, 0, inner.type.dims, contiguous_strides(inner.type.dims))
        else:
            mine.append(inner)
        parts.append(tuple(mine))
    written = [i for i in committed(state.graph.block) if i in state.input_buffers and i not in state.host_inputs]
    for i in overwritten_early(state.graph, written):
        keep(state, i)
    return parts


def keep(state: Lowering, i: int) -> None:
    """Read a copy of an input that the program overwrites while its old content is still needed."""
    value = state.graph.inputs[i]
    if not isinstance(value.type, TensorType):
        return
    original = state.refs[value]
    copy = state.allocate(value.type.dtype, value.type.dims)
    state.copy_into(value, copy)
    state.refs[value] = copy
    state.originals[i] = original


def overwritten_early(graph: Graph, written: Sequence[int]) -> list[int]:
    """Those of the inputs that are written before their old content, or a window on it, is read for the last time.

    A write inside a branch or loop counts as early.
    """
    owner = {graph.inputs[i]: i for i in written}  # a value that shows the input's memory -> the input
    last_read: dict[int, int] = {}
    first_write: dict[int, int] = {}
    nested: set[int] = set()
    top = set(map(id, graph.block.nodes))
    never = 1 << 60
    for position, node in enumerate(walk(graph.block)):
        target = node.attrs["target"] if node.op == "commit" else -1
        if target >= 0:
            first_write.setdefault(target, position)
            if id(node) not in top:
                nested.add(target)
        for v in node.inputs:
            i = owner.get(v)
            if i is not None:
                if i != target:
                    last_read[i] = max(position, last_read.get(i, -1))
                if len(node.outputs) == 1 and has_trait(node.op, "affine"):
                    owner[node.outputs[0]] = i
        for b in node.blocks:
            for r in b.results:
                if r in owner:
                    last_read[owner[r]] = never
    for r in graph.outputs:
        if r in owner:
            last_read[owner[r]] = never
    return [i for i in written if i in nested or last_read.get(i, -1) >= first_write.get(i, never)]


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
        type_: Type = value.type
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
    plain = deferred_stores.own(node)
    values = passed(state, plain.inputs[1:])
    before, state.steps = state.steps, outer
    state.release(mark)
    state.emit(CallStep(state.site("check", plain), "check", node.inputs[0], values, before,
                        deferred_stores.leaving(state, node)))


def print_node(state: Lowering, node: Node) -> None:
    state.emit(CallStep(state.site("print", node), "print", None, passed(state, node.inputs)))


def callback(state: Lowering, node: Node) -> None:
    """A Python function. Numbers and sizes come back in memory of one element; results of sizes that only the call
    decides are fetched by a second call, when there is room for them.
    """
    place = state.site("callback", node)
    given = passed(state, node.inputs)
    late = [v for v in node.outputs if isinstance(v.type, TensorType)
            and not type_symbols(v.type).isdisjoint(node.binds)]
    numbers = {v: Value(TensorType(_HELD[v.type], ())) for v in node.outputs if not isinstance(v.type, TensorType)}
    results = tuple(state.place(numbers.get(v, v)) for v in node.outputs if v not in late)
    sizes = [Value(TensorType(dtypes.int64, ())) for _ in node.binds]
    state.emit(CallStep(place, "callback", None, (*given, *results, *(state.place(s) for s in sizes))))
    for out, memory in numbers.items():
        item(state, Node("item", (memory,), {}, (out,)))
    for symbol, memory in zip(node.binds, sizes, strict=True):
        count = Value(INT)
        item(state, Node("item", (memory,), {}, (count,)))
        state.emit(NumberStep(Node("dim.bind", (count,), {"symbol": symbol}, (Value(INT),))))
    if late:
        state.see(node.binds)
        state.emit(CallStep(state.site("fetch", node), "callback", None, tuple(state.place(v) for v in late)))


def callback_vjp(state: Lowering, node: Node) -> None:
    """The tape of a Python function: gradients, and whether there are any."""
    place = state.site("callback.vjp", node)
    given = passed(state, node.inputs)
    n = len(node.outputs) // 2
    flags = [Value(TensorType(dtypes.bool_, ())) for _ in range(n)]
    results = tuple(state.place(v) for v in (*node.outputs[:n], *flags))
    state.emit(CallStep(place, "callback", None, (*given, *results)))
    for out, memory in zip(node.outputs[n:], flags, strict=True):
        item(state, Node("item", (memory,), {}, (out,)))


#: the element type of a number in memory
_HELD = {BOOL: dtypes.bool_, INT: dtypes.int64, FLOAT: dtypes.float64}


def commit(state: Lowering, node: Node) -> None:
    """Write an input's memory, or note what its slot becomes."""
    target, value = node.attrs["target"], node.inputs[0]
    if target in state.host_inputs:
        state.emit(StoreScalar(state.register(value), state.input_buffers[target], 0))
        return
    if isinstance(state.graph.inputs[target].type, TensorType):
        memory = state.originals.get(target) or state.refs[state.graph.inputs[target]]
        base = state.base(value)
        if base is not value and base in state.refs and state.refs[base].buffer is memory.buffer:
            copy = state.allocate(memory.dtype, memory.dims)
            state.copy_into(value, copy)
            value = Value(value.type)
            state.set_ref(value, copy)
        put_at(state, value, memory)  # where it may have been computed
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


RULES: dict[str, Callable[[Any, Node], None]] = {
    "item": item, "dim.value": plain, "dim.bind": plain, "check": check, "print": print_node, "commit": commit,
    "callback": callback, "callback.vjp": callback_vjp, "pending": deferred_stores.pending,
}
