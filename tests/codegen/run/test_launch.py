"""Arrays on their way into native code and out of it."""

from __future__ import annotations

import sys

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


def _launcher(function, *given):
    """The function that launches the program of `function` for such arguments."""
    scripted = torch.script(function)
    scripted(*given)
    return scripted.specialisations[0].function.forward


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "uint8", "bool", "float16"])
def test_results_are_new_arrays_with_the_sizes_of_inputs(dtype: str) -> None:
    d = getattr(torch, dtype)
    x, y = torch.zeros(3, 4, dtype=d), torch.zeros(2, 5, dtype=d)
    launch = _launcher(lambda x, y: (x.clone(), y.clone(), x[0, 0].clone(), torch.zeros(7)), x, y)
    for n, m in ((2, 6), (9, 3), (0, 4), (5, 0)):
        given = [np.zeros((n + 1, m + 2), d.np), np.ones((m + 3, n + 2), d.np)]
        for array, like in zip(launch(given), [*given, np.zeros((), d.np), np.zeros(7, np.float32)], strict=True):
            assert type(array) is np.ndarray
            assert (array.shape, array.dtype, array.tolist()) == (like.shape, like.dtype, like.tolist())
            assert array.flags.owndata
            assert array.flags.writeable
            assert array.flags.c_contiguous


def test_results_are_nobody_elses() -> None:
    launch = _launcher(lambda x: (x + 1, x * 2), torch.zeros(2))
    given = np.zeros(2, np.float32)
    before = sys.getrefcount(given.dtype)
    results = [launch([given]) for _ in range(100)]
    assert len({array.ctypes.data for pair in results for array in pair}) == 200
    assert {sys.getrefcount(array) for pair in results for array in pair} == {3}  # the list's, the loop's, the call's
    del results
    assert sys.getrefcount(given.dtype) < before + 50


def test_large_results_have_memory_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = _launcher(lambda x: (x + 1, x.sum()), torch.zeros(2))
    made = []
    monkeypatch.setitem(launch.__globals__, "large", lambda shape, dtype: made.append(shape) or np.empty(shape, dtype))
    for n in (1 << 10, (1 << 16) - 1, 1 << 16, 1 << 17):
        large, total = launch([np.ones(n, np.float32)])
        assert large.tolist() == [2] * n
        assert total == n
    assert made == [(1 << 16,), (1 << 17,)]


def test_results_that_are_too_large_are_an_error() -> None:
    launch = _launcher(lambda x, y: x.unsqueeze(1) + y, torch.zeros(2), torch.zeros(2))
    one = np.broadcast_to(np.zeros(1, np.float32), 1 << 40)
    with pytest.raises((MemoryError, ValueError)):
        launch([one, one])
