"""What a script keeps of its results is their memory where eager keeps it too, and a copy where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import config

LENT: list[Callable[[Any], Any]] = [
    lambda x: x.exp(), lambda x: (x * 1).softmax(0), lambda x: torch.sigmoid(x)]
OWN: list[Callable[[Any], Any]] = [
    lambda x: x.exp().clone(), lambda x: x.exp() * 1, lambda x: x.exp() + 0, lambda x: torch.sigmoid(x) * 2]


def written(function: Any) -> Any:
    """The gradient after a result was written to, or the error's text."""
    x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    y = function(x)
    with torch.no_grad():
        y.mul_(5)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return x.grad.numpy()


@pytest.mark.parametrize("function", [*LENT, *OWN])
@pytest.mark.parametrize("interpret", [False, True])
def test_a_result_that_was_written_to(function: Any, interpret: bool) -> None:
    with config.override(interpret=interpret):
        found, expected = written(torch.script(function)), written(function)
    if function in LENT:
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_nothing_is_copied() -> None:
    x = torch.ones(64, 32, requires_grad=True)
    for function, launches in ((lambda x: x.softmax(-1), 1), (lambda x: x.exp(), 1), (lambda x: x.exp().clone(), 2)):
        found = torch.script(function).traffic(x)
        assert found.launches == 1 + launches


def test_results_that_are_one_value() -> None:
    """The one that is a copy may be written to, the other one is kept."""
    @torch.script
    def f(x: Any) -> Any:
        y = x.exp()
        return y.clone(), y

    x = torch.ones(3, requires_grad=True)
    copy, y = f(x)
    with torch.no_grad():
        copy.zero_()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(np.ones(3)), rtol=1e-6)
    copy, y = f(x)
    with torch.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        copy.sum().backward()


def test_second_derivatives_and_a_second_backward() -> None:
    x = torch.tensor([0.3, 0.7], dtype=torch.float64, requires_grad=True)
    f = torch.script(lambda x: x.tanh())
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(g.sum(), x)
    t = np.tanh(x.detach().numpy())
    np.testing.assert_allclose(found.numpy(), -2 * t * (1 - t * t), rtol=1e-12)
    y = f(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (1 - t * t), rtol=1e-12)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_the_pieces_of_a_cut_history_keep_their_memory() -> None:
    """As in truncated backpropagation: a result goes on as an argument, detached."""
    @torch.script
    def cell(h: Any, w: Any) -> Any:
        return torch.tanh(h * w)

    w = torch.tensor([0.5, 0.25], requires_grad=True)
    h = torch.ones(2)
    for _ in range(3):
        h = cell(h.detach(), w)
        h.sum().backward()
    expected = torch.tensor([0.5, 0.25], requires_grad=True)
    h = torch.ones(2)
    for _ in range(3):
        h = torch.tanh(h.detach() * expected)
        h.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), expected.grad.numpy(), rtol=1e-6)
