"""Sequences made token by token: greedy, beams, sampling of every kind."""

from __future__ import annotations

import math

import jitgrad as torch
from jitgrad.nn import functional as F
from tests.programs.harness import data, floats, ints, program, weight


@program(
    (weight(6, 4), weight(4, 6), 1, 3, 8),
    (weight(6, 4), weight(4, 6), 4, 0, 1),
    (weight(6, 4), weight(4, 6), 2, 5, 12),
)
def greedy(embed, out, start: int, stop: int, limit: int):
    h = torch.zeros(embed.shape[1])
    token, said, score = start, [], 0.0
    while len(said) < limit:
        h = torch.tanh(embed[token] + 0.5 * h)
        logp = F.log_softmax(h @ out, dim=-1)
        token = int(logp.argmax())
        score = score + logp[token]
        if token == stop:
            break
        said.append(token)
    return said, score


@program(
    (data(5, 6), 3),
    (data(8, 6), 2),
    (data(1, 6), 4),
)
def beam_search(emissions, width: int):
    """Beams over independent steps with a repetition penalty, as one tensor of scores and one of histories."""
    logp = emissions.log_softmax(dim=-1)
    k = logp.size(1)
    scores, last = logp[0].topk(width)
    history = last.unsqueeze(1)
    for t in range(1, logp.size(0)):
        penalty = F.one_hot(last, k).to(logp.dtype)
        candidates = scores.unsqueeze(1) + logp[t] - 0.5 * penalty
        scores, flat = candidates.view(-1).topk(width)
        parent = torch.div(flat, k, rounding_mode="floor")
        last = flat % k
        history = torch.cat([history[parent], last.unsqueeze(1)], dim=1)
    return scores, history


@program(
    (weight(5, 5), 2, 2, 6, 0.7),
    (weight(5, 5), 0, 3, 9, 0.0),
    (weight(5, 5), 1, 2, 1, 1.0),
)
def beam_search_with_ends(transition, start: int, width: int, limit: int, alpha: float):
    """Finished hypotheses leave the beam; the best is chosen by its length-normalised score."""
    logp = F.log_softmax(transition, dim=1)
    beams = torch.full((width,), start, dtype=torch.int64)
    scores = torch.zeros(width)
    scores[1:] = float("-inf")
    best, best_length = torch.tensor(float("-inf")), 0
    for length in range(1, limit + 1):
        grown = scores.unsqueeze(1) + logp[beams]
        ended = grown[:, 0] / length ** alpha
        if ended.max() > best:
            best = ended.max()
            best_length = length
        scores, flat = grown[:, 1:].flatten().topk(width)
        beams = flat % 4 + 1
        if scores.max() / limit ** alpha < best:
            break
    return best, best_length, beams


@program(
    (data(7), 1.0, 5),
    (data(7), 0.3, 9),
    (data(4), 5.0, 0),
)
def temperature_sampling(logits, temperature: float, n: int):
    drawn = []
    for _ in range(n):
        probs = (logits / temperature).softmax(-1)
        token = torch.multinomial(probs, 1)
        logits = logits.scatter_add(0, token, torch.tensor([-1.0]))
        drawn.append(token.item())
    return drawn, logits


@program(
    (weight(6, 6), ints(1, 2, 3), 3, 4),
    (weight(6, 6), ints(0, 5), 2, 7),
    (weight(6, 6), ints(4, 4, 4, 4), 6, 1),
)
def top_k_sampling(table, token, k: int, steps: int):
    out = [token]
    logp = 0
    for _ in range(steps):
        values, indices = table[token].topk(k, dim=-1)
        probs = values.softmax(dim=-1)
        pick = torch.multinomial(probs, num_samples=1)
        logp = logp + probs.gather(1, pick).log().squeeze(1)
        token = indices.gather(1, pick).squeeze(1)
        out.append(token)
    return torch.stack(out, dim=1), logp


@program(
    (weight(8), 0.9, 1.0, 4),
    (weight(8), 0.2, 0.5, 6),
    (weight(8), 1.0, 2.0, 3),
)
def nucleus_sampling(logits, top_p: float, temperature: float, n: int):
    drawn = torch.zeros(n, dtype=torch.int64)
    kept = 0
    for i in range(n):
        ordered, order = torch.sort(logits / temperature, descending=True)
        probs = F.softmax(ordered, dim=-1)
        remove = probs.cumsum(dim=-1) - probs > top_p
        probs = probs.masked_fill(remove, 0.0)
        probs = probs / probs.sum()
        choice = torch.multinomial(probs, 1)
        drawn[i] = order[choice].item()
        kept += int((~remove).sum())
        logits = logits - 0.5 * F.one_hot(order[choice][0], 8)
    return drawn, logits, kept


