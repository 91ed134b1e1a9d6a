"""`jitgrad.testing.assert_close`."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad.testing import assert_close


def test_what_is_close() -> None:
    x = jitgrad.tensor([1.0, 2.0])
    assert_close(x, x + 1e-7)
    assert_close([x, {"a": 1.0}], [x, {"a": 1.0 + 1e-9}])
    assert_close(jitgrad.tensor([float("nan")]), jitgrad.tensor([float("nan")]), equal_nan=True)
    assert_close(jitgrad.tensor([float("inf")]), jitgrad.tensor([float("inf")]))
    assert_close(x, x.double(), check_dtype=False)
    assert_close(x, x + 0.1, rtol=0, atol=0.2)
    assert_close(jitgrad.zeros(0), jitgrad.zeros(0))


@pytest.mark.parametrize(("a", "b", "message"), [
    (jitgrad.tensor([1.0]), jitgrad.tensor([1.1]), "Tensor-likes are not close"),
    (jitgrad.tensor([1, 2]), jitgrad.tensor([1, 3]), "Mismatched elements: 1 / 2"),
    (jitgrad.tensor([1.0]), jitgrad.tensor([1.0], dtype=jitgrad.float64), "'dtype' do not match"),
    (jitgrad.zeros(2), jitgrad.zeros(3), "'shape' do not match"),
    (jitgrad.tensor([float("nan")]), jitgrad.tensor([float("nan")]), "not close"),
    ([1.0], [1.0, 2.0], "length of the sequences"),
    ({"a": 1}, {"b": 1}, "keys of the mappings"),
])
def test_what_is_not(a: object, b: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_close(a, b)


def test_tolerances_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(1.0, 1.0, rtol=1e-3)
