"""`torch.layer_norm` and kin: functions of `nn.functional` by their names in `torch`, with the arguments of there.

`reduction` is a number: 0 for none, 1 for the mean, 2 for the sum. Options of cuDNN have no effect.
"""

from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.ops.backend import AnyTensor
from jitgrad.ops.library.core import class_word
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import axis

__library__ = True

Number = bool | int | float


def _word(reduction: int) -> str:
    if not isinstance(reduction, int):
        raise TypeError(f"argument 'reduction' must be int, not {class_word(reduction)}")
    return "mean" if reduction == 1 else "sum" if reduction == 2 else "none"


def _floats(function: str, x: Any, error: type[Exception] = NotImplementedError) -> None:
    """NotImplementedError, or another one, for a tensor that is not of floats."""
    if not x.dtype.is_floating_point:
        raise error(f'"{function}" not implemented for \'{x.dtype.word}\'')


# --- norms and layers ----------------------------------------------------------------------------------------------


def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: Number = 1e-5, cudnn_enable: bool = True) -> Tensor:
    """`nn.functional.layer_norm`."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: Number = 1e-5, cudnn_enabled: bool = True) -> Tensor:
    """`nn.functional.group_norm`."""
    axis(1, input.ndim)
    return F.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
               running_var: Tensor | None, training: bool, momentum: Number, eps: Number,
               cudnn_enabled: bool) -> Tensor:
    """`nn.functional.batch_norm`."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
                  running_var: Tensor | None, use_input_stats: bool, momentum: Number, eps: Number,
                  cudnn_enabled: bool) -> Tensor:
    """`nn.functional.instance_norm`."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
              sparse: bool = False) -> Tensor:
    """`nn.functional.embedding`; a `padding_idx` of -1 is none."""
    if not isinstance(indices, AnyTensor):
        raise TypeError(f"embedding(): argument 'indices' (position 2) must be Tensor, not {class_word(indices)}")
    return F.embedding(indices, weight, None if padding_idx == -1 else padding_idx, None, 2.0, scale_grad_by_freq,
                       sparse)


def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
                  sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag` of modes 0, "sum", 1, "mean", and 2, "max", and what its derivative asks for.

    Returns:
        the bags; the bag of each index, which a plain sum without history does not need; how many indices each bag
        has, 0 for sums; and for maxima the indices, (B, D), from which they came, else the counts.
    """
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    if per_sample_weights is not None and mode != 0:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    padding = None if padding_idx is None or padding_idx == -1 else padding_idx
    output = F.embedding_bag(indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
                             sparse, per_sample_weights, include_last_offset, padding)
    bags = output.shape[0]
    places = jitgrad.arange(indices.shape[0], device=indices.device)
    bag = (places.unsqueeze(1) >= offsets[:bags]).sum(1) - 1
    counted = jitgrad.ones_like(bag) if padding is None else (indices != padding).to(jitgrad.int64)
    sizes = jitgrad.zeros_like(offsets[:bags]).index_add(0, bag, counted.to(offsets.dtype))
    if mode == 0:
        sizes = jitgrad.zeros_like(sizes)
        if padding is None and not weight.requires_grad:
            bag = bag[:0]
    if mode != 2:
        return output, bag, sizes, sizes
    member = (bag == jitgrad.arange(bags, device=bag.device).unsqueeze(1)) & (counted > 0)
    spread = jitgrad.where(member.unsqueeze(2), weight.detach()[indices], float("-inf"))
    chosen = indices[spread.argmax(1)] if indices.shape[0] else jitgrad.zeros_like(output, dtype=indices.dtype)
    return output, bag, sizes, jitgrad.where(sizes.unsqueeze(1) > 0, chosen, 0)


def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
             eps: Number | None = None) -> Tensor:
    """`nn.functional.rms_norm`."""
    return F.rms_norm(input, normalized_shape, weight, eps)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`nn.functional.bilinear`."""
    return F.bilinear(input1, input2, weight, bias)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> Any:
    """`nn.functional.adaptive_max_pool1d_with_indices`."""
    return F.adaptive_max_pool1d_with_indices(input, output_size)


# --- dropout -------------------------------------------------------------------------------------------------------


def alpha_dropout(input: Tensor, p: Number, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`."""
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: Number, train: bool) -> Tensor:
    """In-place version of `alpha_dropout`."""
    return F.alpha_dropout(input, p, train, True)


