"""Kullback-Leibler divergences of pairs of distributions."""

from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.distributions.continuous import Exponential, Independent, Laplace, LogNormal, Normal, Uniform
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


def _independent(p: Independent, q: Independent) -> Tensor:
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


_RULES: dict[tuple[type, type], Rule] = {
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
