"""Distributions of counts: Poisson, Binomial, Multinomial, NegativeBinomial."""

import math
from typing import Any

import jitgrad
from jitgrad.autograd import Function
from jitgrad.distributions import constraints
from jitgrad.distributions.discrete import Categorical, _clamped, _one_of
from jitgrad.distributions.distribution import Distribution, ExponentialFamily, Parameter, broadcast, regions, same_as
from jitgrad.distributions.gammas import draw_gamma
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F
from jitgrad.ops.library.keywords import complete


def _arrivals(rate: Tensor, generator: Any) -> Tensor:
    """How many waiting times of a process of rate 1 fit into each time."""
    time = -jitgrad.log1p(-jitgrad.rand_like(rate, generator=generator))
    count = jitgrad.zeros_like(rate)
    while bool((time < rate).any()):
        count = count + (time < rate).to(rate.dtype)
        time = time - jitgrad.log1p(-jitgrad.rand_like(rate, generator=generator))
    return count


def _hits(total: Tensor, probs: Tensor, generator: Any) -> Tensor:
    """How many of each number of trials succeed."""
    count, trial = jitgrad.zeros_like(total), 0
    while bool((total > trial).any()):
        hit = (jitgrad.rand_like(probs, generator=generator) < probs) & (total > trial)
        count = count + hit.to(count.dtype)
        trial += 1
    return count


