"""Work that depends on the data: mixtures of experts, early exits, adaptive computation, buckets."""

from __future__ import annotations

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F
from tests.programs.harness import data, floats, ints, program, tokens, weight


@program(
    (data(5, 4), weight(4, 3), weight(3, 4, 4)),
    (data(8, 4), weight(4, 3), weight(3, 4, 4)),
    (data(2, 4), weight(4, 3), weight(3, 4, 4)),
)
def top_1_per_token(x, gate, experts):
    probs = F.softmax(x @ gate, dim=-1)
    out = []
    for token, p in zip(x, probs):
        k = int(p.argmax())
        out.append(p[k] * torch.relu(token @ experts[k]))
    return torch.stack(out)


@program(
    (data(6, 4), weight(4, 3), weight(3, 4, 5), 2),
    (data(3, 4), weight(4, 3), weight(3, 4, 5), 1),
    (data(2, 4), weight(4, 3), weight(3, 4, 5), 3),
)
def top_k_gathered(x, gate, experts, k: int):
    """Every expert runs on the tokens that chose it."""
    scores, chosen = torch.topk(x @ gate, k, dim=-1)
    weights = scores.softmax(dim=-1)
    out = torch.zeros(x.size(0), experts.size(2))
    used = 0
    for e in range(experts.size(0)):
        rows, slots = torch.where(chosen == e)
        if rows.numel() == 0:
            continue
        used += 1
        y = torch.tanh(x[rows] @ experts[e]) * weights[rows, slots].unsqueeze(-1)
        out = out.index_add(0, rows, y)
    return out, used


@program(
    (data(7, 4), 0.6),
    (data(4, 4), 1.0),
    (data(2, 4), 0.1),
)
class MixtureOfExperts(nn.Module):
    """Experts of limited capacity: tokens that come too late keep their input. With the auxiliary loss for balance."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3, bias=False)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4)) for _ in range(3)])
        self.dropped = 0

    def forward(self, x, factor: float):
        n = x.size(0)
        capacity = max(1, int(factor * n / len(self.experts)))
        probs = self.gate(x).softmax(-1)
        weight_, index = probs.max(dim=-1)
        out = x.clone()
        for k, expert in enumerate(self.experts):
            mine = (index == k).nonzero().flatten()
            self.dropped += max(0, mine.size(0) - capacity)
            mine = mine[:capacity]
            out[mine] = weight_[mine].unsqueeze(1) * expert(x[mine])
        share = F.one_hot(index, 3).float().mean(0)
        return out, 3 * (share * probs.mean(0)).sum()


@program(
    (data(4, 5), weight(5, 5), weight(5), 0.01, 10),
    (data(2, 5), weight(5, 5), weight(5), 0.3, 4),
    (data(3, 5), weight(5, 5), weight(5), 0.01, 1),
)
def adaptive_computation_time(x, w, halt, epsilon: float, limit: int):
    """Graves' ACT: a row halts when its probabilities have summed to one."""
    batch = x.size(0)
    total = torch.zeros(batch)
    remainder = torch.zeros(batch)
    count = torch.zeros(batch)
    out = torch.zeros_like(x)
    n = 0
    while n < limit and bool((total < 1 - epsilon).any()):
        x = torch.tanh(x @ w)
        p = torch.sigmoid(x @ halt)
        running = (total < 1 - epsilon).float()
        last = ((total + p * running) >= 1 - epsilon).float() * running
        still = running - last
        remainder = remainder + last * (1 - total)
        update = still * p + last * (1 - total)
        total = total + still * p + last * (1 - total)
        count = count + running
        out = out + update.unsqueeze(-1) * x
        n += 1
    return out, (count + remainder).mean(), n


@program(
    (data(3, 4, 6), 0.8, 5),
    (data(2, 3, 6), 0.1, 3),
    (data(2, 5, 6), 5.0, 4),
)
class UniversalTransformer(nn.Module):
    """One layer applied until all positions have halted; every position counts its steps."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.attend = nn.Linear(6, 18)
        self.out = nn.Linear(6, 6)
        self.halt = nn.Linear(6, 1)

    def forward(self, x, threshold: float, limit: int):
        halting = torch.zeros(x.shape[:2])
        steps = torch.zeros_like(halting)
        for t in range(limit):
            alive = halting < threshold
            if not alive.any():
                break
            q, k, v = self.attend(self.norm(x)).chunk(3, dim=-1)
            new = x + self.out(F.softmax(q @ k.mT / 6 ** 0.5, dim=-1) @ v) + 0.01 * t
            halting = halting + torch.sigmoid(self.halt(new)).squeeze(-1) * alive
            steps += alive
            x = torch.where(alive.unsqueeze(-1), new, x)
        return x, steps


@program(
    (data(4, 6), 0.5),
    (data(3, 6), 0.99),
    (data(2, 6), 0.0),
)
class EarlyExit(nn.Module):
    """A classifier after every block; the batch leaves at the first that is sure."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])
        self.heads = nn.ModuleList([nn.Linear(6, 3) for _ in range(4)])

    def forward(self, x, sure: float):
        for depth, (block, head) in enumerate(zip(self.blocks, self.heads)):
            x = torch.relu(block(x)) + x
            logits = head(x)
            confidence = logits.softmax(-1).max(-1).values.min()
            if confidence > sure:
                print(f"left after {depth + 1} blocks")
                return logits, depth
        print("went through all blocks")
        return logits, len(self.blocks)


