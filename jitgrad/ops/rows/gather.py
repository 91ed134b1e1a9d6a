"""Joining, padding and indexing by integer tensors. Indices are non-negative and in range: checked before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.device import cpu_kernels, has_cpu_kernels
from jitgrad.ops import checks, specs
from jitgrad.ops.opdef import DYNAMIC, GATHER, JOIN, NONDIFF, register
from jitgrad.ops.rows import _batching as batching
from jitgrad.ops.rules import each

# --- cat and pad ---------------------------------------------------------------------------------------------------


def _cat_vjp(F: Any, g: Any, y: Any, *xs: Any, axis: int) -> tuple[Any, ...]:
    cotangents, start = [], 0
    for x in xs:
        length = x.shape[axis]
        cotangents.append(F.slice(g, axis=axis, start=start, length=length, step=1))
        start = length + start
    return tuple(cotangents)


register("cat", None, JOIN, "Operands one after the other along an axis.", dtypes="any", spec=specs.cat,
         impl=lambda xp, *xs, axis: xp.concatenate(xs, axis=axis), vjp=_cat_vjp, check=checks.cat,
         traits={"stored"},
         samples=lambda rng: [(tuple(rng.normal(size=(2, n)) for n in (3, 1, 0, 2)), {"axis": 1}),
                              ((rng.normal(size=(3,)), rng.normal(size=(2,))), {"axis": 0}),
                              ((rng.normal(size=(2, 2)),), {"axis": 0})])


def _pad(xp: Any, x: Any, pads: tuple[tuple[int, int], ...], value: Any) -> Any:
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, pads, strict=True))
    y = xp.full(shape, value, x.dtype)
    y[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, pads, strict=True))] = x
    return y


def _pad_vjp(F: Any, g: Any, y: Any, x: Any, pads: tuple[tuple[Any, Any], ...], value: Any) -> tuple[Any]:
    for axis, (before, after) in enumerate(pads):
        if before != 0 or after != 0:
            g = F.slice(g, axis=axis, start=before, length=x.shape[axis], step=1)
    return (g,)


register("pad", 1, JOIN, "x with `value` around it; pads are not negative.",
         batch=batching.pad, vjp=_pad_vjp, pair=lambda F, x, pads, value: F.pair(
             F.pad(x.re, pads=pads, value=value.real), F.pad(x.im, pads=pads, value=value.imag)),
         impl=_pad, dtypes="any",
         spec=specs.pad, samples=lambda rng: [
             ((rng.normal(size=(2, 3)),), {"pads": ((1, 0), (0, 2)), "value": 1.5}),
             ((rng.normal(size=(0, 3)),), {"pads": ((1, 1), (0, 0)), "value": 0.0}),
             ((rng.normal(size=()),), {"pads": (), "value": 0.0})])

# --- indexing by tensors -------------------------------------------------------------------------------------------


def _key(x: Any, indices: tuple[Any, ...], axes: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * x.ndim
    for axis, i in zip(axes, indices, strict=True):
        key[axis] = i
    return tuple(key)


def add_at(xp: Any, y: Any, key: tuple[Any, ...], values: Any) -> None:
    """y[key] += values in place, with repeated places added up."""
    if xp is np:
        np.add.at(y, key, values)
    else:
        xp.add_at(y, key, values)


def put_at(xp: Any, y: Any, key: tuple[Any, ...], values: Any) -> None:
    """y[key] = values in place; of what goes to one place the last stays."""
    if xp is np:
        y[key] = values
    else:
        xp.put_at(y, key, values)


def _index(xp: Any, x: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
    if type(x) is np.ndarray and len(axes) == 1 and x.flags.c_contiguous:  # else it would be copied first
        return np.asarray(x.take(indices[0], axes[0]))
    return xp.asarray(x[_key(x, indices, axes)])


def _index_put(xp: Any, x: Any, v: Any, *indices: Any, axes: tuple[int, ...], accumulate: bool) -> Any:
    y = x.copy()
    (add_at if accumulate else put_at)(xp, y, _key(x, indices, axes), v)
    return y


def _index_samples(rng: np.random.Generator) -> Any:
    i, j = rng.integers(0, 3, (2, 2)), rng.integers(0, 2, (2,))
    return [((rng.normal(size=(3, 2)), i), {"axes": (0,)}),
            ((rng.normal(size=(3, 2)), i, j), {"axes": (0, 1)}),
            ((rng.normal(size=(4, 3, 2)), i, j), {"axes": (1, 2)}),
            ((rng.normal(size=(3, 4, 2)), i, j), {"axes": (0, 2)}),
            ((rng.normal(size=(3,)), np.array(1)), {"axes": (0,)}),
            ((rng.normal(size=(3,)), np.zeros(0, np.int64)), {"axes": (0,)})]


def _index_put_samples(rng: np.random.Generator) -> Any:
    cases = []
    for (x, *indices), attrs in _index_samples(rng):
        shape = _index(np, x, *indices, **attrs).shape
        cases.append(((x, rng.normal(size=shape), *indices), {**attrs, "accumulate": True}))
    distinct = np.array([2, 0])
    cases += [((rng.normal(size=(3, 2)), rng.normal(size=(2, 2)), distinct), {"axes": (0,), "accumulate": False}),
              ((rng.normal(size=(3, 2)), rng.normal(size=(2, 1)), distinct), {"axes": (0,), "accumulate": False}),
              ((rng.normal(size=(3, 2)), rng.normal(size=()), distinct), {"axes": (0,), "accumulate": True})]
    return cases


register("index", None, GATHER, "x at integer tensors along axes, which broadcast together.", dtypes="any",
         impl=_index,
         batch=batching.index, adds_back=("index_put", {"accumulate": True}), first_index=1, spec=specs.index,
         check=checks.index, samples=_index_samples, vjp=lambda F, g, y, x, *indices, axes: (
             F.index_put(F.zeros_like(x), g, *indices, axes=axes, accumulate=True), *(None,) * len(indices)))
register("index_put", None, GATHER, "x with v written (or added) at integer tensors along axes.", dtypes="any",
         impl=_index_put,
         batch=batching.index_put, spec=specs.same, check=checks.index_put, first_index=2, samples=_index_put_samples,
         traits={"stored", "updates", "accumulates"}, vjp=each(
             lambda F, g, y, x, v, *indices, axes, accumulate: g if accumulate else F.index_put(
                 g, F.zeros_like(v), *indices, axes=axes, accumulate=False),
             lambda F, g, y, x, v, *indices, axes, **how: F.sum_to(F.index(g, *indices, axes=axes), shape=v.shape)))

# --- gather and scatter along one axis -----------------------------------------------------------------------------


def along(xp: Any, i: Any, axis: int) -> tuple[Any, ...]:
    """The key whose entry `axis` is i and whose others count up."""
    return tuple(i if a == axis else xp.arange(n).reshape((-1,) + (1,) * (i.ndim - a - 1))
                 for a, n in enumerate(i.shape))


#: indices for which native code is loaded, where it is not there yet
SOME = 1 << 8


def _gather(xp: Any, x: Any, i: Any, axis: int) -> Any:
    if type(x) is np.ndarray and (i.size >= SOME or has_cpu_kernels()):
        taken = cpu_kernels().gathered(x, i, axis)
        if taken is not None:
            return taken
    return xp.asarray(x[along(xp, i, axis)])


def _scatter(way: str, change: Callable[..., None]) -> Callable[..., Any]:
    def impl(xp: Any, x: Any, i: Any, src: Any, axis: int) -> Any:
        if type(x) is np.ndarray and (i.size >= SOME or has_cpu_kernels()):
            made = cpu_kernels().scattered(x, i, src, axis, way)
            if made is not None:
                return made
        y = x.copy()
        change(xp, y, along(xp, i, axis), src)
        return y
    return impl


def _gather_samples(rng: np.random.Generator) -> Any:
    return [((rng.normal(size=(3, 4)), rng.integers(0, 4, (3, 2))), {"axis": 1}),
            ((rng.normal(size=(3, 4)), rng.integers(0, 3, (5, 2))), {"axis": 0}),
            ((rng.normal(size=(3,)), rng.integers(0, 3, (0,))), {"axis": 0})]


def _scatter_samples(rng: np.random.Generator) -> Any:
    permuted = np.stack([rng.permutation(4)[:2] for _ in range(3)])
    return [((rng.normal(size=(3, 4)), permuted, rng.normal(size=(3, 2))), {"axis": 1})]


register("gather", 2, GATHER, "x at index i along an axis, elsewhere at i's own position.", dtypes="any",
         impl=_gather, spec=specs.gather,
         check=checks.gather, adds_back=("scatter_add", {}), samples=_gather_samples,
         vjp=lambda F, g, y, x, i, axis: (F.scatter_add(F.zeros_like(x), i, g, axis=axis), None))
register("scatter", 3, GATHER, "x with src (of i's shape) written at index i along an axis.", dtypes="any",
         impl=_scatter("put", put_at), traits={"stored", "updates"}, spec=specs.same, check=checks.gather,
         samples=_scatter_samples,
         vjp=each(lambda F, g, y, x, i, src, axis: F.scatter(g, i, F.zeros_like(src), axis=axis), None,
                  lambda F, g, y, x, i, src, axis: F.gather(g, i, axis=axis)))
register("scatter_add", 3, GATHER, "x with src (of i's shape) added at index i along an axis.", dtypes="any",
         impl=_scatter("add", add_at), traits={"stored", "updates", "accumulates"}, spec=specs.same,
         check=checks.gather, samples=lambda rng: [
             ((x, i, rng.normal(size=i.shape)), attrs) for (x, i), attrs in _gather_samples(rng)],
         vjp=each(lambda F, g, y, x, i, src, axis: g, None,
                  lambda F, g, y, x, i, src, axis: F.gather(g, i, axis=axis)))
register("nonzero", 1, GATHER, "The indices of nonzero elements, int64[n, rank].", vjp=NONDIFF, dtypes="any",
         traits={"in_library"}, batch=DYNAMIC,
         pair=lambda F, x: F.nonzero(F.logical_or(F.ne(x.re, 0.0), F.ne(x.im, 0.0))),
         impl=lambda xp, x: xp.argwhere(x).astype(np.int64), spec=specs.nonzero,
         samples=lambda rng: [((rng.integers(0, 2, (3, 4)),), {}), ((rng.integers(0, 2, (5,)),), {})])
