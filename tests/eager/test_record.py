"""Every row of the op table through eager: derivatives of both orders, memory, errors."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.autograd import grad, gradcheck
from jitgrad.eager.construct import wrap
from jitgrad.eager.record import apply, plan_of
from jitgrad.ops.opdef import OPS, POINTWISE, VIEW
from tests.eager.both import check, error, jt, torch
from tests.ops.cases import differentiable

DIFFERENTIABLE = differentiable()


def samples(op):
    rng = np.random.default_rng(7)
    if op.samples is not None:
        return op.samples(rng)
    low, high = op.domain
    if op.dtypes in ("int", "integral", "bool"):
        return [(tuple(rng.integers(0, 4, (2, 3)) for _ in range(op.arity)), {})]
    low, high = max(low, -2.0), min(high, 2.0)
    return [(tuple(rng.uniform(low, high, (2, 3)) for _ in range(op.arity)), {})]


def tensors(arrays):
    return tuple(wrap(a).requires_grad_() if a.dtype.kind == "f" else wrap(a) for a in arrays)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_first_order_agrees_with_the_recorded_pass(name):
    """The rule under arrays and under Tensors is the same rule."""
    op = OPS[name]
    for arrays, attrs in samples(op):
        xs = tensors([np.array(a) for a in arrays])
        y = apply(op, xs, attrs)
        y = y[0] if isinstance(y, tuple) else y
        targets = [x for x in xs if x.requires_grad]
        if not y.requires_grad or not targets:
            continue
        g = wrap(np.random.default_rng(1).normal(size=y._data.shape).astype(y._data.dtype))
        first = grad(y, targets, g, retain_graph=True, allow_unused=True)
        recorded = grad(y, targets, g, create_graph=True, allow_unused=True)
        for x, a, b in zip(targets, first, recorded, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert a.shape == b.shape == x.shape
                assert a.dtype is b.dtype is x.dtype
                np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["mul", "div", "pow", "exp", "matmul", "softmax", "prod", "index", "cat", "select",
                                  "slice", "gather", "scatter_add", "cumsum", "amax", "where", "sigmoid", "atan2"])
def test_gradcheck_of_rows(name):
    op = OPS[name]
    arrays, attrs = samples(op)[0]
    if name == "pow":
        arrays = tuple(np.abs(a) + 0.5 for a in arrays)
    gradcheck(lambda *xs: apply(op, xs, attrs), tensors([np.array(a) for a in arrays]))


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.kind is not VIEW and n != "overwrite"])
def test_results_have_memory_of_their_own(name):
    """An in-place write to a result must not change the operand."""
    op = OPS[name]
    for arrays, attrs in samples(op):
        if any(not isinstance(a, np.ndarray) for a in arrays):
            continue
        xs = tuple(wrap(np.array(a)) for a in arrays)
        found = apply(op, xs, attrs)
        for y in found if isinstance(found, tuple) else (found,):
            for x in xs:
                if y._data.size:
                    assert not np.shares_memory(y._data, x._data)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.kind is VIEW and n != "flip" and callable(op.vjp)])
def test_views_share_memory_and_version(name):
    op = OPS[name]
    for arrays, attrs in samples(op):
        x = wrap(np.array(arrays[0]))
        y = apply(op, (x,), attrs)
        assert y._base is x
        x.add_(1)
        assert y._version == x._version == 1
        np.testing.assert_array_equal(y.numpy(), plan_of(op).run(x._data, **attrs))


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.kind is POINTWISE and op.arity == 1])
def test_zero_dimensions_and_float32(name):
    op = OPS[name]
    if op.samples is not None or op.dtypes in ("int", "integral", "bool"):
        return
    x = wrap(np.float32(0.5 if op.domain[0] < 0.5 < op.domain[1] else 1.5)).requires_grad_()
    y = apply(op, (x,), {})
    assert isinstance(y._data, np.ndarray)
    assert y.shape == ()
    if y.requires_grad:
        assert y.dtype is dtypes.float32
        (g,) = grad(y, x)
        assert g.dtype is dtypes.float32
        assert g.shape == ()


def test_numpy_does_not_warn():
    x = jt.tensor([0.0, -1.0, 1e38]).requires_grad_()
    y = (x.log() + x * 1e38 + x.sqrt() / x).exp() / 0
    y.sum().backward()
    assert np.isnan(x.grad.numpy()).any()
    with pytest.warns(RuntimeWarning):
        np.log(np.array([0.0]))  # outside, NumPy is as it was


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_errors_of_shapes():
    def program(t):
        a, b = t.ones(2, 3), t.ones(4, 5)
        return [error(lambda: a + b, "The size of tensor a (3) must match the size of tensor b (5) at non-singleton"),
                error(lambda: a @ b, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
                error(lambda: a.reshape(4), "shape '[4]' is invalid for input of size 6"),
                error(lambda: t.cat([a, b]), "Sizes of tensors must match except in dimension 0"),
                error(lambda: a.expand(2, 4), "The expanded size of the tensor (4) must match the existing size (3)"),
                error(lambda: a[5], "index 5 is out of bounds for dimension 0 with size 2")]

    check(program)


def test_nodes_save_only_what_the_rule_reads():
    x, w = jt.ones(3).requires_grad_(), jt.ones(3)
    assert (x + w).grad_fn.checks == []
    saved = (x * w).grad_fn
    assert [c[2] for c in saved.checks] == [1]  # x needs a gradient, so w is read; x itself is not
    assert x.exp().grad_fn.ys[0].shape == (3,)


def test_detach_row():
    """As a row, for graphs: the same memory and version, no history."""
    x = jt.ones(2).requires_grad_()
    for base in (x * 2, (x * 2).view(1, 2)):
        y = apply(OPS["detach"], (base,), {})
        assert not y.requires_grad
        y.add_(1)
        assert base._version == 1
        assert base.reshape(-1).tolist() == [3, 3]


@pytest.mark.parametrize("needs", [False, True])
def test_what_a_function_has_made_is_its_result_without_a_view(needs):
    """`own_view`: whether something is recorded or not, in inference mode too."""
    x = jt.from_numpy(np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)).requires_grad_(needs)
    values, places = x.median(1)
    for y in (values, places, x @ x.detach()[0], x.kthvalue(2, 0)[0]):
        assert y._base is None
        assert y.ndim == 1
        assert y.requires_grad == (needs and y is not places)
        y.detach().add_(1)
    np.testing.assert_allclose(values.detach().numpy() - 1, np.median(x.detach().numpy(), 1), rtol=1e-5, atol=1e-6)
    with jt.inference_mode():
        assert x.median(1)[1].is_inference()
