"""Attention block by block: no matrix of all weights, and nothing computed of blocks that a causal mask leaves nothing.

    jg_attention_forward_float32(words, q, k, v, mask, y, lse)
    jg_attention_backward_float32(words, q, k, v, mask, y, lse, g, dq, dk, dv)

Some queries at a time meet some keys at a time: the scores of these stay in the first caches. Of each query the largest
score so far and the sum of exp(score - that) are kept; what was added up before a larger one was found is scaled down.
The gradient computes the weights again from lse, the logarithms of the sums of exp(score).

`words` are the numbers of `NAMES`: sizes; of each operand, (batches, positions, heads, width), by how many elements its
leading axes move, the last one being contiguous; of the mask, (batches, heads, queries, keys), the same, 0 where it has
one for all; whether there is a scale, else it is 1 / sqrt(width), and its bits as a float64. lse is contiguous.

Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from jitgrad.dims import Size

#: what the names of the functions begin with; what they do, and the operands of each
PREFIX = "jg_attention_"
ROLES = {"forward": ("q", "k", "v", "mask", "y", "lse"),
         "backward": ("q", "k", "v", "mask", "y", "lse", "g", "dq", "dk", "dv")}
#: operands with an axis of features, and the axes by which they move
WIDE = ("q", "k", "v", "y", "g", "dq", "dk", "dv")
AXES, MASK_AXES = ("batch", "row", "head"), ("batch", "head", "row", "key")
#: the numbers that the functions are given, in order
NAMES = ("batches", "heads", "queries", "keys", "width", "causal", "mask", "scaled", "scale",
         *(f"{x}_{axis}" for x in WIDE for axis in AXES), *(f"mask_{axis}" for axis in MASK_AXES))
#: what `mask` says: there is none, it is added to the scores, or its bytes say which count
NO_MASK, ADDED, FLAGS = range(3)


def words(sizes: Sequence[Size], causal: bool, mask: int, scale: float | None, moves: Mapping[str, Sequence[Size]]
          ) -> tuple[Size, ...]:
    """The numbers: `sizes` are the first five, `moves` those of the operands that there are, by name."""
    (bits,) = struct.unpack("=q", struct.pack("=d", scale or 0.0))
    none = dict.fromkeys(WIDE, (0,) * len(AXES)) | {"mask": (0,) * len(MASK_AXES)}
    moved = (none | dict(moves)).values()
    return *sizes, int(causal), mask, int(scale is not None), bits, *[move for found in moved for move in found]
