"""torch.special: recorded values (mpmath), SciPy's and PyTorch's where installed, gradients, scripts, batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import special
from jitgrad.ops.library.calls.forms import table

POINTS = (0.25, 1.5, 7.5, 26.0)
#: at POINTS
RECORDED = {
    "i0": [1.015686141223608, 1.646723189772891, 268.16131151518937, 15388976705.66081],
    "i1e": [0.09811262869736824, 0.21903938742092569, 0.1380412115485542, 0.07709652456966624],
    "bessel_j0": [0.9844359292958527, 0.5118276717359181, 0.2663396578803784, 0.15599931552242113],
    "bessel_j1": [0.12402597732272692, 0.5579365079100996, 0.1352484275797055, 0.015045730586915811],
    "bessel_y0": [-0.9315730249300587, 0.38244892379775886, 0.11731328614820863, 0.012044625860755602],
    "bessel_y1": [-2.7041052293152825, -0.4123086269739113, -0.25912851048611624, -0.15579655322960265],
    "modified_bessel_k0": [1.5415067512483027, 0.21380556264752573, 0.00024917761635611437, 1.2498773979850725e-12],
    "scaled_modified_bessel_k1": [4.811276588171025, 1.243165873552553, 0.4796689337910206, 0.24929899875354783],
    "erfcx": [0.7703465477309968, 0.3215854164543175, 0.07457369306287669, 0.021683584850562907],
    "log_ndtr": [-0.5129840754094305, -0.06914345561223398, -3.190891672910947e-14, -2.476062e-149],
    "ndtr": [0.5987063256829237, 0.9331927987311419, 0.9999999999999681, 1.0],
    "airy_ai": [0.2911639543485452, 0.07174949700810541, 1.9172560675134309e-07, 5.15301114519834e-40],
    "spherical_bessel_j0": [0.9896158370180917, 0.6649966577360363, 0.12506666356996518, 0.029329171172292414],
}
PAIRS = {
    "zeta": [(1.5, 0.25, 10.213055360466601), (2, 1, 1.6449340668482264), (7, 3.5, 0.0001921640382639378)],
    "gammainc": [(0.5, 0.25, 0.5204998778130465), (3, 7, 0.9703638361194782), (50, 45, 0.24680203440017026),
                 (1000, 1010, 0.6276789447369947)],
    "gammaincc": [(0.5, 0.25, 0.4795001221869535), (3, 7, 0.029636163880521777), (50, 45, 0.7531979655998298),
                  (1000, 1010, 0.3723210552630053)],
    "chebyshev_polynomial_t": [(0.3, 3, -0.792), (-0.5, 10, -0.5), (1.5, 4, 23.5), (1, 9, 1)],
    "chebyshev_polynomial_u": [(0.3, 3, -0.984), (1, 9, 10), (-1, 3, -4)],
    "chebyshev_polynomial_v": [(0.3, 3, -0.344), (-1, 9, -19)],
    "chebyshev_polynomial_w": [(0.3, 3, -1.624), (1, 9, 19)],
    "hermite_polynomial_h": [(2.5, 3, 95), (0.5, -1, 0), (0.5, 0, 1)],
    "hermite_polynomial_he": [(2.5, 3, 8.125)],
    "laguerre_polynomial_l": [(2.5, 3, 0.2708333333333333), (0, 7, 1)],
    "legendre_polynomial_p": [(2.5, 3, 35.3125), (-1, 3, -1), (0.5, 2.9, -0.125)],
}


def test_names() -> None:
    assert set(special.__all__) == set(table()["torch.special"])


@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name: str) -> None:
    """Within 8 units of the last place in float64 (the last digits of a large value's exponent apart), 1 in float32."""
    for dtype, relative in ((jitgrad.float64, 3e-15), (jitgrad.float32, 2e-7)):
        found = getattr(special, name)(jitgrad.tensor(POINTS, dtype=dtype))
        assert found.dtype is dtype
        np.testing.assert_allclose(found.numpy(), RECORDED[name], rtol=relative, atol=1e-37 if name != "log_ndtr" else
                                   1e-145)


@pytest.mark.parametrize("name", PAIRS)
def test_recorded_pairs(name: str) -> None:
    """A relative error of 1e-13 in float64."""
    a, b, expected = (list(x) for x in zip(*PAIRS[name], strict=True))
    found = getattr(special, name)(jitgrad.tensor(a, dtype=jitgrad.float64), jitgrad.tensor(b, dtype=jitgrad.float64))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-13, atol=1e-14)
    if name.startswith("gammainc"):  # of tensors alone, as in torch
        with pytest.raises(TypeError, match="must be Tensor"):
            getattr(special, name)(jitgrad.tensor(a, dtype=jitgrad.float64), b[0])
        return
    number = getattr(special, name)(jitgrad.tensor(a, dtype=jitgrad.float64), b[0])
    assert number[0].item() == found[0].item()
    wide = getattr(special, name)(a[0], jitgrad.tensor(b, dtype=jitgrad.float64).reshape(-1, 1))
    assert wide.shape == (len(b), 1)


