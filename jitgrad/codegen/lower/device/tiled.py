"""Convolutions of half types on a device without columns: which, and as steps (`cuda/kernels/tiled/convolution.py`).

A product of columns in memory is cuBLASLt's, at nearly the speed of the tensor cores; the kernel that gathers columns
while it multiplies has its addresses to compute besides. It is worth it where the columns themselves are what is waited
for:

- With few rows of columns (`SHALLOW`) a product reads and writes more than it computes, whatever its other sizes: with
  k rows and m outputs an element that is moved takes part in k * m / (k + m) multiplications, fewer than k, of which an
  A100's tensor cores do 156 (312 TFLOP/s) in the time in which its memory moves an element (2 TB/s), newer ones' more.
- One image's columns and the weight of more than `CACHE` bytes are not in the cache (L2: 40 MB and 50 MB on an A100 and
  H100) when they are multiplied: they go through memory twice, and are kernel times as large as the image.

What is between is left to cuBLASLt until it is measured (`python -m tools.devcheck --only convolutions` runs both
ways).

The gradient of images is the same for a stride of 1, on the weight turned and transposed; it is rounded once then, as
columns of half types that are summed would not be. With a stride s along an axis only those elements k of a window give
to a place for which k * dilation and the place plus the padding have one remainder modulo s. They are the same for all
places that are s apart: these are made by a convolution of stride 1 with such elements of the weight, all places by as
many as there are remainders (`PHASES`). Nothing is divided, nor multiplied by the zeros between results.

The gradient of the weight, y @ columns^T, has the same rows, outputs and columns, so that the same is waited for: what
is made without columns has a gradient without. Its sum is over all places of all images, and its results may be those
of one block: blocks share the places (`BLOCKS`), and the sum of their parts is rounded once. Where images fit the cache
but not the columns of all of them, products may be waiting too; that is between.
"""

import itertools
import math
from collections.abc import Sequence

from jitgrad.classes import dataclass
from jitgrad.codegen.lower.rules.geometry import Geometry
from jitgrad.codegen.lower.rules.taps import Space
from jitgrad.codegen.lower.rules.windows import copy
from jitgrad.codegen.lower.state import Lowering
from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import ConvolutionStep
from jitgrad.dims import Size, call, floordiv, product
from jitgrad.dtypes import dtype, float32

#: the most convolutions of a gradient of images: each is a launch, and the copy of its part of the weight another
PHASES = 8
SHALLOW = 156
CACHE = 48 << 20
#: the most blocks that share a weight's places: of 132 multiprocessors each gets four, or twice two of twice the size
BLOCKS = 132 * 4
#: results of a block at most, outputs by rows of columns; places for which the sums that it writes are little
RESULTS, ENOUGH = (128, 64), 512


def without_columns(state: Lowering, G: Geometry, d: dtype, images: Size) -> Size:
    """How many of the images have their results made without columns: all or none, as perhaps the run's sizes say."""
    return _chosen(state, d, images, G.depth, G.groups * G.depth * (G.plane + G.outputs))


def gradient_without_columns(state: Lowering, G: Geometry, d: dtype, images: Size) -> bool:
    """Whether images are made from results without columns; never where there are none."""
    depth = product((G.outputs, *[_parts(k, s) for k, s in zip(G.kernel, G.stride, strict=True)]))
    numbers = G.groups * depth * product(G.spatial) + G.groups * G.depth * G.outputs
    return images != 0 and math.prod(G.stride) <= PHASES and _chosen(state, d, images, depth, numbers) == images


def _chosen(state: Lowering, d: dtype, images: Size, depth: Size, numbers: Size) -> Size:
    if not d.is_half or not state.tiles:
        return 0
    shallow = call("min", 1, floordiv(SHALLOW, call("max", 1, depth)))
    return images if shallow == 1 else images * call(
        "max", shallow, call("min", 1, floordiv(numbers * d.itemsize, CACHE)))


def results(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref, images: Size) -> None:
    """The results of the first images."""
    _emit(state, "y", G.groups, x, w, Ref(y.buffer, y.offset, (images, *y.dims[1:]), y.strides), G.stride, G.padding,
          G.dilation)


