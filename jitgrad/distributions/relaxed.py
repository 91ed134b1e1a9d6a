"""Distributions on the interval and the simplex whose draws carry gradients: relaxed choices, and kin."""

import math
from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.continuous import Independent, Normal
from jitgrad.distributions.discrete import Bernoulli, Categorical, _clamped, _one_of
from jitgrad.distributions.distribution import Distribution, ExponentialFamily, Parameter, broadcast, regions, same_as
from jitgrad.distributions.transformed import TransformedDistribution
from jitgrad.distributions.transforms import ExpTransform, SigmoidTransform, StickBreakingTransform
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F


class LogitRelaxedBernoulli(Distribution):
    """The logits of `RelaxedBernoulli`: those of probs and of a uniform number, over the temperature.

    Source: Maddison, Mnih and Teh, "The Concrete Distribution", 2017.
    """

    has_rsample = True
    arg_constraints = regions(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.real
    probs: Tensor = same_as("probs", "The probability of 1.", of="_choice")
    logits: Tensor = same_as("logits", "The logit of probs.", of="_choice")
    param_shape = same_as("shape", "The shape of probs.", of="probs")

    def __init__(self, temperature: Tensor, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None):
        self.temperature, self._choice = temperature, Bernoulli(probs, logits, validate_args)
        super().__init__(self._choice.batch_shape, (), validate_args)
        self.shown = self._choice.shown

    def _made_again(self, given: dict[str, Any], batch_shape: Any) -> Any:
        return Distribution._made_again(self, {"temperature": self.temperature, **given}, batch_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """(logit(u) + logit(probs)) / temperature."""
        probs = _clamped(self.probs.expand(self._extended(sample_shape)))
        u = _clamped(jitgrad.rand_like(probs.detach()))
        return (u.log() - jitgrad.log1p(-u) + probs.log() - jitgrad.log1p(-probs)) / self.temperature

    def _log_prob(self, value: Tensor) -> Tensor:
        """log(t) + d - 2 log(1 + exp(d)), d = logits - t x."""
        logits, value = broadcast(self.logits, value)
        away = logits - value * self.temperature
        return self.temperature.log() + away - 2 * F.softplus(away)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1), the nearer to 0 and 1 the lower the temperature, as the probability probs has it."""

    arg_constraints = regions(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.unit_interval
    _made_again = LogitRelaxedBernoulli._made_again
    _arguments: tuple[str, ...] = same_as("shown", "What was given.", of="base_dist")
    temperature: Tensor = same_as("temperature", "The temperature.", of="base_dist")
    probs: Tensor = same_as("probs", "The probability of 1.", of="base_dist")
    logits: Tensor = same_as("logits", "The logit of probs.", of="base_dist")

    def __init__(self, temperature: Tensor, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None):
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(Distribution):
    """The logarithms of `RelaxedOneHotCategorical`: Gumbel numbers and logits, over the temperature, normalised."""

    has_rsample = True
    arg_constraints = regions(probs=constraints.simplex, logits=constraints.real_vector)
    support = constraints.real_vector
    _made_again = LogitRelaxedBernoulli._made_again
    _arguments: tuple[str, ...] = same_as("shown", "What was given.", of="_categorical")
    probs: Tensor = same_as("probs", "The probabilities.", of="_categorical")
    logits: Tensor = same_as("logits", "Their logarithms.", of="_categorical")
    param_shape = same_as("param_shape", "The shape of probs.", of="_categorical")

    def __init__(self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None):
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """log_softmax((logits - log(-log(u))) / temperature)."""
        u = _clamped(jitgrad.rand(self._extended(sample_shape), dtype=self.logits.dtype, device=self.logits.device))
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        """log((K - 1)!) + (K - 1) log(t) and the sum of log_softmax(logits - t x)."""
        classes = self.logits.shape[-1]
        logits, value = broadcast(self.logits, value)
        scale = math.lgamma(classes) + (classes - 1) * self.temperature.log()
        return (logits - value * self.temperature).log_softmax(-1).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Points of the simplex, the nearer to its corners the lower the temperature, as probs or softmax(logits) have it.

    Source: Jang, Gu and Poole, "Categorical Reparameterization with Gumbel-Softmax", 2017.
    """

    arg_constraints = regions(probs=constraints.simplex, logits=constraints.real_vector)
    support = constraints.simplex
    _made_again = LogitRelaxedBernoulli._made_again
    _arguments: tuple[str, ...] = same_as("_arguments", "What was given.", of="base_dist")
    temperature: Tensor = same_as("temperature", "The temperature.", of="base_dist")
    probs: Tensor = same_as("probs", "The probabilities.", of="base_dist")
    logits: Tensor = same_as("logits", "Their logarithms.", of="base_dist")

    def __init__(self, temperature: Tensor, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args), ExpTransform(),
                         validate_args)


