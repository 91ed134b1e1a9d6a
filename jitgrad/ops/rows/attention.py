"""Attention as one op: y = softmax(q k^T * scale) v, without the matrix of weights.

The library composes attention of products and a softmax; scripts have these rows where there are functions or kernels
for the types and sizes (`ops/library/linear_algebra/attention.py`). q, y, g are (..., L, H, E), k and v (..., S, H, E):
heads behind positions, as projections give them. The gradient computes the weights again; kernels do it from q, k and
lse, the logarithms of the sums of exp(scores), (..., H, L).

A mask is (..., H, L, S), each of these or 1: added to the scores, or bool: True where a key is seen. A query that it
leaves nothing gives 0 and has no gradient; its lse is infinity. A scale of None is 1 / sqrt(E). `width` is E as a
number where a device's kernels need it, though the shapes have it as an expression that is known to be that, else 0.

Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.dtypes import float32, int64
from jitgrad.ops.batching.rules import alike
from jitgrad.ops.halves import rounded, widened
from jitgrad.ops.opdef import CONTRACT, OPAQUE, register
from jitgrad.ops.rules import transposed
from jitgrad.ops.types import TensorType

#: the features of a head for which a device has kernels
WIDTHS = (32, 64, 128)

# --- on arrays -----------------------------------------------------------------------------------------------------


def _number(q: Any, scale: float | None) -> float:
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def _weights(xp: Any, q: Any, k: Any, scale: float | None, causal: bool, mask: Any) -> tuple[Any, Any, Any]:
    """exp(scores - their maximum), the sums of these along rows (1 where a mask leaves nothing), and lse."""
    scores = xp.matmul(q * _number(q, scale), k.swapaxes(-1, -2))
    if causal:
        scores = xp.where(xp.arange(k.shape[-2]) > xp.arange(q.shape[-2])[:, None], -math.inf, scores)
    if mask is not None:
        scores = xp.where(mask, scores, -math.inf) if mask.dtype == bool else scores + widened(mask)
    most = scores.max(axis=-1, keepdims=True) if k.shape[-2] else xp.zeros((*scores.shape[:-1], 1), q.dtype)
    nothing = (most == -math.inf) | (k.shape[-2] == 0) if mask is not None else xp.zeros(most.shape, bool)
    e = xp.exp(scores - xp.where(nothing, 0.0, most))
    total = e.sum(axis=-1, keepdims=True)
    lse = xp.where(nothing, math.inf, xp.log(xp.where(nothing, 1.0, total)) + most)
    return e, xp.where(nothing, 1.0, total), lse[..., 0].astype(q.dtype, copy=False)


def _heads_first(xp: Any, *arrays: Any) -> list[Any]:
    """(..., H, L, E) of (..., L, H, E), and the other way round."""
    return [widened(x).swapaxes(-2, -3) for x in arrays]


def _attention(xp: Any, q: Any, k: Any, v: Any, mask: Any = None, *, scale: float | None, width: int,
               causal: bool = False) -> tuple[Any, Any]:
    d = q.dtype
    q, k, v = _heads_first(xp, q, k, v)
    e, total, lse = _weights(xp, q, k, scale, causal, mask)
    y = xp.matmul(e, v) / total if k.shape[-2] else xp.matmul(e, v)
    (y,) = _heads_first(xp, y)
    return rounded(y.astype(q.dtype, copy=False), d), lse


def _attention_backward(xp: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, g: Any, mask: Any = None, *,
                        scale: float | None, width: int, causal: bool = False) -> Any:
    d = q.dtype
    q, k, v, g = _heads_first(xp, q, k, v, g)
    e, total, _ = _weights(xp, q, k, scale, causal, mask)
    p, slopes = e / total, xp.matmul(g, v.swapaxes(-1, -2))
    s = p * (slopes - (slopes * p).sum(axis=-1, keepdims=True)) * _number(q, scale)
    found = xp.matmul(s, k), xp.matmul(s.swapaxes(-1, -2), q), xp.matmul(p.swapaxes(-1, -2), g)
    return tuple([rounded(x.astype(q.dtype, copy=False), d) for x in _heads_first(xp, *found)])


# --- rules ---------------------------------------------------------------------------------------------------------


def _swapped(F: Any, x: Any) -> Any:
    """Heads and positions exchanged."""
    n = x.ndim
    return F.permute(x, axes=(*range(n - 3), n - 2, n - 3, n - 1))


def _factor(F: Any, q: Any, scale: float | None) -> Any:
    """What scores are multiplied by."""
    return 1.0 / F.sqrt(F.count(q, (q.ndim - 1,))) if scale is None else scale


def _softmax(F: Any, q: Any, k: Any, scale: Any, causal: bool, mask: Any) -> Any:
    scores = F.matmul(q * scale, transposed(F, k))
    if causal:
        rows = F.unsqueeze(F.arange(length=q.shape[-2], dtype=int64), axis=1)
        scores = F.where(F.gt(F.arange(length=k.shape[-2], dtype=int64), rows), -math.inf, scores)
    if mask is None:
        return F.softmax(scores, axis=scores.ndim - 1)
    scores = F.where(mask, scores, -math.inf) if mask.dtype.name == "bool" else scores + mask
    nothing = F.eq(F.amax(scores, axes=(scores.ndim - 1,), keepdim=True), -math.inf)
    return F.where(nothing, 0.0, F.softmax(F.where(nothing, 0.0, scores), axis=scores.ndim - 1))


def _of_mask(F: Any, mask: Any, g: Any) -> Any:
    """The gradient of what is added to scores from that of these; None of a bool mask."""
    if mask is None or mask.dtype.name == "bool":
        return None
    axes = tuple([i for i, size in enumerate(mask.shape) if size == 1])
    return F.sum(g, axes=axes, keepdim=True) if axes else g


def _rows(F: Any, x: Any) -> Any:
    """Sums along the last axis, which stays."""
    return F.sum(x, axes=(x.ndim - 1,), keepdim=True)


def _added(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _attention_vjp(F: Any, g: Any, y: Any, q: Any, k: Any, v: Any, *mask: Any, scale: Any, width: int,
                   causal: bool = False) -> tuple[Any, ...]:
    gy, gl = g
    how = {"scale": scale, "width": width, **({} if mask else {"causal": causal})}
    of_mask = next(iter(mask), None)
    dq = dk = dv = dm = None
    a, b, factor = _swapped(F, q), _swapped(F, k), _factor(F, q, scale)
    if gy is not None:
        backward = F.masked_attention_backward if mask else F.attention_backward
        dq, dk, dv = backward(q, k, v, *y, gy, *mask, **how)
        if mask:
            p = _softmax(F, a, b, factor, causal, of_mask)
            d = F.matmul(_swapped(F, gy), transposed(F, _swapped(F, v)))
            dm = _of_mask(F, of_mask, p * (d - _rows(F, d * p)))
    if gl is not None:  # where somebody asks for lse, which no half type's attention is asked for
        s = _softmax(F, a, b, factor, causal, of_mask) * F.unsqueeze(gl, axis=gl.ndim)
        dm = _added(dm, _of_mask(F, of_mask, s))
        more = [_swapped(F, x) for x in (F.matmul(s * factor, b), F.matmul(transposed(F, s * factor), a))]
        dq, dk = _added(dq, more[0]), _added(dk, more[1])
    return dq, dk, dv, *([dm] if mask else [])


def _backward_vjp(F: Any, h: Any, made: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, g: Any, *mask: Any,
                  scale: Any, width: int, causal: bool = False) -> tuple[Any, ...]:
    """Of what it computes of q, k, v, g and the mask alone: y and lse are made of these.

    With p = softmax(s), d = g v^T and r the sums along rows, dq = scale (p * (d - r(d p))) k, and so on.
    """
    of_mask = next(iter(mask), None)
    scale = _factor(F, q, scale)
    a, b, c = (None if x is None else _swapped(F, x) for x in h)
    q, k, v, g = (_swapped(F, x) for x in (q, k, v, g))
    p = _softmax(F, q, k, scale, causal, of_mask)
    d = F.matmul(g, transposed(F, v))
    delta = _rows(F, d * p)
    to_q = to_k = to_v = to_g = to_p = to_m = None
    e = None  # what reaches p * (d - delta)
    s = p * (d - delta) * scale
    if a is not None:
        e, to_k = F.matmul(a, transposed(F, k)), F.matmul(transposed(F, s), a)
    if b is not None:
        e, to_q = _added(e, F.matmul(q, transposed(F, b))), F.matmul(s, b)
    if e is not None:
        e = e * scale
        mean = _rows(F, p * e)
        u = p * (e - mean)
        to_g, to_v = F.matmul(u, v), F.matmul(transposed(F, u), g)
        to_p = e * (d - delta) - d * mean
    if c is not None:
        to_g, to_p = _added(to_g, F.matmul(p, c)), _added(to_p, F.matmul(g, transposed(F, c)))
    if to_p is not None:
        to_s = p * (to_p - _rows(F, to_p * p))
        to_m = _of_mask(F, of_mask, to_s)
        to_s = to_s * scale
        to_q, to_k = _added(to_q, F.matmul(to_s, k)), _added(to_k, F.matmul(transposed(F, to_s), q))
    found = [None if x is None else _swapped(F, x) for x in (to_q, to_k, to_v, to_g)]
    return *found[:3], None, None, found[3], *([to_m] if mask else [])


def _spec(q: TensorType, k: TensorType, v: TensorType, *mask: TensorType, **how: Any) -> tuple[TensorType, TensorType]:
    *batch, length, heads, _ = q.dims
    return q, TensorType(float32 if q.dtype.is_half else q.dtype, (*batch, heads, length))


_HOW = {"scale": 0.6, "width": 3}


def _samples(rng: np.random.Generator) -> Any:
    return [(tuple([rng.normal(size=(*batch, n, 2, 3)) for n in (rows, keys, keys)]), {**_HOW, "causal": causal})
            for batch, rows, keys, causal in (((2,), 4, 4, True), ((), 3, 5, False), ((1, 2), 5, 2, True))]


def _backward_samples(rng: np.random.Generator) -> Any:
    return _of_results(rng, _samples(rng))


def _of_results(rng: np.random.Generator, samples: Any) -> Any:
    """Operands of the gradient: what the op makes of its own, and a cotangent."""
    found = []
    for (q, k, v, *mask), how in samples:
        y, lse = _attention(np, q, k, v, *mask, **how)
        found.append(((q, k, v, y, lse, rng.normal(size=q.shape), *mask), how))
    return found


def _masked_samples(rng: np.random.Generator) -> Any:
    """Numbers for heads and keys, flags for queries and keys."""
    first, second = (_samples(rng)[i][0] for i in (0, 1))
    seen = np.array([[True, False, True, True, False], [False, True, False, False, False], [True] * 5])
    return [((*first, rng.normal(size=(1, 2, 1, 4))), _HOW), ((*second, seen[None]), _HOW)]


_TRAITS = {"converts", "in_library", "reads_memory", "stored"}
register("attention", 3, CONTRACT, "softmax(q k^T * scale) v by heads, and the logarithms of its sums of exp(scores).",
         impl=_attention, vjp=_attention_vjp, spec=_spec, batch=alike, traits=_TRAITS, samples=_samples)
register("attention_backward", 6, OPAQUE, "The gradients of `attention` with respect to q, k and v, from y's.",
         impl=_attention_backward, vjp=_backward_vjp, spec=lambda q, k, v, *made, **how: (q, k, v),
         traits=_TRAITS, samples=_backward_samples)
register("masked_attention", 4, CONTRACT, "`attention` to what a mask leaves, or with numbers added to the scores.",
         impl=_attention, vjp=_attention_vjp, spec=_spec, batch=alike, traits=_TRAITS, samples=_masked_samples)
register("masked_attention_backward", 7, OPAQUE, "The gradients of `masked_attention` with respect to q, k and v.",
         impl=_attention_backward, vjp=_backward_vjp, spec=lambda q, k, v, *made, **how: (q, k, v),
         traits=_TRAITS, samples=lambda rng: _of_results(rng, _masked_samples(rng)))
