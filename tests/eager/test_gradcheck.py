"""gradcheck accepts right derivatives and refuses wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.autograd import Function, GradcheckError, gradcheck, gradgradcheck
from tests.eager.both import jt


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x


class WrongTwice(Function):
    """Right to first order only."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x.detach()


def double(*shape):
    return jt.tensor(np.random.default_rng(0).normal(size=shape)).requires_grad_()


def test_accepts():
    x, w = double(2, 3), double(3, 2)
    assert gradcheck(lambda a, b: (a @ b).tanh(), (x, w))
    assert gradcheck(lambda a: (a.exp(), a.sum()), x)
    assert gradgradcheck(lambda a, b: (a @ b).tanh(), (x, w))
    assert gradcheck(lambda a, b, n: a * b.t() * n, (x, w, 3))
    assert gradcheck(lambda a, c: a * c, (x, double(2, 3).detach()), check_grad_dtypes=True)
    assert gradgradcheck(lambda a: a ** 3, x, jt.ones(2, 3, dtype=jt.float64).requires_grad_())
    assert x.grad is None


def test_input_is_left_as_it_was():
    x = double(2, 3)
    before = x.detach().clone()
    gradcheck(lambda a: a * 2, x)
    assert (x == before).all()


def test_refuses():
    x = double(3)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, x)
    assert gradcheck(Wrong.apply, x, raise_exception=False) is False
    assert gradcheck(WrongTwice.apply, x)
    assert gradgradcheck(WrongTwice.apply, x, raise_exception=False) is False
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda a: a.detach() * 2, x)


def test_needs_an_input_with_gradient():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda a: a, (jt.ones(2),))


def test_warns_of_single_precision():
    x = jt.ones(2).requires_grad_()
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda a: a * 2, x, eps=1e-2, atol=1e-2, rtol=1e-2)
