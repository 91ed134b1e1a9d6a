"""`func.grad`, `grad_and_value` and `vjp` inside scripts: values, what requires a gradient, second order."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config, func, script
from jitgrad.errors import UnsupportedCall


@pytest.fixture(params=["interpreted", "native"], autouse=True)
def _backend(request: pytest.FixtureRequest) -> Any:
    with config.override(interpret=request.param == "interpreted"):
        yield


def cubes(x):
    return (x**3).sum()


def loop(x):
    y = x
    for _ in range(3):
        if y.sum() < 10:
            y = y * x
    return y.sum()


outside = func.grad(cubes)


def gradient(x, w):
    return func.grad(loop)(x) * 2


def gradient_made_outside(x, w):
    return outside(x)


def with_value(x, w):
    g, value = func.grad_and_value(cubes)(x)
    v, h = func.value_and_grad(cubes)(x * 2)
    return g + h, value, v


def closure(x, w):
    return func.grad(lambda x: (x * w).sum() * x.sum())(x)


def several(x, w):
    a, b = func.grad(lambda x, w: (x * w * w).sum(), argnums=(0, 1))(x, w)
    return a, b


def with_aux(x, w):
    g, aux = func.grad(lambda x: ((x * x).sum(), x * 3), has_aux=True)(x)
    return g, aux


def of_a_dict(x, w):
    g = func.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": x, "b": [w]})
    return g["a"], g["b"][0]


def twice(x, w):
    return func.grad(lambda x: (func.grad(cubes)(x) * w).sum())(x)


def unused(x, w):
    return func.grad(lambda x: w.sum())(x)


def pulled(x, w):
    y, pull = func.vjp(lambda a, b: (a * b, a.sum()), x, w)
    first = pull((w, torch.ones(())))
    second = pull((x, torch.zeros(())))
    return y[0], first[0] + second[0], first[1] + second[1]


def descent(x, w):
    y = x.detach()
    for _ in range(4):
        y = y - 0.01 * func.grad(cubes)(y)
    return y


def without_recording(x, w):
    with torch.no_grad():
        return func.grad(cubes)(x)


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("function", [gradient, gradient_made_outside, with_value, closure, several, with_aux,
                                      of_a_dict, twice, unused, pulled, descent, without_recording])
def test_as_eager(function, needs):
    found = []
    for run in (function, script(function)):
        x = torch.tensor([0.5, 1.0, 2.0], requires_grad=needs)
        w = torch.tensor([1.0, -1.0, 3.0], requires_grad=needs)
        result = run(x, w)
        results = result if isinstance(result, tuple) else (result,)
        flags = [y.requires_grad for y in results]
        total = sum((y * y).sum() for y in results)
        if total.requires_grad:
            total.backward()
        found.append(([y.tolist() for y in results], flags,
                      [None if v.grad is None else v.grad.tolist() for v in (x, w)]))
    (values, flags, gradients), (others, other_flags, other_gradients) = found
    assert flags == other_flags
    for a, b in zip([*values, *gradients], [*others, *other_gradients], strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(torch.tensor(a), torch.tensor(b), atol=1e-5)


def product(a, b):
    return (a * b.sin()).cumsum(0)


def beside(a, b):
    return a * b, b + 1


def several_arguments(a, b):
    both = func.jacrev(product, argnums=(0, 1))(a, b), func.jacfwd(product, (-1,))(a, b)
    return both, func.hessian(lambda a, b: product(a, b).sum(), argnums=(0, 1))(a, b)


def with_more(a, b):
    return func.jacrev(beside, has_aux=True)(a, b), func.jacfwd(beside, argnums=(1, 0), has_aux=True)(a, b)


@pytest.mark.parametrize("f", [several_arguments, with_more])
def test_jacobians_of_several_arguments(f):
    a, b = torch.randn(3), torch.randn(3)
    found, expected = script(f)(a, b), f(a, b)
    leaves = [torch.utils._pytree.tree_flatten(part) for part in (found, expected)]
    assert leaves[0][1] == leaves[1][1]
    for x, y in zip(leaves[0][0], leaves[1][0], strict=True):
        assert torch.allclose(x, y, atol=1e-6)


@pytest.mark.parametrize("options", [{"randomness": "same"}, {"argnums": (0.5,)}])
def test_options_are_refused(options):
    @script
    def f(x):
        return func.jacfwd(lambda a, b: a * b, **options)(x, x)

    with pytest.raises(UnsupportedCall, match=r"`func.jacfwd` with .* inside a script"):
        f(torch.ones(3))
