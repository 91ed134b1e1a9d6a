"""`autograd.Function` in scripts: its own backward, compiled; the same as eager's in values, gradients and refusals."""

import numpy as np
import pytest

import jitgrad
from jitgrad import config, func
from jitgrad.autograd import Function, once_differentiable
from jitgrad.errors import ScriptError


class Tripled(Function):
    """A square whose derivative is wrong on purpose, so that nobody can mistake whose it is."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x


class Several(Function):
    @staticmethod
    def forward(ctx, a, b, k):
        ctx.k = k
        ctx.save_for_backward(a, b)
        larger = a > b
        ctx.mark_non_differentiable(larger)
        return a * b * k, a + b, larger

    @staticmethod
    def backward(ctx, g1, g2, _):
        a, b = ctx.saved_tensors
        ga = g1 * b * ctx.k + g2 if ctx.needs_input_grad[0] else None
        gb = g1 * a * ctx.k + g2 if ctx.needs_input_grad[1] else None
        return ga, gb, None


class Exp(Function):
    @staticmethod
    def forward(x):
        return jitgrad.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Nested(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Tripled.apply(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * Exp.apply(x * 0.1)


class Clipped(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g.clamp(-0.1, 0.1)


class Intermediate(Function):
    """Saves what forward computed on the way: no history leads through it."""

    @staticmethod
    def forward(ctx, x, w):
        h = jitgrad.sin(x @ w)
        ctx.save_for_backward(h, w)
        return h.sum(dim=1)

    @staticmethod
    def backward(ctx, g):
        h, w = ctx.saved_tensors
        return (g.unsqueeze(1) * h) @ w.t(), None


class LoopInBackward(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        for i in range(x.shape[0]):
            g = g + jitgrad.sin(x) * g * i
        if float(x.sum()) > 0:
            g = g * 2
        return g


def once(x):
    return Tripled.apply(x).sum()


def several(x):
    p, q, larger = Several.apply(x, x * 2, 3.0)
    return (p * q).sum() + jitgrad.where(larger, x, x * 0).sum()


def constant(x):
    p, q, _ = Several.apply(x.detach(), x, 2.0)
    return (p * q).sum()


def loop(x):
    for i in range(4):
        x = Tripled.apply(x) * 0.3 if i % 2 == 0 else Exp.apply(x * 0.1)
    return x.sum()


def nested(x):
    return Nested.apply(x).sum() + Exp.apply(x * 0.1).sum()


def intermediate(x):
    w = x.reshape(1, 3).expand(3, 3)
    return (Intermediate.apply(x.reshape(1, 3), w) * x).sum()


def inner(x):
    return (LoopInBackward.apply(x) * x).sum()


def unused(x):
    Tripled.apply(x)
    return (x * 2).sum()


def clipped(x):
    return (Clipped.apply(x) * x).sum()


def gradients(f, order=1):
    x = jitgrad.tensor([0.5, -1.2, 2.0], dtype=jitgrad.float64, requires_grad=True)
    y = f(x)
    if order == 2:
        (g,) = jitgrad.autograd.grad(y, x, create_graph=True)
        y = (g * g * jitgrad.tensor([1.0, 2.0, 3.0], dtype=jitgrad.float64)).sum()
    y.backward()
    return y.item(), x.grad.numpy()


@pytest.mark.parametrize("interpreted", [True, False])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("f", [once, several, constant, loop, nested, intermediate, inner])
def test_as_eager(f, order, interpreted):
    expected = gradients(f, order)
    with config.override(interpret=interpreted):
        found = gradients(jitgrad.script(f), order)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_first_order_only():
    for f in (clipped, unused):
        for a, b in zip(gradients(jitgrad.script(f)), gradients(f), strict=True):
            np.testing.assert_allclose(a, b)
    for f in (clipped, jitgrad.script(clipped)):
        with pytest.raises(RuntimeError if f is clipped else ScriptError, match="once_differentiable"):
            gradients(f, 2)


def test_one_program_for_all_sizes_and_without_gradients():
    f = jitgrad.script(lambda x, k: Several.apply(x, x * 2, k)[0].sum())
    for n, k in ((2, 1.0), (5, 2.0), (3, -1.0)):
        x = jitgrad.ones(n, requires_grad=True)
        f(x, k).backward()
        assert x.grad.tolist() == [4 * k] * n
    assert f.cache_info().compilations == 1
    assert f(jitgrad.ones(2), 1.0).item() == 4
    with jitgrad.no_grad():
        assert not f(jitgrad.ones(2, requires_grad=True), 1.0).requires_grad


def test_in_a_step_in_jvp_and_in_text():
    @jitgrad.script
    def step(x):
        loss = Tripled.apply(x).sum()
        loss.backward()
        return loss

    x = jitgrad.tensor([1.0, 2.0], requires_grad=True)
    step(x)
    assert x.grad.tolist() == [3, 6]
    f = jitgrad.script(once)
    x = jitgrad.tensor([1.0, 2.0])
    assert func.jvp(f, (x,), (jitgrad.ones(2),))[1].item() == 9
    f(x.requires_grad_())
    assert "custom" in str(f.graph)


class Dirty(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g


class Noisy(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        print("backward")
        return g


class InABranch(Function):
    @staticmethod
    def forward(ctx, x):
        if float(x.sum()) > 0:
            ctx.scale = 2.0
        else:
            ctx.scale = 3.0
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * ctx.scale


@pytest.mark.parametrize(("cls", "message"), [
    (Dirty, "mark_dirty"), (Noisy, "prints"), (InABranch, "inside a branch or loop of a `Function`")])
def test_refusals(cls, message):
    with pytest.raises(ScriptError, match=message):
        jitgrad.script(lambda x: cls.apply(x).sum())(jitgrad.ones(2, requires_grad=True))


class Half(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        _, b = ctx.saved_tensors
        return g * b * b, None


def test_what_a_backward_reads_is_reached_by_the_second_order():
    def function(w, a, b):
        return Half.apply(a, b).sum() * w

    found = []
    for run in (function, jitgrad.script(function)):
        leaves = [jitgrad.full((2,), v, requires_grad=True) for v in (2.0, 1.0, 3.0)]
        grads = jitgrad.autograd.grad(run(*leaves).sum(), leaves, create_graph=True, allow_unused=True)
        assert grads[2] is None
        sum((g ** 2).sum() for g in grads if g is not None).backward()
        found.append([x.grad.tolist() for x in leaves])
    assert found[0] == found[1]
