"""Maxima put back, maxima of windows drawn at random, convolutions over time first: PyTorch's where it is installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.nn import functional as F

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


CASES: dict[str, Any] = {
    "unpool 1": (lambda F, x: F.max_unpool1d(*F.max_pool1d(x, 3, 2, 1, return_indices=True), 3, 2, 1), [normal(3, 9)]),
    "unpool 2": (lambda F, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=(5, 7)),
                 [normal(2, 3, 5, 7)]),
    "unpool 3": (lambda F, x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), [normal(1, 2, 4, 4, 4)]),
    "random 2": (lambda F, x, s: F.fractional_max_pool2d(x, (2, 3), (3, 2), _random_samples=s.detach()) + 0 * s.sum(),
                 [normal(2, 3, 7, 8), RNG.random((2, 3, 2))]),
    "random ratio": (lambda F, x, s: F.fractional_max_pool2d_with_indices(
        x, 2, output_ratio=(0.5, 0.6), _random_samples=s.detach())[0] + 0 * s.sum(),
        [normal(2, 3, 7, 8), RNG.random((2, 3, 2))]),
    "random 3": (lambda F, x, s: F.fractional_max_pool3d(x, 2, (3, 2, 1), _random_samples=s.detach()) + 0 * s.sum(),
                 [normal(2, 3, 7, 8, 5), RNG.random((2, 3, 3))]),
    "norms": (lambda F, x: F.lp_pool3d(x, 2, 2), [normal(2, 3, 4, 5, 4)]),
    "norms to the end": (lambda F, x: F.lp_pool3d(x.abs(), 3, 2, 1, ceil_mode=True), [normal(2, 3, 4, 5, 4)]),
    "time first": (lambda F, x, w, b: F.conv_tbc(x, w, b, 1), [normal(5, 2, 3), normal(3, 3, 4), normal(4)]),
    "with indices": (lambda F, x: F.max_pool2d_with_indices(x, 2)[0] + F.adaptive_max_pool2d_with_indices(x, 2)[0],
                     [normal(2, 3, 4, 4)]),
}


@pytest.mark.parametrize("name", CASES)
def test_eager_scripted_and_torch(name: str) -> None:
    function, arrays = CASES[name]

    def ours(*xs: Any) -> Any:
        return function(F, *xs)

    runs: list[Any] = [(jitgrad, ours), (jitgrad, jitgrad.script(ours))]
    if find_spec("torch"):
        torch = import_module("torch")
        runs.append((torch, lambda *xs: function(torch.nn.functional, *xs)))
    found = []
    for library, run in runs:
        xs = [library.tensor(a, requires_grad=True) for a in arrays]
        y = run(*xs)
        (y ** 3).sum().backward()
        found.append([y.detach().numpy(), *[x.grad.numpy() for x in xs]])
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_layers_put_maxima_back(rank: int) -> None:
    x = jitgrad.tensor(RNG.permutation(2 * 3 * 4 ** rank).reshape(2, 3, *(4,) * rank) + 1.0)
    y, indices = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)(x)
    back = getattr(nn, f"MaxUnpool{rank}d")(2)(y, indices)
    assert back.shape == x.shape
    assert bool(((back == x) | (back == 0)).all())
    assert float(back.sum()) == float(y.sum())
    one = getattr(nn, f"MaxUnpool{rank}d")(2)(y[0], indices[0], output_size=x.shape[2:])
    assert bool((one == back[0]).all())


@pytest.mark.parametrize("rank", [2, 3])
def test_windows_drawn_at_random(rank: int) -> None:
    layer = getattr(nn, f"FractionalMaxPool{rank}d")(2, output_ratio=0.5, return_indices=True)
    x = jitgrad.rand(2, 3, *(8,) * rank)
    y, indices = layer(x)
    assert y.shape == (2, 3, *(4,) * rank)
    assert bool((x.flatten(2).gather(2, indices.flatten(2)) == y.flatten(2)).all())
    assert bool((y.flatten(2).amax(2) <= x.flatten(2).amax(2)).all())
    assert layer(x[0])[0].shape == y.shape[1:]
    nan = x.clone()
    nan[0, 0] = float("nan")
    assert bool(layer(nan)[0][0, 0].isnan().all())


X, AT = jitgrad.ones(2, 3, 4, 5), jitgrad.zeros(2, 3, 4, 5, dtype=jitgrad.int64)
ERRORS = [
    (lambda: F.max_unpool2d(X, AT + 1000, 2), RuntimeError, "invalid max index: 1000 .output volumes are of size 8x10"),
    (lambda: F.max_unpool2d(X, AT[..., :4], 2), RuntimeError, "Expected shape of indices to be same"),
    (lambda: F.max_unpool2d(X, AT.int(), 2), RuntimeError, "should be type int64 but got: Int"),
    (lambda: F.max_unpool2d(X, AT, 2, output_size=(5, 5)), ValueError, "dim 0 must be between 6 and 10"),
    (lambda: F.max_unpool2d(X, AT, 2, output_size=(9, 9, 9)), ValueError, "containing 2 or 4 elements"),
    (lambda: F.max_unpool1d(X, AT, 2), RuntimeError, "should be a 2d or 3d Tensor"),
    (lambda: F.fractional_max_pool2d(X, 2), ValueError, "either an output_size or an output_ratio"),
    (lambda: F.fractional_max_pool2d(X, 9, 2), RuntimeError, "pool height 9 too large relative to input height 4"),
    (lambda: nn.FractionalMaxPool2d(2), ValueError, "either an output size, or a pooling ratio"),
    (lambda: nn.FractionalMaxPool2d(2, 2, 0.5), ValueError, "only one of output_size and output_ratio"),
    (lambda: nn.FractionalMaxPool3d(2, output_ratio=2.0), ValueError, "between 0 and 1 .got 2.0"),
    (lambda: F.conv_tbc(X[0], jitgrad.ones(3, 4, 2), jitgrad.ones(2)), RuntimeError, "is not == dim 1 in the weight"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
