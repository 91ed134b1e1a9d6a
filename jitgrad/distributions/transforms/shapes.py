"""Maps of parts of a tensor, of its shape, of matrices, and by a distribution's cdf."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad import linalg
from jitgrad.distributions import constraints
from jitgrad.distributions.transforms.values import Transform, sum_rightmost, widened
from jitgrad.nn import functional as F


class CumulativeDistributionTransform(Transform):
    """The cdf of a distribution of single values, which makes uniform numbers of its draws."""

    _codomain = constraints.unit_interval

    def __init__(self, distribution: Any):
        self.distribution = distribution
        self._domain = distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The distribution's log_prob at x."""
        return self.distribution.log_prob(x)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


class ReshapeTransform(Transform):
    """Values of the last axes in_shape in those of out_shape. ValueError for different numbers of elements."""

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int]):
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain_event_dim, self.codomain_event_dim = len(self.in_shape), len(self.out_shape)

    def _call(self, x: Any) -> Any:
        return x.reshape(*x.shape[:x.dim() - len(self.in_shape)], *self.out_shape)

    def _inverse(self, y: Any) -> Any:
        return y.reshape(*y.shape[:y.dim() - len(self.out_shape)], *self.in_shape)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """0."""
        return sum_rightmost(jitgrad.zeros_like(x), len(self.in_shape))

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """out_shape in place of in_shape. ValueError for shapes that do not end in in_shape."""
        cut = len(shape) - len(self.in_shape)
        if cut < 0:
            raise ValueError("Too few dimensions on input")
        if tuple(shape[cut:]) != self.in_shape:
            raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {self.in_shape}")
        return (*shape[:cut], *self.out_shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReshapeTransform) and (self.in_shape, self.out_shape) == (
            other.in_shape, other.out_shape)

    __hash__ = object.__hash__


# --- of parts ------------------------------------------------------------------------------------------------------


