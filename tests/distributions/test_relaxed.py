"""Relaxed choices, angles, factors of correlations, and families by their natural parameters: torch's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as D

RNG = np.random.default_rng(0)
SIMPLEX = RNG.dirichlet(np.ones(3), (4, 2))
FACTORS = np.linalg.cholesky([np.array([[1, 0.3, -0.2], [0.3, 1, 0.5], [-0.2, 0.5, 1]]), np.eye(3)])

#: a distribution made of a library's names and of parameters, these, values, what else is compared
MADE: dict[str, Any] = {
    "relaxed probs": (lambda d, t, p: d.RelaxedBernoulli(t, probs=p), (np.array(0.7), RNG.random(3) * 0.8 + 0.1),
                      RNG.random((4, 3)) * 0.8 + 0.1, "probs logits temperature"),
    "relaxed logits": (lambda d, t, p: d.RelaxedBernoulli(t, logits=p), (np.array(0.7), RNG.standard_normal(3)),
                       RNG.random((4, 3)) * 0.8 + 0.1, "probs logits"),
    "relaxed classes": (lambda d, t, p: d.RelaxedOneHotCategorical(t, logits=p),
                        (np.array(0.7), RNG.standard_normal((2, 3))), SIMPLEX, "probs logits temperature"),
    "relaxed shares": (lambda d, t, p: d.RelaxedOneHotCategorical(t, probs=p),
                       (np.array(1.7), RNG.random((2, 3)) + 0.1), SIMPLEX, "probs logits"),
    "logistic": (lambda d, m, s: d.LogisticNormal(m, s), (RNG.standard_normal((2, 2)), RNG.random((2, 2)) + 0.3),
                 SIMPLEX, "loc scale"),
    "logistic number": (lambda d, m, s: d.LogisticNormal(m, s), (np.array(0.3), np.array(1.3)), SIMPLEX[..., :2] / (
        SIMPLEX[..., :2].sum(-1, keepdims=True)), "loc scale"),
    "angle": (lambda d, m, k: d.VonMises(m, k), (RNG.standard_normal(3), np.array([0.2, 2.0, 9.0])),
              RNG.standard_normal((4, 3)), "mean mode variance"),
    "correlations": (lambda d, c: d.LKJCholesky(3, c), (np.array([0.7, 2.5]),), FACTORS, "concentration"),
}


@pytest.mark.parametrize("name", MADE)
def test_against_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, parameters, value, also = MADE[name]
    results = []
    for library in (torch, jitgrad):
        given = [library.tensor(v, requires_grad=True) for v in parameters]
        p = make(library.distributions, *given)
        text = repr(p).replace("torch.", "")
        found = [p.log_prob(library.tensor(value)), *[getattr(p, word) for word in also.split()]]
        sum((f * f).sum() for f in found).backward()
        shapes = [tuple(s) for s in (p.batch_shape, p.event_shape, p.sample((5,)).shape)]
        results.append(([f.detach().numpy() for f in found] + [g.grad.numpy() for g in given],
                        (shapes, p.has_rsample or name.startswith("relaxed"), text)))
    assert results[0][1] == results[1][1]
    for a, b in zip(results[1][0], results[0][0], strict=True):  # torch's Bessel functions are polynomials of 7 digits
        np.testing.assert_allclose(a, b, rtol=1e-5 if name == "angle" else 1e-7, atol=1e-6 if name == "angle" else 1e-9)


def test_draws_of_relaxed_choices() -> None:
    """The nearest corner is a choice's; draws carry gradients to all parameters."""
    jitgrad.manual_seed(0)
    temperature = jitgrad.tensor(0.5, requires_grad=True)
    probs = jitgrad.tensor([0.2, 0.5, 0.3], requires_grad=True)
    bits = D.RelaxedBernoulli(temperature, probs=probs).rsample((20000,))
    np.testing.assert_allclose((bits > 0.5).double().mean(0).numpy(), [0.2, 0.5, 0.3], atol=0.015)
    shares = D.RelaxedOneHotCategorical(temperature, probs=probs).rsample((20000,))
    np.testing.assert_allclose(shares.sum(-1).detach().numpy(), 1, rtol=1e-5)
    corner = np.bincount(shares.argmax(-1).numpy(), minlength=3) / 20000
    np.testing.assert_allclose(corner, [0.2, 0.5, 0.3], atol=0.015)
    (bits.pow(2).sum() + shares.pow(2).sum()).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in (temperature, probs))
    mixed = D.LogisticNormal(jitgrad.zeros(2), jitgrad.ones(2)).rsample((5,))
    np.testing.assert_allclose(mixed.sum(-1).numpy(), 1, rtol=1e-5)


