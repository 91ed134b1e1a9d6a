"""Attention with several heads as a layer."""

from typing import Any

from jitgrad.dtypes import dtype
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F, init
from jitgrad.nn.module import Module
from jitgrad.nn.modules.linear import Linear
from jitgrad.nn.parameter import Parameter, unset


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under the name that torch gives to the output projection."""


class MultiheadAttention(Module):
    """Attention of several heads between linear maps of query, key, value and output.

    Args:
        embed_dim: E, the features of query and output.
        num_heads: how many heads; each has E / num_heads features.
        dropout: probability with which a weight is dropped while training.
        bias: whether the maps have biases.
        add_bias_kv: one learned key and value more.
        add_zero_attn: one key and value of zeros more.
        kdim, vdim: features of key and value, E by default.
        batch_first: (N, L, E) instead of (L, N, E).

    Attributes:
        in_proj_weight: (3 E, E), or q_proj_weight, k_proj_weight, v_proj_weight where kdim or vdim is another.
        in_proj_bias: (3 E,) or None.
        out_proj: the `Linear` at the end.
        bias_k, bias_v: (1, 1, E) or None.

    Raises:
        ValueError: sizes below 1. AssertionError: E is no multiple of num_heads.
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: dtype | None = None):
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                             f"num_heads={num_heads} instead")
        super().__init__()
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = kdim if kdim is not None else embed_dim, vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def register(wanted: bool, name: str, *sizes: int) -> None:
            self.register_parameter(name, unset(wanted, *sizes, device=device, dtype=dtype))

        joint = self._qkv_same_embed_dim
        register(joint, "in_proj_weight", 3 * embed_dim, embed_dim)
        register(not joint, "q_proj_weight", embed_dim, embed_dim)
        register(not joint, "k_proj_weight", embed_dim, self.kdim)
        register(not joint, "v_proj_weight", embed_dim, self.vdim)
        register(bias, "in_proj_bias", 3 * embed_dim)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            register(True, "bias_k", 1, 1, embed_dim)
            register(True, "bias_v", 1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)  # type: ignore[arg-type]
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
                need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
        """(L, N, E), (S, N, kdim), (S, N, vdim) -> (L, N, E) and weights or None.

        Args:
            query, key, value: N first with batch_first; without N: one batch.
            key_padding_mask: (N, S), bool (True: left out) or float (added to the scores).
            need_weights: give the weights too, (N, L, S).
            attn_mask: (L, S) or (N num_heads, L, S), as key_padding_mask.
            average_attn_weights: False: weights of each head, (N, num_heads, L, S).
            is_causal: a hint that attn_mask is the causal one; needs attn_mask.
        """
        swap = self.batch_first and query.dim() == 3
        if swap:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal)
        return (out.transpose(0, 1) if swap else out), weights


__all__ = ["MultiheadAttention"]
