"""Gathering by native code, which asks NumPy where an index is out of range, and its look at indices."""

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.run.on_arrays.gathers import gathered, scattered, within
from jitgrad.ops.rows.gather import along


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float16, np.float32, np.int64])
def test_all_layouts(dtype):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(4, 6, 5)) * 3).astype(dtype)
    for axis in range(3):
        i = rng.integers(0, x.shape[axis], [9 if a == axis else n for a, n in enumerate(x.shape)])
        for given, index in ((x, i), (np.asfortranarray(x), i), (x[::-1], i[..., ::-1])):
            found = gathered(given, index, axis)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, np.take_along_axis(given, index, axis))


def test_numpy_is_asked_where_an_index_is_out_of_range():
    x, i = np.arange(12.0).reshape(3, 4), np.zeros((3, 2), np.int64)
    for axis, wrong in ((1, 4), (1, -1), (1, 1 << 62), (0, 3), (0, -1)):
        given = i if axis else np.zeros((2, 4), np.int64)
        given[1, 1] = wrong
        assert gathered(x, given, axis) is None


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float16, np.float32, np.float64, np.int32, np.int64])
def test_scattering_goes_from_one_index_to_the_next(dtype):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(4, 6, 5)) * 3).astype(dtype)
    for axis in range(3):
        shape = [9 if a == axis else n for a, n in enumerate(x.shape)]
        i, y = rng.integers(0, x.shape[axis], shape), (rng.normal(size=shape) * 3).astype(dtype)
        for given in (x, np.asfortranarray(x), x[::-1]):
            put, added = given.copy(), given.copy()
            put[along(np, i, axis)] = y
            np.add.at(added, along(np, i, axis), y)
            np.testing.assert_array_equal(scattered(given, i, y, axis, "put"), put)
            found = scattered(given, i, y, axis, "add")
            if dtype in (bool, np.int8, np.float16):
                assert found is None
            else:
                np.testing.assert_array_equal(found, added)
        i.flat[7] = -1
        assert scattered(x, i, y, axis, "put") is None


def test_what_is_for_numpy():
    x = np.ones((3, 4))
    assert gathered(x, np.zeros((2, 2), np.int64), 1) is None
    assert gathered(x, np.zeros((3, 2), np.int32), 1) is None
    assert gathered(x.astype(complex), np.zeros((3, 2), np.int64), 1) is None
    assert scattered(x, np.zeros((3, 2), np.int64), np.ones((3, 3)), 1, "put") is None
    assert scattered(x, np.zeros((3, 2), np.int64), np.ones((3, 2), np.float32), 1, "put") is None


@pytest.mark.parametrize("count", [1, 5, 16, 33, 1000])
def test_within(count):
    i = np.random.default_rng(0).integers(0, 50, count)
    assert within(i, 50)
    for place in {0, count // 2, count - 1}:
        for wrong in (50, -1, 1 << 62):
            given = i.copy()
            given[place] = wrong
            assert not within(given, 50)


@pytest.mark.parametrize("place", [(0, 0), (31, 31)])
def test_errors_are_the_same_for_many_indices(place):
    x, i = jitgrad.ones(32, 32), jitgrad.zeros(32, 32, dtype=jitgrad.int64)
    assert x.gather(1, i).sum().item() == 1024
    for wrong in (32, -1):
        i[place] = wrong
        with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds for dimension 1 with size 32"):
            x.gather(1, i)
