"""Long loops in segments: same gradients, memory for the square root of the iterations."""

import gc
import itertools
import tracemalloc

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.script.autodiff.segments import split_loops
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import walk
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes import pipeline
from tests.script.gradients import cotangents_for, gradients
from tests.script.graphs import random_graph


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("segments", [True, 3])
def test_random_programs(seed, segments):
    case = random_graph(seed, size=4, depth=2)
    graph = split_loops(case.graph, segments)
    verify(graph)
    for a, b in zip(interpret(graph, case.inputs), interpret(case.graph, case.inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    cotangents = cotangents_for(case.graph, case.inputs, case.outputs)
    expected = gradients(case.graph, case.inputs, case.floats, case.outputs, cotangents)
    for program in (graph, pipeline.prepare(graph)):
        found = gradients(program, case.inputs, case.floats, case.outputs, cotangents)
        for (a, reached), (b, also) in zip(expected, found, strict=True):
            assert reached == also
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def recurrent(x, w, n: int):
    """A `for` whose number of iterations is known before it."""
    h = x
    for i in range(n):
        h = jitgrad.tanh(h @ w + x) * (0.9 if i % 2 == 0 else 0.8)
    return (h * h).sum()


def noisy(x, w, n: int):
    """A `while` that draws random numbers."""
    h = x
    i = 0
    while float(h.sum()) > -1e9 and i < n:
        h = jitgrad.tanh(h @ w + x) + jitgrad.rand(4, 8, dtype=jitgrad.float64) * 0.1
        i += 1
    return (h * h).sum()


def leaving(x, w, n: int):
    """A `for` with a branch that leaves it, and a nested loop."""
    h = x
    for i in range(n):
        for _ in range(2):
            h = jitgrad.tanh(h @ w + x)
        if float(h.abs().sum()) < 1e-3 or i > 35:
            break
    return (h * h).sum()


RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 8)), RNG.normal(size=(8, 8)) * 0.4


def run(f, n, measure=False):
    """Value, gradients, and (when asked) the bytes that are kept after the forward, and the peak."""
    x, w = jitgrad.tensor(X, requires_grad=True), jitgrad.tensor(W, requires_grad=True)
    jitgrad.manual_seed(3)
    if measure:
        gc.collect()
        tracemalloc.start()
    y = f(x, w, n)
    if measure:
        gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    y.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    gradients = [np.zeros(0) if t.grad is None else t.grad.numpy() for t in (x, w)]
    return y.item(), *gradients, kept, peak


@pytest.mark.parametrize("f", [recurrent, noisy, leaving])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 50])
def test_gradients_are_those_of_the_plain_loop(f, n):
    expected = run(f, n)
    for remat in (True, "sqrt", 5):
        for interpreted in (True, False):
            with config.override(interpret=interpreted):
                found = run(jitgrad.script(f, remat=remat), n)
            for a, b in zip(found[:3], expected[:3], strict=True):
                assert np.shape(a) == np.shape(b)
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [recurrent, noisy])
def test_memory_grows_like_the_square_root(f):
    """Four times the iterations: twice the memory, four times without."""
    with config.override(interpret=True):
        split, plain = jitgrad.script(f, remat=True), jitgrad.script(f)
        run(split, 3)
        run(plain, 3)
        sizes = [run(split, n, measure=True)[3:] for n in (50, 200, 800)]
        straight = [run(plain, n, measure=True)[3] for n in (100, 400)]
    assert straight[1] > 3.5 * straight[0]
    for (kept, peak), (kept4, peak4) in itertools.pairwise(sizes):
        assert kept4 < 2.3 * kept
        assert peak4 < 2.3 * peak
    assert sizes[0][1] < straight[0]


def test_second_order():
    def double(f, n):
        x, w = jitgrad.tensor(X, requires_grad=True), jitgrad.tensor(W, requires_grad=True)
        gx, gw = jitgrad.autograd.grad(f(x, w, n), (x, w), create_graph=True)
        (gx.sum() * gw.pow(2).sum()).backward()
        return x.grad.numpy(), w.grad.numpy()

    for a, b in zip(double(jitgrad.script(recurrent, remat=True), 9), double(recurrent, 9), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_one_program_for_all_lengths_and_modes():
    f = jitgrad.script(recurrent, remat=True)
    for n in (1, 5, 30, 200):
        run(f, n)
    assert f.cache_info().compilations == 1
    with jitgrad.no_grad():
        graph = f.graph_for(jitgrad.tensor(X), jitgrad.tensor(W), 3)
    assert not any(n.op == "region.begin" for n in walk(graph.block))
    assert any(n.op == "region.begin" for n in walk(f.graph_for(jitgrad.tensor(X, requires_grad=True),
                                                                jitgrad.tensor(W, requires_grad=True), 3).block))


def test_modules_methods_and_errors():
    class Net(jitgrad.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = jitgrad.nn.Parameter(jitgrad.tensor(W))

        def forward(self, x):
            return recurrent(x, self.w, 20)

    net = Net()
    for scripted in (jitgrad.script(net, remat=True), jitgrad.script(remat=4)(net.forward)):
        net.zero_grad()
        scripted(jitgrad.tensor(X)).backward()
        np.testing.assert_allclose(net.w.grad.numpy(), run(recurrent, 20)[2], rtol=1e-9)
    for wrong in (0, -1, "cbrt", 2.5):
        with pytest.raises(ValueError, match="remat is True"):
            jitgrad.script(recurrent, remat=wrong)
