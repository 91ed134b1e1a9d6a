"""Nodes that are steps of their own: joins, write-backs, scatters, and calls of the library.

A join or write-back fills its result window by window, each window one copy kernel. `library` is for the rows that have
no native form (sorting, running sums, nonzero, a draw of one element, `sum_to` of undecidable sizes that turn out to
differ): native code calls back and NumPy runs the row on views of the buffers.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

from jitgrad import dims
from jitgrad.codegen.lower.kernels import KernelBuilder, windows
from jitgrad.codegen.lower.rules import ordered
from jitgrad.codegen.lower.rules.joins import number, put_at
from jitgrad.codegen.lower.rules.products import ACCUMULATE, EPILOGUE
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.program import access
from jitgrad.codegen.program.access import IndexMap, contiguous_strides
from jitgrad.codegen.program.kernel import Stmt
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import CallStep, IfStep, LoadScalar
from jitgrad.dims import Dim, Size
from jitgrad.dtypes import int64
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.specs import broadcast_shapes, index_result_shape
from jitgrad.ops.types import INT, TensorType
from jitgrad.script.graph.ir import Node, Value


def is_storing(op: str) -> bool:
    """Whether operands of a node are read as memory, not by a kernel."""
    return has_trait(op, "reads_memory") or has_trait(op, "in_library") or op in (ACCUMULATE, EPILOGUE)


# --- layout ---


def reshape(state: Lowering, node: Node) -> None:
    """A new window on the same memory if its strides allow, else on a copy."""
    out, shape = node.outputs[0], node.attrs["shape"]
    ref = state.ref(node.inputs[0])
    strides = access.reshape_strides(ref.dims, ref.strides, shape)
    if strides is not None:
        state.set_ref(out, Ref(ref.buffer, ref.offset, tuple(shape), strides))
        return
    target = state.dest.get(out) or state.allocate(ref.dtype, shape)
    state.copy_into(node.inputs[0], Ref(target.buffer, target.offset, ref.dims, contiguous_strides(ref.dims)))
    state.set_ref(out, target)


def window(ref: Ref, axis: int, start: Size, length: Size, step: int = 1) -> Ref:
    """ref[..., start : start + length * step : step, ...]."""
    shape = (*ref.dims[:axis], length, *ref.dims[axis + 1:])
    strides = (*ref.strides[:axis], ref.strides[axis] * step, *ref.strides[axis + 1:])
    return Ref(ref.buffer, ref.offset + start * ref.strides[axis], shape, strides)


def cat(state: Lowering, node: Node) -> None:
    out = node.outputs[0]
    target = state.refs.get(out) or state.place(out)
    for value, part in parts_of(node, target):
        put_at(state, value, part)


def parts_of(node: Node, target: Ref) -> Iterator[tuple[Value, Ref]]:
    """The operands of a `cat`, and where they belong."""
    axis = node.attrs["axis"]
    start: Size = 0
    for value in node.inputs:
        length = tensor(value).dims[axis]
        yield value, window(target, axis, start, length)
        start = start + length


def pad(state: Lowering, node: Node) -> None:
    target = state.place(node.outputs[0])
    fill(state, target, node.attrs["value"])
    inside = target
    for axis, ((before, _), size) in enumerate(zip(node.attrs["pads"], tensor(node.inputs[0]).dims, strict=True)):
        inside = window(inside, axis, before, size)
    state.copy_into(node.inputs[0], inside)


def fill(state: Lowering, target: Ref, value: bool | int | float) -> None:
    """target[...] = value."""
    kept = [a for a, size in enumerate(target.dims) if size != 1]
    builder = KernelBuilder([target.dims[a] for a in kept], name="fill")
    builder.store(builder.const(value, target.dtype), target.buffer, target.offset, [target.strides[a] for a in kept])
    state.emit(builder.finish())


def part_of(node: Node, target: Ref) -> Ref:
    attrs = node.attrs
    axis = attrs["axis"]
    if "index" in attrs:
        dims, strides = (tuple([n for a, n in enumerate(some) if a != axis]) for some in (target.dims, target.strides))
        return Ref(target.buffer, target.offset + attrs["index"] * target.strides[axis], dims, strides)
    return window(target, axis, attrs["start"], attrs["length"], attrs["step"])


def write_back(state: Lowering, node: Node) -> None:
    """select_scatter, slice_scatter: a copy of x, then src over its window."""
    target = _copy_of(state, node)
    if node not in state.written:
        put_at(state, node.inputs[1], part_of(node, target))


def copy_of_part(state: Lowering, node: Node) -> None:
    """select, slice of what is about to be written in place."""
    out, part = node.outputs[0], part_of(node, state.ref(node.inputs[0]))
    if state.holds(out):
        state.emit(LoadScalar(out, part.buffer, part.offset))
        state.set_register(out)
        return
    behind = Value(out.type)
    state.set_ref(behind, part)
    state.copy_into(behind, state.place(out))


def add_back(state: Lowering, node: Node) -> None:
    """select_add, slice_add."""
    target = _copy_of(state, node)
    state.copy_into(node.inputs[1], part_of(node, target), adding=node.op)


def _copy_of(state: Lowering, node: Node) -> Ref:
    """What is written into: a copy of x, or x where a loop keeps it in place."""
    x, out = node.inputs[0], node.outputs[0]
    if x in state.owned and out in state.owned and x in state.refs:
        return state.set_ref(out, state.refs[x])
    target = state.place(out)
    state.copy_into(x, target)
    return target


# --- indices ---


def gather_entries(node: Node, own: IndexMap) -> tuple[IndexMap, list[IndexMap]]:
    """How an `index` or `gather` reads its data (indexed axes left out) and its indices, given its result's axes."""
    x = tensor(node.inputs[0]).dims
    if node.op == "gather":
        axis = node.attrs["axis"]
        return tuple(access.NOWHERE if a == axis else own[a] for a in range(len(x))), [own]
    return _index_entries(x, [tensor(v).dims for v in node.inputs[1:]], node.attrs["axes"], own)