def test_draws_of_angles() -> None:
    """The circular moments are those of the density."""
    jitgrad.manual_seed(0)
    p = D.VonMises(jitgrad.tensor([0.5, -3.0, 3.0]), jitgrad.tensor([1e-6, 1.0, 20.0]))
    draws = p.sample((20000,)).numpy()
    assert np.abs(draws).max() <= np.pi + 1e-6
    around = np.exp(1j * (draws - p.loc.numpy())).mean(0)
    np.testing.assert_allclose(around.real, 1 - p.variance.numpy(), atol=0.02)
    np.testing.assert_allclose(around.imag, 0, atol=0.02)


def test_draws_of_correlations() -> None:
    """Their factors; the squares of the correlations are of a beta distribution's mean, 1 / (2 c + dim - 1)."""
    jitgrad.manual_seed(0)
    for concentration in (1.0, 3.0):
        factor = D.LKJCholesky(4, jitgrad.tensor(concentration, dtype=jitgrad.float64)).sample((5000,))
        matrix = (factor @ factor.mT).numpy()
        np.testing.assert_allclose(np.diagonal(matrix, axis1=-2, axis2=-1), 1, rtol=1e-6)
        assert (np.triu(factor.numpy(), 1) == 0).all()
        below = matrix[:, *np.tril_indices(4, -1)]
        np.testing.assert_allclose((below ** 2).mean(0), 1 / (2 * concentration + 3), rtol=0.1)


def test_low_degrees_of_freedom_warn() -> None:
    with pytest.warns(UserWarning, match="Low df values detected"):
        D.Wishart(2.5, jitgrad.eye(3))


