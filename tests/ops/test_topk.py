"""A few of many numbers are searched one after another: the same ones as sorting finds, equal ones and NaN included."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.ops.rows import scans


def numbers(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if kind == "distinct":
        return rng.normal(size=shape).astype(np.float32)
    if kind == "equal":
        return rng.integers(-3, 4, shape).astype(np.float64)
    if kind == "bytes":
        return rng.integers(-128, 128, shape).astype(np.int8)
    x = rng.normal(size=shape).astype(np.float32)
    x.flat[rng.integers(0, x.size, 60)] = np.resize([np.nan, np.inf, -np.inf, -0.0, 0.0], 60)
    return x


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["distinct", "equal", "bytes", "special"])
@pytest.mark.parametrize(("shape", "axis"), [((90,), 0), ((3, 70), 1), ((80, 2, 3), 0)])
def test_the_same_as_sorting(kind: str, shape: tuple[int, ...], axis: int, largest: bool) -> None:
    rng = np.random.default_rng(0)
    for k in (0, 1, 5, 16):
        x = numbers(kind, shape, rng)
        values, indices = scans._topk(np, x, k, axis, largest, True)
        expected = scans._argsort(np, x, axis, largest, True)[(*(slice(None),) * axis, slice(0, k))]
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))


def test_what_is_sorted() -> None:
    x = np.array([[-np.inf] * 70, [1.0] * 70], np.float32)
    assert scans._picked(x, 3, 1, True) is None, "what was picked looks like what was there"
    assert scans._picked(np.array([np.nan] * 70), 2, 0, False) is None, "the largest, not the first"
    assert scans._picked(np.ones(70, bool), 2, 0, True) is None
