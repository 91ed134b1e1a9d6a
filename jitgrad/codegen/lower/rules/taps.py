"""Kernels over windows on a device: memory read where a window's element lies, or nothing where it lies outside.

A `Space` is the space of a kernel with axes of size 1 left out. A `Tap` says where, along one axis of an image, an
element of a window is: at `place * stride + element * dilation - padding`. Read forwards (`covering`) it gives what is
there; backwards (`covers`) it gives, for an element of the image, what is at the place whose window has it as that
element. `taps` sums either over all elements of a window, in one kernel where they are few.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from jitgrad.classes import dataclass
from jitgrad.codegen.lower.kernels import KernelBuilder
from jitgrad.codegen.lower.rules.joins import constant, number
from jitgrad.codegen.lower.rules.ops import fill
from jitgrad.codegen.lower.state import Lowering
from jitgrad.codegen.program.kernel import Stmt
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import Assign, LoopStep
from jitgrad.dims import Size, Symbol, dim
from jitgrad.dtypes import bool_, float32, int64
from jitgrad.ops.types import BOOL, INT
from jitgrad.script.graph.ir import Value

#: windows of at most so many elements are summed in one kernel, without a loop over them
SUMMED = 64


@contextmanager
def repeat(state: Lowering, count: Size) -> Iterator[Size]:
    """What is emitted inside runs `count` times; gives the iteration's number, as a size."""
    if count == 1:
        yield 0
        return
    k, condition, symbol = Value(INT), Value(BOOL), Symbol()
    zero, trips = constant(state, 0), state.size_number(count)
    state.emit(Assign(((k, zero), (condition, number(state, "num.lt", zero, trips)))))
    with state.scope(), state.collecting() as steps:
        state.see((symbol,))
        number(state, "dim.bind", k, symbol=symbol)
        yield dim(symbol)
        following = number(state, "num.add", k, constant(state, 1))
        state.emit(Assign(((k, following), (condition, number(state, "num.lt", following, trips)))))
    state.emit(LoopStep(condition, steps))


class Space:
    """Statements over axes of the given sizes, the last `inner` of which are summed over. Half types are widened."""

    def __init__(self, state: Lowering, sizes: Sequence[Size], inner: int = 0, name: str = "kernel"):
        self.state, self.sizes = state, tuple(sizes)
        self.kept = [a for a, size in enumerate(sizes) if size != 1]
        self.at = {a: i for i, a in enumerate(self.kept)}
        first = len(self.sizes) - inner
        self.builder = KernelBuilder([sizes[a] for a in self.kept], frozenset(
            [i for i, a in enumerate(self.kept) if a >= first]), name)

    def along(self, strides: Sequence[Size]) -> list[Size]:
        """The strides along the axes that are kept."""
        return [strides[a] for a in self.kept if a < len(strides)]

    def compute(self, op: str, *args: int) -> int:
        """An operation on numbers of one dtype."""
        return self.builder.add(Stmt(op, args, self.builder.body[args[0]].dtype))

    def test(self, op: str, *args: int) -> int:
        """A comparison, or a connective of them."""
        return self.builder.add(Stmt(op, args, bool_))

    def load(self, ref: Ref, strides: Sequence[Size]) -> int:
        return self.wide(self.builder.load(ref.buffer, ref.offset, self.along(strides)))

    def wide(self, value: int) -> int:
        d = self.builder.body[value].dtype
        if d is not None and d.is_half:
            return self.builder.add(Stmt("cast", (value,), float32))
        return value

    def store(self, value: int, ref: Ref, strides: Sequence[Size]) -> None:
        self.builder.store(value, ref.buffer, ref.offset, self.along(strides))

    def total(self, value: int, ref: Ref) -> None:
        """Store the sum over the inner axes, and run the kernel."""
        if self.builder.inner:
            value = self.builder.add(Stmt("reduce", (value,), self.builder.body[value].dtype, fn="sum"))
        self.store(value, ref, (*ref.strides, *(0,) * (len(self.sizes) - len(ref.strides))))
        self.emit()

    def affine(self, terms: Sequence[tuple[int, int]], shift: Size) -> int:
        """The sum of indices along axes times factors, and a shift; int64."""
        total: int | None = None
        for axis, factor in terms:
            if axis not in self.at or factor == 0:
                continue
            part = self.builder.index(self.at[axis])
            if factor != 1:
                part = self.compute("mul", part, self.builder.const(factor, int64))
            total = part if total is None else self.compute("add", total, part)
        if total is None or shift != 0:
            last = self.builder.size(shift, self.state.size_number)
            total = last if total is None else self.compute("add", total, last)
        return total

    def inside(self, index: int, size: Size, before: int | None = None) -> int:
        """Whether 0 <= index < size, and what `before` says."""
        found = self.test("ge", index, self.builder.const(0, int64))
        found = found if before is None else self.test("logical_and", before, found)
        return self.test("logical_and", found,
                         self.test("lt", index, self.builder.size(size, self.state.size_number)))

    def emit(self) -> None:
        self.state.emit(self.builder.finish())


