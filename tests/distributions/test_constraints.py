"""Regions of values and the maps to them: torch's answers, attributes, texts and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import distributions as D
from jitgrad.distributions import constraints
from jitgrad.distributions.constraint_registry import ConstraintRegistry

RNG = np.random.default_rng(0)
NUMBERS = np.array([-2.0, -0.5, 0, 0.3, 1, 1.5, 2, 3, np.inf, np.nan])
VECTORS = np.array([[1.0, 0, 0], [0.2, 0.3, 0.5], [0.5, 0.6, 0.2], [-0.5, 1, 0.5], [2, 1, 1], [0, 1, 1]])
LOWER = np.array([[1.0, 0], [0.5, 2]])
MATRICES = np.array([LOWER, LOWER.T, LOWER @ LOWER.T, [[1, 0], [0.6, 0.8]], [[1, 2], [2, 1]], [[1, 1], [1, 1.0]],
                     [[-1, 0], [0, 1]]])

#: a region of a library's module, and values
REGIONS: dict[str, Any] = {
    **{name: (lambda c, name=name: getattr(c, name), NUMBERS) for name in (
        "boolean", "real", "positive", "nonnegative", "unit_interval", "nonnegative_integer", "positive_integer")},
    "greater": (lambda c: c.greater_than(0.3), NUMBERS),
    "greater or equal": (lambda c: c.greater_than_eq(0.3), NUMBERS),
    "less": (lambda c: c.less_than(1.5), NUMBERS), "interval": (lambda c: c.interval(-0.5, 2.0), NUMBERS),
    "half open": (lambda c: c.half_open_interval(-0.5, 2.0), NUMBERS),
    "integers": (lambda c: c.integer_interval(0, 2), NUMBERS),
    "multinomial": (lambda c: c.multinomial(2), VECTORS), "real vector": (lambda c: c.real_vector, VECTORS),
    "independent": (lambda c: c.independent(c.positive, 1), VECTORS),
    **{name: (lambda c, name=name: getattr(c, name), VECTORS) for name in ("one_hot", "simplex")},
    **{name: (lambda c, name=name: getattr(c, name), MATRICES) for name in (
        "lower_triangular", "lower_cholesky", "corr_cholesky", "square")},
    **{name: (lambda c, name=name: getattr(c, name), MATRICES[[2, 4, 5, 6]]) for name in (
        "symmetric", "positive_semidefinite", "positive_definite")},
    "not symmetric": (lambda c: c.positive_definite, MATRICES),
    "semidefinite or not": (lambda c: c.positive_semidefinite, MATRICES),
    "cat": (lambda c: c.cat([c.positive, c.unit_interval], -1, [1, 2]), VECTORS),
    "cat of ones": (lambda c: c.cat([c.positive, c.real, c.boolean], -1), VECTORS),
    "stack": (lambda c: c.stack([c.positive, c.real, c.unit_interval], -1), VECTORS),
}


@pytest.mark.parametrize("name", REGIONS)
def test_against_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    make, values = REGIONS[name]
    found = []
    for library in (torch, jitgrad):
        region = make(library.distributions.constraints)
        inside = region.check(library.tensor(values))
        text = "" if name.startswith(("cat", "stack")) else repr(region)
        found.append((inside.tolist(), tuple(inside.shape), region.is_discrete, region.event_dim, text))
    assert found[0] == found[1]


#: a region, and where the maps to it are tried
TARGETS: dict[str, Any] = {
    "real": (lambda c: c.real, (4, 3)), "positive": (lambda c: c.positive, (4, 3)),
    "nonnegative": (lambda c: c.nonnegative, (4, 3)), "greater": (lambda c: c.greater_than(2.0), (4, 3)),
    "less": (lambda c: c.less_than(2.0), (4, 3)), "unit": (lambda c: c.unit_interval, (4, 3)),
    "interval": (lambda c: c.interval(-1.0, 3.0), (4, 3)),
    "half open": (lambda c: c.half_open_interval(-1.0, 3.0), (4, 3)), "simplex": (lambda c: c.simplex, (4, 3)),
    "vectors": (lambda c: c.independent(c.positive, 1), (4, 3)),
    "correlations": (lambda c: c.corr_cholesky, (4, 3)),
    "cat": (lambda c: c.cat([c.positive, c.unit_interval], -1, [1, 2]), (4, 3)),
    "stack": (lambda c: c.stack([c.positive, c.real, c.unit_interval], -1), (4, 3)),
    "factors": (lambda c: c.lower_cholesky, (2, 3, 3)), "definite": (lambda c: c.positive_definite, (2, 3, 3)),
    "semidefinite": (lambda c: c.positive_semidefinite, (2, 3, 3)),
}


@pytest.mark.parametrize("which", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", TARGETS)
def test_maps(name: str, which: str) -> None:
    torch = pytest.importorskip("torch")
    make, shape = TARGETS[name]
    x = np.random.default_rng(1).standard_normal(shape)
    if which == "biject_to" and len(shape) == 3:
        for library in (torch, jitgrad):
            with pytest.raises(NotImplementedError, match=r"Cannot transform _.* constraints"):
                library.distributions.biject_to(make(library.distributions.constraints))
        return
    found = []
    for library in (torch, jitgrad):
        region = make(library.distributions.constraints)
        y = getattr(library.distributions, which)(region)(library.tensor(x))
        found.append(y.numpy())
        assert bool(region.check(y).all())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-7)


def test_parameters_in_a_script() -> None:
    """A scale that is optimised without a bound."""
    to_positive, to_simplex = D.transform_to(constraints.positive), D.biject_to(constraints.simplex)

    def loss(free: Any, x: Any) -> Any:
        return -D.Normal(0.0, to_positive(free[0])).log_prob(x).sum() + to_simplex(free).pow(2).sum()

    found = []
    for run in (loss, jitgrad.script(loss)):
        free = jitgrad.tensor([0.3, -0.2], requires_grad=True)
        value = run(free, jitgrad.tensor([0.5, -1.0]))
        value.backward()
        found.append((value.item(), *free.grad.tolist()))
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_dependent_ones() -> None:
    class Bounded(D.Distribution):
        def __init__(self, high: float):
            self.high = high
            super().__init__()

        @constraints.dependent_property(is_discrete=False, event_dim=0)
        def support(self) -> Any:
            return constraints.interval(0.0, self.high)

    assert constraints.is_dependent(Bounded.support)
    assert not constraints.is_dependent(constraints.real)
    assert repr(Bounded(2.0).support) == "Interval(lower_bound=0.0, upper_bound=2.0)"
    dependent: Any = Bounded.support
    assert (dependent.is_discrete, dependent.event_dim) == (False, 0)
    with pytest.raises(NotImplementedError, match=r"\.event_dim cannot be determined statically"):
        _ = constraints.dependent.event_dim
    with pytest.raises(NotImplementedError, match=r"\.is_discrete cannot be determined statically"):
        _ = constraints.dependent(event_dim=1).is_discrete
    assert constraints.dependent(event_dim=1).event_dim == 1
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        constraints.dependent.check(jitgrad.zeros(2))


def test_registering_and_errors() -> None:
    registry = ConstraintRegistry()

    @registry.register(constraints.positive)
    def squared(constraint: Any) -> Any:
        return D.PowerTransform(2.0)

    assert isinstance(registry(constraints.greater_than(1.0)), D.PowerTransform)
    assert squared(None) == D.PowerTransform(2.0)
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance"):
        registry.register(3, squared)
    with pytest.raises(NotImplementedError, match="Cannot transform _Boolean constraints"):
        D.transform_to(constraints.boolean)
    with pytest.raises(AssertionError, match="must match cseq"):
        constraints.cat([constraints.real], 0, [1, 2])
    with pytest.raises(ValueError, match="Expected value"):
        constraints.independent(constraints.real, 2).check(jitgrad.zeros(2))
