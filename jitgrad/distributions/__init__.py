"""Distributions: draws, densities, entropies and divergences, with gradients."""

from jitgrad.distributions.continuous import Exponential, Gumbel, Independent, Laplace, LogNormal, Normal, Uniform
from jitgrad.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.kl import kl_divergence, register_kl
from jitgrad.paths import stands_for

stands_for(__name__, globals(), "bernoulli categorical exponential geometric gumbel independent laplace log_normal "
           "normal one_hot_categorical uniform")

__all__ = ["Bernoulli", "Categorical", "Distribution", "Exponential", "Geometric", "Gumbel", "Independent", "Laplace",
           "LogNormal", "Normal", "OneHotCategorical", "Uniform", "kl_divergence", "register_kl"]
