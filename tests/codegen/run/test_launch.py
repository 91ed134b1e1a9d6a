"""Arrays on their way into native code and out of it."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad as torch


@pytest.mark.parametrize("n", [0, 1, 2, 3, 64])
def test_a_result_that_is_a_strided_input(n: int) -> None:
    """The gradient of `w + 1` is the cotangent, which `sum` gives with stride 0: the program sees a copy of it, and
    what it gives back is read from that copy's memory while the copy is alive.
    """
    @torch.script
    def shifted(w):
        return 1 + w

    for _ in range(5):
        w = torch.zeros(n, requires_grad=True)
        shifted(w).sum().backward()
        taken = [np.full((n,), 7, np.float32) for _ in range(4)]
        assert w.grad.tolist() == [1.0] * n
        assert len(taken) == 4


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_same_of_a_transposed_cotangent(n: int) -> None:
    @torch.script
    def shifted(w):
        return w + w.detach()

    w = torch.zeros(2, n, requires_grad=True)
    cotangent = torch.arange(2.0 * n).reshape(n, 2).t()
    shifted(w).backward(cotangent)
    assert w.grad.tolist() == cotangent.tolist()
