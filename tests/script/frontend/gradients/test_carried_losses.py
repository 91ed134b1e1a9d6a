"""Gradients of a loss that the iteration before made: taken where it is made, the same as eager's."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, nn, script
from jitgrad.errors import NonDifferentiable

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def loss_of(net):
    return (net(X) - 1).pow(2).mean()


def until(net, optimizer, bound):
    loss, steps = loss_of(net), 0
    while loss.item() > bound:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss_of(net)
        steps += 1
    return loss.detach(), steps


def with_history_after(net, optimizer, bound):
    loss = loss_of(net)
    while loss > bound:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss_of(net)
    return loss


def backward_after(net, optimizer, bound):
    loss = loss_of(net)
    while loss > bound:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss_of(net)
    loss.backward()
    return loss.detach()


def counted(net, optimizer, bound):
    loss = loss_of(net)
    for k in range(int(bound * 40)):
        if k % 2 == 0:
            optimizer.zero_grad()
            loss.backward()
        else:
            loss.backward()
        optimizer.step()
        loss = loss_of(net) * k
    return loss.detach()


def left(net, optimizer, bound):
    loss = loss_of(net)
    for _ in range(net[0].weight.shape[0] * 10):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss_of(net)
        if loss < bound:
            break
    return loss.detach()


def nested(net, optimizer, bound):
    total = torch.zeros(())
    for k in range(X.shape[0]):
        loss = loss_of(net) + k
        while loss > bound + k:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss = loss_of(net) + k
        total = total + loss.detach()
    return total


def twice(net, optimizer, bound):
    loss = loss_of(net)
    while loss > bound:
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        loss.backward()
        optimizer.step()
        loss = loss_of(net)
    return loss.detach()


def by_hand(net, optimizer, bound):
    loss = loss_of(net)
    while loss > bound:
        grads = torch.autograd.grad(loss, (net[0].weight, net[2].bias))
        with torch.no_grad():
            for p, g in zip((net[0].weight, net[2].bias), grads, strict=True):
                p -= 0.1 * g
        loss = loss_of(net)
    return loss.detach()


def of_some(net, optimizer, bound):
    loss = loss_of(net)
    while loss > bound:
        optimizer.zero_grad()
        loss.backward(inputs=[net[2].weight])
        optimizer.step()
        loss = loss_of(net)
    return loss.detach()


def own_leaf(net, optimizer, bound):
    w = torch.zeros(3).requires_grad_()
    loss = (w - 2).pow(2).sum()
    while loss > bound:
        loss.backward()
        with torch.no_grad():
            w -= 0.2 * w.grad
        w.grad = None
        loss = (w - 2).pow(2).sum()
    return w.detach()


def shown(g):
    print(f"{g.sum().item():.3f}")


def hooked(net, optimizer, bound):
    return until(net, optimizer, bound)


FUNCTIONS = [until, with_history_after, backward_after, counted, left, nested, twice, by_hand, of_some, own_leaf,
             hooked]


@pytest.mark.parametrize("bound", [0.5, 0.2, 100.0])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_against_eager(function, bound, capsys):
    found = []
    for interpret, run in ((False, function), (True, script(function)), (False, script(function))):
        net = model()
        if function is hooked:
            net[2].bias.register_hook(shown)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        with config.override(interpret=interpret):
            result = run(net, optimizer, min(bound, 1.0) if function is counted else bound)
            if isinstance(result, torch.Tensor) and result.requires_grad:
                net.zero_grad()
                result.backward()
        values = list(result) if isinstance(result, tuple) else [result]
        found.append(([v for v in values if not isinstance(v, torch.Tensor)],
                      [*[v for v in values if isinstance(v, torch.Tensor)], *net.parameters()],
                      [p.grad for p in net.parameters()], capsys.readouterr().out))
    for other in found[1:]:
        assert other[0] == found[0][0]
        assert other[3] == found[0][3]
        for a, b in zip(found[0][1], other[1], strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)
        for a, b in zip(found[0][2], other[2], strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.allclose(a, b, rtol=1e-3, atol=1e-5)


def test_one_program():
    run = script(until)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for bound in (0.6, 0.5, 0.4, 100.0):
        run(net, optimizer, bound)
    assert run.cache_info().compilations <= 2  # with and without `.grad` before the call


def test_a_step_that_starts_the_optimizer_state():
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    run = script(until)
    assert run(net, optimizer, 0.4)[1] > 0
    assert run(net, optimizer, 0.2)[1] > 0


def descend(w, n, train):
    loss = w.pow(2).sum()
    for _ in range(n):
        if train:
            loss.backward()
        loss = w.pow(2).sum()
    return loss.detach()


def with_and_without(w, n):
    a = descend(w, n, True)
    with torch.no_grad():
        return a + descend(w, n, False)


def test_the_same_loop_without_gradients():
    found = []
    for run in (with_and_without, script(with_and_without)):
        w = torch.ones(3).requires_grad_()
        found.append((run(w, 4).item(), w.grad.tolist()))
    assert found[0] == found[1]


def again(w, n):
    loss = w.pow(2).sum()
    for _ in range(n):
        loss.backward()
        loss.backward()
        loss = w.pow(2).sum()


def kept(w, n):
    loss = w.pow(2).sum()
    while n > 0:
        n -= 1
        if n == 3:
            continue
        loss.backward()
        loss = w.pow(2).sum()


def running(w, n):
    loss = w.pow(2).sum()
    for _ in range(n):
        loss.backward()
        loss = loss * 0.5 + w.pow(2).sum()


def freed(w, n):
    loss = w.pow(2).sum()
    for _ in range(n):
        loss.backward()
        loss = w.pow(2).sum()
        loss.backward()


def recorded(w, n):
    loss = w.pow(2).sum()
    for _ in range(n):
        loss.backward(create_graph=True)
        loss = w.pow(2).sum()


def in_inner_loop(w, n):
    loss = w.pow(2).sum()
    for _ in range(n):
        for _ in range(n):
            loss.backward(retain_graph=True)
        loss = w.pow(2).sum()


@torch.jit.ignore(returns=lambda x: x)
def outside(x):
    return x * 2


def of_ignored(w, n):
    loss = outside(w).pow(2).sum()
    for _ in range(n):
        loss.backward()
        loss = outside(w).pow(2).sum()


@pytest.mark.parametrize("function", [again, kept, running, freed, recorded, in_inner_loop, of_ignored])
def test_refusals(function):
    with pytest.raises(NonDifferentiable, match="earlier iterations"):
        script(function)(torch.ones(3).requires_grad_(), 99)


@pytest.mark.parametrize("function", [again, running, freed, recorded, in_inner_loop, of_ignored])
def test_unrolled_loops_reach_into_earlier_iterations(function):
    found = []
    for run in (function, script(function)):
        w = torch.tensor([0.1, 0.2, -0.3]).requires_grad_()
        error = None
        try:
            run(w, 3)
        except RuntimeError as raised:
            error = str(raised).splitlines()[0]
        found.append((error, w.grad))
    assert found[0][0] == found[1][0]
    assert torch.allclose(found[0][1], found[1][1])
