"""`signal.windows`: PyTorch's numbers, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.signal import windows

#: a call, and what PyTorch gives, rounded
RECORDED: list[tuple[Callable[[], Any], list[float]]] = [
    (lambda: windows.hann(5), [0.0, 0.5, 1.0, 0.5, 0.0]),
    (lambda: windows.hamming(5, sym=False), [0.08, 0.397852, 0.912148, 0.912148, 0.397852]),
    (lambda: windows.blackman(6), [0.0, 0.20077, 0.84923, 0.84923, 0.20077, -0.0]),
    (lambda: windows.bartlett(5), [0.0, 0.5, 1.0, 0.5, 0.0]),
    (lambda: windows.kaiser(5, beta=3.0), [0.204885, 0.726925, 1.0, 0.726925, 0.204885]),
    (lambda: windows.gaussian(4, std=2.0, sym=False), [0.606531, 0.882497, 1.0, 0.882497]),
    (lambda: windows.cosine(5), [0.309017, 0.809017, 1.0, 0.809017, 0.309017]),
    (lambda: windows.nuttall(5), [0.000363, 0.226982, 1.0, 0.226982, 0.000363]),
    (lambda: windows.exponential(4, center=1.0, tau=3.0, sym=False), [0.716531, 1.0, 0.716531, 0.513417]),
    (lambda: windows.general_hamming(4, alpha=0.6), [0.2, 0.8, 0.8, 0.2]),
    (lambda: windows.general_cosine(5, a=[0.5, 0.3, 0.2]), [0.4, 0.3, 1.0, 0.3, 0.4]),
]


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_recorded(number: int) -> None:
    call, expected = RECORDED[number]
    np.testing.assert_allclose(call().numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("name", windows.__all__)
def test_lengths_dtypes_and_ends(name: str) -> None:
    kind = getattr(windows, name)
    more = {"a": [0.5, 0.5]} if name == "general_cosine" else {}
    for n in (0, 1, 2, 7):
        for d in (None, jitgrad.float32, jitgrad.float64):
            made = kind(n, dtype=d, **more)
            assert made.shape == (n,)
            assert made.dtype is (d or jitgrad.float32)
            assert jitgrad.allclose(made, made.flip(0), atol=1e-6)
        longer = kind(n + 1, dtype=jitgrad.float64, **more)
        assert jitgrad.allclose(kind(n, sym=False, dtype=jitgrad.float64, **more), longer[:n]) or n < 2
    assert kind(1, **more).tolist() == pytest.approx([1.0])
    assert kind(3, requires_grad=True, **more).requires_grad


def hann_in_a_script(x: Any) -> Any:
    return x * windows.hann(x.shape[0], sym=False, dtype=x.dtype)


def test_in_a_script() -> None:
    function = jitgrad.script(hann_in_a_script)
    for n in (8, 5):
        x = jitgrad.randn(n)
        assert jitgrad.allclose(function(x), hann_in_a_script(x))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: windows.hann(-1), ValueError, "non-negative window length, got M=-1"),
    (lambda: windows.hann(3, dtype=jitgrad.int64), ValueError, "expects float32 or float64 dtypes"),
    (lambda: windows.hann(3, wide=True), TypeError, "unexpected keyword argument 'wide'"),
    (lambda: windows.gaussian(3, std=0.0), ValueError, "Standard deviation must be positive"),
    (lambda: windows.exponential(3, tau=0.0), ValueError, "Tau must be positive"),
    (lambda: windows.exponential(3, center=1.0), ValueError, "Center must be None"),
    (lambda: windows.kaiser(3, beta=-1.0), ValueError, "beta must be non-negative"),
    (lambda: windows.general_cosine(3, a=3), TypeError, "must be a list/tuple"),
    (lambda: windows.general_cosine(3, a=[]), ValueError, "cannot be empty")])
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
