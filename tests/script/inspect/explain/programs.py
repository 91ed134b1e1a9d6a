"""Scripts whose costs are known."""

from __future__ import annotations

import jitgrad
from jitgrad import nn


@jitgrad.script
def rnn(xs, h, wx, wh):
    for x in xs:
        h = jitgrad.tanh(x @ wx + h @ wh)
    return (h * h).sum()


@jitgrad.script
def two_maxima(x):
    e = x.exp()
    a = e.amax(dim=0)
    return a, e.amax(dim=1)


@jitgrad.script
def noisy(x, n: int):
    for i in range(n):
        print("step", i)
        x.mul_(2.0)
    values, _ = x.sort()
    assert n > 0, "none"
    return values


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.calls = 0.0

    def forward(self, x):
        self.calls += 1.0
        return helper(self.fc(x))


def helper(y):
    return y.exp().log()


def rnn_arguments(steps=5, batch=2, n=3, m=4):
    jitgrad.manual_seed(0)
    return (jitgrad.randn(steps, batch, n), jitgrad.zeros(batch, m), jitgrad.randn(n, m, requires_grad=True),
            jitgrad.randn(m, m, requires_grad=True))
