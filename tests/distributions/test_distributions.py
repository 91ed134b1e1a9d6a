"""Distributions against torch: densities, moments, entropies, divergences and their gradients; samples by moments."""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)


def real(*shape):
    return RNG.standard_normal(shape)


def positive(*shape):
    return RNG.random(shape) + 0.3


def share(*shape):
    return RNG.random(shape) * 0.8 + 0.1


#: name, two sets of parameters, values
CASES = [
    ("Normal", {"loc": real(3), "scale": positive(3)}, {"loc": real(3), "scale": positive(3)}, real(4, 3)),
    ("LogNormal", {"loc": real(3), "scale": positive(3)}, {"loc": real(3), "scale": positive(3)}, positive(4, 3)),
    ("Uniform", {"low": np.zeros(3), "high": 1 + positive(3)}, {"low": -positive(3), "high": 3 + positive(3)},
     share(4, 3)),
    ("Exponential", {"rate": positive(3)}, {"rate": positive(3)}, positive(4, 3)),
    ("Laplace", {"loc": real(3), "scale": positive(3)}, {"loc": real(3), "scale": positive(3)}, real(4, 3)),
    ("Gumbel", {"loc": real(3), "scale": positive(3)}, None, real(4, 3)),
    ("Bernoulli", {"probs": share(3)}, {"probs": share(3)}, np.array([[0.0, 1, 1], [1, 0, 0]])),
    ("Bernoulli", {"logits": real(3)}, {"logits": real(3)}, np.array([[0.0, 1, 1], [1, 0, 0]])),
    ("Categorical", {"probs": share(2, 4)}, {"probs": share(2, 4)}, np.array([[0, 3], [1, 2], [2, 2]])),
    ("Categorical", {"logits": real(2, 4)}, {"logits": real(2, 4)}, np.array([[0, 3], [1, 2], [2, 2]])),
    ("OneHotCategorical", {"logits": real(2, 4)}, {"logits": real(2, 4)}, np.eye(4)[[[0, 3], [1, 2]]]),
    ("Geometric", {"probs": share(3)}, {"probs": share(3)}, np.array([[0.0, 3, 1], [5, 0, 2]])),
]
IDS = [f"{c[0]}-{i}" for i, c in enumerate(CASES)]


@pytest.mark.parametrize(("name", "first", "second", "value"), CASES, ids=IDS)
def test_against_torch(name, first, second, value):
    results = []
    for library in (torch, jitgrad):
        given = {k: library.tensor(v, requires_grad=True) for k, v in first.items()}
        p = getattr(library.distributions, name)(**given)
        text = repr(p).replace("torch.", "")
        found = [p.log_prob(library.tensor(value)), p.entropy()]
        if name != "Categorical":
            found += [p.mean, p.variance, p.stddev]
        if name in ("Normal", "Uniform", "Exponential"):
            found += [p.cdf(library.tensor(value)), p.icdf(library.tensor(np.clip(np.abs(value), 0.1, 0.9)))]
        if second is not None:
            q = getattr(library.distributions, name)(**{k: library.tensor(v) for k, v in second.items()})
            found.append(library.distributions.kl_divergence(p, q))
        sum((f * f).sum() for f in found).backward()
        results.append([f.detach().numpy() for f in found] + [g.grad.numpy() for g in given.values()])
        shapes = [tuple(s) for s in (p.batch_shape, p.event_shape, p.sample((5,)).shape)]
        shapes += [p.has_rsample, text]
        results[-1].append(np.array(str(shapes)))
    for a, b in zip(results[1][:-1], results[0][:-1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    assert results[0][-1] == results[1][-1]


@pytest.mark.parametrize(("name", "first", "second", "value"), CASES, ids=IDS)
def test_samples(name, first, second, value):
    jitgrad.manual_seed(0)
    given = {k: jitgrad.tensor(v, requires_grad=True) for k, v in first.items()}
    p = getattr(distributions, name)(**given)
    draws = p.sample((20000,))
    assert not draws.requires_grad
    if name == "Categorical":
        counts = np.stack([(draws.numpy() == k).mean(0) for k in range(4)], -1)
        np.testing.assert_allclose(counts, p.probs.detach().numpy(), atol=0.015)
    else:
        mean, deviation = p.mean.detach().numpy(), p.stddev.detach().numpy()
        np.testing.assert_allclose(draws.numpy().mean(0), mean, atol=5 * deviation.max() / 100)
    if p.has_rsample:
        p.rsample((3,)).sum().backward()
        assert all(g.grad is not None for g in given.values())


def test_independent_numbers_and_text():
    p = distributions.Independent(distributions.Normal(jitgrad.zeros(2, 3), jitgrad.ones(2, 3)), 1)
    q = torch.distributions.Independent(torch.distributions.Normal(torch.zeros(2, 3), torch.ones(2, 3)), 1)
    assert (p.batch_shape, p.event_shape) == (tuple(q.batch_shape), tuple(q.event_shape))
    np.testing.assert_allclose(p.log_prob(jitgrad.ones(2, 3)).numpy(), q.log_prob(torch.ones(2, 3)).numpy(), rtol=1e-6)
    np.testing.assert_allclose(distributions.kl_divergence(p, p).numpy(), [0, 0])
    assert repr(distributions.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert distributions.Normal(jitgrad.zeros(2), 1.0).scale.tolist() == [1, 1]


def test_what_is_refused():
    with pytest.raises(ValueError, match="parameter scale"):
        distributions.Normal(0.0, -1.0)
    distributions.Normal(0.0, -1.0, validate_args=False)
    with pytest.raises(ValueError, match="constraint LessThan"):
        distributions.Uniform(1.0, 0.0)
    with pytest.raises(ValueError, match="but not both"):
        distributions.Bernoulli()
    with pytest.raises(NotImplementedError, match="No KL"):
        distributions.kl_divergence(distributions.Laplace(0.0, 1.0), distributions.Gumbel(0.0, 1.0))


def test_a_distribution_in_a_script():
    """Made outside, used inside: the same draws and gradients."""
    loc = jitgrad.tensor([0.3, -1.0], requires_grad=True)
    p = distributions.Normal(loc, jitgrad.tensor([1.0, 2.0]))

    def loss(p):
        z = p.rsample((4,))
        return (p.log_prob(z) + z).sum() + p.entropy().sum()

    found = []
    for call in (loss, jitgrad.script(loss)):
        jitgrad.manual_seed(0)
        value = call(p)
        value.backward()
        found.append((value.item(), loc.grad.tolist()))
        loc.grad = None
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-5)
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-5)
