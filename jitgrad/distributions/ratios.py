"""Distributions of what is made of gamma and uniform numbers: ratios, inverses, powers."""

import math
from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.continuous import Uniform
from jitgrad.distributions.distribution import Distribution, Parameter, broadcast, regions, same_as
from jitgrad.distributions.gammas import Gamma, standard_gamma
from jitgrad.distributions.transformed import TransformedDistribution
from jitgrad.distributions.transforms import AffineTransform, PowerTransform
from jitgrad.eager.tensor import Tensor


class InverseGamma(TransformedDistribution):
    """The distribution of 1 / x, x of `Gamma(concentration, rate)`; its draws carry gradients."""

    arg_constraints = regions(concentration=constraints.positive, rate=constraints.positive)
    support = constraints.positive

    concentration: Tensor = same_as("concentration", "The gamma distribution's.", of="base_dist")
    rate: Tensor = same_as("rate", "The gamma distribution's.", of="base_dist")

    def __init__(self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None):
        super().__init__(Gamma(concentration, rate, validate_args), PowerTransform(-1.0), validate_args)

    @property
    def mean(self) -> Tensor:
        """rate / (concentration - 1), inf up to a concentration of 1."""
        there = self.concentration > 1
        return jitgrad.where(there, self.rate / jitgrad.where(there, self.concentration - 1, 1.0), math.inf)

    @property
    def mode(self) -> Tensor:
        """rate / (concentration + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """rate^2 / ((concentration - 1)^2 (concentration - 2)), inf up to a concentration of 2."""
        there = self.concentration > 2
        a = jitgrad.where(there, self.concentration, 3.0)
        return jitgrad.where(there, self.rate.pow(2) / ((a - 1).pow(2) * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        """a + log(b) + lgamma(a) - (1 + a) digamma(a)."""
        a = self.concentration
        return a + self.rate.log() + jitgrad.lgamma(a) - (1 + a) * jitgrad.digamma(a)


class Kumaraswamy(TransformedDistribution):
    """The distribution on (0, 1) of (1 - (1 - u)^(1 / concentration0))^(1 / concentration1), u uniform."""

    shown = ("concentration1", "concentration0")
    arg_constraints = regions(concentration1=constraints.positive, concentration0=constraints.positive)
    support = constraints.unit_interval

    def __init__(self, concentration1: Parameter, concentration0: Parameter, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        base = Uniform(jitgrad.zeros_like(self.concentration0), jitgrad.ones_like(self.concentration0), validate_args)
        super().__init__(base, [PowerTransform(self.concentration0.reciprocal()), AffineTransform(1.0, -1.0),
                                PowerTransform(self.concentration1.reciprocal())], validate_args)

    def _moment(self, n: int) -> Tensor:
        """The expectation of x^n: b B(1 + n / a, b)."""
        b, at = self.concentration0, 1 + n / self.concentration1
        return b * jitgrad.exp(jitgrad.lgamma(at) + jitgrad.lgamma(b) - jitgrad.lgamma(at + b))

    @property
    def mean(self) -> Tensor:
        """The first moment."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """((a - 1) / (a b - 1))^(1 / a) as torch has it, NaN of concentrations below 1."""
        a, b = self.concentration1, self.concentration0
        there = (a >= 1) & (b >= 1)
        log = b.reciprocal() * jitgrad.log1p(-b) - jitgrad.log1p(-b * a)
        return jitgrad.where(there, log.exp(), math.nan)

    @property
    def variance(self) -> Tensor:
        """The second moment less the square of the first."""
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        """1 - 1 / b + (1 - 1 / a) H_b - log(a b), of the harmonic number H_b."""
        a, b = self.concentration1, self.concentration0
        harmonic = jitgrad.digamma(b + 1) + 0.57721566490153286060
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class FisherSnedecor(Distribution):
    """The distribution of the ratio of the means of df1 and of df2 squares of normal numbers."""

    has_rsample = True
    arg_constraints = regions(df1=constraints.positive, df2=constraints.positive)
    support = constraints.positive

    shown = ("df1", "df2")

    def __init__(self, df1: Parameter, df2: Parameter, validate_args: bool | None = None):
        self.df1, self.df2 = broadcast(df1, df2)
        super().__init__(self.df1.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """df2 / (df2 - 2), NaN up to a df2 of 2."""
        df2 = jitgrad.where(self.df2 > 2, self.df2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """(df1 - 2) / df1 * df2 / (df2 + 2), NaN up to a df1 of 2."""
        return jitgrad.where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self) -> Tensor:
        """2 df2^2 (df1 + df2 - 2) / (df1 (df2 - 2)^2 (df2 - 4)), NaN up to a df2 of 4."""
        df2 = jitgrad.where(self.df2 > 4, self.df2, math.nan)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The ratio of two gamma numbers."""
        shape = self._extended(sample_shape)
        df1, df2 = self.df1.expand(shape), self.df2.expand(shape)
        tiny = jitgrad.finfo(df1.dtype).tiny
        above, below = standard_gamma(df1 * 0.5) / df1, (standard_gamma(df2 * 0.5) / df2).clamp(min=tiny)
        return (above / below).clamp(min=tiny)

    def _log_prob(self, value: Tensor) -> Tensor:
        """a log(r) + (a - 1) log(x) - (a + b) log(1 + r x) - log B(a, b): a, b half of df1, df2 and r their ratio."""
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        whole = jitgrad.lgamma(a + b) - jitgrad.lgamma(a) - jitgrad.lgamma(b)
        return whole + a * ratio.log() + (a - 1) * value.log() - (a + b) * jitgrad.log1p(ratio * value)


