"""Mixtures, and distributions with thick tails: torch's numbers, scripts, samples by moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as D

RNG = np.random.default_rng(0)
LOGITS, LOC, SCALE = (RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3)), RNG.random((2, 3)) + 0.3)
VECTORS = RNG.standard_normal((2, 3, 4))

#: mixtures made of a library's distributions and parameters, and values
MIXTURES: dict[str, Any] = {
    "numbers": (lambda d, w, loc, s, v: d.MixtureSameFamily(d.Categorical(logits=w), d.Normal(loc, s)),
                RNG.standard_normal((5, 2))),
    "one choice": (lambda d, w, loc, s, v: d.MixtureSameFamily(d.Categorical(logits=w[0]), d.Normal(loc, s)),
                   RNG.standard_normal((5, 2))),
    "one": (lambda d, w, loc, s, v: d.MixtureSameFamily(d.Categorical(logits=w[0]), d.Laplace(loc[0], s[0])),
            RNG.standard_normal(5)),
    "vectors": (lambda d, w, loc, s, v: d.MixtureSameFamily(
        d.Categorical(logits=w), d.Independent(d.Normal(v, s.unsqueeze(-1)), 1)), RNG.standard_normal((5, 2, 4))),
}


def made(library: Any, name: str) -> tuple[Any, Any]:
    given = [library.tensor(v, requires_grad=True) for v in (LOGITS, LOC, SCALE, VECTORS)]
    return MIXTURES[name][0](library.distributions, *given), given


@pytest.mark.parametrize("name", MIXTURES)
def test_against_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    results = []
    for library in (torch, jitgrad):
        p, given = made(library, name)
        text = repr(p).replace("torch.", "") if name != "vectors" else ""  # torch's shows what has been asked for since
        value = library.tensor(MIXTURES[name][1])
        found = [p.log_prob(value), p.mean, p.variance, p.stddev]
        if name != "vectors":
            found.append(p.cdf(value))
        sum((f * f).sum() for f in found).backward()
        grads = [np.zeros(()) if g.grad is None else g.grad.numpy() for g in given]
        drawn = () if name == "one choice" else tuple(p.sample((5,)).shape)  # torch's draws of it fail
        facts = (tuple(p.batch_shape), tuple(p.event_shape), p.has_rsample, drawn, text)
        results.append(([f.detach().numpy() for f in found] + grads, facts))
    assert results[0][1] == results[1][1]
    for a, b in zip(results[1][0], results[0][0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", MIXTURES)
def test_samples(name: str) -> None:
    p, _ = made(jitgrad, name)
    jitgrad.manual_seed(0)
    draws = p.sample((20000,))
    assert not draws.requires_grad
    spread = p.stddev.detach().numpy()
    np.testing.assert_allclose(draws.mean(0).numpy(), p.mean.detach().numpy(), atol=0.05 * spread.max())
    np.testing.assert_allclose(draws.std(0).numpy(), spread, rtol=0.06)
    if name == "one choice":  # each of the batch chooses for itself
        pair = (draws - p.mean.detach()).numpy() / spread
        assert abs((pair[:, 0] * pair[:, 1]).mean()) < 0.05


def test_what_is_refused() -> None:
    normal: Any = D.Normal(jitgrad.zeros(2, 3), 1.0)
    three: Any = 3
    with pytest.raises(ValueError, match=r"Mixture distribution needs to be an  instance of torch.distributions.Cat"):
        D.MixtureSameFamily(normal, normal)
    with pytest.raises(ValueError, match=r"Component distribution needs to be an instance of torch.distributions.Dis"):
        D.MixtureSameFamily(D.Categorical(jitgrad.ones(3)), three)
    with pytest.raises(ValueError, match=r"component` \(4\) does not equal `component_distribution.batch_shape\[-1\]"):
        D.MixtureSameFamily(D.Categorical(jitgrad.ones(4)), normal)
    with pytest.raises(ValueError, match="is not compatible with"):
        D.MixtureSameFamily(D.Categorical(jitgrad.ones(5, 3)), normal)


def test_generalized_pareto() -> None:
    """In float32: torch compares the concentration with a float32 zero."""
    torch = pytest.importorskip("torch")
    values = (np.array([0.5, -1, 2, 0.1], np.float32), np.array([1, 2, 0.5, 1], np.float32),
              np.array([0.1, -0.4, 0, 1.5], np.float32))
    results = []
    for library in (torch, jitgrad):
        given = [library.tensor(v, requires_grad=True) for v in values]
        p = library.distributions.GeneralizedPareto(*given)
        x, share = p.loc.detach() + library.tensor([[0.2], [0.9]]), library.tensor([[0.2], [0.9]])
        found = [p.log_prob(x), p.log_survival_function(x), p.log_cdf(x), p.cdf(x), p.icdf(share), p.entropy(), p.mode]
        sum((f * f).sum() for f in found).backward()
        found += [p.mean, p.variance]
        results.append([f.detach().numpy() for f in found] + [g.grad.numpy() for g in given])
        results[-1].append(np.array(str((repr(p).replace("torch.", ""), p.has_rsample, tuple(p.rsample((3,)).shape)))))
    for a, b in zip(results[1][:-1], results[0][:-1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    assert results[0][-1] == results[1][-1]


def test_draws_of_a_generalized_pareto() -> None:
    jitgrad.manual_seed(0)
    scale = jitgrad.tensor([1.0, 2.0, 0.5], requires_grad=True)
    p = D.GeneralizedPareto(0.5, scale, jitgrad.tensor([0.1, -0.4, 0.0]))
    draws = p.rsample((20000,))
    np.testing.assert_allclose(draws.detach().mean(0).numpy(), p.mean.detach().numpy(), rtol=0.03)
    draws.sum().backward()
    assert scale.grad is not None


def test_moments_that_are_not_there() -> None:
    p = D.InverseGamma(jitgrad.tensor([0.5, 1.5, 3.0]), 1.0)
    assert (p.mean.isinf().tolist(), p.variance.isinf().tolist()) == ([True, False, False], [True, True, False])
    q = D.FisherSnedecor(jitgrad.tensor([1.0, 3.0, 3.0]), jitgrad.tensor([1.0, 3.0, 5.0]))
    assert (q.mean.isnan().tolist(), q.variance.isnan().tolist()) == ([True, False, False], [True, True, False])
    assert q.mode.isnan().tolist() == [True, False, False]
    assert bool(D.Kumaraswamy(0.5, 2.0).mode.isnan())
    assert float(D.NegativeBinomial(0.0, 0.5).log_prob(jitgrad.tensor(0.0))) == 0
    certain = D.Multinomial(3, logits=jitgrad.tensor([0.0, -float("inf")]))
    assert float(certain.log_prob(jitgrad.tensor([3.0, 0.0]))) == 0


def test_gradients_through_a_straight_draw() -> None:
    logits = jitgrad.tensor([0.3, -0.2, 0.5], requires_grad=True)
    draw = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert sorted(draw.tolist()) == pytest.approx([0, 0, 1])
    (draw * jitgrad.tensor([1.0, 2.0, 3.0])).sum().backward()
    probs = np.exp(logits.detach().numpy()) / np.exp(logits.detach().numpy()).sum()
    expected = probs * (np.array([1.0, 2, 3]) - probs @ [1.0, 2, 3])
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-5)


def test_in_a_script() -> None:
    """Made, asked and drawn from in a script: eager's numbers and gradients."""
    def step(x: Any, a: Any, b: Any) -> Any:
        mixed = D.MixtureSameFamily(D.Categorical(logits=a), D.Normal(b, a.exp()))
        loss = mixed.log_prob(x).sum() + mixed.mean
        counts = (x.abs() * 3).floor()
        loss = loss + D.NegativeBinomial(4.0, logits=b[0]).log_prob(counts).sum()
        loss = loss + D.Multinomial(3, logits=a).log_prob(counts[:3]) + D.Multinomial(3, logits=a).entropy()
        inverse = D.InverseGamma(a.exp()[0], b.exp()[1])
        loss = loss + inverse.log_prob(x.abs()).sum() + inverse.entropy()
        loss = loss + D.kl_divergence(inverse, D.InverseGamma(b.exp()[0], 1.0))
        loss = loss + D.Kumaraswamy(a.exp()[0], b.exp()[1]).log_prob(x.sigmoid()).sum()
        loss = loss + D.FisherSnedecor(a.exp()[0], b.exp()[1]).log_prob(x.abs()).sum()
        loss = loss + D.GeneralizedPareto(-5.0, a.exp()[0], b.exp()[1]).log_prob(x).sum()
        straight = D.OneHotCategoricalStraightThrough(logits=a).rsample()
        loss = loss + (straight * b).sum()
        loss.backward()
        return loss.detach(), mixed.sample((4,)), D.NegativeBinomial(4.0, logits=b).sample(), inverse.sample((2,))

    x = np.random.default_rng(1).standard_normal(6)
    found = []
    for run in (step, jitgrad.script(step)):
        jitgrad.manual_seed(3)
        given = [jitgrad.tensor(v, requires_grad=True) for v in (np.array([0.3, -0.2, 0.5]), np.array([0.1, 0.7, -1]))]
        loss = run(jitgrad.tensor(x), *given)
        found.append([*[v.numpy() for v in loss], *[g.grad.numpy() for g in given]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["OneHotCategorical", "OneHotCategoricalStraightThrough"])
def test_all_vectors_of_a_choice(name: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for library in (torch, jitgrad):
        p = getattr(library.distributions, name)(logits=library.tensor(LOGITS))
        values = p.mode, p.enumerate_support(), p.enumerate_support(expand=False)
        found.append(([v.tolist() for v in values], p.has_enumerate_support, tuple(p.param_shape)))
    assert found[0] == found[1]
