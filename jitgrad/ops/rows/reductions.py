"""Reductions over axes, and softmax with its kin. `axes` are non-negative and sorted; () reduces nothing.

Equal maxima share the gradient of amax evenly, as in torch.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.dims import product
from jitgrad.ops import checks, specs
from jitgrad.ops.namespaces import extreme, summed, unbroadcast
from jitgrad.ops.opdef import EXPRESSION, NONDIFF, PARTS, REDUCE, register
from jitgrad.ops.rows import _batching as batching


def _samples(*attrs: dict[str, Any], positive: bool = False) -> Any:
    def samples(rng: np.random.Generator) -> Any:
        low = 0.3 if positive else -2.0
        return [((rng.uniform(low, 2.0, (2, 3, 4)),), {"axes": axes, "keepdim": keepdim, **extra})
                for extra in (attrs or ({},)) for axes in ((1,), (0, 2), (0, 1, 2), ()) for keepdim in (False, True)]
    return samples


def _one_axis_samples(rng: np.random.Generator) -> Any:
    return [((rng.normal(size=(2, 3, 4)),), {"axes": (axis,), "keepdim": keepdim})
            for axis in range(3) for keepdim in (False, True)]


def _reduce(name: str, doc: str, impl: Any = None, samples: Any = None, **fields: Any) -> None:
    fields.setdefault("spec", specs.reduce)
    register(name, 1, REDUCE, doc, impl=impl, samples=samples or _samples(), **fields)


# --- sums and products ---------------------------------------------------------------------------------------------


def _prod(xp: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    return x.prod(axis=axes, dtype=x.dtype, keepdims=keepdim)


def _mean(xp: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    return summed(xp, x, axes, keepdim) / x.dtype.type(math.prod([x.shape[a] for a in axes]))


def _products_before(F: Any, x: Any, axis: int) -> Any:
    """For each element the product of those before it along `axis`."""
    pads = tuple((1, 0) if a == axis else (0, 0) for a in range(x.ndim))
    return F.slice(F.cumprod(F.pad(x, pads=pads, value=1), axis=axis), axis=axis, start=0, length=x.shape[axis], step=1)


def _prod_vjp(F: Any, g: Any, y: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> tuple[Any]:
    """g times the product of the other elements, from both ends: right with any number of zeros."""
    order = (*(a for a in range(x.ndim) if a not in axes), *axes)
    kept = x.ndim - len(axes)
    moved = tuple(x.shape[a] for a in order)
    flat = F.reshape(F.permute(x, axes=order), shape=(*moved[:kept], product(moved[kept:])))
    after = F.flip(_products_before(F, F.flip(flat, axes=(kept,)), kept), axes=(kept,))
    others = F.reshape(_products_before(F, flat, kept) * after, shape=moved)
    back = tuple(order.index(a) for a in range(x.ndim))
    return (F.unreduce(g, x, axes, keepdim) * F.permute(others, axes=back),)



def _prod_pair(F: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """In turns: the products of pairs of halves, until one number is left."""
    for axis in axes:
        n = operator.index(x.shape[axis])  # in a script guarded
        while n > 1:
            half = n // 2
            first, second = [F.slice(x, axis=axis, start=k * half, length=half, step=1) for k in (0, 1)]
            rest = [F.slice(x, axis=axis, start=2 * half, length=1, step=1)] * (n % 2)
            x, n = F.cat(first * second, *rest, axis=axis), half + n % 2
        if n == 0:
            x = F.pad(x, pads=tuple([(int(a == axis), 0) for a in range(x.ndim)]), value=1)
    return x if keepdim or not axes else F.reshape(x, shape=specs.reduced_shape(x.shape, axes, False))


_reduce("sum", "The sum over axes.", summed, fold="sum", pair=PARTS, dtypes="any", traits={"passes", "total"},
        vjp=lambda F, g, y, x, axes, keepdim: (F.unreduce(g, x, axes, keepdim),))
_reduce("prod", "The product over axes.", _prod, fold="prod", pair=_prod_pair, vjp=_prod_vjp, dtypes="number",
        traits={"total"})
_reduce("mean", "The mean over axes.", _mean, compose=lambda F, x, axes, keepdim: (
            F.sum(x, axes=axes, keepdim=keepdim) / F.count(x, axes)), pair=EXPRESSION,
        vjp=lambda F, g, y, x, axes, keepdim: (F.unreduce(g / F.count(x, axes), x, axes, keepdim),))


def _var(F: Any, x: Any, axes: tuple[int, ...], keepdim: bool, correction: float, limit: float | None = None) -> Any:
    d = x - F.mean(x, axes=axes, keepdim=True)
    return F.sum(d * d, axes=axes, keepdim=keepdim) / F.maximum(F.count(x, axes) - correction, 0.0)


def _var_vjp(F: Any, g: Any, y: Any, x: Any, axes: tuple[int, ...], keepdim: bool, correction: float,
             limit: float | None = None) -> tuple[Any]:
    d = x - F.mean(x, axes=axes, keepdim=True)
    freedom = F.count(x, axes) - correction
    slope = g * 2.0 / freedom
    if limit is not None and correction:
        free = F.gt(freedom, 0.0)
        slope, d = F.where(free, slope, g * limit if limit else 0.0), F.where(free, d, F.abs(F.sign(d)))
    return (F.unreduce(slope, x, axes, keepdim) * d,)


# `limit` is the slope without degrees of freedom where all axes are meant; along given ones it is what the formula has
_reduce("var", "The mean squared distance from the mean, with `correction` taken off the divisor.", compose=_var,
        vjp=_var_vjp, samples=_samples({"correction": 0}, {"correction": 1}))
register("sum_to", 1, REDUCE, "x summed over the axes along which `shape` was repeated to x's shape.", dtypes="any",
         impl=lambda xp, x, shape: unbroadcast(x, shape), spec=specs.reshaped, pair=PARTS,
         traits={"passes", "in_library"},
         batch=batching.sum_to,
         vjp=lambda F, g, y, x, shape: (F.expand_like(g, x),),
         samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"shape": s}) for s in ((3, 4), (1, 4), (2, 1, 4), ())])

# --- extremes ------------------------------------------------------------------------------------------------------


def _amax_vjp(F: Any, g: Any, y: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> tuple[Any]:
    at = F.eq(x, F.unreduce(y, x, axes, keepdim))
    ties = F.sum(F.cast(at, dtype=x.dtype), axes=axes, keepdim=True)
    return (F.where(at, F.unreduce(g, x, axes, keepdim), 0.0) / F.expand_like(ties, x),)


for _name, _doc, _fold in (("amax", "The maximum over axes; NaN if there is one.", "max"),
                           ("amin", "The minimum over axes; NaN if there is one.", "min")):
    _reduce(_name, _doc, lambda xp, x, axes, keepdim, _fold=_fold: extreme(x, _fold, axes, keepdim),
            fold=_fold, vjp=_amax_vjp, dtypes="any", check=checks.nonempty(_name))


def _arg(function: str) -> Any:
    def impl(xp: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
        (axis,) = axes
        i = getattr(xp, function)(x, axis=axis)
        return (xp.expand_dims(i, axis) if keepdim else xp.asarray(i)).astype(np.int64)
    return impl


for _name, _what in (("argmax", "maximum"), ("argmin", "minimum")):
    _reduce(_name, f"The first index of the {_what} along one axis.", _arg(_name), fold=_name, vjp=NONDIFF,
            dtypes="any", spec=specs.reduce_to(dtypes.int64), check=checks.nonempty(_name), samples=_one_axis_samples)
for _name, _doc in (("any", "Whether some element is nonzero."), ("all", "Whether every element is nonzero.")):
    _reduce(_name, _doc, lambda xp, x, axes, keepdim, _name=_name: getattr(x.astype(bool), _name)(
                axis=axes, keepdims=keepdim), fold=_name, traits={"barebones", "total"}, vjp=NONDIFF, dtypes="any",
            pair=lambda F, x, axes, keepdim, _name=_name: getattr(F, _name)(
                F.logical_or(F.ne(x.re, 0.0), F.ne(x.im, 0.0)), axes=axes, keepdim=keepdim),
            spec=specs.reduce_to(dtypes.bool_))

# --- softmax and kin -----------------------------------------------------------------------------------------------


def _shift(F: Any, m: Any) -> Any:
    """A maximum as something to subtract: infinities would give inf - inf."""
    return F.where(F.eq(F.abs(m), math.inf), 0.0, m)


def _logsumexp(F: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    m = _shift(F, F.amax(x, axes=axes, keepdim=True))
    y = F.log(F.sum(F.exp(x - m), axes=axes, keepdim=True)) + m
    return y if keepdim or not axes else F.reshape(y, shape=specs.reduced_shape(x.shape, axes, False))


def _softmax(F: Any, x: Any, axis: int) -> Any:
    e = F.exp(x - F.amax(x, axes=(axis,), keepdim=True))
    return e / F.sum(e, axes=(axis,), keepdim=True)


def _log_softmax(F: Any, x: Any, axis: int) -> Any:
    d = x - F.amax(x, axes=(axis,), keepdim=True)
    return d - F.log(F.sum(F.exp(d), axes=(axis,), keepdim=True))


# The impls say what the expressions say, and besides what an empty axis gives: nothing, or log(0).


def _logsumexp_impl(xp: Any, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    if any(x.shape[a] == 0 for a in axes):
        return xp.full(specs.reduced_shape(x.shape, axes, keepdim), -math.inf, x.dtype)
    m = extreme(x, "max", axes, True)
    m = xp.where(xp.isinf(m), 0, m)
    y = xp.log(summed(xp, xp.exp(x - m), axes, True)) + m
    return y.reshape(specs.reduced_shape(x.shape, axes, keepdim)).astype(x.dtype, copy=False)


def _softmax_impl(xp: Any, x: Any, axis: int) -> Any:
    if x.size == 0:
        return x.copy()
    e = xp.exp(x - extreme(x, "max", axis, True))
    e /= summed(xp, e, (axis,), True)
    return e


def _log_softmax_impl(xp: Any, x: Any, axis: int) -> Any:
    if x.size == 0:
        return x.copy()
    d = x - extreme(x, "max", axis, True)
    d -= xp.log(summed(xp, xp.exp(d), (axis,), True))
    return d


def _axis_samples(rng: np.random.Generator) -> Any:
    return [((rng.normal(size=(2, 3, 4)),), {"axis": axis}) for axis in range(3)]


_reduce("logsumexp", "log(sum(exp(x))) over axes without overflow.", _logsumexp_impl, compose=_logsumexp,
        vjp=lambda F, g, y, x, axes, keepdim: (
            F.unreduce(g, x, axes, keepdim) * F.exp(x - F.unreduce(y, x, axes, keepdim)),))
register("softmax", 1, REDUCE, "exp(x) / sum(exp(x)) along an axis.", impl=_softmax_impl, compose=_softmax,
         spec=specs.same, samples=_axis_samples, ref="scipy.special.softmax",
         vjp=lambda F, g, y, x, axis: (y * (g - F.sum(g * y, axes=(axis,), keepdim=True)),))
register("log_softmax", 1, REDUCE, "log(softmax(x)) along an axis.", impl=_log_softmax_impl, compose=_log_softmax,
         spec=specs.same, samples=_axis_samples, ref="scipy.special.log_softmax",
         vjp=lambda F, g, y, x, axis: (g - F.exp(y) * F.sum(g, axes=(axis,), keepdim=True),))
