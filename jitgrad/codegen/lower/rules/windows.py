"""Sliding windows: a strided view of memory in which elements repeat; sums and maxima over windows."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from jitgrad.codegen.lower.kernels import KernelBuilder
from jitgrad.codegen.lower.rules.ops import fill
from jitgrad.codegen.lower.rules.taps import SUMMED, Space, Tap, covering, covers, repeat, taps
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.program.access import axes_of
from jitgrad.codegen.program.kernel import Stmt
from jitgrad.codegen.program.step import Ref
from jitgrad.dims import Size, call
from jitgrad.dtypes import bool_, dtype, int64
from jitgrad.ops.specs import windows_count
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node, Value

#: windows of at most so many elements are compared in one kernel, without a loop over them
UNROLLED = 32


def image_of(ref: Ref, i: Size) -> Ref:
    """Image i of a batch."""
    return Ref(ref.buffer, ref.offset + i * ref.strides[0], ref.dims[1:], ref.strides[1:])


def copy(state: Lowering, source: Ref, target: Ref, add: bool = False) -> None:
    """target[...] = source, or += if `add`."""
    kept = [a for a, size in enumerate(target.dims) if size != 1]
    builder = KernelBuilder([target.dims[a] for a in kept], name="windows_add" if add else "windows")
    value = builder.load(source.buffer, source.offset, [source.strides[a] for a in kept])
    strides = [target.strides[a] for a in kept]
    if add:
        old = builder.load(target.buffer, target.offset, strides)
        value = builder.add(Stmt("add", (old, value), target.dtype))
    builder.store(value, target.buffer, target.offset, strides)
    state.emit(builder.finish())


def _along(ref: Ref, axis: int, size: Size, count: Size, step: int, dilation: int) -> Ref:
    """Windows of memory along an axis, the window as a new last axis."""
    stride = ref.strides[axis]
    return Ref(ref.buffer, ref.offset, (*ref.dims[:axis], count, *ref.dims[axis + 1:], size),
               (*ref.strides[:axis], stride * step, *ref.strides[axis + 1:], stride * dilation))


def windows(state: Lowering, node: Node) -> None:
    """A window on the same memory."""
    attrs, out = node.attrs, node.outputs[0]
    axis = attrs["axis"]
    count = tensor(out).dims[axis]
    ref = state.ref(node.inputs[0])
    state.set_ref(out, _along(ref, axis, attrs["size"], count, attrs["step"], attrs["dilation"]))


def windows_add(state: Lowering, node: Node) -> None:
    """A copy of x, and src added element of the window by element; on a device by one kernel for all elements."""
    attrs, (x, src) = node.attrs, node.inputs
    axis = attrs["axis"]
    dims = tensor(src).dims
    if state.device and isinstance(dims[-1], int) and dims[-1] <= SUMMED and isinstance(attrs["step"], int):
        _windows_add_at_once(state, node)
        return
    target = state.place(node.outputs[0])
    state.copy_into(x, target)
    overlay = _along(target, axis, dims[-1], dims[axis], attrs["step"], attrs["dilation"])
    with repeat(state, dims[-1]) as k:
        element = Value(TensorType(target.dtype, dims[:-1]))
        state.views[element] = Node("select", (src,), {"axis": len(dims) - 1, "index": k}, (element,))
        offset = overlay.offset + k * overlay.strides[-1]
        state.copy_into(element, Ref(target.buffer, offset, dims[:-1], overlay.strides[:-1]), adding="windows_add")


def _windows_add_at_once(state: Lowering, node: Node) -> None:
    """Each element of x, and what src has for it in the windows that cover it."""
    attrs, (x, src) = node.attrs, node.inputs
    axis, source = attrs["axis"], state.ref(src)
    target = state.place(node.outputs[0])
    rank = len(target.dims)
    # src as (..., places): the others first, the window's axis out
    others = [a for a in range(rank) if a != axis]
    view = Ref(source.buffer, source.offset, (*(source.dims[a] for a in others), source.dims[axis]),
               (*(source.strides[a] for a in others), source.strides[axis]))
    strides = tuple(0 if a == axis else source.strides[a] for a in range(rank))

    def value(space: Space, at: Sequence[Size]) -> int:
        tap = Tap(axis, attrs["step"], 0, attrs["dilation"], True, at[0])
        return covers(space, view, strides, [tap], source.strides[-1:]).value(space)

    def before(space: Space) -> int:
        base, entries = state.resolve(x, axes_of(target.dims)[1])
        return space.wide(state.read(space.builder, base, entries, range(len(space.kept))))

    taps(state, source.dims[-1:], target, "windows_add", value, before)


# --- maxima --------------------------------------------------------------------------------------------------------


def max_pool(state: Lowering, node: Node) -> None:
    """All images at once or, where windows reach over the edge, one framed image at a time; a device has no frames."""
    x, attrs = state.ref(node.inputs[0]), node.attrs
    values, indices = (state.place(v) for v in node.outputs)
    spatial = x.dims[2:]
    counts = [windows_count(n + 2 * p, k, s, d) for n, k, s, p, d in zip(
        spatial, attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"], strict=True)]
    inside = all(m == c for m, c in zip(attrs["shape"], counts, strict=True))
    over = not inside or any(attrs["padding"])
    if state.device or not over:
        _Maxima(state, attrs, spatial, x, values, indices, framed=over, bare=over).emit()
        return
    frame = state.allocate(x.dtype, (x.dims[1], *_framed_sizes(spatial, attrs, inside)))
    fill(state, frame, _lowest(x.dtype))
    offset = frame.offset
    for p, t in zip(attrs["padding"], frame.strides[1:], strict=True):
        offset = offset + t * p
    interior = Ref(frame.buffer, offset, x.dims[1:], frame.strides)
    with repeat(state, x.dims[0]) as i:
        copy(state, image_of(x, i), interior)
        whole = Ref(frame.buffer, frame.offset, (1, *frame.dims), (0, *frame.strides))
        one, other = (Ref(r.buffer, r.offset + i * r.strides[0], (1, *r.dims[1:]), r.strides)
                      for r in (values, indices))
        _Maxima(state, attrs, spatial, whole, one, other, framed=True).emit()


def _framed_sizes(spatial: Sequence[Size], attrs: Mapping[str, Any], inside: bool) -> list[Size]:
    """Sizes of a frame into which all windows fit."""
    sizes: list[Size] = []
    for n, m, k, s, p, d in zip(spatial, attrs["shape"], attrs["kernel"], attrs["stride"], attrs["padding"],
                                attrs["dilation"], strict=True):
        padded = n + 2 * p
        sizes.append(padded if inside else call("max", padded, (m - 1) * s + (k - 1) * d + 1))
    return sizes


def _lowest(d: dtype) -> float | int:
    return float("-inf") if d.is_floating_point else int(np.iinfo(d.name).min)


class _Maxima:
    """Maxima over windows of x, whose frame starts `padding` before index 0, and where they come from.

    `bare`: there is no frame, what lies in it is not read.
    The elements of a small window are compared in one kernel; those of a large one in a loop, the best so far being
    kept in the results' memory.
    """

    def __init__(self, state: Lowering, attrs: Mapping[str, Any], spatial: Sequence[Size], x: Ref, values: Ref,
                 indices: Ref, framed: bool, bare: bool = False):
        self.state, self.attrs, self.spatial, self.framed, self.bare = state, attrs, spatial, framed, bare
        self.x, self.values, self.indices = x, values, indices
        self.begin()

    def emit(self) -> None:
        kernel: tuple[int, ...] = self.attrs["kernel"]
        if math.prod(kernel) <= UNROLLED:
            values, indices = self.start()
            for at in itertools.product(*map(range, kernel)):
                values, indices = self.better(values, indices, at)
            self.end(values, indices)
            return
        self.end(*self.start())
        with ExitStack() as stack:
            place = [stack.enter_context(repeat(self.state, k)) for k in kernel]
            self.begin()
            values, indices = (self.builder.load(r.buffer, r.offset, self.along(r))
                               for r in (self.values, self.indices))
            self.end(*self.better(values, indices, place))

    def begin(self) -> None:
        self.space = Space(self.state, self.values.dims, name="max_pool")
        self.builder, self.kept = self.space.builder, self.space.kept

    def end(self, values: int, indices: int) -> None:
        for value, ref in ((values, self.values), (indices, self.indices)):
            self.builder.store(value, ref.buffer, ref.offset, self.along(ref))
        self.state.emit(self.builder.finish())

    def along(self, ref: Ref) -> list[Size]:
        return [ref.strides[a] for a in self.kept]

    def place(self, shifts: Sequence[Size], clip: bool = False) -> int:
        """The flat index, in the plane without its frame, of an element `shifts` after the start of its window."""
        builder, number = self.builder, self.state.size_number
        total: int | None = None
        for axis, (n, s, p, shift) in enumerate(zip(self.spatial, self.attrs["stride"], self.attrs["padding"], shifts,
                                                    strict=True)):
            where = self.kept.index(axis + 2) if axis + 2 in self.kept else -1
            i = builder.affine((where, s, shift - p), range(len(self.kept)), number)
            if clip:
                i = builder.add(Stmt("maximum", (i, builder.const(0, int64)), int64))
            if total is None:
                total = i
            else:
                row = builder.add(Stmt("mul", (total, builder.size(n, number)), int64))
                total = builder.add(Stmt("add", (row, i), int64))
        assert total is not None
        return total

    def start(self) -> tuple[int, int]:
        """Before any element: less than all of them, at the first that is not in the frame."""
        return self.builder.const(_lowest(self.x.dtype), self.x.dtype), self.place([0] * len(self.spatial), self.framed)

    def better(self, values: int, indices: int, at: Sequence[Size]) -> tuple[int, int]:
        """The better of what was found and element `at` of the window, which NaN always is."""
        builder, d = self.builder, self.x.dtype
        shifts = [k * e for k, e in zip(at, self.attrs["dilation"], strict=True)]
        value = self.bare_element(at) if self.bare else self.element(shifts)
        more = builder.add(Stmt("gt", (value, values), bool_))
        if d.is_floating_point:
            nan = builder.add(Stmt("ne", (value, value), bool_))
            more = builder.add(Stmt("logical_or", (more, nan), bool_))
        return (builder.add(Stmt("where", (more, value, values), d)),
                builder.add(Stmt("where", (more, self.place(shifts), indices), int64)))

    def element(self, shifts: Sequence[Size]) -> int:
        """The element `shifts` after the start of each window."""
        x = self.x
        steps = [*x.strides[:2], *(t * s for t, s in zip(x.strides[2:], self.attrs["stride"], strict=True))]
        offset = x.offset
        for shift, t in zip(shifts, x.strides[2:], strict=True):
            offset = offset + shift * t
        return self.builder.load(x.buffer, offset, [steps[a] for a in self.kept])

    def bare_element(self, at: Sequence[Size]) -> int:
        """Element `at` of each window, the lowest number where there is none."""
        x, attrs = self.x, self.attrs
        every = [Tap(2 + a, s, p, d, True, at[a]) for a, (s, p, d) in enumerate(
            zip(attrs["stride"], attrs["padding"], attrs["dilation"], strict=True))]
        found = covering(self.space, x, (*x.strides[:2], *(0,) * len(every)), every)
        assert found.inside is not None
        low = self.builder.const(_lowest(x.dtype), x.dtype)
        return self.builder.add(Stmt("where", (found.inside, found.value(self.space, wide=False), low), x.dtype))


RULES: dict[str, Callable[[Lowering, Node], None]] = {
    "windows": windows, "windows_add": windows_add, "max_pool": max_pool}
