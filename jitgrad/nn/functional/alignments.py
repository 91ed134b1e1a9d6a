"""Losses of several labels and of alignments; part of `functional`, scriptable like all of it."""

from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.functional.losses import pairwise_distance as _pairwise_distance, reduced as _reduced
from jitgrad.ops.autocast import widen as _widen
from jitgrad.ops.library import activation as _activation, classes as _classes

Number = bool | int | float
Legacy = bool | None  # size_average and reduce: torch's old names for the reduction

#: the logarithm of an impossible path: finite, so that slopes at it are numbers
IMPOSSIBLE = -1e30


def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: Number = 1.0, weight: Tensor | None = None,
                      size_average: Legacy = None, reduce: Legacy = None, reduction: str = "mean") -> Tensor:
    """sum over the classes j but the target y of max(0, margin - input[y] + input[j])^p * weight[y] / C.

    Args:
        input: float (N, C) or (C,).
        target: int64 (N,) or ().
        p: 1 or 2.
        weight: float (C,).
    """
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    input = _widen(input)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    one = input.dim() == 1
    if one:
        input, target = input.unsqueeze(0), target.reshape(1)
    if input.dim() != 2 or target.dim() != 1 or input.shape[0] != target.shape[0]:
        raise RuntimeError("multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
                           f"samples (batch size). Expected target size [{input.size(0) if input.dim() else 1}], but "
                           f"got {target.size()}.")
    _classes.require_wide("multi_margin_loss_cpu_kernel", input)
    if target.dtype is not jitgrad.int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.word}")
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(f"expected scalar type {input.dtype.word} but found {weight.dtype.word}")
    right = _classes.pick(input, target).unsqueeze(1)
    terms = margin - right + input
    terms = jitgrad.where(terms > 0, terms, 0.0)  # NaN is no loss, and there is no slope at 0
    terms = terms if p == 1 else terms * terms
    if weight is not None:
        terms = terms * _classes.factors_of(weight, target).unsqueeze(1)
    others = jitgrad.arange(input.shape[1], device=input.device) != target.unsqueeze(1)
    loss = jitgrad.where(others, terms, 0.0).sum(1) / input.shape[1]
    return _reduced(loss.squeeze(0) if one else loss, reduction)