@program(
    (data(9), 0.1),
    (data(5), 0.5),
    (data(3), 2.0),
)
def min_p_cut(logits, min_p: float):
    probs = torch.softmax(logits, -1)
    keep = probs >= min_p * probs.max()
    if not keep.any():
        keep[probs.argmax()] = True
    filtered = torch.where(keep, logits, -math.inf)
    u = torch.rand(())
    total, index = 0.0, 0
    final = filtered.softmax(-1)
    for index in range(len(final)):
        total += float(final[index])
        if u < total:
            break
    return index, final


@program(
    (weight(4, 5), 1.0, 0.5, False),
    (weight(6, 5), 0.3, 0.9, True),
    (weight(2, 5), 5.0, 0.1, True),
)
def gumbel_softmax(logits, tau: float, decay: float, hard: bool):
    """Straight-through samples at a falling temperature."""
    total = torch.zeros(5)
    while tau > 0.1:
        gumbels = -torch.empty_like(logits).exponential_().log()
        soft = ((logits + gumbels) / tau).softmax(dim=-1)
        if hard:
            index = soft.max(dim=-1, keepdim=True)[1]
            one_hot = torch.zeros_like(logits).scatter_(-1, index, 1.0)
            ret = one_hot - soft.detach() + soft
        else:
            ret = soft
        total = total + ret.mean(0)
        tau *= decay
    return total


@program(
    (weight(6, 6), weight(6, 6, seed=8), 1, 6, 3),
    (weight(6, 6), weight(6, 6, seed=8), 2, 9, 2),
    (weight(6, 6), weight(6, 6), 0, 4, 4),
)
def speculative(draft, target, token: int, length: int, ahead: int):
    """A draft model proposes some tokens, the target model takes the longest prefix that it would say itself."""
    said = [token]
    calls = 0
    while len(said) < length:
        proposal = []
        cur = said[-1]
        for _ in range(ahead):
            cur = int(torch.argmax(draft[cur]))
            proposal.append(cur)
        calls += 1
        for p in proposal:
            truth = int(torch.argmax(target[said[-1]]))
            said.append(truth)
            if truth != p or len(said) >= length:
                break
    print(f"{calls} calls for {len(said)} tokens")
    return said, calls


@program(
    (weight(5, 5), ints(1, 2, 3), 0.5, 5),
    (weight(5, 5), ints(0), 1.5, 3),
    (weight(5, 5), ints(1, 1, 1, 1), 1.0, 2),
)
def repetition_penalty(table, prompt, penalty: float, n: int):
    seen = torch.zeros(5)
    for token in prompt:
        seen[token] += 1
    cur = prompt[-1]
    trace = []
    for _ in range(n):
        logits = table[cur]
        scaled = torch.where(logits > 0, logits / penalty, logits * penalty)
        logits = torch.where(seen > 0, scaled, logits)
        cur = logits.argmax()
        seen[cur] += 1
        trace.append(logits.max())
    return torch.stack(trace).sum(), seen


@program(
    (floats(0.1, 0.9, 0.3), floats([0.6, 0.4], [0.5, 0.5], [0.9, 0.1]), 5),
    (floats(0.5, 0.5, 0.5, 0.5), floats([0.6, 0.4], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]), 2),
)
def rejection_sampling(accept, table, n: int):
    out, tries = [], 0
    while len(out) < n and tries < 100:
        tries += 1
        i = torch.randint(0, accept.shape[0], (1,)).item()
        if torch.rand(()) > accept[i]:
            continue
        out.append(table[i] * (1 if torch.rand(()) < 0.5 else -1))
    return torch.stack(out), tries


@program(
    (data(3, 4), weight(4, 4), ints(2, 5, 1), 0),
    (data(2, 4), weight(4, 4), ints(1, 1), 3),
    (data(5, 4), weight(4, 4), ints(0, 4, 2, 7, 1), 2),
)
def batched_until_done(h, w, budget, minimum: int):
    """Sequences leave the batch when their budget is spent, so the batch shrinks."""
    alive = torch.arange(h.size(0))
    final = torch.zeros_like(h)
    step = 0
    while alive.numel() > 0:
        h = torch.tanh(h @ w)
        step += 1
        done = budget[alive] <= step if step > minimum else torch.zeros_like(alive, dtype=torch.bool)
        final[alive[done]] = h[done]
        h = h[~done]
        alive = alive[~done]
    return final, step
