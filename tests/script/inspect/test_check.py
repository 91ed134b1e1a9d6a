"""`@script(check=True)`: right programs pass with their effects made once; planted bugs are found, with their line."""

from __future__ import annotations

import contextlib
import inspect
import io
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from jitgrad.codegen.llvm import module, scalars
from jitgrad.errors import CheckFailed
from jitgrad.ops import OPS
from jitgrad.script.autodiff import reverse
from jitgrad.script.frontend.library.backend import SymbolicBackend


def leaf(*values):
    return jitgrad.tensor(list(values), requires_grad=True)


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


# --- what is right ---------------------------------------------------------------------------------------------------


def test_effects_happen_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.norm = nn.BatchNorm1d(3)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            note(self.calls)
            print("called", self.calls)
            return nn.functional.dropout(self.norm(self.fc(x)), 0.5)

    seen = []

    @jitgrad.ignore
    def note(n: int) -> None:
        seen.append(n)

    jitgrad.manual_seed(0)
    plain = Model()
    jitgrad.manual_seed(0)
    model = Model()
    fast = jitgrad.script(model, check=True)
    x = jitgrad.randn(4, 3)
    found = []
    for each in (plain, fast):
        seen.clear()
        jitgrad.manual_seed(1)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = each(x)
            result.sum().backward()
        found.append((result.tolist(), out.getvalue(), list(seen), jitgrad.rand(1).item()))
    assert np.allclose(found[0][0], found[1][0], atol=1e-5)
    assert found[0][1:] == found[1][1:] == ("called 1\n", [1], found[0][3])
    assert model.calls == 1
    for a, b in zip(plain.state_dict().values(), model.state_dict().values(), strict=True):
        assert jitgrad.allclose(a, b)
    for a, b in zip(plain.parameters(), model.parameters(), strict=True):
        assert jitgrad.allclose(a.grad, b.grad, atol=1e-5)


def test_exceptions_and_in_place_writes():
    @jitgrad.script(check=True)
    def f(x, n: int):
        x.add_(1)
        print("added")
        if n > 2:
            raise ValueError(f"n is {n}")
        return x * n

    x = jitgrad.zeros(2)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert f(x, 2).tolist() == [2.0, 2.0]
        assert f(x, 2).tolist() == [4.0, 4.0]
        with pytest.raises(ValueError, match="n is 3"):
            f(x.double(), 3)
    assert x.tolist() == [2.0, 2.0]
    assert out.getvalue() == "added\n" * 3


def test_only_the_first_call_of_a_signature():
    ran = []

    @jitgrad.ignore(returns=lambda x: x)
    def seen(x):
        ran.append(1)
        return x * 2

    f = jitgrad.script(lambda x: seen(x), check=True)
    assert f.check
    f(leaf(1.0, 2.0))
    assert len(ran) == 2
    f(leaf(1.0, 2.0, 3.0))
    assert len(ran) == 3
    with config.override(check=True):
        assert jitgrad.script(lambda x: x * 2)(leaf(1.0)).tolist() == [2.0]


def test_ignored_functions_that_raise_and_that_call_others():
    seen = []

    @jitgrad.ignore
    def inner(n: int) -> None:
        seen.append(n)
        if n == 2:
            raise KeyError("two")

    @jitgrad.ignore
    def outer(n: int) -> int:
        inner(n)
        return n + 1

    @jitgrad.script(check=True)
    def f(n: int):
        inner(5)
        return outer(outer(n))

    with pytest.raises(KeyError, match="two"):
        f(1)
    assert seen == [5, 1, 2]


