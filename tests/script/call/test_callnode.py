"""Scripted calls on eager's tape."""

import itertools

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


def losses(x, w):
    return (x * w).sum(), (x * w * w).sum(), w.t().mm(x).sum()


def losses_of_one(x, w):
    h = (x * w).tanh()
    return h.sum(), h.mean(), (w * 2).sum()


@pytest.mark.parametrize("function", [losses, losses_of_one])
def test_each_result_of_a_call_has_its_own_backward_where_they_share_no_history(function):
    found = []
    for run in (function, jitgrad.script(function)):
        for first, second in itertools.permutations(range(3), 2):
            w = jitgrad.arange(4.0).reshape(2, 2).requires_grad_()
            results = run(jitgrad.ones(2, 2), w)
            results[first].backward()
            try:
                results[second].backward()
                error = ""
            except RuntimeError as raised:
                error = str(raised)
            with pytest.raises(RuntimeError, match="second time"):
                results[first].backward()
            found.append((error, w.grad))
    for (mine, a), (theirs, b) in zip(found[:6], found[6:], strict=True):
        assert mine == theirs
        assert jitgrad.allclose(a, b, atol=1e-6)


def test_all_results_at_once_are_one_backward():
    scripted = jitgrad.script(losses)
    w = jitgrad.ones(2, 2).requires_grad_()
    for _ in range(2):
        sum(scripted(jitgrad.ones(2, 2), w)).backward()
    assert w.grad.tolist() == [[10.0, 10.0], [10.0, 10.0]]


def test_the_gradient_of_some_results_has_the_conditions_that_it_needs():
    """Of all results it needs none: one of them is reached in any case."""
    @jitgrad.script
    def f(x, y, flag: bool):
        z = x * 2
        z.zero_()
        if flag:
            y, z = z, y
        return z.sum(), y

    for flag in (False, True):
        x = jitgrad.tensor([1.0, 2.0], requires_grad=True)
        total, other = f(x, jitgrad.ones(2), flag)
        assert total.requires_grad is not flag
        assert other.requires_grad is flag
        (other.sum() if flag else total).backward()
        assert x.grad.tolist() == [0.0, 0.0]
