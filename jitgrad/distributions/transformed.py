"""Distributions of what maps make of another's draws."""

from collections.abc import Sequence
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution
from jitgrad.distributions.transforms import ComposeTransform, Transform, sum_rightmost
from jitgrad.eager.tensor import Tensor


class TransformedDistribution(Distribution):
    """The distribution of f(x), x drawn from base_distribution, f a map or several, one after the other.

    Its density is known of maps that can be inverted. ValueError where the base's draws have fewer axes than f takes.
    """

    def __init__(self, base_distribution: Distribution, transforms: Transform | Sequence[Transform],
                 validate_args: bool | None = None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.base_dist: Any = base_distribution
        whole = ComposeTransform(self.transforms)
        shape = (*tuple(base_distribution.batch_shape), *tuple(base_distribution.event_shape))
        taken = len(tuple(base_distribution.event_shape))
        if len(shape) < whole.domain_event_dim:
            raise ValueError("base_distribution needs to have shape with size at least "
                             f"{whole.domain_event_dim}, but got {shape}.")
        made = whole.forward_shape(shape)
        event = whole.codomain_event_dim + max(taken - whole.domain_event_dim, 0)
        self._taken, self._made = taken, event
        cut = len(made) - event
        super().__init__(made[:cut], made[cut:], validate_args)
        self.has_rsample = base_distribution.has_rsample

    @constraints.dependent_property
    def support(self) -> Any:
        """Where the last map leads to, or the base's."""
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(tuple(self._event_shape)) - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Of the base expanded; a subclass with parameters of its own is made of them."""
        if self._arguments:
            return super().expand(batch_shape)
        shape = tuple(ComposeTransform(self.transforms).inv.forward_shape((
            *tuple(batch_shape), *tuple(self._event_shape))))
        base = self.base_dist.expand(shape[:len(shape) - self._taken])
        made = TransformedDistribution(base, self.transforms, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def rsample(self, sample_shape: Any = ()) -> Any:
        """What the maps make of the base's."""
        x: Any = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Any:
        """What the maps make of the base's."""
        x: Any = self.base_dist.sample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x.detach()

    def _log_prob(self, value: Tensor) -> Any:
        """The base's at the preimage, less the logarithm of the maps' derivative there."""
        y: Any = value
        event, total = self._made, 0.0
        for transform in reversed(self.transforms):
            x = transform._inverse(y)
            event += transform.domain_event_dim - transform.codomain_event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), event - transform.domain_event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event - self._taken)

    def cdf(self, value: Tensor) -> Any:
        """The base's at the preimage, or what is left of it where the map falls."""
        whole = ComposeTransform(self.transforms)
        return whole.sign * (self.base_dist.cdf(whole._inverse(value)) - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Any:
        """The map of the base's."""
        whole = ComposeTransform(self.transforms)
        return whole._call(self.base_dist.icdf(whole.sign * (value - 0.5) + 0.5))
