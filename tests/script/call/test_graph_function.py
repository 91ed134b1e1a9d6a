"""A scripted call on the eager tape: the same gradients, of every order, and the same errors as eager."""

from __future__ import annotations

import pytest

import jitgrad
from jitgrad import autograd
from jitgrad.codegen.run.serial import pack, unpack


def tensor(*values):
    return jitgrad.tensor(list(values), dtype=jitgrad.float64, requires_grad=True)


def polynomial(x, w):
    return (x * x * w + w.sin()).sum()


def network(x, w):
    h = x
    for _ in range(3):
        h = (h * w).tanh() + x
    return (h * h).mean()


def branches(x, w):
    if x.sum() > 1:
        y = x.exp() * w
    else:
        y = x * w * w
    return y.sum()


def until(x, w):
    y = x
    while (y * y).sum() < 50:
        y = y * w + x
    return (y * w).sum()


PROGRAMS = [polynomial, network, branches, until]


def operands():
    return tensor(0.5, 1.25, -0.75), tensor(1.5, 2.0, 1.25)


def every_order(f):
    """Value, gradients, gradients of their weighted sum, and of that one's."""
    x, w = operands()
    value = f(x, w)
    first = autograd.grad(value, (x, w), create_graph=True)
    second = autograd.grad(sum((g * g).sum() for g in first), (x, w), create_graph=True)
    third = autograd.grad(sum(g.sum() for g in second), (x, w), allow_unused=True)
    return [value, *first, *second, *third]


def close(a, b):
    return len(a) == len(b) and all(
        (p is None and q is None) or jitgrad.allclose(p, q, rtol=1e-9, atol=1e-11) for p, q in zip(a, b, strict=True))


# --- gradients -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_orders_one_to_three(f):
    assert close(every_order(jitgrad.script(f)), every_order(f))


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_backward_with_create_graph(f):
    found = []
    for function in (f, jitgrad.script(f)):
        x, w = operands()
        function(x, w).backward(create_graph=True)
        gx, gw = x.grad, w.grad
        x.grad = w.grad = None
        (gx.sum() + (gw * gw).sum()).backward()
        found.append([gx, gw, x.grad, w.grad])
    assert close(*found)


def several(x, w):
    y = x * w
    return y.sum(), {"exp": w.exp(), "both": [y * y, x.sin()]}


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("order", [1, 2])
def test_some_of_several_outputs(wanted, order):
    found = []
    for function in (several, jitgrad.script(several)):
        x, w = operands()
        total, rest = function(x, w)
        outputs = [total, rest["exp"], *rest["both"]]
        loss = sum((outputs[i] * (i + 1)).sum() for i in wanted)
        grads = autograd.grad(loss, (x, w), create_graph=order == 2, allow_unused=True)
        if order == 2:
            terms = [(g * g).sum() for g in grads if g is not None and g.requires_grad]
            grads += autograd.grad(sum(terms), (x, w), allow_unused=True)
        found.append(grads)
    assert close(*found)


def test_cotangents_that_require_grad():
    found = []
    for function in (lambda x, w: x * w * w, jitgrad.script(lambda x, w: x * w * w)):
        x, w = operands()
        v = tensor(0.1, 0.2, 0.3)
        gx, gw = autograd.grad(function(x, w), (x, w), v, create_graph=True)
        found.append([gx, gw, *autograd.grad((gx * gw).sum(), (x, w, v))])
    assert close(*found)


def test_a_jacobian_vector_product_by_two_backwards():
    f = jitgrad.script(lambda x: x.exp() * x)
    x = tensor(0.5, 1.0)
    u = jitgrad.zeros(2, dtype=jitgrad.float64, requires_grad=True)
    (g,) = autograd.grad(f(x), x, u, create_graph=True)
    direction = jitgrad.tensor([1.0, 2.0], dtype=jitgrad.float64)
    (product,) = autograd.grad(g, u, direction)
    assert jitgrad.allclose(product, (x.exp() * (1 + x) * direction).detach())


def test_an_input_twice_and_an_input_that_is_not_reached():
    f = jitgrad.script(lambda a, b, c: ((a * b * b).sum(), c))
    a, c = tensor(2.0, 3.0), tensor(1.0)
    value, same = f(a, a, c)
    assert same is c
    value.backward()
    assert a.grad.tolist() == [12.0, 27.0]
    assert c.grad is None


def test_calls_outstanding_in_any_order():
    f = jitgrad.script(network)
    x, w = operands()
    losses = [f(x * k, w) for k in (1.0, 2.0, 3.0)]
    found = [autograd.grad(losses[i], w)[0] for i in (1, 2, 0)]
    expected = [autograd.grad(network(x * k, w), w)[0] for k in (2.0, 3.0, 1.0)]
    assert close(found, expected)