GRID = np.concatenate([np.linspace(-30, 30, 601), np.geomspace(1e-8, 1e3, 200), -np.geomspace(1e-8, 1e3, 200)])
#: function -> SciPy's, and how many units of the last place they are apart at most where neither is near a zero
SCIPY = {"i0": ("i0", 4), "i0e": ("i0e", 4), "i1": ("i1", 4), "i1e": ("i1e", 4), "modified_bessel_k0": ("k0", 4),
         "modified_bessel_k1": ("k1", 4), "scaled_modified_bessel_k0": ("k0e", 4), "entr": ("entr", 2),
         "scaled_modified_bessel_k1": ("k1e", 4), "bessel_j0": ("j0", None), "bessel_j1": ("j1", None),
         "bessel_y0": ("y0", None), "bessel_y1": ("y1", None), "ndtri": ("ndtri", 8), "erfcx": ("erfcx", 300),
         "ndtr": ("ndtr", 300), "log_ndtr": ("log_ndtr", 300)}


@pytest.mark.parametrize("name", SCIPY)
def test_scipy(name: str) -> None:
    """In units of the last place, or (those with zeros) 1e-14 beside 1e-13; SciPy squares without a low part."""
    scipy = pytest.importorskip("scipy.special")
    theirs, ulps = SCIPY[name]
    x = np.linspace(-0.1, 1.1, 601) if name == "ndtri" else GRID
    with np.errstate(all="ignore"):
        expected = getattr(scipy, theirs)(x)
    found = getattr(special, name)(jitgrad.tensor(x)).numpy()
    if ulps is None:
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)
    else:
        np.testing.assert_allclose(found, expected, rtol=ulps * 2.0 ** -52, atol=1e-300)


def test_incomplete_gamma_functions_everywhere() -> None:
    """Of tiny to large parameters, near the argument and far from it: 1e-12, where neither underflows."""
    scipy = pytest.importorskip("scipy.special")
    rng = np.random.default_rng(0)
    a = np.exp(rng.uniform(-6, 12, 3000))
    x = a * np.exp(rng.normal(size=a.size) * rng.choice([0.001, 0.1, 1], a.size))
    for name in ("gammainc", "gammaincc"):
        found = getattr(special, name)(jitgrad.tensor(a), jitgrad.tensor(x)).numpy()
        expected = getattr(scipy, name)(a, x)
        kept = expected > 1e-30
        np.testing.assert_allclose(found[kept], expected[kept], rtol=1e-12)


def test_ends() -> None:
    inf, nan = float("inf"), float("nan")

    def of(name: str, *values: Any) -> list[float]:
        return [float(v) for v in getattr(special, name)(*[jitgrad.tensor(v) for v in values]).tolist()]

    assert of("i0", [inf, -inf]) == [inf, inf]
    assert of("i1", [inf, -inf, 0.0]) == [inf, -inf, 0.0]
    assert of("bessel_j0", [inf, 0.0]) == [0.0, 1.0]
    assert of("bessel_y0", [0.0, inf]) == [-inf, 0.0]
    assert of("modified_bessel_k0", [0.0, inf]) == [inf, 0.0]
    assert of("erfcx", [-inf, inf, -30.0]) == [inf, 0.0, inf]
    assert of("log_ndtr", [-inf, inf]) == [-inf, 0.0]
    assert of("ndtri", [0.0, 1.0]) == [-inf, inf]
    assert of("entr", [0.0, -1.0]) == [0.0, -inf]
    assert of("gammainc", [0.0, 2.0, 2.0, inf], [1.0, 0.0, inf, 1.0]) == [1.0, 0.0, 1.0, 0.0]
    assert of("gammaincc", [0.0, 2.0, 2.0, inf], [1.0, 0.0, inf, 1.0]) == [0.0, 1.0, 0.0, 1.0]
    assert of("zeta", [1.0, 2.0], [2.0, 0.0]) == [inf, inf]
    for name in ("i0", "i1e", "bessel_j0", "bessel_y1", "modified_bessel_k1", "erfcx", "log_ndtr", "ndtri", "entr"):
        assert np.isnan(of(name, [nan])).all(), name
    for name, values in (("bessel_y0", [-1.0]), ("modified_bessel_k0", [-1.0]), ("ndtri", [1.5, -0.5])):
        assert np.isnan(of(name, values)).all(), name
    assert np.isnan(of("gammainc", [0.0, -1.0, inf, nan], [0.0, 1.0, inf, 1.0])).all()
    assert np.isnan(of("zeta", [0.5, 2.5], [1.0, -0.5])).all()


