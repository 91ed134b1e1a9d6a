"""Losses that look at the data: mining, sorting, smoothing, margins."""

from __future__ import annotations

import math

import jitgrad as torch
from jitgrad.nn import functional as F
from tests.programs.harness import bools, data, floats, ints, program, weight


@program(
    (weight(4, 5), ints(0, 1, 4, 2), 0.1, -100),
    (weight(6, 5), ints(0, -100, 4, 2, -100, 1), 0.0, -100),
    (weight(3, 5), ints(7, 0, 7), 0.5, 7),
)
def label_smoothing(logits, target, epsilon: float, ignore: int):
    logp = logits.log_softmax(dim=-1)
    mask = target != ignore
    safe = target.masked_fill(~mask, 0)
    nll = -logp.gather(1, safe.unsqueeze(1)).squeeze(1)
    smooth = -logp.mean(dim=-1)
    loss = (1 - epsilon) * nll + epsilon * smooth
    return (loss * mask).sum() / mask.sum()


@program(
    (weight(6), bools(True, False, True, True, False, False), 2.0, 0.25),
    (weight(3), bools(False, False, False), 0.0, -1.0),
    (weight(2), bools(True, True), 5.0, 0.5),
)
def focal(logits, labels, gamma: float, alpha: float):
    y = labels.float()
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    p_t = p * y + (1 - p) * (1 - y)
    loss = ce * (1 - p_t) ** gamma
    if alpha >= 0:
        loss = (alpha * y + (1 - alpha) * (1 - y)) * loss
    return loss.mean()


@program(
    (weight(4, 3), weight(4, 3, seed=2), 0.1),
    (weight(7, 3), weight(7, 3, seed=2), 0.5),
    (weight(2, 3), weight(2, 3, seed=2), 2.0),
)
def info_nce(a, b, temperature: float):
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    logits = a @ b.T / temperature
    labels = torch.arange(len(a))
    accuracy = (logits.argmax(-1) == labels).float().mean().item()
    print(f"accuracy {accuracy:.2%}")
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


@program(
    (weight(6, 3), ints(0, 0, 1, 1, 2, 2), 0.3),
    (weight(5, 3), ints(0, 1, 0, 1, 0), 1.0),
    (weight(3, 3), ints(0, 1, 2), 0.5),
)
def triplets_with_hard_negatives(x, labels, margin: float):
    """No triplet at all gives a zero that still depends on x."""
    distance = torch.cdist(x, x)
    total, count = x.sum() * 0, 0
    n = x.size(0)
    for i in range(n):
        positive = labels == labels[i]
        positive[i] = False
        negative = labels != labels[i]
        if not positive.any() or not negative.any():
            continue
        hardest = distance[i][positive].max()
        nearest = distance[i][negative].min()
        loss = F.relu(hardest - nearest + margin)
        if loss > 0:
            total = total + loss
            count += 1
    return total / max(count, 1), count


@program(
    (weight(5), floats(0.0, 2.0, 1.0, 0.0, 3.0)),
    (weight(3), floats(1.0, 1.0, 0.0)),
    (weight(1), floats(1.0)),
)
def list_net_and_ndcg(scores, relevance):
    loss = -(relevance.softmax(0) * scores.log_softmax(0)).sum()
    order = scores.argsort(descending=True)
    gains = (2 ** relevance[order] - 1) / torch.log2(torch.arange(len(order)) + 2.0)
    ideal = (2 ** relevance.sort(descending=True).values - 1) / torch.log2(torch.arange(len(order)) + 2.0)
    return loss, (gains.sum() / ideal.sum()).item()


@program(
    (weight(5), bools(True, False, True, False, False)),
    (weight(3), bools(True, True, True)),
    (weight(4), bools(False, True, False, True)),
)
def pairwise_ranking(scores, relevant):
    losses = []
    for i in range(len(scores)):
        for j in range(len(scores)):
            if relevant[i] and not relevant[j]:
                losses.append(F.softplus(scores[j] - scores[i]))
    if not losses:
        return scores.new_zeros(())
    return torch.stack(losses).mean()


@program(
    (weight(8), data(8), 0.25),
    (weight(3), data(3), 0.9),
    (weight(5), data(5), 0.0),
)
def online_hard_examples(pred, target, keep: float):
    losses = (pred - target).abs()
    k = max(1, int(keep * losses.numel()))
    hard, index = losses.sort(descending=True)
    return hard[:k].mean(), index[:k]


@program(
    (weight(6), data(6), 0.5),
    (weight(2), data(2), 0.0),
)
def quantile_and_huber(pred, target, tau: float):
    error = target - pred
    pinball = torch.maximum(tau * error, (tau - 1) * error).mean()
    delta = error.detach().abs().median()
    quadratic = error.abs().clamp(max=delta)
    huber = (0.5 * quadratic ** 2 + delta * (error.abs() - quadratic)).mean()
    return pinball, huber


