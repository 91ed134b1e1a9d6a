"""`Tensor.grad_dtype`: what gradients of a leaf are cast to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import jitgrad
from jitgrad.errors import UnsupportedCall


def _leaf(t: Any, d: Any = None, **how: Any) -> Any:
    x = t.ones(2, requires_grad=True, **how)
    if d is not None:
        x.grad_dtype = d
    return x


def _accumulated(t: Any, times: int = 1, **how: Any) -> Any:
    x = _leaf(t, t.float64)
    for _ in range(times):
        (x * 2).sum().backward(**how)
    return x.grad


def _any(t: Any) -> Any:
    x = _leaf(t)
    x.grad_dtype = None
    x.grad = t.ones(2, dtype=t.float64)
    (x * 2).sum().backward()
    return x.grad, x.grad_dtype


def _hooked(t: Any) -> Any:
    x, seen = _leaf(t, t.float64), []
    x.register_hook(lambda g: seen.append(str(g.dtype).partition(".")[2]))
    x.register_post_accumulate_grad_hook(lambda x: seen.append(str(x.grad.dtype).partition(".")[2]))
    (x * 2).sum().backward()
    return seen


def _set(t: Any, x: Any, name: str, value: Any) -> Any:
    setattr(x, name, value)
    return x.grad_dtype


def _with_grad(t: Any) -> Any:
    x = _leaf(t)
    x.grad = t.ones(2)
    return x


CASES: tuple[Callable[[Any], Any], ...] = (
    lambda t: (t.ones(2).grad_dtype, t.tensor([1]).grad_dtype, _leaf(t).grad_dtype, _leaf(t, t.float64).grad_dtype),
    lambda t: (_leaf(t) * 2).grad_dtype,
    lambda t: _set(t, _leaf(t) * 2, "grad_dtype", t.float64),
    lambda t: _set(t, _leaf(t), "grad_dtype", "float64"),
    lambda t: _set(t, _with_grad(t), "grad_dtype", t.float64),
    lambda t: _set(t, _with_grad(t), "grad_dtype", t.float32),
    lambda t: _set(t, _with_grad(t), "grad_dtype", None),
    lambda t: _set(t, _leaf(t, t.float64), "grad", t.ones(2)),
    lambda t: _set(t, _leaf(t, t.float64), "grad", t.ones(2, dtype=t.float64)),
    _accumulated, lambda t: _accumulated(t, 2), lambda t: _accumulated(t, create_graph=True), _any, _hooked,
    lambda t: t.autograd.grad((x := _leaf(t, t.float64)).sum(), x),
    lambda t: _leaf(t, t.float64).detach().grad_dtype,
)


def _seen(t: Any, case: Callable[[Any], Any]) -> Any:
    def plain(x: Any) -> Any:
        if isinstance(x, (tuple, list)):
            return [plain(v) for v in x]
        return (plain(x.dtype), x.tolist()) if isinstance(x, t.Tensor) else str(x).rpartition(".")[2]

    try:
        return plain(case(t))
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_as_torch(case: Callable[[Any], Any]) -> None:
    assert _seen(jitgrad, case) == _seen(pytest.importorskip("torch"), case)


def test_scripts() -> None:
    """The gradient of a script is cast; one that fills `.grad` itself is refused, before anything is run."""
    x = _leaf(jitgrad, jitgrad.float64)
    jitgrad.script(lambda x: (x * 2).sum())(x).backward()
    assert x.grad is not None
    assert x.grad.dtype is jitgrad.float64

    def step(x: Any) -> Any:
        (x * 2).sum().backward()
        return x.grad

    scripted = jitgrad.script(step)
    assert scripted(_leaf(jitgrad)).tolist() == [2, 2]
    x = _leaf(jitgrad, jitgrad.float64)
    for _ in range(2):
        with pytest.raises(UnsupportedCall, match="a leaf with a `grad_dtype` of its own"):
            scripted(x)
    assert x.grad is None
