"""Losses between an input and its target, and the distance that some measure; part of `functional`, scriptable."""

import math

import jitgrad
from jitgrad.eager.tensor import Tensor
from jitgrad.nn.functional.norms import p_norm as _p_norm
from jitgrad.ops.autocast import refuse as _refuse, widen as _widen
from jitgrad.ops.library import activation as _activation, classes as _classes, reduce as _reduce
from jitgrad.ops.library.core import composite

Number = bool | int | float
Legacy = bool | None  # size_average and reduce: torch's old names for the reduction

#: torch's words for a loss whose input must not be rounded to half precision
UNSAFE = ("torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
          "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
          "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
          "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
          "safe to autocast.")


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """A loss per element as "none", "mean" or "sum" says."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """A loss per element times its weight; "mean" divides by the sum of the weights."""
    if weight is not None and reduction == "mean":
        return (loss * weight).sum() / weight.sum()
    return reduced(loss if weight is None else loss * weight, reduction)


@composite
def pairwise_distance(x1: Tensor, x2: Tensor, p: Number = 2.0, eps: Number = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    return _p_norm(x1 - x2 + eps, p, -1, keepdim)


def _promoted(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the dtype to which they promote, once they are broadcast: those without axes count, too.

    NotImplementedError where that is none of floats.
    """
    input, target = _widen(input), _widen(target)
    d = jitgrad.promote_types(input.dtype, target.dtype)
    input, target = input.to(d), target.to(d)
    _classes.require_floats(name, input, target)
    return input, target