class _Counted(Function):
    """Counts of a Poisson process, whose gradient is zero."""

    @staticmethod
    def forward(ctx: Any, rate: Any, generator: Any) -> Any:
        """The counts."""
        return _arrivals(rate, generator)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Zeros."""
        return jitgrad.zeros_like(grad), None


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Draws of counts whose expectations are given, in their dtype; the gradient is zero, as in torch.

    RuntimeError for a negative rate, NotImplementedError for one that is no float.
    """
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"poisson_cpu\" not implemented for '{input.dtype.word}'")
    if bool((input < 0).any()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    found: Tensor = _Counted.apply(input, generator)
    return found


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """How many of `count` trials, each of chance `prob` (above 1: sure), succeed, in their dtype; no gradient.

    ValueError for a count that is no float, RuntimeError for two dtypes.
    """
    if not count.dtype.is_floating_point:
        raise ValueError("binomial only supports floating-point dtypes for count, got: "
                         f"{count.dtype.word}")
    if count.dtype is not prob.dtype:
        raise RuntimeError(f"Found dtype {prob.dtype.word} but expected {count.dtype.word}")
    total, probs = jitgrad.broadcast_tensors(count.detach(), prob.detach())
    return _hits(total, probs, generator)


class Poisson(ExponentialFamily):
    """How many events of a process with rate >= 0 happen in a unit of time."""

    shown = ("rate",)
    arg_constraints = regions(rate=constraints.nonnegative)
    support = constraints.nonnegative_integer
    mean = variance = same_as("rate")

    def __init__(self, rate: Parameter, validate_args: bool | None = None):
        self.rate = broadcast(rate)[0]
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mode(self) -> Tensor:
        """floor(rate)."""
        return self.rate.floor()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Waiting times are drawn until their sum passes the rate: as many draws as the largest count."""
        with jitgrad.no_grad():
            return _arrivals(self.rate.detach().expand(self._extended(sample_shape)), None)

    def _log_prob(self, value: Tensor) -> Tensor:
        """x log(rate) - rate - log(x!)."""
        rate, value = broadcast(self.rate, value)
        return jitgrad.xlogy(value, rate) - rate - jitgrad.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (jitgrad.log(self.rate),)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        return jitgrad.exp(natural[0])


class Binomial(Distribution):
    """How many of total_count trials, each with probability probs = sigmoid(logits), succeed."""

    has_enumerate_support = True
    arg_constraints = regions(total_count=constraints.nonnegative_integer, probs=constraints.unit_interval,
        logits=constraints.real)
    probs: Tensor
    logits: Tensor

    def __init__(self, total_count: Parameter = 1, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None):
        _one_of(probs, logits)
        given: Any = logits
        if probs is not None:
            count, self.probs = broadcast(total_count, probs)
            self.logits = jitgrad.log(_clamped(self.probs)) - jitgrad.log1p(-_clamped(self.probs))
        else:
            count, self.logits = broadcast(total_count, given)
            self.probs = jitgrad.sigmoid(self.logits)
        self.total_count = count.to(self.logits.dtype)
        self.shown = ("total_count", "probs") if probs is not None else ("total_count", "logits")
        super().__init__(self.probs.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0, 1, ... total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """n p."""
        return self.total_count * self.probs

    @property
    def variance(self) -> Tensor:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    @property
    def mode(self) -> Tensor:
        """floor((n + 1) p), n at most."""
        return jitgrad.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """One uniform number is drawn for each trial: as many draws as the largest total_count."""
        with jitgrad.no_grad():
            shape = self._extended(sample_shape)
            return _hits(self.total_count.detach().expand(shape), self.probs.detach().expand(shape), None)

    def _log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of n over x, p^x and (1 - p)^(n - x)."""
        n, logits, value = broadcast(self.total_count, self.logits, value)
        ways = jitgrad.lgamma(n + 1) - jitgrad.lgamma(value + 1) - jitgrad.lgamma(n - value + 1)
        return value * logits + ways - n * (logits.clamp(min=0) + jitgrad.log1p(jitgrad.exp(-logits.abs())))

    def entropy(self) -> Tensor:
        """The sum over all counts. NotImplementedError for several total_counts."""
        logs = self.log_prob(self.enumerate_support(False))
        return -(jitgrad.exp(logs) * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0, 1, ... total_count along a new first axis. NotImplementedError for several total_counts."""
        largest = int(self.total_count.max())
        if float(self.total_count.min()) != largest:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = jitgrad.arange(largest + 1, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape(-1, *[1] * self.probs.dim())
        return values.expand(largest + 1, *self.probs.shape) if expand else values


class Multinomial(Distribution):
    """How often each of K classes, (..., K), comes up in total_count draws; the classes' probabilities are
    probs (normalised) or softmax(logits). NotImplementedError for a total_count that is no int.
    """

    arg_constraints = regions(probs=constraints.simplex, logits=constraints.real_vector)
    probs: Tensor = same_as("probs", "The probabilities.", of="_categorical")
    logits: Tensor = same_as("logits", "Their logarithms.", of="_categorical")
    param_shape = same_as("param_shape", "The shape of probs.", of="_categorical")

    def __init__(self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that add up to total_count."""
        return constraints.multinomial(self.total_count)

    _arguments: tuple[str, ...] = same_as("shown", "What was given of probs and logits.", of="_categorical")

    def _made_again(self, given: dict[str, Any], batch_shape: Any) -> Any:
        return Distribution._made_again(self, {"total_count": self.total_count, **given}, batch_shape)

    @property
    def mean(self) -> Tensor:
        """n p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """n p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts of total_count draws, in the dtype of the parameters."""
        drawn = self._categorical.sample((self.total_count, *tuple(sample_shape)))
        classes = jitgrad.arange(self.probs.shape[-1], device=self.probs.device)
        return (drawn.unsqueeze(-1) == classes).to(self.probs.dtype).sum(0)

    def _log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of n! / (x_1! ... x_K!) and of the product of p^x."""
        logits, value = broadcast(self.logits, value)
        logits = jitgrad.where((value == 0) & (logits == -math.inf), 0.0, logits)
        ways = jitgrad.lgamma(value.sum(-1) + 1) - jitgrad.lgamma(value + 1).sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """n times the categorical's, less log(n!), and the expectation of log(x!), where x is binomial."""
        one = Binomial(self.total_count, probs=self.probs, validate_args=False)
        counts = one.enumerate_support(False)
        factorials = (jitgrad.exp(one.log_prob(counts)) * jitgrad.lgamma(counts + 1)).sum(0).sum(-1)
        return self.total_count * self._categorical.entropy() - math.lgamma(self.total_count + 1) + factorials


class NegativeBinomial(Distribution):
    """How many trials of success probability probs = sigmoid(logits) succeed before total_count >= 0 have failed."""

    arg_constraints = regions(total_count=constraints.greater_than_eq(0),
        probs=constraints.half_open_interval(0.0, 1.0), logits=constraints.real)
    support = constraints.nonnegative_integer
    probs: Tensor
    logits: Tensor

    def __init__(self, total_count: Parameter, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None):
        _one_of(probs, logits)
        given: Any = logits
        if probs is not None:
            count, self.probs = broadcast(total_count, probs)
            self.logits = jitgrad.log(_clamped(self.probs)) - jitgrad.log1p(-_clamped(self.probs))
        else:
            count, self.logits = broadcast(total_count, given)
            self.probs = jitgrad.sigmoid(self.logits)
        self.total_count = count.to(self.logits.dtype)
        self.shown = ("total_count", "probs") if probs is not None else ("total_count", "logits")
        super().__init__(self.probs.shape, (), validate_args)

    param_shape = same_as("shape", "The shape of probs.", of="probs")

    @property
    def mean(self) -> Tensor:
        """n p / (1 - p)."""
        return self.total_count * jitgrad.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        """floor((n - 1) p / (1 - p)), or 0."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """n p / (1 - p)^2."""
        return self.mean / jitgrad.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """A Poisson count whose rate is a gamma number."""
        with jitgrad.no_grad():
            shape = self._extended(sample_shape)
            rate = draw_gamma(self.total_count.detach().expand(shape)) * jitgrad.exp(self.logits.detach())
            return Poisson(rate, validate_args=False).sample()

    def _log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of n + x - 1 over x, (1 - p)^n and p^x."""
        n = self.total_count
        powers = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = jitgrad.lgamma(n + value) - jitgrad.lgamma(1.0 + value) - jitgrad.lgamma(n)
        return powers + ways.masked_fill(n + value == 0, 0.0)


complete(globals(), "torch")
