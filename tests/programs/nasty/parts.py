"""What a module consists of is given once, by an iterator."""

from __future__ import annotations

import jitgrad as torch
from jitgrad import nn
from tests.programs.nasty.harness import nasty


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


CALLS = (lambda: (network(), torch.ones(5, 3)), lambda: (network(), torch.arange(6.0).reshape(2, 3)))


@nasty(*CALLS)
def of_the_first(m, x):
    """The device and the dtype of a model, as its code asks for them."""
    first = next(m.parameters())
    return m(x.to(first.device).to(first.dtype)), first.is_leaf


@nasty(*CALLS)
def taken_in_two_loops(m, x):
    """The second loop finds what the first has left."""
    parts = m.named_parameters()
    name, first = next(parts)
    total = first.sum()
    for _, p in parts:
        total = total + p.sum()
        if p.ndim == 1 and p.shape[0] == 2:
            break
    return total * x.sum(), name, [n for n, _ in parts], next(parts, None)


@nasty(lambda: (network(), network(), torch.ones(5, 3)), lambda: 2 * (network(),) + (torch.ones(2, 3),))
def two_models_side_by_side(m, other, x):
    """A running mean of one's parameters in the other's, which may be the same model."""
    with torch.no_grad():
        for p, q in zip(m.parameters(), other.parameters(), strict=True):
            p.mul_(0.5).add_(q, alpha=0.25)
    return sum(b.sum() for b in m.buffers()) + m(x).sum()


@nasty(*CALLS)
def children_one_by_one(m, x):
    """By hand, with `next` and a default."""
    rest = m.children()
    part = next(rest)
    count = 0
    while part is not None:
        x = part(x)
        count += sum(1 for _ in part.modules())
        part = next(rest, None)
    return x, count


@nasty(*CALLS)
def no_length(m, x):
    """An iterator has none."""
    try:
        return x * len(m.parameters())
    except TypeError:
        first, *others = m.parameters()
        return x * len(others) + first.sum()