def _together(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both broadcast, if they are of two dtypes: those without axes count in the promotion, too."""
    input, target = _widen(input), _widen(target)
    if input.dtype != target.dtype:
        input, target = jitgrad.broadcast_tensors(input, target)
    return input, target


@composite
def mse_loss(input: Tensor, target: Tensor, size_average: Legacy = None, reduce: Legacy = None, reduction: str = "mean",
             weight: Tensor | None = None) -> Tensor:
    """(input - target)^2; "mean" with a weight is the weighted mean."""
    reduction = _classes.reduction_of(size_average, reduce, reduction, input, target)
    input, target = _promoted("mse", input, target) if weight is None else _together(input, target)
    d = input - target
    loss = d * d
    return _weighted(loss, weight, reduction)


@composite
def l1_loss(input: Tensor, target: Tensor, size_average: Legacy = None, reduce: Legacy = None, reduction: str = "mean",
            weight: Tensor | None = None) -> Tensor:
    """|input - target|; "mean" with a weight is the weighted mean."""
    reduction = _classes.reduction_of(size_average, reduce, reduction, input, target)
    input, target = _together(input, target)
    loss = jitgrad.abs(input - target)
    return _weighted(loss, weight, reduction)


@composite
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Legacy = None, reduce: Legacy = None,
                   reduction: str = "mean", beta: Number = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |input - target| is below beta, else d - beta / 2. `beta` of 0 gives l1_loss.

    Raises RuntimeError for a negative beta.
    """
    reduction = _classes.reduction_of(size_average, reduce, reduction, input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if not jitgrad.result_type(input, target).is_floating_point and beta == 0:  # which other dtypes have
        return l1_loss(input, target, reduction=reduction)
    input, target = _promoted("smooth_l1", input, target)
    d = jitgrad.abs(input - target)
    # a beta of 0 must not divide: then every d is above it, and the divisor's value does not matter
    far = d >= beta
    near = jitgrad.where(far, 0.0, d)
    ratio = near / jitgrad.where(far, 1.0, jitgrad.full_like(d, beta))
    return reduced(jitgrad.where(far, d - 0.5 * beta, near * 0.5 * ratio), reduction)


@composite
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: Number = 1.0,
               weight: Tensor | None = None) -> Tensor:
    """d^2 / 2 where d = |input - target| is at most delta, else delta (d - delta / 2), in the input's dtype.

    Raises RuntimeError for a delta that is not positive.
    """
    reduction = _classes.reduction_of(None, None, reduction, input, target)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    result = _classes.into(_widen(input), _widen(target))
    input, target = _promoted("huber", input, target)
    d = jitgrad.abs(input - target)
    far = d > delta
    near = jitgrad.where(far, 0.0, d)  # infinite only where its square is taken
    loss = jitgrad.where(far, delta * (d - 0.5 * delta), 0.5 * near * near).to(result)
    return reduced(loss if weight is None else loss * weight, reduction)


@composite
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Legacy = None,
             ignore_index: int = -100, reduce: Legacy = None, reduction: str = "mean") -> Tensor:
    """-weight[target] * input at the target classes.

    Args:
        input: log-probabilities, float (C,), (N, C) or (N, C, d1, ...).
        target: classes in [0, C), int64 (), (N,) or (N, d1, ...); ignore_index counts for nothing.
        weight: one factor per class, float (C,); "mean" divides by the sum of the factors used.

    Raises:
        IndexError: a class out of range.
    """
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    input = _widen(input)
    _classes.require_batch(input, target)
    if input.dim() == 1 and target.dim() == 1:
        target = target.reshape(())
    _classes.require_classes(target)
    _classes.require_places(input, target)
    _classes.require_class_weights(weight, input)
    _classes.require_floats("nll_loss_out_frame", input)
    if weight is not None:
        widened: Tensor = _widen(weight)
        if widened.dtype is not input.dtype:
            raise RuntimeError(f"expected scalar type {input.dtype.word} but found {weight.dtype.word}")
        weight = widened
    if _classes.all_count(input, target, ignore_index):
        picked = -_classes.pick(input, target, known=True)
        if weight is None:
            return reduced(picked, reduction)
        factors = _classes.factors_of(weight, target)
        picked = picked * factors
        return picked.sum() / factors.sum() if reduction == "mean" else reduced(picked, reduction)
    kept = target != ignore_index
    classes = jitgrad.where(kept, target, 0)
    picked = -_classes.pick(input, classes)
    if weight is None and reduction == "mean":
        return jitgrad.where(kept, picked, 0.0).sum() / kept.sum()
    if weight is not None:
        factors = _classes.factors_of(weight, classes)
        picked = picked * factors
        if reduction == "mean":
            return jitgrad.where(kept, picked, 0.0).sum() / jitgrad.where(kept, factors, 0.0).sum()
    return reduced(jitgrad.where(kept, picked, 0.0), reduction)


@composite
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Legacy = None,
                  ignore_index: int = -100, reduce: Legacy = None, reduction: str = "mean",
                  label_smoothing: Number = 0.0) -> Tensor:
    """The cross entropy of softmax(input) and the target.

    Args:
        input: scores, float (C,), (N, C) or (N, C, d1, ...).
        target: classes, int64 (), (N,) or (N, d1, ...), or probabilities, float of input's shape.
        weight: one factor per class, float (C,).
        ignore_index: a class that counts for nothing.
        label_smoothing: the share of the target that is spread evenly over all classes, in [0, 1].

    Raises:
        IndexError: a class out of range.
    """
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    input, target = _widen(input), _widen(target)
    axis = 0 if input.dim() == 1 else 1
    soft = _classes.require_target(input, target)
    if soft:
        _classes.require_class_weights(weight, input)
    logp = _reduce.log_softmax(input, axis)
    if soft:
        return _soft_cross_entropy(logp, target, weight, reduction, label_smoothing, axis)
    if weight is not None and weight.dtype is not logp.dtype:
        raise RuntimeError(f"expected scalar type {logp.dtype.word} but found {weight.dtype.word}")
    hard = nll_loss(logp, target, weight, None, ignore_index, None, reduction)
    if label_smoothing == 0.0:
        return hard
    even = _smoothing(logp, target, weight, ignore_index, reduction, axis)
    return hard * (1.0 - label_smoothing) + even * label_smoothing