def test_divergences_of_normal_vectors() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    loc, factor, diagonal = rng.standard_normal((2, 3)), rng.standard_normal((3, 1)), rng.random(3) + 0.3
    found = []
    for library in (torch, jitgrad):
        d = library.distributions
        w = library.tensor(factor, requires_grad=True)
        thin = d.LowRankMultivariateNormal(library.tensor(loc), w, library.tensor(diagonal))
        full = d.MultivariateNormal(library.tensor(loc[::-1].copy()), library.eye(3, dtype=library.float64) * 2)
        both = [d.kl_divergence(thin, full), d.kl_divergence(full, thin)]
        (both[0] + 2 * both[1]).sum().backward()
        found.append([*[v.detach().numpy() for v in both], w.grad.numpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    with pytest.raises(ValueError, match="different event shapes"):
        D.kl_divergence(thin, D.MultivariateNormal(jitgrad.zeros(2), jitgrad.eye(2)))


FAMILIES = {
    "Normal": lambda d, a, b: d.Normal(a, b), "Bernoulli": lambda d, a, b: d.Bernoulli(logits=a),
    "Exponential": lambda d, a, b: d.Exponential(b), "Gamma": lambda d, a, b: d.Gamma(a.exp(), b),
    "Beta": lambda d, a, b: d.Beta(a.exp(), b), "Dirichlet": lambda d, a, b: d.Dirichlet(b),
    "ContinuousBernoulli": lambda d, a, b: d.ContinuousBernoulli(logits=a),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_by_their_natural_parameters(name: str) -> None:
    """The entropy and the divergence that the derivative of the normalizer gives are those of the formulas."""
    a, b = jitgrad.tensor(RNG.standard_normal((2, 3))), jitgrad.tensor(RNG.random((2, 3)) + 0.3)
    p, q = FAMILIES[name](D, a[0], b[0]), FAMILIES[name](D, a[1], b[1])
    assert isinstance(p, D.ExponentialFamily)
    np.testing.assert_allclose(D.ExponentialFamily.entropy(p).detach().numpy(), p.entropy().numpy(), rtol=1e-6)
    from jitgrad.distributions.kl import _bregman
    np.testing.assert_allclose(_bregman(p, q).detach().numpy(), D.kl_divergence(p, q).numpy(), rtol=1e-6, atol=1e-9)


def test_a_family_of_ones_own() -> None:
    class Rates(D.ExponentialFamily):
        _mean_carrier_measure = 0.0

        def __init__(self, rate: Any):
            self.rate = rate
            super().__init__(rate.shape)

        @property
        def _natural_params(self) -> Any:
            return (-self.rate,)

        def _log_normalizer(self, *natural: Any) -> Any:
            return -(-natural[0]).log()

    p, q = Rates(jitgrad.tensor([0.5, 2.0])), Rates(jitgrad.tensor([1.0, 3.0]))
    same = D.Exponential(p.rate), D.Exponential(q.rate)
    np.testing.assert_allclose(p.entropy().detach().numpy(), same[0].entropy().numpy(), rtol=1e-6)
    np.testing.assert_allclose(D.kl_divergence(p, q).detach().numpy(), D.kl_divergence(*same).numpy(), rtol=1e-6)
    with pytest.raises(NotImplementedError):
        D.ExponentialFamily().entropy()


def test_in_a_script() -> None:
    def step(x: Any, a: Any, b: Any) -> Any:
        relaxed = D.RelaxedBernoulli(b.exp()[0], logits=a)
        draw = relaxed.rsample((2,))
        loss = draw.sum() + relaxed.log_prob(x.sigmoid()).sum()
        classes = D.RelaxedOneHotCategorical(b.exp()[1], logits=a)
        loss = loss + classes.rsample().pow(2).sum() + classes.log_prob(x.softmax(-1)).sum()
        loss = loss + D.LogisticNormal(b[:2], a[:2].exp()).log_prob(x.softmax(-1)).sum()
        loss = loss + D.ContinuousBernoulli(logits=a).log_prob(x.sigmoid()).sum()
        loss = loss + D.VonMises(b, a.exp()).log_prob(x).sum()
        thin = D.LowRankMultivariateNormal(a, b.unsqueeze(-1), a.exp())
        loss = loss + thin.log_prob(x).sum() + thin.rsample().sum() + D.kl_divergence(
            thin, D.MultivariateNormal(b, scale_tril=jitgrad.diag(a.exp())))
        covariance = jitgrad.diag(a.exp())
        wishart = D.Wishart(4.0, covariance)
        loss = loss + wishart.log_prob(covariance * 2 + 0.1) + wishart.entropy()
        ball = D.LKJCholesky(3, b.exp()[0])
        loss = loss + ball.log_prob(jitgrad.eye(3, dtype=jitgrad.float64))
        loss.backward()
        return loss.detach(), ball.sample(), wishart.sample(), D.VonMises(b, a.exp()).sample((2,))

    x = np.random.default_rng(1).standard_normal((4, 3))
    found = []
    for run in (step, jitgrad.script(step)):
        jitgrad.manual_seed(3)
        given = [jitgrad.tensor(v, requires_grad=True) for v in (np.array([0.3, -0.2, 0.5]), np.array([0.1, 0.7, -1]))]
        results = run(jitgrad.tensor(x), *given)
        found.append([*[v.numpy() for v in results], *[g.grad.numpy() for g in given]])
    for left, right in zip(*found, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-11)
