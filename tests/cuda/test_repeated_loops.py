"""Loops whose products are a library's: the host repeats them, with eager's values, and replays what they launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad.codegen.cuda.host import device_regions
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tests.cuda.test_loops import definite, equilibrium, power, randn, same, softmax_fixed_point

pytestmark = host.emulated


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every product is too large for a kernel."""
    monkeypatch.setattr(device_regions, "MOST_WORK", -1)
    with config.override(cache="", debug_arena=True):
        yield


def moved(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([a.cuda() if isinstance(a, torch.Tensor) else a for a in given])


def equal_depth(x: Any, w: Any, tol: float, most: int) -> Any:
    """A counter, a bound and an error that are read after the loop."""
    z, err, k = torch.zeros_like(x), torch.ones((), device=x.device), 0
    while err > tol and k < most:
        new = torch.tanh(z @ w + x)
        err = (new - z).abs().max()
        z = new
        k += 1
    return z, err, k


def swapped(x: Any, w: Any) -> Any:
    """Tensors that take each other's places, and one that follows with two iterations' delay."""
    a, b, c = x * 1, x * 0.5, x - 1
    while a.abs().max() > 0.1:
        a, b, c = b, a @ w, a
    return a, b, c


def turned(x: Any, w: Any) -> Any:
    """Three that only change places, beside one that is computed."""
    a, b, c = x + 1, x + 2, x + 3
    while x.abs().max() > 0.1:
        a, b, c = b, c, a
        x = x @ w
    return a, b, c


def again(x: Any, w: Any) -> Any:
    """In a loop of the host's, whose tensors are where the loop before has left them."""
    a, b, y = x, x * 2, x
    for k in range(4):
        while a.abs().max() > 0.3 + 0.05 * k:
            a, b = b, a @ w
        y = y + torch.cumsum(a, 0) - b
        a, b = b, a
        if k == 2:
            b = b * 40
    return a, b, y


def shrunk(x: Any, w: Any) -> Any:
    """Rows are summed in each iteration, and nothing runs where nothing is to be done."""
    s = x.sum(1)
    while s.abs().max() > 1.0:
        x = x @ w
        s = x.sum(1)
    return x, s


def delayed(x: Any, w: Any) -> Any:
    """The number that a tensor was before the iteration."""
    err, last = x.abs().max(), 0.0
    while err > 0.1:
        last = err.item()
        x = x @ w
        err = x.abs().max()
    return x, err, last


def halves(x: Any, w: Any) -> Any:
    """In half precision."""
    while x.abs().max() > 0.25:
        x = x @ w
    return x * 2


def in_place(x: Any, w: Any) -> Any:
    """What is written where it stands."""
    total = torch.zeros_like(x)
    while total.max() < 3.0:
        total += (x @ w).abs() + 0.5
    return total


def halving(n: int, d: Any = torch.float32) -> tuple[Any, Any]:
    return randn(n, 6).to(d), (0.5 * torch.eye(6)).to(d)


PROGRAMS: list[tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], float]] = [
    (equal_depth, lambda n: (randn(n, 5), 0.2 * randn(5, 5), 1e-4, 50), 1e-4),
    (equal_depth, lambda n: (randn(n, 5), 0.2 * randn(5, 5), 0.0, 3), 1e-4),
    (equal_depth, lambda n: (randn(n, 5), 0.2 * randn(5, 5), 2.0, 3), 1e-4),
    (power, lambda n: (definite(n % 9 + 1), randn(n % 9 + 1)), 1e-3),
    (softmax_fixed_point, lambda n: (randn(n, 12), 0.1 * randn(12, 12)), 1e-4),
    (equilibrium, lambda n: (randn(n, 5), 0.2 * randn(5, 5), randn(5)), 1e-3),
    (swapped, halving, 1e-5),
    (turned, halving, 1e-5),
    (again, halving, 1e-5),
    (shrunk, halving, 1e-5),
    (delayed, halving, 1e-5),
    (halves, lambda n: halving(n, torch.bfloat16), 1e-2),
    (in_place, lambda n: (randn(n, 4), randn(4, 4)), 1e-5),
]


@pytest.mark.parametrize("order", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize(("function", "arguments", "tolerance"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_values(function: Any, arguments: Any, tolerance: float, order: bool) -> None:
    scripted = torch.script(function)
    with gpu() as driver, driver.reversed(order):
        for n in (1, 7, 40) if not order else (33,):
            given = arguments(n)
            for _ in range(2):
                same(scripted(*moved(given)), function(*given), tolerance)


@pytest.mark.parametrize(("function", "arguments", "tolerance"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_graphs(function: Any, arguments: Any, tolerance: float) -> None:
    """Launches are replayed: other values and sizes, other numbers of iterations, and again."""
    scripted = torch.script(function)
    with gpu(replayed=True):
        for n in (7, 7, 7, 1, 40, 7):
            given = arguments(n)
            same(scripted(*moved(given)), function(*given), tolerance)


def test_an_iteration_is_a_graph_that_is_there() -> None:
    """The host waits for the condition, and launches a graph that an earlier iteration has made."""
    given = randn(9, 5), 0.2 * randn(5, 5), 0.0, 12
    scripted = torch.script(equal_depth)
    with gpu(replayed=True) as driver:
        on_device = moved(given)
        for _ in range(3):
            scripted(*on_device)
        calls = driver.simulated.library.names()
        before, waits, launched = len(calls), driver.waits(), driver.simulated.launched
        same(scripted(*on_device), equal_depth(*given), 1e-4)
        assert "cuGraphInstantiateWithFlags" not in driver.simulated.library.names()[before:]
        assert driver.waits() - waits <= 13
        assert driver.simulated.launched - launched <= 14
