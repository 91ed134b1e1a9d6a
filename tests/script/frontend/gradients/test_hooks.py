"""Hooks: of leaves under a gradient taken in the script, of computed tensors, of modules, of optimizers; also late."""

from __future__ import annotations

import types
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, nn, script
from jitgrad.errors import UnsupportedCall


@pytest.fixture(params=["interpreted", "native"], autouse=True)
def _backend(request: pytest.FixtureRequest) -> Any:
    with config.override(interpret=request.param == "interpreted"):
        yield


def double(g):
    return g * 2


def show(g):
    print("gradient", g.tolist())


def descend(p):
    with torch.no_grad():
        p.sub_(0.1 * p.grad)
    p.grad = None


def triple_result(module, args, result):
    return result * 3


def step(model, x):
    loss = model(x).pow(2).sum()
    loss.backward()
    return loss.detach()


def of_weight(model):
    return [model.weight.register_hook(double)]


def two_of_weight(model):
    return [model.weight.register_hook(show), model.weight.register_hook(double)]


def after_all(model):
    return [p.register_post_accumulate_grad_hook(descend) for p in model.parameters()]


def halve(module, gradients):
    return (gradients[0] / 2,)


def clip(module, gradients):
    return gradients[0].clamp(-1.5, 1.5)


def backward_pre_hooks(model):
    return [model.register_full_backward_pre_hook(h) for h in (halve, clip, lambda module, gradients: None)]


def mean_of_both(module, given, taken):
    return (given[0] * taken[0].mean(),) if given[0] is not None else None


def backward_hooks(model):
    return [model.register_full_backward_hook(h) for h in (mean_of_both, lambda module, given, taken: None)]


def forward_hook(model):
    return [model.register_forward_hook(triple_result)]


@pytest.mark.parametrize("register", [of_weight, two_of_weight, after_all, forward_hook, backward_pre_hooks,
                                      backward_hooks])
def test_hooks_registered_after_compilation(register, capsys):
    found = []
    for run in (step, script(step)):
        torch.manual_seed(0)
        model = nn.Linear(2, 1)
        seen = []
        handles: list[Any] = []
        for k in range(3):
            model.zero_grad()
            if k == 1:
                handles = register(model)
            if k == 2:
                for h in handles:
                    h.remove()
            loss = run(model, torch.ones(1, 2))
            seen.append((loss.item(), *[p.tolist() for p in model.parameters()],
                         *[None if p.grad is None else p.grad.tolist() for p in model.parameters()]))
        found.append((seen, capsys.readouterr().out))
    assert found[0] == found[1]


def test_several_that_print_are_refused():
    model = nn.Linear(2, 1)
    for p in model.parameters():
        p.register_hook(show)
    with pytest.raises(UnsupportedCall, match="hooks of several tensors"):
        script(step)(model, torch.ones(1, 2))


def on_a_tensor(x):
    h = x * 2
    h.register_hook(double)
    return (h * h).sum()


def in_a_loop(x):
    h = x * 2
    h.register_hook(lambda g: g.clamp(-1, 1))
    for _ in range(3):
        h = h * x
        h.register_hook(double)
    h.sum().backward()
    return x.grad


def with_both(x):
    h = x * 2
    h.register_hook(double)
    (h * h).sum().backward()
    (g,) = torch.autograd.grad((x * 3).sum(), x)
    return x.grad + g


@pytest.mark.parametrize("function", [on_a_tensor, in_a_loop, with_both])
def test_hooks_on_computed_tensors(function):
    found = []
    for run in (function, script(function)):
        x = torch.arange(3.0).requires_grad_()
        y = run(x)
        if y.requires_grad:
            y.backward()
        found.append((y.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


def used_before(x):
    h = x * 2
    y = h * 3
    h.register_hook(double)
    return y.sum()


def on_an_argument(x):
    x.register_hook(double)
    return (x * 2).sum()


def printing(x):
    h = x * 2
    h.register_hook(show)
    return h.sum()


def gradient_of_it(x):
    h = x * 2
    h.register_hook(double)
    return torch.autograd.grad(h.sum(), h)


@pytest.mark.parametrize(("function", "words"), [
    (used_before, "has been used already"), (on_an_argument, "on a leaf or an argument"),
    (printing, "prints or calls Python"), (gradient_of_it, "of a tensor with a hook"),
])
def test_refusals(function, words):
    with pytest.raises(UnsupportedCall, match=words):
        script(function)(torch.ones(3, requires_grad=True))


def test_step_hooks_of_an_optimizer(capsys):
    p = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.1)

    @script
    def train(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    def before(optimizer, args, kwargs):
        print("before", len(optimizer.param_groups))

    train(torch.ones(2))
    handle = optimizer.register_step_pre_hook(before)
    train(torch.ones(2))
    assert capsys.readouterr().out == "before 1\n"
    handle.remove()
    train(torch.ones(2))
    assert capsys.readouterr().out == ""
    assert p.tolist() == pytest.approx([0.7, 0.7])


def test_a_method_that_an_instance_replaces():
    model = nn.Linear(2, 1)
    f = script(lambda x: model(x))
    x = torch.ones(1, 2)
    before = f(x)
    model.forward = types.MethodType(lambda self, x: x * 5, model)
    assert f(x).tolist() == [[5, 5]]
    del model.forward
    assert f(x).tolist() == before.tolist()


def test_programs_for_leaves_with_hooks_are_on_disk(tmp_path):
    def step(w):
        (w * w).sum().backward()

    with config.override(cache=str(tmp_path), interpret=False):
        for _ in range(2):
            f = script(step)
            for hooked in (True, False):
                w = torch.ones(2, requires_grad=True)
                if hooked:
                    w.register_hook(double)
                f(w)
                assert w.grad.tolist() == [4, 4] if hooked else [2, 2]
    assert f.cache_info().disk_hits == 1  # that without: each hook has a number of its own
