"""Further ways of cutting tensors up, and of writing a piece of one; facts about shapes."""

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import int32, int64
from jitgrad.ops.backend import AnyTensor, SymNumber, Tensor, select_number
from jitgrad.ops.library.core import Number, apply, as_operand, cast, converted, create, require_tensor, written_operand
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes import shape as _shape
from jitgrad.ops.library.shapes.shape import chunk, clone, part_of, split, tensor_split
from jitgrad.ops.library.sizes import (Size, axis, maximum, minimum, require, require_equal, require_slice, same_shape,
                                       size_list, size_of, static_int, text)
from jitgrad.ops.specs import broadcast_shapes as _broadcast

__library__ = True

# --- cuts ----------------------------------------------------------------------------------------------------------


def _cut(name: str, rank: int, input: AnyTensor[Tensor], indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Cuts along one axis, of equal sizes where a number of parts is given. RuntimeError as torch's."""
    if require_tensor(name, input).ndim < rank:
        raise RuntimeError(f"torch.{name} requires a tensor with at least {rank} dimension, but "
                           f"got a tensor with {input.ndim} dimensions!")
    a = 0 if name == "vsplit" or input.ndim == 1 else rank - 1 if name == "dsplit" else 1
    if isinstance(indices_or_sections, (int, SymNumber)):
        count, n = static_int(indices_or_sections), input.shape[a]
        require(count > 0 and n % count == 0, RuntimeError, f"torch.{name} attempted to split along dimension {a}, but "
                "the size of the dimension ", n, f" is not divisible by the split_size {count}!")
    return tensor_split(input, indices_or_sections, a)


def hsplit(input: AnyTensor[Tensor], indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Cuts into columns: along axis 1, of a vector along axis 0. RuntimeError for parts of unequal size."""
    return _cut("hsplit", 1, input, indices_or_sections)


def vsplit(input: AnyTensor[Tensor], indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Cuts into rows: along axis 0. RuntimeError for parts of unequal size."""
    return _cut("vsplit", 2, input, indices_or_sections)


def dsplit(input: AnyTensor[Tensor], indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Cuts in depth: along axis 2. RuntimeError for parts of unequal size."""
    return _cut("dsplit", 3, input, indices_or_sections)


def split_with_sizes(input: AnyTensor[Tensor], split_sizes: Sequence[Any], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the sizes given, which add up to the axis."""
    return split(input, tuple(split_sizes), dim)


def unsafe_split(tensor: AnyTensor[Tensor], split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`: writes to the parts are told apart here, which torch leaves to who calls it."""
    return split(tensor, split_size, dim)


def unsafe_chunk(input: AnyTensor[Tensor], chunks: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`, as `unsafe_split` is `split`."""
    return chunk(input, chunks, dim)


def unsafe_split_with_sizes(input: AnyTensor[Tensor], split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, as `unsafe_split` is `split`."""
    return split_with_sizes(input, split_sizes, dim)


def narrow_copy(input: AnyTensor[Tensor], dim: int, start: Any, length: Any) -> Tensor:
    """`narrow` into memory of its own."""
    return clone(part_of(input, dim, start, length))


# --- writing a piece -----------------------------------------------------------------------------------------------


def slice_scatter(input: AnyTensor[Tensor], src: AnyTensor[Tensor], dim: int = 0, start: Any = None, end: Any = None,
                  step: Any = 1) -> Tensor:
    """input with src written to start:end:step of dim. RuntimeError where src has not the shape of the place."""
    a = axis(dim, input.ndim)
    n, step = input.shape[a], size_of(step)
    require(step > 0, RuntimeError, "slice step must be positive")
    first, last = (_bound(b, n, default) for b, default in ((start, 0), (end, n)))
    length = maximum((last - first + step - 1) // step, 0)
    shape = tuple(length if k == a else m for k, m in enumerate(input.shape))
    require_slice(src, shape)
    return apply("slice_scatter", input, converted(src, input.dtype), axis=a, start=first, length=length, step=step)


def _bound(b: Any, n: Any, default: Any) -> Any:
    """A bound of a slice of an axis of n, counted from its start and inside."""
    if b is None:
        return default
    b = size_of(b)
    return minimum(maximum(select_number(b < 0, b + n, b), 0), n)


def fill_diagonal(input: AnyTensor[Tensor], fill_value: Number, wrap: bool = False) -> Tensor:
    """input with a number on its main diagonal, which has index i on every axis.

    wrap: of a matrix of more rows than columns: it starts again one row below where it ended.
    """
    x: Any = require_tensor("fill_diagonal_", input)
    if x.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if x.ndim > 2:
        for m in x.shape[1:]:
            n = x.shape[0]
            require_equal(m, n, lambda: "all dimensions of input must be of equal length")
    places = [_places(x, a) for a in range(x.ndim)]
    rows, columns = places[0], places[1]
    if wrap and x.ndim == 2:
        period = as_operand(x.shape[1] + 1, int64)
        rows = apply("remainder", rows, period)
    on = apply("eq", rows, columns)
    for other in places[2:]:
        on = apply("logical_and", on, apply("eq", rows, other))
    return apply("where", on, written_operand(fill_value, x.dtype), x)


def _places(x: Any, a: int) -> Any:
    """The index of axis a at every place, of size 1 along the others."""
    return apply("reshape", create("arange", x, length=x.shape[a], dtype=int64),
                 shape=tuple(n if k == a else 1 for k, n in enumerate(x.shape)))


# --- shapes --------------------------------------------------------------------------------------------------------


def sum_to_size(input: AnyTensor[Tensor], *size: Any) -> Tensor:
    """The sum over the axes along which `size` would be repeated to input's shape. RuntimeError where it cannot."""
    shape = size_list(size)
    lead = input.ndim - len(shape)
    message = f"size {{{text(shape)}}} is not expandable to size {{{text(input.shape)}}}."
    if lead < 0:
        raise RuntimeError(message)
    for m, n in zip(shape, input.shape[lead:], strict=True):
        if isinstance(m, int) and m != 1:
            require_equal(m, n, lambda: message)
    x: Any = input
    if not shape:  # torch's sum of all
        return apply("sum", x if x.dtype.is_inexact else cast(x, int64), axes=tuple(range(x.ndim)), keepdim=False)
    if not x.dtype.is_inexact and x.dtype is not int64:  # what is summed is int64, what is not stays as it is
        shape, sizes = (tuple(map(static_int, s)) for s in (shape, x.shape))
    else:
        sizes = x.shape
    if same_shape(shape, sizes):
        return x
    return apply("sum_to", x if x.dtype.is_inexact else cast(x, int64), shape=shape)


def is_same_size(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> bool:
    """Whether two tensors have one shape."""
    require_tensor("is_same_size", other, "other")
    same: Any = input.ndim == other.ndim
    for m, n in zip(input.shape, other.shape, strict=False):
        same = select_number(m == n, same, False)
    return same


def is_signed(input: AnyTensor[Tensor]) -> bool:
    """Whether the dtype has negative numbers."""
    return bool(input.dtype.is_signed)


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that all of some shapes (or sizes of vectors) broadcast to. RuntimeError where they do not."""
    given = [size_list((s,)) for s in shapes]
    for other in given[1:]:
        for m, n in zip(reversed(given[0]), reversed(other), strict=False):
            if isinstance(m, int) and isinstance(n, int) and m != n and 1 not in (m, n):
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape: "
                                   + " and ".join([text(s) for s in (given[0], other)]))
        given[0] = _broadcast(given[0], other)
    return Size(given[0]) if given else Size(())


def unravel_index(indices: AnyTensor[Tensor], shape: Any) -> tuple[Tensor, ...]:
    """The index along each axis of elements counted in order, modulo their number. ValueError for floats and bools."""
    if not isinstance(indices, AnyTensor) or indices.dtype.is_floating_point or indices.dtype.name == "bool":
        raise ValueError("expected 'indices' to be integer tensor")
    sizes = size_list((shape,))
    found: list[Any] = []
    rest: Any = indices
    for n in reversed(sizes):
        size = as_operand(n, rest.dtype)
        found.append(apply("remainder", rest, size))
        rest = apply("floor_divide", rest, size)
    return tuple(reversed(found))



# --- numbers -------------------------------------------------------------------------------------------------------


def repeat_interleave(input: AnyTensor[Tensor] | None = None, repeats: Any = None, dim: int | None = None, *,
                      output_size: Any = None) -> Tensor:
    """`shape.repeat_interleave`; of one vector, by either name, the numbers 0, 1, ..., each as often as it says."""
    if input is not None and repeats is not None:
        return _shape.repeat_interleave(input, repeats, dim, output_size=output_size)
    times: Any = require_tensor("repeat_interleave", repeats if input is None else input, "repeats")
    if times.dtype not in (int64, int32):
        raise NotImplementedError(f"\"repeat_interleave_cpu\" not implemented for '{times.dtype.word}'")
    if times.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    numbers = create("arange", times, length=times.shape[0], dtype=times.dtype)
    found = _shape.repeat_interleave(numbers, times, 0)
    if output_size is not None:
        require_equal(found.shape[0], output_size, lambda: "allocated size does not match required size")
    return found


complete(globals())

__all__ = ["broadcast_shapes", "dsplit", "hsplit", "is_same_size", "is_signed", "narrow_copy",
           "repeat_interleave", "slice_scatter", "split_with_sizes", "unravel_index", "unsafe_chunk",
           "unsafe_split", "unsafe_split_with_sizes", "vsplit"]
