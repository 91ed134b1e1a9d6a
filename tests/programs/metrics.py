"""Evaluation: counters in Python, early exits, logs, n-grams, confusion matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F
from tests.programs.harness import bools, data, floats, ints, program, tokens, weight


@program(
    (weight(7, 7), tokens(9, below=7), 3, 100.0),
    (weight(7, 7), tokens(20, below=7), 4, 2.0),
    (weight(7, 7), tokens(2, below=7), 5, 50.0),
)
def perplexity(table, text, stride: int, limit: float):
    """Windows over a text; stops when the running perplexity is too high."""
    nll, count = 0.0, 0
    with torch.no_grad():
        for begin in range(0, text.size(0) - 1, 3):
            end = min(begin + stride, text.size(0) - 1)
            window, target = text[begin:end], text[begin + 1:end + 1]
            loss = F.cross_entropy(table[window], target)
            nll += loss.item() * (end - begin)
            count += end - begin
            running = math.exp(nll / count)
            print(f"{begin}-{end}: ppl {running:.3f}")
            if running > limit:
                print("stopped")
                break
    return math.exp(nll / count) if count > 0 else float("inf")


@program(
    (tokens(6, below=4), tokens(7, below=4, seed=5), 3),
    (tokens(3, below=2), tokens(5, below=2, seed=5), 2),
    (ints(1), ints(1), 4),
)
def bleu(candidate, reference, order: int):
    """Clipped n-gram precision with a brevity penalty."""
    log_sum = 0.0
    used = 0
    for n in range(1, order + 1):
        if candidate.size(0) < n or reference.size(0) < n:
            break
        c = candidate.unfold(0, n, 1)
        r = reference.unfold(0, n, 1)
        matches = (c.unsqueeze(1) == r.unsqueeze(0)).all(-1)
        taken = torch.zeros(r.size(0), dtype=torch.bool)
        hits = 0
        for i in range(c.size(0)):
            for j in range(r.size(0)):
                if matches[i, j] and not taken[j]:
                    taken[j] = True
                    hits += 1
                    break
        log_sum += math.log((hits + 1) / (c.size(0) + 1))
        used += 1
    ratio = reference.size(0) / candidate.size(0)
    brevity = 1.0 if ratio <= 1 else math.exp(1 - ratio)
    return brevity * math.exp(log_sum / used)


@dataclass
class Tally:
    """Running counts of a binary classifier."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    seen: int = 0

    def update(self, predicted: bool, actual: bool) -> None:
        self.seen += 1
        if predicted and actual:
            self.tp += 1
        elif predicted:
            self.fp += 1
        elif actual:
            self.fn += 1

    @property
    def f1(self) -> float:
        d = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / d if d else 0.0


@program(
    (data(6), bools(True, False, True, True, False, False), 0.5),
    (data(3), bools(False, False, False), 0.99),
    (data(9), bools(True, False, True, True, False, False, True, True, True), 0.1),
)
def f1_score(logits, labels, threshold: float):
    tally = Tally()
    for z, y in zip(logits, labels):
        tally.update(bool(torch.sigmoid(z) > threshold), bool(y))
    print("tp={} fp={} fn={}".format(tally.tp, tally.fp, tally.fn))
    return tally, tally.f1


@program(
    (tokens(8, below=3), tokens(8, below=3, seed=3), 3),
    (tokens(5, below=4), tokens(5, below=4, seed=3), 4),
    (ints(0), ints(1), 2),
)
def confusion(predicted, actual, classes: int):
    m = torch.zeros(classes, classes, dtype=torch.int64)
    for p, a in zip(predicted, actual):
        m[a, p] += 1
    per_class = m.diag().float() / m.sum(1).clamp(min=1)
    print("\n".join(["accuracy %.3f" % (m.trace().item() / len(actual)), "classes %d" % classes]))
    return m, per_class


@program(
    (weight(3, 3), [data(4, 3), data(4, 3, seed=2)], [ints(0, 1, 2, 0), ints(1, 1, 1, 1)], 2),
    (weight(3, 3), [data(7, 3), data(7, 3, seed=2)], [ints(0, 1, 2, 0, 0, 0, 1), ints(1, 1, 1, 1, 2, 2, 2)], 1),
)
def evaluate(w, batches, labels, top: int):
    correct = total = 0
    worst, worst_index = -math.inf, -1
    for i, (x, y) in enumerate(zip(batches, labels)):
        logits = x @ w
        loss = F.cross_entropy(logits, y)
        hits = (logits.topk(top, dim=1).indices == y[:, None]).any(dim=1)
        correct += int(hits.sum())
        total += y.numel()
        if loss.item() > worst:
            worst, worst_index = loss.item(), i
    print(f"top-{top}: {correct}/{total}, worst batch {worst_index} ({worst:.4f})")
    return correct / total, loss


