"""Scatters in a fixed order, on a device: what goes to one place is brought together by sorting places, stably.

A `scatter_add` of a kernel adds in the order in which threads come, so that sums of floats differ in their last bits
from run to run, and the last of several writes to one place is anybody's. Where a program has to be deterministic,

    places  where each index leads, in elements of the target      a kernel over the axes that indices vary along
    order   the places sorted, equal ones as they come             argsort, by the library
    target  at each place, all that goes there, in that order      one kernel; the thread that finds a place's first
                                                                   index walks over the others

Additions are made as on the CPU, one after the other. Work grows with the indices, not with the target.
"""

from collections.abc import Sequence
from functools import reduce

from jitgrad.codegen.lower.kernels import KernelBuilder, windows
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.program.access import IndexMap, contiguous_strides
from jitgrad.codegen.program.kernel import Stmt
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import CallStep
from jitgrad.dims import Size, product
from jitgrad.dtypes import dtype, int64
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node, Value


def matters(state: Lowering, d: dtype, accumulate: bool, indices: Sequence[tuple[Value, IndexMap]]) -> bool:
    """Whether a scatter's result may depend on its order, in a program that must not; sums of integers never do."""
    return state.ordered and (d.is_floating_point or not accumulate) and bool(varies(indices))


def varies(indices: Sequence[tuple[Value, IndexMap]]) -> list[int]:
    """The axes of a space along which indices differ."""
    return sorted({axis for _, entries in indices for axis, _, _ in entries if axis >= 0})


def scatter(state: Lowering, op: str, space: Sequence[Size], target: Ref, strides: Sequence[Size], offset: Size,
            value: Value, entries: IndexMap, indices: list[tuple[Value, IndexMap]], steps: Sequence[Size]) -> None:
    """target[strides over the space + sum of index * step] = or += value, "ordered_put" or "ordered_add"."""
    axes = varies(indices)
    others = [a for a in range(len(space)) if a not in axes]
    count = product([space[a] for a in axes])
    places = _places(state, [space[a] for a in axes], [strides[a] for a in axes], indices, axes, steps)
    order = _sorted(state, places)
    source, of_source = _source(state, space, value, entries, axes, others)
    along = len(others)
    builder = KernelBuilder([count, *[space[a] for a in others]], name=op)
    builder.index(0)  # this axis is not joined with another
    at = builder.load(order.buffer, order.offset, (1, *(0,) * along))
    place = builder.add(Stmt("gather", (at,), int64, builder.operand(places.buffer, places.offset, (0,) * (along + 1)),
                             strides=(1,)))
    new = builder.add(Stmt("gather", (at,), source.dtype, builder.operand(
        source.buffer, source.offset, (0, *of_source[1:])), strides=(of_source[0],)))
    number = builder.operand(target.buffer, offset, (0, *[strides[a] for a in others]), "inout")
    builder.body.append(Stmt(op, (new, place), operand=number, strides=(1,)))
    state.emit(builder.finish())


def _places(state: Lowering, space: Sequence[Size], strides: Sequence[Size], indices: list[tuple[Value, IndexMap]],
            axes: Sequence[int], steps: Sequence[Size]) -> Ref:
    """Where each index leads, int64, in row-major order."""
    own = {a: i for i, a in enumerate(axes)}
    found = state.allocate(int64, (product(space),))
    builder = KernelBuilder(space, name="places")
    terms: list[tuple[int, Size]] = []
    for (index, entries), step in zip(indices, steps, strict=True):
        base, behind = state.resolve(index, entries)
        behind = tuple((own[a] if a >= 0 else a, f, s) for a, f, s in behind)
        terms.append((state.read(builder, base, behind, range(len(space))), step))
    terms += [(builder.index(i), stride) for i, stride in enumerate(strides) if stride != 0]

    def place(term: tuple[int, Size]) -> int:
        part, step = term
        return part if step == 1 else builder.add(Stmt("mul", (part, builder.size(step, state.size_number)), int64))

    total = reduce(lambda a, b: builder.add(Stmt("add", (a, b), int64)), map(place, terms))
    builder.store(total, found.buffer, found.offset, contiguous_strides(space))
    state.emit(builder.finish())
    return found


def _sorted(state: Lowering, places: Ref) -> Ref:
    """The order of the places: a call of the library's stable sort."""
    type_ = TensorType(int64, places.dims)
    node = Node("argsort", (Value(type_),), {"axis": 0, "descending": False, "stable": True}, (Value(type_),))
    order = state.allocate(int64, places.dims)
    state.emit(CallStep(state.site("library", node), "library", None, (places, order)))
    return order


def _source(state: Lowering, space: Sequence[Size], value: Value, entries: IndexMap, axes: Sequence[int],
            others: Sequence[int]) -> tuple[Ref, tuple[Size, ...]]:
    """The value in memory, and its strides over (all `axes` as one, *others)."""
    base, behind = state.resolve(value, entries)
    if len(axes) == 1 and not state.is_inline(base) and not state.in_register(base):
        ref = state.ref(base)
        strides, offset = windows(ref, behind, range(len(space)), len(space))
        return Ref(ref.buffer, offset, ref.dims, ref.strides), (strides[axes[0]], *[strides[a] for a in others])
    order = [*axes, *others]
    dims = [space[a] for a in order]
    position = {a: i for i, a in enumerate(order)}
    builder = KernelBuilder(dims, name="copy")
    behind = tuple((position[a] if a >= 0 else a, f, s) for a, f, s in behind)
    new = state.read(builder, base, behind, range(len(dims)))
    target = state.allocate(tensor(value).dtype, dims)
    builder.store(new, target.buffer, target.offset, target.strides)
    state.emit(builder.finish())
    step: Size = product(dims[len(axes):])
    return target, (step, *target.strides[len(axes):])
