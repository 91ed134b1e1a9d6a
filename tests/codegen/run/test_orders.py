"""Orders of short lines by native code: those of a stable sort, for every layout, with NaN as the largest value."""

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.run.on_arrays.orders import LONGEST, ordered

SHAPES = [(32, 32), (5, LONGEST), (3, 7, 4), (1, 1), (40, 100), (0, 3), (2, 17), (9,)]


def with_ties(shape, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 5, shape).astype(dtype)
    if x.dtype.kind == "f":
        for value in (np.nan, -0.0, np.inf, -np.inf):
            x[rng.random(shape) < 0.1] = value
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_all_layouts(dtype):
    for shape in SHAPES:
        x = with_ties(shape, dtype)
        for axis, n in enumerate(shape):
            for given in (x, np.asfortranarray(x), np.flip(x)):
                up = np.argsort(given, axis=axis, kind="stable")
                down = n - 1 - np.flip(np.argsort(np.flip(given, axis), axis=axis, kind="stable"), axis)
                for descending, order in ((False, up), (True, down)):
                    for first, count in ((0, n), (0, min(3, n)), (n // 2, min(1, n)), (n, 0)):
                        values, places = ordered(given, axis, first, count, descending)
                        expected = np.take(order, np.arange(first, first + count), axis)
                        np.testing.assert_array_equal(places, expected)
                        wanted = np.take_along_axis(given, expected, axis)
                        assert values.dtype == dtype
                        assert values.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_nan_of_a_line_that_has_one(dtype):
    x = with_ties((20, 9), dtype)
    nan = np.isnan(x)
    assert 0 < nan.any(1).sum() < 20
    expected = np.where(nan.any(1), nan.argmax(1), np.argsort(x, 1, kind="stable")[:, 4])
    np.testing.assert_array_equal(ordered(x, 1, 4, 1, spoiled=True)[1][:, 0], expected)


@pytest.mark.parametrize("number", [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_the_ends_of_integers(number):
    x = np.array([[0, number, 3, number, -3]])
    np.testing.assert_array_equal(ordered(x, 1, 0, 5)[1], np.argsort(x, 1, kind="stable"))
    assert ordered(x, 1, 0, 5, descending=True)[1][0].tolist() == (
        [1, 3, 2, 0, 4] if number > 0 else [2, 0, 4, 1, 3])


def test_what_is_for_numpy():
    assert ordered(np.ones((2, LONGEST + 1)), 1, 0, 1) is None
    assert ordered(np.ones((2, 3), np.int16), 1, 0, 1) is None
    assert ordered(np.array(1.0), 0, 0, 1) is None


@pytest.mark.parametrize("run", [
    lambda x: x.topk(4, 1), lambda x: x.topk(4, 0, largest=False), lambda x: x.sort(1), lambda x: x.kthvalue(3, 1),
    lambda x: x.sort(0, descending=True), lambda x: x.sort(stable=True, descending=True), lambda x: x.median(1),
    lambda x: x.median(0, keepdim=True), lambda x: (x.nanmedian(1)[0], x.argsort(dim=0, stable=True))])
def test_eager_is_the_same_where_numpy_finds_the_order(run):
    """float16 is NumPy's; among equal elements the first come first, NaN is in some lines."""
    x = with_ties((16, 16), np.float32)
    for ours, numpys in zip(run(jitgrad.from_numpy(x)), run(jitgrad.from_numpy(x.astype(np.float16))), strict=True):
        np.testing.assert_array_equal(ours.numpy(), numpys.numpy().astype(ours.numpy().dtype))


@pytest.mark.parametrize(("run", "first"), [
    (lambda x: x.topk(5, 1)[0], 27), (lambda x: x.sort(1)[0][:, 27:], 27), (lambda x: x.median(1)[0], 15)])
def test_gradients_go_where_the_elements_were(run, first):
    a = np.random.default_rng(0).permutation(1024).reshape(32, 32).astype(np.float32)
    x = jitgrad.from_numpy(a).requires_grad_()
    run(x).sum().backward()
    last = first + 1 if first == 15 else 32
    expected = np.zeros_like(a)
    np.put_along_axis(expected, a.argsort(1)[:, first:last], 1, 1)
    np.testing.assert_array_equal(x.grad.numpy(), expected)
