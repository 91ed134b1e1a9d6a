"""What all distributions have: regions of parameters and draws, what is asked of values, `expand`, gradients of draws,
and divergences of all pairs that torch has."""

from __future__ import annotations

import linecache
import re
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as D
from jitgrad.distributions.kl import _RULES
from tests.distributions import test_distributions, test_families

FAMILIES = [(name, first, value) for name, first, _, value, *_ in (*test_distributions.CASES, *test_families.CASES)]
IDS = [f"{name}-{k}" for k, (name, *_) in enumerate(FAMILIES)]
#: made with more than tensors
MORE: dict[str, Any] = {
    "RelaxedBernoulli": lambda t: t.distributions.RelaxedBernoulli(t.tensor(0.7), logits=t.tensor([0.1, -1.0])),
    "RelaxedOneHotCategorical": lambda t: t.distributions.RelaxedOneHotCategorical(
        t.tensor(0.7), probs=t.tensor([0.1, 0.9])),
    "LogisticNormal": lambda t: t.distributions.LogisticNormal(t.zeros(3), t.ones(3)),
    "LKJCholesky": lambda t: t.distributions.LKJCholesky(3, t.tensor([1.0, 2.0])),
    "VonMises": lambda t: t.distributions.VonMises(t.zeros(2), t.ones(2)),
    "GeneralizedPareto": lambda t: t.distributions.GeneralizedPareto(t.zeros(2), t.ones(2), t.tensor([0.5, -0.5])),
    "Independent": lambda t: t.distributions.Independent(t.distributions.Normal(t.zeros(2, 3), 1.0), 1),
    "mixture": lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(t.ones(3)), t.distributions.Normal(t.zeros(3), t.ones(3))),
    "mixture of vectors": lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(t.ones(3)), t.distributions.Dirichlet(t.ones(3, 2))),
    "transformed": lambda t: t.distributions.TransformedDistribution(
        t.distributions.Normal(t.zeros(2), 1.0), [t.distributions.AffineTransform(1.0, 2.0),
                                                  t.distributions.ExpTransform()]),
}


def made(t: Any, k: int, **how: Any) -> Any:
    name, first, _ = FAMILIES[k]
    return getattr(t.distributions, name)(**test_families.parameters(t, first), **how)


def facts(p: Any) -> list[Any]:
    """Regions, as texts, and whether draws have gradients."""
    def text(region: Any) -> str:
        return re.sub(r"tensor\(.*?\)", "tensor", repr(region), flags=re.S)  # whose numbers are printed otherwise

    support = p.support
    return [{k: text(v) for k, v in p.arg_constraints.items()}, text(support),
            support.event_dim, support.is_discrete, p.has_rsample, tuple(p.batch_shape), tuple(p.event_shape)]


@pytest.mark.parametrize("k", range(len(FAMILIES)), ids=IDS)
def test_regions_are_torch_s(k: int) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = [facts(made(t, k)) for t in (jitgrad, torch)]
    assert ours == theirs


