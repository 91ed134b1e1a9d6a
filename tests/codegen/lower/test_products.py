"""Sums of matrix products in place: the same values as the interpreter, and no kernels or buffers for the sum."""

import numpy as np
import pytest

import jitgrad
from jitgrad import dtypes
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.steps import GemmStep, IfStep, KernelStep, LoopStep
from jitgrad.ops.types import INT, SeqType
from jitgrad.script.graph.ir import Block, Builder, Value
from jitgrad.script.graph.namespace import GraphNamespace
from jitgrad.script.passes import pipeline
from tests.codegen.programs import agree, graph, sizes, tensor


def steps_of(program):
    """Every step, nested ones too."""
    found, stack = [], [program.steps]
    while stack:
        for step in stack.pop():
            found.append(step)
            if isinstance(step, LoopStep):
                stack.append(step.body)
            elif isinstance(step, IfStep):
                stack += [step.then, step.otherwise]
    return found


def counts(g):
    """(products made in place, other products, kernels)."""
    steps = steps_of(lower("f", g))
    gemms = [s.accumulate for s in steps if isinstance(s, GemmStep)]
    return sum(gemms), len(gemms) - sum(gemms), sum(isinstance(s, KernelStep) for s in steps)


def data(*shapes, dtype=np.float64):
    rng = np.random.default_rng(5)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


N, M, K = sizes("N M K")
A, B, C = tensor(N, K, dtype=dtypes.float64), tensor(K, M, dtype=dtypes.float64), tensor(N, M, dtype=dtypes.float64)

