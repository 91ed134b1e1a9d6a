"""Dynamic programs over sequences: CRF, HMM, CTC, alignments, soft distances."""

from __future__ import annotations

import jitgrad as torch
from jitgrad.nn import functional as F
from tests.programs.harness import data, floats, ints, program, tokens, weight

NEG_INF = float("-inf")


@program(
    (weight(5, 4), weight(4, 4), ints(0, 1, 2, 3, 0)),
    (weight(9, 4), weight(4, 4), tokens(9, below=4)),
    (weight(1, 4), weight(4, 4), ints(2)),
)
def crf_loss(emissions, transitions, tags):
    """Negative log likelihood of a tag sequence: the forward algorithm's normaliser minus the path's score."""
    alpha = emissions[0]
    for t in range(1, emissions.size(0)):
        alpha = torch.logsumexp(alpha.unsqueeze(1) + transitions, dim=0) + emissions[t]
    log_z = torch.logsumexp(alpha, dim=0)
    gold = emissions[0, tags[0]]
    for t in range(1, emissions.size(0)):
        gold = gold + transitions[tags[t - 1], tags[t]] + emissions[t, tags[t]]
    return log_z - gold


@program(
    (weight(5, 4), weight(4, 4)),
    (weight(8, 4), weight(4, 4)),
    (weight(1, 4), weight(4, 4)),
)
def viterbi(emissions, transitions):
    score = emissions[0]
    history = []
    for t in range(1, emissions.shape[0]):
        best, previous = (score.unsqueeze(1) + transitions).max(dim=0)
        score = best + emissions[t]
        history.append(previous)
    best_score, tag = score.max(dim=0)
    path = [tag]
    for previous in reversed(history):
        tag = previous[tag]
        path.append(tag)
    path.reverse()
    return best_score, torch.stack(path)


@program(
    (weight(6, 2, 3), weight(3, 3), weight(3), weight(3, seed=3), ints(6, 4)),
    (weight(3, 4, 3), weight(3, 3), weight(3), weight(3, seed=3), ints(1, 3, 2, 3)),
)
def batched_crf_with_mask(emissions, transitions, start, end, lengths):
    mask = torch.arange(emissions.size(0)).unsqueeze(1) < lengths
    score = start + emissions[0]
    for i in range(1, emissions.size(0)):
        broadcast = score.unsqueeze(2) + transitions + emissions[i].unsqueeze(1)
        score = torch.where(mask[i].unsqueeze(1), torch.logsumexp(broadcast, dim=1), score)
    return torch.logsumexp(score + end, dim=1)


@program(
    (weight(3, 3), weight(3, 4), weight(3), ints(0, 3, 1, 1)),
    (weight(3, 3), weight(3, 4), weight(3), ints(2)),
    (weight(3, 3), weight(3, 4), weight(3), ints(0, 0, 1, 2, 3, 3, 0)),
)
def hmm_forward_backward(transition, emission, prior, observed):
    """Posterior of the states by scaled messages; the log likelihood from the scales."""
    a, b, pi = transition.softmax(1), emission.softmax(1), prior.softmax(0)
    n = observed.size(0)
    message = pi * b[:, observed[0]]
    alphas, log_likelihood = [], torch.zeros(())
    for t in range(n):
        if t > 0:
            message = (message @ a) * b[:, observed[t]]
        scale = message.sum()
        log_likelihood += scale.log()
        message = message / scale
        alphas.append(message)
    beta = torch.ones(3)
    posterior = []
    for t in reversed(range(n)):
        gamma = alphas[t] * beta
        posterior.insert(0, gamma / gamma.sum())
        beta = a @ (b[:, observed[t]] * beta)
        beta = beta / beta.sum()
    return log_likelihood, torch.stack(posterior)


