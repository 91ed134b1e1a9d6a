"""What is computed where a result is that is a view of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import jitgrad as torch
from jitgrad import Tensor, script


@pytest.mark.parametrize("between", [
    lambda r: r.unsqueeze(-1), lambda r: r.unsqueeze(0), lambda r: r[:, None], lambda r: r.reshape(4, 3), lambda r: r])
@pytest.mark.parametrize("view", [
    lambda r: r.flip(0), lambda r: r.flip(1), lambda r: r.flip(-1), lambda r: r.flip(0, 1), lambda r: r.mT,
    lambda r: r.roll(1, 0), lambda r: r[1:], lambda r: r.diagonal()])
def test_a_view_through_axes_of_size_one(between: Callable[[Tensor], Tensor], view: Callable[[Tensor], Tensor]) -> None:
    def f(x: Tensor) -> Tensor:
        return view(between(x * 2))

    x = torch.arange(12.0).reshape(3, 4)
    assert script(f)(x).equal(f(x))
