"""What a call leaves behind: gradients that replace others, and what stays where a script raises."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

import jitgrad
from jitgrad import Tensor


def step(w: Tensor, x: Tensor) -> Tensor:
    w.grad = None
    loss = (x * w).sum()
    loss.backward()
    return loss.detach()


def checked(w: Tensor, x: Tensor) -> Tensor:
    assert x.sum() > 0, "too small"
    w.grad = None
    loss = (x * w).sum()
    loss.backward()
    return loss.detach()


def leaf() -> Tensor:
    return jitgrad.ones(3, requires_grad=True)


def test_a_gradient_that_is_replaced_goes_before_the_new_one_is_made() -> None:
    script, w, x = jitgrad.script(step), leaf(), jitgrad.ones(3)
    script(w, x)
    seen: list[Any] = []
    weakref.finalize(w.grad, lambda: seen.append(w.grad))
    script(w, x * 2)
    assert seen == [None]
    assert w.grad.tolist() == [2.0] * 3


def test_who_holds_a_gradient_keeps_it() -> None:
    script, w, x = jitgrad.script(step), leaf(), jitgrad.ones(3)
    script(w, x)
    before = w.grad
    script(w, x * 2)
    assert before.tolist() == [1.0] * 3
    assert w.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("run", [jitgrad.script(checked), checked], ids=["script", "eager"])
def test_a_script_that_raises_before_leaves_the_gradient(run: Any) -> None:
    w, x = leaf(), jitgrad.ones(3)
    run(w, x)
    with pytest.raises(AssertionError, match="too small"):
        run(w, -x)
    assert w.grad.tolist() == [1.0] * 3


@pytest.mark.parametrize("jit", [False, True])
def test_a_gradient_that_is_read_is_there(jit: bool) -> None:
    def swap(w: Tensor, x: Tensor) -> Tensor:
        before = w.grad
        w.grad = x * 2
        return before

    w, x = leaf(), jitgrad.ones(3)
    w.grad = first = jitgrad.full((3,), 7.0)
    assert (jitgrad.script(swap) if jit else swap)(w, x) is first
    assert w.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("jit", [False, True])
def test_the_dtype_of_a_gradient_is_asked_for(jit: bool) -> None:
    def put(w: Tensor, x: Tensor) -> None:
        w.grad = x * 2

    w = leaf()
    w.grad_dtype = jitgrad.float64
    with pytest.raises(RuntimeError, match="grad_dtype"):
        (jitgrad.script(put) if jit else put)(w, jitgrad.ones(3))
