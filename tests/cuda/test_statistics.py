"""Means and variances of rows that no block holds: one pass for both, in which numbers far from zero lose no digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import Tensor
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

AXES = (0, 2, 3)


def moments(x: Tensor) -> tuple[Tensor, ...]:
    return x.mean(AXES), x.var(AXES, correction=0)


def normalised(x: Tensor) -> tuple[Tensor, ...]:
    mean, variance = x.mean(AXES, keepdim=True), x.var(AXES, correction=0, keepdim=True)
    return mean, variance, (x - mean) / variance.sqrt()


def launches(function: Callable[..., Any], *shape: int) -> list[list[str]]:
    """The lines of what is launched."""
    rows = [line.split() for line in str(jitgrad.script(function).traffic(jitgrad.empty(*shape))).splitlines()]
    return [r for r in rows if r[:1] == ["forward"]]


@host.needs_compiler
@pytest.mark.parametrize(("function", "shape", "form"), [
    (moments, (8, 3, 40, 40), "_var"), (normalised, (8, 3, 40, 40), "_sweeps"),
    (normalised, (2, 2, 200, 200), "_phase0"),
], ids=["nothing more", "one block", "several"])
@pytest.mark.parametrize("away", [0.0, 1e4])
def test_a_mean_far_from_zero(function: Callable[..., Any], shape: tuple[int, ...], form: str, away: float) -> None:
    """Squares are of what is left without the mean: sums of squares themselves would have no digit of the variance."""
    x = (np.random.default_rng(0).standard_normal(shape) + away).astype(np.float32)
    exact = x.astype(np.float64)
    if away:
        naive = (x * x).mean(AXES) - x.mean(AXES) ** 2
        assert np.abs(naive / exact.var(AXES) - 1).max() > 0.1
    script = jitgrad.script(function)
    assert (form in str(script.traffic(jitgrad.empty(*shape)))) == (form != "_var")
    with gpu():
        mean, variance, *normal = (t.cpu().numpy() for t in script(jitgrad.tensor(x, device="cuda")))
    np.testing.assert_allclose(mean.ravel(), exact.mean(AXES), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(variance.ravel(), exact.var(AXES), rtol=1e-6)
    for y in normal:
        np.testing.assert_allclose(y.var(AXES), 1, rtol=1e-5)


@pytest.mark.parametrize(("function", "shape", "count", "reads"), [
    (moments, (8, 3, 40, 40), 1, 1), (normalised, (8, 3, 40, 40), 1, 2), (normalised, (2, 2, 200, 200), 2, 2)])
def test_both_are_made_in_one_pass(function: Callable[..., Any], shape: tuple[int, ...], count: int, reads: int
                                   ) -> None:
    """What is normalised is read twice; they alone are one launch, of as many blocks as there are."""
    ((_, number, read, unit, *_),) = launches(function, *shape)
    bytes_read = float(read) * {"kB": 1e3, "MB": 1e6}[unit]
    assert int(number) == count
    assert bytes_read == pytest.approx(4 * np.prod(shape) * reads, rel=0.05)


@pytest.mark.parametrize(("rows", "columns", "form"), [
    (4, 100_000, "_phase0"), (263, 100_000, "_phase0"), (264, 100_000, "_sweeps"), (4, 20_000, "_shared")])
def test_few_long_rows_are_shared_by_all_blocks(rows: int, columns: int, form: str) -> None:
    """Fewer than two for each multiprocessor of a large GPU, where no block holds one."""
    found = launches(lambda x: x.softmax(-1), rows, columns)
    assert any(form in "".join(line) for line in found)
