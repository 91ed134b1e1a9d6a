"""Kullback-Leibler divergences of pairs of distributions."""

import math
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.distributions.continuous import Exponential, Gumbel, Independent, Laplace, LogNormal, Normal, Uniform
from jitgrad.distributions.counts import Binomial, Poisson
from jitgrad.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from jitgrad.distributions.distribution import Distribution, ExponentialFamily
from jitgrad.distributions.gammas import Beta, Dirichlet, Gamma, dirichlet_divergence, gamma_divergence
from jitgrad.distributions.halves import Cauchy, HalfNormal, Pareto, pareto_divergence
from jitgrad.distributions.multivariate import (LowRankMultivariateNormal, MultivariateNormal, divergence,
                                                low_rank_divergence)
from jitgrad.distributions.relaxed import ContinuousBernoulli, relaxed_divergence
from jitgrad.distributions.transformed import TransformedDistribution
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F

Rule = Callable[[Any, Any], Tensor]
_EULER = 0.57721566490153286060


def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    shift = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + shift - 1 - ratio.log())


def _uniform(p: Uniform, q: Uniform) -> Tensor:
    divergence = ((q.high - q.low) / (p.high - p.low)).log()
    return jitgrad.where((q.low > p.low) | (q.high < p.high), float("inf"), divergence)


def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * jitgrad.exp(-distance / p.scale) - 1


def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = jitgrad.where(q.probs == 0, float("inf"), terms)
    return jitgrad.where(p.probs == 0, 0.0, terms).sum(-1)


def _independent(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return p._summed(kl_divergence(p.base_dist, q.base_dist))


def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    each = p.probs * (p.logits - q.logits) + jitgrad.log1p(-p.probs) - jitgrad.log1p(-q.probs)
    return jitgrad.where(p.total_count > q.total_count, float("inf"), p.total_count * each)


def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


def _bregman(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """A(q) - A(p) - (q - p) . A'(p), of two of one family; p's parameters without history, as in torch."""
    if type(p) is not type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families cannot be computed "
                                  "using Bregman divergences")
    natural, normalizer, expected = p._expected()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for n, other, t in zip(natural, others, expected, strict=True):
        result = result - p._over_event((other - n) * t, n)
    return result


# --- of two families: -entropy(p) - E log q, from expectations under p ----------------------------------------------


#: where the draws of a family lie: from and up to
_ENDS: dict[type, Callable[[Any], tuple[Any, Any]]] = {
    Beta: lambda d: (0.0, 1.0), ContinuousBernoulli: lambda d: (0.0, 1.0), Exponential: lambda d: (0.0, math.inf),
    Gamma: lambda d: (0.0, math.inf), Pareto: lambda d: (d.scale, math.inf), Uniform: lambda d: (d.low, d.high),
    **dict.fromkeys((Gumbel, Laplace, Normal), lambda d: (-math.inf, math.inf))}


def _mean_log(p: Any) -> Any:
    """E log x; NaN of families of which it is asked only where the divergence is infinite."""
    if isinstance(p, Beta):
        return jitgrad.digamma(p.concentration1) - jitgrad.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Gamma):
        return jitgrad.digamma(p.concentration) - p.rate.log()
    if isinstance(p, Exponential):
        return -p.rate.log() - _EULER
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    if isinstance(p, Uniform):
        return _uniform_log(p.low, p.high)
    return jitgrad.full_like(p.mean, math.nan)


def _uniform_log(low: Any, high: Any) -> Any:
    """E log x of x uniform between two numbers that are not negative."""
    return (jitgrad.xlogy(high, high) - jitgrad.xlogy(low, low)) / (high - low) - 1


