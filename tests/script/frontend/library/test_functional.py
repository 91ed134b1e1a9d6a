"""`autograd.functional` inside scripts: values, gradients and errors as in eager."""

from __future__ import annotations

import pytest

import jitgrad as torch
from jitgrad import config, script
from jitgrad.autograd import functional
from jitgrad.errors import UnsupportedCall


def cubes(x):
    return (x ** 3).sum()


def waves(x):
    return torch.sin(x) * x.sum()


def of_two(x, y):
    return torch.sin(x) * y


CALLS = {
    "vjp": lambda x, v, create: functional.vjp(waves, x, v, create),
    "vjp_of_one": lambda x, v, create: functional.vjp(cubes, x, create_graph=create),
    "vjp_of_two": lambda x, v, create: functional.vjp(of_two, (x, v), v, create)[1],
    "jvp": lambda x, v, create: functional.jvp(waves, x, v, create),
    "jvp_of_two": lambda x, v, create: functional.jvp(of_two, (x, v), (v, x), create),
    "jacobian": lambda x, v, create: (functional.jacobian(waves, x, create, vectorize=True),),
    "hessian": lambda x, v, create: (functional.hessian(cubes, x, create_graph=create),),
    "hvp": lambda x, v, create: functional.hvp(cubes, x, v, create),
    "vhp": lambda x, v, create: functional.vhp(cubes, x, v, create_graph=create),
}


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_against_eager(name, create):
    call = CALLS[name]
    function = (lambda x, v: call(x, v, True)) if create else (lambda x, v: call(x, v, False))
    found = []
    for interpret, run in ((False, function), (True, script(function)), (False, script(function))):
        x = torch.tensor([0.3, -0.4, 1.2], dtype=torch.float64, requires_grad=True)
        v = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
        with config.override(interpret=interpret):
            results = run(x, v)
            flags = [y.requires_grad for y in results]
            if any(flags):
                sum((y * y).sum() for y in results if y.requires_grad).backward()
        found.append((flags, [y.detach() for y in results], x.grad))
    for flags, values, grad in found[1:]:
        assert flags == found[0][0]
        for a, b in zip(found[0][1], values, strict=True):
            assert torch.allclose(a, b)
        assert (grad is None) == (found[0][2] is None)
        assert grad is None or torch.allclose(grad, found[0][2])


@pytest.mark.parametrize("call", [lambda x: functional.vjp(waves, x), lambda x: functional.hvp(cubes, x),
                                  lambda x: functional.hessian(waves, x),
                                  lambda x: functional.vjp(waves, x, torch.ones(2))])
def test_errors(call):
    texts = []
    for run in (call, script(call)):
        with pytest.raises(RuntimeError) as caught:
            run(torch.ones(3))
        texts.append(getattr(caught.value, "message", str(caught.value)).splitlines()[0])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("call", [lambda x: functional.jacobian(of_two, (x, x)),
                                  lambda x: functional.vjp(cubes, x, strict=True)])
def test_refusals(call):
    with pytest.raises(UnsupportedCall):
        script(call)(torch.ones(3))
