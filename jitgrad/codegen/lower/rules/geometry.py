"""The sizes of a convolution, and the windows of an image."""

from collections.abc import Sequence

from jitgrad.codegen.program.step import Ref
from jitgrad.codegen.program.steps import GemmStep
from jitgrad.dims import Size, floordiv, product
from jitgrad.script.graph.ir import Node


class Geometry:
    """The sizes of one convolution. x: (C, *spatial) an image, w: (O, C / groups, *kernel), y: (O, *counts) an image.

    Attributes:
        depth: the rows of a group's columns.
        plane: the columns.
        trivial: whether the columns are the image itself.
        depthwise: whether each group has one channel.
    """

    def __init__(self, node: Node, x: Sequence[Size], w: Sequence[Size], y: Sequence[Size]):
        attrs = node.attrs
        self.stride, self.padding, self.dilation = attrs["stride"], attrs["padding"], attrs["dilation"]
        self.groups: int = attrs["groups"]
        self.channels, self.spatial, self.kernel, self.counts = x[1], tuple(x[2:]), tuple(w[2:]), tuple(y[2:])
        self.outputs = floordiv(w[0], self.groups)
        self.depth, self.plane = product(w[1:]), product(self.counts)
        self.padded = tuple(n + 2 * p if p else n for n, p in zip(self.spatial, self.padding, strict=True))
        self.trivial = (all(k == 1 for k in self.kernel) and all(s == 1 for s in self.stride)
                        and not any(self.padding) and self.spatial == self.counts)
        self.depthwise = self.groups > 1 and w[1] == 1

    def product(self, sizes: tuple[Size, Size, Size], a: Ref, b: Ref, c: Ref, trans_a: bool = False,
                trans_b: bool = False, accumulate: bool = False, images: Size | None = None) -> GemmStep:
        """c[m, n] (+)= a[m, k] @ b[k, n] of sizes m, n, k, one for each group; for each of some `images` of b and c."""
        m, n, k = sizes
        batch: list[tuple[Size, Size, Size, Size]] = [(self.groups, m * k, k * n, m * n)] if self.groups != 1 else []
        if images is not None:
            batch.append((images, 0, b.strides[0], c.strides[0]))
        return GemmStep(c.dtype, m, n, k, (a.buffer, a.offset), (b.buffer, b.offset), (c.buffer, c.offset), trans_a,
                        trans_b, m if trans_a else k, k if trans_b else n, n, tuple(batch), accumulate)

    def windows(self, image: Ref) -> Ref:
        """The padded image as (C, *kernel, *counts)."""
        channel, *steps = image.strides
        strides = (channel, *(t * d for t, d in zip(steps, self.dilation, strict=True)),
                   *(t * s for t, s in zip(steps, self.stride, strict=True)))
        return Ref(image.buffer, image.offset, (self.channels, *self.kernel, *self.counts), strides)

    def inside(self, image: Ref) -> Ref:
        """The padded image without its frame."""
        offset = image.offset
        for p, t in zip(self.padding, image.strides[1:], strict=True):
            offset = offset + t * p
        return Ref(image.buffer, offset, (self.channels, *self.spatial), image.strides)
