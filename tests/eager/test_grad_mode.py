"""no_grad and its kin, as context managers and decorators."""

from __future__ import annotations

import pytest

from tests.eager.both import check, error, jt, torch

PROGRAMS = {}


def program(fn):
    assert fn.__name__ not in PROGRAMS
    PROGRAMS[fn.__name__] = fn
    return fn


@program
def nesting(t):
    seen = [t.is_grad_enabled()]
    with t.no_grad():
        seen.append(t.is_grad_enabled())
        with t.enable_grad():
            seen.append(t.is_grad_enabled())
            with t.set_grad_enabled(False):
                seen.append(t.is_grad_enabled())
            seen.append(t.is_grad_enabled())
        seen.append(t.is_grad_enabled())
    return [*seen, t.is_grad_enabled()]


@program
def set_directly(t):
    t.set_grad_enabled(False)
    seen = [t.is_grad_enabled()]
    t.set_grad_enabled(True)
    return [*seen, t.is_grad_enabled()]


@program
def restored_on_exceptions(t):
    def fail():
        with t.no_grad():
            raise ValueError("x")

    return [error(fail, "x"), t.is_grad_enabled()]


@program
def decorators(t):
    @t.no_grad()
    def a(x):
        return t.is_grad_enabled(), x

    @t.no_grad
    def b():
        """Doc."""
        return t.is_grad_enabled()

    @t.enable_grad()
    def c():
        return t.is_grad_enabled()

    @t.set_grad_enabled(False)
    def d():
        return t.is_grad_enabled()

    with t.no_grad():
        inside = c()
    return [*a(3), b(), b.__doc__, b.__name__, inside, d(), t.is_grad_enabled()]


@program
def recursion(t):
    @t.no_grad()
    def down(n):
        seen = [t.is_grad_enabled()]
        if n:
            with t.enable_grad():
                seen += down(n - 1)
                seen.append(t.is_grad_enabled())
        return [*seen, t.is_grad_enabled()]

    return [*down(3), t.is_grad_enabled()]


@program
def methods(t):
    class Model:
        @t.no_grad()
        def run(self):
            return t.is_grad_enabled()

    return [Model().run()]


@program
def generators(t):
    seen = []

    @t.no_grad()
    def numbers():
        try:
            got = yield t.is_grad_enabled()
            seen.append((got, t.is_grad_enabled()))
            try:
                yield 2
            except KeyError:
                seen.append(("caught", t.is_grad_enabled()))
            yield 3
        finally:
            seen.append(("closed", t.is_grad_enabled()))

    g = numbers()
    out = [next(g), t.is_grad_enabled(), g.send("hello"), t.is_grad_enabled(), g.throw(KeyError())]
    g.close()
    return [*out, str(seen), list(numbers())[1:], t.is_grad_enabled()]


@program
def inference(t):
    w = t.ones(2).requires_grad_()
    with t.inference_mode():
        x = t.ones(2) * w
        x.add_(1)
        out = [x.requires_grad, x.is_inference(), t.is_grad_enabled()]
    out += [t.is_grad_enabled(), w.is_inference(), x.clone().is_inference()]
    with t.inference_mode(False):
        out.append(t.is_grad_enabled())
    out += [error(lambda: x * w, "Inference tensors cannot be saved for backward"),
            error(lambda: x.requires_grad_(), "Setting requires_grad=True on inference tensor outside InferenceMode")]
    (x + w).sum().backward()
    (x.clone() * w).sum().backward()
    out.append(error(lambda: x.add_(1), "Inplace update to inference tensor outside InferenceMode is not allowed"))
    return [*out, w.grad]


@program
def views_and_inference(t):
    x = t.ones(2, 2)
    with t.inference_mode():
        made = x * 2
        same = [x.t(), x.contiguous(), x.detach(), x.reshape(2, 2), x[0], x.to(t.float32)]
    views = [made.t(), made.detach(), made[0], made.reshape(4), made.contiguous()]
    refused = "Inplace update to inference tensor outside InferenceMode is not allowed"
    out = [error(lambda: views[0].add_(1), refused), error(lambda: made.__setitem__(0, 1), refused)]
    same[0].add_(1)
    made.data.add_(1)
    return [*out, x, made, [v.is_inference() for v in (*same, made, *views, made * 2, made.clone())]]


@program
def inference_decorator(t):
    @t.inference_mode()
    def a():
        return t.is_grad_enabled(), t.ones(1).is_inference()

    @t.inference_mode
    def b():
        return t.ones(1).is_inference()

    return [*a(), b(), t.ones(1).is_inference()]


@pytest.mark.skipif(torch is None, reason="torch is not installed")
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch(name):
    check(PROGRAMS[name])


def test_one_scope_entered_twice():
    scope = jt.no_grad()
    with scope:
        with scope:
            assert not jt.is_grad_enabled()
        assert not jt.is_grad_enabled()
    assert jt.is_grad_enabled()
