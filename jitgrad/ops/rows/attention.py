"""Attention as one op, where a device has a kernel for it: y = softmax(q k^T * scale) v, without the matrix of weights.

The library composes attention of products and a softmax; scripts on a GPU have these rows where kernels take the types
and sizes (`ops/library/linear_algebra/attention.py`). q, y, g are (..., L, H, E), k and v (..., S, H, E): heads behind
positions, as projections give them. The gradient computes the weights again; kernels do it from q, k and lse, the
logarithms of the sums of exp(scores), (..., H, L).

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

#: the features of a head for which there are kernels
WIDTHS = (32, 64, 128)

# --- on arrays -----------------------------------------------------------------------------------------------------


def _weights(xp: Any, q: Any, k: Any, scale: float, causal: bool) -> tuple[Any, Any, Any]:
    """exp(scores - their maximum), the sums of these along rows, the maximum."""
    scores = xp.matmul(q * scale, k.swapaxes(-1, -2))
    if causal:
        scores = xp.where(xp.arange(k.shape[-2]) > xp.arange(q.shape[-2])[:, None], -math.inf, scores)
    most = scores.max(axis=-1, keepdims=True) if k.shape[-2] else xp.zeros((*scores.shape[:-1], 1), q.dtype)
    e = xp.exp(scores - most)
    return e, e.sum(axis=-1, keepdims=True), most


def _heads_first(xp: Any, *arrays: Any) -> list[Any]:
    """(..., H, L, E) of (..., L, H, E), and the other way round."""
    return [widened(x).swapaxes(-2, -3) for x in arrays]


def _attention(xp: Any, q: Any, k: Any, v: Any, scale: float, causal: bool) -> tuple[Any, Any]:
    d = q.dtype
    q, k, v = _heads_first(xp, q, k, v)
    e, total, most = _weights(xp, q, k, scale, causal)
    y = xp.matmul(e, v) / total if k.shape[-2] else xp.matmul(e, v)
    (y,) = _heads_first(xp, y)
    return rounded(y.astype(q.dtype, copy=False), d), (xp.log(total) + most)[..., 0].astype(q.dtype, copy=False)


def _attention_backward(xp: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, g: Any, scale: float, causal: bool) -> Any:
    d = q.dtype
    q, k, v, g = _heads_first(xp, q, k, v, g)
    e, total, _ = _weights(xp, q, k, scale, causal)
    p, slopes = e / total, xp.matmul(g, v.swapaxes(-1, -2))
    s = p * (slopes - (slopes * p).sum(axis=-1, keepdims=True)) * scale
    found = xp.matmul(s, k), xp.matmul(s.swapaxes(-1, -2), q), xp.matmul(p.swapaxes(-1, -2), g)
    return tuple([rounded(x.astype(q.dtype, copy=False), d) for x in _heads_first(xp, *found)])


# --- rules ---------------------------------------------------------------------------------------------------------


def _swapped(F: Any, x: Any) -> Any:
    """Heads and positions exchanged."""
    n = x.ndim
    return F.permute(x, axes=(*range(n - 3), n - 2, n - 3, n - 1))


def _softmax(F: Any, q: Any, k: Any, scale: float, causal: bool) -> Any:
    scores = F.matmul(q * scale, transposed(F, k))
    if causal:
        rows = F.unsqueeze(F.arange(length=q.shape[-2], dtype=int64), axis=1)
        scores = F.where(F.gt(F.arange(length=k.shape[-2], dtype=int64), rows), -math.inf, scores)
    return F.softmax(scores, axis=scores.ndim - 1)


def _rows(F: Any, x: Any) -> Any:
    """Sums along the last axis, which stays."""
    return F.sum(x, axes=(x.ndim - 1,), keepdim=True)


def _added(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _attention_vjp(F: Any, g: Any, y: Any, q: Any, k: Any, v: Any, scale: float, causal: bool) -> tuple[Any, ...]:
    gy, gl = g
    dq = dk = dv = None
    if gy is not None:
        dq, dk, dv = F.attention_backward(q, k, v, *y, gy, scale=scale, causal=causal)
    if gl is not None:  # where somebody asks for lse, which no half type's attention is asked for
        a, b = _swapped(F, q), _swapped(F, k)
        s = _softmax(F, a, b, scale, causal) * F.unsqueeze(gl, axis=gl.ndim) * scale
        more = [_swapped(F, x) for x in (F.matmul(s, b), F.matmul(transposed(F, s), a))]
        dq, dk = _added(dq, more[0]), _added(dk, more[1])
    return dq, dk, dv


def _backward_vjp(F: Any, h: Any, made: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, g: Any, scale: float,
                  causal: bool) -> tuple[Any, ...]:
    """Of what it computes of q, k, v and g alone: y and lse are made of these.

    With p = softmax(s), d = g v^T and r the sums along rows, dq = scale (p * (d - r(d p))) k, and so on.
    """
    a, b, c = (None if x is None else _swapped(F, x) for x in h)
    q, k, v, g = (_swapped(F, x) for x in (q, k, v, g))
    p = _softmax(F, q, k, scale, causal)
    d = F.matmul(g, transposed(F, v))
    delta = _rows(F, d * p)
    to_q = to_k = to_v = to_g = to_p = None
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
        to_s = p * (to_p - _rows(F, to_p * p)) * scale
        to_q, to_k = _added(to_q, F.matmul(to_s, k)), _added(to_k, F.matmul(transposed(F, to_s), q))
    found = [None if x is None else _swapped(F, x) for x in (to_q, to_k, to_v, to_g)]
    return (*found[:3], None, None, found[3])


def _spec(q: TensorType, k: TensorType, v: TensorType, **how: Any) -> tuple[TensorType, TensorType]:
    *batch, length, heads, _ = q.dims
    return q, TensorType(float32 if q.dtype.is_half else q.dtype, (*batch, heads, length))


def _samples(rng: np.random.Generator) -> Any:
    return [(tuple([rng.normal(size=(*batch, n, 2, 3)) for n in (rows, keys, keys)]), {"scale": 0.6, "causal": causal})
            for batch, rows, keys, causal in (((2,), 4, 4, True), ((), 3, 5, False), ((1, 2), 5, 2, True))]


def _backward_samples(rng: np.random.Generator) -> Any:
    found = []
    for (q, k, v), how in _samples(rng):
        y, lse = _attention(np, q, k, v, **how)
        found.append(((q, k, v, y, lse, rng.normal(size=q.shape)), how))
    return found


_TRAITS = {"converts", "in_library", "reads_memory", "stored"}
register("attention", 3, CONTRACT, "softmax(q k^T * scale) v by heads, and the logarithms of its sums of exp(scores).",
         impl=_attention, vjp=_attention_vjp, spec=_spec, batch=alike, traits=_TRAITS, samples=_samples)
register("attention_backward", 6, OPAQUE, "The gradients of `attention` with respect to q, k and v, from y's.",
         impl=_attention_backward, vjp=_backward_vjp, spec=lambda q, k, v, *made, **how: (q, k, v),
         traits=_TRAITS, samples=_backward_samples)