@pytest.mark.parametrize("name", MORE)
def test_regions_of_others_are_torch_s(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = [facts(MORE[name](t)) for t in (jitgrad, torch)]
    assert ours == theirs


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize("k", range(len(FAMILIES)), ids=IDS)
def test_expand(k: int) -> None:
    p = made(jitgrad, k)
    wide = p.expand((5, *p.batch_shape))
    assert type(wide) is type(p)
    assert wide.batch_shape == (5, *p.batch_shape)
    assert wide.event_shape == p.event_shape
    assert wide._validate_args == p._validate_args
    jitgrad.manual_seed(0)
    value = p.sample()
    np.testing.assert_allclose(wide.log_prob(value).numpy(), np.broadcast_to(p.log_prob(value), wide.batch_shape),
                               rtol=1e-9)
    assert wide.sample((2,)).shape == (2, 5, *p.batch_shape, *p.event_shape)


@pytest.mark.parametrize("name", MORE)
def test_expand_of_others(name: str) -> None:
    p = MORE[name](jitgrad)
    wide = p.expand((5, *p.batch_shape))
    assert type(wide) is type(p)
    jitgrad.manual_seed(0)
    value = p.sample()
    np.testing.assert_allclose(wide.log_prob(value).numpy(), np.broadcast_to(p.log_prob(value), wide.batch_shape),
                               rtol=1e-5)
    assert wide.sample((2,)).shape == (2, 5, *p.batch_shape, *p.event_shape)


#: what is asked: an expression of a library and its distributions
ASKED = ["D.Normal(t.tensor([0.0, float('nan')]), 1.0)", "D.Normal(0.0, t.tensor([-1.0, 1.0]))", "D.Bernoulli(1.5)",
         "D.Bernoulli(logits=t.tensor(float('nan')))", "D.Categorical(t.tensor([0.5, -0.5]))", "D.Geometric(0.0)",
         "D.Uniform(1.0, 0.0)", "D.Poisson(-1.0)", "D.Binomial(t.tensor(2.5), t.tensor(0.5))",
         "D.MultivariateNormal(t.zeros(2), t.tensor([[1.0, 2.0], [2.0, 1.0]]))",
         "D.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2, 2))", "D.Dirichlet(t.tensor([1.0, 0.0]))",
         "D.Normal(t.zeros(2), 1.0).log_prob(t.zeros(3))", "D.Normal(0.0, 1.0).log_prob(1.0)",
         "D.Gamma(1.0, 1.0).log_prob(t.tensor(-1.0))",
         "D.Exponential(1.0).cdf(t.tensor(-1.0))", "D.Bernoulli(0.5).log_prob(t.tensor(0.5))",
         "D.Categorical(t.ones(3)).log_prob(t.tensor(3))", "D.Poisson(1.0).log_prob(t.tensor(1.5))",
         "D.Dirichlet(t.ones(3)).log_prob(t.ones(3))",
         "D.MultivariateNormal(t.zeros(2), t.eye(2)).log_prob(t.zeros(3))",
         "D.Beta(1.0, 1.0).log_prob(t.tensor(1.5))", "D.Uniform(0.0, 1.0).log_prob(t.tensor(2.0))",
         "D.LogNormal(0.0, 1.0).log_prob(t.tensor(-1.0))", "D.HalfNormal(1.0).log_prob(t.tensor(-1.0))",
         "D.Pareto(1.0, 1.0).log_prob(t.tensor(0.5))", "D.Multinomial(3, t.ones(2)).log_prob(2 * t.ones(2))",
         "D.OneHotCategorical(t.ones(2)).log_prob(t.ones(2))",
         "D.Independent(D.Gamma(t.ones(2), 1.0), 1).log_prob(-t.ones(2))"]


@pytest.mark.parametrize("text", ASKED)
def test_what_is_not_allowed_is_torch_s_error(text: str) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for t in (jitgrad, torch):
        with pytest.raises(ValueError, match=r"Expected|must|Value") as error:
            eval(text, {"t": t, "D": t.distributions})
        found.append((error.type, str(error.value).replace("torch.", "")))
    assert found[0][0] is found[1][0]
    assert found[0][1].split("\n")[0] == found[1][1].split("\n")[0]


def test_nothing_is_asked_without_validation() -> None:
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1
    assert D.Exponential(1.0, validate_args=False).log_prob(jitgrad.tensor(-1.0)) == 1
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale == -1
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="constraint"):
        D.Normal(0.0, -1.0)


# --- gradients of draws ----------------------------------------------------------------------------------------------

#: parameters of families whose draws are by rejection
REJECTED = ["Gamma", "Chi2", "Beta", "Dirichlet", "StudentT", "InverseGamma", "FisherSnedecor", "Wishart"]


def test_slopes_of_draws_are_torch_s() -> None:
    torch = pytest.importorskip("torch")
    from jitgrad.ops.library.special.functions import dirichlet_grad, standard_gamma_grad

    rng = np.random.default_rng(0)
    a = rng.uniform(0.3, 9, (200, 3))
    x = torch.distributions.Gamma(torch.tensor(a), 1.0).sample()
    theirs = torch._standard_gamma_grad(torch.tensor(a), x)
    np.testing.assert_allclose(standard_gamma_grad(jitgrad.tensor(a), jitgrad.tensor(x.numpy())), theirs, rtol=1e-3)
    shares = x / x.sum(-1, keepdim=True)
    whole = np.broadcast_to(a.sum(-1, keepdims=True), a.shape).copy()
    theirs = torch._dirichlet_grad(shares, torch.tensor(a), torch.tensor(whole))
    ours = dirichlet_grad(*[jitgrad.tensor(v) for v in (shares.numpy(), a, whole)])
    np.testing.assert_allclose(ours, theirs, rtol=3e-3)


