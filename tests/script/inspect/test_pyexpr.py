"""Nodes as Python expressions: operators, precedence, and numbers for 0-dim tensors."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad.script.inspect.pynames import literal, wrap


def last(function, *args):
    """The returned expression of a function's code."""
    scripted = jitgrad.script(function)
    scripted(*args)
    return scripted.code.rstrip().rpartition("return ")[2]


@pytest.mark.parametrize(("value", "text"), [(1.5, "1.5"), (-2, "-2"), (True, "True"), (float("inf"), "math.inf"),
                                             (float("-inf"), "-math.inf"), (float("nan"), "math.nan")])
def test_literals(value, text):
    assert literal(value)[0] == text
    assert wrap(literal(value), 20) == (f"({text})" if text[0] == "-" else text)


def test_precedence_is_kept():
    x, y = jitgrad.ones(3), jitgrad.ones(3)
    assert last(lambda x, y: x - (y - x), x, y) == "x - (y - x)"
    assert last(lambda x, y: (x + y) * y, x, y) == "(x + y) * y"
    assert last(lambda x, y: -(x * y), x, y) == "-(x * y)"
    assert last(lambda x, y: (x > y) == (y > x), x, y) == "(x > y) == (y > x)"


def test_public_names_are_used():
    x = jitgrad.ones(3, 4)
    assert last(lambda x: x.sum(), x) == "x.sum()"
    assert last(lambda x: x.mean(0, keepdim=True), x) == "x.mean(0, keepdim=True)"
    assert last(lambda x: x[:, 1] + 1, x) == "x[:, 1] + 1"
    assert last(lambda x: jitgrad.where(x > 0, x, 0.0), x) == "jitgrad.where(x > 0, x, 0.0)"
    assert last(lambda x: x.clamp(min=0.5), x) == "x.clamp(min=0.5)"
    assert last(lambda x: jitgrad.cat((x, x)), x) == "jitgrad.cat((x, x,), 0)"
    assert last(lambda x: x.to(jitgrad.float64), x) == "x.to(jitgrad.float64)"


def test_a_number_that_is_returned_as_a_tensor_is_one():
    assert last(lambda: jitgrad.tensor(2.0) * 1) == "jitgrad.tensor(2.0, dtype=jitgrad.float32)"