@program(
    (data(5, 3), [weight(3, 3, seed=k) for k in range(4)], floats(0.9, 0.1, 0.5, 0.7)),
    (data(2, 3), [weight(3, 3, seed=k) for k in range(4)], floats(0.0, 0.0, 0.0, 0.0)),
    (data(3, 3), [weight(3, 3, seed=k) for k in range(4)], floats(1.0, 1.0, 1.0, 1.0)),
)
def stochastic_depth(x, layers, survive):
    for k, w in enumerate(layers):
        if torch.rand(1) < survive[k]:
            x = x + torch.relu(x @ w)
    return x


@program(
    (tokens(6, 3, below=50), weight(8, 4), 8),
    (tokens(2, 5, below=1000), weight(8, 4), 8),
    (tokens(4, 1, below=9), weight(5, 4), 5),
)
def hashed_embedding(ids, table, buckets: int):
    """Two hash functions per id; ids beyond a prime are mixed with shifts and exclusive or."""
    first = (ids * 2654435761) % 4294967296 % buckets
    mixed = ids ^ (ids >> 3) ^ (ids << 2)
    second = mixed % buckets
    sign = 1 - 2 * (mixed & 1)
    return (table[first] + sign.unsqueeze(-1) * table[second]).sum(dim=1)


@program(
    (data(6, 4), data(4, 3), weight(4, 4)),
    (data(9, 4), data(4, 2), weight(4, 4)),
)
def locality_sensitive_buckets(x, planes, w):
    """Rows with the same signs share a bucket and are averaged there."""
    bits = (x @ planes > 0).long()
    code = (bits * (2 ** torch.arange(planes.size(1)))).sum(dim=1)
    order = torch.argsort(code, stable=True)
    y = torch.zeros_like(x)
    start = 0
    groups = 0
    while start < x.size(0):
        end = start
        while end < x.size(0) and code[order[end]] == code[order[start]]:
            end += 1
        members = order[start:end]
        y[members] = (x[members] @ w).mean(0)
        start = end
        groups += 1
    return y, groups


@program(
    (data(6, 4), weight(4, 2), weight(4, 4), weight(4, 4, seed=5)),
    (data(3, 4), weight(4, 2), weight(4, 4), weight(4, 4, seed=5)),
)
def two_way_partition(x, router, left, right):
    """Rows are split by a mask, transformed apart, and put back in order."""
    goes_left = (x @ router).diff(dim=1).squeeze(1) < 0
    out = torch.empty_like(x)
    out[goes_left] = torch.tanh(x[goes_left] @ left)
    out[~goes_left] = torch.sigmoid(x[~goes_left] @ right)
    return out, int(goes_left.sum())


@program(
    (data(5, 4), weight(4, 3), ints(2, 2, 2)),
    (data(8, 4), weight(4, 3), ints(1, 0, 3)),
    (data(2, 4), weight(4, 3), ints(0, 0, 0)),
)
def first_come_first_served(x, gate, room):
    """Tokens go to their best expert that has room left; the room is a list of Python ints."""
    left = [int(room[0]), int(room[1]), int(room[2])]
    where_ = []
    loss = torch.zeros(())
    for logits in x @ gate:
        order = logits.argsort(descending=True)
        placed = -1
        for e in order:
            k = e.item()
            if left[k] > 0:
                left[k] -= 1
                placed = k
                loss = loss - logits.log_softmax(0)[k]
                break
        where_.append(placed)
    return where_, left, loss


@program(
    (data(4, 6), ints(0, 1, 2, 1), weight(3, 6, 2), True),
    (data(3, 6), ints(2, 2, 2), weight(3, 6, 2), False),
)
def task_heads(x, task, heads, averaged: bool):
    losses = {"sum": torch.zeros(()), "count": 0}
    for t in range(heads.size(0)):
        mask = task == t
        if not mask.any():
            continue
        y = x[mask] @ heads[t]
        losses["sum"] = losses["sum"] + (y.pow(2).mean() if averaged else y.pow(2).sum())
        losses["count"] += 1
    return losses["sum"] / losses["count"], losses["count"]
