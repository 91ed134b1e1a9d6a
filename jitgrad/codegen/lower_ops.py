"""Nodes that are steps of their own: matrix products, joins, write-backs, scatters, and calls of the library.

A join or write-back fills its result window by window, each window one copy kernel. `library` is for the rows that have
no native form (sorting, running sums, nonzero, random words, `sum_to` of undecidable sizes): native code calls
back and NumPy runs the row on views of the buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from jitgrad import dims
from jitgrad.codegen import access
from jitgrad.codegen.access import Entry, IndexMap, contiguous_strides
from jitgrad.codegen.kernel import Stmt
from jitgrad.codegen.lower_kernel import KernelBuilder, read, windows
from jitgrad.codegen.program import CallStep, GemmStep, LoadScalar, NumberStep, Ref
from jitgrad.dims import Dim, Size
from jitgrad.dtypes import int64
from jitgrad.ops.specs import broadcast_shapes, index_result_shape
from jitgrad.ops.types import INT, TensorType
from jitgrad.script.ir import Node, Value

if TYPE_CHECKING:
    from jitgrad.codegen.lower import Lowering

#: rows that run in Python on the buffers, because there is no native form of them
LIBRARY = frozenset({"cumsum", "cumprod", "sort", "argsort", "topk", "nonzero", "random.uniform",
                     "random.bits", "sum_to"})
#: rows whose operands are read as memory, not by a kernel
STORING = frozenset({"matmul", "reshape"}) | LIBRARY


def _dims(value: Value) -> tuple[Size, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.dims


# --- matrix products ---


def matmul(state: Lowering, node: Node) -> None:
    """One product per batch index; transposes are flags, batch axes of size 1 have stride 0."""
    a, trans_a, lda = _matrix(state, node.inputs[0])
    b, trans_b, ldb = _matrix(state, node.inputs[1])
    c = state.place(node.outputs[0])
    shape = c.dims[:-2]
    batch = []
    for axis, size in enumerate(shape):
        if size != 1:
            batch.append((size, _batch_stride(a, axis - len(shape), size), _batch_stride(b, axis - len(shape), size),
                          c.strides[axis]))
    state.emit(GemmStep(c.dtype, c.dims[-2], c.dims[-1], a.dims[-1], (a.buffer, a.offset), (b.buffer, b.offset),
                        (c.buffer, c.offset), trans_a, trans_b, lda, ldb, c.strides[-2], tuple(_joined(batch))))


def _matrix(state: Lowering, value: Value) -> tuple[Ref, bool, Size]:
    """An operand with rows or columns contiguous: the window, whether it is transposed, the leading dimension."""
    ref = state.ref(value)
    if len(ref.dims) > 1:
        row, column = ref.strides[-2:]
        if (column == 1 or ref.dims[-1] == 1) and not _repeats(row, ref.dims[-2]):
            return ref, False, row
        if (row == 1 or ref.dims[-2] == 1) and not _repeats(column, ref.dims[-1]):
            return ref, True, column
    target = state.allocate(ref.dtype, ref.dims)
    state.copy_into(value, target)
    return target, False, target.strides[-2]


def _repeats(stride: Size, size: Size) -> bool:
    """Whether a leading dimension is unusable: zero or negative while there is more than one row."""
    return size != 1 and (_may_be_negative(stride) or stride == 0)


def _may_be_negative(stride: Size) -> bool:
    if isinstance(stride, int):
        return stride < 0
    return any(c < 0 for _, c in stride.terms) or any(
        isinstance(a, dims.Call) for monomial, _ in stride.terms for a in monomial)


def _batch_stride(ref: Ref, axis: int, size: Size) -> Size:
    """The stride of a batch axis (counted from the matrix's axes), 0 where the operand has size 1 there."""
    axis -= 2
    if -axis > len(ref.dims) or ref.dims[axis] == 1:
        return 0
    if ref.dims[axis] == size or dims.is_not_one(ref.dims[axis]):
        return ref.strides[axis]
    return ref.strides[axis] * dims.call("not_one", ref.dims[axis])


def _joined(batch: Sequence[tuple[Size, Size, Size, Size]]) -> list[tuple[Size, Size, Size, Size]]:
    """Adjacent batch axes that all operands step through evenly, as one."""
    result: list[tuple[Size, Size, Size, Size]] = []
    for size, *strides in batch:
        if result and all(o == s * size for o, s in zip(result[-1][1:], strides, strict=True)):
            result[-1] = (result[-1][0] * size, strides[0], strides[1], strides[2])
        else:
            result.append((size, strides[0], strides[1], strides[2]))
    return result


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


def _without(ref: Ref, axis: int) -> Ref:
    return Ref(ref.buffer, ref.offset, (*ref.dims[:axis], *ref.dims[axis + 1:]),
               (*ref.strides[:axis], *ref.strides[axis + 1:]))


def cat(state: Lowering, node: Node) -> None:
    axis = node.attrs["axis"]
    target = state.place(node.outputs[0])
    start: Size = 0
    for value in node.inputs:
        length = _dims(value)[axis]
        state.copy_into(value, window(target, axis, start, length))
        start = start + length


def pad(state: Lowering, node: Node) -> None:
    target = state.place(node.outputs[0])
    fill(state, target, node.attrs["value"])
    inside = target
    for axis, ((before, _), size) in enumerate(zip(node.attrs["pads"], _dims(node.inputs[0]), strict=True)):
        inside = window(inside, axis, before, size)
    state.copy_into(node.inputs[0], inside)


def fill(state: Lowering, target: Ref, value: bool | int | float) -> None:
    """target[...] = value."""
    kept = [a for a, size in enumerate(target.dims) if size != 1]
    builder = KernelBuilder([target.dims[a] for a in kept], name="fill")
    builder.store(builder.const(value, target.dtype), target.buffer, target.offset, [target.strides[a] for a in kept])
    state.emit(builder.finish())


def _part(node: Node, target: Ref) -> Ref:
    attrs = node.attrs
    axis = attrs["axis"]
    if "index" in attrs:
        return _without(window(target, axis, attrs["index"], 1), axis)
    return window(target, axis, attrs["start"], attrs["length"], attrs["step"])


def write_back(state: Lowering, node: Node) -> None:
    """select_scatter, slice_scatter: a copy of x, then src over its window."""
    target = _copy_of(state, node)
    state.copy_into(node.inputs[1], _part(node, target))


def add_back(state: Lowering, node: Node) -> None:
    """select_add, slice_add."""
    target = _copy_of(state, node)
    part = _part(node, target)
    space = [size for size in part.dims if size != 1]
    kept = [a for a, size in enumerate(part.dims) if size != 1]
    own = _own_entries(part.dims)
    builder = KernelBuilder(space, name=node.op)
    base, entries = state.resolve(node.inputs[1], own)
    strides = [part.strides[a] for a in kept]
    old = builder.load(part.buffer, part.offset, strides)
    new = read(state, builder, base, entries, range(len(space)))
    builder.store(builder.add(Stmt("add", (old, new), part.dtype)), part.buffer, part.offset, strides)
    state.emit(builder.finish())


def _copy_of(state: Lowering, node: Node) -> Ref:
    target = state.place(node.outputs[0])
    state.copy_into(node.inputs[0], target)
    return target


def _own_entries(shape: Sequence[Size]) -> IndexMap:
    result: list[Entry] = []
    count = 0
    for size in shape:
        result.append(access.NOWHERE if size == 1 else (count, 1, 0))
        count += size != 1
    return tuple(result)


# --- indices ---


def gather_entries(node: Node, own: IndexMap) -> tuple[IndexMap, list[IndexMap]]:
    """How an `index` or `gather` reads its data (indexed axes left out) and its indices, given its result's axes."""
    x = _dims(node.inputs[0])
    if node.op == "gather":
        axis = node.attrs["axis"]
        return tuple(access.NOWHERE if a == axis else own[a] for a in range(len(x))), [own]
    return _index_entries(x, [_dims(v) for v in node.inputs[1:]], node.attrs["axes"], own)


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
    shape = index_result_shape(_dims(x), [_dims(i) for i in indices], axes)
    own = _own_entries(shape)
    data, along = _index_entries(_dims(x), [_dims(i) for i in indices], axes, own)
    _scatter(state, node, shape, data, access.broadcast(own, _dims(v), shape), v,
             list(zip(indices, along, strict=True)), axes, node.attrs["accumulate"])


def scatter(state: Lowering, node: Node) -> None:
    """scatter, scatter_add: a copy of x, then src at index i along an axis."""
    _, i, src = node.inputs
    axis = node.attrs["axis"]
    shape = _dims(i)
    own = _own_entries(shape)
    data = tuple(access.NOWHERE if a == axis else e for a, e in enumerate(own))
    _scatter(state, node, shape, data, own, src, [(i, own)], (axis,), node.op == "scatter_add")


def _scatter(state: Lowering, node: Node, shape: Sequence[Size], data: IndexMap, entries: IndexMap, value: Value,
             indices: list[tuple[Value, IndexMap]], axes: Sequence[int], accumulate: bool) -> None:
    target = _copy_of(state, node)
    space = [size for size in shape if size != 1]
    builder = KernelBuilder(space, name=node.op)
    every = range(len(space))

    def operand(v: Value, how: IndexMap) -> int:
        base, behind = state.resolve(v, how)
        return read(state, builder, base, behind, every)

    new = operand(value, entries)
    places = tuple(operand(v, e) for v, e in indices)
    strides, offset = windows(target, data, every, len(space))
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
    if node.op not in LIBRARY:
        raise NotImplementedError(f"the native backend has no form of `{node.op}`; decompose it before code generation")
    if node.op == "nonzero":
        nonzero(state, node)
        return
    values: list[Value | Ref | Size] = [state.ref(v) if isinstance(v.type, TensorType) else v for v in node.inputs]
    values += [state.place(v) for v in node.outputs]
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
    shape = _dims(x)
    count = state.allocate(int64, ())
    room = state.allocate(int64, (dims.product(shape), len(shape)))
    state.emit(CallStep(state.site("library", node), "library", None, (state.ref(x), count, room)))
    number = Value(INT)
    state.emit(LoadScalar(number, count.buffer, 0))
    state.emit(NumberStep(Node("dim.bind", (number,), {"symbol": node.binds[0]}, (Value(INT),))))
    state.set_ref(out, Ref(room.buffer, 0, _dims(out), contiguous_strides(_dims(out))))


RULES: dict[str, Callable[[Any, Node], None]] = {
    "matmul": matmul, "reshape": reshape, "cat": cat, "pad": pad,
    "select_scatter": write_back, "slice_scatter": write_back, "select_add": add_back, "slice_add": add_back,
    "index_put": index_put, "scatter": scatter, "scatter_add": scatter,
}

