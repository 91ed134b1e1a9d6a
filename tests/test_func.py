"""Derivatives as functions: values against torch.func where it is installed, history, structure, errors."""

import numpy as np
import pytest

import jitgrad
from jitgrad import config, func

try:
    import torch
except ImportError:
    torch = None

against_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

RNG = np.random.default_rng(0)
X, W, DX, DW = (RNG.normal(size=s) for s in ((2, 3), (3, 3), (2, 3), (3, 3)))


def recurrent(m):
    """A loop with a branch, two outputs."""
    def f(x, w):
        h = x
        i = 0
        while i < 4:
            h = m.tanh(h @ w) + x
            h = m.sin(h) if i > 1 else h * h
            i += 1
        return h, (h * h).sum()

    return f


def newton(a):
    x = a
    steps = 0
    while bool((x * x - a).abs().max() > 1e-9) and steps < 100:
        x = (x + a / x) / 2
        steps += 1
    return x


def total(f):
    return lambda *args: f(*args)[1]


def tensors(*arrays):
    return tuple(jitgrad.tensor(a) for a in arrays)


def same(found, expected):
    if isinstance(expected, (tuple, list)):
        assert type(found) is type(expected)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
        return
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-8, atol=1e-10)
    assert found.requires_grad == expected.requires_grad


@pytest.fixture(params=["eager", "interpreted", "native"])
def f(request):
    """`recurrent` in the three ways of running it."""
    if request.param == "eager":
        yield recurrent(jitgrad)
    else:
        with config.override(interpret=request.param == "interpreted"):
            yield jitgrad.script(recurrent(jitgrad))


def differences(f, primals, tangents, step=1e-6):
    high = f(*(x + step * t for x, t in zip(primals, tangents, strict=True)))
    low = f(*(x - step * t for x, t in zip(primals, tangents, strict=True)))
    return [(a - b) / (2 * step) for a, b in zip(high, low, strict=True)]


