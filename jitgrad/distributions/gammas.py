"""Gamma distributions and their kin: Chi2, Beta, Dirichlet, StudentT.

Draws are by rejection; their gradients are those with which they keep the probability of less (`ops/rows/special/
implicit.py`). As in torch they have no second order.
"""

import math
from typing import Any

import jitgrad
from jitgrad.autograd import Function
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, ExponentialFamily, Parameter, broadcast, regions, same_as
from jitgrad.eager.tensor import Tensor
from jitgrad.ops.library.special.functions import dirichlet_grad, standard_gamma_grad


def draw_gamma(concentration: Tensor) -> Tensor:
    """Draws of rate 1, one for each element, by rejection; where the concentration is below 1 of one more, made less.

    Source: Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", 2000.
    """
    small = concentration < 1
    d = jitgrad.where(small, concentration + 1, concentration) - 1 / 3
    c = 1 / (9 * d).sqrt()
    done = jitgrad.zeros_like(d) > 0
    found = jitgrad.zeros_like(d)
    while not bool(done.all()):
        x = jitgrad.randn_like(d)
        u = 1 - jitgrad.rand_like(d)
        v = (1 + c * x) ** 3
        taken = (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp(min=1e-30).log()) & ~done
        found = jitgrad.where(taken, d * v, found)
        done = done | taken
    less = (1 - jitgrad.rand_like(d)) ** (1 / concentration)
    return jitgrad.where(small, found * less, found).clamp(min=jitgrad.finfo(d.dtype).tiny)


class _StandardGamma(Function):
    """Draws of rate 1."""

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        """By rejection."""
        drawn = draw_gamma(concentration)
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Of draws that keep their probability of less."""
        return grad * standard_gamma_grad(*ctx.saved_tensors)


class _Shares(Function):
    """The shares of gamma numbers in their sum along the last axis."""

    @staticmethod
    def forward(ctx: Any, concentration: Any) -> Any:
        """Each gamma number over the sum."""
        drawn = draw_gamma(concentration)
        shares = drawn / drawn.sum(-1, keepdim=True)
        ctx.save_for_backward(concentration, shares)
        return shares

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Each share moves as a beta number, and the others in proportion to what is left for them."""
        concentration, shares = ctx.saved_tensors
        slope = dirichlet_grad(shares, concentration, concentration.sum(-1, keepdim=True))
        return slope * (grad - (shares * grad).sum(-1, keepdim=True))


def standard_gamma(concentration: Tensor) -> Tensor:
    """Draws of rate 1, one for each element, with gradients."""
    found: Tensor = _StandardGamma.apply(concentration)
    return found


