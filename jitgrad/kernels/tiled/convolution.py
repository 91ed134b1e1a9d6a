"""Convolutions without columns: products whose right-hand rows are the image itself, moved by elements of the kernel.

    y[o, p] = sum over k of w[o, k] * frame[start(k) + p]            p: windows in row-major order, k: (c, *kernel)

`frame` is a copy of one image with its padding. With a stride s, element i of an axis is in part i % s at i // s, so
that windows that follow each other are neighbours in memory whatever the stride. Rows of windows follow each other at
the frame's distance, not the result's: what is computed between two rows is dropped. The gradient of the images is the
same product with the results' gradient in a frame; that of the weights a sum over all windows.

    jg_conv_y_float32(words, x, w, y, scratch)      # each writes what it is named after, from the other two
    jg_conv_x_float32(words, x, w, y, scratch)
    jg_conv_w_float32(words, x, w, y, scratch)

`words` are the numbers of a `Layout`. All have three spatial axes, the leading ones perhaps of size 1.

Threads share the images, some of them at a time. There are as many frames as may be worked in at once, and of the
weights' gradient a sum for each share of the images; these are added in order, so that bits hang on sizes alone.

`convolution_tiles.py` has the innermost loops, `convolution_native.py` those around them.

Zhang, Franchetti, Low: High Performance Zero-Memory Overhead Direct Convolutions, ICML 2018, has the loops' order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.dims import Size, call, floordiv, product

#: elements that may be read or written behind the end of a frame or of a row of results
SLACK = 64
#: elements of the images (and their slopes) that are in memory at a time, for the gradient of the weights
BLOCK = 1 << 15
#: outputs are rounded up to so many where they are lanes
LANES = 16
#: shares of the images at most, and multiplications of one at least
SHARES, SHARE = 16, 1 << 21
#: windows of a share of the images at least where sums over them are added
SUMMED = 512
#: what the names of the functions begin with; what they make: images, weights, results
PREFIX, ROLES = "jg_conv_", "xwy"
AXES = range(3)
#: the numbers that the functions are given, in order; `x`, `k`, `y`, ... have one for each axis
NAMES = ("images", "groups", "channels", "outputs", *(f"{what}{axis}" for what in (
    "x", "k", "y", "stride", "padding", "dilation", "q") for axis in AXES), "plane", "parts", "depth", "taps",
    "x_image", "x_channel", "x_step0", "x_step1", "x_step2", "frame", "length", "result", "block", "sums", "shares",
    "room")


class Layout:
    """The sizes of a convolution and of its memory, numbers or symbolic sizes.

    Args:
        x, w, y: the shapes (N, C, *spatial), (O, C / groups, *kernel), (N, O, *windows).
        x_strides: of the images, in elements.
        stride, padding, dilation: one number for each of at most three spatial axes.
        role: which of "x", "w" and "y" is made.
        itemsize: bytes of an element.

    Attributes:
        words: the numbers, in the order of `NAMES`.
        scratch: elements of memory for the call.
        loops: the sizes of the loops around one multiplication.
    """

    def __init__(self, x: Sequence[Size], w: Sequence[Size], y: Sequence[Size], x_strides: Sequence[Size],
                 stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int, role: str,
                 itemsize: int):
        missing = 3 - len(stride)

        def three(numbers: Sequence[Any], filler: int) -> tuple[Any, ...]:
            return (filler,) * missing + tuple(numbers)

        steps = three(stride, 1)
        spatial, pads = three(x[2:], 1), three(padding, 0)
        q = [floordiv(n + 2 * p + s - 1, s) if s != 1 else n + 2 * p
             for n, p, s in zip(spatial, pads, steps, strict=True)]
        kernel = three(w[2:], 1)
        channels, outputs = w[1], floordiv(w[0], groups) if groups != 1 else w[0]
        plane, parts, taps = product(q), product(steps), product(kernel)
        depth = channels * taps
        frames: Size = 1
        sums: Size = 0
        self.loops: tuple[Size, ...] = (y[0], w[0], product(y[2:]), depth)
        shares = call("min", x[0], call("min", SHARES, floordiv(product(self.loops), SHARE)))
        if role == "x":
            frame = w[0] * (2 * plane + SLACK)
            entries, result = outputs * taps, channels * (plane + SLACK)
        else:
            frame = x[1] * parts * plane + SLACK
            entries = depth
            if role == "y":
                result = outputs * (plane + SLACK)
            else:
                wide = floordiv(outputs + LANES - 1, LANES) * LANES
                slopes = product(y[2:]) * wide
                frames = call("max", 1, call("min", x[0], floordiv(BLOCK, frame + slopes + 1)))
                result, sums = frames * slopes, groups * depth * wide
                shares = call("min", shares, floordiv(x[0] * product(y[2:]), SUMMED))
        shares = call("max", 1, shares)
        room = frames * frame + result + SLACK
        table = floordiv(2 * entries * 8 + 63, 64) * (64 // itemsize)
        self.words: tuple[Size, ...] = (
            x[0], groups, channels, outputs, *spatial, *kernel, *three(y[2:], 1), *steps, *pads, *three(dilation, 1),
            *q, plane, parts, depth, taps, x_strides[0], x_strides[1], *three(x_strides[2:], 0), table,
            frame, table + frames * frame, frames, table + shares * room, shares, room)
        self.scratch: Size = table + shares * (room + sums)
