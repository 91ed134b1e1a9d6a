"""Rows on arrays of no half type run what `in_float32` wraps; half types are widened as before."""

import numpy as np
import pytest

import jitgrad
from jitgrad.eager.record import plan_of
from jitgrad.ops import OPS


@pytest.mark.parametrize("name", ["sum", "cumsum", "clamp"])
def test_what_is_wrapped_is_found(name):
    assert plan_of(OPS[name]).plain is not None


@pytest.mark.parametrize("name", ["exp", "gather", "reshape"])
def test_nothing_is_found_where_nothing_is_widened(name):
    assert plan_of(OPS[name]).plain is None


@pytest.mark.parametrize("dtype", [jitgrad.float16, jitgrad.bfloat16])
def test_half_types_are_rounded_once(dtype):
    x = jitgrad.from_numpy(np.random.default_rng(0).normal(size=100).astype(np.float32)).to(dtype)
    for run in (lambda x: x.sum(), lambda x: x.cumsum(0), lambda x: x.clamp(-0.3, 0.7)):
        assert run(x).dtype is dtype
        assert jitgrad.equal(run(x), run(x.float()).to(dtype))