class LogisticNormal(TransformedDistribution):
    """The shares of K classes that K - 1 normal numbers of means loc and deviations scale, (..., K - 1), break off."""

    arg_constraints = regions(loc=constraints.real, scale=constraints.positive)
    support = constraints.simplex
    loc: Tensor = same_as("loc", "The means.", of="_normal")
    scale: Tensor = same_as("scale", "The standard deviations.", of="_normal")

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None):
        base = Normal(loc, scale, validate_args)
        if not base.loc.dim():
            base = Normal(base.loc.unsqueeze(0), base.scale.unsqueeze(0), validate_args)
        self._normal = base
        super().__init__(Independent(base, 1), StickBreakingTransform(), validate_args)


class ContinuousBernoulli(ExponentialFamily):
    """Numbers in [0, 1] whose density is as probs^x (1 - probs)^(1 - x).

    Near probs of 1/2, between the two lims, series stand for quotients of small numbers.
    Source: Loaiza-Ganem and Cunningham, "The continuous Bernoulli: fixing a pervasive error in variational
    autoencoders", 2019.
    """

    has_rsample = True
    arg_constraints = regions(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.unit_interval
    probs: Tensor
    logits: Tensor
    _mean_carrier_measure = 0.0

    def __init__(self, probs: Parameter | None = None, logits: Parameter | None = None,
                 lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None):
        _one_of(probs, logits)
        given: Any = logits
        if probs is not None:
            self.probs = broadcast(probs)[0]
            self.shown = ("probs",)
            super().__init__(self.probs.shape, (), validate_args)
            self.probs = _clamped(self.probs)
            self.logits = self.probs.log() - jitgrad.log1p(-self.probs)
        else:
            self.logits = broadcast(given)[0]
            self.shown = ("logits",)
            super().__init__(self.logits.shape, (), validate_args)
            self.probs = _clamped(jitgrad.sigmoid(self.logits))
        self._lims = lims
        #: where the quotients are exact, and probs there
        self._apart = (self.probs <= lims[0]) | (self.probs > lims[1])
        self._cut = jitgrad.where(self._apart, self.probs, lims[0])

    param_shape = same_as("shape", "The shape of probs.", of="probs")

    def _made_again(self, given: dict[str, Any], batch_shape: Any) -> Any:
        return Distribution._made_again(self, {**given, "lims": self._lims}, batch_shape)

    def _log_norm(self) -> Tensor:
        """The logarithm of what makes the integral 1: 2 atanh(1 - 2 p) / (1 - 2 p)."""
        cut = self._cut
        exact = (jitgrad.log1p(-cut) - cut.log()).abs().log() - (1 - 2 * cut).abs().log()
        x = (self.probs - 0.5).pow(2)
        return jitgrad.where(self._apart, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        """p / (2 p - 1) + 1 / (log(1 - p) - log(p))."""
        cut, x = self._cut, self.probs - 0.5
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (jitgrad.log1p(-cut) - cut.log())
        return jitgrad.where(self._apart, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def variance(self) -> Tensor:
        """p (p - 1) / (1 - 2 p)^2 + 1 / (log(1 - p) - log(p))^2."""
        cut, x = self._cut, (self.probs - 0.5).pow(2)
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / (jitgrad.log1p(-cut) - cut.log()).pow(2)
        return jitgrad.where(self._apart, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """`icdf` of a uniform number."""
        return self.icdf(jitgrad.rand(self._extended(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def _log_prob(self, value: Tensor) -> Tensor:
        """x log(p) + (1 - x) log(1 - p), and what makes the integral 1."""
        logits, value = broadcast(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()

    def _cdf(self, value: Tensor) -> Tensor:
        """(p^x (1 - p)^(1 - x) + p - 1) / (2 p - 1)."""
        cut = self._cut
        exact = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        return jitgrad.where(value <= 0, 0.0, jitgrad.where(value >= 1, 1.0, jitgrad.where(self._apart, exact, value)))

    def icdf(self, value: Tensor) -> Tensor:
        """log(1 + u (2 p - 1) / (1 - p)) / (log(p) - log(1 - p))."""
        cut = self._cut
        log = jitgrad.log1p(-cut)
        return jitgrad.where(self._apart, (jitgrad.log1p(-cut + value * (2.0 * cut - 1.0)) - log) / (cut.log() - log),
                             value)

    def entropy(self) -> Tensor:
        """m (log(1 - p) - log(p)) - log(1 - p), of the mean m, less what makes the integral 1."""
        zero = jitgrad.log1p(-self.probs)
        return self.mean * (zero - self.probs.log()) - self._log_norm() - zero

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        x, low, high = natural[0], self._lims[0] - 0.5, self._lims[1] - 0.5
        apart = (x <= low) | (x > high)
        cut = jitgrad.where(apart, x, low)
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return jitgrad.where(apart, jitgrad.expm1(cut).abs().log() - cut.abs().log(), series)


def relaxed_divergence(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    """The divergence of two continuous Bernoulli distributions."""
    norms = p._log_norm() + jitgrad.log1p(-p.probs) - q._log_norm() - jitgrad.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + norms
