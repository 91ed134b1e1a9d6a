"""Dual numbers on the tape."""

import numpy as np
import pytest

import jitgrad
from jitgrad.autograd import forward_ad


def test_a_tangent():
    x, v = jitgrad.tensor([0.5, 1.0]), jitgrad.tensor([1.0, 2.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        other = forward_ad.make_dual(x * 2, v)
        primal, tangent = forward_ad.unpack_dual(jitgrad.sin(dual) * other)
        assert forward_ad.unpack_dual(dual).tangent.tolist() == v.tolist()
        assert forward_ad.unpack_dual(x).tangent is None
    expected = np.cos(x.numpy()) * v.numpy() * 2 * x.numpy() + np.sin(x.numpy()) * v.numpy()
    np.testing.assert_allclose(tangent.numpy(), expected, rtol=1e-6)
    assert not primal.requires_grad
    assert not tangent.requires_grad


def test_through_a_scripted_loop():
    @jitgrad.script
    def f(x, n: int):
        for _ in range(n):
            x = x * x
        return x

    with forward_ad.dual_level():
        y = f(forward_ad.make_dual(jitgrad.tensor([1.5]), jitgrad.tensor([1.0])), 3)
        assert forward_ad.unpack_dual(y).tangent.item() == pytest.approx(8 * 1.5 ** 7)


def test_reverse_over_forward():
    x = jitgrad.tensor(0.5, requires_grad=True)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, jitgrad.tensor(1.0)) ** 3).tangent
    tangent.backward()
    assert x.grad.item() == pytest.approx(3.0)


def test_errors():
    x = jitgrad.ones(2)
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)
    assert forward_ad.unpack_dual(x).tangent is None
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="Nested"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match="same shape"):
            forward_ad.make_dual(x, jitgrad.ones(3))
        with pytest.raises(ValueError, match="floating"):
            forward_ad.make_dual(jitgrad.tensor([1]), jitgrad.tensor([1]))
    with pytest.raises(RuntimeError, match="no level is active"):
        forward_ad.exit_dual_level()
