"""Convolutions on a device: all images at once, so that the number of launches does not depend on the batch.

    y   w @ columns, a product for each image, in one call        columns: (N, C, *kernel, *counts)
    gx  columns = w^T @ gy, in one call; each element then sums what it gave to windows
    gw  gy @ columns^T, one product over images and places        gy: (O, N, *counts), columns: (C, *kernel, N, *counts)

One kernel makes the columns, padding included; those of more than `COLUMNS` bytes are made for some images after the
other, as many as the run's sizes say. A kernel of one element has no columns, and of half types some convolutions do
without (`device/tiled.py`). Where each output reads one channel (depthwise), and for numbers that the library of
products does not have, kernels sum the products themselves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jitgrad.codegen.lower.device import tiled
from jitgrad.codegen.lower.rules.geometry import Geometry
from jitgrad.codegen.lower.rules.taps import Space, Tap, covering, covers, repeat, taps
from jitgrad.codegen.lower.state import Lowering
from jitgrad.codegen.program.access import contiguous_strides, is_contiguous
from jitgrad.codegen.program.step import Ref
from jitgrad.dims import Size, call, floordiv, product
from jitgrad.dtypes import dtype

#: the most bytes of columns at a time, unless one image has more
COLUMNS = 1 << 28


class Chunks:
    """Images in turns: as many at a time as have `COLUMNS` bytes, where each has `size` elements of columns."""

    def __init__(self, state: Lowering, images: Size, size: Size, d: dtype):
        self.state, self.images = state, images
        self.step = call("max", 1, floordiv(COLUMNS // d.itemsize, call("max", 1, size)))
        self.most = call("min", images, self.step)

    @contextmanager
    def each(self) -> Iterator[tuple[Size, Size]]:
        """What is emitted inside runs for each chunk; gives its first image and how many it has."""
        with repeat(self.state, floordiv(self.images + self.step - 1, self.step)) as i:
            yield i * self.step, call("min", self.step, self.images - i * self.step)

    def then(self, emit: Callable[[Size, Size, bool], None]) -> None:
        """Emit for the first chunk, which may be empty, and (with True) for those after it."""
        emit(0, self.most, False)
        if self.most == self.images and isinstance(self.images, int):
            return
        with repeat(self.state, floordiv(self.images - 1, self.step)) as i:
            start = (i + 1) * self.step
            emit(start, call("min", self.step, self.images - start), True)


def convolution(state: Lowering, G: Geometry, role: str, x: Ref, w: Ref, y: Ref) -> None:
    """The images x, the weight w or the results y, contiguous, from the other two; w and y are contiguous."""
    (_DIRECT if not w.dtype.is_floating_point or G.depthwise else _PRODUCTS)[role](state, G, x, w, y)


def _results(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    def multiply(b: Ref, c: Ref, count: Size) -> None:
        state.emit(G.product((G.outputs, G.plane, G.depth), w, b, c, images=count))

    images = y.dims[0]
    if G.trivial and is_contiguous(x.dims[1:], x.strides[1:]):
        multiply(x, y, images)
        return
    apart = tiled.without_columns(state, G, x.dtype, images)
    if apart != 0:
        tiled.results(state, G, x, w, y, apart)
    if apart == images:
        return
    chunks = Chunks(state, images - apart, G.groups * G.depth * G.plane, x.dtype)
    columns = state.allocate(x.dtype, (chunks.most, G.channels, *G.kernel, *G.counts))
    with chunks.each() as (start, count):
        _make_columns(state, G, _from(x, start), columns, count, columns.strides)
        multiply(columns, _from(y, start), count)


def _images(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    def multiply(b: Ref, c: Ref, count: Size) -> None:
        state.emit(G.product((G.depth, G.plane, G.outputs), w, b, c, trans_a=True, images=count))

    if G.trivial:
        multiply(y, x, x.dims[0])
        return
    if tiled.gradient_without_columns(state, G, x.dtype, x.dims[0]):
        tiled.gradient(state, G, x, w, y)
        return
    chunks = Chunks(state, x.dims[0], G.groups * G.depth * G.plane, x.dtype)
    columns = state.allocate(x.dtype, (chunks.most, G.channels, *G.kernel, *G.counts))
    with chunks.each() as (start, count):
        multiply(_from(y, start), columns, count)
        _sum_columns(state, G, columns, _from(x, start), count)


def _weight(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    images = y.dims[0]
    apart = tiled.without_columns(state, G, x.dtype, images)
    if apart != 0:
        tiled.weight(state, G, x, w, y, apart)
        if apart == images:
            return
    chunks = Chunks(state, images - apart, G.groups * G.depth * G.plane, x.dtype)
    columns = state.allocate(x.dtype, (G.channels, *G.kernel, chunks.most, *G.counts))
    rows = y if images == 1 else state.allocate(y.dtype, (y.dims[1], chunks.most, *G.counts))
    rank = len(G.kernel)

    def emit(start: Size, count: Size, more: bool) -> None:
        channel, *steps = contiguous_strides((G.channels, *G.kernel, count, *G.counts))
        _make_columns(state, G, _from(x, start), columns, count,
                      (steps[rank], channel, *steps[:rank], *steps[rank + 1:]))
        if rows is not y:
            _swap(state, _from(y, start), rows, count)
        state.emit(G.product((G.outputs, G.depth, count * G.plane), rows, columns, w, trans_b=True, accumulate=more))

    if apart == 0:
        chunks.then(emit)
        return
    with chunks.each() as (start, count):
        emit(start, count, True)


def _from(ref: Ref, start: Size) -> Ref:
    """A batch from image `start` on."""
    return Ref(ref.buffer, ref.offset + start * ref.strides[0], ref.dims, ref.strides)


def _swap(state: Lowering, g: Ref, rows: Ref, count: Size) -> None:
    """rows[o, n, ...] = g[n, o, ...] of `count` images."""
    plane: Size = product(g.dims[2:])
    space = Space(state, (g.dims[1], count, plane), name="conv_rows")
    value = space.load(g, (g.strides[1], g.strides[0], 1))
    space.store(value, rows, (count * plane, plane, 1))
    space.emit()


def _make_columns(state: Lowering, G: Geometry, x: Ref, columns: Ref, count: Size, strides: Sequence[Size]) -> None:
    """Element k of the window at each place, zero in the padding. `strides`: of (N, C, *kernel, *counts)."""
    rank = len(G.kernel)
    space = Space(state, (count, G.channels, *G.kernel, *G.counts), name="columns")
    found = covering(space, x, (*x.strides[:2], *(0,) * 2 * rank), _along(G, 2 + rank, axis=2))
    space.store(found.value(space), columns, strides)
    space.emit()


def _sum_columns(state: Lowering, G: Geometry, columns: Ref, x: Ref, count: Size) -> None:
    """x = the sum of the columns: for each element what it is in the windows that cover it."""
    rank = len(G.kernel)
    target = Ref(x.buffer, x.offset, (count, *x.dims[1:]), x.strides)
    strides = (*columns.strides[:2], *(0,) * rank)

    def value(space: Space, at: Sequence[Size]) -> int:
        return covers(space, columns, strides, _along(G, 2, at), columns.strides[2:2 + rank]).value(space)

    taps(state, G.kernel, target, "conv_transpose", value)


def _along(G: Geometry, place: int, at: Sequence[Size] = (), axis: int = -1) -> list[Tap]:
    """The taps of each axis: places from axis `place` of a space on, elements `at` or from axis `axis` on."""
    return [Tap(place + a, s, p, d, p != 0, 0 if axis >= 0 else at[a], axis + a if axis >= 0 else -1)
            for a, (s, p, d) in enumerate(zip(G.stride, G.padding, G.dilation, strict=True))]


# --- without products of matrices ----------------------------------------------------------------------------------


def _split(ref: Ref, axis: int, size: Size) -> tuple[Size, Size]:
    """Strides of an axis as (groups, size)."""
    return ref.strides[axis] * size, ref.strides[axis]


def _direct_results(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    """y[n, g, o, i] = the sum over c, k of w[g, o, c, k] x[n, g, c, i * stride + k * dilation]."""
    none = (0,) * len(G.kernel)
    of_w, of_x, of_y = _split(w, 0, G.outputs), _split(x, 1, w.dims[1]), _split(y, 1, G.outputs)
    outer = (x.dims[0], G.groups, G.outputs, *G.counts)
    target = Ref(y.buffer, y.offset, outer, (y.strides[0], *of_y, *y.strides[2:]))
    if G.depthwise:
        def value(space: Space, at: Sequence[Size]) -> int:
            found = covering(space, x, (x.strides[0], of_x[0], 0, *none), _along(G, 3, at)).value(space)
            return space.compute("mul", found, space.load(_shifted(w, at), (0, *of_w, *none)))

        taps(state, G.kernel, target, "conv", value)
        return
    rank = len(none)
    space = Space(state, (*outer, w.dims[1], *G.kernel), 1 + rank, "conv")
    found = covering(space, x, (x.strides[0], of_x[0], 0, *none, of_x[1], *none), _along(G, 3, axis=4 + rank))
    weight = space.load(w, (0, *of_w, *none, *w.strides[1:]))
    space.total(space.compute("mul", found.value(space), weight), target)


def _direct_images(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    """x[n, g, c, j] = the sum over o, k of w[g, o, c, k] y[n, g, o, i], where j = i * stride + k * dilation."""
    none = (0,) * len(G.kernel)
    of_w, of_y, of_x = _split(w, 0, G.outputs), _split(y, 1, G.outputs), _split(x, 1, w.dims[1])
    outer = (x.dims[0], G.groups, w.dims[1], *G.spatial)
    target = Ref(x.buffer, x.offset, outer, (x.strides[0], *of_x, *x.strides[2:]))
    if G.depthwise and G.outputs == 1:
        def value(space: Space, at: Sequence[Size]) -> int:
            found = covers(space, y, (y.strides[0], of_y[0], 0, *none), _along(G, 3, at)).value(space)
            return space.compute("mul", found, space.load(_shifted(w, at), (0, of_w[0], 0, *none)))

        taps(state, G.kernel, target, "conv_transpose", value)
        return
    rank = len(none)
    space = Space(state, (*outer, G.outputs, *G.kernel), 1 + rank, "conv_transpose")
    found = covers(space, y, (y.strides[0], of_y[0], 0, *none, of_y[1], *none), _along(G, 3, axis=4 + rank))
    weight = space.load(w, (0, of_w[0], w.strides[1], *none, of_w[1], *w.strides[2:]))
    space.total(space.compute("mul", found.value(space), weight), target)


def _direct_weight(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    """w[g, o, c, k] = the sum over n, i of y[n, g, o, i] x[n, g, c, i * stride + k * dilation]."""
    rank, none = len(G.kernel), (0,) * len(G.kernel)
    of_w, of_y, of_x = _split(w, 0, G.outputs), _split(y, 1, G.outputs), _split(x, 1, w.dims[1])
    outer = (G.groups, G.outputs, w.dims[1], *G.kernel)
    space = Space(state, (*outer, y.dims[0], *G.counts), 1 + rank, "conv_weight")
    found = covering(space, x, (of_x[0], 0, of_x[1], *none, x.strides[0], *none), _along(G, 4 + rank, axis=3))
    other = space.load(y, (*of_y, 0, *none, y.strides[0], *y.strides[2:]))
    space.total(space.compute("mul", other, found.value(space)),
                Ref(w.buffer, w.offset, outer, (*of_w, *w.strides[1:])))


def _shifted(w: Ref, at: Sequence[Size]) -> Ref:
    """The weight from element `at` on."""
    offset = w.offset
    for k, stride in zip(at, w.strides[2:], strict=True):
        offset = offset + k * stride
    return Ref(w.buffer, offset, w.dims, w.strides)


_PRODUCTS = {"x": _images, "w": _weight, "y": _results}
_DIRECT = {"x": _direct_images, "w": _direct_weight, "y": _direct_results}
