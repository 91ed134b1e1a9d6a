"""Exceptions and numbers that a script must have from eager, where what it knows while compiling has other words."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config


def past_the_end(x: Any, write: bool) -> Any:
    return x[x.shape[0]]


def before_the_start(x: Any, write: bool) -> Any:
    return x[-x.shape[0] - 1] + x.narrow(0, 0, 1)


def written_if(x: Any, write: bool) -> Any:
    if write:
        x += 1
    return x * 2


def negative_byte(x: Any, write: bool) -> Any:
    y = torch.ones(3, dtype=torch.uint8)
    y.mul_(-1)
    return y, torch.zeros(2, dtype=torch.uint8).add_(-2), torch.full((2,), 7, dtype=torch.uint8) * -3


def outcome(f: Any, given: Any, write: bool) -> str:
    x = given()
    try:
        return f"{f(x, write)}, {x}"
    except (IndexError, RuntimeError) as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


@pytest.mark.parametrize("mode", ["native", "interpreted"])
@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("f", [past_the_end, before_the_start, written_if, negative_byte])
@pytest.mark.parametrize("given", [
    lambda: torch.ones(3, 2), lambda: torch.ones(1, 3).expand(2, 3), lambda: torch.ones(2, 1).expand(2, 1)])
def test_as_eager(f: Any, given: Any, write: bool, mode: str) -> None:
    with config.override(interpret=mode == "interpreted"):
        assert outcome(torch.script(f), given, write) == outcome(f, given, write)


def summed(x: Any, *, left: Any, right: Any) -> Any:
    return x + left + right


def test_missing_keywords_are_all_named():
    def calls(x: Any) -> Any:
        return summed(x)  # type: ignore[call-arg]

    for function in (calls, torch.script(calls)):
        with pytest.raises(TypeError, match="missing 2 required keyword-only arguments: 'left' and 'right'"):
            function(torch.ones(2))
