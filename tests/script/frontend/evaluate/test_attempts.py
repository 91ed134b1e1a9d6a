"""Operations inside a `try` that fail only in some runs: control leaves in the middle of the statement."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad.errors import ScriptError
from tests.script.frontend.agree import registry, suite, t

PROGRAMS, program = registry()


@program((t(3), 2), (t(3), 0))
def the_rest_of_the_block_is_skipped(x, k):
    y = x
    try:
        y = y * (10 // k)
        y = y + 1
    except ZeroDivisionError:
        y = y - 1
    return y


@program((t(3), 1), (t(3), 3), (t(3), 5))
def what_came_before_in_the_statement_stays(x, k):
    seen = [x, x + 1]
    try:
        a = seen.pop() * 2 + [x, x + 1, x + 2][k]
    except IndexError:
        a = x * len(seen)
    return a, seen


@program((t(3), 0), (t(3), 1), (t(3), 2))
def the_first_handler_that_fits(x, k):
    try:
        if k == 1:
            raise KeyError("k")
        y = x * (6 // k)
    except LookupError:
        y = x * 2
    except ArithmeticError as error:
        print(type(error).__name__, error)
        y = x * 3
    else:
        y = x * 4
    return y


@program((t(3), 0), (t(3), 2))
def finally_runs_on_every_way_out(x, k):
    try:
        y = x * (4 // k)
    finally:
        print("out", k)
    return y


@program((t(4), 3), (t(4), 0))
def a_failure_ends_a_loop(x, k):
    total = x * 0
    try:
        for i in range(3):
            total = total + x * (6 // (k - i))
    except ZeroDivisionError:
        total = total - 100
    return total


@program((t(3), 0, 1), (t(3), 1, 0), (t(3), 1, 1))
def an_inner_try_passes_on_what_it_does_not_handle(x, k, m):
    try:
        try:
            y = x * (2 // k)
            z = [x + 1, y][m * 2]
        except ZeroDivisionError:
            z = x - 1
    except IndexError:
        z = x - 2
    return z


test_programs = suite(PROGRAMS)


def test_a_statement_that_called_python_is_not_evaluated_twice() -> None:
    calls: list[int] = []

    @torch.ignore(returns=int)
    def count() -> int:
        calls.append(1)
        return 0

    def f(x: Any, k: int) -> Any:
        try:
            y = x * (count() + 10 // k)
        except ZeroDivisionError:
            y = x
        return y

    scripted = torch.script(f)
    try:
        result = scripted(torch.ones(2), 0)
    except ScriptError:
        assert not calls
    else:
        assert result.tolist() == [1.0, 1.0]
        assert len(calls) == 1


def test_an_error_that_is_not_handled_leaves_the_script() -> None:
    def f(x: Any, k: int) -> Any:
        try:
            y = x * (10 // k)
        except IndexError:
            y = x
        return y

    with pytest.raises(ZeroDivisionError):
        torch.script(f)(torch.ones(2), 0)
