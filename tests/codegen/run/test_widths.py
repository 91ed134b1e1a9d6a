"""Sums and extremes of everything on machines whose vectors are narrower or wider than this one's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import dtypes
from jitgrad.codegen.llvm import engine


def reduced(x: Any) -> Any:
    return x.sum(), x.max(), x.min(), x.any(), x.all(), x.argmax(), x.argmin(), x.argmax() + x.argmin()


def several(x: Any) -> Any:
    """In one kernel, if the compiler wishes."""
    y = x.to(torch.float64)
    return (y * 2).sum(), y.amax(), (y + 1).argmax(), (x > 0).sum(), (x != x).to(torch.int64).argmax()


@pytest.mark.parametrize("size", [1, 8, 40, 1003, 300_007])
@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("d", dtypes.REALS, ids=lambda d: d.name)
def test_of_everything(monkeypatch: pytest.MonkeyPatch, d: Any, width: int, size: int) -> None:
    """With 300,007 elements in chunks that are joined."""
    real = engine.host()
    other = replace(real, vector_bytes=width, has_avx512=real.has_avx512 and width == 64)
    monkeypatch.setattr(engine, "host", lambda: other)
    monkeypatch.setenv("JITGRAD_CACHE", "")
    numbers = np.random.default_rng(size).integers(0, 2 if d is dtypes.bool_ else 100, size)
    x = torch.tensor(numbers.astype(np.float32)).to(d)
    for f in (reduced, several):
        if d is dtypes.bool_ and f is reduced:
            continue
        for mine, eager in zip(torch.script(f)(x), f(x), strict=True):
            assert mine.dtype is eager.dtype
            np.testing.assert_allclose(mine.to(torch.float64).numpy(), eager.to(torch.float64).numpy(), rtol=2e-3)
