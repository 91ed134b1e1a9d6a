"""Random tensors: repeatable, of the right distribution, advancing one stream."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional as F
from jitgrad import random


def draws() -> list[Any]:
    return [jitgrad.rand(3), jitgrad.randn(2, 2), jitgrad.randint(5, (4,)), jitgrad.randperm(6),
            jitgrad.rand(2).bernoulli()]


def test_a_seed_repeats_everything() -> None:
    jitgrad.manual_seed(5)
    first = [t.tolist() for t in draws()]
    second = [t.tolist() for t in draws()]
    jitgrad.manual_seed(5)
    assert [t.tolist() for t in draws()] == first
    assert [t.tolist() for t in draws()] == second
    assert first != second


def test_state_can_be_restored() -> None:
    jitgrad.manual_seed(9)
    jitgrad.rand(5)
    state = jitgrad.get_rng_state()
    a = jitgrad.randn(4)
    jitgrad.set_rng_state(state)
    assert jitgrad.equal(jitgrad.randn(4), a)
    with pytest.raises(TypeError):
        jitgrad.set_rng_state(jitgrad.zeros(3))


def test_normal_is_the_documented_formula() -> None:
    jitgrad.manual_seed(1)
    seed, offset = random.default_generator.position
    x = jitgrad.randn(7, dtype=jitgrad.float64)
    u1 = random.uniform(seed, offset, (7,), jitgrad.float64)
    u2 = random.uniform(seed, offset + random.blocks(14), (7,), jitgrad.float64)
    np.testing.assert_allclose(x.numpy(), np.sqrt(-2 * np.log1p(-u1)) * np.cos(2 * np.pi * u2), rtol=1e-14)


def test_integers_and_permutations() -> None:
    jitgrad.manual_seed(2)
    i = jitgrad.randint(-3, 4, (2000,))
    assert i.dtype is jitgrad.int64
    assert set(i.tolist()) == set(range(-3, 4))
    assert sorted(jitgrad.randperm(50).tolist()) == list(range(50))
    assert jitgrad.randperm(50).tolist() != list(range(50))
    assert jitgrad.randint_like(jitgrad.zeros(3), 5).dtype is jitgrad.float32


def test_moments() -> None:
    jitgrad.manual_seed(3)
    n = 40_000
    u, z = jitgrad.rand(n), jitgrad.normal(2.0, 3.0, (n,))
    assert float(u.min()) >= 0
    assert float(u.max()) < 1
    assert float(u.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(z.mean()) == pytest.approx(2.0, abs=0.06)
    assert float(z.std()) == pytest.approx(3.0, abs=0.06)
    e = jitgrad.zeros(n).exponential_(2.0)
    assert float(e.mean()) == pytest.approx(0.5, abs=0.02)
    b = jitgrad.full((n,), 0.3).bernoulli()
    assert float(b.mean()) == pytest.approx(0.3, abs=0.01)
    assert float(jitgrad.empty(n).uniform_(-1, 3).mean()) == pytest.approx(1.0, abs=0.03)


def test_multinomial() -> None:
    jitgrad.manual_seed(4)
    p = jitgrad.tensor([[0.1, 0.0, 0.6, 0.3], [0.0, 1.0, 0.0, 0.0]])
    i = jitgrad.multinomial(p, 5000, replacement=True)
    share = jitgrad.bincount(i[0], minlength=4).float() / 5000
    np.testing.assert_allclose(share.numpy(), [0.1, 0.0, 0.6, 0.3], atol=0.03)
    assert set(i[1].tolist()) == {1}
    distinct = jitgrad.multinomial(p[0], 3)
    assert sorted(distinct.tolist()) == [0, 2, 3]
    with pytest.raises(RuntimeError, match="cannot sample"):
        jitgrad.multinomial(p, 5)


def test_dropout() -> None:
    jitgrad.manual_seed(6)
    x = jitgrad.ones(100, 100, requires_grad=True)
    y = F.dropout(x, 0.25)
    kept = y != 0
    assert float(kept.float().mean()) == pytest.approx(0.75, abs=0.02)
    assert float(y.detach()[kept][0]) == pytest.approx(1 / 0.75)
    y.sum().backward()
    assert x.grad is not None
    assert jitgrad.equal(x.grad, y.detach())
    assert F.dropout(x, 0.5, training=False) is x
    assert float(F.dropout(x, 1.0).sum()) == 0.0
    assert jitgrad.equal(F.dropout(x, 0.0), x)
    channels = F.dropout2d(jitgrad.ones(8, 16, 3, 3), 0.5).mean((2, 3))
    assert set(channels.flatten().tolist()) == {0.0, 2.0}
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(x, -0.1)


def test_dtypes() -> None:
    for d in (jitgrad.float16, jitgrad.float32, jitgrad.float64):
        assert jitgrad.rand(3, dtype=d).dtype is d
        assert jitgrad.randn(3, dtype=d).dtype is d
        assert math.isfinite(float(jitgrad.randn(100, dtype=d).sum()))
    with pytest.raises(NotImplementedError):
        jitgrad.rand(3, dtype=jitgrad.int64)
