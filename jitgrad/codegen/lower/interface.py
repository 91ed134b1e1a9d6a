"""Inputs and outputs of a program: the windows on their memory, the arrays in which results are computed."""

from collections.abc import Mapping, Sequence

from jitgrad.codegen.lower.rules.joins import aim, opened, put_at, stored
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.program.access import contiguous_strides
from jitgrad.codegen.program.program import NumberOutput, TensorOutput
from jitgrad.codegen.program.step import Buffer, Ref
from jitgrad.codegen.program.steps import LoadScalar
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import OptionalType, TensorType
from jitgrad.script.graph.ir import Graph, Node, Value, committed, walk


def bind_inputs(state: Lowering) -> list[tuple[Value, ...]]:
    """Windows on the inputs' memory; the flags and numbers that the launcher passes per input."""
    parts: list[tuple[Value, ...]] = []
    for i, value in enumerate(state.graph.inputs):
        mine: list[Value] = []
        inner = value
        while isinstance(inner.type, OptionalType):
            flag, inner = state.open(inner)
            mine.append(flag)
        if isinstance(inner.type, TensorType):
            buffer = state.input_buffers[i] = Buffer(inner.type.dtype, 0, "input", i, host=i in state.host_inputs)
            if buffer.host:
                state.emit(LoadScalar(inner, buffer, 0))
                state.set_register(inner)
            else:
                state.refs[inner] = Ref(buffer, 0, inner.type.dims, contiguous_strides(inner.type.dims))
        else:
            mine.append(inner)
        parts.append(tuple(mine))
    written = [i for i in committed(state.graph.block) if i in state.input_buffers and i not in state.host_inputs]
    for i in overwritten_early(state.graph, written):  # a copy of it is read
        value = state.graph.inputs[i]
        if isinstance(value.type, TensorType):
            copy = state.allocate(value.type.dtype, value.type.dims)
            state.copy_into(value, copy)
            state.originals[i], state.refs[value] = state.refs[value], copy
    return parts


def overwritten_early(graph: Graph, written: Sequence[int]) -> list[int]:
    """Those of the inputs that are written before their old content, or a window on it, is read for the last time.

    A write inside a branch or loop counts as early. A second write may bring the old content back.
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
                if i != target or first_write[i] != position:
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


def plan_outputs(state: Lowering) -> list[tuple[Value, Ref] | None]:
    """Let results be computed in the arrays that the launcher makes for them: the tensor of each, and where it goes."""
    planned: list[tuple[Value, Ref] | None] = []
    makers = {v: node for node in walk(state.graph.block) for v in node.outputs}
    outside = {v for node in state.graph.block.nodes for v in node.outputs}.union(state.graph.inputs)
    for i, value in enumerate(state.graph.outputs):
        whole = held(makers, value)
        if whole in outside and state.known_at_entry(tensor(whole).dims):
            d, shape = tensor(whole).dtype, tensor(whole).dims
            ref = Ref(Buffer(d, 0, "output", i), 0, shape, contiguous_strides(shape))
            aim(state, whole, ref)
            planned.append((whole, ref))
        else:
            planned.append(None)
    return planned


def held(makers: Mapping[Value, Node], value: Value) -> Value | None:
    """The tensor that an Optional holds wherever it holds one, if that is always the same; a tensor itself."""
    found: set[Value] = set()
    pending = [value]
    while pending:
        v = pending.pop()
        node = makers.get(v)
        if isinstance(v.type, TensorType):
            found.add(v)
        elif node is not None and node.op == "opt.some":
            pending += node.inputs
        elif node is not None and node.op == "if":
            pending += [block.results[node.outputs.index(v)] for block in node.blocks]
        elif node is None or node.op != "opt.none":
            return None
    return found.pop() if len(found) == 1 else None


def store_output(state: Lowering, value: Value, planned: tuple[Value, Ref] | None) -> TensorOutput | NumberOutput:
    """An output; a result that was not computed in place is copied."""
    flags, inner, type_ = opened(state, value)
    if planned is not None:
        put_at(state, *planned)
        return TensorOutput(planned[1], True, planned[1].dims, tuple(flags))
    if isinstance(value.type, TensorType):
        return TensorOutput(state.contiguous(value), False, value.type.dims)
    result = stored(state, inner, type_)
    if isinstance(result, Ref):
        return TensorOutput(result, False, result.dims, tuple(flags))
    return NumberOutput(value.type, (*flags, result))