def test_jvp_against_differences(f):
    primals, tangents = tensors(X, W), tensors(DX, DW)
    y, t = func.jvp(f, primals, tangents)
    for a, b in zip(y, recurrent(jitgrad)(*primals), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    for a, b in zip(t, differences(recurrent(jitgrad), primals, tangents), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-7)
    assert not any(v.requires_grad for v in (*y, *t))


@against_torch
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_against_torch(f):
    g = recurrent(torch)
    primals, tangents, theirs = tensors(X, W), tensors(DX, DW), (torch.tensor(X), torch.tensor(W))
    directions = torch.tensor(DX), torch.tensor(DW)
    same(func.jvp(f, primals, tangents), torch.func.jvp(g, theirs, directions))
    same(func.grad(total(f), (0, 1))(*primals), torch.func.grad(total(g), (0, 1))(*theirs))
    same(func.grad_and_value(total(f))(*primals), torch.func.grad_and_value(total(g))(*theirs))
    y, pull = func.vjp(f, *primals)
    y2, pull2 = torch.func.vjp(g, *theirs)
    same(y, y2)
    cotangents = jitgrad.tensor(DX), jitgrad.tensor(2.0, dtype=jitgrad.float64)
    same(pull(cotangents), pull2((directions[0], torch.tensor(2.0, dtype=torch.float64))))
    same(pull(cotangents), pull2((directions[0], torch.tensor(2.0, dtype=torch.float64))))
    for ours, their in ((func.jacrev, torch.func.jacrev), (func.jacfwd, torch.func.jacfwd)):
        same(ours(f, (0, 1))(*primals), their(g, (0, 1))(*theirs))
        same(ours(f, 1)(*primals), their(g, 1)(*theirs))
    same(func.hessian(total(f))(*primals), torch.func.hessian(total(g))(*theirs))


@against_torch
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_nested_in_every_order(f):
    g = recurrent(torch)
    primals, theirs = tensors(X, W), (torch.tensor(X), torch.tensor(W))
    tangents, directions = tensors(DX, DW), (torch.tensor(DX), torch.tensor(DW))
    same(func.jvp(func.grad(total(f), (0, 1)), primals, tangents),
         torch.func.jvp(torch.func.grad(total(g), (0, 1)), theirs, directions))

    def slope(transform, h, w, dx, dw):
        return lambda x: transform.jvp(h, (x, w), (dx, dw))[1][1]

    same(func.grad(slope(func, f, primals[1], *tangents))(primals[0]),
         torch.func.grad(slope(torch.func, g, theirs[1], *directions))(theirs[0]))
    same(func.jvp(slope(func, f, primals[1], *tangents), primals[:1], tangents[:1]),
         torch.func.jvp(slope(torch.func, g, theirs[1], *directions), theirs[:1], directions[:1]))


@pytest.mark.parametrize("scripted", [False, True])
def test_newton(scripted):
    f = jitgrad.script(newton) if scripted else newton
    a, v = jitgrad.tensor([2.0, 3.0, 10.0], dtype=jitgrad.float64), jitgrad.tensor([1.0, -1.0, 0.5],
                                                                                 dtype=jitgrad.float64)
    y, t = func.jvp(f, (a,), (v,))
    np.testing.assert_allclose(y.numpy(), np.sqrt(a.numpy()))
    np.testing.assert_allclose(t.numpy(), v.numpy() / (2 * np.sqrt(a.numpy())), rtol=1e-6)


def test_third_derivative():
    x = jitgrad.tensor(0.7, dtype=jitgrad.float64)
    third = func.grad(func.grad(func.grad(lambda x: jitgrad.sin(x) * x)))(x)
    assert third.item() == pytest.approx(-3 * np.sin(0.7) - 0.7 * np.cos(0.7))
    forward = lambda f: lambda x: func.jvp(f, (x,), (jitgrad.ones_like(x),))[1]  # noqa: E731
    assert forward(forward(forward(lambda x: jitgrad.sin(x) * x)))(x).item() == pytest.approx(third.item())


def test_perturbations_are_not_confused():
    """d/dx of x * d/dy (x + y) is 1."""
    one = jitgrad.tensor(1.0)
    inner = lambda x: func.jvp(lambda y: x + y, (one,), (one,))[1]  # noqa: E731
    assert func.jvp(lambda x: x * inner(x), (one,), (one,))[1].item() == 1
    assert func.grad(lambda x: x * func.grad(lambda y: x + y)(one))(one).item() == 1


def test_history_is_kept_where_something_outside_is_differentiated():
    w = jitgrad.tensor(W, requires_grad=True)
    x = jitgrad.tensor(X)
    f = total(recurrent(jitgrad))
    g = func.grad(lambda x: f(x, w))(x)
    assert g.requires_grad
    expected = jitgrad.autograd.functional.jacobian(lambda w: func.grad(lambda x: f(x, w))(x).sum(), w.detach())
    g.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), expected.numpy(), rtol=1e-9)
    assert x.grad is None
    with jitgrad.no_grad():
        assert not func.grad(lambda x: f(x, w))(x).requires_grad
    value, gradient = func.value_and_grad(lambda x: f(x, w.detach()))(x)
    assert not value.requires_grad
    assert not gradient.requires_grad


def test_structures():
    x = jitgrad.tensor([1.0, 2.0])

    def f(batch):
        return {"sum": batch["a"].sum(), "both": [batch["a"] * batch["b"][0]]}

    batch = {"a": x, "b": (x * 3,)}
    y, t = func.jvp(f, (batch,), ({"a": x, "b": (x,)},))
    assert y["sum"].item() == 3
    assert t["both"][0].tolist() == [4, 16]
    g, aux = func.grad(lambda b: (f(b)["both"][0].sum(), "aux"), has_aux=True)(batch)
    assert g["b"][0].tolist() == [1, 2]
    assert aux == "aux"
    jacobian = func.jacrev(f)(batch)
    assert jacobian["both"][0]["b"][0].shape == (2, 2)
    assert func.jacfwd(f)(batch)["both"][0]["a"].tolist() == jacobian["both"][0]["a"].tolist()


def test_what_does_not_depend_on_the_input_has_zeros():
    x = jitgrad.tensor([1.0, 2.0])
    assert func.grad(lambda x: jitgrad.ones(()))(x).tolist() == [0, 0]
    assert func.jvp(lambda x: (x, jitgrad.ones(3)), (x,), (x,))[1][1].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="independent of the input"):
        func.jvp(lambda x: jitgrad.ones(3), (x,), (x,), strict=True)


