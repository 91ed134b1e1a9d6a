"""Regions of values: of parameters, and of what distributions draw. `check` says which events are inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jitgrad
from jitgrad import linalg


class Constraint:
    """A region of values.

    Attributes:
        is_discrete: whether it is one of separate points.
        event_dim: how many last axes of a value are one event.
    """

    is_discrete: Any = False
    #: the axes of an event: as many as there are items, which scripts count when they are compiled
    _event: tuple[None, ...] = ()
    #: what `repr` shows
    shown: tuple[str, ...] = ()

    @property
    def event_dim(self) -> Any:
        """How many last axes of a value are one event."""
        return len(self._event)

    def check(self, value: Any) -> Any:
        """A bool tensor: of each event, whether it is inside."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({', '.join(f'{name}={getattr(self, name)}' for name in self.shown)})"


class _Dependent(Constraint):
    """A region that depends on other values. NotImplementedError for an attribute that was not given."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> Any:
        """As given."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> Any:
        """As given."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Any:
        """One with other attributes."""
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, value: Any) -> Any:
        """ValueError: the other values are not known."""
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property of objects, and a dependent constraint of their class."""

    def __init__(self, fn: Callable[..., Any] | None = None, *, is_discrete: Any = NotImplemented,
                 event_dim: Any = NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any = None, **given: Any) -> Any:
        """The decorator with its attributes."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a region depends on other values."""
    return isinstance(constraint, _Dependent)


class _IndependentConstraint(Constraint):
    """A region whose last axes are part of the event: an event is inside if all of it is."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self._event = (None,) * (base_constraint.event_dim + reinterpreted_batch_ndims)

    def check(self, value: Any) -> Any:
        """ValueError for values of too few axes."""
        inside = self.base_constraint.check(value)
        if inside.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        for _ in range(self.reinterpreted_batch_ndims):
            inside = inside.all(-1)
        return inside

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


# --- of single values ----------------------------------------------------------------------------------------------


class _Real(Constraint):
    """No NaN."""

    def check(self, value: Any) -> Any:
        """Equal to itself."""
        return value == value


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """One of the two."""
        return (value == 0) | (value == 1)


class _Above(Constraint):
    shown = ("lower_bound",)

    def __init__(self, lower_bound: Any):
        self.lower_bound = lower_bound


class _Below(Constraint):
    shown = ("upper_bound",)

    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound


class _Between(Constraint):
    shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_Above):
    """Above a bound."""

    def check(self, value: Any) -> Any:
        """value > lower_bound."""
        return value > self.lower_bound


class _GreaterThanEq(_Above):
    """A bound and what is above."""

    def check(self, value: Any) -> Any:
        """value >= lower_bound."""
        return value >= self.lower_bound


class _LessThan(_Below):
    """Below a bound."""

    def check(self, value: Any) -> Any:
        """value < upper_bound."""
        return value < self.upper_bound


class _Interval(_Between):
    """Between two bounds, and these."""

    def check(self, value: Any) -> Any:
        """lower_bound <= value <= upper_bound."""
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Between two bounds, and the lower one."""

    def check(self, value: Any) -> Any:
        """lower_bound <= value < upper_bound."""
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerGreaterThan(_Above):
    """Whole numbers from a bound."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Whole, and value >= lower_bound."""
        return (value % 1 == 0) & (value >= self.lower_bound)


class _IntegerLessThan(_Below):
    """Whole numbers up to a bound."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Whole, and value <= upper_bound."""
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerInterval(_Between):
    """Whole numbers between two bounds, and these."""

    is_discrete = True

    def check(self, value: Any) -> Any:
        """Whole, and lower_bound <= value <= upper_bound."""
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)


# --- of vectors ----------------------------------------------------------------------------------------------------


