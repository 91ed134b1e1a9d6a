"""Convolutions with any number of spatial axes: y[n, o, i] = sum of x[n, c, i * stride + k * dilation] w[o, c, k].

Three rows, the map and what it is with one of its operands moved to the other side, are all derivatives of each other:

    y = conv(x, w)      gx = conv_transpose(gy, w)      gw = conv_weight(gy, x)

x is (N, C, *spatial), w (O, C / groups, *kernel), y (N, O, *windows). The two gradients are given the shape of their
result; they count windows by gy, so that x may be larger than what the windows cover.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitgrad.device import cpu_kernels
from jitgrad.ops import checks, specs
from jitgrad.ops.opdef import CONTRACT, register
from jitgrad.ops.rows import _batching as batching
from jitgrad.ops.rules import each

#: columns are made for so many images at a time that they have about this many elements
BLOCK = 1 << 20

# --- on arrays: by native code; of other types, windows as the columns of a matrix, a block of images at a time ---


def _blocks(images: int, size: int) -> Iterator[slice]:
    """Images in slices whose columns, `size` elements an image, fill a block."""
    step = max(1, BLOCK // max(size, 1))
    return (slice(i, min(i + step, images)) for i in range(0, images, step))


def _patches(xp: Any, x: Any, kernel: Sequence[int], counts: Sequence[int], stride: Sequence[int],
             padding: Sequence[int], dilation: Sequence[int]) -> Any:
    """x as (N, C, *kernel, *counts), a view: element k of the window at each place."""
    if any(padding):
        x = xp.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    for n, m, k, s, d in zip(x.shape[2:], counts, kernel, stride, dilation, strict=True):
        if m < 1 or (m - 1) * s + (k - 1) * d + 1 > n:
            raise ValueError("the windows do not fit")  # the check has torch's words
    steps = x.strides[2:]
    return xp.lib.stride_tricks.as_strided(
        x, (*x.shape[:2], *kernel, *counts),
        (*x.strides[:2], *(t * d for t, d in zip(steps, dilation, strict=True)),
         *(t * s for t, s in zip(steps, stride, strict=True))))


def _is_native(xp: Any, a: Any, b: Any, *sizes: Sequence[int]) -> bool:
    """Whether native code has these types; where a kernel is one element, products are as good as it."""
    return xp is np and a.dtype == b.dtype and a.dtype.name in ("float32", "float64") and any(
        n != 1 for part in sizes for n in part)


def _conv(xp: Any, x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    (n, c), (o, _), kernel = x.shape[:2], w.shape[:2], w.shape[2:]
    if c != w.shape[1] * groups:
        raise ValueError("other channels than the weight's")  # the check has torch's words
    counts: Any = [specs.windows_count(m + 2 * p, k, s, d) for m, k, s, p, d in zip(
        x.shape[2:], kernel, stride, padding, dilation, strict=True)]
    if _is_native(xp, x, w, kernel, stride) and min(counts) > 0:
        return cpu_kernels().convolved("y", x, w, (n, o, *counts), stride, padding, dilation, groups)
    patches = _patches(xp, x, kernel, counts, stride, padding, dilation)
    depth, plane = math.prod(w.shape[1:]), math.prod(counts)
    rows = w.reshape(groups, o // groups, depth)
    y = xp.empty((n, o, *counts), x.dtype)
    for block in _blocks(n, groups * depth * plane):
        columns = patches[block].reshape(-1, groups, depth, plane)
        y[block] = xp.matmul(rows, columns).reshape(-1, o, *counts)
    return y


def _conv_weight(xp: Any, g: Any, x: Any, shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    (n, o), counts, kernel = g.shape[:2], g.shape[2:], shape[2:]
    if _is_native(xp, x, g, kernel, stride) and g.size:
        return cpu_kernels().convolved("w", x, g, shape, stride, padding, dilation, groups)
    patches = _patches(xp, x, kernel, counts, stride, padding, dilation)
    depth, plane = math.prod(shape[1:]), math.prod(counts)
    total = xp.zeros((groups, o // groups, depth), g.dtype)
    for block in _blocks(n, groups * depth * plane):
        columns = patches[block].reshape(-1, groups, depth, plane)
        rows = g[block].reshape(-1, groups, o // groups, plane)
        total += xp.matmul(rows, columns.swapaxes(2, 3)).sum(axis=0, dtype=g.dtype)
    return total.reshape(shape)


def _conv_transpose(xp: Any, g: Any, w: Any, shape: Any, stride: Any, padding: Any, dilation: Any,
                    groups: int) -> Any:
    (n, o), counts, kernel = g.shape[:2], g.shape[2:], w.shape[2:]
    if _is_native(xp, g, w, kernel, stride) and g.size:
        return cpu_kernels().convolved("x", w, g, shape, stride, padding, dilation, groups)
    depth, plane = math.prod(w.shape[1:]), math.prod(counts)
    columns_of = w.reshape(groups, o // groups, depth).swapaxes(1, 2)
    padded = xp.zeros((n, shape[1], *(m + 2 * p for m, p in zip(shape[2:], padding, strict=True))), g.dtype)
    for block in _blocks(n, groups * depth * plane):
        columns = xp.matmul(columns_of, g[block].reshape(-1, groups, o // groups, plane))
        columns = columns.reshape(-1, shape[1], *kernel, *counts)
        for at in itertools.product(*map(range, kernel)):
            places = tuple(slice(k * e, k * e + (m - 1) * s + 1, s) if m else slice(0, 0) for k, e, m, s in zip(
                at, dilation, counts, stride, strict=True))
            padded[(block, slice(None), *places)] += columns[(slice(None), slice(None), *at)]
    inside = tuple(slice(p, p + m) for p, m in zip(padding, shape[2:], strict=True))
    return xp.ascontiguousarray(padded[(slice(None), slice(None), *inside)])


# --- rules ---------------------------------------------------------------------------------------------------------


def _trim(F: Any, y: Any, like: Any) -> Any:
    """The leading windows of y that `like` has."""
    for axis in range(2, y.ndim):
        if y.shape[axis] != like.shape[axis]:
            y = F.slice(y, axis=axis, start=0, length=like.shape[axis], step=1)
    return y


_conv_vjp = each(lambda F, g, y, x, w, **how: F.conv_transpose(g, w, shape=x.shape, **how),
                 lambda F, g, y, x, w, **how: F.conv_weight(g, x, shape=w.shape, **how))
_transpose_vjp = each(lambda F, h, y, g, w, shape, **how: _trim(F, F.conv(h, w, **how), g),
                      lambda F, h, y, g, w, shape, **how: F.conv_weight(g, h, shape=w.shape, **how))
_weight_vjp = each(lambda F, h, y, g, x, shape, **how: _trim(F, F.conv(x, h, **how), g),
                   lambda F, h, y, g, x, shape, **how: F.conv_transpose(g, h, shape=x.shape, **how))

#: shapes of x and w, stride, padding, dilation, groups
_CASES: tuple[tuple[Any, ...], ...] = (
    ((2, 3, 5, 4), (4, 3, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    ((2, 2, 6, 5), (2, 2, 3, 3), (2, 1), (1, 2), (1, 2), 1),
    ((1, 4, 4, 4), (6, 2, 2, 2), (2, 2), (0, 1), (1, 1), 2),
    ((2, 3, 4, 3), (3, 1, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    ((2, 3, 3, 3), (2, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((0, 2, 4, 4), (3, 2, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 1, 1, 1), (1, 1, 1, 1), (2, 1), (1, 0), (1, 1), 1),
    ((2, 2, 7), (3, 2, 3), (3,), (1,), (2,), 1),
    ((1, 2, 3, 4, 3), (2, 2, 2, 2, 3), (1, 2, 1), (0, 1, 1), (1, 1, 1), 1),
)


def _attrs(stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def _windows_shape(x: tuple[int, ...], w: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> Any:
    return (x[0], w[0], *(specs.windows_count(n + 2 * p, k, s, d) for n, k, s, p, d in zip(
        x[2:], w[2:], stride, padding, dilation, strict=True)))


register("conv", 2, CONTRACT, "The convolution (correlation) of x with w.", dtypes="number", impl=_conv,
         batch=batching.conv,
         traits={"stored", "reads_memory"}, vjp=_conv_vjp, spec=specs.conv, check=checks.conv, samples=lambda rng: [
             ((rng.normal(size=x), rng.normal(size=w)), _attrs(*how)) for x, w, *how in _CASES])
register("conv_transpose", 2, CONTRACT, "The gradient of a convolution with respect to x, of `shape`, from y's and w.",
         dtypes="number", traits={"stored", "reads_memory"}, impl=_conv_transpose,
         batch=batching.conv_transpose, vjp=_transpose_vjp,
         spec=specs.shaped, samples=lambda rng: [
             ((rng.normal(size=_windows_shape(x, w, *how[:3])), rng.normal(size=w)), {"shape": x, **_attrs(*how)})
             for x, w, *how in _CASES])
register("conv_weight", 2, CONTRACT, "The gradient of a convolution with respect to w, of `shape`, from y's and x.",
         dtypes="number", traits={"stored", "reads_memory"}, impl=_conv_weight,
         batch=batching.conv_weight, vjp=_weight_vjp,
         spec=specs.shaped, samples=lambda rng: [
             ((rng.normal(size=_windows_shape(x, w, *how[:3])), rng.normal(size=x)), {"shape": w, **_attrs(*how)})
             for x, w, *how in _CASES])
