"""Distributions: draws, densities, entropies and divergences, with gradients."""

from jitgrad.distributions.continuous import Exponential, Gumbel, Independent, Laplace, LogNormal, Normal, Uniform
from jitgrad.distributions.counts import Binomial, Poisson
from jitgrad.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.gammas import Beta, Chi2, Dirichlet, Gamma, StudentT
from jitgrad.distributions.halves import Cauchy, HalfCauchy, HalfNormal, Pareto, Weibull
from jitgrad.distributions.kl import kl_divergence, register_kl
from jitgrad.distributions.multivariate import MultivariateNormal
from jitgrad.distributions.transformed import TransformedDistribution
from jitgrad.distributions.transforms import (AbsTransform, AffineTransform, ComposeTransform, ExpTransform,
                                              IndependentTransform, PowerTransform, SigmoidTransform, SoftmaxTransform,
                                              SoftplusTransform, StickBreakingTransform, TanhTransform, Transform,
                                              identity_transform)
from jitgrad.paths import stands_for

stands_for(__name__, globals(), "bernoulli beta binomial categorical cauchy chi2 dirichlet exponential gamma geometric "
           "gumbel half_cauchy half_normal independent laplace log_normal multivariate_normal normal "
           "one_hot_categorical pareto poisson studentT transformed_distribution uniform weibull")

__all__ = ["AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2",
           "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma", "Geometric",
           "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "Laplace", "LogNormal",
           "MultivariateNormal", "Normal", "OneHotCategorical", "Pareto", "Poisson", "PowerTransform",
           "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StickBreakingTransform", "StudentT",
           "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "Weibull", "identity_transform",
           "kl_divergence", "register_kl"]