def test_many_elements_are_computed_as_few() -> None:
    """NumPy is given blocks of them, whatever lies in between in memory."""
    x = jitgrad.tensor(np.linspace(-5, 5, 40000).reshape(200, 200)).t()
    for name in ("i0", "bessel_j1", "erfcx"):
        fn = getattr(special, name)
        assert jitgrad.equal(fn(x), jitgrad.stack([fn(row) for row in x]))


def test_integers_become_floats_and_halves_stay() -> None:
    assert special.i0(jitgrad.arange(3)).dtype is jitgrad.float32
    assert special.zeta(jitgrad.arange(3) + 2, 1).dtype is jitgrad.float32
    for dtype in (jitgrad.float16, jitgrad.bfloat16):
        assert special.i0(jitgrad.ones(3, dtype=dtype)).dtype is dtype
        assert special.gammainc(jitgrad.ones(3, dtype=dtype), jitgrad.ones(1, dtype=dtype)).dtype is dtype
    assert special.erfcx(jitgrad.ones(0, 3)).shape == (0, 3)
    assert special.legendre_polynomial_p(jitgrad.ones(0, 3), 2).shape == (0, 3)


def test_parameters_without_a_derivative() -> None:
    x = jitgrad.tensor([1.5, 2.5], requires_grad=True)
    assert jitgrad.autograd.grad(special.gammainc(x.detach(), x).sum(), x)[0].shape == (2,)
    for call, word in ((lambda: special.gammainc(x, jitgrad.ones(1)), "igamma: input"),
                       (lambda: special.zeta(x, 1.0), "zeta")):
        y = call()
        assert y.requires_grad
        with pytest.raises(NotImplementedError, match=f"the derivative for '{word}' is not implemented."):
            y.sum().backward()


def density(x: Any, y: Any) -> Any:
    curved = special.i0(x) * special.log_ndtr(x) + special.erfcx(x) + special.bessel_j0(x) * special.i1e(x)
    steep = special.modified_bessel_k1(y) + special.ndtri(y / 10) + special.entr(y) + special.xlog1py(y, x)
    return (curved * steep).sum() + special.gammaincc(y.detach(), y).sum() + special.zeta(3.0, y).sum()


def test_scripted_with_gradients_of_both_orders() -> None:
    given = [np.linspace(0.2, 3, 7), np.linspace(0.3, 4, 7)]

    def run(fn: Any) -> list[Any]:
        x, y = (jitgrad.tensor(a, requires_grad=True) for a in given)
        value = fn(x, y)
        first = jitgrad.autograd.grad(value, (x, y), create_graph=True)
        second = jitgrad.autograd.grad(sum((g * g).sum() for g in first), (x, y))
        return [v.detach().numpy() for v in (value, *first, *second)]

    for ours, eager in zip(run(jitgrad.script(density)), run(density), strict=True):
        np.testing.assert_allclose(ours, eager, rtol=1e-10, atol=1e-12)


def test_a_batch() -> None:
    x = jitgrad.tensor(np.linspace(0.5, 3, 6).reshape(2, 3))
    n = jitgrad.tensor([1.0, 4.0])
    found = jitgrad.vmap(special.legendre_polynomial_p)(x, n)
    assert found.tolist() == special.legendre_polynomial_p(x, n[:, None]).tolist()
    found = jitgrad.vmap(special.gammainc, in_dims=(None, 0))(n[0], x)
    assert found.tolist() == special.gammainc(n[0], x).tolist()


def test_multigammaln() -> None:
    torch = pytest.importorskip("torch")
    x = np.linspace(2, 6, 5)
    expected = torch.special.multigammaln(torch.tensor(x), 3).numpy()
    np.testing.assert_allclose(jitgrad.tensor(x).mvlgamma(3).numpy(), expected, rtol=1e-13)
    with pytest.raises(RuntimeError, match="p has to be greater than or equal to 1"):
        special.multigammaln(jitgrad.ones(2), 0)


@pytest.mark.parametrize("name", [n for n in special.__all__ if "polynomial" in n])
def test_polynomials_against_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    x, n = np.linspace(-1.5, 1.5, 13), np.arange(-1.0, 12)[:, None]
    expected = getattr(torch.special, name)(torch.tensor(x), torch.tensor(n)).numpy()
    found = getattr(special, name)(jitgrad.tensor(x), jitgrad.tensor(n)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e", "erfcx", "log_ndtr", "ndtr", "entr", "sinc", "logit"])
def test_gradients_against_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    points = [0.05, 0.3, 0.9] if name == "logit" else [-9.0, -1.0, -0.25, 0.0, 0.75, 3.0, 12.0]
    points = [p for p in points if name != "entr" or p > 0]
    ours, theirs = jitgrad.tensor(points, dtype=jitgrad.float64), torch.tensor(points, dtype=torch.float64)
    for library, x in ((jitgrad, ours.requires_grad_()), (torch, theirs.requires_grad_())):
        y = getattr(library.special, name)(x)
        y.sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-9, atol=1e-300)
