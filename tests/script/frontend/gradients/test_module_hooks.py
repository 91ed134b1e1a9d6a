"""Full backward hooks of modules in scripts: gradients at both ends of a call, in and outside the script."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, nn, script
from jitgrad.errors import UnsupportedCall
from jitgrad.utils.checkpoint import checkpoint


def scaled(module, given, taken):
    return (given[0].clamp(-1, 1) * taken[0].abs().mean(),)


def nothing(module, given, taken):
    return None


def with_parameter(module, given, taken):
    return given[0] + module.weight.sum() * taken[0].sum()


def outside(model, x):
    return (model(x * 2) ** 2).sum()


def inside(model, x):
    loss = (model(x * 2) ** 2).sum()
    loss.backward()
    return loss.detach()


def in_loops(model, x):
    total = x.sum() * 0
    for _ in range(x.shape[0] + 1):
        x = x * 2
        loss = (model(x) ** 2).sum()
        if loss > 1:
            total = total + loss
            loss = model(x)[0].sum()
        total = total + loss * 2
    return total


def again(model, x):
    y = model(x * 3)
    if y.sum() > 0:
        y = model(y @ torch.ones(2, 3, dtype=y.dtype))
    return y.sum()


def of_gradient(model, x):
    (g,) = torch.autograd.grad((model(x * 2) ** 2).sum(), x, create_graph=True)
    return (g ** 2).sum()


def in_checkpoint(model, x):
    return (checkpoint(model, x * 2, use_reentrant=False) ** 2).sum()


def unrecorded(model, x):
    with torch.no_grad():
        return model(x)


def network(hooks):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    for hook in hooks:
        for module in (model[0], model[2]) if hook is with_parameter else (model, model[0], model[1]):
            module.register_full_backward_hook(hook)
    return model


@pytest.mark.parametrize("hooks", [(scaled,), (nothing, scaled, with_parameter)])
@pytest.mark.parametrize("function", [outside, inside, in_loops, again, of_gradient, in_checkpoint, unrecorded])
def test_against_eager(function, hooks):
    found = []
    for interpret, run in ((False, function), (True, script(function)), (False, script(function))):
        model = network(hooks)
        x = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
        model.double()
        with config.override(interpret=interpret):
            y = run(model, x)
            if y.requires_grad:
                y.backward()
        found.append([y.detach(), *[p.grad for p in (x, *model.parameters())]])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.allclose(a, b, rtol=1e-9, atol=1e-9)


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, a, b, where, factor=2.0):
        return (a * b * self.weight)[where] * factor


class Positive(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))

    def forward(self, a):
        return a[a > 0] * self.weight


def of_several(module, given, taken):
    assert len(given) == 3
    return given[0] * 2 + taken[0].sum(), None if given[1] is None else given[1] * 3, given[2]


def without_second(module, given, taken):
    return given[0], None, given[2]


def of_positive(module, given, taken):
    return given[0] * taken[0].sum() * module.weight


A, B, WHERE = torch.tensor([-1.0, 0.5, 2.0]), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("make", "hook", "given", "needs"), [
    (Several, of_several, (A, B, WHERE), (0, 1)), (Several, of_several, (A, B, WHERE), (0,)),
    (Several, of_several, (A, B, WHERE), (1,)), (Several, without_second, (A, B, WHERE), (0, 1)),
    (Several, nothing, (A, B, WHERE), ()), (Positive, of_positive, (A,), (0,)),
])
def test_of_several_inputs(make, hook, given, needs, order):
    def function(model, *args):
        return (model(*args) * 2).sum()

    found = []
    for interpret, run in ((False, function), (True, script(function)), (False, script(function))):
        model = make()
        model.register_full_backward_hook(hook)
        model.register_full_backward_pre_hook(lambda module, taken: (taken[0] * 1.5,))
        args = [t.clone().requires_grad_(i in needs) for i, t in enumerate(given)]
        leaves = [*[args[i] for i in needs], *model.parameters()]
        with config.override(interpret=interpret):
            y = run(model, *args)
            if order == 2:
                grads = torch.autograd.grad(y, leaves, create_graph=True, allow_unused=True)
                y = sum((g ** 2).sum() for g in grads if g is not None)
            if y.requires_grad:
                y.backward()
        found.append([y.tolist(), *[None if t.grad is None else t.grad.tolist() for t in leaves]])
    assert found[0] == found[1] == found[2]


def printing(module, given, taken):
    print(given)


def keeping(module, given, taken):
    KEPT.append(taken[0])


KEPT: list[Any] = []


def too_few(module, given, taken):
    return (given[0],)


class Pair(nn.Module):
    def forward(self, a, b, where):
        return a * b, where


class Overwriting(nn.Module):
    def forward(self, a, b, where):
        a.mul_(2)
        return a * b


@pytest.mark.parametrize(("make", "hook", "words"), [
    (Several, printing, "hook prints or calls Python"), (Several, keeping, "hook changes something outside it"),
    (Several, too_few, "another number of gradients"), (Pair, nothing, "does not return one tensor"),
    (Overwriting, nothing, "changes its input in place"),
])
def test_refusals(make, hook, words):
    model = make()
    model.register_full_backward_hook(hook)
    with pytest.raises(UnsupportedCall, match=words):
        script(lambda x: model(x * 2, B, WHERE))(A.clone().requires_grad_())


def test_a_gradient_where_no_input_requires_one_is_refused():
    model = Several()
    model.register_full_backward_hook(lambda module, given, taken: (taken[0], None, None))
    with pytest.raises(UnsupportedCall, match="where no input requires one"):
        script(model)(A, B, WHERE)
