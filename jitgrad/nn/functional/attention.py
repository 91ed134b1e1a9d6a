"""Attention as functions: of given queries, keys and values, and with several heads and its projections.

Source: Vaswani et al., "Attention Is All You Need", 2017.
"""

import math
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.autocast import lower
from jitgrad.ops.library import reduce as _reduce
from jitgrad.ops.library.linear_algebra.attention import fused_attention
from jitgrad.ops.library.random import dropout as _dropout

Number = bool | int | float


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: Number = 0.0, is_causal: bool = False, scale: Number | None = None,
                                 enable_gqa: bool = False) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value; a row that the mask leaves nothing gives 0.

    Args:
        query: float (..., L, E).
        key: float (..., S, E).
        value: float (..., S, Ev).
        attn_mask: bool (True: take part) or float (added), broadcast to (..., L, S).
        dropout_p: probability with which a weight is dropped.
        is_causal: position i sees positions up to i only; not together with attn_mask.
        scale: 1 / sqrt(E) by default.
        enable_gqa: key and value have fewer heads (axis -3), each for a group of query's.

    Returns:
        float (..., L, Ev).
    """
    query, key, value, attn_mask = lower(query), lower(key), lower(value), lower(attn_mask)
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got query.dtype: "
                           f"{query.dtype.c_name} key.dtype: {key.dtype.c_name} and value.dtype: {value.dtype.c_name} "
                           "instead.")
    if attn_mask is not None:
        if attn_mask.dtype not in (jitgrad.bool, jitgrad.float32, query.dtype):
            raise RuntimeError("Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                               f"attn_mask.dtype: {attn_mask.dtype.c_name} and  query.dtype: {query.dtype.c_name} "
                               "instead.")
        if query.dtype.is_half and attn_mask.dtype == jitgrad.float32:
            attn_mask = attn_mask.to(query.dtype)
    if enable_gqa:
        key = jitgrad.repeat_interleave(key, query.shape[-3] // key.shape[-3], -3)
        value = jitgrad.repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    fused = fused_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if fused is not None:
        return fused
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                               "is_causal=True")
        rows = jitgrad.arange(query.shape[-2], device=query.device).unsqueeze(1)
        columns = jitgrad.arange(key.shape[-2], device=key.device)
        scores = scores.masked_fill(columns > rows, -math.inf)
    if attn_mask is None:
        weights = _reduce.softmax(scores, -1)
    else:
        if attn_mask.dtype == jitgrad.bool:
            scores = scores.masked_fill(jitgrad.logical_not(attn_mask), -math.inf)
        else:
            scores = scores + attn_mask
        nothing = _reduce.amax(scores.detach(), -1, True) == -math.inf
        weights = _reduce.softmax(scores.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    if dropout_p != 0.0:
        weights = _dropout(weights, dropout_p, True)
    return weights @ value


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., in), (out, in), (out,) give (..., out)."""
    y: Tensor = jitgrad.matmul(input, weight.t())
    if bias is None:
        return y
    b: Tensor = lower(bias)
    if b.dtype is not y.dtype:
        raise RuntimeError(f"self and mat2 must have the same dtype, but got {b.dtype.word} and {weight.dtype.word}")
    return y + b


def _added(mask: Tensor | None, name: str, d: Any) -> Tensor | None:
    """A mask as numbers to be added to scores: True becomes -inf."""
    if mask is None:
        return None
    if mask.dtype == jitgrad.bool:
        return jitgrad.zeros(mask.shape, dtype=d, device=mask.device).masked_fill(mask, -math.inf)
    if not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