def feature_alpha_dropout(input: Tensor, p: Number, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout`."""
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: Number, train: bool) -> Tensor:
    """In-place version of `feature_alpha_dropout`."""
    return F.feature_alpha_dropout(input, p, train, True)


def _slopes(input: Tensor, lower: Number, upper: Number, training: bool, generator: Any) -> Any:
    _floats("rrelu", input)
    if not training:
        return (lower + upper) / 2
    return lower + (upper - lower) * jitgrad.rand_like(input, generator=generator)


def rrelu(input: Tensor, lower: Number = 1.0 / 8, upper: Number = 1.0 / 3, training: bool = False,
          generator: Any = None) -> Tensor:
    """`nn.functional.rrelu`, of the numbers of a generator."""
    found: Tensor = jitgrad.where(input >= 0, input, input * _slopes(input, lower, upper, training, generator))
    return found


def rrelu_(input: Tensor, lower: Number = 1.0 / 8, upper: Number = 1.0 / 3, training: bool = False,
           generator: Any = None) -> Tensor:
    """In-place version of `rrelu`."""
    return input.copy_(rrelu(input, lower, upper, training, generator))


# --- distances -----------------------------------------------------------------------------------------------------


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: Number = 1e-8) -> Tensor:
    """`nn.functional.cosine_similarity`."""
    return F.cosine_similarity(x1, x2, dim, eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: Number = 2.0, eps: Number = 1e-6, keepdim: bool = False) -> Tensor:
    """`nn.functional.pairwise_distance`."""
    return F.pairwise_distance(x1, x2, p, eps, keepdim)


def pdist(input: Tensor, p: Number = 2.0) -> Tensor:
    """`nn.functional.pdist`."""
    return F.pdist(input, p)


# --- losses --------------------------------------------------------------------------------------------------------


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     pos_weight: Tensor | None = None, reduction: int = 0) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=_word(reduction), pos_weight=pos_weight)


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div`."""
    word = _word(reduction)
    _floats("kl_div", input, RuntimeError)
    return F.kl_div(input, target, reduction=word, log_target=log_target)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Number = 0.0,
                          reduction: int = 0) -> Tensor:
    """`nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_word(reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: Number = 1.0, reduction: int = 0) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Number = 0.0,
                        reduction: int = 0) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_word(reduction))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: Number = 1.0, p: Number = 2.0,
                        eps: Number = 1e-6, swap: bool = False, reduction: int = 0) -> Tensor:
    """`nn.functional.triplet_margin_loss`."""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction))


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: Number, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_word(reduction))


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
             reduction: int = 0, zero_infinity: bool = False) -> Tensor:
    """`nn.functional.ctc_loss`."""
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _word(reduction), zero_infinity)


# --- approximations of low rank ------------------------------------------------------------------------------------


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> Any:
    """(U, S, V) with U diag(S) V^T near A - M, of rank q at most: (..., m, n) gives (..., m, q), (..., q), (..., n, q).

    Source: Halko, Martinsson, Tropp, "Finding structure with randomness", 2011, algorithm 5.1.
    """
    rank, steps = 6 if q is None else q, 2 if niter is None else niter
    m, n = A.shape[-2], A.shape[-1]
    a = A if M is None else A - M
    wide = a.mT if m < n else a
    y = wide @ jitgrad.randn(wide.shape[-1], rank, dtype=a.dtype, device=a.device)
    basis = jitgrad.linalg.qr(y)[0]
    for _ in range(steps):
        basis = jitgrad.linalg.qr(wide.mT @ basis)[0]
        basis = jitgrad.linalg.qr(wide @ basis)[0]
    u, s, vh = jitgrad.linalg.svd(basis.mT @ wide, full_matrices=False)
    left, right = basis @ u, vh.mT
    return (right, s, left) if m < n else (left, s, right)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """`svd_lowrank` of A without the means of its columns: principal components. ValueError for a q or niter too large
    or negative."""
    m, n = A.shape[-2], A.shape[-1]
    rank = min(6, m, n) if q is None else q
    if not 0 <= rank <= min(m, n):
        raise ValueError(f"q(={rank}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, rank, niter)


complete(globals(), "torch")
