"""Means and variances of rows that no block holds: numbers far from zero lose no digits."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import Tensor
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

AXES = (0, 2, 3)


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean(AXES), x.var(AXES, correction=0)


@host.needs_compiler
@pytest.mark.parametrize(("shape", "form"), [((8, 3, 40, 40), "_sweeps"), ((2, 2, 200, 200), "_phase0")],
                         ids=["one block", "several"])
def test_a_mean_far_from_zero(shape: tuple[int, ...], form: str) -> None:
    """Squares are of what is left without the mean: sums of squares themselves would have no digit of the variance."""
    x = (np.random.default_rng(0).standard_normal(shape) + 1e4).astype(np.float32)
    exact = x.astype(np.float64)
    naive = (x * x).mean(AXES) - x.mean(AXES) ** 2
    assert np.abs(naive / exact.var(AXES) - 1).max() > 0.1
    script = jitgrad.script(moments)
    assert form in str(script.traffic(jitgrad.empty(*shape)))
    with gpu():
        mean, variance = (t.cpu().numpy() for t in script(jitgrad.tensor(x, device="cuda")))
    np.testing.assert_allclose(mean, exact.mean(AXES), rtol=1e-7)
    np.testing.assert_allclose(variance, exact.var(AXES), rtol=1e-6)