def _check_ranks(query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None,
                 attn_mask: Tensor | None) -> None:
    if query.dim() not in (2, 3):
        raise AssertionError("query should be unbatched 2D or batched 3D tensor but received "
                             f"{query.dim()}-D query tensor")
    rank = query.dim()
    batched = f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`, expected"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(f"{batched} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D "
                             "tensors respectively")
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(f"{batched} `key_padding_mask` to be `None` or {rank - 1}-D but found "
                             f"{key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(f"{batched} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
                             "instead")


def _projected(query: Tensor, key: Tensor, value: Tensor, joint: Tensor | None, separate: Any,
               bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, (L, N, E) each."""
    b_q = b_k = b_v = None
    if bias is not None:
        b_q, b_k, b_v = bias.chunk(3)
    if separate is not None:
        w_q, w_k, w_v = separate
        if key.shape[0] != value.shape[0] or key.shape[1] != value.shape[1]:
            raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                                 f"{value.shape[:2]}")
    else:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if query is key and key is value:
            q, k, v = linear(query, joint, bias).chunk(3, -1)  # type: ignore[arg-type]
            return q, k, v
        w_q, w_k, w_v = joint.chunk(3)  # type: ignore[union-attr]
    return linear(query, w_q, b_q), linear(key, w_k, b_k), linear(value, w_v, b_v)


def _shaped(mask: Tensor | None, batch: int, heads: int, n_q: int, n_k: int) -> Tensor | None:
    """attn_mask as (1, 1, L, S) or (N, H, L, S)."""
    if mask is None:
        return None
    if mask.dim() == 2:
        if mask.shape[0] != n_q or mask.shape[1] != n_k:
            raise RuntimeError(f"The shape of the 2D attn_mask is {mask.shape}, but should be {(n_q, n_k)}.")
        return mask.unsqueeze(0).unsqueeze(0)
    if mask.shape[0] != batch * heads or mask.shape[1] != n_q or mask.shape[2] != n_k:
        raise RuntimeError(f"The shape of the 3D attn_mask is {mask.shape}, but should be "
                           f"{(batch * heads, n_q, n_k)}.")
    return mask.view(batch, heads, n_q, n_k)


def _joined(mask: Tensor | None, padding: Tensor | None, batch: int, n_k: int) -> Tensor | None:
    """attn_mask and key_padding_mask (N, S) as one."""
    if padding is None:
        return mask
    if padding.shape[0] != batch:
        raise AssertionError(f"Expected key_padded_mask.shape[0] to be {batch}, but got {padding.shape[0]}")
    if padding.shape[1] != n_k:
        raise AssertionError(f"Expected key_padded_mask.shape[1] to be {n_k}, but got {padding.shape[1]}")
    padding = padding.unsqueeze(1).unsqueeze(1)
    return padding if mask is None else mask + padding


def _split(x: Tensor, heads: int) -> Tensor:
    """(L, N, E) -> (N, H, L, E / H)."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).permute(1, 2, 0, 3)


def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
                                 in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
                                 bias_v: Tensor | None, add_zero_attn: bool, dropout_p: Number, out_proj_weight: Tensor,
                                 out_proj_bias: Tensor | None, training: bool = True,
                                 key_padding_mask: Tensor | None = None, need_weights: bool = True,
                                 attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
                                 q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
                                 v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
                                 static_v: Tensor | None = None, average_attn_weights: bool = True,
                                 is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads between projections.

    Args:
        query: (L, N, E) or (L, E).
        key, value: (S, N, Ek), (S, N, Ev), or without N.
        embed_dim_to_check, num_heads: E and H; each head has E / H features.
        in_proj_weight, in_proj_bias: (3 E, E) and (3 E,): of query, key and value.
        q_proj_weight, k_proj_weight, v_proj_weight: (E, E), (E, Ek), (E, Ev), with use_separate_proj_weight.
        bias_k, bias_v: (1, 1, E): one more key and value for all.
        add_zero_attn: one more key and value of zeros.
        out_proj_weight, out_proj_bias: (E, E), (E,).
        key_padding_mask: (N, S) or (S,): bool (True: left out) or float (added to the scores).
        attn_mask: (L, S) or (N H, L, S), likewise.
        need_weights: give the weights too, averaged over the heads where average_attn_weights.
        static_k, static_v: (N H, S, E / H) instead of the projected ones.
        is_causal: a hint that attn_mask is the causal one; it is used as it is.

    Returns:
        (L, N, E) and the weights, (N, L, S) or (N, H, L, S), or None.
    """
    _check_ranks(query, key, value, key_padding_mask, attn_mask)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                           "`generate_square_subsequent_mask` to create this mask.")
    unbatched = query.dim() == 2
    if unbatched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    n_q, batch, width = query.shape
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    padding = _added(key_padding_mask, "key_padding_mask", query.dtype)
    mask = _added(attn_mask, "attn_mask", query.dtype)

    weights_in = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, weights_in, in_proj_bias)

    n_k = key.shape[0]
    mask = _shaped(mask, batch, num_heads, n_q, n_k)
    added = 0
    if bias_k is not None:
        k, v = jitgrad.cat([k, bias_k.repeat(1, batch, 1)]), jitgrad.cat([v, bias_v.repeat(1, batch, 1)])  # type: ignore[union-attr]
        added += 1
    size = width // num_heads
    q = _split(q, num_heads)
    k = _split(k, num_heads) if static_k is None else static_k.reshape(batch, num_heads, -1, size)
    v = _split(v, num_heads) if static_v is None else static_v.reshape(batch, num_heads, -1, size)
    if add_zero_attn:
        zero = k.new_zeros(batch, num_heads, 1, size)
        k, v = jitgrad.cat([k, zero], 2), jitgrad.cat([v, zero], 2)
        added += 1
    mask = _joined(mask, padding, batch, n_k)
    if mask is not None and added:  # what was added is always seen
        mask = jitgrad.cat([mask, mask.new_zeros(*mask.shape[:3], added)], 3)

    weights = None
    if need_weights:
        scores = (q * math.sqrt(1.0 / size)) @ k.transpose(-2, -1)
        weights = _reduce.softmax(scores if mask is None else scores + lower(mask), -1)
        if training and dropout_p > 0.0:
            weights = _dropout(weights, dropout_p, True)
        heads = weights @ v
        if average_attn_weights:
            weights = weights.mean(1)
    else:
        heads = scaled_dot_product_attention(q, k, v, mask, dropout_p if training else 0.0)
    out = linear(heads.permute(2, 0, 1, 3).reshape(n_q, batch, width), out_proj_weight, out_proj_bias)
    if unbatched:
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    return out, weights


__all__ = ["linear", "multi_head_attention_forward", "scaled_dot_product_attention"]
