"""Distributions of heavy tails, of absolute values and of positive ones."""

import math
from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.continuous import Normal, _LocationScale
from jitgrad.distributions.distribution import Distribution, Parameter, broadcast, regions, same_as
from jitgrad.eager.tensor import Tensor


class Cauchy(_LocationScale):
    """The distribution of ratios of normal numbers, stretched by scale > 0 and moved by loc; it has no mean."""

    mode = same_as("loc")

    @property
    def mean(self) -> Tensor:
        """NaN."""
        return jitgrad.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """inf."""
        return jitgrad.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * tan(pi (u - 1/2))."""
        u = jitgrad.rand(self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def _log_prob(self, value: Tensor) -> Tensor:
        """-log(pi scale) - log1p(z^2)."""
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - jitgrad.log1p(z * z)

    def _cdf(self, value: Tensor) -> Tensor:
        """atan(z) / pi + 1/2."""
        return jitgrad.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """loc + scale * tan(pi (p - 1/2))."""
        return jitgrad.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """log(4 pi scale)."""
        return math.log(4 * math.pi) + self.scale.log()


class _Half(Distribution):
    """The absolute values of a distribution that is symmetric around 0."""

    has_rsample = True
    arg_constraints = regions(scale=constraints.positive)
    support = constraints.nonnegative
    base_dist: Any
    scale: Tensor = same_as("scale", "The base's.", of="base_dist")

    def _begin(self, base: Any, validate_args: bool | None) -> None:
        self.base_dist = base
        super().__init__(base.scale.shape, (), validate_args)

    @property
    def mode(self) -> Tensor:
        """0."""
        return jitgrad.zeros_like(self.scale)

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The base's absolute values."""
        return self.base_dist.rsample(sample_shape).abs()

    def _log_prob(self, value: Tensor) -> Any:
        """The base's plus log(2); -inf of negative values."""
        return jitgrad.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def _cdf(self, value: Tensor) -> Any:
        """2 cdf - 1 of the base."""
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Any:
        """The base's at (p + 1) / 2."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        """The base's minus log(2)."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute values of a normal distribution around 0 of standard deviation scale > 0."""

    def __init__(self, scale: Parameter, validate_args: bool | None = None):
        self._begin(Normal(0.0, scale, validate_args), validate_args)

    @property
    def mean(self) -> Tensor:
        """scale * sqrt(2 / pi)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """scale^2 (1 - 2 / pi)."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute values of a Cauchy distribution around 0."""

    def __init__(self, scale: Parameter, validate_args: bool | None = None):
        self._begin(Cauchy(0.0, scale, validate_args), validate_args)

    @property
    def mean(self) -> Tensor:
        """inf."""
        return jitgrad.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        """inf."""
        return jitgrad.full_like(self.scale, math.inf)


# --- of positive values --------------------------------------------------------------------------------------------


class Pareto(Distribution):
    """The distribution above scale > 0 whose tail falls as x^-alpha, alpha > 0."""

    has_rsample = True
    shown = ("alpha", "scale")
    arg_constraints = regions(alpha=constraints.positive, scale=constraints.positive)

    def __init__(self, scale: Parameter, alpha: Parameter, validate_args: bool | None = None):
        self.scale, self.alpha = broadcast(scale, alpha)
        super().__init__(self.scale.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From scale on."""
        return constraints.greater_than_eq(self.scale)

    mode = same_as("scale")

    @property
    def mean(self) -> Tensor:
        """alpha scale / (alpha - 1), inf up to an alpha of 1."""
        less = jitgrad.where(self.alpha > 1, self.alpha - 1, 1.0)
        return jitgrad.where(self.alpha > 1, self.alpha * self.scale / less, math.inf)

    @property
    def variance(self) -> Tensor:
        """scale^2 alpha / ((alpha - 1)^2 (alpha - 2)), inf up to an alpha of 2."""
        a = jitgrad.where(self.alpha > 2, self.alpha, 3.0)
        return jitgrad.where(self.alpha > 2, self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """scale (1 - u)^(-1 / alpha)."""
        return self.icdf(jitgrad.rand(self._extended(sample_shape), dtype=self.scale.dtype, device=self.scale.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        """log(alpha) + alpha log(scale) - (alpha + 1) log(x)."""
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def _cdf(self, value: Tensor) -> Tensor:
        """1 - (scale / x)^alpha."""
        return 1 - (self.scale / value).pow(self.alpha)

    def icdf(self, value: Tensor) -> Tensor:
        """scale (1 - p)^(-1 / alpha)."""
        return self.scale * jitgrad.exp(-jitgrad.log1p(-value) / self.alpha)

    def entropy(self) -> Tensor:
        """log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(Distribution):
    """scale times the concentration-th root of an exponential number, both above 0."""

    has_rsample = True
    shown = ("scale", "concentration")
    arg_constraints = regions(scale=constraints.positive, concentration=constraints.positive)
    support = constraints.positive

    def __init__(self, scale: Parameter, concentration: Parameter, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast(scale, concentration)
        super().__init__(self.scale.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """scale Gamma(1 + 1 / concentration)."""
        return self.scale * jitgrad.lgamma(1 + self.concentration.reciprocal()).exp()

    @property
    def variance(self) -> Tensor:
        """scale^2 (Gamma(1 + 2 / concentration) - Gamma(1 + 1 / concentration)^2)."""
        back = self.concentration.reciprocal()
        return self.scale.pow(2) * (jitgrad.lgamma(1 + 2 * back).exp() - (2 * jitgrad.lgamma(1 + back)).exp())

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """scale (-log(1 - u))^(1 / concentration)."""
        return self.icdf(jitgrad.rand(self._extended(sample_shape), dtype=self.scale.dtype, device=self.scale.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        """log(k / scale) + (k - 1) log(z) - z^k, z = x / scale."""
        k, z = self.concentration, value / self.scale
        return (k / self.scale).log() + (k - 1) * z.log() - z.pow(k)

    def _cdf(self, value: Tensor) -> Tensor:
        """1 - exp(-z^k)."""
        return -jitgrad.expm1(-(value / self.scale).pow(self.concentration))

    def icdf(self, value: Tensor) -> Tensor:
        """scale (-log(1 - p))^(1 / k)."""
        return self.scale * (-jitgrad.log1p(-value)).pow(self.concentration.reciprocal())

    def entropy(self) -> Tensor:
        """Euler's constant times (1 - 1 / k), plus log(scale / k) + 1."""
        back = self.concentration.reciprocal()
        return 0.57721566490153286060 * (1 - back) + (self.scale * back).log() + 1


def pareto_divergence(p: Pareto, q: Pareto) -> Any:
    """The divergence of two Pareto distributions: inf where p is below q's scale."""
    ratio = q.alpha / p.alpha
    finite = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return jitgrad.where(p.scale < q.scale, math.inf, finite)
