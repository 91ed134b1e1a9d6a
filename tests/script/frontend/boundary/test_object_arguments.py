"""Objects as arguments: two of one class share a program, whatever their fields hold."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config
from tests.script.frontend.agree import registry, suite, t


@dataclasses.dataclass
class Config:
    weight: Any
    times: int
    rate: float
    name: str = "plain"
    wide: bool = True

    def scaled(self, x):
        return x * self.rate * self.times

    @property
    def double(self):
        return self.rate * 2


@dataclasses.dataclass(frozen=True)
class Inner:
    bias: Any
    scale: float


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner
    pair: tuple


class Counter:
    def __init__(self, start):
        self.count = start
        self.history = []

    def step(self, x):
        self.count += 1
        return x * self.count

    def __call__(self, x):
        return self.step(x)

    def __len__(self):
        return 3


PROGRAMS, program = registry()


@program(*[(Config(t(3, seed=k), k + 1, 0.5 * k), t(3)) for k in range(6)], compilations=2)
def dataclass_argument(c, x):
    y = c.scaled(x) + c.weight * c.double
    if isinstance(c, Config) and c.name == "plain":
        y = y + len(c.name)
    return y.sum(), c.times, type(c) is Config


@program(*[(Counter(k), t(3)) for k in range(5)], compilations=3)
def written(c, x):
    y = c(x)
    c.last = y
    return y * 1, len(c)


test_programs = suite(PROGRAMS)


@pytest.fixture(params=["native", "interpreted"], autouse=True)
def _backend(request):
    with config.override(interpret=request.param == "interpreted"):
        yield


def test_an_object_that_is_gone():
    @torch.script
    def f(c, x):
        return (c.weight * x).sum() * c.rate

    for k in range(5):
        c = Config(t(3, seed=k), k, 1.5 + k)
        np.testing.assert_allclose(f(c, t(3)).item(), f.eager(c, t(3)).item(), rtol=1e-5)
        del c
        gc.collect()
    assert f.cache_info().compilations == 2


def test_gradients_reach_fields():
    @torch.script
    def f(c, x):
        return (torch.tanh(c.weight * x) * c.rate).sum()

    for k in range(4):
        c = Config(t(3, seed=k).requires_grad_(), k, 1.5 + k)
        f(c, t(3)).backward()
        found, c.weight.grad = c.weight.grad, None
        f.eager(c, t(3)).backward()
        np.testing.assert_allclose(found.numpy(), c.weight.grad.numpy(), rtol=1e-5)
    assert f.cache_info().compilations == 2


def test_objects_in_objects_and_lists():
    @torch.script
    def f(o, others, x):
        y = x * o.inner.scale + o.inner.bias * o.pair[0]
        for other in others:
            y = y + other.rate * other.weight
        return y

    for k in range(5):
        o = Outer(Inner(t(3, seed=k), 0.5 + k), (1.5 * k, 2.5))
        others = [Config(t(3, seed=k + j), 1, 0.1 * j) for j in range(2)]
        np.testing.assert_allclose(f(o, others, t(3)).numpy(), f.eager(o, others, t(3)).numpy(), rtol=1e-5)
    assert f.cache_info().compilations == 2


def test_attributes_are_written_to_this_calls_object():
    @torch.script
    def f(c, x):
        y = c(x)
        c.last = y
        return y, len(c)

    counters = [Counter(k) for k in range(5)]
    for k, c in enumerate(counters):
        y, n = f(c, t(3))
        assert (c.count, n) == (k + 1, 3)
        np.testing.assert_allclose(y.numpy(), t(3).numpy() * (k + 1), rtol=1e-6)
        np.testing.assert_allclose(c.last.numpy(), y.numpy())
    assert [c.count for c in counters] == [1, 2, 3, 4, 5]
    assert f.cache_info().compilations <= 3


def test_identity_and_equality():
    @torch.script
    def f(a, b, x):
        return x * (2.0 if a == b else 3.0), a is b, a != b

    counts = []
    for k in range(6):
        a, b = Config(1, k, 0.5), Config(1, k, 0.5)
        for pair in ((a, b), (a, a), (a, Config(1, k, 0.75))):
            found, wanted = f(*pair, t(3)), f.eager(*pair, t(3))
            assert found[1:] == wanted[1:]
            np.testing.assert_allclose(found[0].numpy(), wanted[0].numpy())
        counts.append(f.cache_info().compilations)
    assert counts[2] == counts[-1]  # two programs: for one object, for two
    assert f.cache_info().entries == 2


def test_the_object_itself_comes_back():
    @torch.script
    def f(c, x):
        return c, x * c.rate, {"c": c}

    for k in range(3):
        c = Config(1, 2, 0.5 * k)
        found = f(c, t(3))
        assert found[0] is c
        assert found[2]["c"] is c
    assert f.cache_info().compilations == 2


def test_an_attribute_that_only_one_has():
    @torch.script
    def f(c, x):
        return x * 2 if hasattr(c, "extra") else x * 3

    for k in range(6):
        c = Counter(k)
        if k % 2:
            c.extra = k
        np.testing.assert_allclose(f(c, t(3)).numpy(), f.eager(c, t(3)).numpy())
    c = Counter(0)
    c.step = lambda x: x * 100
    g = torch.script(lambda c, x: c.step(x))
    for one in (Counter(1), Counter(2), c, Counter(3)):
        before = one.count
        wanted = g.eager(one, t(3)).numpy()
        one.count = before
        np.testing.assert_allclose(g(one, t(3)).numpy(), wanted)


def test_a_text_of_the_object_is_its_own(capsys):
    @torch.script
    def f(c, x):
        print(c)
        return x

    for k in range(3):
        c = Config(1, k, 0.5)
        f(c, t(3))
        assert capsys.readouterr().out == f"{c}\n"


def test_methods_that_are_scripted():
    class Model:
        def __init__(self, w):
            self.w = w

        @torch.script
        def run(self, x):
            return self.w * x

    for k in range(4):
        model = Model(t(3, seed=k))
        np.testing.assert_allclose(model.run(t(3)).numpy(), (model.w * t(3)).numpy())
    assert Model.run.cache_info().compilations == 2
