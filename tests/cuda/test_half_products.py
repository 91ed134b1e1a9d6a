"""Products of half types in eager code: CuPy's own, by tensor cores, wherever it has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.eager.arrays.arrays import library
from tests.cuda import standin

SHAPES = [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 5, 2, 3), (3, 4)), ((0, 2, 3), (3, 4)), ((2, 2, 0), (0, 4))]


@pytest.mark.parametrize("d", [jitgrad.bfloat16, jitgrad.float16], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_one_matrix_multiplies_all_rows(cuda: Any, monkeypatch: pytest.MonkeyPatch, shapes: Any, d: Any) -> None:
    """Nothing is made float32, in the product and in its gradients."""
    seen: list[tuple[str, int, int]] = []

    def noted(a: Any, b: Any) -> Any:
        seen.append((a.dtype.name, a.ndim, b.ndim))
        return standin.matmul(a, b)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes)
    x, w = (jitgrad.tensor(v).to(d).cuda().detach().requires_grad_() for v in (a, b))
    monkeypatch.setattr(library(x._data).xp, "matmul", noted)
    y = x @ w
    y.sum().backward()
    np.testing.assert_array_equal(y.detach().float().cpu().numpy(), a @ b)
    assert x.grad is not None
    assert w.grad is not None
    np.testing.assert_array_equal(x.grad.float().cpu().numpy(), np.broadcast_to(b.sum(1), a.shape))
    np.testing.assert_array_equal(w.grad.float().cpu().numpy(),
                                  np.broadcast_to(a.reshape(-1, a.shape[-1]).sum(0)[:, None], b.shape)
                                  if a.size else np.zeros_like(b))
    assert seen == [(d.name, 2, 2)] * 3


def test_batches_of_bfloat16_are_multiplied_as_float32(cuda: Any) -> None:
    """CuPy has none."""
    a, b = jitgrad.ones(2, 3, 4, device="cuda").bfloat16(), jitgrad.ones(2, 4, 5, device="cuda").bfloat16()
    assert (a @ b).dtype is jitgrad.bfloat16
    assert (a @ b).float().sum().item() == 2 * 3 * 5 * 4
