"""autograd.Function against torch's."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from jitgrad.autograd import Function, once_differentiable
from tests.eager.both import check, error, jt, torch

PROGRAMS = {}


def program(fn):
    assert fn.__name__ not in PROGRAMS
    PROGRAMS[fn.__name__] = fn
    return fn


def leaf(t, *values):
    return t.tensor(values, dtype=t.float64).requires_grad_()


def once(t):
    return once_differentiable if t is jt else torch.autograd.function.once_differentiable


def square(t):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g * x

    return Square


@program
def basic(t):
    x = leaf(t, 1, 2, 3)
    y = square(t).apply(x)
    y.sum().backward()
    return [y, x.grad, "Square" in type(y.grad_fn).__name__, "Square" in y.grad_fn.name(), y.is_leaf]


@program
def setup_context(t):
    class Scale(t.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor, x + factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.factor = inputs
            ctx.save_for_backward(x, output[0])

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return g * ctx.factor + h * y / x, None

    x = leaf(t, 1, 2)
    y, z = Scale.apply(x, 3.0)
    (y * z).sum().backward()
    return [x.grad, y, z]


@program
def saved_output(t):
    class Exp(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y, None)
            return y

        @staticmethod
        def backward(ctx, g):
            y, nothing = ctx.saved_tensors
            assert nothing is None
            return g * y

    x = leaf(t, 0.1, 0.2)
    (g,) = t.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x)
    y = Exp.apply(x)
    y.mul_(2)
    return [g, h, error(lambda: y.sum().backward(), "modified by an inplace operation")]


@program
def double_backward(t):
    x = leaf(t, 1, 2, 3)
    (g,) = t.autograd.grad((square(t).apply(x) * x).sum(), x, create_graph=True)
    (h,) = t.autograd.grad((g * g).sum(), x, create_graph=True)
    (k,) = t.autograd.grad(h.sum(), x)
    return [g, h, k]


@program
def not_recorded(t):
    Square = square(t)
    x = leaf(t, 1, 2)
    with t.no_grad():
        y = Square.apply(x)
    return [y.requires_grad, Square.apply(x.detach()).requires_grad, Square.apply(x).requires_grad]


@program
def needs_input_grad(t):
    seen = []

    class Mul(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, c, name):
            seen.append(tuple(ctx.needs_input_grad))
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append(tuple(ctx.needs_input_grad))
            return (g * b if ctx.needs_input_grad[0] else None, g * a if ctx.needs_input_grad[1] else None, None, None)

    x = leaf(t, 1, 2)
    Mul.apply(x, x.detach() + 1, 3, "n").sum().backward()
    return [str(seen), x.grad]


@program
def broadcast_gradient_is_summed(t):
    class Add(t.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, g

    a, b = leaf(t, 1, 2), t.ones(3, 2, dtype=t.float64).requires_grad_()
    (Add.apply(a, b) * 2).sum().backward()
    return [a.grad, b.grad]


@program
def wrong_results(t):
    def make(result):
        class Bad(t.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return result(g)

        return Bad

    x = leaf(t, 1, 2)

    def run(result):
        return lambda: make(result).apply(x, 3).sum().backward()

    return [error(run(lambda g: g), "incorrect number of gradients (expected 2, got 1)"),
            error(run(lambda g: (g, None, g)), "incorrect number of gradients (expected 2, got 3)"),
            error(run(lambda g: (g, g)), "None at position 2, but the corresponding forward input was not a Variable"),
            error(run(lambda g: (t.ones(3), None)), "invalid gradient at index 0 - got [3] but expected shape"),
            error(run(lambda g: (g, None, None))), error(run(lambda g: (None, None)))]


@program
def materialized_gradients(t):
    seen = []

    def make(materialize):
        class Two(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(materialize)
                return x * 1, x * 2

            @staticmethod
            def backward(ctx, g, h):
                seen.append((g is None, None if h is None else h.tolist()))
                return g if g is not None else h

        return Two

    x = leaf(t, 1, 2)
    make(True).apply(x)[0].sum().backward()
    make(False).apply(x)[0].sum().backward()
    make(False).apply(x)[1].sum().backward()
    return [str(seen), x.grad]


@program
def not_differentiable_outputs(t):
    class SortBy(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            order = x.argsort()
            rank = order.double()
            ctx.mark_non_differentiable(order, rank)
            ctx.save_for_backward(order)
            return x[order], order, rank

        @staticmethod
        def backward(ctx, g, g_order, g_rank):
            (order,) = ctx.saved_tensors
            out = t.zeros(3, dtype=t.float64)
            out[order] = g
            return out

    x = leaf(t, 3, 1, 2)
    y, order, rank = SortBy.apply(x)
    (y * t.tensor([1.0, 10.0, 100.0], dtype=t.float64)).sum().backward()
    return [x.grad, y.requires_grad, order.requires_grad, rank.requires_grad]


@program
def dirty_input(t):
    class AddOne(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    x = leaf(t, 1, 2)
    y = x * 2
    z = AddOne.apply(y)
    out = [z is y, y]
    (z * z).sum().backward()
    v = x * 2
    AddOne.apply(v[0:1])
    (v * v).sum().backward()
    return [*out, x.grad, error(lambda: AddOne.apply(x), "leaf Variable that requires grad")]


@program
def identity(t):
    class Reverse(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    x = leaf(t, 1, 2)
    y = Reverse.apply(x)
    (y * 3).sum().backward()
    z = Reverse.apply(x.view(1, 2))
    z.sum().backward()
    return [y is x, x.grad, x.requires_grad, x.is_leaf]


@program
def second_backward(t):
    x = leaf(t, 1, 2)
    y = square(t).apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad, error(y.backward, "Trying to backward through the graph a second time")]


@program
def once_only(t):
    class Cube(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x ** 3

        @staticmethod
        @once(t)
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            assert not t.is_grad_enabled()
            return 3 * g * x * x

    x = leaf(t, 1, 2)
    Cube.apply(x).sum().backward()
    (g,) = t.autograd.grad((Cube.apply(x) ** 2).sum(), x, create_graph=True)
    return [x.grad, g, error(lambda: g.sum().backward(), "marked with @once_differentiable")]


@program
def grad_mode_inside(t):
    seen = []

    class Look(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(t.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append((t.is_grad_enabled(), g.requires_grad))
            return g * 2

    x = leaf(t, 1)
    Look.apply(x).backward()
    y = Look.apply(x)
    t.autograd.grad((y * y).sum(), x, create_graph=True)
    return [str(seen)]


@program
def inner_gradient(t):
    """A backward that differentiates its own forward: checkpointing."""
    class Checkpoint(t.autograd.Function):
        @staticmethod
        def forward(ctx, fn, x):
            ctx.fn = fn
            ctx.save_for_backward(x)
            return fn(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with t.enable_grad():
                x = x.detach().requires_grad_()
                y = ctx.fn(x)
            return None, t.autograd.grad(y, x, g)[0]

    x = leaf(t, 0.1, 0.2)
    Checkpoint.apply(lambda v: (v.exp() * v).sin(), x).sum().backward()
    return [x.grad]


@program
def straight_through(t):
    class Round(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(t, 0.4, 1.6)
    (Round.apply(x) * x).sum().backward()
    return [x.grad]


@program
def clipped_relu_of_the_tutorial(t):
    class Relu(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            g = g.clone()
            g[x < 0] = 0
            return g

    x = leaf(t, -1, 2, -3, 4)
    (Relu.apply(x) ** 2).sum().backward()
    return [x.grad]


@program
def not_implemented(t):
    class Empty(t.autograd.Function):
        pass

    class NoBackward(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    x = leaf(t, 1)
    return [error(lambda: Empty.apply(x), "must implement the forward function"),
            error(lambda: NoBackward.apply(x).backward(), "must implement either the backward")]


@pytest.mark.skipif(torch is None, reason="torch is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name):
    check(PROGRAMS[name])


def test_node_does_not_hold_its_saved_output():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    gc.disable()
    try:
        x = jt.ones(3).requires_grad_()
        y = Exp.apply(x)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_gradient_is_not_shared_with_the_saved_tensor():
    class Constant(Function):
        @staticmethod
        def forward(ctx, x, c):
            ctx.save_for_backward(c)
            return (x * c).sum()

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0], None

    x, c = jt.ones(3).requires_grad_(), jt.ones(3)
    Constant.apply(x, c).backward()
    x.grad.zero_()
    assert c.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(x.grad.numpy(), 0)
