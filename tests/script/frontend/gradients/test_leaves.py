"""Leaves that a script makes, also in the memory of other tensors; grad modes known at run time."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, script
from jitgrad.errors import UnsupportedCall


@pytest.fixture(params=["interpreted", "native"], autouse=True)
def _backend(request: pytest.FixtureRequest) -> Any:
    with config.override(interpret=request.param == "interpreted"):
        yield


def seen(value):
    if isinstance(value, tuple):
        return [seen(v) for v in value]
    grad = value.grad.tolist() if value.is_leaf and value.grad is not None else None
    return value.tolist(), value.requires_grad, value.is_leaf, grad


def of_a_temporary(x):
    d = (x * 2).detach().requires_grad_()
    (d**2).sum().backward()
    return d.grad


def of_a_clone(x):
    d = x.detach().clone().requires_grad_()
    (d**3).sum().backward()
    return d.grad + x


def cut(x):
    y = x * 2
    d = y.detach().requires_grad_()
    e = d
    (e**2).sum().backward()
    y.backward(d.grad)
    return x.grad, e.grad.clone(), y.detach()


def of_an_argument(x):
    d = x.detach().requires_grad_()
    (d**2).sum().backward()
    return x + d.grad


def by_attribute(x):
    d = x.detach()
    d.requires_grad = True
    (d**2).sum().backward()
    return d.grad


def descent(x):
    d = (x * 2).detach().requires_grad_()
    for _ in range(3):
        (d**2).sum().backward()
        with torch.no_grad():
            d -= 0.1 * d.grad
        d.grad = None
    return d.detach()


def returned(x):
    d = (x * 2).detach().requires_grad_()
    (d * 3).sum().backward()
    return d, d


def returned_without_gradient(x):
    return x.detach().clone().requires_grad_()


@pytest.mark.parametrize("function", [of_a_temporary, of_a_clone, cut, of_an_argument, by_attribute, descent, returned,
                                      returned_without_gradient])
def test_leaves(function):
    found = []
    for run in (function, script(function)):
        x = torch.arange(3.0).requires_grad_()
        result = run(x)
        same = result[0] is result[-1] if isinstance(result, tuple) else None
        found.append((seen(result), same, seen(x)))
    assert found[0] == found[1]


def test_a_returned_leaf_gets_gradients_outside():
    leaf = script(returned_without_gradient)(torch.ones(2))
    (leaf * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3]


def shared(x):
    return x.detach().requires_grad_()


def test_a_leaf_in_the_memory_of_an_argument():
    x = torch.ones(3, requires_grad=True)
    leaf = script(shared)(x)
    with torch.no_grad():
        x.add_(1)
    (leaf * 3).sum().backward()
    assert leaf.tolist() == [2, 2, 2]
    assert leaf.grad.tolist() == [3, 3, 3]
    assert x.grad is None


def beside_its_result(x):
    d = x.detach().clone().requires_grad_()
    return d, (d * 2).sum()


def written(x):
    y = x * 2
    d = y.detach().requires_grad_()
    y.add_(1)
    return (d * 2).sum().detach()


def test_memory_of_a_leaf_written_by_another_name():
    x = torch.ones(3, requires_grad=True)
    assert script(written)(x).item() == written(x).item() == 18


def in_a_branch(x):
    y = x.detach().clone()
    if x.sum() > 0:
        y.requires_grad_()
    return y.sum()


@pytest.mark.parametrize(("function", "words"), [
    (beside_its_result, "together with a result that depends on it"),
    (in_a_branch, "in a branch or loop of a tensor made before it"),
])
def test_refusals(function, words):
    with pytest.raises(UnsupportedCall, match=words):
        script(function)(torch.ones(3, requires_grad=True))


def by_flag(x, flag: bool):
    with torch.set_grad_enabled(flag):
        y = x * 2
    return y


def by_choice(x, flag: bool):
    with torch.enable_grad() if flag else torch.no_grad():
        y = x * 2
        if y.sum() > 100:
            return y * 5
    return y + 1


def in_a_loop(x, flag: bool):
    for i in range(4):
        with torch.set_grad_enabled(flag or i > 1):
            x = x * 2
            if x.sum() > 50:
                break
    return x


def inference(x, flag: bool):
    with torch.inference_mode(not flag):
        y = x * x
    return y


@pytest.mark.parametrize("function", [by_flag, by_choice, in_a_loop, inference])
def test_grad_mode_at_run_time(function):
    f = script(function)
    for flag in (True, False, True):
        for value in (1.0, 50.0):
            found = []
            for run in (function, f):
                x = torch.full((2,), value, requires_grad=True)
                y = run(x, flag)
                if y.requires_grad:
                    y.sum().backward()
                found.append((y.tolist(), None if x.grad is None else x.grad.tolist()))
            assert found[0] == found[1]
    assert f.cache_info().compilations == 1


def test_set_grad_enabled_as_a_statement_is_refused():
    @script
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    with pytest.raises(UnsupportedCall, match="outside a `with`"):
        f(torch.ones(1))
