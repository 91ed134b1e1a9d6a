"""Slopes and running integrals of samples, and combinations of elements."""

import itertools
from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import bool_, uint8
from jitgrad.ops.backend import AnyTensor, Tensor, own
from jitgrad.ops.library.combine import spacings, trapezoid
from jitgrad.ops.library.core import Number, apply, cast, floating
from jitgrad.ops.library.creation import tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import take_slice
from jitgrad.ops.library.sizes import axes, axis, maximum, require, require_equal, static_int

__library__ = True

trapz = trapezoid


def cumulative_trapezoid(y: AnyTensor[Tensor], x: AnyTensor[Tensor] | None = None, *, dx: Number = 1,
                         dim: int = -1) -> Tensor:
    """The integral along dim up to each place but the first, by the trapezoidal rule, at places x or in steps dx."""
    if y.dtype is bool_:
        raise RuntimeError("cumulative_trapezoid: received a bool input for `y`, but bool is not supported")
    a = axis(dim, y.ndim)
    values: Any = cast(y, floating(y.dtype))
    n = maximum(y.shape[a] - 1, 0)
    height = (take_slice(values, a, 0, n) + take_slice(values, a, 1, n)) * 0.5
    if x is None:
        return apply("cumsum", height * dx, axis=a)
    return apply("cumsum", height * spacings("cumulative_trapezoid", x, y, a), axis=a)


def gradient(input: AnyTensor[Tensor], *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The slopes along each axis of dim (all without it), by differences of second order inside.

    Args:
        spacing: a number for all axes, or for each a number or the places of the samples, a vector.
        edge_order: 1 or 2, the order of the differences at the ends.
    """
    x: Any = input
    along = axes(dim, x.ndim) if not isinstance(dim, (tuple, list)) else tuple([axis(k, x.ndim) for k in dim])
    if x.ndim == 0 and dim is not None and dim != ():
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if x.dtype is bool_ and along:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                           "`logical_xor()` operator instead.")
    if x.dtype is uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    spacing = 1 if spacing is None else spacing
    each = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(along)
    if len(each) != len(along):
        wanted = (f"'self.dim() = {x.ndim}', since dim argument was not given" if dim is None else
                  f"the number of dims, {len(along)}")
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
                           f"{wanted}, but got a list of length {len(each)}")
    order = static_int(edge_order)
    if order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    return tuple([_slope(x, a, h, order) for a, h in zip(along, each, strict=True)])


def _slope(x: Any, a: int, spacing: Any, order: int) -> Any:
    n = x.shape[a]
    require(n > order, RuntimeError, "torch.gradient expected each dimension size to be at least edge_order+1")
    if isinstance(spacing, AnyTensor):
        require_equal(spacing.shape[0], n, lambda: "torch.gradient expected one place for each element along the axis")

    def part(start: Any, length: Any, of: Any = x, b: int = a) -> Any:
        return take_slice(of, b, start, length)

    def steps(start: Any, length: Any) -> Any:
        """Distances between neighbours, along axis a."""
        if not isinstance(spacing, AnyTensor):
            return spacing
        d = cast(spacing, floating(x.dtype))
        d = part(1, n - 1, d, 0) - part(0, n - 1, d, 0)
        return apply("reshape", part(start, length, d, 0), shape=tuple(length if k == a else 1 for k in range(x.ndim)))

    h, k = steps(0, n - 2), steps(1, n - 2)
    before, here, after = part(0, n - 2), part(1, n - 2), part(2, n - 2)
    if isinstance(spacing, AnyTensor):
        inner = after * (h / (k * (h + k))) + here * ((k - h) / (h * k)) - before * (k / (h * (h + k)))
    else:
        inner = (after - before) / (2 * spacing)
    first, last = ((part(i + 1, 1) - part(i, 1)) / steps(i, 1) for i in (0, n - 2))
    if order == 2:
        inner_first, inner_last = ((part(i + 1, 1) - part(i, 1)) / steps(i, 1) for i in (1, n - 3))
        h, k = steps(0, 1), steps(1, 1)
        first = first + (first - inner_first) * (h / (h + k))
        h, k = steps(n - 2, 1), steps(n - 3, 1)
        last = last + (last - inner_last) * (h / (h + k))
    return apply("cat", first, inner, last, axis=a)


def combinations(input: AnyTensor[Tensor], r: int = 2, with_replacement: bool = False) -> Tensor:
    """Subsets of r elements of a vector, in order: (count, r)."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    r = static_int(r)
    if r < 0:
        raise RuntimeError("Expect a non-negative number, but got " + str(r))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(static_int(input.shape[0])), r))
    flat: Sequence[int] = [i for row in places for i in row]
    if not flat:
        return apply("reshape", take_slice(input, 0, 0, 0), shape=(len(places) if r else 0, r))
    taken = apply("index", input, tensor(flat, device=input.device), axes=(0,))
    return own(apply("reshape", taken, shape=(len(places), r)))


complete(globals())

__all__ = ["combinations", "cumulative_trapezoid", "gradient", "trapz"]
