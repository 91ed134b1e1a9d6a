"""Maps of distributions: inverses, derivatives by differences, and torch's densities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as D

RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((4, 3))

#: a map made of a library's names, and where it is tried
MAPS: dict[str, Any] = {
    "exp": (lambda d, t: d.ExpTransform(), VECTORS),
    "affine": (lambda d, t: d.AffineTransform(t(np.array([1.0, 2, 3])), t(np.array([0.5, -2, 3]))), VECTORS),
    "affine numbers": (lambda d, t: d.AffineTransform(1.0, -2.0), VECTORS),
    "affine vectors": (lambda d, t: d.AffineTransform(1.0, 2.0, event_dim=1), VECTORS),
    "sigmoid": (lambda d, t: d.SigmoidTransform(), VECTORS),
    "tanh": (lambda d, t: d.TanhTransform(), VECTORS),
    "softplus": (lambda d, t: d.SoftplusTransform(), VECTORS),
    "power": (lambda d, t: d.PowerTransform(t(np.array(1.7))), np.abs(VECTORS)),
    "inverse": (lambda d, t: d.ExpTransform().inv, np.abs(VECTORS)),
    "sticks": (lambda d, t: d.StickBreakingTransform(), VECTORS),
    "independent": (lambda d, t: d.IndependentTransform(d.ExpTransform(), 1), VECTORS),
    "several": (lambda d, t: d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.TanhTransform(), d.ExpTransform()]),
                VECTORS),
    "to vectors": (lambda d, t: d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.StickBreakingTransform()]), VECTORS),
}


@pytest.mark.parametrize("name", MAPS)
def test_inverses_and_derivatives(name: str) -> None:
    make, points = MAPS[name]
    transform, x = make(D, jitgrad.tensor), jitgrad.tensor(points)
    y = transform(x)
    assert tuple(y.shape) == transform.forward_shape(tuple(x.shape))
    np.testing.assert_allclose(transform.inv(y).numpy(), points, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(transform.inv.inv(x).numpy(), y.numpy())
    slope = transform.log_abs_det_jacobian(x, y)
    for i in range(len(points)):
        jacobian = jitgrad.autograd.functional.jacobian(lambda v: transform(v)[..., :3], x[i])
        size = np.linalg.slogdet(jacobian.numpy())[1]
        np.testing.assert_allclose(slope[i].sum().numpy(), size, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, x).numpy(), -slope.numpy())
    assert transform == make(D, jitgrad.tensor)


@pytest.mark.parametrize("name", [name for name in MAPS if name != "power"])
def test_densities_against_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, points = MAPS[name]
    found = []
    for library in (torch, jitgrad):
        d = library.distributions
        loc = library.tensor(np.array([0.3, -0.2, 0.5]), requires_grad=True)
        base = d.LogNormal(loc, 1.5) if name == "inverse" else d.Normal(loc, library.tensor(np.array([1.0, 2.0, 0.7])))
        p = d.TransformedDistribution(base, [make(d, library.tensor)])
        value = make(d, library.tensor)(library.tensor(points))
        density = p.log_prob(value)
        density.sum().backward()
        found.append([density.detach().numpy(), loc.grad.numpy()])
        shapes = [tuple(s) for s in (p.batch_shape, p.event_shape, p.sample((5,)).shape, p.rsample().shape)]
        found[-1].append(np.array(str((shapes, p.has_rsample, repr(p)))))
        if name in ("exp", "affine numbers", "several"):
            inside = library.tensor(np.array([0.2, 0.5, 0.9]))
            found[-1] += [p.cdf(value).detach().numpy(), p.icdf(inside).detach().numpy()]
    for a, b in zip(*found, strict=True):
        if a.dtype.kind == "U":
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_divergences_and_draws() -> None:
    p, q = (D.TransformedDistribution(D.Normal(loc, 1.0), [D.ExpTransform()]) for loc in (0.0, 1.0))
    np.testing.assert_allclose(float(D.kl_divergence(p, q)), 0.5)
    other = D.TransformedDistribution(D.Normal(0.0, 1.0), [D.TanhTransform()])
    with pytest.raises(NotImplementedError):
        D.kl_divergence(p, other)
    simplex = D.TransformedDistribution(D.Normal(jitgrad.zeros(2), 1.0), D.StickBreakingTransform())
    draws = simplex.rsample((7,))
    assert draws.shape == (7, 3)
    np.testing.assert_allclose(draws.sum(-1).numpy(), np.ones(7), rtol=1e-5)


def test_maps_that_lose_something() -> None:
    x = jitgrad.tensor(VECTORS)
    assert not D.AbsTransform().bijective
    assert bool((D.AbsTransform()(x) == x.abs()).all())
    y = D.SoftmaxTransform()(x)
    np.testing.assert_allclose(y.sum(-1).numpy(), np.ones(4))
    np.testing.assert_allclose(D.SoftmaxTransform()(D.SoftmaxTransform().inv(y)).numpy(), y.numpy())
    assert D.identity_transform(x) is x
    assert float(D.identity_transform.log_abs_det_jacobian(x, x).sum()) == 0


def test_too_few_axes() -> None:
    with pytest.raises(ValueError, match="needs to have shape with size at least 1"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform())


@pytest.mark.parametrize("name", ["AbsTransform", "SoftmaxTransform", "StickBreakingTransform"])
def test_maps_that_do_not_rise_have_no_sign(name: str) -> None:
    """So that no cdf is made of one."""
    made = getattr(D, name)()
    for map_ in (made, made.inv, D.ComposeTransform([made])):
        with pytest.raises(NotImplementedError):
            _ = map_.sign
    with pytest.raises(NotImplementedError):
        D.TransformedDistribution(D.Normal(jitgrad.zeros(3), 1.0), made).cdf(jitgrad.ones(3))
    assert D.ExpTransform().sign == D.ExpTransform().inv.sign == 1
