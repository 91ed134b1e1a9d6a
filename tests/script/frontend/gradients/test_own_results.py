"""Results that end in views of what their function made: no views in scripts either, and their memory is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import linalg
from tests.script.frontend.harness import check


def leaf(*shape: int) -> Any:
    numbers = np.random.default_rng(5).normal(size=shape)
    return jitgrad.tensor(numbers, dtype=jitgrad.float32, requires_grad=True)


def detached(x: Any) -> Any:
    v = x.max(1)[0]
    v.detach_()
    return v.requires_grad, v * x


def detached_view(x: Any) -> Any:
    v = (x * 2.0).squeeze(0)
    v.detach_()
    return v


def written_where_gradients_are_back(x: Any, w: Any) -> Any:
    with jitgrad.no_grad():
        v = x.median(1).values
    v.mul_(w)
    v.sum().backward()
    return v


def view_written_where_gradients_are_back(x: Any, w: Any) -> Any:
    with jitgrad.no_grad():
        v = (x * 2.0).squeeze(0)
    v.mul_(w)
    return v


def scaled(x: Any) -> Any:
    v = x.matmul(x[0].detach())
    v.mul_(2.0)
    (v * v).sum().backward()
    return v


def in_a_loop(x: Any, n: int) -> Any:
    total = jitgrad.zeros(3)
    for _ in range(n):
        v = x.max(1)[0]
        v.mul_(total.sum() + 1.0)
        total = total + v
    total.sum().backward()
    return total


def result_is_saved(x: Any) -> Any:
    p = jitgrad.softmax(x.sum(), 0)
    p.mul_(2.0)
    p.backward()
    return p


def solution_is_saved(x: Any) -> Any:
    v = linalg.solve(x @ x.T + jitgrad.eye(3), x[0])
    if v.sum() > -1e9:
        v.mul_(2.0)
    v.sum().backward()
    return v


def complex_result(x: Any) -> Any:
    c = jitgrad.complex(x, x * 2.0)
    v = jitgrad.logcumsumexp(c, 0)
    v.mul_(2.0)
    v.abs().sum().backward()
    return v.real


@pytest.mark.parametrize("function", [detached, detached_view, scaled, result_is_saved, solution_is_saved,
                                      complex_result])
def test_one(function: Any) -> None:
    check(function, leaf(1, 3) if function is detached_view else leaf(3, 3))


@pytest.mark.parametrize("function", [written_where_gradients_are_back, view_written_where_gradients_are_back])
def test_two(function: Any) -> None:
    check(function, leaf(1, 3), jitgrad.ones((), requires_grad=True))


def test_in_a_loop() -> None:
    check(in_a_loop, leaf(3, 3), 3)


def test_saved_results_are_missed() -> None:
    for function in (result_is_saved, solution_is_saved):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            jitgrad.script(function)(leaf(3, 3))