class _Parts(Transform):
    """Several maps, each of its part of an axis: a subclass says how parts are taken and joined."""

    transforms: list[Transform]
    dim: int

    def _begin(self, transforms: Sequence[Transform], dim: int) -> None:
        self.transforms, self.dim = list(transforms), dim
        self.bijective = all(part.bijective for part in self.transforms)
        self.domain_event_dim = max(part.domain_event_dim for part in self.transforms)
        self.codomain_event_dim = max(part.codomain_event_dim for part in self.transforms)

    @property
    def sign(self) -> Any:
        """NotImplementedError: there are several."""
        raise NotImplementedError

    def _parts(self, x: Any) -> list[Any]:
        raise NotImplementedError

    def _joined(self, parts: list[Any], dim: int) -> Any:
        raise NotImplementedError

    def _require_length(self, x: Any, length: int) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")
        if x.shape[self.dim] != length:
            raise AssertionError(f"x.size({self.dim}) = {x.shape[self.dim]} must equal length {length}")

    def _call(self, x: Any) -> Any:
        return self._joined([t._call(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return self._joined([t._inverse(part) for t, part in zip(self.transforms, self._parts(y), strict=True)],
                            self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Theirs side by side, or their sum where the axis is one of those taken together."""
        taken = max(t.domain_event_dim for t in self.transforms)
        slopes = [sum_rightmost(t.log_abs_det_jacobian(before, after), taken - t.domain_event_dim)
                  for t, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True)]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + taken
        if dim < 0:
            return self._joined(slopes, dim)
        total: Any = 0.0
        for slope in slopes:
            total = total + slope
        return total

    def _regions(self) -> tuple[list[Any], list[Any]]:
        """What the maps take, and what they make."""
        return ([widened(t.domain, self.domain_event_dim) for t in self.transforms],
                [widened(t.codomain, self.codomain_event_dim) for t in self.transforms])


class CatTransform(_Parts):
    """Maps of the parts, of the given lengths (1 each if none), of an axis.

    AssertionError for lengths that are not as many as the maps, and for values that are not as long.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None):
        self._begin(tseq, dim)
        self.lengths = [1 for _ in self.transforms] if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")
        self.length = sum(self.lengths)
        self._domain, self._codomain = [constraints.cat(regions, dim, self.lengths) for regions in self._regions()]

    def _parts(self, x: Any) -> list[Any]:
        self._require_length(x, self.length)
        return [x.narrow(self.dim, sum(self.lengths[:i]), length) for i, length in enumerate(self.lengths)]

    def _joined(self, parts: list[Any], dim: int) -> Any:
        return jitgrad.cat(parts, dim)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CatTransform) and (self.transforms, self.dim, self.lengths) == (
            other.transforms, other.dim, other.lengths)

    __hash__ = object.__hash__


class StackTransform(_Parts):
    """Maps of what an axis holds, one of each place. AssertionError for values that hold more or less."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0):
        self._begin(tseq, dim)
        self._domain, self._codomain = [constraints.stack(regions, dim) for regions in self._regions()]
        # among the axes that are taken together, the stacked one is one more of them
        if -self.domain_event_dim <= dim < 0:
            self.domain_event_dim += 1
        if -self.codomain_event_dim <= dim < 0:
            self.codomain_event_dim += 1

    def _parts(self, x: Any) -> list[Any]:
        self._require_length(x, len(self.transforms))
        return [x.select(self.dim, i) for i in range(len(self.transforms))]

    def _joined(self, parts: list[Any], dim: int) -> Any:
        return jitgrad.stack(parts, dim)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StackTransform) and (self.transforms, self.dim) == (other.transforms, other.dim)

    __hash__ = object.__hash__


# --- of matrices ---------------------------------------------------------------------------------------------------


class LowerCholeskyTransform(Transform):
    """The lower triangles of matrices with exp of their diagonals: Cholesky factors."""

    _codomain = constraints.lower_cholesky
    domain_event_dim = codomain_event_dim = 2
    bijective = False

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + jitgrad.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + jitgrad.diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """L L^T, of the factors L that `LowerCholeskyTransform` makes."""

    _codomain = constraints.positive_definite
    domain_event_dim = codomain_event_dim = 2
    bijective = False

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()._call(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform()._inverse(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """D (D - 1) / 2 numbers, row by row below the diagonal, to the Cholesky factor of a correlation.

    Each takes, with its sign, its share of what is left of the unit length of its row. The domain and the codomain
    have different numbers of axes: the derivative is that of what is below the diagonal.
    """

    _codomain = constraints.corr_cholesky
    domain_event_dim, codomain_event_dim = 1, 2

    def _call(self, x: Any) -> Any:
        size, eps = _rows(x.shape[-1]), jitgrad.finfo(x.dtype).eps
        share = _to_lower(x.tanh().clamp(min=-1 + eps, max=1 - eps), size)
        left = (1 - share * share).sqrt().cumprod(-1)
        one = jitgrad.eye(size, dtype=x.dtype, device=x.device)
        return (share + one) * F.pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Any) -> Any:
        left = F.pad(1 - (y * y).cumsum(-1)[..., :-1], (1, 0), value=1.0)
        return jitgrad.atanh(_from_lower(y) / _from_lower(left).sqrt())

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of the logarithms of the lengths left, and of tanh's derivatives."""
        left = F.pad(1 - (y * y).cumsum(-1)[..., :-1], (1, 0), value=1.0)
        return 0.5 * _from_lower(left).log().sum(-1) - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """(..., D, D). ValueError for other lengths."""
        if not len(shape):
            raise ValueError("Too few dimensions on input")
        size = _rows(shape[-1])
        return (*shape[:-1], size, size)


def _rows(count: int) -> int:
    """Of the square matrix with so many elements below its diagonal."""
    size: int = round((0.25 + 2 * count) ** 0.5 + 0.5)
    if size * (size - 1) // 2 != count:
        raise ValueError("Input is not a flattened lower-diagonal number")
    return size


def _places(size: int) -> list[int]:
    """Where in the flattened matrix the elements below its diagonal are."""
    return [i * size + j for i in range(size) for j in range(i)]


def _to_lower(x: Any, size: int) -> Any:
    """Vectors below the diagonal of matrices of zeros."""
    order = [i * (i - 1) // 2 + j if j < i else x.shape[-1] for i in range(size) for j in range(size)]
    padded = F.pad(x, (0, 1))
    return padded[..., jitgrad.tensor(order, device=x.device)].reshape(*x.shape[:-1], size, size)


def _from_lower(y: Any) -> Any:
    """What is below the diagonals, as vectors."""
    return y.flatten(-2)[..., jitgrad.tensor(_places(y.shape[-1]), device=y.device)]


__all__ = ["CatTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform", "LowerCholeskyTransform",
           "PositiveDefiniteTransform", "ReshapeTransform", "StackTransform"]