class GeneralizedPareto(Distribution):
    """The distribution of how far values exceed loc: the tail falls as (1 + k z)^(-1 / k), z = (x - loc) / scale.

    Its k is the concentration; of 0 the tail is exp(-z).
    """

    has_rsample = True
    shown = ("loc", "scale", "concentration")
    arg_constraints = regions(loc=constraints.real, scale=constraints.positive, concentration=constraints.real)
    mode = same_as("loc")

    def __init__(self, loc: Parameter, scale: Parameter, concentration: Parameter, validate_args: bool | None = None):
        self.loc, self.scale, self.concentration = broadcast(loc, scale, concentration)
        super().__init__(self.loc.shape, (), validate_args)
        #: where the tail is an exponential one
        self._flat = self.concentration.abs() <= 1e-8
        self._safe = jitgrad.where(self._flat, 1.0, self.concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From loc on, up to loc - scale / k of a k below 0."""
        end = jitgrad.where(self.concentration < 0, self.loc - self.scale / self._safe, math.inf)
        return constraints.interval(self.loc, end)

    @property
    def mean(self) -> Tensor:
        """loc + scale / (1 - k), NaN from a k of 1."""
        there = self.concentration < 1
        return jitgrad.where(there, self.loc + self.scale / (1 - jitgrad.where(there, self.concentration, 0.5)),
                             math.nan)

    @property
    def variance(self) -> Tensor:
        """scale^2 / ((1 - k)^2 (1 - 2 k)), NaN from a k of 1/2."""
        there = self.concentration < 0.5
        k = jitgrad.where(there, self.concentration, 0.25)
        return jitgrad.where(there, self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k)), math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """`icdf` of a uniform number."""
        return self.icdf(jitgrad.rand(self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        """-log(scale) - (1 + 1 / k) log(1 + k z)."""
        z = (value - self.loc) / self.scale
        power = 1 / self._safe + 1
        tail = jitgrad.where(power == 0, power, power * jitgrad.log1p(self._safe * z))
        return -self.scale.log() - jitgrad.where(self._flat, z, tail)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than the value: -log(1 + k z) / k."""
        z = (value - self.loc) / self.scale
        return jitgrad.where(self._flat, -z, -jitgrad.log1p(self._safe * z) / self._safe)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return jitgrad.log1p(-jitgrad.exp(self.log_survival_function(value)))

    def _cdf(self, value: Tensor) -> Tensor:
        """1 - (1 + k z)^(-1 / k)."""
        return jitgrad.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """loc + scale ((1 - p)^-k - 1) / k."""
        log = jitgrad.log1p(-value)
        curved = self.loc + self.scale / self._safe * jitgrad.expm1(-self._safe * log)
        return jitgrad.where(self._flat, self.loc - self.scale * log, curved)

    def entropy(self) -> Tensor:
        """log(scale) + k + 1."""
        return self.scale.log() + self.concentration + 1
