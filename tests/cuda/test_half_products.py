"""Products of half types in eager code: CuPy's own of two matrices, cuBLASLt's of batches, by tensor cores."""

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


#: shapes of batches, and which of the operands' axes are permuted
BATCHES: list[Any] = [
    ((3, 2, 5), (3, 5, 4), None, None), ((2, 5), (3, 5, 4), None, None), ((1, 2, 5), (3, 5, 4), None, None),
    ((2, 3, 2, 5), (2, 3, 5, 4), None, None), ((2, 1, 2, 5), (3, 5, 4), None, None),
    ((2, 3, 2, 5), (2, 1, 5, 4), None, None), ((4, 2, 3, 5), (4, 2, 3, 5), (0, 2, 1, 3), (0, 2, 3, 1)),
    ((2, 3, 5), (3, 4, 5), (1, 0, 2), (0, 2, 1)), ((5, 2, 3), (3, 4, 5), (2, 1, 0), (0, 2, 1)),
    ((3, 1, 5), (3, 5, 1), None, None), ((3, 5, 1), (3, 1, 5), (0, 2, 1), (0, 2, 1)),
    ((0, 2, 5), (0, 5, 4), None, None), ((3, 2, 0), (3, 0, 4), None, None), ((3, 0, 5), (3, 5, 4), None, None)]


@pytest.mark.parametrize("d", [jitgrad.bfloat16, jitgrad.float16], ids=str)
@pytest.mark.parametrize(("left", "right", "by", "other"), BATCHES, ids=str)
def test_batches(cuda: Any, monkeypatch: pytest.MonkeyPatch, left: Any, right: Any, by: Any, other: Any,
                 d: Any) -> None:
    """Products and both gradients are cuBLASLt's, of matrices as they lie; nothing is made float32 for them."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(np.float32) for shape in (left, right)]
    x, w = (jitgrad.tensor(v).to(d).cuda().requires_grad_() for v in arrays)
    monkeypatch.setattr(standin.ndarray, "astype", lambda *_: pytest.fail("a conversion"))
    y = (x.permute(by) if by else x) @ (w.permute(other) if other else w)
    if x.shape[:-2] != w.shape[:-2]:
        monkeypatch.undo()  # what an operand was repeated for is summed in float32
    y.backward(jitgrad.ones_like(y))
    monkeypatch.undo()
    plain = [jitgrad.tensor(v, requires_grad=True) for v in arrays]
    exact = (plain[0].permute(by) if by else plain[0]) @ (plain[1].permute(other) if other else plain[1])
    exact.backward(jitgrad.ones_like(exact))
    for found, expected in ((y, exact), (x.grad, plain[0].grad), (w.grad, plain[1].grad)):
        assert found is not None
        assert expected is not None
        assert found.dtype is d
        np.testing.assert_array_equal(found.detach().float().cpu().numpy(), expected.detach().numpy())


def test_batches_are_calls_of_many_products(cuda: Any) -> None:
    """Axes that are one are one call's; of others the longest."""
    for left, right, by, calls in (((4, 3, 2, 5), (4, 3, 5, 4), None, 1), ((2, 5), (4, 3, 5, 4), None, 1),
                                   ((4, 1, 2, 5), (3, 5, 4), None, 3), ((4, 2, 3, 5), (4, 3, 5, 4), (0, 2, 1, 3), 3)):
        x, w = (jitgrad.ones(*shape).bfloat16().cuda() for shape in (left, right))
        asked = len(standin.blas().products)
        assert ((x.permute(by) if by else x) @ w).float().sum().item() == 4 * 3 * 2 * 5 * 4
        assert len(standin.blas().products) - asked == calls