class _OneHot(Constraint):
    """Vectors of zeros and a one."""

    is_discrete, _event = True, (None,)

    def check(self, value: Any) -> Any:
        """Zeros and ones whose sum is 1."""
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Probabilities: at least 0, of sum 1."""

    _event = (None,)

    def check(self, value: Any) -> Any:
        """To within 1e-6."""
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Counts whose sum is a bound at most."""

    is_discrete, _event = True, (None,)

    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        """At least 0, of sum <= upper_bound."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# --- of matrices ---------------------------------------------------------------------------------------------------


class _LowerTriangular(Constraint):
    """Zeros above the diagonal."""

    _event = (None, None)

    def check(self, value: Any) -> Any:
        """Equal to its lower triangle."""
        return (value.tril() == value).all(-1).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangles with a positive diagonal."""

    def check(self, value: Any) -> Any:
        """A lower triangle, and the diagonal above 0."""
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """The factors of correlations: with rows of length 1."""

    def check(self, value: Any) -> Any:
        """To within 10 D eps."""
        tolerance = jitgrad.finfo(value.dtype).eps * value.shape[-1] * 10
        length = value.detach().pow(2).sum(-1).sqrt()
        return super().check(value) & ((length - 1).abs() <= tolerance).all(-1)


class _Square(Constraint):
    """As many rows as columns."""

    _event = (None, None)

    def check(self, value: Any) -> Any:
        """By the shape."""
        return jitgrad.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=jitgrad.bool,
                            device=value.device)


class _Symmetric(_Square):
    """Equal to the transpose."""

    def check(self, value: Any) -> Any:
        """To within 1e-6."""
        square = super().check(value)
        if not bool(square.all()):
            return square
        return jitgrad.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric, without negative eigenvalues."""

    def check(self, value: Any) -> Any:
        """By the eigenvalues."""
        symmetric = super().check(value)
        return symmetric & (linalg.eigvalsh(value) >= 0).all(-1) if bool(symmetric.all()) else symmetric


class _PositiveDefinite(_Symmetric):
    """Symmetric, with positive eigenvalues."""

    def check(self, value: Any) -> Any:
        """By the Cholesky factor."""
        symmetric = super().check(value)
        return symmetric & (linalg.cholesky_ex(value).info == 0) if bool(symmetric.all()) else symmetric


# --- of parts ------------------------------------------------------------------------------------------------------


class _Cat(Constraint):
    """Regions of the parts, of the given lengths (1 each if none), of an axis."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None):
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self._event = (None,) * max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        """Theirs side by side."""
        parts = [value.narrow(self.dim, sum(self.lengths[:i]), n) for i, n in enumerate(self.lengths)]
        return jitgrad.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(Constraint):
    """Regions of what an axis holds, one of each place."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0):
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        widest = max(c.event_dim for c in self.cseq)
        self._event = (None,) * (widest + 1 if dim + widest < 0 else widest)

    def check(self, value: Any) -> Any:
        """Theirs side by side."""
        return jitgrad.stack([c.check(value.select(self.dim, i)) for i, c in enumerate(self.cseq)], self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """The region of what a component draws, which all components have."""

    def __init__(self, base_constraint: Constraint):
        self.base_constraint, self.is_discrete = base_constraint, base_constraint.is_discrete
        self._event = base_constraint._event

    def check(self, value: Any) -> Any:
        """Whether each component draws such."""
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


dependent, dependent_property, independent = _Dependent(), _DependentProperty, _IndependentConstraint
boolean, one_hot, real, real_vector = _Boolean(), _OneHot(), _Real(), _IndependentConstraint(_Real(), 1)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
greater_than, greater_than_eq, less_than, interval = _GreaterThan, _GreaterThanEq, _LessThan, _Interval
half_open_interval, integer_interval, multinomial = _HalfOpenInterval, _IntegerInterval, _Multinomial
simplex, lower_triangular, lower_cholesky = _Simplex(), _LowerTriangular(), _LowerCholesky()
corr_cholesky, square, symmetric = _CorrCholesky(), _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
cat, stack = _Cat, _Stack
