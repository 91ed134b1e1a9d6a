"""Images read at places: against PyTorch where it is installed, and by what they must be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.nn import functional as F

RNG = np.random.default_rng(0)
IMAGE, VOLUME = RNG.standard_normal((2, 3, 4, 5)), RNG.standard_normal((2, 2, 3, 4, 5))
PLACES, PLACES3 = RNG.uniform(-1.6, 1.6, (2, 3, 4, 2)), RNG.uniform(-1.6, 1.6, (2, 2, 3, 2, 3))
WAYS = [(mode, padding, align, rank) for mode, padding, align, rank in itertools.product(
    ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True), (2, 3))
    if rank == 2 or mode != "bicubic"]


def sample(library: Any, way: tuple[str, str, bool, int], x: Any, grid: Any) -> Any:
    mode, padding, align, _ = way
    return library.nn.functional.grid_sample(x, grid, mode, padding, align) + 0 * grid.sum()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_samples_against_torch(way: tuple[str, str, bool, int]) -> None:
    torch = pytest.importorskip("torch")
    arrays = (IMAGE, PLACES) if way[3] == 2 else (VOLUME, PLACES3)
    found = []
    for library in (torch, jitgrad):
        xs = [library.tensor(a, requires_grad=True) for a in arrays]
        y = sample(library, way, *xs)
        (y ** 3).sum().backward()
        found.append([y.detach(), *[x.grad for x in xs]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("way", WAYS[::3], ids=str)
def test_gradients_of_samples(way: tuple[str, str, bool, int]) -> None:
    arrays = (IMAGE[:1, :1], PLACES[:1, :2]) if way[3] == 2 else (VOLUME[:1, :1], PLACES3[:1, :1])
    xs = [jitgrad.tensor(a, requires_grad=True) for a in arrays]
    assert jitgrad.autograd.gradcheck(lambda x, g: sample(jitgrad, way, x, g), xs)
    assert jitgrad.autograd.gradgradcheck(lambda x, g: sample(jitgrad, way, x, g), xs)


def test_scripts() -> None:
    def f(x: Any, theta: Any) -> Any:
        grid = F.affine_grid(theta, x.shape, False)
        y = F.grid_sample(x, grid, "bilinear", "reflection", False)
        return y + F.grid_sample(x, grid, "bicubic", "border", False) + F.grid_sample(x, grid, "nearest", "zeros", True)

    scripted = jitgrad.script(f)
    theta = RNG.standard_normal((2, 2, 3))
    for shape in ((2, 3, 4, 5), (2, 1, 6, 7)):
        image = RNG.standard_normal(shape)
        found = []
        for run in (f, scripted):
            xs = [jitgrad.tensor(a, requires_grad=True) for a in (image, theta)]
            run(*xs).pow(2).sum().backward()
            found.append([x.grad.numpy() for x in xs])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 1, 3), (1, 1, 3, 2, 4), (0, 2, 3, 3)])
def test_the_identity(align: bool, shape: tuple[int, ...]) -> None:
    """The grid of the identity reads every element where it is."""
    rank = len(shape) - 2
    theta = jitgrad.eye(rank, rank + 1, dtype=jitgrad.float64).expand(shape[0], rank, rank + 1)
    if not shape[0]:
        with pytest.raises(ValueError, match="non-zero, positive"):
            F.affine_grid(theta, shape, align)
        return
    grid = F.affine_grid(theta, shape, align)
    x = jitgrad.tensor(RNG.standard_normal(shape))
    for mode in ("bilinear", "nearest", "bicubic")[:3 if rank == 2 else 2]:
        for padding in ("zeros", "border", "reflection"):
            np.testing.assert_allclose(F.grid_sample(x, grid, mode, padding, align).numpy(), x.numpy(), rtol=1e-9,
                                       atol=1e-11)


def test_places_that_are_no_numbers() -> None:
    x, grid = jitgrad.ones(1, 1, 2, 2), jitgrad.full((1, 1, 1, 2), float("nan"))
    assert F.grid_sample(x, grid, "nearest", align_corners=True).tolist() == [[[[0.0]]]]
    assert F.grid_sample(x, jitgrad.full((1, 1, 1, 2), float("inf")), align_corners=True).shape == (1, 1, 1, 1)


X, G = jitgrad.ones(2, 3, 4, 5), jitgrad.zeros(2, 3, 3, 2)
ERRORS = [
    (lambda: F.grid_sample(X, G, "linear"), ValueError, "expected mode to be 'bilinear', 'nearest' or 'bicubic'"),
    (lambda: F.grid_sample(X, G, padding_mode="same"), ValueError, "expected padding_mode to be 'zeros', 'border', or"),
    (lambda: F.grid_sample(X, G[:1]), RuntimeError, "same batch size"),
    (lambda: F.grid_sample(X, jitgrad.ones(2, 3, 3, 3)), RuntimeError, "size 2 in last dimension"),
    (lambda: F.grid_sample(X, G.double()), RuntimeError, "expected scalar type Float but found Double"),
    (lambda: F.grid_sample(X.long(), G.long()), NotImplementedError, "not implemented for 'Long'"),
    (lambda: F.grid_sample(jitgrad.ones(2, 3, 0, 5), G), RuntimeError, "dimension 2 being empty"),
    (lambda: F.grid_sample(jitgrad.ones(2, 1, 2, 2, 2), jitgrad.ones(2, 1, 1, 1, 3), "bicubic"), RuntimeError,
     "only supports 4D input"),
    (lambda: F.affine_grid(jitgrad.ones(2, 2, 3), (2, 3, 4)), NotImplementedError, "only supports 4D and 5D sizes"),
    (lambda: F.affine_grid(jitgrad.ones(2, 2, 2), (2, 3, 4, 5)), ValueError, "shape Nx2x3 for size"),
    (lambda: F.affine_grid(jitgrad.ones(2, 2, 3).long(), (2, 3, 4, 5)), ValueError, "floating point type"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_older_names_of_interpolate() -> None:
    x = jitgrad.tensor(IMAGE)
    for size, factor in (((7, 3), None), (None, 2)):
        near = F.interpolate(x, size, factor)
        between = F.interpolate(x, size, factor, "bilinear", align_corners=True)
        assert bool((F.upsample_nearest(x, size, factor) == near).all())
        assert bool((F.upsample_bilinear(x, size, factor) == between).all())


@pytest.mark.parametrize("padding_mode", ["border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_nan_is_the_first_place(mode: str, padding_mode: str) -> None:
    image, grid = jitgrad.arange(1.0, 10.0).reshape(1, 1, 3, 3), jitgrad.full((1, 1, 1, 2), float("nan"))
    assert F.grid_sample(image, grid, mode, padding_mode, False).item() == 1.0
