"""Checkpointing: the same values, gradients and random numbers; less memory; in eager and in scripts."""

import gc
import tracemalloc

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from jitgrad.script.autodiff import differentiate
from jitgrad.script.graph.ir import walk
from jitgrad.utils.checkpoint import checkpoint, checkpoint_sequential

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 8)), RNG.normal(size=(8, 8)) * 0.5


def block(x, w):
    h = jitgrad.tanh(x @ w)
    h = nn.functional.dropout(jitgrad.exp(h), 0.3)
    return jitgrad.sin(h) * x, h.sum()


def plain(x, w):
    for _ in range(3):
        x, s = block(x, w)
        x = x + s * 0.01
    return x.pow(2).sum()


def saving(x, w):
    for _ in range(3):
        x, s = checkpoint(block, x, w, use_reentrant=False)
        x = x + s * 0.01
    return x.pow(2).sum()


def gradients(f, order=1):
    x, w = jitgrad.tensor(X, requires_grad=True), jitgrad.tensor(W, requires_grad=True)
    jitgrad.manual_seed(7)
    y = f(x, w)
    after = jitgrad.rand(2).tolist()
    if order == 2:
        gx, gw = jitgrad.autograd.grad(y, (x, w), create_graph=True)
        y = (gx * gx).sum() + gw.sum()
    y.backward()
    return y.item(), x.grad.numpy(), w.grad.numpy(), after, jitgrad.rand(2).tolist()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("mode", ["eager", "interpreted", "native"])
def test_same_values_gradients_and_random_numbers(mode, order):
    expected = gradients(plain, order)
    if mode == "eager":
        found = gradients(saving, order)
    else:
        with config.override(interpret=mode == "interpreted"):
            found = gradients(jitgrad.script(saving), order)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_script_saves_what_goes_into_the_regions():
    def saved(f):
        graph = jitgrad.script(f).graph_for(jitgrad.tensor(X, requires_grad=True), jitgrad.tensor(W,
                                                                                              requires_grad=True))
        d = differentiate(graph, (0, 1), (0,))
        return graph, [str(v.type) for v in d.residuals]

    def straight(x, w):
        y, s = block(x, w)
        return (y * y).sum() + s

    def marked(x, w):
        y, s = checkpoint(block, x, w)
        return (y * y).sum() + s

    graph, without = saved(marked)
    assert any(n.op == "region.begin" for n in walk(graph.block))
    tensors = [t for t in without if t.startswith("f64")]
    assert len(tensors) == 3  # x, w, and y, whose square is outside
    assert len([t for t in saved(straight)[1] if t[:3] in ("f64", "b8[")]) > 4


def test_parameters_and_captured_tensors_get_their_gradients():
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    scale = jitgrad.tensor(2.0, dtype=jitgrad.float64, requires_grad=True)
    x = jitgrad.tensor(X)
    hidden = jitgrad.sin(x * scale)

    def loss(run):
        net.zero_grad()
        scale.grad = None
        run().pow(2).sum().backward(retain_graph=True)
        return [p.grad.numpy() for p in (*net.parameters(), scale)]

    expected = loss(lambda: net(hidden) * hidden.sum())
    found = loss(lambda: checkpoint(lambda: net(hidden) * hidden.sum()))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    gradient = jitgrad.autograd.grad(checkpoint(net, x).sum(), net[0].weight)[0]
    assert gradient.shape == net[0].weight.shape


def test_sequential_nested_and_structures():
    net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(5)]).double()
    x = jitgrad.tensor(X, requires_grad=True)
    net(x).sum().backward()
    expected = [p.grad.numpy() for p in net.parameters()] + [x.grad.numpy()]
    for segments in (1, 2, 5):
        net.zero_grad()
        x.grad = None
        checkpoint_sequential(net, segments, x, use_reentrant=False).sum().backward()
        for a, b in zip([*(p.grad for p in net.parameters()), x.grad], expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12)
    y = checkpoint(lambda x: {"a": [checkpoint(jitgrad.sin, x)], "n": 3, "same": x}, x)
    assert y["n"] == 3
    assert y["same"] is x
    x.grad = None
    y["a"][0].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X))


def test_eager_keeps_less():
    def deep(x):
        for _ in range(50):
            x = jitgrad.sin(x)
        return x

    def kept(f):
        x = jitgrad.ones(10_000, requires_grad=True)
        gc.collect()
        tracemalloc.start()
        y = f(x)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        y.sum().backward()
        return size

    assert kept(lambda x: checkpoint(deep, x)) < kept(deep) / 20


def test_when_the_second_run_differs_and_after_release():
    sizes = iter([2, 3])
    y = checkpoint(lambda x: x[: next(sizes)] * 2, jitgrad.ones(5, requires_grad=True))
    with pytest.raises(RuntimeError, match="other shapes"):
        y.sum().backward()
    x = jitgrad.ones(5, requires_grad=True)
    y = checkpoint(lambda x: x * x, x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    with jitgrad.no_grad():
        assert not checkpoint(lambda x: x * x, x).requires_grad
    assert not checkpoint(lambda x: x * x, x.detach()).requires_grad


def test_modules_with_loops_and_branches_inside_a_script():
    layer = nn.Linear(8, 8).double()

    def step(x, n: int):
        for i in range(n):
            x = jitgrad.tanh(layer(x)) if i % 2 == 0 else x * 0.5
        if float(x.sum()) > 0:
            return x * x
        return x

    def f(x, n: int):
        y = checkpoint(step, x, n)
        return (checkpoint(step, y, n) * y).sum()

    for n in (0, 1, 4):
        for g in (f, jitgrad.script(f)):
            layer.zero_grad()
            x = jitgrad.tensor(X, requires_grad=True)
            g(x, n).backward()
            found = [x.grad.numpy(), None if layer.weight.grad is None else layer.weight.grad.numpy()]
            if g is f:
                expected = found
        assert (found[1] is None) == (expected[1] is None)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
        if found[1] is not None:
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-9)


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    from torch.utils import checkpoint as theirs

    x = torch.tensor(X, requires_grad=True)
    w = torch.tensor(W, requires_grad=True)
    theirs.checkpoint(lambda x, w: torch.sin(x @ w) * x, x, w, use_reentrant=False).sum().backward()
    ours_x, ours_w = jitgrad.tensor(X, requires_grad=True), jitgrad.tensor(W, requires_grad=True)
    checkpoint(lambda x, w: jitgrad.sin(x @ w) * x, ours_x, ours_w, use_reentrant=False).sum().backward()
    np.testing.assert_allclose(ours_x.grad.numpy(), x.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(ours_w.grad.numpy(), w.grad.numpy(), rtol=1e-12)


def test_hooks_run_once():
    seen = []
    x = jitgrad.tensor(X, requires_grad=True)
    h = x * 2
    x.register_hook(lambda g: seen.append("x"))
    h.register_hook(lambda g: seen.append("h"))

    def f(h, x):
        y = jitgrad.sin(h)
        y.register_hook(lambda g: seen.append("y"))
        return y * x

    f(h, x).sum().backward()
    expected, x.grad = x.grad.numpy(), None
    assert sorted(seen) == ["h", "x", "y"]
    seen.clear()
    h = x * 2
    h.register_hook(lambda g: seen.append("h"))
    checkpoint(f, h, x).sum().backward()
    assert sorted(seen) == ["h", "x", "y"]
    np.testing.assert_allclose(x.grad.numpy(), expected)
