"""Sums of many numbers are as near as torch's along any axis: eager, compiled, interpreted, and in gradients."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.ops.namespaces import CHAIN, ROWS, summed

MODES = {"eager": {"jit": False}, "native": {"interpret": False}, "interpreted": {"interpret": True}}
N = 200_000


def numbers(*shape: int) -> np.ndarray:
    return (1e4 + np.random.default_rng(0).standard_normal(shape)).astype(np.float32)


def constant(*shape: int) -> np.ndarray:
    """Rounded in the same direction at every step."""
    return np.full(shape, 0.1, np.float32)


FUNCTIONS = {
    "leading": (lambda x: x.sum(0), lambda a: a.sum(0)),
    "transposed": (lambda x: x.t().sum(1), lambda a: a.sum(0)),
    "around": (lambda x: x.reshape(-1, 2, 3).sum((0, 2)), lambda a: a.reshape(-1, 2, 3).sum((0, 2))),
    "two leading": (lambda x: x.reshape(100, -1, 6).sum((0, 1)), lambda a: a.sum(0)),
    "many short": (lambda x: x.reshape(10, 50, -1, 100, 6).sum((0, 1, 3)),
                   lambda a: a.reshape(10, 50, -1, 100, 6).sum((0, 1, 3))),
    "repeated": (lambda x: x[:1].expand(len(x), 6).sum(0), lambda a: a[0] * len(a)),
    "backwards": (lambda x: x.flip(0)[::2].sum(0), lambda a: a[::-1][::2].sum(0)),
    "everything": (lambda x: x.sum(), lambda a: a.sum()),
    "one": (lambda x: x[:, 1].sum(), lambda a: a[:, 1].sum()),
    "mean": (lambda x: x.mean(0), lambda a: a.mean(0)),
    "running": (lambda x: x.cumsum(0)[-1], lambda a: a.sum(0)),
    "running along rows": (lambda x: x.t().contiguous().cumsum(1)[:, -1], lambda a: a.sum(0)),
    "running, everything": (lambda x: x.reshape(-1).cumsum(0)[-1], lambda a: a.sum()),
    "softmax": (lambda x: (x * 0).softmax(0)[0] * len(x), lambda a: np.ones(6)),
    "logsumexp": (lambda x: (x * 0).logsumexp(0), lambda a: np.log(np.full(6, float(len(a))))),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sums_are_near(name, mode):
    function, truth = FUNCTIONS[name]
    with config.override(**MODES[mode], cache=""):
        for made in (numbers, constant):
            a = made(N, 6)
            wide = truth(a.astype(np.float64))
            np.testing.assert_allclose(jitgrad.script(function)(jitgrad.from_numpy(a)).numpy(), wide, rtol=4e-6)


@pytest.mark.parametrize("mode", MODES)
def test_variances_are_near(mode):
    def variances(x):
        return x.var(0), x.reshape(100, -1, 6).std((0, 1)), x.var()

    a = numbers(N, 6)
    wide = a.astype(np.float64)
    expected = wide.var(0, ddof=1), wide.std(0, ddof=1), wide.var(ddof=1)
    with config.override(**MODES[mode], cache=""):
        for found, true in zip(jitgrad.script(variances)(jitgrad.from_numpy(a)), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), true, rtol=2e-5)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_what_is_repeated_are_near(mode):
    def loss(x, bias, running):
        return ((x + bias) * x).sum() + (running.cumsum(0)[-1] * x[0]).sum()

    a = constant(N, 6)
    with config.override(**MODES[mode], cache=""):
        bias, running = jitgrad.zeros(6, requires_grad=True), jitgrad.zeros(N, 6, requires_grad=True)
        jitgrad.script(loss)(jitgrad.from_numpy(a), bias, running).backward()
        np.testing.assert_allclose(bias.grad.numpy(), a.astype(np.float64).sum(0), rtol=4e-6)
        np.testing.assert_array_equal(running.grad.numpy(), a)


def test_float16_is_summed_in_float32():
    a = constant(N, 6).astype(np.float16)
    found = jitgrad.from_numpy(a).mean(0).numpy()
    np.testing.assert_allclose(found, a[0], rtol=1e-3)


@pytest.mark.parametrize("n", [CHAIN - 1, CHAIN, CHAIN + 1, 2 * ROWS - 1, 2 * ROWS, 17 * ROWS - 1, 5123, 12347])
@pytest.mark.parametrize("kept", [(), (1,), (3,), (2, 5), (300,)])
def test_every_row_is_counted_once(n, kept):
    for d in (np.float32, np.float64):
        x = np.random.default_rng(n).integers(-8, 8, (n, *kept)).astype(d)
        for back in (False, True):
            y = np.moveaxis(x, 0, -1) if back else x
            axis = y.ndim - 1 if back else 0
            for keepdim in (False, True):
                found = summed(np, y, (axis,), keepdim)
                assert found.dtype == d
                np.testing.assert_array_equal(found, y.sum(axis, keepdims=keepdim))


def test_sums_of_what_is_not_finite():
    a = np.ones((5000, 4), np.float32)
    a[4000, 1], a[17, 2], a[4999, 3], a[3, 3] = np.inf, np.nan, -np.inf, np.inf
    for mode in MODES.values():
        with config.override(**mode, cache=""):
            for f in (lambda x: x.sum(0), lambda x: x.cumsum(0)[-1]):
                np.testing.assert_array_equal(jitgrad.script(f)(jitgrad.from_numpy(a)).numpy(),
                                              [5000, np.inf, np.nan, np.nan])


@pytest.mark.parametrize(("shape", "axis"), [((4000, 30), 0), ((30, 4000), 1), ((3, 70000), 1), ((70000, 3), 0),
                                             ((5, 2000, 9), 1), ((100_000,), 0), ((2000, 40, 3), 0)])
def test_long_scans_are_exact_in_any_order_of_memory(shape, axis):
    rng = np.random.default_rng(1)
    a = rng.integers(-3, 4, shape).astype(np.float32)
    signs = rng.choice([-1, 1], shape).astype(np.float32)
    for order in (lambda x: x, lambda x: np.asfortranarray(x), lambda x: np.repeat(x, 2, -1)[..., ::2]):
        np.testing.assert_array_equal(jitgrad.from_numpy(order(a)).cumsum(axis).numpy(), a.cumsum(axis))
        np.testing.assert_array_equal(jitgrad.from_numpy(order(signs)).cumprod(axis).numpy(), signs.cumprod(axis))
