"""Native running sums and products: NumPy's in float64, rounded once, for every layout."""

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.run.on_arrays.scans import scanned
from jitgrad.ops.rows.scans import MANY

SHAPES = [(7, 9, 5), (1000,), (3, 100, 33), (20, 30), (1, 1), (5, 1, 4), (17, 3)]


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.filterwarnings("ignore:overflow")
def test_all_layouts(name, dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = (rng.normal(size=shape) * 3).astype(dtype)
        for axis in range(len(shape)):
            for given in (x, np.flip(x, axis), np.asfortranarray(x), np.flip(x)):
                wide = given.astype(np.float64) if dtype is np.float32 else given
                expected = getattr(np, name)(wide, axis=axis).astype(dtype)
                np.testing.assert_array_equal(scanned(name, given, axis), expected)


def test_numbers_that_are_none_and_the_sign_of_zero():
    x = np.array([[-0.0, -0.0, 1.0, np.inf, -np.inf, 2.0], [0.0, np.nan, 1.0, 2.0, 3.0, 4.0]], np.float32)
    for name in ("cumsum", "cumprod"):
        with np.errstate(invalid="ignore"):
            expected = getattr(np, name)(x, axis=1)
        found = scanned(name, x, 1)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[:, :2]), np.signbit(expected[:, :2]))


def test_what_is_for_numpy():
    assert scanned("cumsum", np.ones((2, 3), np.int32), 0) is None
    assert scanned("cumsum", np.ones((2, 3), complex), 0) is None
    assert scanned("cumsum", np.ones((0, 3)), 1) is None


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_eager_and_scripts(name, axis):
    """Long enough for the loops, and for the derivative rules' programs; zeros are where a product's is hard."""
    rng = np.random.default_rng(0)
    a = 1 + 0.01 * rng.normal(size=(300, 230))
    a[::50, ::70] = 0.0
    a[7, [3, 100]] = 0.0
    assert a.size >= 1 << 16 > MANY
    results = []
    for dtype in (np.float32, np.float64):
        x = jitgrad.tensor(a.astype(dtype), requires_grad=True)
        for run in (lambda x: getattr(x, name)(axis), jitgrad.script(lambda x: getattr(x, name)(axis))):
            y = run(x)
            (g,) = jitgrad.autograd.grad(y, x, jitgrad.ones_like(y) * y.detach())
            results.append((y.detach().numpy(), g.numpy()))
    expected = results[-1]
    np.testing.assert_allclose(expected[0], getattr(np, name)(a, axis=axis), rtol=1e-12)
    small = jitgrad.tensor(a[:40], requires_grad=True)  # NumPy's: gradients along axis 1 are those of the rows
    if axis:
        y = getattr(small, name)(axis)
        y.backward(y.detach())
        np.testing.assert_allclose(expected[1][:40], small.grad.numpy(), rtol=1e-10, atol=1e-10)
    for y, g in results:
        np.testing.assert_allclose(y, expected[0], rtol=1e-5 if y.dtype == np.float32 else 1e-12)
        np.testing.assert_allclose(g, expected[1], rtol=2e-4 if y.dtype == np.float32 else 1e-10, atol=2e-3)