def weight(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref, images: Size) -> None:
    """The gradient of the weight from the first images; zeros where there are none."""
    blocks = G.groups * _parts(G.outputs, RESULTS[0]) * _parts(G.depth, RESULTS[1])
    parts = call("max", 1, call("min", floordiv(BLOCKS, call("max", 1, blocks)), floordiv(images * G.plane, ENOUGH)))
    sums = state.allocate(float32, (parts, *w.dims))
    _emit(state, "w", G.groups, x, sums, Ref(y.buffer, y.offset, (images, *y.dims[1:]), y.strides), G.stride, G.padding,
          G.dilation, (parts,))
    size = product(w.dims)
    space = Space(state, (size, parts), 1, "conv_weight")
    space.total(space.load(sums, (1, size)), Ref(w.buffer, w.offset, (size,), (1,)))


def gradient(state: Lowering, G: Geometry, x: Ref, w: Ref, y: Ref) -> None:
    """The images: for each channel the sum over what the outputs gave to windows, from the last element on."""
    for firsts in itertools.product(*map(range, G.stride)):
        phases = [_phase(*of) for of in zip(firsts, G.kernel, G.stride, G.padding, G.dilation, strict=True)]
        offset, steps = w.offset, []
        for phase, stride in zip(phases, w.strides[2:], strict=True):
            offset = offset + (phase.element + (phase.kernel - 1) * phase.step) * stride
            steps.append(-phase.step * stride)
        turned = state.allocate(w.dtype, (G.groups, w.dims[1], G.outputs, *[phase.kernel for phase in phases]))
        copy(state, Ref(w.buffer, offset, turned.dims, (G.outputs * w.strides[0], w.strides[1], w.strides[0], *steps)),
             turned)
        place, dims, strides = x.offset, [], []
        for first, n, s, stride in zip(firsts, G.spatial, G.stride, x.strides[2:], strict=True):
            place = place + first * stride
            dims.append(_parts(call("max", 0, n - first), s) if first else _parts(n, s))
            strides.append(s * stride)
        made = Ref(x.buffer, place, (*x.dims[:2], *dims), (*x.strides[:2], *strides))
        _emit(state, "y", G.groups, y, Ref(turned.buffer, 0, (x.dims[1], *turned.dims[2:]), turned.strides[1:]), made,
              [1] * len(phases), [phase.padding for phase in phases], [phase.dilation for phase in phases])


@dataclass(frozen=True, slots=True)
class Phase:
    """One axis of the convolution that makes places from some first one on: the elements of the weight, from `element`
    on and `step` apart, and how they are seen by the places."""

    element: int
    step: int
    kernel: Size
    padding: Size
    dilation: int


def _phase(first: int, kernel: Size, stride: int, padding: int, dilation: int) -> Phase:
    common = math.gcd(stride, dilation)
    step, apart, at = stride // common, dilation // common, first + padding
    element = next((k for k in range(step) if (at - k * dilation) % stride == 0), None)
    if element is None:
        return Phase(0, step, 0, 0, apart)
    count = _parts(call("max", 0, kernel - element) if element else kernel, step)
    return Phase(element, step, count, apart * (count - 1) - (at - element * dilation) // stride, apart)


def _parts(n: Size, of: int) -> Size:
    return floordiv(n + (of - 1), of)


def _emit(state: Lowering, role: str, groups: int, x: Ref, w: Ref, y: Ref, stride: Sequence[int],
          padding: Sequence[Size], dilation: Sequence[int], more: tuple[Size, ...] = ()) -> None:
    outputs, channels, *kernel = w.dims[-len(x.dims):]
    words = (y.dims[0], groups, channels, floordiv(outputs, groups), *x.dims[2:], *kernel, *y.dims[2:], *stride,
             *padding, *dilation, *x.strides, *y.strides, *more)
    sizes = (y.dims[0], outputs, product(y.dims[2:]), product((channels, *kernel)))
    state.emit(ConvolutionStep(role, words, sizes, x, w, y))