def _index_entries(x: Sequence[Size], shapes: list[tuple[Size, ...]], axes: tuple[int, ...],
                   own: IndexMap) -> tuple[IndexMap, list[IndexMap]]:
    block = broadcast_shapes(*shapes)
    adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
    at = axes[0] if adjacent else 0
    rest = iter((*own[:at], *own[at + len(block):]))
    data = tuple(access.NOWHERE if a in axes else next(rest) for a in range(len(x)))
    middle = own[at:at + len(block)]
    return data, [access.broadcast(middle, s, block) for s in shapes]


def index_put(state: Lowering, node: Node) -> None:
    """A copy of x, then v written (or added) at the indices."""
    x, v, indices, axes = node.inputs[0], node.inputs[1], node.inputs[2:], node.attrs["axes"]
    shape = index_result_shape(tensor(x).dims, [tensor(i).dims for i in indices], axes)
    _, own = access.axes_of(shape)
    data, along = _index_entries(tensor(x).dims, [tensor(i).dims for i in indices], axes, own)
    _scatter(state, node, shape, data, access.broadcast(own, tensor(v).dims, shape), v,
             list(zip(indices, along, strict=True)), axes, node.attrs["accumulate"])


def scatter(state: Lowering, node: Node) -> None:
    """scatter, scatter_add: a copy of x, then src at index i along an axis."""
    _, i, src = node.inputs
    axis = node.attrs["axis"]
    shape = tensor(i).dims
    _, own = access.axes_of(shape)
    data = tuple(access.NOWHERE if a == axis else e for a, e in enumerate(own))
    _scatter(state, node, shape, data, own, src, [(i, own)], (axis,), node.op == "scatter_add")


def _scatter(state: Lowering, node: Node, shape: Sequence[Size], data: IndexMap, entries: IndexMap, value: Value,
             indices: list[tuple[Value, IndexMap]], axes: Sequence[int], accumulate: bool) -> None:
    target = _copy_of(state, node)
    space = [size for size in shape if size != 1]
    every = range(len(space))
    strides, offset = windows(target, data, every, len(space))
    if ordered.matters(state, target.dtype, accumulate, indices):
        ordered.scatter(state, "ordered_add" if accumulate else "ordered_put", space, target, strides, offset,
                              value, entries, indices, [target.strides[a] for a in axes])
        return
    builder = KernelBuilder(space, name=node.op)

    def operand(v: Value, how: IndexMap) -> int:
        base, behind = state.resolve(v, how)
        return state.read(builder, base, behind, every)

    new = operand(value, entries)
    places = tuple(operand(v, e) for v, e in indices)
    number = builder.operand(target.buffer, offset, strides, "inout")
    builder.body.append(Stmt("scatter_add" if accumulate else "scatter", (new, *places), operand=number,
                             strides=tuple(target.strides[a] for a in axes)))
    state.emit(builder.finish())