def test_slopes_of_draws_keep_the_probability_of_less() -> None:
    special = pytest.importorskip("scipy.special")
    from jitgrad.ops.library.special.functions import dirichlet_grad, standard_gamma_grad

    p = np.array([1e-4, 0.1, 0.5, 0.9, 0.9999])
    for a in (0.05, 0.7, 3.0, 40.0, 2000.0, 2e4):
        x, h = special.gammaincinv(a, p), a * 1e-5
        slope = (special.gammaincinv(a + h, p) - special.gammaincinv(a - h, p)) / (2 * h)
        found = standard_gamma_grad(jitgrad.full((5,), a, dtype=jitgrad.float64), jitgrad.tensor(x))
        np.testing.assert_allclose(found.numpy(), slope, rtol=1e-5)
    for a, b in ((0.2, 0.3), (1.0, 0.02), (0.5, 2.0), (3.0, 40.0), (40.0, 3.0), (3.0, 4000.0), (4000.0, 3.0)):
        x, h = special.betaincinv(a, b, p), a * 1e-5
        slope = (special.betaincinv(a + h, b, p) - special.betaincinv(a - h, b, p)) / (2 * h)
        kept = (x > 1e-100) & (x < 1 - 1e-10)
        found = dirichlet_grad(*[jitgrad.tensor(v) for v in (x, np.full(5, a), np.full(5, a + b))]).numpy() * (1 - x)
        np.testing.assert_allclose(found[kept], slope[kept], rtol=1e-4)


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize("name", REJECTED)
def test_draws_have_gradients_of_the_moments(name: str) -> None:
    """The mean slope of draws is the slope of the mean, and so for the squares."""
    k = [n for n, *_ in FAMILIES].index(name)
    first = FAMILIES[k][1]
    given = test_families.parameters(jitgrad, first, grad=True)
    p = getattr(D, name)(**given)
    jitgrad.manual_seed(0)
    draws = p.rsample((20000,))
    assert draws.requires_grad
    found = jitgrad.autograd.grad(draws.mean(0).sum(), list(given.values()), retain_graph=True, allow_unused=True)
    expected = jitgrad.autograd.grad(p.mean.sum(), list(given.values()), allow_unused=True)
    for a, b in zip(found, expected, strict=True):
        a, b = [np.zeros(()) if x is None else x.numpy() for x in (a, b)]
        np.testing.assert_allclose(a - b, np.zeros_like(a - b), atol=0.12 * max(1.0, np.abs(b).max()))


def test_draws_in_scripts_have_gradients() -> None:
    def f(a: Any) -> Any:
        return (D.Gamma(a, 2.0).rsample((4,)), D.Beta(a, a.exp()).rsample(), D.StudentT(a).rsample((2,)),
                D.Dirichlet(a).expand((2,)).rsample(), D.Gamma(a, 1.0).log_prob(D.Exponential(a).rsample()))

    script = jitgrad.script(f)
    a = jitgrad.tensor([0.5, 2.0, 9.0], requires_grad=True)
    results = []
    for run in (f, script):
        jitgrad.manual_seed(0)
        ys = run(a)
        slopes = [jitgrad.autograd.grad((y ** 2).sum(), a, retain_graph=True)[0] for y in ys]
        results.append([*[y.detach() for y in ys], *slopes])
    for x, y in zip(*results, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)
    with pytest.raises(ValueError, match="to satisfy the constraint GreaterThan"):
        script(-a.detach())
    x = D.Gamma(a, 1.0).rsample()
    with pytest.raises(NotImplementedError, match="derivative for 'standard_gamma_grad'"):
        jitgrad.autograd.grad(jitgrad.autograd.grad(x.sum(), a, create_graph=True)[0].sum(), a)


# --- divergences -----------------------------------------------------------------------------------------------------

#: of the families that meet others
OF = {"Beta": ["1.5", "0.7"], "ContinuousBernoulli": ["0.3"], "Exponential": ["1.3"], "Gamma": ["2.5", "0.8"],
      "Gumbel": ["0.3", "1.2"], "Laplace": ["0.2", "0.9"], "Normal": ["0.4", "1.1"], "Pareto": ["0.6", "3.5"],
      "Poisson": ["1.5"], "Bernoulli": ["0.3"], "Binomial": ["3", "0.4"], "Uniform": ["0.2", "0.9"]}


