"""Gradients that need what an iteration of a loop has overwritten: an error where eager's is one.

Which iteration's versions the message names may differ, so that only its beginning is compared; the rest of the
programs are `tests/programs/nasty/versions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config


def written_before(x, c, n: int):
    y = x * 0
    for _ in range(n):
        c.add_(1)
        y = y + c * x
    return y


def written_after(x, c, n: int):
    y = x * 0
    for _ in range(n):
        y = y + c * x
        c.add_(1)
    return y


def only_the_last_is_needed(x, c, n: int):
    y = x * 0
    k = 0
    while k < n:
        c.add_(1)
        k += 1
        y = c * x
    return y


def the_last_is_overwritten(x, c, n: int):
    y = x * 0
    for _ in range(n):
        c.add_(1)
        y = c * x
    c.add_(1)
    return y


def in_one_iteration(x, c, n: int):
    y = x * 0
    for k in range(n):
        if k == 2:
            c.add_(1)
        y = y + c * x
    return y


def before_all_others(x, c, n: int):
    y = x * 0
    for k in range(n):
        if k == 0:
            c.add_(1)
        y = y + c * x
    return y


def by_a_loop_around(x, c, n: int):
    y = x * 0
    for _ in range(2):
        for _ in range(n):
            y = y + c * x
        if n > 2:
            c.add_(1)
    return y


def by_a_called_function(x, c, n: int):
    def step(a, b):
        b.add_(1)
        return a * b

    y = x * 0
    for _ in range(n):
        y = y + step(x, c)
    return y


def memory_of_each_iteration(x, c, n: int):
    y = x * 0
    for _ in range(n):
        d = c.clone()
        d.add_(1)
        y = y + d * x
    return y


def elements_by_turns(x, c, n: int):
    h = torch.zeros(n + 1, 2)
    h[0] = x
    for k in range(n):
        h[k + 1] = h[k] * c
    h2 = h * 1
    return h2[n] * x


def rows_by_turns(x, c, n: int):
    h = torch.zeros(n + 1, 2)
    h[0] = x
    for k in range(n):
        h[k + 1] = torch.tanh(h[k] + c)
    return h


FUNCTIONS: list[Callable[..., Any]] = [
    written_before, written_after, only_the_last_is_needed, the_last_is_overwritten, in_one_iteration,
    before_all_others, by_a_loop_around, by_a_called_function, memory_of_each_iteration, elements_by_turns,
    rows_by_turns]


def outcome(function: Callable[..., Any], n: int) -> Any:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = function(x, torch.tensor([3.0, 4.0]), n)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return str(error).partition(" is at version")[0]
    return x.grad.tolist()


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_overwritten(function: Callable[..., Any], mode: str) -> None:
    with config.override(interpret=mode == "interpreted"):
        scripted = torch.script(function)
        for n in (3, 0, 1, 2, 4):
            expected, found = outcome(function, n), outcome(scripted, n)
            assert type(expected) is type(found), n
            assert expected == (found if isinstance(found, str) else pytest.approx(found, rel=1e-5)), n


def by_views_in_turn(x, c, n: int):
    y = x * 2
    t = y.view(-1)
    for _ in range(n):
        t.mul_(y)
        y, t = t, y
    return y.sum() + t.sum()


def by_a_view_of_itself(x, c, n: int):
    y = x * 2
    y.mul_(y[:])
    return y


def by_a_view_of_what_is_detached(x, c, n: int):
    y = x * 2
    y.mul_(y.detach()[:])
    return y


@pytest.mark.parametrize("function", [by_views_in_turn, by_a_view_of_itself, by_a_view_of_what_is_detached])
def test_a_factor_that_is_another_view(function: Callable[..., Any]) -> None:
    """Eager copies what an operation in place reads of the very tensor, and not of a view of it. (Which operation made
    the view the message may not say, or call by another name.)"""
    scripted = torch.script(function)
    for n in (3, 0, 1, 2):
        expected, found = (outcome(f, n) for f in (function, scripted))
        assert str(expected).partition(":")[0] == str(found).partition(":")[0], n


def test_in_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A stored program says it, too, and its sizes."""
    def f(x, n: int):
        y = x[:n].exp()
        y += 1
        return y

    from io import BytesIO

    file = BytesIO()
    torch.jit.save(torch.script(f), file, example_inputs=(torch.ones(4, requires_grad=True), 3))
    file.seek(0)
    y = torch.jit.load(file)(torch.ones(5, requires_grad=True), 2)
    with pytest.raises(RuntimeError, match=r"\[float32 \[2\]\], which is output 0 of ExpBackward, is at version 1"):
        y.sum().backward()