@program(
    (weight(6, 5), ints(1, 2, 2), 0),
    (weight(10, 5), ints(3, 4, 1, 3), 0),
    (weight(2, 5), ints(1), 0),
    (weight(2, 5), ints(1, 1), 0),
)
def ctc_by_dynamic_programming(logits, target, blank: int):
    """Ends in inf where the target does not fit: two equal labels need a blank between them."""
    logp = F.log_softmax(logits, dim=-1)
    s = 2 * len(target) + 1
    extended = torch.full((s,), blank, dtype=torch.long)
    extended[1::2] = target
    skip = torch.zeros(s, dtype=torch.bool)
    skip[2:] = (extended[2:] != blank) & (extended[2:] != extended[:-2])
    alpha = torch.full((s,), -1e30)
    alpha[0] = logp[0, blank]
    alpha[1] = logp[0, extended[1]]
    for t in range(1, logp.shape[0]):
        one = F.pad(alpha[:-1], (1, 0), value=-1e30)
        two = torch.where(skip, F.pad(alpha[:-2], (2, 0), value=-1e30), torch.tensor(-1e30))
        alpha = torch.logsumexp(torch.stack([alpha, one, two]), dim=0) + logp[t, extended]
    return -torch.logaddexp(alpha[-1], alpha[-2])


@program(
    (ints(1, 2, 3, 4), ints(1, 3, 3, 4, 5)),
    (ints(1), ints(2, 2, 2)),
    (ints(5, 6, 7), ints(5, 6, 7)),
)
def edit_distance(a, b):
    n, m = len(a), len(b)
    row = list(range(m + 1))
    for i in range(1, n + 1):
        diagonal = row[0]
        row[0] = i
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            best = min(row[j] + 1, row[j - 1] + 1, diagonal + cost)
            diagonal = row[j]
            row[j] = best
    return row[m]


