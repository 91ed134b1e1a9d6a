"""Scripted calls on eager's tape."""

import pytest

import jitgrad
from jitgrad.script.call.callnode import CallNode, flat, version_of


def test_lists_are_flat_on_the_tape():
    assert flat([1, [2, [3]], []]) == [1, 2, 3]

    @jitgrad.script
    def doubled(xs):
        return [[x * 2] for x in xs]

    a, b = (jitgrad.ones(2, requires_grad=True) for _ in range(2))
    for given in ([a, b], [a], [a, b, a]):
        found = doubled(given)
        assert isinstance(found[0][0].grad_fn, CallNode)
        assert found[0][0].grad_fn is found[-1][0].grad_fn
    found[1][0].sum().backward()
    assert a.grad is None
    assert b.grad.tolist() == [2.0, 2.0]


def test_a_changed_argument_is_told():
    @jitgrad.script
    def f(x, w):
        return (x * w).sin()

    x, w = jitgrad.ones(2), jitgrad.ones(2, requires_grad=True)
    y = f(x, w)
    before = version_of(x)
    x.add_(1)
    assert version_of(x) == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    assert version_of(3.0) == 0
