"""Convolutions: of float32 and float64 by our own functions; of other types the windows of one image at a time as the
columns of a matrix, and matrix products with those.

One image's columns, of (channels * kernel) x windows, are all the memory that a batch of any size needs. Padding is a
frame of zeros around a copy of the image, written once; a kernel of one element without padding needs neither copy
nor columns. All sizes are run-time values; a loop over the kernel's elements is a loop.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from jitgrad.codegen.lower.device import conv as device_conv
from jitgrad.codegen.lower.rules.geometry import Geometry
from jitgrad.codegen.lower.rules.ops import fill
from jitgrad.codegen.lower.rules.taps import repeat
from jitgrad.codegen.lower.rules.windows import copy, image_of
from jitgrad.codegen.lower.state import Lowering
from jitgrad.codegen.program.access import is_contiguous
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import ConvolutionStep
from jitgrad.dims import Size, product
from jitgrad.kernels.tiled.convolution import Layout
from jitgrad.kernels.tiled.tiles import ELEMENTS
from jitgrad.script.graph.ir import Node


class Columns:
    """Makes the columns of one image after the other."""

    def __init__(self, state: Lowering, geometry: Geometry, x: Ref):
        self.state, self.geometry, self.x = state, geometry, x
        shape = (geometry.channels, *geometry.kernel, *geometry.counts)
        self.direct = geometry.trivial and is_contiguous(x.dims[1:], x.strides[1:])
        self.columns = None if self.direct else state.allocate(x.dtype, shape)
        self.frame: Ref | None = None
        if not self.direct and any(geometry.padding):
            self.frame = state.allocate(x.dtype, (geometry.channels, *geometry.padded))
            fill(state, self.frame, 0)

    def of(self, i: Size) -> Ref:
        """The columns of image i."""
        image = image_of(self.x, i)
        if self.columns is None:
            return image
        if self.frame is not None:
            copy(self.state, image, self.geometry.inside(self.frame))
            image = self.frame
        copy(self.state, self.geometry.windows(image), self.columns)
        return self.columns


def convolution(roles: str, state: Lowering, node: Node) -> None:
    """The images x, the weight w or the results y of a convolution from the other two, in row-major order.

    `roles` are what the op reads, in order, and what it makes.
    """
    given = [state.ref(v) if role == "x" else state.contiguous(v) for role, v in zip(roles, node.inputs, strict=False)]
    target = made = state.place(node.outputs[0])
    if not is_contiguous(target.dims, target.strides):
        made = state.allocate(target.dtype, target.dims)
    refs = dict(zip(roles, (*given, made), strict=True))
    x, w, y = (refs[role] for role in "xwy")
    G = Geometry(node, x.dims, w.dims, y.dims)
    if not state.device and not G.trivial and target.dtype.name in ELEMENTS:
        _direct(state, node, roles[-1], x, w, y)
    elif state.device:
        device_conv.convolution(state, G, roles[-1], x, w, y)
    else:
        _MAKE[roles[-1]](state, G, x, w, y)
    if made is not target:
        copy(state, made, target)


def _direct(state: Lowering, node: Node, role: str, x: Ref, w: Ref, y: Ref) -> None:
    """Without columns: `kernels/tiled/convolution.py`."""
    attrs = node.attrs
    layout = Layout(x.dims, w.dims, y.dims, x.strides, attrs["stride"], attrs["padding"], attrs["dilation"],
                    attrs["groups"], role, x.dtype.itemsize)
    scratch = state.allocate(x.dtype, (layout.scratch,))
    state.emit(ConvolutionStep(role, layout.words, layout.loops, x, w, y, (scratch,)))


def _results(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    """y = w @ columns, image by image."""
    columns = Columns(state, G, x)
    with repeat(state, x.dims[0]) as i:
        state.emit(G.product((G.outputs, G.plane, G.depth), w, columns.of(i), image_of(y, i)))


def _weight(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    """w = the sum over the images of y @ columns^T."""
    fill(state, Ref(w.buffer, w.offset, (product(w.dims),), (1,)), 0)
    columns = Columns(state, G, x)
    with repeat(state, x.dims[0]) as i:
        b = columns.of(i)
        state.emit(G.product((G.outputs, G.depth, G.plane), image_of(y, i), b, w, trans_b=True, accumulate=True))


def _images(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    """x: the columns w^T @ y, each added where it came from."""
    columns = None if G.trivial else state.allocate(x.dtype, (G.channels, *G.kernel, *G.counts))
    frame = state.allocate(x.dtype, (G.channels, *G.padded)) if any(G.padding) else None
    with repeat(state, x.dims[0]) as i:
        image = image_of(x, i)
        state.emit(G.product((G.depth, G.plane, G.outputs), w, image_of(y, i), columns or image, trans_a=True))
        if columns is not None:
            _gather_columns(state, G, columns, frame or image)
        if frame is not None:
            copy(state, G.inside(frame), image)


def _gather_columns(state: Lowering, G: Geometry, columns: Ref, image: Ref) -> None:
    """image = the sum of the columns, one element of the kernel after the other."""
    fill(state, Ref(image.buffer, image.offset, (product(image.dims),), (1,)), 0)
    target = G.windows(image)
    rank = len(G.kernel)
    with ExitStack() as stack:
        offsets = columns.offset, target.offset
        for axis, k in enumerate(G.kernel, 1):
            at = stack.enter_context(repeat(state, k))
            offsets = offsets[0] + at * columns.strides[axis], offsets[1] + at * target.strides[axis]

        def part(ref: Ref, offset: Size) -> Ref:
            return Ref(ref.buffer, offset, (ref.dims[0], *ref.dims[rank + 1:]),
                       (ref.strides[0], *ref.strides[rank + 1:]))

        copy(state, part(columns, offsets[0]), part(target, offsets[1]), add=True)


_MAKE = {"x": _images, "w": _weight, "y": _results}
RULES: dict[str, Callable[[Lowering, Node], None]] = {
    "conv": partial(convolution, "xwy"), "conv_transpose": partial(convolution, "ywx"),
    "conv_weight": partial(convolution, "yxw")}