def _smoothing(logp: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str,
               axis: int) -> Tensor:
    """The cross entropy with the even distribution over the classes."""
    kept = target != ignore_index
    n = logp.shape[axis]
    if weight is None:
        spread = -logp.sum(axis) / n
        loss = jitgrad.where(kept, spread, 0.0)
        return loss.sum() / kept.sum() if reduction == "mean" else reduced(loss, reduction)
    factors = _classes.along(weight, logp.dim(), axis)
    loss = jitgrad.where(kept, -(logp * factors).sum(axis) / n, 0.0)
    if reduction != "mean":
        return reduced(loss, reduction)
    used = jitgrad.where(kept, _classes.factors_of(weight, jitgrad.where(kept, target, 0)), 0.0)
    return loss.sum() / used.sum()


def _soft_cross_entropy(logp: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: Number,
                        axis: int) -> Tensor:
    n = logp.shape[axis]
    smoothed = target * (1.0 - label_smoothing) + label_smoothing / n
    terms = logp * smoothed
    if weight is not None:
        terms = terms * _classes.along(weight, logp.dim(), axis)
    loss = -terms.sum(axis)
    if reduction == "mean":  # torch divides by the batch, all axes but the classes', weights or not
        return loss.mean()
    return reduced(loss, reduction)


@composite
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Legacy = None,
                         reduce: Legacy = None, reduction: str = "mean") -> Tensor:
    """-(target log(input) + (1 - target) log(1 - input)), each logarithm at least -100.

    Raises RuntimeError on a GPU where autocast is on, as torch does.
    """
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    _refuse(input, UNSAFE)
    _classes.require_same_size(input, target)
    input, target = _widen(input), _widen(target)
    _classes.require_same_dtype(input, target)
    if weight is not None:
        _classes.require_factors(weight, input)
    _classes.require_floats("binary_cross_entropy", input)
    _classes.require_probabilities(input)
    loss = _classes.binary_cross_entropy(input, target)
    return reduced(loss if weight is None else loss * weight, reduction)


@composite
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     size_average: Legacy = None, reduce: Legacy = None, reduction: str = "mean",
                                     pos_weight: Tensor | None = None) -> Tensor:
    """binary_cross_entropy of sigmoid(input), without overflow; pos_weight multiplies the positive terms."""
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    _classes.require_same_size(input, target)
    input, target = _widen(input), _widen(target)
    logp, result = _activation.logsigmoid(input), _classes.into(target, input)
    if pos_weight is not None:
        factors = 1 + (pos_weight - 1) * target
        logp = (factors * logp).to(_classes.into(logp, factors))
    loss = ((1 - target) * input - logp).to(result)
    if weight is not None:
        loss = (loss * weight).to(_classes.into(loss, weight))
    return reduced(loss, reduction)


@composite
def kl_div(input: Tensor, target: Tensor, size_average: Legacy = None, reduce: Legacy = None, reduction: str = "mean",
           log_target: bool = False) -> Tensor:
    """target (log(target) - input) for log-probabilities input; "batchmean" divides the sum by the first size."""
    over = _classes.reduction_of(size_average, reduce, "sum" if reduction == "batchmean" else reduction)
    input, target = _widen(input), _widen(target)
    _classes.require_real_floats("kl_div", input, target)
    loss = jitgrad.exp(target) * (target - input) if log_target else jitgrad.xlogy(target, target) - target * input
    total = reduced(loss, over)
    return total / input.shape[0] if reduction == "batchmean" and input.dim() != 0 else total


