"""Small idioms that go wrong elsewhere: aliases, views, state, exceptions half-way, random numbers in branches."""

from __future__ import annotations

import jitgrad as torch
from jitgrad import nn
from tests.programs.harness import data, ints, program, weight


@program((3, 0.2), (5, -1.0), (0, 0.2))
def views_in_a_loop(n: int, c: float):
    z = torch.zeros(2, 3)
    v = z[0]
    for k in range(n):
        v += k
        w = z[:, 1] if c > 0 else z[1]
        w *= 0.5
        z[1] = z[0] + 1
    return z, v


@program((weight(4), 3, 0.2), (weight(4, seed=5), 6, -0.5), (weight(4, seed=6), 0, 1.0))
def helper_that_writes_a_dict(x, n: int, c: float):
    state = {"x": x, "n": 0}

    def step(state, k):
        state["x"] = state["x"] * k
        state["n"] += k
        return state["x"].sum() > c

    for k in range(n):
        if step(state, k + 1):
            break
    return state


@program((weight(8), 3), (weight(5), 1), (weight(4), 0))
def halving_with_a_stack(x, depth: int):
    stack = [(0, x)]
    out = []
    while stack:
        level, part = stack.pop()
        if level >= depth or part.numel() <= 1:
            out.append(part.sum())
            continue
        mid = part.numel() // 2
        stack.append((level + 1, part[mid:]))
        stack.append((level + 1, part[:mid]))
    return torch.stack(out)


@program((weight(4), weight(3, seed=2)), (weight(2), weight(6, seed=2)), (weight(3), weight(3)))
def merge_sorted(x, y):
    a, b = x.sort().values, y.sort().values
    i = j = 0
    merged = []
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            merged.append(a[i])
            i += 1
        else:
            merged.append(b[j])
            j += 1
    merged.extend(a[i:])
    merged.extend(b[j:])
    return torch.stack(merged)


@program((data(4), 3, 0.0), (data(4, seed=3), 2, 9.0), (data(4), 0, 0.0))
def half_done_when_it_raises(buffer, n: int, limit: float):
    """What was written and printed before the exception stays."""
    for k in range(n):
        buffer[k] = k + 1.0
        print(f"wrote {k}")
        if buffer.sum() > limit + 2:
            raise RuntimeError(f"over {limit} after {k + 1} writes")
    buffer.zero_()
    return buffer


@program((weight(3), 0.0, 4), (weight(3), 5.0, 4), (weight(3), 0.0, 0))
def noise_in_one_branch(x, threshold: float, n: int):
    """The stream of random numbers goes on from where the taken branches left it."""
    for k in range(n):
        if x.sum() > threshold:
            x = x + 0.1 * torch.randn(3)
        elif torch.rand(()) < 0.5:
            x = x * torch.rand(3)
        else:
            x = x - 1
    return x, torch.rand(2)


@program((weight(4), 2, 0.0), (weight(4), 4, 9.0), (weight(4), 0, 0.0))
def swap_and_rotate(x, n: int, c: float):
    a, b, rest = x[0], x[1], x[2:]
    for _ in range(n):
        a, b = b, a + b
        if a > c:
            a, b = b, a
        rest = rest.roll(1)
    return a, b, rest


@program((data(2, 3), True), (data(4, 3), False), (data(3, 3), True))
class TrainAndEval(nn.Module):
    """Batch norm, dropout and a counter; the flag switches the module within the call."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 5)
        self.bn = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(0.4)
        self.batches = 0

    def forward(self, x, double: bool):
        for _ in range(2 if double else 1):
            h = self.drop(torch.relu(self.bn(self.fc(x))))
            self.batches += 1
            if h.mean() > 0.4:
                break
            x = x + h[:, :3]
        return h.sum(1), self.batches


@program((weight(5), 3), (weight(5), 1), (weight(5), 0))
def alias_of_a_list(x, n: int):
    items = [x]
    other = items
    for k in range(n):
        other.append(x * k)
        if len(items) > 2:
            items.pop(0)
    return len(other), torch.stack(items).sum(0)


@program((weight(3), ints(2, 0, 1), 0.5), (weight(3), ints(0, 0, 0, 0), -0.5), (weight(3), ints(1), 0.0))
def writes_through_indices(x, index, c: float):
    y = x * 1
    for k in index:
        y[k] = y[k] * 2 if c > 0 else y[k] + c
        y[y > 1] = 1.0
    y[index] += 1
    y.index_put_((index,), torch.ones(len(index)), accumulate=True)
    return y


@program((weight(3), 3), (weight(3), 0))
def none_until_the_loop(x, n: int):
    momentum = None
    for k in range(n):
        g = x * (k + 1)
        momentum = g if momentum is None else 0.9 * momentum + g
    return momentum if momentum is not None else -x


@program((weight(6), 0.0), (weight(6), 0.4), (weight(6), 100.0))
def none_one_or_many(x, c: float):
    index = torch.nonzero(x > c).flatten()
    if len(index) == 0:
        return x.sum()
    if len(index) == 1:
        return x[index[0]]
    return x[index].prod()


@program((weight(3), 7), (weight(3), 0), (weight(3), 2))
def no_grad_inside_the_loop(x, n: int):
    scale = torch.ones(())
    for k in range(n):
        with torch.no_grad():
            norm = x.norm()
            scale = scale * 0.9 if norm > 1 else scale * 1.1
            if scale > 1.5:
                break
        x = x * scale
    return x, scale, x.requires_grad


@program((weight(2, 3), 2), (weight(3, 3), 5), (weight(4, 3), 0))
def detached_targets(x, n: int):
    target = x.detach().clone()
    loss = torch.zeros(())
    for k in range(n):
        pred = torch.tanh(x * (k + 1))
        loss = loss + (pred - target).pow(2).mean()
        target = 0.9 * target + 0.1 * pred.detach()
    return loss, target


@program((weight(4), 3, 2.0), (weight(4), 5, -1.0), (weight(4), 1, 0.0))
def numbers_of_both_kinds(x, n: int, c: float):
    total, whole = 0, 0
    for k in range(n):
        total += k / 2
        whole += k // 2 + int(c)
    ratio = whole / n
    return x * total + ratio, whole, -7 // (n + 1), -7 % (n + 1), 2 ** n, round(ratio), n & 1 or n << 2
