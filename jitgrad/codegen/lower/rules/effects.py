"""Effects as steps: checks, prints, calls of Python functions, writes to inputs; and what an exception stores."""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.lower import deferred_stores
from jitgrad.codegen.lower.rules.joins import constant, number, opened, put_at, same_place, stored
from jitgrad.codegen.lower.state import Lowering
from jitgrad.codegen.program.access import contiguous_strides
from jitgrad.codegen.program.sequence_steps import ArenaAllocate
from jitgrad.codegen.program.step import Buffer, Leaving, Ref
from jitgrad.codegen.program.steps import CallStep, CommitSlot, IfStep, NumberStep, StoreScalar
from jitgrad.dims import product
from jitgrad.ops.types import BOOL, FLOAT, INT, OptionalType, TensorType, Type
from jitgrad.script.graph.ir import Node, Value, type_symbols


def passed(state: Lowering, values: Sequence[Value]) -> tuple[Value | Ref, ...]:
    """Values as a site passes them."""
    found: list[Value | Ref] = []
    for value in values:
        flags, inner, type_ = opened(state, value)
        found += [*flags, stored(state, inner, type_)]
    return tuple(found)


def item(state: Lowering, node: Node) -> None:
    state.emit(NumberStep(Node("item", (state.register(node.inputs[0]),), node.attrs, node.outputs)))


def plain(state: Lowering, node: Node) -> None:
    state.emit(NumberStep(node))


def size(state: Lowering, node: Node) -> None:
    """A number that the program has of a size is the one that others use."""
    state.emit(NumberStep(node))
    if node.attrs["dim"] not in state.sizes:
        state.sizes[node.attrs["dim"]] = node.outputs[0]
        state.undo.append((state.sizes, node.attrs["dim"]))


def check(state: Lowering, node: Node) -> None:
    """The values are brought to memory only where it fails."""
    plain = deferred_stores.own(node)
    with state.scope(), state.collecting() as before:
        values = passed(state, plain.inputs[1:])
    state.emit(CallStep(state.site("check", plain), "check", node.inputs[0], values, before,
                        deferred_stores.leaving(state, node)))


def print_node(state: Lowering, node: Node) -> None:
    state.emit(CallStep(state.site("print", node), "print", None, passed(state, node.inputs)))


def text(state: Lowering, node: Node) -> None:
    """Python computes a string, or what is asked of one."""
    state.emit(CallStep(state.site("text", node), "text", None, passed(state, node.inputs), results=node.outputs))


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
        number(state, "dim.bind", number(state, "item", state.register(memory)), symbol=symbol)
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


def pending(state: Lowering, node: Node) -> None:
    """How the values get to memory, to be told where the program leaves."""
    with state.scope(), state.collecting() as before:
        values = passed(state, node.inputs)
    after = node.attrs["after"]
    plain = Node(node.op, node.inputs, {k: a for k, a in node.attrs.items() if k != "after"}, (), (), node.span)
    state.leaving[node] = Leaving(state.site("pending", plain), values, before,
                                  state.leaving[after] if after is not None else None)


#: the element type of a number in memory
_HELD: dict[Type, dtypes.dtype] = {BOOL: dtypes.bool_, INT: dtypes.int64, FLOAT: dtypes.float64}


def commit(state: Lowering, node: Node) -> None:
    """Write an input's memory, or note what its slot becomes."""
    target, value = node.attrs["target"], node.inputs[0]
    if target in state.host_inputs:
        state.emit(StoreScalar(state.register(value), state.input_buffers[target], 0))
        return
    if isinstance(state.graph.inputs[target].type, TensorType):
        memory = state.originals.get(target) or state.refs[state.graph.inputs[target]]
        base = state.base(value)
        if base in state.refs and state.refs[base].buffer is memory.buffer and not same_place(state.ref(value), memory):
            copy = state.allocate(memory.dtype, memory.dims)
            state.copy_into(value, copy)
            value = Value(value.type)
            state.set_ref(value, copy)
        put_at(state, value, memory)  # where it may have been computed
        return
    flags, inner, type_ = opened(state, value)
    if isinstance(state.graph.inputs[target].type, OptionalType) and not flags:
        flags.append(constant(state, True))
    parts: list[Value | Ref] = [*flags]
    if isinstance(type_, TensorType) and inner is not None:
        parts.append(arena_copy(state, inner, parts))
    else:
        parts.append(stored(state, inner, type_))
    state.emit(CommitSlot(target, tuple(parts)))


def arena_copy(state: Lowering, value: Value, flags: Sequence[Value | Ref]) -> Ref:
    """A copy of a tensor that lives until the call returns."""
    ref = state.ref(value)
    pointer = Buffer(ref.dtype, 0, "pointer")
    target = Ref(pointer, 0, ref.dims, contiguous_strides(ref.dims))
    with state.collecting() as steps:
        state.emit(ArenaAllocate(pointer, product(ref.dims)))
        state.copy_into(value, target)
    if flags and isinstance(flags[-1], Value):
        state.emit(IfStep(flags[-1], steps, []))
    else:
        state.steps += steps
    return target


RULES: dict[str, Callable[[Any, Node], None]] = {
    "item": item, "dim.value": size, "dim.bind": plain, "check": check, "print": print_node, "text": text,
    "commit": commit, "callback": callback, "callback.vjp": callback_vjp, "pending": pending,
}
