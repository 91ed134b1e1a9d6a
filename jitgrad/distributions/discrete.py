"""Distributions over finitely many, or countably many, values."""

from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, ExponentialFamily, Parameter, broadcast, regions, same_as
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F


def _clamped(probs: Tensor) -> Tensor:
    eps = jitgrad.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def _one_of(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Bernoulli(ExponentialFamily):
    """1 with probability probs = sigmoid(logits), else 0."""

    has_enumerate_support = True
    probs: Tensor
    logits: Tensor
    arg_constraints = regions(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.boolean
    _mean_carrier_measure = 0.0

    def __init__(self, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None):
        _one_of(probs, logits)
        if probs is not None:
            self.probs = broadcast(probs)[0]
            self.logits = jitgrad.log(_clamped(self.probs)) - jitgrad.log1p(-_clamped(self.probs))
        else:
            self.logits = broadcast(logits)[0]  # type: ignore[arg-type]
            self.probs = jitgrad.sigmoid(self.logits)
        self.shown = ("probs",) if probs is not None else ("logits",)
        super().__init__(self.probs.shape, (), validate_args)

    mean = same_as("probs")

    @property
    def variance(self) -> Tensor:
        """probs * (1 - probs)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """0 and 1 in the dtype of the parameters."""
        with jitgrad.no_grad():
            return jitgrad.bernoulli(self.probs.detach().expand(self._extended(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        """-binary_cross_entropy_with_logits."""
        logits, value = broadcast(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """The cross entropy with itself."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1 along a new first axis."""
        values = jitgrad.arange(2, dtype=self.probs.dtype, device=self.probs.device).reshape(2, *[1] * self.probs.dim())
        return values.expand(2, *self.probs.shape) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        return F.softplus(natural[0])


class Categorical(Distribution):
    """One of K classes, with probabilities probs (normalised) or softmax(logits) along the last axis."""

    has_enumerate_support = True
    arg_constraints = regions(probs=constraints.simplex, logits=constraints.real_vector)
    probs: Tensor
    logits: Tensor

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        _one_of(probs, logits)
        given: Tensor = probs if probs is not None else logits  # type: ignore[assignment]
        if given.dim() < 1:
            raise ValueError(f"`{'probs' if probs is not None else 'logits'}` parameter must be at least "
                             "one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits = jitgrad.log(_clamped(self.probs))
        else:
            self.logits = given - given.logsumexp(-1, keepdim=True)
            self.probs = F.softmax(self.logits, -1)
        self._num_events = given.shape[-1]
        self.shown = ("probs",) if probs is not None else ("logits",)
        super().__init__(given.shape[:-1], (), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The classes."""
        return constraints.integer_interval(0, self._num_events - 1)

    param_shape = same_as("shape", "The shape of probs.", of="probs")

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """int64 classes: where a uniform number falls among the running sums of probs."""
        with jitgrad.no_grad():
            sums = jitgrad.cumsum(self.probs.detach(), -1)
            u = jitgrad.rand(self._extended(sample_shape), dtype=sums.dtype, device=sums.device)
            u = u.unsqueeze(-1) * sums[..., -1:]
            return (sums[..., :-1] <= u).sum(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        """The logit of the class; value int64, or a float with whole numbers."""
        index = value.to(jitgrad.int64).unsqueeze(-1)
        shape = jitgrad.broadcast_tensors(index, self.logits[..., :1])[0].shape
        logits = self.logits.expand(*shape[:-1], self._num_events)
        return logits.gather(-1, index.expand(shape)).squeeze(-1)

    def entropy(self) -> Tensor:
        """-sum of probs * logits."""
        smallest = jitgrad.finfo(self.logits.dtype).min
        return -(self.logits.clamp_min(smallest) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The classes along a new first axis."""
        values = jitgrad.arange(self._num_events, device=self.probs.device).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(self._num_events, *self._batch_shape) if expand else values


class OneHotCategorical(Distribution):
    """`Categorical` with one-hot vectors as draws."""

    has_enumerate_support = True
    arg_constraints = regions(probs=constraints.simplex, logits=constraints.real_vector)
    support = constraints.one_hot
    probs: Tensor = same_as("probs", "The probabilities.", of="_categorical")
    logits: Tensor = same_as("logits", "Their logarithms.", of="_categorical")
    mean, variance = Bernoulli.mean, Bernoulli.variance
    param_shape = same_as("param_shape", "The shape of probs.", of="_categorical")

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    _arguments: tuple[str, ...] = same_as("shown", "What was given.", of="_categorical")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """One-hot vectors in the dtype of the parameters."""
        return self._one_hot(self._categorical.sample(sample_shape))

    def _one_hot(self, index: Tensor) -> Tensor:
        classes = jitgrad.arange(self.probs.shape[-1], device=self.probs.device)
        return (index.unsqueeze(-1) == classes).to(self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        """The likeliest vector."""
        return self._one_hot(self._categorical.mode)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The vectors along a new first axis."""
        return self._one_hot(self._categorical.enumerate_support(expand))

    def _log_prob(self, value: Tensor) -> Tensor:
        """The logit of the class that is 1."""
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        """The categorical's."""
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws carry the gradient of the probabilities.

    Source: Bengio, Leonard and Courville, "Estimating or Propagating Gradients Through Stochastic Neurons", 2013.
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """One-hot vectors in the dtype of the parameters."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Geometric(Distribution):
    """How many trials of success probability probs fail before the first success."""

    arg_constraints = regions(probs=constraints.unit_interval, logits=constraints.real)
    support = constraints.nonnegative_integer
    probs: Tensor
    logits: Tensor

    def __init__(self, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None):
        _one_of(probs, logits)
        if probs is not None:
            self.probs = broadcast(probs)[0]
            self.logits = jitgrad.log(_clamped(self.probs)) - jitgrad.log1p(-_clamped(self.probs))
        else:
            self.logits = broadcast(logits)[0]  # type: ignore[arg-type]
            self.probs = jitgrad.sigmoid(self.logits)
        self.shown = ("probs",) if probs is not None else ("logits",)
        super().__init__(self.probs.shape, (), validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(f"Expected parameter probs ({type(self.probs).__name__} of shape "
                             f"{tuple(self.probs.shape)}) of distribution {self!r} to be positive but found invalid "
                             f"values:\n{self.probs}")

    @property
    def mean(self) -> Tensor:
        """1 / probs - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def variance(self) -> Tensor:
        """(1 / probs - 1) / probs."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """floor(log(u) / log(1 - probs))."""
        with jitgrad.no_grad():
            u = jitgrad.rand(self._extended(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
            u = u.clamp_min(1e-20)
            return (u.log() / jitgrad.log1p(-self.probs.detach())).floor()

    def _log_prob(self, value: Tensor) -> Tensor:
        """x log(1 - probs) + log(probs)."""
        value, probs = broadcast(value, self.probs)
        return jitgrad.xlogy(value, 1 - probs) + probs.log()

    def entropy(self) -> Tensor:
        """The entropy of one trial over probs."""
        return Bernoulli(probs=self.probs, validate_args=False).entropy() / self.probs
