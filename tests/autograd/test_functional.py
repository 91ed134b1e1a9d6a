"""torch.autograd.functional: values, form and history of results as torch's."""

import numpy as np
import pytest

import jitgrad
from jitgrad.autograd import functional

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
X, W, DX, DW = (RNG.normal(size=s) for s in ((2, 3), (3, 3), (2, 3), (3, 3)))


def programs(m):
    return lambda x, w: m.tanh(x @ w), lambda x, w: (m.tanh(x @ w) * m.sin(x)).sum()


(F, S), (TF, TS) = programs(jitgrad), programs(torch)


def same(found, expected):
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
        return
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-8, atol=1e-10)
    assert found.requires_grad == expected.requires_grad


@pytest.mark.parametrize("create_graph", [False, True])
def test_against_torch(create_graph):
    x, w = (jitgrad.tensor(a, requires_grad=True) for a in (X, W))
    tx, tw = (torch.tensor(a, requires_grad=True) for a in (X, W))
    v, tv = (jitgrad.tensor(DX), jitgrad.tensor(DW)), (torch.tensor(DX), torch.tensor(DW))
    theirs, cg = torch.autograd.functional, {"create_graph": create_graph}
    same(functional.jvp(F, (x, w), v, **cg), theirs.jvp(TF, (tx, tw), tv, **cg))
    same(functional.vjp(F, (x, w), v[0], **cg), theirs.vjp(TF, (tx, tw), tv[0], **cg))
    same(functional.hvp(S, (x, w), v, **cg), theirs.hvp(TS, (tx, tw), tv, **cg))
    same(functional.vhp(S, (x, w), v, **cg), theirs.vhp(TS, (tx, tw), tv, **cg))
    same(functional.jacobian(F, (x, w), **cg), theirs.jacobian(TF, (tx, tw), **cg))
    one, t_one = lambda x: F(x, w.detach()), lambda x: TF(x, tw.detach())
    same(functional.jacobian(one, x, **cg), theirs.jacobian(t_one, tx, **cg))
    same(functional.jacobian(one, x, strategy="forward-mode"), theirs.jacobian(t_one, tx))
    same(functional.hessian(S, (x, w), **cg), theirs.hessian(TS, (tx, tw), **cg))
    forward = functional.hessian(S, (x, w), outer_jacobian_strategy="forward-mode")
    same(forward, theirs.hessian(TS, (tx, tw)))


def test_one_element_needs_no_vector():
    x = jitgrad.tensor([3.0])
    assert [t.tolist() for t in functional.jvp(lambda x: x * x, x)] == [[9], [6]]
    assert functional.hvp(lambda x: (x ** 3).sum(), x)[1].tolist() == [18]
    with pytest.raises(RuntimeError, match="can only be None"):
        functional.vjp(lambda x: x, jitgrad.ones(2))


def test_errors():
    x = jitgrad.ones(2)
    with pytest.raises(RuntimeError, match="strict mode"):
        functional.vjp(lambda x: jitgrad.ones(2), x, x, strict=True)
    with pytest.raises(RuntimeError, match="single element"):
        functional.hessian(lambda x: x, x)
    with pytest.raises(TypeError, match="index 1"):
        functional.jacobian(lambda x, n: x, (x, 3))
    with pytest.raises(ValueError, match="strategy"):
        functional.jacobian(lambda x: x, x, strategy="sideways")
