"""Distributions: draws, densities, entropies and divergences, with gradients."""

from jitgrad.distributions.circular import VonMises
from jitgrad.distributions.continuous import Exponential, Gumbel, Independent, Laplace, LogNormal, Normal, Uniform
from jitgrad.distributions.counts import Binomial, Multinomial, NegativeBinomial, Poisson
from jitgrad.distributions.discrete import (Bernoulli, Categorical, Geometric, OneHotCategorical,
                                            OneHotCategoricalStraightThrough)
from jitgrad.distributions.distribution import Distribution, ExponentialFamily
from jitgrad.distributions.gammas import Beta, Chi2, Dirichlet, Gamma, StudentT
from jitgrad.distributions.halves import Cauchy, HalfCauchy, HalfNormal, Pareto, Weibull
from jitgrad.distributions.kl import kl_divergence, register_kl
from jitgrad.distributions.matrices import LKJCholesky, Wishart
from jitgrad.distributions.mixture import MixtureSameFamily
from jitgrad.distributions.multivariate import LowRankMultivariateNormal, MultivariateNormal
from jitgrad.distributions.ratios import FisherSnedecor, GeneralizedPareto, InverseGamma, Kumaraswamy
from jitgrad.distributions.relaxed import (ContinuousBernoulli, LogisticNormal, RelaxedBernoulli,
                                           RelaxedOneHotCategorical)
from jitgrad.distributions.transformed import TransformedDistribution
from jitgrad.distributions.transforms import (AbsTransform, AffineTransform, CatTransform, ComposeTransform,
                                              CorrCholeskyTransform, CumulativeDistributionTransform, ExpTransform,
                                              IndependentTransform, LowerCholeskyTransform, PositiveDefiniteTransform,
                                              PowerTransform, ReshapeTransform, SigmoidTransform, SoftmaxTransform,
                                              SoftplusTransform, StackTransform, StickBreakingTransform, TanhTransform,
                                              Transform, biject_to, identity_transform, transform_to)
from jitgrad.paths import stands_for

stands_for(__name__, globals(), "bernoulli beta binomial categorical cauchy chi2 constraint_registry "
           "continuous_bernoulli dirichlet exp_family exponential fishersnedecor gamma "
           "generalized_pareto geometric gumbel half_cauchy half_normal independent "
           "inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal "
           "lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal "
           "negative_binomial normal one_hot_categorical pareto poisson relaxed_bernoulli "
           "relaxed_categorical studentT transformed_distribution uniform von_mises weibull "
           "wishart")

__all__ = ["AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy",
           "Chi2", "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential",
           "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy",
           "HalfNormal", "Independent", "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky",
           "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform",
           "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
           "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform", "PowerTransform",
           "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
           "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform", "Transform",
           "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "identity_transform",
           "kl_divergence", "register_kl", "transform_to"]
