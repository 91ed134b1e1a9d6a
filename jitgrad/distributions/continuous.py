"""Distributions with densities."""

import math
from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, ExponentialFamily, Parameter, broadcast, regions, same_as
from jitgrad.eager.tensor import Tensor


class _LocationScale(Distribution):
    """A fixed distribution stretched by scale > 0 and moved by loc."""

    has_rsample = True
    shown = ("loc", "scale")
    arg_constraints = regions(loc=constraints.real, scale=constraints.positive)
    support = constraints.real

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None):
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution of mean loc and standard deviation scale > 0."""

    _mean_carrier_measure = 0.0

    mean = mode = same_as("loc")
    stddev = same_as("scale")

    @property
    def variance(self) -> Tensor:
        """scale^2."""
        return self.scale * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * noise."""
        drawn = jitgrad.randn(self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + drawn * self.scale

    def _log_prob(self, value: Tensor) -> Tensor:
        """-((x - loc) / scale)^2 / 2 - log(scale) - log(2 pi) / 2."""
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def _cdf(self, value: Tensor) -> Tensor:
        """(1 + erf(z / sqrt(2))) / 2."""
        return 0.5 * (1 + jitgrad.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Tensor) -> Tensor:
        """loc + scale * sqrt(2) * erfinv(2 p - 1)."""
        return self.loc + self.scale * jitgrad.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """(1 + log(2 pi)) / 2 + log(scale)."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + jitgrad.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal())

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        x, y = natural
        return -0.25 * x.pow(2) / y + 0.5 * jitgrad.log(-math.pi / y)


class LogNormal(Distribution):
    """exp of a normal distribution."""

    has_rsample = True
    arg_constraints = regions(loc=constraints.real, scale=constraints.positive)
    support = constraints.positive
    loc: Tensor = same_as("loc", "The mean of the logarithm.", of="base_dist")
    scale: Tensor = same_as("scale", "The standard deviation of the logarithm.", of="base_dist")

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None):
        self.base_dist = Normal(loc, scale, validate_args)
        super().__init__(self.base_dist.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """exp(loc + scale^2 / 2)."""
        return (self.loc + self.scale * self.scale / 2).exp()

    @property
    def variance(self) -> Tensor:
        """(exp(scale^2) - 1) exp(2 loc + scale^2)."""
        square = self.scale * self.scale
        return square.expm1() * (2 * self.loc + square).exp()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """exp of the normal's."""
        return self.base_dist.rsample(sample_shape).exp()

    def _log_prob(self, value: Tensor) -> Tensor:
        """The normal's at log(x), minus log(x)."""
        return self.base_dist.log_prob(value.log()) - value.log()

    def entropy(self) -> Tensor:
        """The normal's plus loc."""
        return self.base_dist.entropy() + self.loc


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    has_rsample = True
    shown = ("low", "high")

    def __init__(self, low: Parameter, high: Parameter, validate_args: bool | None = None):
        self.low, self.high = broadcast(low, high)
        super().__init__(self.low.shape, (), validate_args)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """low < high."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Between both."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Tensor:
        """(high - low)^2 / 12."""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + (high - low) * u."""
        u = jitgrad.rand(self._extended(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def _log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low) inside, -inf outside."""
        inside = (self.low <= value) & (value < self.high)
        return jitgrad.where(inside, -jitgrad.log(self.high - self.low), -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        """(x - low) / (high - low), in [0, 1]."""
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """low + (high - low) * p."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log(high - low)."""
        return jitgrad.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Waiting times of a process of the given rate > 0."""

    has_rsample = True
    shown = ("rate",)
    arg_constraints = regions(rate=constraints.positive)
    support = constraints.nonnegative
    _mean_carrier_measure = 0.0

    def __init__(self, rate: Parameter, validate_args: bool | None = None):
        self.rate = broadcast(rate)[0]
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """1 / rate^2."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """-log(1 - u) / rate."""
        u = jitgrad.rand(self._extended(sample_shape), dtype=self.rate.dtype, device=self.rate.device)
        return -jitgrad.log1p(-u) / self.rate

    def _log_prob(self, value: Tensor) -> Tensor:
        """log(rate) - rate * x."""
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Tensor) -> Tensor:
        """1 - exp(-rate * x)."""
        return 1 - jitgrad.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """-log(1 - p) / rate."""
        return -jitgrad.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """1 - log(rate)."""
        return 1.0 - jitgrad.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        return -jitgrad.log(-natural[0])


class Laplace(_LocationScale):
    """The double exponential distribution around loc."""

    mean = same_as("loc")

    @property
    def variance(self) -> Tensor:
        """2 scale^2."""
        return 2 * self.scale * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc - scale * sign(u) * log(1 - |u|), u uniform in (-1, 1)."""
        u = jitgrad.rand(self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device) * 2 - 1
        return self.loc - self.scale * u.sign() * jitgrad.log1p(-u.abs().clamp_max(1 - 1e-7))

    def _log_prob(self, value: Tensor) -> Tensor:
        """-log(2 scale) - |x - loc| / scale."""
        return -jitgrad.log(2 * self.scale) - jitgrad.abs(value - self.loc) / self.scale

    def _cdf(self, value: Tensor) -> Tensor:
        """1/2 - sign(x - loc) (exp(-|x - loc| / scale) - 1) / 2."""
        d = value - self.loc
        return 0.5 - 0.5 * d.sign() * jitgrad.expm1(-d.abs() / self.scale)

    def entropy(self) -> Tensor:
        """1 + log(2 scale)."""
        return 1 + jitgrad.log(2 * self.scale)


class Gumbel(_LocationScale):
    """The distribution of maxima."""

    @property
    def mean(self) -> Tensor:
        """loc + scale * Euler's constant."""
        return self.loc + self.scale * 0.57721566490153286060

    @property
    def variance(self) -> Tensor:
        """(pi * scale)^2 / 6."""
        return self.scale * self.scale * (math.pi ** 2 / 6)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc - scale * log(-log(u))."""
        u = jitgrad.rand(self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        u = u.clamp(1e-20, 1 - 1e-7)
        return self.loc - self.scale * jitgrad.log(-jitgrad.log(u))

    def _log_prob(self, value: Tensor) -> Tensor:
        """y - exp(y) - log(scale), y = (loc - x) / scale."""
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def entropy(self) -> Tensor:
        """log(scale) + 1 + Euler's constant."""
        return self.scale.log() + (1 + 0.57721566490153286060)


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch axes are part of the event."""

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None):
        shape = tuple(base_distribution.batch_shape)
        n = len(shape) - reinterpreted_batch_ndims
        if n < 0:
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                             f"{reinterpreted_batch_ndims} vs {len(shape)}")
        self.base_dist: Any = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:n], shape[n:] + tuple(base_distribution.event_shape), validate_args)
        self.has_rsample = base_distribution.has_rsample

    def _summed(self, x: Any) -> Any:
        for _ in range(self.reinterpreted_batch_ndims):
            x = x.sum(-1)
        return x

    mean = same_as("mean", "The base's.", of="base_dist")
    variance = same_as("variance", "The base's.", of="base_dist")

    def rsample(self, sample_shape: Any = ()) -> Any:
        """The base's."""
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Any = ()) -> Any:
        """The base's."""
        return self.base_dist.sample(sample_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, of whole events."""
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Of the base expanded."""
        more = tuple(self._event_shape)[:self.reinterpreted_batch_ndims]
        made = Independent(self.base_dist.expand((*tuple(batch_shape), *more)), self.reinterpreted_batch_ndims,
                           validate_args=False)
        made._validate_args = self._validate_args
        return made

    def log_prob(self, value: Tensor) -> Any:
        """The base's, which asks for its support, summed over the event."""
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Any:
        """The base's, summed over the event."""
        return self._summed(self.base_dist.entropy())

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
