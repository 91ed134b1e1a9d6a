"""Arithmetic on run-time numbers is Python's: results, types, exceptions."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from tests.script.frontend.harness import build, outcome, run_scripted, same

numbers = st.one_of(st.booleans(), st.integers(-50, 50), st.integers(-(2**40), 2**40),
                    st.floats(-1e6, 1e6).map(lambda v: round(v, 3)), st.sampled_from([0, 1, -1, 0.0, -0.0, 0.5]))


def arithmetic(a, b):
    return a + b, a - b, a * b, -a, +b, abs(a), min(a, b), max(a, b)


def comparisons(a, b):
    return a < b, a <= b, a == b, a != b, a > b, a >= b, a < b < 7, not a, a and b, a or b, (a or b) and 3


def true_division(a, b):
    return a / b


def floor_division(a, b):
    return a // b


def modulo(a, b):
    return a % b


def conversions(a, b):
    return int(a), float(b), bool(a), round(a), (a if b else 2.5), (b if a else None)


_built: dict[Any, Any] = {}


def agree(function: Any, a: Any, b: Any) -> None:
    key = function, type(a), type(b)
    if key not in _built:
        _built[key] = build(function, (a, b), {})
    eager = outcome(lambda: function(a, b))
    scripted = outcome(lambda: run_scripted(function, (a, b), script=_built[key]))
    if scripted[0] == "error" and isinstance(scripted[1], OverflowError) and eager[0] == "value":
        assert any(isinstance(v, int) and abs(v) >= 2**63 for v in _flat(eager[1]))  # the one listed difference
        return
    assert eager[0] == scripted[0], (eager, scripted)
    if eager[0] == "value":
        assert same(eager[1], scripted[1]), (eager, scripted)
    else:
        assert type(eager[1]) is type(scripted[1])
        assert str(eager[1]) == str(scripted[1])


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


@settings(max_examples=60, deadline=None)
@given(numbers, numbers)
def test_numbers(a: Any, b: Any) -> None:
    for function in (arithmetic, comparisons, true_division, floor_division, modulo, conversions):
        agree(function, a, b)
