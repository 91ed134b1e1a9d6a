"""What torch answers in corners that were once answered otherwise."""

from __future__ import annotations

import math

import pytest

import jitgrad as torch


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_running_extremes_of_every_integer_dtype(script: bool) -> None:
    def f(x):
        return x.cummax(0)[0], x.cummin(0)[0]

    run = torch.script(f) if script else f
    for values, dtype in (([2, 1, 3], torch.uint8), ([255, 0, 3], torch.uint8), ([False, True], torch.bool),
                          ([-128, 127, 0], torch.int8), ([-2**63, 2**63 - 1], torch.int64)):
        x = torch.tensor(values, dtype=dtype)
        assert [y.tolist() for y in run(x)] == [[max(values[:k + 1]) for k in range(len(values))],
                                                [min(values[:k + 1]) for k in range(len(values))]]


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_scattered_extremes_of_every_integer_dtype(script: bool) -> None:
    def f(x, i, y):
        return [x.scatter_reduce(0, i, y, how, include_self=False) for how in ("amax", "amin")]

    i = torch.tensor([0, 0, 2])
    for dtype in (torch.uint8, torch.int8, torch.int64):
        x, y = torch.tensor([9, 9, 9], dtype=dtype), torch.tensor([3, 5, 7], dtype=dtype)
        assert [z.tolist() for z in (torch.script(f) if script else f)(x, i, y)] == [[5, 9, 7], [3, 9, 7]]


@pytest.mark.parametrize("script", [False, True], ids=["eager", "scripted"])
def test_shifts_in_place_write(script: bool) -> None:
    def f(x):
        v = x[:2]
        v <<= 1
        v += 1
        v >>= 1
        return v

    x = torch.arange(4)
    assert (torch.script(f) if script else f)(x).tolist() == [0, 1]
    assert x.tolist() == [0, 1, 2, 3]
    x[1] = 3
    (torch.script(f) if script else f)(x)
    assert x.tolist() == [0, 3, 2, 3]


def test_a_repeated_subscript_has_one_size() -> None:
    with pytest.raises(RuntimeError, match="subscript i is repeated in an operand but the sizes don't match, 3 != 2"):
        torch.einsum("ii->i", torch.ones(2, 3))


def test_hypot_of_infinities() -> None:
    inf = torch.tensor([math.inf, math.inf, -math.inf, 0.0])
    assert torch.hypot(inf, torch.tensor([math.inf, 1.0, -math.inf, 0.0])).tolist() == [math.inf] * 3 + [0.0]