def test_a_whole_step():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    opt = jitgrad.optim.Adam(net.parameters(), lr=0.1)
    seen = []

    @jitgrad.ignore
    def log(step: int, loss: float) -> None:
        seen.append(step)
        print("step", step)

    @jitgrad.script(check=True)
    def step(x, y, k: int):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        log(k, loss.item())
        return loss

    x, y = jitgrad.randn(5, 3), jitgrad.tensor([0, 1, 0, 1, 1])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        losses = [step(x, y, k).item() for k in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert seen == [0, 1, 2, 3]
    assert out.getvalue() == "".join(f"step {k}\n" for k in range(4))


def test_a_gradient_that_is_only_possible():
    @jitgrad.script(check=True)
    def f(x, w, n: int):
        for _ in range(n):
            x = x * w
        return x

    f(jitgrad.ones(2), leaf(2.0, 3.0), 0)
    f(jitgrad.ones(2, 1), leaf(2.0, 3.0), 2)


def test_loops_gradients_and_nan():
    @jitgrad.script(check=True)
    def f(x, w, n: int):
        for i in range(n):
            x = (x @ w).tanh() if i % 2 else x * 1.5
            if bool(x.sum() > 50):
                break
        return x, [x.sum(), {"log": (x - 10).log()}], n, None

    f(jitgrad.ones(3, 2), jitgrad.ones(2, 2, requires_grad=True), 5)


# --- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def fresh(tmp_path):
    """Nothing that is planted gets into a cache."""
    with config.override(cache=""):
        yield


def program(x, w):
    a = x * w
    b = a.sin() + 1
    for _ in range(2):
        b = b - w.cos()
    return (b * a).sum()


def failing(function, *args):
    with pytest.raises(CheckFailed) as caught:
        jitgrad.script(function, check=True)(*args)
    return caught.value


def test_a_wrong_graph(monkeypatch):
    original = SymbolicBackend.apply

    def apply(self, op, operands, attrs):
        return original(self, OPS["cos"] if op.name == "sin" else op, operands, attrs)

    monkeypatch.setattr(SymbolicBackend, "apply", apply)
    x = jitgrad.tensor([1.0, 2.0])
    error = failing(program, x, leaf(3.0, 4.0))
    assert error.span.line == line_of(program, "a.sin()")
    assert "`program` compiled and as plain Python differ in the result" in str(error)
    assert "`b` is" in str(error)
    assert x.tolist() == [1.0, 2.0]


@pytest.fixture
def no_kept_kernels():
    """Kernels are printed, and not kept for others."""
    module.of_body.cache_clear()
    yield
    module.of_body.cache_clear()


def test_a_wrong_native_op(monkeypatch, no_kept_kernels):
    monkeypatch.setitem(scalars.EMIT, "cos", scalars.EMIT["sin"])
    error = failing(program, jitgrad.tensor([1.0, 2.0]), jitgrad.tensor([3.0, 4.0]))
    assert error.span.line == line_of(program, "w.cos()")
    assert "`cos` is" in str(error)


def test_a_wrong_derivative(monkeypatch):
    original = reverse.partial_vjp

    def wrong(op, needs, F, g, y, xs, attrs):
        results = original(op, needs, F, g, y, xs, attrs)
        return [r * 2 for r in results] if op is OPS["cos"] else results

    monkeypatch.setattr(reverse, "partial_vjp", wrong)
    error = failing(program, jitgrad.tensor([1.0, 2.0]), leaf(3.0, 4.0))
    assert error.span.line == line_of(program, "w.cos()")
    assert "the gradient of `w`" in str(error)
    assert "the gradient of `cos` is" in str(error)


def test_a_lost_effect(monkeypatch):
    from jitgrad.script.frontend.boundary import inputs

    monkeypatch.setattr(inputs.Inputs, "note_written", lambda self, storage: None)

    def f(x):
        x.add_(1)
        return x * 2

    x = jitgrad.zeros(2)
    error = failing(f, x)
    assert "differ in `x`" in str(error) or "differ in x" in str(error)
    assert x.tolist() == [0.0, 0.0]


def test_a_wrong_print(monkeypatch):
    from jitgrad.script.frontend.state import handlers

    monkeypatch.setitem(handlers.HANDLERS, print, lambda context, args, kwargs: None)

    def f(x):
        print("here")
        return x

    assert "what is printed: '', where plain Python prints 'here\\n'" in str(failing(f, jitgrad.ones(1)))


def test_lists_that_change():
    def f(xs, ys, n):
        xs[0] = n
        ys.append(n)
        return xs

    xs, ys = [1, 2], [3]
    assert jitgrad.script(f, check=True)(xs, ys, 5) is xs
    assert (xs, ys) == ([5, 2], [3, 5])
