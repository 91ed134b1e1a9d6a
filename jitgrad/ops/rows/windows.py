"""Sliding windows along an axis, any other strided view, and the maximum in windows over several axes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from jitgrad.dims import product
from jitgrad.dtypes import int64
from jitgrad.ops import checks, specs
from jitgrad.ops.complex.pairs import OnWhole
from jitgrad.ops.opdef import GATHER, PARTS, REDUCE, VIEW, register
from jitgrad.ops.rows import _batching as batching
from jitgrad.ops.rows.views import placed
from jitgrad.ops.rules import each, transposed
from jitgrad.ops.types import TensorType

# --- windows along one axis ----------------------------------------------------------------------------------------


def _windows(xp: Any, x: Any, axis: int, size: int, step: int, dilation: int) -> Any:
    count: Any = specs.windows_count(x.shape[axis], size, step, dilation)
    if count < 1:
        raise ValueError("the window does not fit")  # the check has torch's words
    shape = (*x.shape[:axis], count, *x.shape[axis + 1:], size)
    stride = x.strides[axis]
    strides = (*x.strides[:axis], stride * step, *x.strides[axis + 1:], stride * dilation)
    return placed(x, shape, strides) if xp is np else xp.lib.stride_tricks.as_strided(x, shape, strides)


def _windows_add(xp: Any, x: Any, src: Any, axis: int, size: int, step: int, dilation: int) -> Any:
    y = x.copy()
    count = src.shape[axis]
    for k in range(size):
        start = k * dilation
        y[(*(slice(None),) * axis, slice(start, start + (count - 1) * step + 1, step))] += src[..., k]
    return y


_WINDOWS: tuple[tuple[tuple[int, ...], dict[str, int]], ...] = (
    ((7,), {"axis": 0, "size": 3, "step": 1, "dilation": 1}),
    ((2, 9, 2), {"axis": 1, "size": 3, "step": 2, "dilation": 2}),
    ((2, 5), {"axis": 1, "size": 2, "step": 3, "dilation": 1}),
    ((3, 4), {"axis": 0, "size": 3, "step": 1, "dilation": 1}),
    ((0, 4), {"axis": 1, "size": 1, "step": 1, "dilation": 1}))

register("windows", 1, VIEW, "Windows of `size` elements along an axis, the window as a new last axis.", dtypes="any",
         impl=_windows, traits={"view", "reads_memory"}, spec=specs.windows, check=checks.windows,
         pair=OnWhole(lambda F, w, **how: transposed(F, F.windows(w, **how))),
         vjp=lambda F, g, y, x, **how: (F.windows_add(F.zeros_like(x), g, **how),),
         samples=lambda rng: [((rng.normal(size=s),), how) for s, how in _WINDOWS])
register("windows_add", 2, GATHER, "x with src added to its windows along an axis.", dtypes="number", impl=_windows_add,
         pair=PARTS, batch=batching.write_back(1),
         spec=specs.same,
         vjp=each(lambda F, g, y, x, src, **how: g, lambda F, g, y, x, src, **how: F.windows(g, **how)),
         samples=lambda rng: [((rng.normal(size=s), rng.normal(size=_windows(np, np.empty(s), **how).shape)), how)
                              for s, how in _WINDOWS])


# --- any view of elements in order ---------------------------------------------------------------------------------


def _strided(xp: Any, x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    if not all(shape):
        return x.reshape(-1)[:0].reshape(shape)
    line = xp.ascontiguousarray(x).reshape(-1)[offset:]  # a copy, not a view, of what lies in another order
    view = xp.lib.stride_tricks.as_strided(line, shape, tuple([s * x.itemsize for s in strides]))
    if xp is np and any(s == 0 and n > 1 for s, n in zip(strides, shape, strict=True)):
        view = view[...]  # what is taken of it may be writable again, as with `expand`
        view.flags.writeable = False
    return view


def _strided_places(F: Any, shape: tuple[Any, ...], strides: tuple[int, ...], offset: int) -> Any:
    """Which element of x each one of the view is, counted in order."""
    places = F.full(value=offset, shape=(), dtype=int64)
    for k, (n, step) in enumerate(zip(shape, strides, strict=True)):
        line = F.arange(length=n, dtype=int64) * step
        places = places + F.reshape(line, shape=tuple(n if j == k else 1 for j in range(len(shape))))
    return places


def _strided_vjp(F: Any, g: Any, y: Any, x: Any, shape: Any, strides: Any, offset: Any) -> tuple[Any]:
    count, n = product(x.shape), product(shape)
    places = F.reshape(_strided_places(F, shape, strides, offset), shape=(n,))
    zeros = F.full(value=0, shape=(count,), dtype=g.dtype)
    added = F.index_put(zeros, F.reshape(g, shape=(n,)), places, axes=(0,), accumulate=True)
    return (F.reshape(added, shape=x.shape),)


def _strided_batch(B: Any, x: Any, *, shape: Any, strides: Any, offset: Any) -> Any:
    return B.run(x, shape=(B.size, *shape), strides=(product(B.item_shape(0)), *strides), offset=offset)


register("as_strided", 1, VIEW, "Elements counted in order: those at offset + sum of index * stride.", dtypes="any",
         impl=_strided, traits={"view", "reads_memory"}, spec=lambda x, shape, **how: TensorType(x.dtype, shape),
         compose=lambda F, x, shape, strides, offset: F.index(
             F.reshape(x, shape=(product(x.shape),)), _strided_places(F, shape, strides, offset), axes=(0,)),
         vjp=_strided_vjp, batch=_strided_batch,
         pair=OnWhole(lambda F, w, shape, strides, offset: F.as_strided(
             w, shape=(*shape, 2), strides=(*[s * 2 for s in strides], 1), offset=offset * 2)), samples=lambda rng: [
             ((rng.normal(size=s),), {"shape": shape, "strides": strides, "offset": offset})
             for s, shape, strides, offset in (
                 ((3, 4), (2, 2), (5, 1), 1), ((6,), (4, 3), (1, 1), 0), ((2, 3), (), (), 4),
                 ((2, 3), (0, 2), (1, 1), 0))])

# --- maxima --------------------------------------------------------------------------------------------------------


def _lowest(d: Any) -> Any:
    return -np.inf if d.kind == "f" else np.iinfo(d).min


def _max_pool(xp: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, shape: Any) -> Any:
    """The first largest element of each window counts; NaN beats all before it."""
    spatial, rank = x.shape[2:], len(kernel)
    reach = [max(0, (m - 1) * s + (k - 1) * d + 1 - p - n) for n, m, k, s, p, d in zip(
        spatial, shape, kernel, stride, padding, dilation, strict=True)]
    low = _lowest(x.dtype)
    padded = x
    if any(padding) or any(reach):
        widths = ((0, 0), (0, 0), *zip(padding, reach, strict=True))
        padded = xp.pad(x, widths, constant_values=low)
    starts = [xp.arange(m).reshape(m, *(1,) * (rank - 1 - i)) * s - p for i, (m, s, p) in enumerate(
        zip(shape, stride, padding, strict=True))]
    flat: Any = xp.zeros((), np.int64)
    for start, n in zip(starts, spatial, strict=True):
        flat = flat * n + xp.maximum(start, 0)
    values = xp.full((*x.shape[:2], *shape), low, x.dtype)
    indices = xp.broadcast_to(flat, values.shape).astype(np.int64)
    for at in itertools.product(*map(range, kernel)):
        places = tuple(slice(k * d, k * d + (m - 1) * s + 1, s) if m else slice(0, 0) for k, d, m, s in zip(
            at, dilation, shape, stride, strict=True))
        candidate = padded[(slice(None), slice(None), *places)]
        better = (candidate > values) | (candidate != candidate)
        here: Any = 0
        for start, k, d, n in zip(starts, at, dilation, spatial, strict=True):
            here = here * n + start + k * d
        values = xp.where(better, candidate, values)
        indices = xp.where(better, here, indices)
    return values, indices


def _max_pool_vjp(F: Any, g: Any, y: Any, x: Any, shape: Any, **how: Any) -> tuple[Any]:
    """Each cotangent goes where its maximum came from."""
    lead, plane, places = x.shape[:2], product(x.shape[2:]), product(shape)
    flat = F.full(value=0, shape=(*lead, plane), dtype=x.dtype)
    indices, values = (F.reshape(v, shape=(*lead, places)) for v in (y[1], g[0]))
    return (F.reshape(F.scatter_add(flat, indices, values, axis=2), shape=x.shape),)


_POOLS: tuple[tuple[tuple[int, ...], tuple[Any, ...]], ...] = (
    ((2, 3, 4, 6), ((2, 2), (2, 2), (0, 0), (1, 1), (2, 3))), ((2, 1, 5, 5), ((3, 3), (2, 2), (1, 1), (1, 1), (3, 3))),
    ((1, 2, 6, 5), ((2, 3), (1, 2), (1, 0), (2, 1), (6, 2))), ((2, 2, 5), ((2,), (2,), (0,), (1,), (3,))),
    ((1, 1, 3, 4, 3), ((2, 2, 2), (1, 2, 1), (0, 0, 1), (1, 1, 1), (2, 2, 4))), ((0, 2, 4, 4), (
        (2, 2), (2, 2), (0, 0), (1, 1), (2, 2))), ((2, 2, 7, 6), ((6, 6), (1, 1), (0, 0), (1, 1), (2, 1))))


def _pool_samples(rng: np.random.Generator) -> Any:
    names = ("kernel", "stride", "padding", "dilation", "shape")
    return [((rng.permutation(int(np.prod(s))).reshape(s) * 0.1,), dict(zip(names, how, strict=True)))
            for s, how in _POOLS]


register("max_pool", 1, REDUCE, "(values, flat indices in the plane) of the maxima in windows of (N, C, *spatial).",
         dtypes="number", traits={"reads_memory"}, impl=_max_pool,
         batch=batching.max_pool, vjp=_max_pool_vjp, spec=specs.max_pool,
         samples=_pool_samples)