def test_the_pairs_are_torch_s() -> None:
    pytest.importorskip("torch")
    from torch.distributions.kl import _KL_REGISTRY

    theirs = {(p.__name__, q.__name__) for p, q in _KL_REGISTRY}
    assert theirs <= {(p.__name__, q.__name__) for p, q in _RULES}


@pytest.mark.parametrize("p", OF)
def test_divergences_of_families(p: str) -> None:
    torch = pytest.importorskip("torch")
    for q in OF:
        found = []
        for t in (torch, jitgrad):
            xs = [[t.tensor(float(v), dtype=t.float64, requires_grad=True) for v in OF[name]] for name in (p, q)]
            one, other = [getattr(t.distributions, name)(*x) for name, x in zip((p, q), xs, strict=True)]
            try:
                y = t.distributions.kl_divergence(one, other)
            except NotImplementedError:
                found.append(None)
                continue
            gs = t.autograd.grad(y, xs[0] + xs[1], allow_unused=True) if y.isfinite() and y.requires_grad else [None]
            found.append([y.detach().numpy(), *[np.zeros(()) if g is None else g.numpy() for g in gs]])
        assert (found[0] is None) == (found[1] is None), q
        if found[0] is not None:
            for a, b in zip(found[0], found[1], strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9, err_msg=q)


# --- torch.poisson, torch.binomial -----------------------------------------------------------------------------------


def test_counts_are_drawn() -> None:
    """Moments, generators; the gradient of rates is zero. Scripts draw the same."""
    rate = jitgrad.tensor([0.0, 0.5, 7.0], requires_grad=True)

    def f(rate: Any) -> Any:
        wide = rate.expand(4000, 3)
        return jitgrad.poisson(wide), jitgrad.binomial(jitgrad.full_like(wide, 9.0), (wide / 7).detach())

    jitgrad.manual_seed(0)
    results = f(rate)
    state = jitgrad.get_rng_state()
    scripted = jitgrad.script(f)
    jitgrad.manual_seed(0)
    for y, expected in zip(scripted(rate), results, strict=True):
        assert y.tolist() == expected.tolist()
        assert y.requires_grad == expected.requires_grad
    assert jitgrad.get_rng_state().tolist() == state.tolist()
    assert jitgrad.autograd.grad(scripted(rate)[0].sum(), rate)[0].tolist() == [0, 0, 0]
    counts, hits = [y.detach().numpy() for y in results]
    np.testing.assert_allclose(counts.mean(0), [0, 0.5, 7], atol=0.15)
    np.testing.assert_allclose(counts.var(0), [0, 0.5, 7], atol=0.4)
    np.testing.assert_allclose(hits.mean(0), [0, 9 / 14, 9], atol=0.1)
    assert jitgrad.autograd.grad(results[0].sum(), rate)[0].tolist() == [0, 0, 0]
    generator = jitgrad.Generator().manual_seed(3)
    again = jitgrad.Generator().manual_seed(3)
    first, second = [jitgrad.poisson(counts_of(g), g).tolist() for g in (generator, again)]
    assert first == second


def counts_of(generator: Any) -> Any:
    return jitgrad.rand(5, generator=generator) * 9


@pytest.mark.parametrize("text", ["t.poisson(t.tensor([-1.0]))", "t.poisson(t.tensor([1]))",
                                  "t.binomial(t.tensor([3]), t.tensor([1]))",
                                  "t.binomial(t.ones(2), t.ones(2).double())"])
def test_counts_refuse_as_torch(text: str) -> None:
    torch = pytest.importorskip("torch")
    scope: dict[str, Any] = {"t": jitgrad}
    code = f"def f(x):\n    return {text}\n"
    linecache.cache["<counts>"] = len(code), None, code.splitlines(True), "<counts>"
    exec(compile(code, "<counts>", "exec"), scope)
    with pytest.raises((RuntimeError, ValueError)) as scripted:
        jitgrad.script(scope["f"])(jitgrad.ones(1))
    messages = []
    for t in (jitgrad, torch):
        with pytest.raises((RuntimeError, ValueError)) as error:
            eval(text, {"t": t})
        messages.append((error.type, str(error.value)))
    assert messages[0] == messages[1]
    assert isinstance(scripted.value, messages[1][0])
    assert messages[1][1] in str(scripted.value)
