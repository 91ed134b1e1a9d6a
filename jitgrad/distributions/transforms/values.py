"""Maps between spaces of values, with the logarithms of their derivatives: what distributions are transformed by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.distributions import constraints
from jitgrad.eager.tensor import Tensor
from jitgrad.nn import functional as F


def sum_rightmost(x: Any, axes: int) -> Any:
    """x summed over its last axes."""
    for _ in range(axes):
        x = x.sum(-1)
    return x


def widened(region: Any, event_dim: int) -> Any:
    """A region whose events have more axes."""
    more = event_dim - region.event_dim
    return constraints.independent(region, more) if more > 0 else region


class Transform:
    """A map that can be inverted: a subclass has `_call`, `_inverse` and `log_abs_det_jacobian`.

    Attributes:
        domain, codomain: the regions of values that it takes, and makes; a subclass has the smallest as `_domain`, ...
        domain_event_dim, codomain_event_dim: how many last axes of a value it takes together, and makes.
        bijective: whether every value has one preimage.
        sign: +1 or -1 of maps of single values that rise or fall; NotImplementedError of others.
    """

    domain_event_dim = 0
    codomain_event_dim = 0
    bijective = True
    _domain: Any = constraints.real
    _codomain: Any = constraints.real

    @property
    def domain(self) -> Any:
        """What it takes."""
        return widened(self._domain, self.domain_event_dim)

    @property
    def codomain(self) -> Any:
        """What it makes."""
        return widened(self._codomain, self.codomain_event_dim)

    @property
    def sign(self) -> Any:
        """+1 unless a subclass says otherwise."""
        if not self.bijective or self.domain_event_dim:
            raise NotImplementedError
        return 1

    def __call__(self, x: Any) -> Any:
        return self._call(x)

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the size of the derivative at x, where the map gives y."""
        raise NotImplementedError

    @property
    def inv(self) -> Transform:
        """The inverse map."""
        return _Inverse(self)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what is made of a value of a shape."""
        return shape

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _Inverse(Transform):
    """The inverse of a map."""

    def __init__(self, base: Transform):
        self.base = base
        self.domain_event_dim, self.codomain_event_dim = base.codomain_event_dim, base.domain_event_dim
        self._domain, self._codomain = base.codomain, base.domain
        self.bijective = base.bijective

    @property
    def sign(self) -> Any:
        """The map's."""
        return self.base.sign

    def _call(self, x: Any) -> Any:
        return self.base._inverse(x)

    def _inverse(self, y: Any) -> Any:
        return self.base._call(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Minus the map's."""
        return -self.base.log_abs_det_jacobian(y, x)

    @property
    def inv(self) -> Transform:
        """The map."""
        return self.base

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inverse) and self.base == other.base

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"_InverseTransform({self.base!r})"


# --- of single values ----------------------------------------------------------------------------------------------


class ExpTransform(Transform):
    """exp(x)."""

    _codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """x."""
        return x


class AbsTransform(Transform):
    """|x|, whose inverse is the positive one."""

    _codomain = constraints.positive
    bijective = False

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class PowerTransform(Transform):
    """x^exponent of positive values."""

    _domain = _codomain = constraints.positive

    def __init__(self, exponent: Tensor | float):
        self.exponent: Any = exponent if isinstance(exponent, Tensor) else jitgrad.tensor(float(exponent))

    @property
    def sign(self) -> Any:
        """The exponent's."""
        return self.exponent.sign()

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |exponent y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """With the exponent's."""
        return tuple(jitgrad.broadcast_tensors(jitgrad.empty(shape), self.exponent)[0].shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = object.__hash__


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)), kept from 0 and 1."""

    _codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        limits = jitgrad.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - jitgrad.log1p(-y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """-softplus(-x) - softplus(x)."""
        return -F.softplus(-x) - F.softplus(x)


def _clipped_sigmoid(x: Any) -> Any:
    limits = jitgrad.finfo(x.dtype)
    return jitgrad.sigmoid(x).clamp(min=limits.tiny, max=1.0 - limits.eps)


class TanhTransform(Transform):
    """tanh(x)."""

    _codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return jitgrad.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """2 (log(2) - x - softplus(-2 x))."""
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    _codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return F.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return jitgrad.log(-jitgrad.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """-softplus(-x)."""
        return -F.softplus(-x)


class AffineTransform(Transform):
    """loc + scale * x, the last event_dim axes taken together."""

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0):
        self.loc: Any = loc
        self.scale: Any = scale
        self.domain_event_dim = self.codomain_event_dim = event_dim

    @property
    def sign(self) -> Any:
        """The scale's."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |scale|."""
        scale = self.scale.abs().log() if isinstance(self.scale, Tensor) else math.log(abs(self.scale))
        return sum_rightmost(jitgrad.zeros_like(y) + scale, self.domain_event_dim)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """With those of loc and scale."""
        given = [v for v in (self.loc, self.scale) if isinstance(v, Tensor)]
        return tuple(jitgrad.broadcast_tensors(jitgrad.empty(shape), *given)[0].shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool((jitgrad.as_tensor(a) == jitgrad.as_tensor(b)).all()) for a, b in pairs)

    __hash__ = object.__hash__


