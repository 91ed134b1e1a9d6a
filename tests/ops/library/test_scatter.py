"""`scatter_reduce` of every mode and of an index of any size, against a loop; values, gradients, scripts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitgrad as torch

JOIN = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}
SHAPES = [((3, 4), (3, 4)), ((3, 4), (5, 2)), ((3, 4), (1, 1)), ((3, 4), (0, 4)), ((1, 4), (6, 3)),
          ((2, 3, 4), (4, 2, 1))]


def by_hand(x: Any, index: Any, src: Any, mode: str, include: bool) -> Any:
    """Along axis 0."""
    out, count = x.astype(np.float64), np.full(x.shape, float(include))
    for place in np.ndindex(*index.shape):
        to = (index[place], *place[1:])
        out[to] = JOIN[mode](out[to], src[place]) if count[to] else src[place]
        count[to] += 1
    return np.where(count > 0, out / np.maximum(count, 1), x) if mode == "mean" else out


def reduced(x: Any, i: Any, s: Any, mode: str, include: bool) -> Any:
    return x.scatter_reduce(0, i, s, mode, include_self=include)


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
@pytest.mark.parametrize(("shape", "size"), SHAPES, ids=str)
@pytest.mark.parametrize("mode", JOIN)
def test_modes_and_sizes(mode: str, shape: tuple[int, ...], size: tuple[int, ...], script: bool) -> None:
    rng = np.random.default_rng(2)
    x, i = rng.standard_normal(shape), rng.integers(0, shape[0], size)
    s = rng.standard_normal(tuple(n + 1 for n in size))  # it may be larger than the index
    for include in (True, False):
        run = torch.script(reduced) if script else reduced
        found = run(torch.from_numpy(x), torch.from_numpy(i), torch.from_numpy(s), mode, include)
        np.testing.assert_allclose(found.numpy(), by_hand(x, i, s, mode, include), rtol=1e-12)


@pytest.mark.parametrize("mode", JOIN)
def test_gradients(mode: str) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    s = torch.tensor([[1.5], [0.5], [2.5]], dtype=torch.float64, requires_grad=True)
    i = torch.tensor([[0], [1], [0]])
    assert torch.autograd.gradcheck(lambda a, b: a.scatter_reduce(0, i, b, mode), (x, s))


def test_multiply_and_numbers() -> None:
    i = torch.tensor([0, 0])
    assert torch.ones(3).scatter(0, i, 3.0, reduce="multiply").tolist() == [9.0, 1.0, 1.0]
    assert torch.ones(3).scatter(0, i, torch.tensor([2.0, 4.0]), reduce="multiply").tolist() == [8.0, 1.0, 1.0]
    assert torch.ones(3).scatter(0, i, 3.0, reduce="add").tolist() == [7.0, 1.0, 1.0]
    assert torch.tensor(1.0).scatter_reduce(0, torch.tensor(0), torch.tensor(5.0), "amax").item() == 5.0
    assert torch.ones(3).scatter_(0, i, -math.inf, reduce="multiply")[0].item() == math.inf


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_sizes_that_do_not_fit(script: bool) -> None:
    run = torch.script(reduced) if script else reduced
    for shape, size, source in (((3, 2), (2, 3), (2, 3)), ((3, 2), (2, 2), (1, 2))):
        for mode in JOIN:
            with pytest.raises(RuntimeError, match=r"Expected index .* to be no larger than self"):
                run(torch.zeros(shape), torch.zeros(size, dtype=torch.int64), torch.ones(source), mode, True)
    with pytest.raises(RuntimeError, match="must be either add or multiply"):
        torch.ones(3).scatter(0, torch.tensor([0]), 1.0, reduce="mean")
