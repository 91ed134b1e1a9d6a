"""Distributions of heavy tails, and of absolute values."""

import math
from typing import Any

import jitgrad
from jitgrad.distributions.continuous import Normal, _LocationScale
from jitgrad.distributions.distribution import Distribution, Parameter, same_as
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

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(pi scale) - log1p(z^2)."""
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - jitgrad.log1p(z * z)

    def cdf(self, value: Tensor) -> Tensor:
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

    def log_prob(self, value: Tensor) -> Any:
        """The base's plus log(2); -inf of negative values."""
        return jitgrad.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Any:
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
