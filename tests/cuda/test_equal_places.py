"""Writes at places that are the same for each thread, and sizes that are negative, on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from tests.codegen.cuda import host
from tests.codegen.lower.test_updates import counts, slopes, writes
from tests.cuda.hosted import gpu
from tests.ops.library import test_sizes


@host.needs_compiler
@pytest.mark.parametrize("f", [counts, writes, slopes], ids=lambda f: f.__name__)
def test_equal_places_and_values(f: Callable[..., Any]) -> None:
    expected = [f(jitgrad.ones(n)) for n in (3, 0, 65)]
    with gpu(), jitgrad.device("cuda"):
        script = jitgrad.script(f)
        for n, eager in zip((3, 0, 65), expected, strict=True):
            assert [y.tolist() for y in script(jitgrad.ones(n))] == [y.tolist() for y in eager]


@host.needs_compiler
@pytest.mark.parametrize("f", [test_sizes.transposed, test_sizes.zeros, test_sizes.drawn], ids=lambda f: f.__name__)
def test_sizes_that_are_negative(f: Callable[..., Any]) -> None:
    with gpu(), jitgrad.device("cuda"):
        script = jitgrad.script(f)
        for n in (4, 0, 1, 3):
            assert isinstance(test_sizes.answer(script, n), type) is (test_sizes.ANSWERS[f][n] == "-")