@composite
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: Number = 1e-6,
                      reduction: str = "mean") -> Tensor:
    """(log(var) + (input - target)^2 / var) / 2, var at least eps.

    Raises ValueError where var is negative, or has neither input's shape nor that without the last axis.
    """
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    var = _classes.variance_of(input, var)
    reduction = _classes.reduction_of(None, None, reduction)
    _classes.into(var, eps)  # which torch writes into it
    bounded = var + (var.clamp_min(eps) - var).detach()
    loss = 0.5 * (jitgrad.log(bounded) + (input - target) ** 2 / bounded)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@composite
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: Legacy = None, eps: Number = 1e-8, reduce: Legacy = None,
                     reduction: str = "mean") -> Tensor:
    """exp(input) - target * input, or input - target * log(input + eps)."""
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    input, target = _widen(input), _widen(target)
    loss = jitgrad.exp(input) - target * input if log_input else input - target * jitgrad.log(input + eps)
    if full:
        stirling = target * jitgrad.log(target) - target + 0.5 * jitgrad.log(2 * math.pi * target)
        loss = loss + jitgrad.where(target > 1, stirling, 0.0)
    return reduced(loss, reduction)


@composite
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: Number = 1.0, size_average: Legacy = None,
                         reduce: Legacy = None, reduction: str = "mean") -> Tensor:
    """input where target is 1, max(0, margin - input) where it is -1."""
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    input, target = _widen(input), _widen(target)
    beyond = (jitgrad.full_like(input, margin) - input).clamp_min(0)  # in input's dtype, of which unsigned ones wrap
    loss = jitgrad.where(target != 1, beyond, 0.0) + jitgrad.where(target != -1, input, 0.0)
    return reduced(loss if input.dtype.is_floating_point else loss.to(input.dtype), reduction)


@composite
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Number = 0.0,
                        size_average: Legacy = None, reduce: Legacy = None, reduction: str = "mean") -> Tensor:
    """max(0, -target (input1 - input2) + margin). RuntimeError for other than equal ranks."""
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
                           f"{input1.size()}, input2: {input2.size()}, target: {target.size()} ")
    input1, input2 = _widen(input1), _widen(input2)
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


@composite
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Legacy = None, reduce: Legacy = None,
                     reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target * input))."""
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    input, target = _widen(input), _widen(target)
    if target.dim() > input.dim():
        raise RuntimeError(f"output with shape {list(input.shape)} doesn't match the broadcast shape "
                           f"{list(target.shape)}")
    result = _classes.into(input, jitgrad.exp(target[..., :0] if target.dim() != 0 else target))
    return reduced(jitgrad.log1p(jitgrad.exp(-(target * input))).to(result), reduction)


@composite
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: Number = 0.0,
                          size_average: Legacy = None, reduce: Legacy = None, reduction: str = "mean") -> Tensor:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    _classes.require_pairs(input1, input2, target)
    input1, input2 = _widen(input1), _widen(input2)
    product = (input1 * input2).sum(-1)
    n1, n2 = (input1 * input1).sum(-1) + 1e-12, (input2 * input2).sum(-1) + 1e-12
    cosine = product / jitgrad.sqrt(n1 * n2)
    apart = jitgrad.where(target == -1, (cosine - margin).clamp_min(0), 0.0)
    return reduced(jitgrad.where(target == 1, 1 - cosine, 0.0) + apart, reduction)


@composite
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: Number = 1.0, p: Number = 2,
                        eps: Number = 1e-6, swap: bool = False, size_average: Legacy = None, reduce: Legacy = None,
                        reduction: str = "mean") -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with p-norm distances.

    Raises ValueError for a margin that is not positive, RuntimeError for other than equal ranks.
    """
    reduction = _classes.reduction_of(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of "
                           f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and negative "
                           f"{negative.dim()}D inputs")
    anchor, positive, negative = _widen(anchor), _widen(positive), _widen(negative)
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = jitgrad.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced((near - far + margin).clamp_min(0), reduction)


__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy",
           "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss",
           "mse_loss", "nll_loss", "pairwise_distance", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
           "triplet_margin_loss"]
