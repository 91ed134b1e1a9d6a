"""Mixtures of distributions of one family."""

from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.distributions.discrete import Categorical
from jitgrad.distributions.distribution import Distribution, same_as
from jitgrad.eager.tensor import Tensor


class MixtureSameFamily(Distribution):
    """The distribution of a draw from one of K components, which a categorical distribution chooses.

    Args:
        mixture_distribution: a `Categorical` of K classes.
        component_distribution: a distribution whose last batch axis, K long, holds the components.

    Raises ValueError for other types, and for shapes that do not fit.
    """

    mixture_distribution = same_as("_mixture", "What chooses the component.")
    component_distribution = same_as("_component", "The components.")

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution,
                 validate_args: bool | None = None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        self._mixture: Categorical = mixture_distribution
        self._component: Any = component_distribution
        chosen, batch = tuple(mixture_distribution.batch_shape), tuple(component_distribution.batch_shape)[:-1]
        for one, other in zip(reversed(chosen), reversed(batch), strict=False):
            if one != 1 and other != 1 and one != other:
                raise ValueError(f"`mixture_distribution.batch_shape` ({chosen}) is not compatible with "
                                 f"`component_distribution.batch_shape`({batch})")
        classes, components = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if classes != components:
            raise ValueError(f"`mixture_distribution component` ({classes}) does not equal "
                             f"`component_distribution.batch_shape[-1]` ({components})")
        super().__init__(batch, component_distribution.event_shape, validate_args)

    @property
    def support(self) -> Any:
        """The components'."""
        return constraints.MixtureSameFamilyConstraint(self._component.support)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Of what chooses and the components expanded."""
        batch = tuple(batch_shape)
        made = MixtureSameFamily(self._mixture.expand(batch), self._component.expand((
            *batch, self._component.batch_shape[-1])), validate_args=False)
        made._validate_args = self._validate_args
        return made

    def _weights(self) -> Tensor:
        """The probabilities, with the axes of an event behind them."""
        probs = self._mixture.probs
        return probs.reshape(*probs.shape, *[1 for _ in self._event_shape])

    def _apart(self, x: Tensor) -> Tensor:
        """With an axis for the components."""
        return x.unsqueeze(-1 - len(tuple(self._event_shape)))

    def _mixed(self, x: Tensor) -> Tensor:
        """The expectation over the components."""
        return (self._weights() * x).sum(-1 - len(tuple(self._event_shape)))

    @property
    def mean(self) -> Tensor:
        """The expectation of the components' means."""
        return self._mixed(self._component.mean)

    @property
    def variance(self) -> Tensor:
        """The expectation of the components' variances, and the variance of their means."""
        away = self._component.mean - self._apart(self.mean)
        return self._mixed(self._component.variance) + self._mixed(away.pow(2))

    def _cdf(self, value: Tensor) -> Tensor:
        """The expectation of the components'."""
        parts: Tensor = self._component.cdf(self._apart(value))
        return (parts * self._mixture.probs).sum(-1)

    def _log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the expectation of the components' densities."""
        parts: Tensor = self._component.log_prob(self._apart(value))
        return (parts + self._mixture.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """All components are drawn, and one is kept."""
        with jitgrad.no_grad():
            drawn = self._component.sample(sample_shape)
            events = [1 for _ in self._event_shape]
            axis = drawn.dim() - len(events) - 1
            weights = self._mixture.logits.expand(*tuple(self._batch_shape), drawn.shape[axis])
            index = Categorical(logits=weights).sample(sample_shape).unsqueeze(-1)
            index = index.reshape(*index.shape, *events)
            wide = [1 if i == axis else n for i, n in enumerate(drawn.shape)]
            found: Tensor = drawn.gather(axis, index.expand(wide)).squeeze(axis)
            return found

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture},\n  {self._component})"
