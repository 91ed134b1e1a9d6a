"""torch's control flow as functions, eagerly and in scripts, with gradients."""

from __future__ import annotations

from typing import Any

import pytest

import jitgrad as torch
from jitgrad import config
from jitgrad._higher_order_ops import cond, map as mapped, scan, while_loop


def program(x: Any, n: int) -> tuple[Any, ...]:
    chosen = cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))
    _, grown = while_loop(lambda i, b: i < n, lambda i, b: (i + 1, b * 1.5), (0, chosen))
    total, products = scan(lambda c, r: (c + r, c * r), torch.zeros(4), x)
    last, (before, parts) = scan(lambda c, r: (c * 0.5 + r[0], (c, r[1])), torch.zeros(4), (x, x * 2), reverse=True)
    _, columns = scan(lambda c, r: (c + 1, r * c), 0, x, dim=1)
    return grown, total, products, last, before, parts, columns, mapped(lambda r, k: r.tanh() * k, x, 3.0)


@pytest.mark.parametrize("mode", ["eager", "interpreted", "native"])
@pytest.mark.parametrize("n", [3, 0])
def test_as_python(n: int, mode: str) -> None:
    x = (torch.arange(12.0).reshape(3, 4) - 5).requires_grad_()
    rows = list(x)
    with config.override(interpret=mode == "interpreted"):
        found = (program if mode == "eager" else torch.script(program))(x, n)
        grown, total, products, last, before, parts, columns, mapped_rows = found
        (gradient,) = torch.autograd.grad(sum(t.sum() for t in found), x)
    assert torch.allclose(grown, x * 2 * 1.5 ** n)
    assert torch.allclose(total, x.sum(0))
    assert torch.allclose(products, torch.stack([rows[0] * 0, rows[0] * rows[1], (rows[0] + rows[1]) * rows[2]]))
    assert torch.allclose(last, (rows[2] * 0.5 + rows[1]) * 0.5 + rows[0])
    assert torch.allclose(before[0], rows[2] * 0.5 + rows[1])
    assert torch.allclose(before[2], torch.zeros(4))
    assert torch.allclose(parts, x * 2)
    assert torch.allclose(columns, x * torch.arange(4.0))
    assert torch.allclose(mapped_rows, x.tanh() * 3)
    expected = program(x, n)
    assert torch.allclose(gradient, torch.autograd.grad(sum(t.sum() for t in expected), x)[0])


def test_cond_of_numbers_and_without_operands() -> None:
    assert torch.cond(True, lambda: 1, lambda: 2) == 1
    assert cond(torch.tensor([False]), lambda a, b: a, lambda a, b: b, (1, 2)) == 2
    with pytest.raises(RuntimeError):
        cond(torch.ones(2) > 0, lambda: 1, lambda: 2)


def test_a_scan_of_nothing_is_refused() -> None:
    with pytest.raises(RuntimeError, match="no slices"):
        scan(lambda c, r: (c, r), 0.0, torch.ones(0, 2))
