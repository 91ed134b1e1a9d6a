"""Functions of symmetric matrices read one triangle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad


def factors(x: Any) -> Any:
    return jitgrad.linalg.eigvalsh(x), jitgrad.linalg.cholesky(x)


def upper_factors(x: Any) -> Any:
    return jitgrad.linalg.eigvalsh(x, UPLO="U"), jitgrad.linalg.cholesky(x, upper=True)


@pytest.mark.parametrize("run", [lambda f: f, jitgrad.script], ids=["eager", "scripted"])
def test_one_triangle_is_read(run: Any) -> None:
    """Which one is torch's: the lower, or the one that is named; gradients are symmetric."""
    x = jitgrad.tensor([[4.0, 9.0], [2.0, 3.0]], dtype=jitgrad.float64)
    for f, same in ((factors, [[4.0, 2.0], [2.0, 3.0]]), (upper_factors, [[4.0, 9.0], [9.0, 30.0]])):
        x[1, 1] = same[1][1]
        given = x.clone().requires_grad_()
        whole = jitgrad.tensor(same, dtype=jitgrad.float64).requires_grad_()
        for found, wanted in zip(run(f)(given), f(whole), strict=True):
            np.testing.assert_array_equal(found.detach().numpy(), wanted.detach().numpy())
        run(f)(given)[1].sum().backward()
        f(whole)[1].sum().backward()
        np.testing.assert_allclose(given.grad.numpy(), whole.grad.numpy())
        assert given.grad[0, 1] == given.grad[1, 0]
