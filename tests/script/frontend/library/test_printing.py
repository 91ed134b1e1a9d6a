"""The text of tensors in scripts says of their history what eager's says, where that is certain."""

from __future__ import annotations

import pytest

import jitgrad as torch
from jitgrad import config, nn, script
from jitgrad.autograd import Function

F = nn.functional


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def leaves(w, p):
    print(w, p)
    print([w, (p,)], f"{w} {w!r}", str(p), "%s" % w)  # noqa: UP031


def results(w, p):
    y = w * 2
    print(y, y.sum(), y.detach(), w > 0)
    print(torch.relu(w), F.gelu(w), w.softmax(0), F.mse_loss(w, w.detach() + 1), Twice.apply(w), w.sort()[0])
    print(f"{y.sum()} {y.sum()!r} {y.sum():.2f}")


def views(w, p):
    print(w[0], w.reshape(1, -1), w.unsqueeze(0), w[1:], w.detach()[0])
    with torch.no_grad():
        print(w[0], w * 2)


def after_backward(w, p):
    loss = F.binary_cross_entropy_with_logits(w, p.detach())
    loss.backward()
    print(loss, w.grad)
    with torch.no_grad():
        w -= w.grad
    print(w)


def in_a_loop(w, p):
    for k in range(w.shape[0]):
        y = w * k
        print(k, y)
        if y.sum() > 1:
            print(y.abs())


def returned(w, p):
    return f"{w!r} {(w * 2).sum()!r} {p}"


def raised(w, p):
    raise ValueError(f"not good: {w * 2}")


def wide(w, p):
    print((w * 2).repeat(6), w.double().repeat(4), (w.double() + 1e-3).repeat(3))


@pytest.mark.parametrize("function", [leaves, results, views, after_backward, in_a_loop, returned, raised, wide])
def test_against_eager(function, capsys):
    found = []
    for interpret, run in ((False, function), (True, script(function)), (False, script(function))):
        w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        p = nn.Parameter(torch.tensor([0.0, 1.0, 1.0]))
        with config.override(interpret=interpret):
            try:
                result = run(w, p)
            except ValueError as error:
                result = str(error)
        found.append((result, capsys.readouterr().out))
    assert found[0] == found[1] == found[2]
    assert "=" in (found[0][0] or found[0][1])


def of_branches(w, n):
    y = w * 2 if n > 0 else w + 1
    print(y)


def of_iterations(w, n):
    for _ in range(n):
        w = w * 2
    print(w)


def written(w, n):
    y = w * n
    y.add_(1)
    print(y)


def nothing_changed(w, n):
    print(w.squeeze())


@pytest.mark.parametrize("function", [of_branches, of_iterations, written, nothing_changed])
def test_what_is_not_certain_is_left_out(function, capsys):
    script(function)(torch.ones(2, 2, requires_grad=True), 2)
    out = capsys.readouterr().out
    assert out.startswith("tensor([[")
    assert "=" not in out
