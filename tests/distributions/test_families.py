"""Heavy tails, counts, vectors, and what maps make of others: torch's numbers, scripts, samples by moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as D

RNG = np.random.default_rng(0)


def real(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def positive(*shape: int) -> Any:
    return RNG.random(shape) + 0.3


def share(*shape: int) -> Any:
    return RNG.random(shape) * 0.8 + 0.1


def definite(*shape: int) -> Any:
    a = RNG.standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


def lower(*shape: int) -> Any:
    return np.linalg.cholesky(definite(*shape))


COUNTS = np.array([[0.0, 3, 1], [5, 0, 2]])
#: name, two sets of parameters, values, what else is compared
CASES: list[tuple[str, dict[str, Any], dict[str, Any] | None, Any, str]] = [
    ("Cauchy", {"loc": real(3), "scale": positive(3)}, {"loc": real(3), "scale": positive(3)}, real(4, 3),
     "entropy cdf icdf"),
    ("HalfCauchy", {"scale": positive(3)}, None, positive(4, 3), "entropy cdf icdf"),
    ("HalfNormal", {"scale": positive(3)}, {"scale": positive(3)}, positive(4, 3), "entropy cdf icdf mean variance"),
    ("Poisson", {"rate": positive(3) * 3}, {"rate": positive(3)}, COUNTS, "mean variance"),
    ("Binomial", {"total_count": np.full(3, 6.0), "probs": share(3)},
     {"total_count": np.full(3, 6.0), "probs": share(3)}, COUNTS, "entropy mean variance"),
    ("Binomial", {"total_count": np.full(3, 6.0), "logits": real(3)},
     {"total_count": np.full(3, 6.0), "logits": real(3)}, COUNTS, "entropy mean variance"),
    ("Pareto", {"scale": positive(3), "alpha": positive(3) + 4}, {"scale": positive(3) * 0.1, "alpha": positive(3)},
     2 + positive(4, 3), "entropy cdf mean variance"),
    ("Weibull", {"scale": positive(3), "concentration": positive(3) * 2}, None, positive(4, 3),
     "entropy cdf icdf mean variance"),
    ("Gamma", {"concentration": positive(3) * 2, "rate": positive(3)},
     {"concentration": positive(3), "rate": positive(3)}, positive(4, 3), "entropy mean variance"),
    ("Chi2", {"df": positive(3) * 5}, {"df": positive(3) * 3}, positive(4, 3), "entropy mean variance"),
    ("Beta", {"concentration1": positive(3) * 2, "concentration0": positive(3)},
     {"concentration1": positive(3), "concentration0": positive(3)}, share(4, 3), "entropy mean variance"),
    ("Dirichlet", {"concentration": positive(2, 3) * 2}, {"concentration": positive(2, 3)},
     np.random.default_rng(0).dirichlet(np.ones(3), (4, 2)), "entropy mean variance"),
    ("StudentT", {"df": np.array([3.5, 5.0, 9.0]), "loc": real(3), "scale": positive(3)}, None, real(4, 3),
     "entropy mean variance"),
    ("MultivariateNormal", {"loc": real(2, 3), "covariance_matrix": definite(3, 3)},
     {"loc": real(3), "covariance_matrix": definite(2, 3, 3)}, real(4, 2, 3),
     "entropy mean variance precision_matrix scale_tril"),
    ("MultivariateNormal", {"loc": real(3), "precision_matrix": definite(2, 3, 3)},
     {"loc": real(3), "precision_matrix": definite(3, 3)}, real(4, 2, 3), "entropy variance covariance_matrix"),
    ("MultivariateNormal", {"loc": real(3), "scale_tril": lower(3, 3)}, {"loc": real(3), "scale_tril": lower(3, 3)},
     real(4, 3), "entropy mean variance precision_matrix covariance_matrix"),
    ("Multinomial", {"total_count": 5, "probs": share(2, 3)}, None, np.array([[[1.0, 0, 4], [2, 2, 1]]]),
     "entropy mean variance"),
    ("Multinomial", {"total_count": 5, "logits": real(3)}, None, np.array([[1.0, 0, 4], [2, 2, 1]]),
     "entropy mean variance"),
    ("NegativeBinomial", {"total_count": np.full(3, 6.0), "probs": share(3)}, None, COUNTS, "mean variance mode"),
    ("NegativeBinomial", {"total_count": positive(3) * 4, "logits": real(3)}, None, COUNTS, "mean variance mode"),
    ("InverseGamma", {"concentration": positive(3) + 4, "rate": positive(3)},
     {"concentration": positive(3), "rate": positive(3)}, positive(4, 3), "entropy mean variance mode"),
    ("Kumaraswamy", {"concentration1": positive(3) + 1, "concentration0": positive(3) + 1}, None, share(4, 3),
     "entropy mean variance mode cdf icdf"),
    ("FisherSnedecor", {"df1": positive(3) * 3 + 2, "df2": positive(3) + 9}, None, positive(4, 3),
     "mean variance mode"),
    ("OneHotCategoricalStraightThrough", {"logits": real(2, 4)}, {"logits": real(2, 4)}, np.eye(4)[[[0, 3], [1, 2]]],
     "entropy mean variance"),
    ("ContinuousBernoulli", {"probs": np.array([0.2, 0.4995, 0.9])}, {"probs": share(3)}, share(4, 3),
     "entropy mean variance cdf icdf"),
    ("ContinuousBernoulli", {"logits": np.array([-1.2, 0.001, 2.0])}, {"logits": real(3)}, share(4, 3),
     "entropy mean variance cdf icdf"),
    ("LowRankMultivariateNormal", {"loc": real(2, 3), "cov_factor": real(3, 2), "cov_diag": positive(3)},
     {"loc": real(3), "cov_factor": real(2, 3, 1), "cov_diag": positive(2, 3)}, real(4, 2, 3),
     "entropy mean variance precision_matrix scale_tril covariance_matrix mode"),
    ("Wishart", {"df": np.array(5.5), "covariance_matrix": definite(3, 3)},
     {"df": np.array(4.0), "covariance_matrix": definite(3, 3)}, definite(4, 3, 3),
     "entropy mean variance mode precision_matrix"),
    ("Wishart", {"df": np.array([5.5, 3.5]), "scale_tril": lower(2, 3, 3)}, None, definite(4, 2, 3, 3),
     "entropy mean variance covariance_matrix"),
    ("Wishart", {"df": np.array([5.5, 4.5]), "precision_matrix": definite(3, 3)}, None, definite(4, 2, 3, 3),
     "entropy mean variance covariance_matrix"),
]


def parameters(library: Any, given: dict[str, Any], grad: bool = False) -> dict[str, Any]:
    """A count that is a number stays one; counts have no gradients."""
    return {k: v if isinstance(v, int) else library.tensor(v, requires_grad=grad and k != "total_count")
            for k, v in given.items()}



IDS = [f"{case[0]}-{i}" for i, case in enumerate(CASES)]


@pytest.mark.filterwarnings("ignore:Singular sample")  # torch says so of whatever is drawn from a Wishart distribution
@pytest.mark.parametrize(("name", "first", "second", "value", "also"), CASES, ids=IDS)
def test_against_torch(name: str, first: Any, second: Any, value: Any, also: str) -> None:
    torch = pytest.importorskip("torch")
    results = []
    for library in (torch, jitgrad):
        given = parameters(library, first, grad=True)
        p = getattr(library.distributions, name)(**given)
        text = repr(p).replace("torch.", "")  # torch's shows what has been asked for since
        found = [p.log_prob(library.tensor(value))]
        for word in also.split():
            got = getattr(p, word)
            at = library.tensor(np.abs(value) if word == "cdf" else np.clip(np.abs(value), 0.1, 0.9))
            found.append(got(at) if word in ("cdf", "icdf") else got() if callable(got) else got)
        if second is not None:
            q = getattr(library.distributions, name)(**parameters(library, second))
            found.append(library.distributions.kl_divergence(p, q))
        sum((f * f).sum() for f in found).backward()
        shapes = [tuple(s) for s in (p.batch_shape, p.event_shape, p.sample((5,)).shape)]
        facts = (shapes, p.has_rsample, text)
        results.append(([f.detach().numpy() for f in found] + [
            np.tril(g.grad.numpy()) if k == "scale_tril" else g.grad.numpy()  # torch's inverse reads the other triangle
            for k, g in given.items() if getattr(g, "requires_grad", False)], facts))
    assert results[0][1] == results[1][1]
    for a, b in zip(results[1][0], results[0][0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("name", "first", "second", "value", "also"), CASES, ids=IDS)
def test_samples(name: str, first: Any, second: Any, value: Any, also: str) -> None:
    jitgrad.manual_seed(0)
    p = getattr(D, name)(**parameters(jitgrad, first, grad=True))
    draws = p.sample((20000,))
    assert not draws.requires_grad
    assert p.rsample().requires_grad if p.has_rsample else True
    if "Cauchy" in name:  # no moments: the quartiles
        for share_ in (0.25, 0.5, 0.75):
            below = (draws < p.icdf(jitgrad.tensor(share_, dtype=jitgrad.float64))).double().mean(0)
            np.testing.assert_allclose(below.numpy(), share_, atol=0.02)
        return
    spread = p.variance.detach().sqrt().numpy()
    np.testing.assert_allclose(draws.mean(0).numpy(), p.mean.detach().numpy(), atol=0.05 * spread.max())
    np.testing.assert_allclose(draws.std(0).numpy(), spread, rtol=0.2 if name == "StudentT" else 0.06)
    if name == "MultivariateNormal":
        flat = (draws - p.mean.detach()).reshape(20000, -1, 3)
        found = (flat.permute(1, 2, 0) @ flat.permute(1, 0, 2)) / 20000
        expected = p.covariance_matrix.detach().reshape(-1, 3, 3).numpy()
        np.testing.assert_allclose(found.numpy(), expected, atol=0.06 * expected.max())


def test_maximum_likelihood_in_a_script() -> None:
    """Steps of training whose distributions are made in the script."""
    def step(x: Any, loc: Any, factor: Any, rate: Any, scale: Any) -> Any:
        normal = D.MultivariateNormal(loc, scale_tril=factor.tril(-1) + jitgrad.diag(factor.diagonal().exp()))
        loss = -normal.log_prob(x).mean() - D.Poisson(rate.exp()).log_prob(x[:, 0].abs().floor()).mean()
        loss = loss - D.Cauchy(loc[0], scale.exp()).log_prob(x[:, 1]).mean()
        moved = D.TransformedDistribution(D.Normal(loc[1], scale.exp()),
                                          [D.SigmoidTransform(), D.AffineTransform(1.0, 2.0)])
        loss = loss - moved.log_prob(x[:, 0].sigmoid() * 2 + 1).mean()
        loss.backward()
        return loss.detach()

    rng = np.random.default_rng(1)
    x = jitgrad.tensor(rng.standard_normal((6, 3)))
    found = []
    for run in (step, jitgrad.script(step)):
        begin = (np.zeros(3), np.eye(3) * 0.1, np.zeros(()), np.zeros(()))
        given = [jitgrad.tensor(v, requires_grad=True) for v in begin]
        loss = run(x, *given)
        found.append([loss.numpy(), *[g.grad.numpy() for g in given]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: D.Cauchy(0.0, -1.0), ValueError, "parameter scale .* of distribution Cauchy"),
    (lambda: D.HalfNormal(-1.0), ValueError, "parameter scale"),
    (lambda: D.Poisson(-1.0), ValueError, r"constraint GreaterThanEq\(lower_bound=0.0\)"),
    (lambda: D.Binomial(3, 1.5), ValueError, "parameter probs .* of distribution Binomial"),
    (lambda: D.Binomial(1.5, 0.5), ValueError, "parameter total_count"),
    (lambda: D.Gamma(-1.0, 1.0), ValueError, "parameter concentration .* of distribution Gamma"),
    (lambda: D.Dirichlet(jitgrad.tensor(1.0)), ValueError, "must be at least one-dimensional"),
    (lambda: D.StudentT(0.0), ValueError, "parameter df .* of distribution StudentT"),
    (lambda: D.Binomial(3), ValueError, "Either `probs` or `logits`"),
    (lambda: D.Binomial(jitgrad.tensor([1.0, 2.0]), 0.5).entropy(), NotImplementedError, "Inhomogeneous total count"),
    (lambda: D.MultivariateNormal(jitgrad.zeros(2)), ValueError, "Exactly one of covariance_matrix"),
    (lambda: D.MultivariateNormal(jitgrad.tensor(0.0), jitgrad.eye(2)), ValueError, "at least one-dimensional"),
    (lambda: D.MultivariateNormal(jitgrad.zeros(2), -jitgrad.eye(2)), ValueError, r"PositiveDefinite\(\)"),
    (lambda: D.MultivariateNormal(jitgrad.zeros(2), scale_tril=jitgrad.ones(2, 2)), ValueError, r"LowerCholesky\(\)"),
    (lambda: D.Multinomial(jitgrad.tensor(2), jitgrad.ones(2)), NotImplementedError, "inhomogeneous total_count"),
    (lambda: D.NegativeBinomial(-1.0, 0.5), ValueError, r"constraint GreaterThanEq\(lower_bound=0\)"),
    (lambda: D.NegativeBinomial(1.0, 1.0), ValueError, r"HalfOpenInterval\(lower_bound=0.0, upper_bound=1.0\)"),
    (lambda: D.NegativeBinomial(1.0), ValueError, "Either `probs` or `logits`"),
    (lambda: D.InverseGamma(1.0, -1.0), ValueError, "parameter rate"),
    (lambda: D.Kumaraswamy(-1.0, 1.0), ValueError, "parameter concentration1 .* of distribution Kumaraswamy"),
    (lambda: D.FisherSnedecor(1.0, 0.0), ValueError, "parameter df2 .* of distribution FisherSnedecor"),
    (lambda: D.GeneralizedPareto(0.0, 0.0, 1.0), ValueError, "parameter scale .* of distribution GeneralizedPareto"),
    (lambda: D.RelaxedBernoulli(jitgrad.tensor(1.0)), ValueError, "Either `probs` or `logits`"),
    (lambda: D.ContinuousBernoulli(1.5), ValueError, r"constraint Interval\(lower_bound=0.0, upper_bound=1.0\)"),
    (lambda: D.LogisticNormal(0.0, -1.0), ValueError, "parameter scale .* of distribution Normal"),
    (lambda: D.VonMises(0.0, 0.0), ValueError, "parameter concentration .* of distribution VonMises"),
    (lambda: D.LKJCholesky(1), ValueError, "Expected dim to be an integer greater than or equal to 2. Found dim=1"),
    (lambda: D.LKJCholesky(3, -1.0), ValueError, "parameter concentration .* of distribution LKJCholesky"),
    (lambda: D.Wishart(3.0), AssertionError, "Exactly one of covariance_matrix"),
    (lambda: D.Wishart(1.0, jitgrad.eye(3)), ValueError, "expected to be greater than ndim - 1 = 2"),
    (lambda: D.Wishart(3.0, -jitgrad.eye(3)), ValueError, r"PositiveDefinite\(\)"),
    (lambda: D.LowRankMultivariateNormal(jitgrad.zeros(3), jitgrad.ones(2, 2), jitgrad.ones(3)), ValueError,
     "cov_factor must be a batch of matrices with shape 3 x m"),
    (lambda: D.LowRankMultivariateNormal(jitgrad.zeros(3), jitgrad.ones(3, 2), jitgrad.ones(2)), ValueError,
     "cov_diag must be a batch of vectors"),
    (lambda: D.LowRankMultivariateNormal(jitgrad.zeros(3), jitgrad.ones(3, 2), -jitgrad.ones(3)), ValueError,
     "parameter cov_diag"),
    (lambda: D.LowRankMultivariateNormal(jitgrad.zeros(4, 3), jitgrad.ones(2, 3, 2), jitgrad.ones(3)), ValueError,
     "Incompatible batch shapes"),
    (lambda: D.kl_divergence(D.Gamma(1.0, 1.0), D.Dirichlet(jitgrad.ones(2))), NotImplementedError,
     "different exponential fam"),
    (lambda: D.Poisson(1.0).entropy(), NotImplementedError, "^$"),
    (lambda: D.kl_divergence(D.Binomial(1, 0.5), D.Binomial(2, 0.5)), NotImplementedError, "q.total_count > p.total"),
])
def test_errors(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_values_outside_and_larger_counts() -> None:
    outside = D.HalfNormal(1.0, validate_args=False).log_prob(jitgrad.tensor([-1.0]))
    assert outside.tolist() == [float("-inf")]
    more = D.kl_divergence(D.Binomial(3, 0.5), D.Binomial(2, 0.5))
    assert float(more) == float("inf")
    total = D.Binomial(5, 0.3).log_prob(jitgrad.arange(6.0)).exp().sum()
    np.testing.assert_allclose(float(total), 1, rtol=1e-5)
    assert D.Binomial(4, 0.5).enumerate_support().tolist() == [0, 1, 2, 3, 4]
    assert float(D.Poisson(2.5).mode) == 2


def test_moments_that_are_not_there() -> None:
    p = D.StudentT(jitgrad.tensor([0.5, 1.5, 4.0]), 1.0)
    assert p.mean.isnan().tolist() == [True, False, False]
    assert (p.variance.isnan().tolist(), p.variance.isinf().tolist()) == ([True, False, False], [False, True, False])


def test_tails_without_moments() -> None:
    p = D.Pareto(1.0, jitgrad.tensor([0.5, 1.5, 3.0]))
    assert p.mean.isinf().tolist() == [True, False, False]
    assert p.variance.isinf().tolist() == [True, True, False]
    assert float(D.kl_divergence(D.Pareto(0.5, 1.0), D.Pareto(1.0, 1.0))) == float("inf")


def test_draws_in_scripts() -> None:
    """Loops that draw until all is accepted are compiled loops; the numbers are eager's."""
    def draw(rate: Any, shape: Any) -> Any:
        return D.Poisson(rate).sample(), D.Gamma(shape, rate).sample((2,)), D.Binomial(5, shape / 9).sample()

    given = jitgrad.tensor([0.5, 3.0, 8.0]), jitgrad.tensor([0.4, 2.0, 5.0])
    found = []
    for run in (draw, jitgrad.script(draw)):
        jitgrad.manual_seed(4)
        found.append([y.numpy() for y in run(*given)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