# --- of vectors ----------------------------------------------------------------------------------------------------


class SoftmaxTransform(Transform):
    """softmax(x) over the last axis; of vectors that differ by a number it is the same."""

    _codomain = constraints.simplex
    domain_event_dim = codomain_event_dim = 1
    bijective = False

    def _call(self, x: Any) -> Any:
        return F.softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(Transform):
    """Vectors of K - 1 numbers to probabilities of K classes: each takes its share of what the others left."""

    _codomain = constraints.simplex
    domain_event_dim = codomain_event_dim = 1

    def _call(self, x: Any) -> Any:
        z = _clipped_sigmoid(x - _left(x.shape[-1], x).log())
        return F.pad(z, (0, 1), value=1.0) * F.pad((1 - z).cumprod(-1), (1, 0), value=1.0)

    def _inverse(self, y: Any) -> Any:
        first = y[..., :-1]
        left = (1 - first.cumsum(-1)).clamp(min=jitgrad.finfo(y.dtype).tiny)
        return first.log() - left.log() + _left(first.shape[-1], y).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of log y - x + logsigmoid(x), x less the logarithms of how many classes are left."""
        x = x - _left(x.shape[-1], x).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """One longer."""
        return (*shape[:-1], shape[-1] + 1)


def _left(n: int, like: Any) -> Any:
    """n, n - 1, ... 1: how many classes follow."""
    return n - jitgrad.arange(n, dtype=like.dtype, device=like.device)


# --- of other maps -------------------------------------------------------------------------------------------------


class IndependentTransform(Transform):
    """A map, more last axes of whose values are taken together."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int):
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self._domain, self._codomain = base_transform.domain, base_transform.codomain
        self.domain_event_dim = base_transform.domain_event_dim + reinterpreted_batch_ndims
        self.codomain_event_dim = base_transform.codomain_event_dim + reinterpreted_batch_ndims
        self.bijective = base_transform.bijective

    @property
    def sign(self) -> Any:
        """The base's."""
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        return self.base_transform._call(x)

    def _inverse(self, y: Any) -> Any:
        return self.base_transform._inverse(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The base's, summed."""
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The base's."""
        return self.base_transform.forward_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ComposeTransform(Transform):
    """Maps one after the other."""

    def __init__(self, parts: Sequence[Transform]):
        self.parts = list(parts)
        before = 0
        for part in reversed(self.parts):
            before = max(part.domain_event_dim, before + part.domain_event_dim - part.codomain_event_dim)
        after = 0
        for part in self.parts:
            after = max(part.codomain_event_dim, after + part.codomain_event_dim - part.domain_event_dim)
        self.domain_event_dim, self.codomain_event_dim = before, after
        if self.parts:
            self._domain, self._codomain = self.parts[0].domain, self.parts[-1].codomain
        self.bijective = all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        """The product of theirs."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part._call(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of theirs."""
        if not self.parts:
            return jitgrad.zeros_like(x)
        total, event = 0.0, self.domain_event_dim
        for part in self.parts:
            after = part._call(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, after), event - part.domain_event_dim)
            event += part.codomain_event_dim - part.domain_event_dim
            x = after
        return total

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The last one's."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "ComposeTransform([" + ", ".join([repr(part) for part in self.parts]) + "])"


identity_transform = ComposeTransform([])

__all__ = ["AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "IndependentTransform",
           "PowerTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StickBreakingTransform",
           "TanhTransform", "Transform", "identity_transform"]
