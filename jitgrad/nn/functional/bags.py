"""Looking up rows of a table: with bounded norms, with gradients by frequency, and summed in bags."""

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.functional.norms import p_norm
from jitgrad.ops.library import classes as _classes

Number = bool | int | float


def _bound_norms(weight: Tensor, input: Tensor, max_norm: Number, norm_type: Number) -> None:
    """Scale the rows that are read down to max_norm, in place."""
    _classes.require_indices(input)
    with jitgrad.no_grad():
        rows = jitgrad.zeros(weight.shape[0], dtype=jitgrad.bool, device=weight.device)
        read = rows.index_fill(0, input.reshape(-1).long(), True).unsqueeze(1)
        norm = p_norm(weight, norm_type, 1, True)
        weight.copy_(jitgrad.where(read & (norm > max_norm), weight * (max_norm / (norm + 1e-7)), weight))


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: Number | None = None,
              norm_type: Number = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """Rows of weight, (num, D), at integer indices of any shape: (..., D).

    Args:
        padding_idx: a row that gets no gradient.
        max_norm: rows that are read are first scaled down to this norm of order norm_type, in place.
        scale_grad_by_freq: a row's gradient is divided by how often it is read.
        sparse: must be False: gradients are dense.

    Raises:
        IndexError: an index out of range.
    """
    return _rows(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, IndexError)


def _rows(input: Tensor, weight: Tensor, padding_idx: int | None, max_norm: Number | None, norm_type: Number,
          scale_grad_by_freq: bool, sparse: bool, error: type[Exception]) -> Tensor:
    if weight.dim() == 0 and weight.requires_grad:  # whose rows are counted for the gradient
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if padding_idx is not None and padding_idx != 0 and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    if sparse:
        raise NotImplementedError("embedding() does not have sparse gradients")
    if weight.dim() != 2:
        raise RuntimeError("'weight' must be 2-D")
    if max_norm is not None:
        _bound_norms(weight, input, max_norm, norm_type)
    rows = _classes.lookup(input, weight, error)
    if scale_grad_by_freq:
        ones = weight.new_ones(input.numel())
        count = weight.new_zeros(weight.shape[0]).index_add(0, input.reshape(-1), ones)
        kept = rows.detach()
        rows = kept + (rows - kept) / count[input].unsqueeze(-1)
    if padding_idx is None:
        return rows
    if padding_idx < 0:
        padding_idx = weight.shape[0] + padding_idx
    return jitgrad.where((input == padding_idx).unsqueeze(-1), rows.detach(), rows)


def _in_order(input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and rows, which old programs give the other way round. ValueError where the rows are no matrix."""
    if weight.dtype is jitgrad.int64 and input.dtype.is_floating_point:
        input, weight = weight, input
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    return input, weight


def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: Number | None = None,
                  norm_type: Number = 2, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> Tensor:
    """Sums, means or maxima of bags of rows of weight, (num, D); an empty bag gives 0.

    Args:
        input: integers, (B, N): B bags, or (n,) with offsets.
        offsets: int64 (B,): where each bag begins; with include_last_offset one more, where the last ends.
        mode: "sum", "mean" or "max".
        per_sample_weights: a factor for each index, in mode "sum" only.
        padding_idx: an index that does not count.

    Returns:
        (B, D). The other arguments are `embedding`'s.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                                  f"supported for mode='sum' (got mode='{mode}'). Please open a feature request on "
                                  "GitHub.")
    input, weight = _in_order(input, weight)
    if input.dim() == 2:
        if input.dtype == jitgrad.bool:
            raise NotImplementedError("\"arange_cpu\" not implemented for 'Bool'")
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
                             "fixed length sequences. However, found offsets of type Tensor")
        bags, length = input.shape
        bag = jitgrad.arange(bags, device=input.device).unsqueeze(1).expand(bags, length).reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        input, offsets = (x.to(jitgrad.promote_types(input.dtype, offsets.dtype)) for x in (input, offsets))
        bags = offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]
        bag = (jitgrad.arange(input.shape[0], device=input.device).unsqueeze(1) >= offsets[:bags]).sum(1) - 1
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if not weight.dtype.is_floating_point:
        raise RuntimeError("Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
                           f"BFloat16, Float, Double; but got {weight.dtype} instead")
    rows = _rows(input.reshape(-1), weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, RuntimeError)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1).unsqueeze(1)
    counts = weight.new_ones(rows.shape[0])
    if include_last_offset and offsets is not None:  # what lies behind is in no bag
        counts = jitgrad.where(jitgrad.arange(input.shape[0], device=input.device) < offsets[bags], counts, 0.0)
    if padding_idx is not None:
        skipped = input.reshape(-1) == (padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx)
        counts = jitgrad.where(skipped, 0.0, counts)
    sizes = weight.new_zeros(bags).index_add(0, bag, counts).unsqueeze(1)
    if mode == "max":
        member = (bag == jitgrad.arange(bags, device=bag.device).unsqueeze(1)) & (counts > 0)
        spread = jitgrad.where(member.unsqueeze(2), rows, float("-inf"))
        best: Tensor | None = spread.max(1, keepdim=True).indices if rows.shape[0] > 0 else None
        if best is None:
            return weight.new_zeros(bags, weight.shape[1])
        return jitgrad.where(sizes > 0, jitgrad.gather(rows, 0, best.squeeze(1)), 0.0)
    total = weight.new_zeros(bags, weight.shape[1]).index_add(0, bag, rows * counts.unsqueeze(1))
    return total if mode == "sum" else total / sizes.clamp_min(1)


__all__ = ["embedding", "embedding_bag"]