def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Legacy = None, reduce: Legacy = None,
                           reduction: str = "mean") -> Tensor:
    """sum over labels y and other classes j of max(0, 1 - input[y] + input[j]) / C.

    Args:
        input: float (N, C) or (C,).
        target: int64, input's shape: the labels, then -1 and anything.
    """
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    input = _widen(input)
    if tuple(target.shape) != tuple(input.shape):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    _classes.require_wide("multilabel_margin_loss_forward_out_frame", input)
    _classes.require_long(target)
    valid = jitgrad.cumprod((target >= 0).to(jitgrad.int64), -1) == 1
    labels = jitgrad.where(valid, target, 0)
    classes = jitgrad.arange(input.shape[-1], device=input.device)
    is_label = ((labels.unsqueeze(-1) == classes) & valid.unsqueeze(-1)).any(-2)
    right = jitgrad.gather(input, -1, labels)
    terms = jitgrad.relu(1 - (right.unsqueeze(-1) - input.unsqueeze(-2)))  # no slope at 0
    counted = valid.unsqueeze(-1) & ~is_label.unsqueeze(-2)
    return _reduced(jitgrad.where(counted, terms, 0.0).sum((-2, -1)) / input.shape[-1], reduction)


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                size_average: Legacy = None, reduce: Legacy = None, reduction: str = "mean") -> Tensor:
    """The mean over classes of -(target log(sigmoid(input)) + (1 - target) log(sigmoid(-input))) * weight."""
    classes = input.dim() - 1
    input.size(classes)  # IndexError of a number
    loss = -(target * _activation.logsigmoid(input) + (1 - target) * _activation.logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return _reduced(loss.sum(classes) / input.shape[classes], _classes.reduction_of(size_average, reduce, reduction))


def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *,
                                      distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
                                      margin: Number = 1.0, swap: bool = False, reduction: str = "mean") -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), pairwise_distance without another d."""
    reduction = _classes.reduction_of(None, None, reduction)
    d: Any = _pairwise_distance if distance_function is None else distance_function
    near, far = d(anchor, positive), d(anchor, negative)
    if swap:
        far = jitgrad.minimum(far, d(positive, negative))
    return _reduced((near - far + margin).clamp_min(0), reduction)


def _lengths(given: Any, like: Tensor) -> Tensor:
    return given.to(like.device) if isinstance(given, Tensor) else jitgrad.tensor(given, device=like.device)


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
             reduction: str = "mean", zero_infinity: bool = False) -> Tensor:
    """-log of the probability of all alignments of the targets: labels in order, repeated or with blanks between.

    Args:
        log_probs: float (T, N, C) or (T, C), logarithms of probabilities.
        targets: int64 (N, S), or one after another (sum of target_lengths,).
        input_lengths, target_lengths: int64 (N,) or (), or sequences of ints.
        blank: the class that stands for no label.
        reduction: "mean" divides each loss by its target's length (at least 1) and takes the mean.
        zero_infinity: targets that no alignment fits count for nothing instead of inf.

    Returns:
        float () or (N,). Source: Graves et al., "Connectionist Temporal Classification", ICML 2006.
    """
    reduction = _classes.reduction_of(None, None, reduction)
    log_probs = _widen(log_probs)
    if isinstance(log_probs.numel(), int) and log_probs.numel() == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    _classes.require_wide("ctc_loss", log_probs)
    one = log_probs.dim() == 2
    if one:
        log_probs = log_probs.unsqueeze(1)
    times, labels = (_lengths(given, log_probs).reshape(-1) for given in (input_lengths, target_lengths))
    targets = targets.to(log_probs.device)
    batch = log_probs.shape[1]
    if targets.dim() == 1:
        longest = int(labels.max())
        first = jitgrad.cumsum(labels, 0) - labels
        place = first.unsqueeze(1) + jitgrad.arange(longest, device=targets.device)
        padded = jitgrad.cat([targets, targets.new_full((1,), blank)])
        targets = padded[place.clamp_max(targets.shape[0])]
    size = targets.shape[1]
    given = jitgrad.where(jitgrad.arange(size, device=labels.device) < labels.unsqueeze(1), targets, blank)
    # blank, label, blank, label, ..., blank
    empty = jitgrad.full_like(given, blank)
    pairs = jitgrad.stack([empty, given], 2).reshape(batch, 2 * size)
    path = jitgrad.cat([pairs, pairs.new_full((batch, 1), blank)], 1)
    nothing = log_probs.new_full((batch, 2), IMPOSSIBLE)
    before = jitgrad.cat([path.new_full((batch, 2), blank), path[:, :-2]], 1) if size > 0 else path
    skips = (path != blank) & (path != before)
    emitted = log_probs.gather(2, path.unsqueeze(0).expand(log_probs.shape[0], batch, 2 * size + 1))
    start = jitgrad.arange(2 * size + 1, device=path.device) < 2
    alpha = jitgrad.where(start, emitted[0], IMPOSSIBLE)
    for t in range(1, log_probs.shape[0]):
        line = jitgrad.cat([nothing, alpha], 1)
        two = jitgrad.where(skips, line[:, :-2], IMPOSSIBLE)
        step = line[:, 1:-1]
        high = jitgrad.maximum(jitgrad.maximum(alpha, step), two).detach()
        total = jitgrad.exp(alpha - high) + jitgrad.exp(step - high) + jitgrad.exp(two - high)
        following = (high + jitgrad.log(total) + emitted[t]).clamp_min(IMPOSSIBLE)
        alpha = jitgrad.where((t < times).unsqueeze(1), following, alpha)
    last = (2 * labels).unsqueeze(1)
    end_blank = alpha.gather(1, last).squeeze(1)
    end_label = alpha.gather(1, (last - 1).clamp_min(0)).squeeze(1)
    end_label = jitgrad.where(labels > 0, end_label, IMPOSSIBLE)
    loss = -jitgrad.logaddexp(end_blank, end_label)
    loss = jitgrad.where(loss > -0.5 * IMPOSSIBLE, 0.0 if zero_infinity else float("inf"), loss)
    if reduction == "mean":
        return (loss / labels.clamp_min(1)).mean()
    return _reduced(loss.squeeze(0) if one else loss, reduction)


__all__ = ["ctc_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
           "triplet_margin_with_distance_loss"]
