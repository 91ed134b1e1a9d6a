"""Values, dtypes, shapes and gradients of the library's functions against torch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad
import jitgrad.nn.functional
from tests.ops.library.arrays import arrays, flat
from tests.ops.library.expressions import GROUPS, expressions

torch = pytest.importorskip("torch")

TOLERANCES = {"float16": (2e-3, 2e-3), "float32": (2e-5, 4e-6), "float64": (1e-7, 1e-7)}
FLOAT_NAMES = ("x", "y", "p", "v", "w", "s", "d", "a3", "m", "q")


def evaluate(expression: str, module: Any, grad: bool) -> tuple[Any, dict[str, Any]]:
    names = {k: module.from_numpy(a.copy()) for k, a in arrays().items()}
    if grad:
        for k in FLOAT_NAMES:
            names[k].requires_grad_()
    return eval(expression, {"t": module, "F": module.nn.functional, **names}), names


def name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def compare(ours: Any, theirs: Any) -> None:
    assert len(flat(ours)) == len(flat(theirs))
    for a, b in zip(flat(ours), flat(theirs), strict=True):
        if not isinstance(b, torch.Tensor):
            assert type(a) is type(b), (a, b)
            assert a == pytest.approx(b, rel=2e-6) if isinstance(b, float) else a == b
            continue
        assert isinstance(a, jitgrad.Tensor)
        assert name(a.dtype) == name(b.dtype)
        assert tuple(a.shape) == tuple(b.shape)
        x, y = a.detach().numpy(), b.detach().numpy()
        rtol, atol = TOLERANCES.get(x.dtype.name, (0.0, 0.0))
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


CASES = [(group, e) for group in GROUPS for e in expressions(group)]


@pytest.mark.parametrize(("group", "expression"), CASES, ids=[e for _, e in CASES])
def test_value(group: str, expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, _ = evaluate(expression, torch, False)
    ours, _ = evaluate(expression, jitgrad, False)
    compare(ours, theirs)


@pytest.mark.parametrize(("group", "expression"), CASES, ids=[e for _, e in CASES])
def test_gradient(group: str, expression: str) -> None:
    """d(sum of weighted float results) for every float tensor in the expression; None where torch has None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs, their_names = evaluate(expression, torch, True)
        except RuntimeError:
            return  # torch does not differentiate this
        outputs = [v for v in flat(theirs) if isinstance(v, torch.Tensor) and v.requires_grad]
        if not outputs or any(not torch.isfinite(v).all() for v in outputs):
            return
        rng = np.random.default_rng(3)
        weights = [rng.standard_normal(tuple(v.shape)) for v in outputs]
        try:
            sum((v.double() * torch.from_numpy(w)).sum() for v, w in zip(outputs, weights, strict=True)).backward()
        except RuntimeError:
            return  # torch does not differentiate this
    ours, our_names = evaluate(expression, jitgrad, True)
    results = [v for v in flat(ours) if isinstance(v, jitgrad.Tensor) and v.requires_grad]
    assert len(results) == len(outputs)
    total: Any = 0
    for v, w in zip(results, weights, strict=True):
        total = total + (v.double() * jitgrad.from_numpy(w)).sum()
    total.backward()
    for k in FLOAT_NAMES:
        a, b = our_names[k].grad, their_names[k].grad
        if a is None or b is None:  # what has no slope may be absent or zero
            assert a is None or not np.any(a.numpy()), k
            assert b is None or not np.any(b.numpy(force=True)), k
            continue
        np.testing.assert_allclose(a.numpy(), b.numpy(force=True), rtol=2e-4, atol=3e-5, err_msg=k)