@dataclass(frozen=True, slots=True)
class Tap:
    """One axis of a window: its place is the index along axis `place` of the space, its element `at` or the index along
    axis `axis`. `outside`: elements may lie outside the image.
    """

    place: int
    stride: int
    padding: int
    dilation: int
    outside: bool
    at: Size = 0
    axis: int = -1

    @property
    def element(self) -> tuple[int, int]:
        return self.axis, self.dilation

    @property
    def start(self) -> Size:
        """What does not come from an index."""
        return (0 if self.axis >= 0 else self.at * self.dilation) - self.padding


@dataclass(slots=True)
class Reading:
    """Memory at strides over a space and at indices, where `inside` holds."""

    ref: Ref
    offset: Size
    strides: list[Size]
    indices: list[int]
    steps: list[Size]
    inside: int | None = None

    def value(self, space: Space, wide: bool = True) -> int:
        """What is there, half types widened if `wide`; 0 where `inside` does not hold."""
        builder, buffer = space.builder, self.ref.buffer
        strides = space.along(self.strides)
        if self.inside is None:
            found = builder.load(buffer, self.offset, strides)
        else:
            operand = builder.operand(buffer, self.offset, strides)
            found = builder.add(Stmt("gather", (self.inside, *self.indices), buffer.dtype, operand, fn="where",
                                     strides=tuple(self.steps)))
        return space.wide(found) if wide else found


def covering(space: Space, ref: Ref, strides: Sequence[Size], every: Sequence[Tap]) -> Reading:
    """What elements of windows are: `ref` is (..., *spatial), `strides` over the space are its other axes'."""
    found = Reading(ref, ref.offset, list(strides), [], [])
    first = len(ref.dims) - len(every)
    for tap, size, step in zip(every, ref.dims[first:], ref.strides[first:], strict=True):
        if tap.outside:
            index = space.affine(((tap.place, tap.stride), tap.element), tap.start)
            found.inside = space.inside(index, size, found.inside)
            found.indices.append(index)
            found.steps.append(step)
            continue
        found.strides[tap.place] = found.strides[tap.place] + step * tap.stride
        if tap.axis >= 0:
            found.strides[tap.axis] = found.strides[tap.axis] + step * tap.dilation
        found.offset = found.offset + step * tap.start
    return found


def covers(space: Space, ref: Ref, strides: Sequence[Size], every: Sequence[Tap],
           of_elements: Sequence[Size] = ()) -> Reading:
    """For elements of an image, along axes `place`, what is at the places that have them as the taps' elements.

    `ref` is (..., *places); what it has for each element of a window is `of_elements` apart.
    """
    found = Reading(ref, ref.offset, list(strides), [], [])
    first = len(ref.dims) - len(every)
    for tap, size, step in zip(every, ref.dims[first:], ref.strides[first:], strict=True):
        index = space.affine(((tap.place, 1), (tap.axis, -tap.dilation)), tap.start * -1)
        if tap.stride != 1:
            apart = space.builder.const(tap.stride, int64)
            whole = space.compute("floor_divide", index, apart)
            met = space.test("eq", index, space.compute("mul", whole, apart))
            found.inside = met if found.inside is None else space.test("logical_and", found.inside, met)
            index = whole
        found.inside = space.inside(index, size, found.inside)
        found.indices.append(index)
        found.steps.append(step)
    for tap, step in zip(every, of_elements, strict=False):
        if tap.axis >= 0:
            found.strides[tap.axis] = found.strides[tap.axis] + step
        else:
            found.offset = found.offset + tap.at * step
    return found


def taps(state: Lowering, kernel: Sequence[Size], target: Ref, name: str,
         value: Callable[[Space, Sequence[Size]], int], before: Callable[[Space], int] | None = None) -> None:
    """target = `before` (else 0) + the sum of value(space, at) over the elements `at` of windows, in their order.

    `before` is for windows of at most `SUMMED` elements. Half types are rounded once: sums that a loop adds to wait in
    float32.
    """
    lead, count = len(kernel), 1
    while lead:
        size = kernel[lead - 1]
        if not isinstance(size, int) or count * size > SUMMED:
            break
        lead, count = lead - 1, count * size

    def sweep(front: Sequence[Size], result: Ref, start: Callable[[Space], int] | None) -> None:
        space = Space(state, result.dims, name=name)
        total = None if start is None else start(space)
        for back in itertools.product(*[range(k) for k in kernel[lead:] if isinstance(k, int)]):
            found = value(space, (*front, *back))
            total = found if total is None else space.compute("add", total, found)
        if total is None:
            total = space.builder.const(0, result.dtype)
        space.store(total, result, result.strides)
        space.emit()

    if not lead:
        sweep((), target, before)
        return
    assert before is None
    sums = state.allocate(float32, target.dims) if target.dtype.is_half else target
    fill(state, sums, 0)
    with ExitStack() as stack:
        front = [stack.enter_context(repeat(state, k)) for k in kernel[:lead]]
        sweep(front, sums, lambda space: space.load(sums, sums.strides))
    if sums is not target:
        space = Space(state, target.dims, name=name)
        space.store(space.load(sums, sums.strides), target, target.strides)
        space.emit()