def _mean_exp(p: Any, t: Any) -> Any:
    """E exp(-t x)."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + t)
    if isinstance(p, Gamma):
        return (1 + t / p.rate).pow(-p.concentration)
    if isinstance(p, Gumbel):
        return jitgrad.exp(jitgrad.lgamma(1 + p.scale * t) - p.loc * t)
    if isinstance(p, Normal):
        return jitgrad.exp(0.5 * (p.scale * t).pow(2) - p.loc * t)
    return (jitgrad.exp(-t * p.low) - jitgrad.exp(-t * p.high)) / (t * (p.high - p.low))


def _log_normal(p: Any, q: Any) -> Any:
    spread = p.variance + (p.mean - q.loc).pow(2)
    return -0.5 * spread / q.scale.pow(2) - q.scale.log() - 0.5 * math.log(2 * math.pi)


def _log_laplace(p: Any, q: Any) -> Any:
    away = p.loc - q.loc
    size = p.scale * math.sqrt(2 / math.pi) * jitgrad.exp(-0.5 * (away / p.scale).pow(2)) + away * jitgrad.erf(
        away / (p.scale * math.sqrt(2)))
    return -size / q.scale - (2 * q.scale).log()


def _log_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    rest = _uniform_log(1 - p.high, 1 - p.low) if isinstance(p, Uniform) else jitgrad.full_like(p.mean, math.nan)
    whole = jitgrad.lgamma(a + b) - jitgrad.lgamma(a) - jitgrad.lgamma(b)
    return (a - 1) * _mean_log(p) + (b - 1) * rest + whole


#: E log q under p
_LOGS: dict[type, Callable[[Any, Any], Any]] = {
    Normal: _log_normal, Laplace: _log_laplace, Beta: _log_beta,
    Exponential: lambda p, q: q.rate.log() - q.rate * p.mean,
    Gamma: lambda p, q: (q.concentration * q.rate.log() - jitgrad.lgamma(q.concentration)
                         + (q.concentration - 1) * _mean_log(p) - q.rate * p.mean),
    Uniform: lambda p, q: -(q.high - q.low).log(),
    ContinuousBernoulli: lambda p, q: p.mean * q.logits + jitgrad.log1p(-q.probs) + q._log_norm(),
    Pareto: lambda p, q: q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p),
    Gumbel: lambda p, q: ((q.loc - p.mean) / q.scale - q.scale.log()
                          - _mean_exp(p, q.scale.reciprocal()) * jitgrad.exp(q.loc / q.scale))}
#: p, and q
_CROSSED: dict[type, tuple[type, ...]] = {
    Beta: (ContinuousBernoulli, Pareto, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (Pareto, Exponential, Normal, Uniform),
    Exponential: (Uniform, Pareto, ContinuousBernoulli, Beta, Gamma, Gumbel, Normal),
    Gamma: (Uniform, Pareto, ContinuousBernoulli, Beta, Exponential, Gumbel, Normal),
    Gumbel: (Gumbel, Uniform, Pareto, Gamma, Exponential, ContinuousBernoulli, Beta, Normal),
    Laplace: (Uniform, Pareto, Gamma, Exponential, ContinuousBernoulli, Beta, Normal),
    Normal: (Uniform, Pareto, Gamma, Exponential, ContinuousBernoulli, Beta, Gumbel, Laplace),
    Pareto: (Uniform, ContinuousBernoulli, Beta, Exponential, Gamma, Normal),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto)}


def _crossed(of_p: type, of_q: type) -> Rule:
    def rule(p: Any, q: Any) -> Any:
        (low, high), (start, end) = _ENDS[of_p](p), _ENDS[of_q](q)
        result = -p.entropy() - _LOGS[of_q](p, q)
        for less, more in ((low, start), (end, high)):
            if isinstance(less, jitgrad.Tensor) or isinstance(more, jitgrad.Tensor):
                result = jitgrad.where(less < more, math.inf, result)
            elif less < more:
                result = jitgrad.full_like(result, math.inf)
        return result

    return rule


def _never(p: Poisson, q: Any) -> Any:
    """Counts of any size beside those up to a largest one."""
    return jitgrad.full_like(p.rate, math.inf)


_RULES: dict[tuple[type, type], Rule] = {
    **{(p, q): _crossed(p, q) for p, qs in _CROSSED.items() for q in qs},
    (Bernoulli, Poisson): lambda p, q: -p.entropy() - (p.probs * q.rate.log() - q.rate),
    (Poisson, Bernoulli): _never, (Poisson, Binomial): _never,
    (Normal, Normal): _normal, (Uniform, Uniform): _uniform, (Exponential, Exponential): _exponential,
    (Laplace, Laplace): _laplace, (Categorical, Categorical): _categorical, (Independent, Independent): _independent,
    (Bernoulli, Bernoulli): lambda p, q: p.probs * (p.logits - q.logits) + F.softplus(q.logits) - F.softplus(p.logits),
    (Geometric, Geometric): lambda p, q: (
        -p.entropy() - jitgrad.log1p(-q.probs) / p.probs - jitgrad.log(q.probs) + jitgrad.log1p(-q.probs)),
    (OneHotCategorical, OneHotCategorical): lambda p, q: _categorical(p._categorical, q._categorical),
    (LogNormal, LogNormal): lambda p, q: _normal(p.base_dist, q.base_dist),
    (HalfNormal, HalfNormal): lambda p, q: _normal(p.base_dist, q.base_dist),
    (Cauchy, Cauchy): lambda p, q: (
        ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()),
    (Poisson, Poisson): lambda p, q: p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate),
    (Gamma, Gamma): gamma_divergence, (Dirichlet, Dirichlet): dirichlet_divergence,
    (Beta, Beta): lambda p, q: dirichlet_divergence(p._dirichlet, q._dirichlet),
    (Pareto, Pareto): pareto_divergence, (Binomial, Binomial): _binomial,
    (MultivariateNormal, MultivariateNormal): divergence,
    (MultivariateNormal, LowRankMultivariateNormal): low_rank_divergence,
    (LowRankMultivariateNormal, MultivariateNormal): low_rank_divergence,
    (LowRankMultivariateNormal, LowRankMultivariateNormal): low_rank_divergence,
    (ContinuousBernoulli, ContinuousBernoulli): relaxed_divergence,
    (ExponentialFamily, ExponentialFamily): _bregman,
    (TransformedDistribution, TransformedDistribution): _transformed,
}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """A decorator: the function gives the divergence of the two types. TypeError for what are no distributions."""
    for given in (type_p, type_q):
        if not (isinstance(given, type) and issubclass(given, Distribution)):
            raise TypeError(f"Expected type_p and type_q to be Distribution subclasses but got {given}")

    def register(rule: Rule) -> Rule:
        _RULES[type_p, type_q] = rule
        return rule

    return register


def _found(type_p: type, type_q: type) -> Rule | None:
    """The rule of the nearest bases, p's first."""
    for p in type_p.__mro__:
        for q in type_q.__mro__:
            if (p, q) in _RULES:
                return _RULES[p, q]
    return None


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expectation under p of log p - log q, of the batch shape; the rule is that of the types or of their bases.

    NotImplementedError for pairs without a rule.
    """
    rule = _found(type(p), type(q))
    if rule is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
                                  f"{type(q).__name__}")
    return rule(p, q)