@program(
    (weight(5, 2), data(4, 2)),
    (weight(2, 2), data(6, 2)),
    (weight(1, 2), data(1, 2)),
)
def dtw(x, y):
    """Dynamic time warping: gradients follow the best path alone."""
    n, m = x.size(0), y.size(0)
    cost = torch.cdist(x, y)
    d = torch.full((n + 1, m + 1), float("inf"))
    d[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            best = torch.min(torch.min(d[i - 1, j].clone(), d[i, j - 1].clone()), d[i - 1, j - 1].clone())
            d[i, j] = cost[i - 1, j - 1] + best
    return d[n, m]


@program(
    (weight(5, 2), weight(4, 2), 1.0),
    (weight(3, 2), weight(6, 2), 0.1),
    (weight(2, 2), weight(2, 2), 10.0),
)
def soft_dtw(x, y, gamma: float):
    d = (x.unsqueeze(1) - y.unsqueeze(0)).pow(2).sum(-1)
    n, m = d.shape
    previous = [torch.tensor(0.0)] + [torch.tensor(1e6) for _ in range(m)]
    for i in range(n):
        current = [torch.tensor(1e6)]
        for j in range(m):
            options = torch.stack([previous[j], previous[j + 1], current[j]])
            current.append(d[i, j] - gamma * torch.logsumexp(-options / gamma, 0))
        previous = current
    return previous[-1]


@program(
    (ints(0, 1, 2, 2, 1), ints(1, 2, 1), weight(3, 3), 0.4),
    (ints(0, 0), ints(1, 1, 2, 0, 2, 1), weight(3, 3), 2.0),
    (ints(2), ints(2), weight(3, 3), 0.0),
)
def smith_waterman(a, b, similarity, gap: float):
    """The best local alignment and where it ends."""
    n, m = a.size(0), b.size(0)
    h = torch.zeros(n + 1, m + 1)
    best, end = torch.zeros(()), (0, 0)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            match = h[i - 1, j - 1] + similarity[a[i - 1], b[j - 1]]
            value = torch.stack([match, h[i - 1, j] - gap, h[i, j - 1] - gap]).max().clamp(min=0)
            h[i, j] = value
            if value > best:
                best = value
                end = (i, j)
    return best, end


@program(
    (ints(0, 1, 2), ints(0, 2), 1.0, -1.0, -0.5),
    (ints(0, 1, 2, 0, 1), ints(1, 1, 2, 0), 2.0, -2.0, -1.0),
    (ints(3), ints(3), 1.0, 0.0, 0.0),
)
def needleman_wunsch(a, b, match: float, mismatch: float, gap: float):
    """The global alignment as a string of moves, traced back from the corner."""
    n, m = len(a), len(b)
    score = torch.zeros(n + 1, m + 1)
    score[:, 0] = torch.arange(n + 1) * gap
    score[0, :] = torch.arange(m + 1) * gap
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            s = match if a[i - 1] == b[j - 1] else mismatch
            score[i, j] = max(score[i - 1, j - 1] + s, score[i - 1, j] + gap, score[i, j - 1] + gap)
    i, j, moves = n, m, []
    while i > 0 or j > 0:
        if i > 0 and j > 0:
            s = match if a[i - 1] == b[j - 1] else mismatch
            if torch.isclose(score[i, j], score[i - 1, j - 1] + s):
                i, j = i - 1, j - 1
                moves.append(0)
                continue
        if i > 0 and torch.isclose(score[i, j], score[i - 1, j] + gap):
            i -= 1
            moves.append(1)
        else:
            j -= 1
            moves.append(2)
    return score[n, m], moves[::-1]


@program(
    (ints(1, 3, 2, 4), ints(3, 4, 1, 2, 4)),
    (ints(5), ints(6)),
    (ints(1, 2, 3), ints(1, 2, 3)),
)
def longest_common_subsequence(a, b):
    previous = [0] * (b.size(0) + 1)
    for x in a:
        current = [0]
        for j, y in enumerate(b):
            current.append(previous[j] + 1 if x == y else max(previous[j + 1], current[-1]))
        previous = current
    return previous[-1]


@program(
    (weight(5, 5), 5),
    (weight(5, 5), 2),
    (weight(5, 5), 1),
)
def inside_algorithm(rule, n: int):
    """The inside scores of all spans, in the log semiring; spans of growing width."""
    chart = torch.zeros(n, n)
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            splits = []
            for k in range(i, j):
                splits.append(chart[i, k] + chart[k + 1, j] + rule[i % 5, k % 5])
            chart[i, j] = torch.logsumexp(torch.stack(splits), dim=0)
    return chart[0, n - 1]


@program(
    (weight(6, 3), weight(3, 3), 3),
    (weight(4, 3), weight(3, 3), 1),
    (weight(7, 3), weight(3, 3), 20),
)
def semi_markov(emissions, transitions, longest: int):
    n = emissions.size(0)
    total = torch.cat([torch.zeros(1, 3), emissions.cumsum(0)])
    alphas = [torch.zeros(3)]
    for t in range(1, n + 1):
        scores = []
        for length in range(1, min(longest, t) + 1):
            segment = total[t] - total[t - length]
            arrive = torch.logsumexp(alphas[t - length].unsqueeze(1) + transitions, 0)
            scores.append(arrive + segment)
        alphas.append(torch.stack(scores).logsumexp(0))
    return alphas[-1].logsumexp(0)


@program(
    (weight(4, 6), 2),
    (weight(7, 6), 3),
    (weight(1, 6), 1),
)
def monotonic_alignment(scores, window: int):
    """Hard monotonic attention: a pointer that only moves forward, found by a loop with a break."""
    position = 0
    total = torch.zeros(())
    where_ = []
    for t in range(scores.shape[0]):
        best = position
        for k in range(position, scores.shape[1]):
            if k - position >= window:
                break
            if scores[t, k] > scores[t, best]:
                best = k
        position = best
        where_.append(position)
        total = total + scores[t, position]
    return total, where_


@program(
    (floats(3.0, 1.0, 2.0), floats(0.5, 0.25, 0.25), weight(3, 3), 0.5, 30),
    (floats(1.0, 1.0), floats(0.5, 0.5), weight(2, 2), 0.1, 5),
    (floats(1.0, 2.0, 3.0, 4.0), floats(0.25, 0.25, 0.25, 0.25), weight(4, 4), 1.0, 200),
)
def sinkhorn(a, b, cost, epsilon: float, limit: int):
    a = a / a.sum()
    u, v = torch.zeros_like(a), torch.zeros_like(b)
    kernel = -cost.abs() / epsilon
    for _ in range(limit):
        before = u
        u = a.log() - torch.logsumexp(kernel + v, dim=1)
        v = b.log() - torch.logsumexp(kernel.t() + u, dim=1)
        if (u - before).abs().max().item() < 1e-5:
            break
    plan = (kernel + u.unsqueeze(1) + v).exp()
    return (plan * cost.abs()).sum()
