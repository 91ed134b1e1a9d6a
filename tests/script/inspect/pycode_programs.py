"""Scripts whose `code` and `grad_code` are run: loops, branches, optionals, sequences, writes, numbers."""

from __future__ import annotations

import jitgrad
from jitgrad import nn


def t(*shape, grad=False, seed=0):
    jitgrad.manual_seed(seed)
    return jitgrad.randn(*shape).requires_grad_(grad)


def rnn(xs, h, wx, wh):
    for x in xs:
        h = jitgrad.tanh(x @ wx + h @ wh)
    return (h * h).sum()


def newton(a, tol: float):
    x = a
    steps = 0
    while abs(x * x - a) > tol:
        x = 0.5 * (x + a / x)
        steps += 1
    return x, steps


def branches(x, loss: float):
    if loss > 1.0:
        y = x * 2
    elif x.sum() > 0:
        y = x.exp()
    else:
        y = -x
    return y + 1


def optional(x, bias=None, flag: bool = True):
    y = None
    if flag:
        y = x * 3
    if y is not None:
        x = x + y
    return (x if bias is None else x + bias) * 1


def early(xs, limit: float):
    total = jitgrad.zeros(())
    for x in xs:
        if x.sum() > limit:
            return total * 2
        total = total + x.exp().sum()
    return total


def nested(x, n: int):
    total = x.sum()
    for i in range(n):
        for j in range(i):
            if j % 2 == 0:
                continue
            total = total + (x * j).sum() / (i + 1)
    return total


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    mask = jitgrad.ones(q.shape[-2], q.shape[-2]).tril() == 0
    return jitgrad.softmax(scores.masked_fill(mask, -1e9), dim=-1) @ v


def writes(x, y):
    z = x * 1
    z[0] = y
    z[1:] += z[0] * 2
    return z.sum(), z


def pieces(x):
    a, b = x.chunk(2, dim=1)
    c = jitgrad.cat((b, a.flip(0)), 1)
    return c[:, ::2].reshape(-1).cumsum(0), jitgrad.stack((a, b)).amax(dim=0), c[:, 1].argmax()


def gathers(x, index):
    return x[index].sum(0), x.gather(1, index.unsqueeze(1)), nn.functional.one_hot(index, 4)


def casts(x, k: int):
    n = (x > 0).sum()
    return n, x.double() * k, (x * 10).long() // 3, x.mean() / max(n.item(), 1)


def numbers(a: int, b: float, x):
    c = a // 3 + (a % 4) ** 2
    d = b if a > 2 else float(c)
    return x * d, c, -a, round(b), a << 2 & 7, abs(a - 9), min(a, c)


def norm(x, weight):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True, correction=0)
    return (x - mean) / (var + 1e-5).sqrt() * weight


def losses(x, target):
    return nn.functional.cross_entropy(x, target) + x.logsumexp(1).mean() + jitgrad.log_softmax(x, 1).sum() * 0.1


def activations(x):
    f = nn.functional
    return f.gelu(x) + f.silu(x) + f.softplus(x) + f.leaky_relu(x, 0.1) + f.elu(x) + x.clamp(-1, 1) + x.clamp(min=0.2)


def infinite(x, n: int):
    best = -float("inf")
    for i in range(n):
        value = x[i].item()
        if value > best:
            best = value
    return best, x.masked_fill(x < 0, float("-inf")).amax()


def sorting(x):
    values, indices = x.sort(dim=1, descending=True)
    top, _ = x.topk(2)
    return values, indices, top


def shapes(x, n: int):
    rows = x.shape[0] * 2 + 1
    return jitgrad.zeros(rows, n) + jitgrad.arange(n), x.expand(3, *x.shape) * 1, x.new_ones(x.shape[1] // 2)


def filter_rows(x):
    keep = (x.sum(1) > 0).nonzero().squeeze(1)
    return x[keep] * 2


def halves(x, tol: float):
    while x.shape[0] > 1:
        x = x[: x.shape[0] // 2] + tol
    return x.sum()


def saturate(x, n: int):
    for _ in range(n):
        y = x * 1.5
        if y.abs().max() > 4:
            break
        x = y
    else:
        x = x - 1
    return x


#: (function, arguments)
PROGRAMS = [
    (rnn, lambda: (t(5, 2, 3), t(2, 4), t(3, 4, grad=True), t(4, 4, grad=True))),
    (rnn, lambda: (t(0, 2, 3), t(2, 4, grad=True), t(3, 4, grad=True), t(4, 4))),
    (newton, lambda: (jitgrad.tensor(2.0, requires_grad=True), 1e-3)),
    (branches, lambda: (t(3, grad=True), 2.0)), (branches, lambda: (t(3, grad=True), 0.5)),
    (optional, lambda: (t(3, grad=True), None, True)), (optional, lambda: (t(3, grad=True), t(3), False)),
    (early, lambda: (t(4, 3, grad=True), 1.0)), (early, lambda: (t(4, 3, grad=True), 100.0)),
    (nested, lambda: (t(3, grad=True), 5)),
    (attention, lambda: (t(2, 4, 3, grad=True), t(2, 4, 3, grad=True, seed=1), t(2, 4, 3, grad=True, seed=2))),
    (writes, lambda: (t(3, 2, grad=True), t(2, grad=True))),
    (pieces, lambda: (t(3, 4, grad=True),)),
    (gathers, lambda: (t(3, 4, grad=True), jitgrad.tensor([2, 0, 1]))),
    (casts, lambda: (t(2, 3, grad=True), 3)),
    (numbers, lambda: (7, 2.5, t(3, grad=True))),
    (norm, lambda: (t(3, 5, grad=True), t(5, grad=True))),
    (losses, lambda: (t(3, 5, grad=True), jitgrad.tensor([1, 0, 4]))),
    (activations, lambda: (t(3, 5, grad=True),)),
    (infinite, lambda: (t(4), 4)),
    (sorting, lambda: (t(3, 4, grad=True),)),
    (shapes, lambda: (t(2, 4), 3)),
    (filter_rows, lambda: (t(6, 2, grad=True),)),
    (halves, lambda: (t(9, 2, grad=True), 0.1)),
    (saturate, lambda: (t(4, grad=True), 3)), (saturate, lambda: (t(4, grad=True), 30)),
]
