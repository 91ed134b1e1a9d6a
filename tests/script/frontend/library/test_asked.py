# ruff: noqa: NPY002  (what NumPy draws from is its old generator)
"""Numbers that Python has and a script asks for each time: clocks, random numbers of Python's and of NumPy's."""

import random
import time
from typing import Any

import numpy as np
import pytest

import jitgrad as torch


def forced(x: Any, target: Any, ratio: float) -> Any:
    """What a decoder does: its own output or the target, by chance."""
    h, inputs = x * 0, x
    for k in range(len(target)):
        h = (h * 0.5 + inputs).tanh()
        inputs = target[k] if random.random() < ratio else h.detach()
    return h


def depths(x: Any, target: Any, ratio: float) -> Any:
    y = x
    for _ in range(4):
        if random.uniform(0, 1) > ratio:
            continue
        y = y + random.randint(1, 3) * x
    return y * random.choice([1.0, 2.0]) + random.gauss(0, 1)


def shuffled(x: Any, target: Any, ratio: float) -> Any:
    order = [0, 1, 2, 3]
    random.shuffle(order)
    return x * order[0] + sum(random.sample(range(9), 2)) + random.randrange(2, 9, 3)


def of_numpy(x: Any, target: Any, ratio: float) -> Any:
    if np.random.rand() < ratio:
        x = x * np.random.randint(2, 5)
    return x + np.random.normal(0.5, scale=2.0) + np.random.uniform(1, 2)


def seeded(x: Any, target: Any, ratio: float) -> Any:
    random.seed(3)
    return x * random.random()


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("function", [forced, depths, shuffled, of_numpy, seeded])
def test_the_numbers_are_eagers(function: Any, interpret: bool) -> None:
    script = torch.script(function)
    found = []
    with torch.config.override(interpret=interpret):
        for run in (function, script):
            random.seed(7)
            np.random.seed(7)
            for _ in range(6):
                x = torch.arange(3.0).requires_grad_()
                y = run(x, torch.ones(5, 3), 0.5)
                y.sum().backward()
                found.append((y.tolist(), x.grad.tolist()))
            found.append((random.random(), np.random.rand()))
    for eager, scripted in zip(found[:7], found[7:], strict=True):
        np.testing.assert_allclose(np.hstack(eager), np.hstack(scripted), rtol=1e-4)
    assert script.cache_info().compilations == 1


def test_a_generator_of_ones_own() -> None:
    def f(x: Any, generator: random.Random) -> Any:
        return x * generator.randint(1, 9) + generator.random()

    script = torch.script(f)
    for seed in range(3):
        assert script(torch.ones(2), random.Random(seed)).tolist() == f(torch.ones(2), random.Random(seed)).tolist()


def test_time_goes_on() -> None:
    def f(x: Any, n: int) -> Any:
        begun, count = time.perf_counter(), time.monotonic_ns()
        for _ in range(n):
            x = (x * 0.5).tanh()
        return x, time.perf_counter() - begun, time.monotonic_ns() - count

    script = torch.script(f)
    for n in (1, 3):
        started = time.perf_counter()
        _, seconds, nanoseconds = script(torch.ones(2), n)
        assert 0 < seconds <= time.perf_counter() - started
        assert nanoseconds > 0


def test_arrays_are_refused() -> None:
    def f(x: Any) -> Any:
        return x * np.random.rand(2)[0]

    with pytest.raises(torch.errors.UnsupportedCall, match=r"an array of `numpy.random.rand`"):
        torch.script(f)(torch.ones(2))