@program(
    (weight(4, 3), weight(4, 3, seed=5)),
    (weight(6, 3), weight(6, 3, seed=5)),
)
def barlow_twins(a, b):
    a = (a - a.mean(0)) / a.std(0)
    b = (b - b.mean(0)) / b.std(0)
    c = a.T @ b / a.size(0)
    on = (torch.diagonal(c) - 1).pow(2).sum()
    off = c.pow(2).sum() - torch.diagonal(c).pow(2).sum()
    return on + 5e-3 * off


@program(
    (weight(5), weight(7, seed=3)),
    (weight(4), weight(4, seed=3)),
    (weight(1), weight(3, seed=3)),
)
def sliced_wasserstein(x, y):
    """Sorted samples, the shorter repeated to the length of the longer."""
    a, _ = x.sort()
    b, _ = y.sort()
    n = max(a.numel(), b.numel())
    grid = torch.arange(n)
    a = a[grid * a.numel() // n]
    b = b[grid * b.numel() // n]
    return (a - b).abs().mean()


@program(
    (weight(3, 4), weight(3, 4, seed=2), "mean"),
    (weight(5, 4), weight(5, 4, seed=2), "mean"),
)
def variational(mu, logvar, reduction: str):
    eps = torch.randn_like(mu)
    z = mu + eps * torch.exp(0.5 * logvar)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp())
    free = torch.clamp(kl.mean(0), min=0.05).sum()
    if reduction == "mean":
        return z, kl.sum(-1).mean(), free
    elif reduction == "sum":
        return z, kl.sum(), free
    raise ValueError(f"unknown reduction {reduction!r}")


@program(
    (weight(4, 6), ints([0, 2], [1, 3]), 1.0),
    (weight(6, 6), ints([4, 5], [0, 2], [2, 3]), 0.0),
)
def spans(logits, pairs, penalty: float):
    """Start and end positions; ends before starts are pushed away."""
    total = torch.zeros(())
    for k, (start, end) in enumerate(pairs):
        row = logits[k]
        total = total - row[start] - row[end] + 2 * row.logsumexp(0)
        best = row.argmax()
        if best < start or best > end:
            total = total + penalty * row[best]
    return total / len(pairs)


@program(
    (weight(4, 3), ints(2, 0, 1, 1), ints(0, 0, 1)),
    (weight(2, 3), ints(1, 1), ints(1, 0, 0)),
)
def class_balanced(logits, target, rare):
    counts = torch.bincount(target, minlength=3).float()
    weights = torch.where(counts > 0, counts.sum() / (3 * counts.clamp(min=1)), torch.zeros(3))
    weights[rare == 1] *= 2
    return F.cross_entropy(logits, target, weight=weights)


@program(
    (weight(2, 5), ints(5, 3), 2),
    (weight(3, 8), ints(8, 1, 4), 3),
    (weight(1, 2), ints(1), 1),
)
def sequence_loss(logp, lengths, skip: int):
    """Python's loop over ragged rows with a running average that is printed."""
    total, n = 0.0, 0
    for row, length in zip(logp, lengths):
        m = int(length)
        part = -row[:m].mean()
        n += 1
        total = total + part
        if n % skip == 0:
            print(f"[{n:02d}/{len(lengths)}] avg={float(total) / n:+.3f}")
    return total / n


@program(
    (weight(5, 2), weight(3, 2, seed=4), 4),
    (weight(4, 2), weight(2, 2, seed=4), 1),
    (weight(3, 2), weight(3, 2, seed=4), 0),
)
def k_means(x, centres, rounds: int):
    """The assignment is a choice, the loss is smooth: gradients of both points and first centres."""
    assigned = torch.zeros(x.size(0), dtype=torch.long)
    for r in range(rounds):
        new = torch.cdist(x, centres).argmin(dim=1)
        if r > 0 and torch.equal(new, assigned):
            break
        assigned = new
        moved = []
        for k in range(centres.size(0)):
            members = x[assigned == k]
            moved.append(members.mean(0) if len(members) > 0 else centres[k])
        centres = torch.stack(moved)
    return (x - centres[assigned]).pow(2).sum(), assigned


@program(
    (weight(3, 4), ints(1, 0, 3), 10.0, 0.2),
    (weight(2, 4), ints(2, 2), 30.0, 0.0),
)
def arc_face(cosine_like, target, scale: float, margin: float):
    cosine = torch.tanh(cosine_like)
    theta = torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))
    hot = F.one_hot(target, cosine.shape[1]).bool()
    shifted = torch.where(theta + margin < math.pi, torch.cos(theta + margin), cosine - margin * math.sin(margin))
    return F.cross_entropy(scale * torch.where(hot, shifted, cosine), target)