def test_views_and_inputs_that_are_returned_carry_gradients():
    def f(x):
        return x, x[1:], x.reshape(3, 1) * 2

    found = []
    for function in (f, jitgrad.script(f)):
        x, _ = operands()
        y = x * 1
        same, view, new = function(y)
        assert same is y
        (same.sum() + (view * view).sum() + new.sum()).backward()
        found.append([x.grad])
    assert close(*found)


def test_in_place_writes_to_an_argument_with_history():
    def f(y, w):
        y.mul_(w)
        y[0] = w[1] * 3
        return y.sum()

    found = []
    for function in (f, jitgrad.script(f)):
        x, w = operands()
        y = x * 2
        value = function(y, w)
        (value + (y * y).sum()).backward()
        found.append([value, y, x.grad, w.grad])
    assert close(*found)


# --- hooks ---------------------------------------------------------------------------------------------------------


def test_hooks_on_outputs_and_retained_gradients():
    found = []
    for function in (lambda x, w: x * w, jitgrad.script(lambda x, w: x * w)):
        x, w = operands()
        y = function(x, w)
        y.retain_grad()
        y.register_hook(lambda g: g * 10)
        (y * y).sum().backward()
        found.append([y.grad, x.grad, w.grad])
    assert close(*found)


# --- errors --------------------------------------------------------------------------------------------------------


def message(action):
    with pytest.raises(RuntimeError) as error:
        action()
    return str(error.value)


def test_backward_twice():
    texts = []
    for function in (network, jitgrad.script(network)):
        x, w = operands()
        loss = function(x, w)
        loss.backward(retain_graph=True)
        first = w.grad.clone()
        loss.backward()
        assert jitgrad.allclose(w.grad, first * 2)
        texts.append(message(loss.backward))
    assert texts[0] == texts[1]
    assert "Trying to backward through the graph a second time" in texts[0]


def test_an_argument_modified_before_backward():
    f = jitgrad.script(lambda x, w: (x * w).exp().sum())
    x, w = operands()
    y = x * 1
    loss = f(y, w)
    y.add_(1)
    assert "has been modified by an inplace operation" in message(loss.backward)


def test_an_argument_modified_before_a_second_order_backward():
    f = jitgrad.script(lambda x: x.tanh().sum())  # the first order reads the result only
    x = tensor(1.0, 2.0)
    y = x * 1
    loss = f(y)
    y.add_(1)
    text = message(lambda: autograd.grad(loss, x, create_graph=True))
    assert "has been modified by an inplace operation" in text
    assert "create_graph=True" in text


def test_orders_of_the_gradient_through_arguments_that_the_script_writes():
    def f(x, w):
        y = (x + w).sin()
        x.mul_(2)
        z = (y * x.exp()).sin()
        w.add_(x)
        return z.sum() + (w ** 3).sum()

    def orders(function):
        a, b = operands()
        x, w = a.clone(), b.clone()
        value = function(x, w) + (x * w).sum()
        found = []
        for _ in range(3):
            found.append(autograd.grad(value, (a, b), create_graph=True))
            value = sum((g * g).sum() for g in found[-1]) + (x * w).sum()
        return [g for order in found for g in order]

    scripted = jitgrad.script(f)
    for _ in range(2):
        for mine, theirs in zip(orders(f), orders(scripted), strict=True):
            assert jitgrad.allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_only_what_a_derivative_reads_is_kept():
    norm = jitgrad.nn.BatchNorm1d(3)
    x = jitgrad.ones(4, 3, requires_grad=True)
    first = jitgrad.script(lambda x: norm(x).sum()).specialise(x)
    assert first.function.writes
    assert not first.function.kept


def test_an_argument_that_no_gradient_reads_may_be_modified():
    f = jitgrad.script(lambda x: (x + 1).sum() * 2)
    x = tensor(1.0, 2.0)
    y = x * 1
    loss = f(y)
    y.add_(1)
    assert autograd.grad(loss, x, create_graph=True)[0].tolist() == [2.0, 2.0]


def test_no_history_without_need():
    f = jitgrad.script(polynomial)
    x, w = operands()
    assert f(x, w).requires_grad
    assert not f(x.detach(), w.detach()).requires_grad
    with jitgrad.no_grad():
        assert f(x, w).grad_fn is None
    assert f(x, w).grad_fn.name() == "polynomialBackward"


# --- bytes ---------------------------------------------------------------------------------------------------------


def test_pack():
    parts = [b"", b"abc", b"\0" * 9]
    assert unpack(pack(parts)) == parts
    with pytest.raises(ValueError, match="truncated"):
        unpack(pack(parts)[:-1])