def test_errors():
    x = jitgrad.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="scalar tensor, got tensor with 1 dims"):
        func.grad(lambda x: x)(x)
    with pytest.raises(RuntimeError, match="argnum=1, but only 1 positional"):
        func.grad(lambda x: x.sum(), 1)(x)
    with pytest.raises(RuntimeError, match="same shape"):
        func.jvp(lambda x: x, (x,), (jitgrad.ones(3),))
    with pytest.raises(RuntimeError, match="same dtype"):
        func.jvp(lambda x: x, (x,), (jitgrad.ones(2, dtype=jitgrad.float64),))
    with pytest.raises(RuntimeError, match="tuples"):
        func.jvp(lambda x: x, x, x)
    with pytest.raises(RuntimeError, match="python structure"):
        func.jvp(lambda x: x, (x,), (x, x))
    with pytest.raises(RuntimeError, match="floating point"):
        func.grad(lambda x: x.sum())(jitgrad.tensor([1, 2]))


def test_linearize():
    def f(x, w):
        return recurrent(jitgrad)(x, w)

    primals, tangents = [[jitgrad.tensor(v) for v in vs] for vs in ((X, W), (DX, DW))]
    output, along = func.linearize(f, *primals)
    expected = func.jvp(f, tuple(primals), tuple(tangents))
    for a, b in zip((*output, *along(*tangents)), (*expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(a, b)
    np.testing.assert_allclose(along(*[2 * t for t in tangents])[0], 2 * expected[1][0])


def test_modules_without_running_statistics():
    net = jitgrad.nn.Sequential(jitgrad.nn.Linear(3, 3), jitgrad.nn.Sequential(jitgrad.nn.BatchNorm1d(3)))
    assert func.replace_all_batch_norm_modules_(net) is net
    norm = net[1][0]
    assert (norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.track_running_stats) == (
        None, None, None, False)
    x = jitgrad.tensor(X).float()
    y = func.vmap(net)(jitgrad.stack([x, x + 1]))
    np.testing.assert_allclose(y[0].detach(), net(x).detach(), atol=1e-6)


def test_functionalize():
    def f(x):
        y = x * 2
        y[0] = 1
        return y

    x = jitgrad.tensor(X)
    np.testing.assert_allclose(func.functionalize(f)(x), f(x))
    with pytest.raises(RuntimeError, match="only the arguments 'mutations'"):
        func.functionalize(f, remove="all")


PATTERNS = [("b c (h w) -> b h w c", {"h": 2}), ("b c d -> (b c) d", {}), ("b ... -> ... b", {}),
            ("b c (h w) -> (h b) 1 (w c)", {"w": 3}), ("... (h w) -> h (... w)", {"h": 3}), ("b c d -> b c d", {}),
            ("(a b) c d -> a b c d", {"a": 1})]


@against_torch
@pytest.mark.parametrize(("pattern", "sizes"), PATTERNS)
def test_rearrange(pattern, sizes):
    """And in a script, with a gradient."""
    from functorch.einops.rearrange import rearrange

    x = RNG.normal(size=(2, 4, 6))
    expected = rearrange(torch.tensor(x), pattern, **sizes).numpy()

    def f(x):
        return func.rearrange(x, pattern, **sizes)

    for run in (f, jitgrad.script(f)):
        np.testing.assert_array_equal(run(jitgrad.tensor(x)), expected)


@pytest.mark.parametrize(("pattern", "sizes"), [("a b -> a b", {}), ("a b c -> a b", {}), ("a b (c d) -> a b c d", {}),
                                                ("a b (c d) -> a b c d", {"c": 4}), ("a b c", {}),
                                                ("(a (b) c -> a", {}),
                                                ("a a b -> a b", {}), ("a b c) -> a b c", {}), ("a b ? -> a b ?", {})])
def test_patterns_that_do_not_fit(pattern, sizes):
    with pytest.raises(ValueError, match=r"axis|axes|brackets|->"):
        func.rearrange(jitgrad.ones(2, 4, 6), pattern, **sizes)
    assert func.rearrange([jitgrad.zeros(2), jitgrad.ones(2)], "n k -> k n").tolist() == [[0, 1], [0, 1]]
