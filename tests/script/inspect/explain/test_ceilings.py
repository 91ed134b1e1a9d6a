"""What a machine can do at most, beside what the steps of a call do."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad.codegen.run.probes import Cost
from jitgrad.script.inspect.explain.ceilings import MOVED, Ceilings, ceilings
from jitgrad.script.inspect.explain.measure import Step


def step(seconds: float, calls: int = 1, moved: int = 0, flops: int = 0, dtype: str = "float32") -> Step:
    return Step("forward", "kernel", "kernel 1", ("exp",), (), Cost(seconds, calls, moved, 0, flops), dtype)


KNOWN = Ceilings({100: 8e9, 1000: 4e9}, {"float32": 1e11})


def test_a_kernel_is_measured_by_one_that_moves_as_much_in_a_call():
    assert KNOWN.share(step(1e-6, moved=1000)) == pytest.approx(0.25)
    assert KNOWN.share(step(1e-6, calls=10, moved=1000)) == pytest.approx(0.125)
    assert KNOWN.share(step(1e-6, moved=2000)) == pytest.approx(0.5)  # more than any that was measured


def test_a_product_is_measured_by_one_of_its_dtype():
    assert KNOWN.share(step(1e-3, moved=100, flops=5 * 10**7)) == pytest.approx(0.5)
    assert KNOWN.share(step(1e-3, flops=1, dtype="bfloat16")) is None


def test_what_has_no_rate_has_no_share():
    assert KNOWN.share(step(0.0, moved=100)) is None
    assert KNOWN.share(step(1e-6)) is None
    assert KNOWN.share(step(1e-6, calls=0, moved=100)) is None


def test_every_ceiling_is_measured_once():
    found = ceilings()
    assert tuple(found.bytes) == MOVED
    assert set(found.flops) == {"float32", "float64"}
    assert all(rate > 0 for rate in (*found.bytes.values(), *found.flops.values()))
    assert ceilings() is found
    with jitgrad.autocast("cpu"):
        assert set(ceilings.__wrapped__().flops) == {"float32", "float64"}


def test_the_table_of_steps_says_what_each_reaches():
    @jitgrad.script
    def f(x, w):
        return (x @ w).exp()

    report = f.explain(jitgrad.ones(16, 16), jitgrad.ones(16, 16))
    assert [s.dtype for s in report.steps] == ["float32", "float32"]
    assert all(report.ceilings.share(s) is not None for s in report.steps)
    assert "of max: of what this machine does" in str(report)
