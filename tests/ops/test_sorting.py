"""Sorts of many floats: stable whatever ties there are, NaN last."""

import numpy as np
import pytest

from jitgrad.ops.rows import scans


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distinct", [3, 60, 3000, 10**9])
def test_stable_sorts(dtype, distinct):
    rng = np.random.default_rng(distinct)
    for shape in ((5000,), (70, 80), (9, 30, 25), (4096, 1), (1, 5000)):
        x = (rng.integers(0, distinct, shape) - distinct // 2).astype(dtype)
        x[rng.random(shape) < 0.001] = np.nan
        x[rng.random(shape) < 0.001] = -0.0
        x[rng.random(shape) < 0.001] = np.inf
        for axis in range(len(shape)):
            for given in (x, np.asfortranarray(x), np.flip(x)):
                found = scans._argsort(np, given, axis, False, True)
                assert found.dtype == np.int64
                np.testing.assert_array_equal(found, np.argsort(given, axis=axis, kind="stable"))
                values, places = scans._sort(np, given, axis, False, True)
                np.testing.assert_array_equal(places, found)
                expected = np.take_along_axis(given, found, axis)
                np.testing.assert_array_equal(values, expected)
                np.testing.assert_array_equal(np.signbit(values), np.signbit(expected))
                n = shape[axis]
                down = np.flip(n - 1 - np.argsort(np.flip(given, axis), axis=axis, kind="stable"), axis)
                np.testing.assert_array_equal(scans._argsort(np, given, axis, True, True), down)