class Gamma(ExponentialFamily):
    """The distribution of waiting times for `concentration` events of a process of the given rate, both above 0."""

    has_rsample = True
    shown: tuple[str, ...] = ("concentration", "rate")
    arg_constraints = regions(concentration=constraints.positive, rate=constraints.positive)
    support = constraints.nonnegative
    _mean_carrier_measure = 0.0

    def __init__(self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """concentration / rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(concentration - 1) / rate, or 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """concentration / rate^2."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """By rejection; see `draw_gamma`."""
        return standard_gamma(self.concentration.expand(self._extended(sample_shape))) / self.rate

    def _log_prob(self, value: Tensor) -> Tensor:
        """a log(b) + (a - 1) log(x) - b x - lgamma(a)."""
        a, b = self.concentration, self.rate
        return jitgrad.xlogy(a, b) + jitgrad.xlogy(a - 1, value) - b * value - jitgrad.lgamma(a)

    def entropy(self) -> Tensor:
        """a - log(b) + lgamma(a) + (1 - a) digamma(a)."""
        a = self.concentration
        return a - self.rate.log() + jitgrad.lgamma(a) + (1.0 - a) * jitgrad.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1, -self.rate)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        x, y = natural
        return jitgrad.lgamma(x + 1) + (x + 1) * jitgrad.log(-y.reciprocal())


class Chi2(Gamma):
    """The distribution of the sum of df squares of normal numbers: `Gamma(df / 2, 1 / 2)`."""

    shown = ()
    arg_constraints = regions(df=constraints.positive)

    def __init__(self, df: Parameter, validate_args: bool | None = None):
        super().__init__(df * 0.5, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        """Twice the concentration."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """The distribution of probabilities of K classes of which concentration - 1, (..., K), have been seen."""

    has_rsample = True
    shown = ("concentration",)
    arg_constraints = regions(concentration=constraints.independent(constraints.positive, 1))
    support = constraints.simplex
    _mean_carrier_measure = 0.0

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """The concentration's shares."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        """m (1 - m) / (sum + 1), of the mean m."""
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The shares of gamma numbers."""
        found: Tensor = _Shares.apply(self.concentration.expand(self._extended(sample_shape)))
        return found

    def _log_prob(self, value: Tensor) -> Tensor:
        """The sum of (a - 1) log(x), and lgamma of the sum less the sum of lgamma."""
        a = self.concentration
        return jitgrad.xlogy(a - 1, value).sum(-1) + jitgrad.lgamma(a.sum(-1)) - jitgrad.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        """The expectation of -log_prob, by digamma."""
        a, total = self.concentration, self.concentration.sum(-1)
        k = a.shape[-1]
        return (jitgrad.lgamma(a).sum(-1) - jitgrad.lgamma(total) - (k - total) * jitgrad.digamma(total)
                - ((a - 1.0) * jitgrad.digamma(a)).sum(-1))

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1,)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        x = natural[0] + 1
        return jitgrad.lgamma(x).sum(-1) - jitgrad.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """The distribution of a probability, when concentration1 - 1 hits and concentration0 - 1 misses were seen."""

    has_rsample = True
    arg_constraints = regions(concentration1=constraints.positive, concentration0=constraints.positive)
    support = constraints.unit_interval
    _mean_carrier_measure = 0.0

    def __init__(self, concentration1: Parameter, concentration0: Parameter, validate_args: bool | None = None):
        both = jitgrad.stack(broadcast(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args)
        super().__init__(self._dirichlet.batch_shape, (), validate_args)

    @property
    def concentration1(self) -> Tensor:
        """Of hits."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """Of misses."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        """The share of hits."""
        return self._dirichlet.mean[..., 0]

    @property
    def variance(self) -> Tensor:
        """Of the share of hits."""
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The share of one of two gamma numbers."""
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def _log_prob(self, value: Tensor) -> Tensor:
        """The Dirichlet distribution's, of two classes."""
        return self._dirichlet.log_prob(jitgrad.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        """The Dirichlet distribution's, of two classes."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration1 - 1, self.concentration0 - 1)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        x, y = natural[0] + 1, natural[1] + 1
        return jitgrad.lgamma(x) + jitgrad.lgamma(y) - jitgrad.lgamma(x + y)


class StudentT(Distribution):
    """Student's distribution of df degrees of freedom, stretched by scale > 0 and moved by loc."""

    has_rsample = True
    shown = ("df", "loc", "scale")
    arg_constraints = regions(df=constraints.positive, loc=constraints.real, scale=constraints.positive)
    support = constraints.real
    mode = same_as("loc")

    def __init__(self, df: Parameter, loc: Parameter = 0.0, scale: Parameter = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = broadcast(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """loc, NaN up to a df of 1."""
        return jitgrad.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """scale^2 df / (df - 2), inf up to a df of 2, NaN up to 1."""
        finite = self.scale.pow(2) * self.df / jitgrad.where(self.df > 2, self.df - 2, 1.0)
        return jitgrad.where(self.df > 2, finite, jitgrad.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A normal number by the root of the mean of df squares of others."""
        df = self.df.expand(self._extended(sample_shape))
        squares = standard_gamma(df * 0.5) * 2
        return self.loc + self.scale * jitgrad.randn_like(df.detach()) * (squares / df).rsqrt()

    def _log_prob(self, value: Tensor) -> Tensor:
        """-(df + 1) / 2 log(1 + z^2 / df), and what makes the integral 1."""
        z, df = (value - self.loc) / self.scale, self.df
        whole = (self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + jitgrad.lgamma(0.5 * df)
                 - jitgrad.lgamma(0.5 * (df + 1.0)))
        return -0.5 * (df + 1.0) * jitgrad.log1p(z * z / df) - whole

    def entropy(self) -> Tensor:
        """The expectation of -log_prob, by digamma."""
        df, more = 0.5 * self.df, 0.5 * (self.df + 1)
        beta = jitgrad.lgamma(df) + 0.5 * math.log(math.pi) - jitgrad.lgamma(more)
        return (self.scale.log() + more * (jitgrad.digamma(more) - jitgrad.digamma(df)) + 0.5 * self.df.log() + beta)


# --- divergences ---------------------------------------------------------------------------------------------------


def gamma_divergence(p: Gamma, q: Gamma) -> Tensor:
    """The divergence of two gamma distributions."""
    shapes = jitgrad.lgamma(q.concentration) - jitgrad.lgamma(p.concentration)
    change = (p.concentration - q.concentration) * jitgrad.digamma(p.concentration)
    rates = q.concentration * (p.rate / q.rate).log() + (q.rate - p.rate) * (p.concentration / p.rate)
    return rates + shapes + change


def dirichlet_divergence(p: Dirichlet, q: Dirichlet) -> Tensor:
    """The divergence of two Dirichlet distributions."""
    total = p.concentration.sum(-1)
    wholes = jitgrad.lgamma(total) - jitgrad.lgamma(q.concentration.sum(-1))
    parts = (jitgrad.lgamma(p.concentration) - jitgrad.lgamma(q.concentration)).sum(-1)
    expected = jitgrad.digamma(p.concentration) - jitgrad.digamma(total).unsqueeze(-1)
    return wholes - parts + ((p.concentration - q.concentration) * expected).sum(-1)
