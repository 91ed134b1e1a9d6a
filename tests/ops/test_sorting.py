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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_places_are_those_of_a_stable_sort_and_of_all_that_came_before(dtype):
    rng = np.random.default_rng(0)
    for trial in range(60):
        shape = tuple(rng.integers(1, 7, rng.integers(1, 4)))
        x = rng.integers(0, 4 if trial % 2 else 200, shape).astype(dtype)
        if trial % 3 == 0 and x.dtype.kind == "f":
            x[rng.random(shape) < 0.3] = np.nan
        for axis, n in enumerate(shape):
            order = np.argsort(x, axis=axis, kind="stable")
            for k in {0, (n - 1) // 2, n - 1}:
                expected = np.take(order, [k], axis=axis)
                found = scans._nth_place_impl(np, x, k, axis, False)
                assert found.dtype == np.int64
                np.testing.assert_array_equal(found, expected)
                nan = np.expand_dims(np.isnan(x).argmax(axis), axis), np.isnan(x).any(axis, keepdims=True)
                np.testing.assert_array_equal(scans._nth_place_impl(np, x, k, axis, True),
                                              np.where(nan[1], nan[0], expected))
            for least in (False, True):
                found = np.moveaxis(scans._extreme_place_impl(np, x, axis, least), axis, -1)
                lines = np.moveaxis(x, axis, -1)
                for k in range(n):
                    back = lines[..., k::-1]
                    np.testing.assert_array_equal(found[..., k], k - (back.argmin(-1) if least else back.argmax(-1)))
