"""Maps from all real values to a region: `biject_to` one to one, `transform_to` as suits optimisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.distributions import constraints
from jitgrad.distributions.constraints import Constraint
from jitgrad.distributions.transforms.shapes import (CatTransform, CorrCholeskyTransform, LowerCholeskyTransform,
                                                     PositiveDefiniteTransform, StackTransform)
from jitgrad.distributions.transforms.values import (AffineTransform, ComposeTransform, ExpTransform,
                                                     IndependentTransform, SigmoidTransform, SoftmaxTransform,
                                                     StickBreakingTransform, Transform, identity_transform)

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """The maps to regions, by the regions' types: called with a region it gives the map."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """The function gives the maps to regions of a type, or of that of a region; also as a decorator.

        TypeError for what is no region.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError("Expected constraint to be either a Constraint subclass or instance, but got "
                            f"{constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        if type(constraint) not in self._registry:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return self._registry[type(constraint)](constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, int | float) and isinstance(high, int | float) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _shifted(bound: Any, side: int) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(bound, side)])


#: to regions that both map to alike
_BOTH: list[tuple[Any, Factory]] = [
    (constraints.real, lambda c: identity_transform),
    (constraints.greater_than, lambda c: _shifted(c.lower_bound, 1)),
    (constraints.greater_than_eq, lambda c: _shifted(c.lower_bound, 1)),
    (constraints.less_than, lambda c: _shifted(c.upper_bound, -1)),
    (constraints.interval, _to_interval), (constraints.half_open_interval, _to_interval),
    (constraints.corr_cholesky, lambda c: CorrCholeskyTransform()),
]
for _constraint, _factory in _BOTH:
    biject_to.register(_constraint, _factory)
    transform_to.register(_constraint, _factory)


def _register_compounds(to: ConstraintRegistry) -> None:
    """Regions made of others: the maps are made of the maps to these."""
    to.register(constraints.independent, lambda c: IndependentTransform(
        to(c.base_constraint), c.reinterpreted_batch_ndims))
    to.register(constraints.cat, lambda c: CatTransform([to(part) for part in c.cseq], c.dim, c.lengths))
    to.register(constraints.stack, lambda c: StackTransform([to(part) for part in c.cseq], c.dim))


_register_compounds(biject_to)
_register_compounds(transform_to)
biject_to.register(constraints.simplex, lambda c: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda c: PositiveDefiniteTransform())
transform_to.register(constraints.positive_semidefinite, lambda c: PositiveDefiniteTransform())

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