STRAIGHT = {
    "two products": (lambda F, a, b, c: F.add(F.matmul(a, b), F.matmul(F.mul(a, 2.0), b)), (1, 1)),
    "a chain": (lambda F, a, b, c: F.add(F.matmul(F.neg(a), b), F.add(F.matmul(a, b), F.matmul(F.mul(a, 2.0), b))),
                (2, 1)),
    "the sum is read": (lambda F, a, b, c: F.tanh(F.add(F.matmul(a, b), F.matmul(F.exp(a), b))), (1, 1)),
    "the sum is read and returned": (
        lambda F, a, b, c: (lambda s: (s, F.mul(s, s)))(F.add(F.matmul(a, b), F.matmul(F.exp(a), b))), (1, 1)),
    "an input stays": (lambda F, a, b, c: F.add(c, F.matmul(a, b)), (0, 1)),
    "a repeated operand": (lambda F, a, b, c: F.add(F.sum(c, axes=(0,), keepdim=True), F.matmul(a, b)), (0, 1)),
    "a product read twice": (lambda F, a, b, c: (lambda p: (F.add(p, F.matmul(F.exp(a), b)), p))(F.matmul(a, b)),
                             (0, 2)),
    "twice a product": (lambda F, a, b, c: (lambda p: F.add(p, p))(F.matmul(a, b)), (0, 1)),
    "a transposed product": (
        lambda F, a, b, c: F.add(F.permute(F.matmul(a, b), axes=(1, 0)),
                                 F.matmul(F.permute(b, axes=(1, 0)), F.permute(F.exp(a), axes=(1, 0)))), (1, 1)),
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_straight_line(name):
    body, expected = STRAIGHT[name]
    g = pipeline.run(graph(body, A, B, C))
    assert counts(g)[:2] == expected
    for n, k, m in ((3, 4, 5), (0, 4, 5), (3, 0, 5)):
        agree(g, data((n, k), (k, m), (n, m)), 1e-12)


def test_batches():
    P, Q = sizes("P Q")
    left, right = tensor(P, Q, N, K), tensor(P, 1, K, M)
    g = graph(lambda F, a, b: F.add(F.matmul(a, b), F.matmul(F.exp(a), b)), left, right)
    assert counts(g)[:2] == (1, 1)
    agree(g, data((2, 3, 4, 5), (2, 1, 5, 6), dtype=np.float32), 1e-4)


def test_integers_and_half_are_added_by_a_kernel():
    for d in (dtypes.int64, dtypes.float16, dtypes.bfloat16):
        a, b = tensor(N, K, dtype=d), tensor(K, M, dtype=d)
        g = graph(lambda F, a, b: F.add(F.matmul(a, b), F.matmul(F.neg(F.neg(F.mul(a, a))), b)), a, b)
        assert counts(g)[0] == 0
        agree(g, [np.ones((2, 3), d.np), np.ones((3, 4), d.np)], 1e-3)


def loop(body, inits):
    """n times `body(F, *carries, *inputs)` -> carries, then what is kept of each iteration."""
    def make(F, n, *inputs):
        carries = [i.value for i in inits(F, *inputs)]
        params = tuple(Value(c.type, f"c{j}") for j, c in enumerate(carries))
        inner = Builder(Block((Value(INT, "k"), *params)))
        G = GraphNamespace(inner)
        results = [r.value for r in body(G, *[G.wrap(p) for p in params], *[G.wrap(i.value) for i in inputs])]
        inner.block.results = tuple(results)
        types = [p.type for p in params] + [SeqType(r.type) for r in results[len(params):]]
        return F.builder.emit("scan", (n, *carries), blocks=(inner.block,), n_carries=len(params), reverse=False,
                              types=types)

    return make


def zeros(F, a, b, c):
    return (F.zeros_like(c),)


def given(F, a, b, c):
    return (c,)


LOOPS = {
    "a gradient": (lambda F, acc, a, b, c: (F.add(acc, F.matmul(a, b)),), zeros, (1, 0)),
    "the other way round": (lambda F, acc, a, b, c: (F.add(F.matmul(a, b), acc),), zeros, (1, 0)),
    "an input is the start": (lambda F, acc, a, b, c: (F.add(acc, F.matmul(a, b)),), given, (1, 0)),
    "the sum is read in the body": (
        lambda F, acc, t, a, b, c: (lambda s: (s, F.add(t, F.tanh(s))))(F.add(acc, F.matmul(a, b))),
        lambda F, a, b, c: (F.zeros_like(c), c), (1, 0)),
    "the carry is read in the body": (
        lambda F, acc, t, a, b, c: (F.add(acc, F.matmul(a, b)), F.add(t, F.tanh(acc))),
        lambda F, a, b, c: (F.zeros_like(c), c), (0, 1)),
    "the carry is the next of another": (
        lambda F, acc, t, a, b, c: (F.add(acc, F.matmul(a, b)), acc),
        lambda F, a, b, c: (F.zeros_like(c), c), (0, 1)),
    "the sum is the next of two": (
        lambda F, acc, t, a, b, c: (lambda s: (s, s))(F.add(acc, F.matmul(a, b))),
        lambda F, a, b, c: (F.zeros_like(c), c), (0, 1)),
    "the sums are kept": (
        lambda F, acc, a, b, c: (lambda s: (s, s))(F.add(acc, F.matmul(a, b))), zeros, (0, 1)),
    "the product depends on another carry": (
        lambda F, acc, t, a, b, c: (F.add(acc, F.matmul(t, b)), F.mul(t, 0.5)),
        lambda F, a, b, c: (F.zeros_like(c), a), (1, 0)),
    "two products": (
        lambda F, acc, a, b, c: (F.add(acc, F.add(F.matmul(a, b), F.matmul(F.exp(a), b))),), zeros, (1, 1)),
    "one product after the other": (
        lambda F, acc, a, b, c: (F.add(F.add(acc, F.matmul(a, b)), F.matmul(F.exp(a), b)),), zeros, (0, 2)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name):
    body, inits, expected = LOOPS[name]
    g = graph(loop(body, inits), INT, A, B, C)
    assert counts(g)[:2] == expected
    for n in (0, 1, 4):
        agree(g, [n, *data((3, 4), (4, 5), (3, 5))], 1e-12, passes=False)  # which would hoist the product


def nested(xs, h, w, v):
    total = h.sum() * 0
    for t in range(xs.shape[0]):
        for k in range(3):
            h = (xs[t].mm(v) + h.mm(w)).tanh()
            if k == 1:
                h = h + h.mm(w)
        total = total + h.sum() * t
    return total


def test_gradients_of_nested_loops():
    xs, h, w, v = data((4, 2, 3), (2, 5), (5, 5), (3, 5))
    results = []
    for function in (nested, jitgrad.script(nested)):
        leaves = [jitgrad.from_numpy(a.copy()).requires_grad_() for a in (xs, h, w, v)]
        function(*leaves).backward()
        results.append([leaf.grad.numpy() for leaf in leaves])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_a_sum_that_is_two_outputs():
    body, inits, _ = LOOPS["a gradient"]
    once = loop(body, inits)
    g = graph(lambda F, *inputs: (lambda s: (s, s, F.neg(F.wrap(s))))(once(F, *inputs)[0]), INT, A, B, C)
    agree(g, [3, *data((3, 4), (4, 5), (3, 5))], 1e-12, passes=False)


def test_heads_of_a_projection_are_read_where_they_are():
    def scores(x, w):
        n, t, c = x.shape
        q, k, v = [p.reshape(n, t, 4, c // 4).transpose(1, 2) for p in (x @ w).chunk(3, -1)]
        return (q @ k.transpose(2, 3)) @ v

    x, w = (jitgrad.from_numpy(a) for a in data((2, 6, 8), (8, 24)))
    f = jitgrad.script(scores)
    np.testing.assert_allclose(f(x, w).numpy(), scores(x, w).numpy(), rtol=1e-12)
    assert not f.kernels(x, w)


def test_a_loop_turns_a_matrix_once():
    def body(xs, h, w):
        for t in range(xs.shape[0]):
            h = (xs[t] + h.mm(w.t())).tanh()
        return h.sum()

    xs, h, w = data((4, 3, 5), (3, 5), (5, 5))
    leaves = [[jitgrad.from_numpy(a.copy()).requires_grad_() for a in (xs, h, w)] for _ in range(2)]
    f = jitgrad.script(body)
    for function, given in zip((body, f), leaves, strict=True):
        function(*given).backward()
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-9)
    steps = lower("f", pipeline.run(f.graph_for(*leaves[0]))).steps
    inner = [s for step in steps if isinstance(step, LoopStep) for s in step.body if isinstance(s, GemmStep)]
    assert inner
    assert not any(s.trans_b for s in inner)
    first = [isinstance(s, LoopStep) for s in steps].index(True)
    assert [s.kernel.name for s in steps[:first] if isinstance(s, KernelStep)].count("copy") >= 1
