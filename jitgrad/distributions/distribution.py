"""What all distributions share: shapes, samples without history, text."""

from typing import Any, TypeAlias

import jitgrad
from jitgrad.eager.tensor import Tensor

Parameter: TypeAlias = Tensor | float


def broadcast(*values: Parameter) -> list[Tensor]:
    """Tensors and numbers as tensors of one shape; numbers take the dtype of the tensors, or the default one."""
    like = None
    for v in values:
        if isinstance(v, Tensor):
            like = v
    if like is None:
        return [jitgrad.tensor(float(v)) for v in values]
    tensors = [v if isinstance(v, Tensor) else jitgrad.full((), v, dtype=like.dtype, device=like.device)
               for v in values]
    return list(jitgrad.broadcast_tensors(*tensors))


def _text(value: Tensor) -> str:
    """A parameter in `repr`: a number, or the size."""
    return str((value if value.dim() else value.item()) if value.numel() == 1 else value.size())


def same_as(name: str, doc: str = "", of: str = "") -> Any:
    """A property that is another attribute, or one of the attribute `of`."""
    if of:
        return property(lambda self: getattr(getattr(self, of), name), doc=doc)
    return property(lambda self: getattr(self, name), doc=doc or f"{name}.")


class Distribution:
    """A distribution over tensors.

    Attributes:
        batch_shape: the shape of the parameters: as many independent distributions.
        event_shape: the shape of one draw.
        has_rsample: whether `rsample` is there: draws that carry gradients to the parameters.
    """

    has_rsample = False
    has_enumerate_support = False
    #: the parameters that `repr` shows
    shown: tuple[str, ...] = ()

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape, self._validate_args = batch_shape, event_shape, validate_args

    batch_shape = same_as("_batch_shape", "The shape of the parameters.")
    event_shape = same_as("_event_shape", "The shape of one draw.")

    def _require(self, name: str, constraint: str, satisfied: Tensor) -> None:
        """ValueError unless all values of a parameter are allowed; not with validate_args=False."""
        if self._validate_args is not False and not bool(satisfied.all()):
            raise ValueError(f"Expected parameter {name} of distribution {type(self).__name__} to satisfy the "
                             f"constraint {constraint}, but found invalid values")

    def _extended(self, sample_shape: Any) -> tuple[Any, ...]:
        """The shape of `sample_shape` draws."""
        return (*tuple(sample_shape), *tuple(self._batch_shape), *tuple(self._event_shape))

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape sample_shape + batch_shape + event_shape, with gradients to the parameters."""
        raise NotImplementedError

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape sample_shape + batch_shape + event_shape."""
        with jitgrad.no_grad():
            return self.rsample(sample_shape).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, at a value."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expectation of -log_prob."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return jitgrad.exp(self.entropy())

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most the value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        parts = [f"{name}: {_text(getattr(self, name))}" for name in self.shown]
        return type(self).__name__ + "(" + ", ".join(parts) + ")"


class ExponentialFamily(Distribution):
    """A distribution whose density is h(x) exp(t(x) . n - A(n)): a subclass has n and A, and what it wants besides.

    Attributes:
        _natural_params: n, a tuple of tensors.
        _mean_carrier_measure: the expectation of log h(x).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural: Tensor) -> Tensor:
        """A."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def _expected(self) -> tuple[list[Tensor], Tensor, tuple[Tensor, ...]]:
        """n, A(n), and the expectation of t(x), which is A's derivative."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        expected: Any = jitgrad.autograd.grad(normalizer.sum(), natural, create_graph=True)
        return natural, normalizer, expected

    def _over_event(self, x: Tensor, like: Tensor) -> Tensor:
        """The sum over the axes that a natural parameter has besides those of the batch."""
        for _ in range(like.dim() - len(tuple(self._batch_shape))):
            x = x.sum(-1)
        return x

    def entropy(self) -> Tensor:
        """A(n) - n . A'(n) - E log h(x), the parameters taken as values, as in torch."""
        natural, normalizer, expected = self._expected()
        result = normalizer - self._mean_carrier_measure
        for n, t in zip(natural, expected, strict=True):
            result = result - self._over_event(n * t, n)
        return result
