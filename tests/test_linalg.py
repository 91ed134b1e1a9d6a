"""Inverses, solutions, determinants, factors: torch's values and gradients, eager and scripted."""

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def definite(*shape):
    a = RNG.standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def general(*shape):
    return RNG.standard_normal(shape) + 2 * np.eye(shape[-1])


CASES = {
    "inv": (lambda t, a: t.linalg.inv(a), [general(2, 3, 3)]),
    "inverse": (lambda t, a: a.inverse(), [general(3, 3)]),
    "solve": (lambda t, a, b: t.linalg.solve(a, b), [general(3, 3), RNG.standard_normal((3, 2))]),
    "solve batch": (lambda t, a, b: t.linalg.solve(a, b), [general(2, 3, 3), RNG.standard_normal((3, 2))]),
    "solve vector": (lambda t, a, b: t.linalg.solve(a, b), [general(3, 3), RNG.standard_normal(3)]),
    "solve right": (lambda t, a, b: t.linalg.solve(a, b, left=False), [general(3, 3), RNG.standard_normal((2, 3))]),
    "det": (lambda t, a: t.linalg.det(a), [general(2, 3, 3)]),
    "slogdet": (lambda t, a: t.slogdet(a)[1], [general(2, 3, 3)]),
    "logdet": (lambda t, a: t.logdet(a @ a.mT), [general(3, 3)]),
    "cholesky": (lambda t, a: t.linalg.cholesky(a @ a.mT), [general(2, 3, 3)]),
    "cholesky upper": (lambda t, a: t.linalg.cholesky(a @ a.mT, upper=True), [general(3, 3)]),
    "eigvalsh": (lambda t, a: t.linalg.eigvalsh(a + a.mT), [general(2, 3, 3)]),
    "eigh": (lambda t, a: t.linalg.eigh(a + a.mT)[1].abs(), [general(3, 3)]),
    "power": (lambda t, a: t.linalg.matrix_power(a, -3), [general(3, 3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_against_torch(name):
    function, arrays = CASES[name]

    def ours(*xs):
        return function(jitgrad, *xs)

    results = []
    for library, call in ((torch, lambda *xs: function(torch, *xs)), (jitgrad, ours), (jitgrad, jitgrad.script(ours))):
        xs = [library.tensor(a, requires_grad=True) for a in arrays]
        y = call(*xs)
        (y ** 3).sum().backward()
        results.append([y.detach().numpy()] + [x.grad.numpy() for x in xs])
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("call", [lambda a: jitgrad.linalg.inv(a),
                                  lambda a: jitgrad.linalg.cholesky(a),
                                  lambda a: jitgrad.linalg.solve(a, jitgrad.ones(2, 1))])
def test_singular(call):
    a = jitgrad.tensor([[1.0, 1.0], [1.0, 1.0]]) * jitgrad.tensor([[1.0], [-1.0]])
    for function in (call, jitgrad.script(call)):
        with pytest.raises(jitgrad.linalg.LinAlgError):
            function(a)
    with pytest.raises(RuntimeError, match="square matrices"):
        jitgrad.linalg.inv(jitgrad.ones(2, 3))
