"""What the text of `f.code` imports."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad.script.inspect.pyhelpers import commit, number, ops


def test_rows_take_tensors_and_numbers():
    x = jitgrad.tensor([1.0, -2.0], requires_grad=True)
    y = ops.maximum(x, 0.5)
    np.testing.assert_array_equal(y.detach().numpy(), [1.0, 0.5])
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 0.0])
    assert ops.pad(x, pads=((0, 1),), value=0).shape == (3,)
    assert ops.random_uniform(1, 0, shape=(2,), dtype=jitgrad.float32).dtype is jitgrad.float32
    with pytest.raises(AttributeError, match="there is no op `nothing`"):
        _ = ops.nothing


def test_numbers_never_raise():
    assert number.floordiv(7, 2) == 3
    assert number.floordiv(7, 0) == 0
    assert number.truediv(1, 0) == float("inf")
    assert np.isnan(number.sqrt(-1.0))
    assert number.floor(2.5) == 2
    assert number.isinf(float("inf")) is True


def test_commit_writes_without_history():
    x = jitgrad.zeros(2, requires_grad=True)
    commit(x, jitgrad.ones(2))
    assert x.grad_fn is None
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 1.0])