def summed_axes(shape: Sequence[Size], target: Sequence[Size]) -> tuple[int, ...] | None:
    """The axes that `sum_to` sums; None where that depends on run-time sizes."""
    lead = len(shape) - len(target)
    axes = list(range(lead))
    for i, size in enumerate(target):
        actual = shape[lead + i]
        if size == actual or dims.is_not_one(size):
            continue
        if not isinstance(size, int):
            return None
        if actual != 1:
            axes.append(lead + i)
    return tuple(axes)


# --- Python ---


def library(state: Lowering, node: Node) -> None:
    """Call back into Python: the row's `impl` on windows of memory."""
    if not has_trait(node.op, "in_library"):
        raise NotImplementedError(f"the native backend has no form of `{node.op}`; decompose it before code generation")
    if node.op == "nonzero":
        nonzero(state, node)
    elif node.op == "sum_to":
        sum_to(state, node)
    else:
        call(state, node)


def sum_to(state: Lowering, node: Node) -> None:
    """A copy where it turns out that nothing was repeated, which is nearly always; else NumPy's sum."""
    x, out = node.inputs[0], node.outputs[0]
    shape, target = tensor(x).dims, tensor(out).dims
    if len(shape) != len(target):
        call(state, node)
        return
    state.ref(x)
    place = state.place(out)

    equal = reduce(lambda one, other: number(state, "num.and", one, other), (
        number(state, "num.eq", state.size_number(a), state.size_number(b))
        for a, b in zip(shape, target, strict=True) if a != b))

    def branch(lower: Callable[[], None]) -> list[Any]:
        with state.scope(), state.collecting() as steps:
            lower()
        return steps

    state.emit(IfStep(equal, branch(lambda: state.copy_into(x, place)), branch(lambda: call(state, node))))


def call(state: Lowering, node: Node) -> None:
    """The row's `impl` by NumPy."""
    values: list[Value | Ref | Size] = [state.ref(v) if isinstance(v.type, TensorType) else v for v in node.inputs]
    values += [state.refs.get(v) or state.place(v) for v in node.outputs]
    sizes: list[Size] = []
    for attr in node.attrs.values():
        without_sizes(attr, sizes)
    state.emit(CallStep(state.site("library", node), "library", None, (*values, *sizes)))


def without_sizes(value: Any, sizes: list[Size]) -> Any:
    """An attr with its Dims replaced by ("dim", their number among the sizes passed)."""
    if isinstance(value, Dim):
        sizes.append(value)
        return ("dim", len(sizes) - 1)
    if isinstance(value, tuple):
        return tuple(without_sizes(v, sizes) for v in value)
    return value


def nonzero(state: Lowering, node: Node) -> None:
    """Indices go to a buffer for the worst case; the call says how many there are."""
    (x,), out = node.inputs, node.outputs[0]
    shape = tensor(x).dims
    count = state.allocate(int64, ())
    room = state.allocate(int64, (dims.product(shape), len(shape)))
    state.emit(CallStep(state.site("library", node), "library", None, (state.ref(x), count, room)))
    found = Value(INT)
    state.emit(LoadScalar(found, count.buffer, 0))
    number(state, "dim.bind", found, symbol=node.binds[0])
    state.set_ref(out, Ref(room.buffer, 0, tensor(out).dims, contiguous_strides(tensor(out).dims)))


RULES: dict[str, Callable[[Any, Node], None]] = {
    "reshape": reshape, "cat": cat, "pad": pad,
    "select_scatter": write_back, "slice_scatter": write_back, "select_add": add_back, "slice_add": add_back,
    "select": copy_of_part, "slice": copy_of_part, "index_put": index_put, "scatter": scatter, "scatter_add": scatter,
}

