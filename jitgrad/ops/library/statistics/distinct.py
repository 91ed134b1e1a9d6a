"""The distinct elements of a tensor, or its distinct slices along an axis."""

from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import int64
from jitgrad.ops.backend import AnyTensor, Tensor, own
from jitgrad.ops.library.core import apply, as_operand, cast, create
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import take_slice
from jitgrad.ops.library.sizes import axis, maximum, product

__library__ = True


def _distinct(x: Any, want_counts: bool) -> tuple[Any, Any, Any]:
    """The first row of each run of equal ones, the number of each row's run, the runs' lengths."""
    count = x.shape[0]
    if isinstance(count, int) and not count:
        nothing = create("full", x, value=0, shape=(0,), dtype=int64)
        return x, nothing, nothing
    pairs = maximum(count - 1, 0)
    changes = apply("ne", take_slice(x, 0, 1, pairs), take_slice(x, 0, 0, pairs))
    if x.ndim > 1:
        changes = apply("any", changes, axes=tuple(range(1, x.ndim)), keepdim=False)
    begins = take_slice(apply("pad", changes, pads=((1, 0),), value=True), 0, 0, count)
    number = apply("cumsum", cast(begins, int64), axis=0) - 1
    first = apply("squeeze", apply("nonzero", begins), axis=1)
    values = apply("index", x, first, axes=(0,))
    if not want_counts:
        return values, number, None
    zeros = create("full", x, value=0, shape=(first.shape[0],), dtype=int64)
    ones = create("full", x, value=1, shape=(count,), dtype=int64)
    return values, number, apply("index_put", zeros, ones, number, axes=(0,), accumulate=True)


def _answer(values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    given = [values] + ([inverse] if return_inverse else []) + ([counts] if return_counts else [])
    return tuple(given) if len(given) > 1 else values


def _rows(input: Any, dim: int | None) -> tuple[Any, Callable[[Any], Any]]:
    """What is told apart, along axis 0, and what makes a part of it one of the input again."""
    if input.dtype.is_complex:
        raise NotImplementedError(f'"unique" not implemented for \'{input.dtype.word}\'')
    if dim is None:
        return apply("reshape", input, shape=(product(input.shape),)), lambda x: x
    a = axis(dim, input.ndim)
    order = (a, *(k for k in range(input.ndim) if k != a))
    back = tuple(order.index(k) for k in range(input.ndim))
    return apply("permute", input, axes=order), lambda x: own(apply("permute", x, axes=back))


def _sorting(x: Any) -> Any:
    """The places that sort rows, by their first element, then the next."""
    if x.ndim == 1:
        return apply("argsort", x, axis=0, descending=False, stable=False)  # each NaN is one, in the order of `sort`
    length = product(x.shape[1:])
    if not isinstance(length, int):
        raise NotImplementedError("unique() along a dim of a tensor whose other sizes are known at run time only")
    lines = apply("reshape", x, shape=(x.shape[0], length))
    places = create("arange", x, length=x.shape[0], dtype=int64)
    for k in reversed(range(length)):
        column = apply("index", apply("select", lines, axis=1, index=k), places, axes=(0,))
        places = apply("index", places, apply("argsort", column, axis=0, descending=False, stable=True), axes=(0,))
    return places


def unique(input: AnyTensor[Tensor], sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Any:
    """The distinct elements, or the distinct slices along dim, in order.

    On demand the place of each element (or slice) among them, and how often each occurs.
    """
    rows, again = _rows(input, dim)
    places = _sorting(rows)
    values, number, counts = _distinct(apply("index", rows, places, axes=(0,)), return_counts)
    inverse = None
    if return_inverse:
        inverse = apply("scatter", apply("mul", places, as_operand(0, int64)), places, number, axis=0)
        if dim is None:
            inverse = own(apply("reshape", inverse, shape=tuple(input.shape)))
    return _answer(again(values), inverse, counts, return_inverse, return_counts)


def unique_consecutive(input: AnyTensor[Tensor], return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Any:
    """The first element (or slice along dim) of each run of equal ones; options as `unique`'s."""
    rows, again = _rows(input, dim)
    values, number, counts = _distinct(rows, return_counts)
    inverse = own(apply("reshape", number, shape=tuple(input.shape))) if dim is None else number
    return _answer(again(values), inverse, counts, return_inverse, return_counts)

complete(globals())

__all__ = ["unique", "unique_consecutive"]
