"""Draws in kernels: bit for bit those of jitgrad.random, fused with what reads them."""

import numpy as np
import pytest

import jitgrad
from jitgrad import dtypes, random
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.steps import CallStep, KernelStep
from jitgrad.codegen.run.compile import compile
from jitgrad.ops.types import INT
from jitgrad.script.passes import pipeline
from tests.codegen.programs import agree, graph, sizes, tensor

N, M = sizes("N M")
STATES = [(7, 0), (67280421310721, 12345), (-1, (1 << 32) - 3), ((1 << 63) - 5, -2), (-(1 << 63), (1 << 40) + 1)]


def unsigned(state):
    return tuple(v & random.MASK64 for v in state)


@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 1, 67), (0, 4), (64, 33)])
@pytest.mark.parametrize("d", dtypes.FLOATS, ids=lambda d: d.name)
def test_uniform(d, shape):
    names = sizes("A B C")[:len(shape)]
    dims = [1 if n == 1 else name for n, name in zip(shape, names, strict=True)]
    g = pipeline.run(graph(lambda F, x, s, o: F.builder.one("random.uniform", s, o, shape=tuple(dims), dtype=d),
                           tensor(*dims), INT, INT))
    native = compile({"f": g})["f"]
    for state in STATES:
        found, = native([np.zeros(shape, np.float32), *state])
        expected = random.uniform(*unsigned(state), shape, d)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_words():
    g = pipeline.run(graph(lambda F, x, s, o: F.builder.one("random.bits", s, o, shape=(N, M)), tensor(N, M), INT, INT))
    native = compile({"f": g})["f"]
    for state in STATES:
        found, = native([np.zeros((5, 37), np.float32), *state])
        np.testing.assert_array_equal(found, random.bits(*unsigned(state), (5, 37)))


def dropped(F, x, s, o):
    mask = F.wrap(F.builder.one("random.uniform", s, o, shape=x.shape, dtype=x.dtype))
    return F.mul(x, F.cast(F.ge(mask, 0.25), dtype=x.dtype))


def test_dropout_is_one_kernel():
    g = pipeline.run(graph(dropped, tensor(N, M), INT, INT))
    steps = lower("f", g).steps
    assert [type(s) for s in steps if isinstance(s, (KernelStep, CallStep))] == [KernelStep]
    agree(g, [np.random.default_rng(0).standard_normal((9, 35)).astype(np.float32), 3, 8])


def test_views_reductions_and_one_element():
    def body(F, x, s, o):
        mask = F.wrap(F.builder.one("random.uniform", s, o, shape=(N, M), dtype=dtypes.float64))
        one = F.wrap(F.builder.one("random.uniform", s, o, shape=(1, 1), dtype=dtypes.float64))
        turned = F.permute(mask, axes=(1, 0))
        return F.sum(mask, axes=(1,), keepdim=False), F.mul(turned, x), F.add(one, x), F.flip(mask, axes=(0,))

    agree(graph(body, tensor(M, N, dtype=dtypes.float64), INT, INT),
          [np.arange(12.0).reshape(4, 3), 5, 6], 1e-12)


def layer(x, w):
    return (jitgrad.nn.functional.dropout(x @ w, 0.3).relu() ** 2).sum() + jitgrad.rand(3, 4).sum()


def test_scripted_draws_are_eagers():
    results = []
    for function in (layer, jitgrad.script(layer)):
        jitgrad.manual_seed(11)
        found = []
        for _ in range(3):
            x, w = jitgrad.randn(6, 5), jitgrad.randn(5, 9).requires_grad_()
            loss = function(x, w)
            loss.backward()
            found += [loss.item(), w.grad.numpy()]
        results.append(found)
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
