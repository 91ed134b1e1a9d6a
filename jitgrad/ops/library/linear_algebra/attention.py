"""Attention in one op, for scripts."""

import math
from typing import Any, cast

from jitgrad.dtypes import bool_, float32, float64
from jitgrad.ops.backend import AnyTensor, SymNumber, Tensor, backend
from jitgrad.ops.library.core import apply
from jitgrad.ops.rows.attention import WIDTHS

__library__ = True


def fused_attention(query: AnyTensor[Tensor], key: AnyTensor[Tensor], value: AnyTensor[Tensor], mask: Any,
                    dropout: Any, causal: Any, scale: Any) -> Tensor | None:
    """softmax(query @ key.T * scale) @ value as one op; None where it is to be composed.

    It is one op in scripts, without dropout, for (N, H, L, E), (H, L, E) or (L, E), equal for all but in L, and a mask
    of flags or of the same type: on the CPU for float32 and float64, on a GPU for half types with heads of 32, 64 or
    128 features. Which it is of those hangs on the sizes, and the dropout, of the first call, which are guarded then.
    """
    given = query, key, value
    rank = query.ndim
    masks = () if mask is None else (mask,)
    on_device = all(map(backend().on_device, (*given, *masks)))
    if not on_device and not all(map(backend().on_host, (*given, *masks))):
        return None
    if not isinstance(causal, bool) or (masks and causal):
        return None
    if scale is not None and not isinstance(scale, (int, float, SymNumber)):
        return None
    if not (query.dtype.is_half if on_device else query.dtype in (float32, float64)) or not 2 <= rank <= 4 or any(
            x.ndim != rank or x.dtype is not query.dtype for x in given):
        return None
    others = [(a, b) for x in (key, value) for a, b in zip(x.shape, query.shape, strict=True)]
    del others[rank - 2::rank]
    width = next((w for w in WIDTHS if backend().take_equal([(query.shape[-1], w)])), None) if on_device else 0
    if width is None or not backend().take_equal([*others, (key.shape[-2], value.shape[-2])]) or (
            not backend().take_zero(dropout)):
        return None
    if any(m.ndim > rank or m.dtype not in (query.dtype, bool_) for m in masks):
        return None
    scores = (*query.shape[:-1], key.shape[-2])
    for m in masks:
        if not all(backend().take_equal([(size, 1)]) or backend().take_equal([(size, other)])
                   for size, other in zip(m.shape[::-1], scores[::-1], strict=False)):
            return None
    if scale is None and width:
        scale = 1.0 / math.sqrt(width)
    if isinstance(scale, SymNumber):  # known when the script runs
        given, scale = (cast(Any, query) * scale, key, value), 1.0
    found, factor = [_heads_last(x) for x in given], None if scale is None else float(scale)
    if mask is None:
        made = apply("attention", *found, scale=factor, width=width, causal=causal)
    else:
        made = apply("masked_attention", *found, _of_rank_four(mask), scale=factor, width=width)
    y: Tensor = apply("permute", made[0], axes=(0, 2, 1, 3))
    for _ in range(4 - rank):
        y = apply("select", y, axis=0, index=0)
    return y


def _of_rank_four(x: Any) -> Any:
    """With axes of size 1 in front, a view."""
    while x.ndim < 4:
        x = apply("unsqueeze", x, axis=0)
    return x


def _heads_last(x: Any) -> Any:
    """(N, L, H, E), a view."""
    return apply("permute", _of_rank_four(x), axes=(0, 2, 1, 3))