@program(
    (floats(1.0, 0.8, 0.7, 0.9, 0.95, 0.96, 0.1), 2, 0.01),
    (floats(1.0, 2.0, 3.0), 1, 0.0),
    (floats(3.0, 2.0, 1.0, 0.5), 5, 0.1),
)
def early_stopping(losses, patience: int, tolerance: float):
    best = float("inf")
    best_epoch = bad = 0
    status = "running"
    for epoch, loss in enumerate(losses):
        if float(loss) < best - tolerance:
            best, best_epoch, bad = float(loss), epoch, 0
            status = "improved"
        else:
            bad += 1
            status = f"no improvement for {bad}"
            if bad >= patience:
                status = "stopped early"
                break
        print(epoch, status)
    else:
        status = "finished"
    print(status)
    return best, best_epoch


@program(
    (data(8), bools(True, False, True, True, False, False, True, False)),
    (data(4), bools(True, True, False, False)),
    (floats(0.5, 0.5, 0.5), bools(True, False, True)),
)
def roc_auc(scores, labels):
    """By ranks: ties count half."""
    positive, negative = scores[labels], scores[~labels]
    wins = 0.0
    for p in positive:
        wins += (p > negative).sum().item() + 0.5 * (p == negative).sum().item()
    pairs = positive.numel() * negative.numel()
    assert pairs > 0, "one class only"
    return wins / pairs


@program(
    (data(6, 3), tokens(6, below=3), 4),
    (data(3, 3), tokens(3, below=3), 2),
)
def calibration(logits, target, bins: int):
    probability, predicted = logits.softmax(-1).max(-1)
    right = predicted == target
    error = 0.0
    table = []
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        inside = (probability > low) & (probability <= high)
        n = inside.sum().item()
        if n == 0:
            continue
        gap = (right[inside].float().mean() - probability[inside].mean()).abs().item()
        error += n / len(target) * gap
        table.append((b, n, gap))
    for b, n, gap in table:
        print(f"bin {b}: {n:3d} {gap:.3f}")
    return error, len(table)


@program(
    (floats([0, 0, 2, 2], [1, 1, 3, 3], [0, 0, 2, 2.1]), floats(0.9, 0.8, 0.7), 0.5),
    (floats([0, 0, 1, 1], [5, 5, 6, 6]), floats(0.1, 0.2), 0.5),
    (floats([0, 0, 1, 1]), floats(0.3), 0.1),
)
def non_maximum_suppression(boxes, scores, threshold: float):
    x1, y1, x2, y2 = boxes.unbind(1)
    area = (x2 - x1) * (y2 - y1)
    order = scores.argsort(descending=True)
    keep = []
    while order.numel() > 0:
        i = order[0]
        keep.append(i.item())
        if order.numel() == 1:
            break
        rest = order[1:]
        w = (torch.minimum(x2[i], x2[rest]) - torch.maximum(x1[i], x1[rest])).clamp(min=0)
        h = (torch.minimum(y2[i], y2[rest]) - torch.maximum(y1[i], y1[rest])).clamp(min=0)
        iou = w * h / (area[i] + area[rest] - w * h)
        order = rest[iou <= threshold]
    return keep


@program(
    (data(5), 0.9),
    (data(1), 0.5),
    (data(12), 0.99),
)
class RunningStatistics(nn.Module):
    """Welford's mean and variance, an exponential average, and the extremes, over calls."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.mean = 0.0
        self.m2 = 0.0
        self.largest = -math.inf
        self.register_buffer("average", torch.zeros(()))

    def forward(self, values, decay: float):
        for v in values:
            x = v.item()
            self.count += 1
            delta = x - self.mean
            self.mean += delta / self.count
            self.m2 += delta * (x - self.mean)
            self.largest = max(self.largest, x)
            self.average.mul_(decay).add_(v, alpha=1 - decay)
        variance = self.m2 / (self.count - 1) if self.count > 1 else 0.0
        return self.average / (1 - decay ** self.count), variance


@program(
    (tokens(10, below=4), 4, 1.0),
    (tokens(3, below=4), 4, 0.5),
    (ints(2), 4, 0.1),
)
def bigram_counts(text, vocabulary: int, smoothing: float):
    counts = torch.full((vocabulary, vocabulary), smoothing)
    previous = None
    for token in text:
        if previous is not None:
            counts[previous, token] += 1
        previous = token
    p = counts / counts.sum(1, keepdim=True)
    entropy = -(p * p.log()).sum(1)
    return p, entropy.mean()


@program(
    (ints(1, 1, 0, 2, 2, 2, 0, 3), 0),
    (ints(0, 0, 0), 0),
    (ints(4), 0),
)
def word_error_spans(labels, outside: int):
    """Runs of equal labels as (start, end, label)."""
    found = []
    start, current = 0, outside
    for k in range(len(labels) + 1):
        label = int(labels[k]) if k < len(labels) else outside
        if label != current:
            if current != outside:
                found.append((start, k, current))
            start, current = k, label
    return found, len(found)
