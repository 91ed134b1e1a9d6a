"""Views and rearrangements: shapes may hold symbolic sizes, ranks and axes are static."""

import itertools
from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import int64
from jitgrad.ops import OPS
from jitgrad.ops.backend import AnyTensor, SymNumber, Tensor, backend, own, select_number
from jitgrad.ops.library.core import alias, apply, create, expand_to, require_tensor
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import (EVERY, axes, axis, ceil_div, is_one, joined, maximum, minimum, product, require,
                                       require_equal, same_shape, same_size, size_list, size_of, static_int, text)

__library__ = True

# --- the same elements in another shape ----------------------------------------------------------------------------


def _is_minus_one(size: Any) -> bool:
    return isinstance(size, int) and size == -1


def infer_shape(shape: Sequence[Any], sizes: Sequence[Any]) -> tuple[Any, ...]:
    """`shape` with its -1 replaced so that it holds as many elements as `sizes`."""
    negative = [i for i, s in enumerate(shape) if isinstance(s, int) and s < 0]
    if not negative:
        return tuple(shape)
    for i in negative:
        if shape[i] != -1:
            raise RuntimeError(f"invalid shape dimension {shape[i]} at index {i} of shape {text(shape)}")
    if len(negative) > 1:
        raise RuntimeError("only one dimension can be inferred")
    at = negative[0]
    before, after = shape[:at], shape[at + 1:]
    total, known = product(sizes), product((*before, *after))
    if isinstance(known, int) and known == 0:
        raise RuntimeError(f"cannot reshape tensor of 0 elements into shape {text(shape)} because the unspecified "
                           "dimension size -1 can be any value and is ambiguous")
    inferred = total if isinstance(known, int) and known == 1 else total // known
    require_equal(inferred * known, total, lambda: f"shape '{text(shape)}' is invalid for input of size {total}")
    return (*before, inferred, *after)


def reshape(input: AnyTensor[Tensor], shape: Sequence[Any]) -> Tensor:
    """The elements in order in another shape; one size may be -1. A view where that is possible.

    Raises RuntimeError where the numbers of elements differ.
    """
    sizes = input.shape
    shape = infer_shape(size_list((shape,)), sizes)
    return alias(input) if same_shape(shape, sizes) else apply("reshape", input, shape=shape)


def flatten(input: AnyTensor[Tensor], start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from start_dim to end_dim as one. A 0-dim tensor becomes a vector."""
    start, end = axis(start_dim, input.ndim), axis(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if input.ndim == 0:
        return apply("reshape", input, shape=(1,))
    x: Any = input
    if start == end:
        return x
    s = x.shape
    return apply("reshape", x, shape=(*s[:start], product(s[start:end + 1]), *s[end + 1:]))


def ravel(input: AnyTensor[Tensor]) -> Tensor:
    """The elements in order, as a vector; a copy where their memory is in another order, or has gaps."""
    x: Any = require_tensor("ravel", input).contiguous()
    return alias(x) if x.ndim == 1 else flatten(x)


def unflatten(input: AnyTensor[Tensor], dim: int, sizes: Sequence[Any]) -> Tensor:
    """Axis dim split into axes of the given sizes, one of which may be -1."""
    if not isinstance(sizes, int) and not len(sizes):
        raise RuntimeError("unflatten: sizes must be non-empty")
    a, s = axis(dim, input.ndim), input.shape
    if not s:
        raise RuntimeError("unflatten got an unexpected error: Dimension specified as 0 but tensor has no dimensions")
    inner = infer_shape(size_list((sizes,)), (s[a],))
    require_equal(product(inner), s[a], lambda: f"unflatten: Provided sizes {text(inner)} don't multiply up to the "
                                                f"size of dim {a} ({s[a]}) in the input tensor")
    return apply("reshape", input, shape=(*s[:a], *inner, *s[a + 1:]))


def unsqueeze(input: AnyTensor[Tensor], dim: int) -> Tensor:
    """A new axis of size one before axis dim (in the result's numbering)."""
    return apply("unsqueeze", input, axis=axis(dim, input.ndim + 1))


def _has_size_one(size: Any) -> bool:
    return size.is_one() if isinstance(size, SymNumber) else size == 1


def squeeze(input: AnyTensor[Tensor], dim: int | Sequence[int] = EVERY) -> Tensor:
    """Without the axes of size one: all, or those among dim."""
    if dim is None:
        raise TypeError("squeeze(): argument 'dim' must be int, not NoneType")
    found = () if isinstance(dim, (tuple, list)) and not dim else axes(None if dim is EVERY else dim, input.ndim)
    s: Any = input.shape
    result: Any = input
    for a in reversed(found):
        if _has_size_one(s[a]):
            result = apply("squeeze", result, axis=a)
    return alias(input) if result is input else result


# --- axes in another order -----------------------------------------------------------------------------------------


def permute(input: AnyTensor[Tensor], dims: Sequence[int]) -> Tensor:
    """Axes in the order of dims."""
    n = input.ndim
    if len(dims) != n:
        raise RuntimeError("permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
                           f"the desired ordering of dimensions i.e. input.dim() = {n} is not equal to len(dims) = "
                           f"{len(dims)}")
    order = tuple([axis(d, n) for d in dims])
    if len(set(order)) != n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return apply("permute", input, axes=order)


def transpose(input: AnyTensor[Tensor], dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    n = input.ndim
    a, b = axis(dim0, n), axis(dim1, n)
    if a == b:
        return alias(input)
    order = list(range(n))
    order[a], order[b] = b, a
    return apply("permute", input, axes=tuple(order))


swapaxes = swapdims = transpose


def t(input: AnyTensor[Tensor]) -> Tensor:
    """The transpose of a matrix; a vector or number itself."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return alias(input) if input.ndim < 2 else apply("permute", input, axes=(1, 0))


def reversed_axes(input: AnyTensor[Tensor]) -> Tensor:
    """Axes in reverse: the property `T`."""
    return apply("permute", input, axes=tuple(range(input.ndim - 1, -1, -1))) if input.ndim > 1 else alias(input)


def matrix_transpose(input: AnyTensor[Tensor]) -> Tensor:
    """The last two axes exchanged: the property `mT`; a tensor without axes is itself."""
    x: Any = input
    if x.ndim == 0:
        return x
    if x.ndim < 2:
        raise RuntimeError("tensor.mT is only supported on matrices or batches of matrices. Got "
                           f"{x.ndim}-D tensor.")
    return transpose(x, -2, -1)


def movedim(input: AnyTensor[Tensor], source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axes `source` moved to places `destination`; the others keep their order."""
    n = input.ndim
    src = [axis(d, n) for d in ((source,) if isinstance(source, int) else source)]
    dst = [axis(d, n) for d in ((destination,) if isinstance(destination, int) else destination)]
    if len(src) != len(dst):
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({text(src)} dims) should contain the "
                           f"same number of dims as destination ({text(dst)} dims)")
    if len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise RuntimeError("movedim: repeated dim in `source` or `destination`")
    if not n:
        return alias(input)
    order: list[Any] = [None] * n
    for s, d in zip(src, dst, strict=True):
        order[d] = s
    rest = iter([a for a in range(n) if a not in src])
    order = [next(rest) if o is None else o for o in order]
    return permute(input, order)


moveaxis = movedim

# --- repeating -----------------------------------------------------------------------------------------------------


def expand(input: AnyTensor[Tensor], sizes: Sequence[Any]) -> Tensor:
    """Axes of size one repeated, and new leading axes; -1 keeps a size. A view."""
    sizes = size_list((sizes,))
    s = input.shape
    lead = len(sizes) - len(s)
    if lead < 0:
        raise RuntimeError(f"expand: the number of sizes provided ({len(sizes)}) must be greater or equal to the "
                           f"number of dimensions in the tensor ({len(s)})")
    if any(_is_minus_one(d) for d in sizes[:lead]):
        raise RuntimeError("The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension 0")
    if any(isinstance(d, int) and d < -1 for d in sizes):
        raise RuntimeError(f"The expanded size of the tensor must not be negative, got {text(sizes)}")
    result = expand_to(input, (*sizes[:lead], *[s[i] if _is_minus_one(d) else d for i, d in enumerate(sizes[lead:])]))
    return alias(input) if result is input else result


def broadcast_to(input: AnyTensor[Tensor], size: Sequence[Any]) -> Tensor:
    """`input` expanded to a shape."""
    return expand(input, size)


def expand_as(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """`input` expanded to other's shape."""
    return expand(input, other.shape)


def view_as(input: AnyTensor[Tensor], other: AnyTensor[Tensor]) -> Tensor:
    """`input` in other's shape."""
    return reshape(input, other.shape)


reshape_as = view_as


def clone(input: AnyTensor[Tensor]) -> Tensor:
    """A copy with memory of its own; differentiable."""
    return apply("cast", require_tensor("clone", input), dtype=input.dtype)


def repeat(input: AnyTensor[Tensor], sizes: Sequence[Any]) -> Tensor:
    """A copy, tiled: sizes[i] times along axis i, counted from the last."""
    sizes = size_list((sizes,))
    lead = len(sizes) - input.ndim
    if lead < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    s = ((1,) * lead) + tuple(input.shape)
    for n, times in zip(s, sizes, strict=True):
        require(n * times >= 0, RuntimeError, "Trying to create tensor with negative dimension ", n * times)
    sizes = tuple([maximum(times, 0) for times in sizes])  # of nothing, any number
    ones = [s[i] if j else 1 for i in range(len(s)) for j in (0, 1)]
    tiled = [s[i] if j else sizes[i] for i in range(len(s)) for j in (0, 1)]
    tall = apply("expand", apply("reshape", input, shape=tuple(ones)), shape=tuple(tiled))
    return own(apply("reshape", apply("contiguous", tall), shape=tuple([n * r for n, r in zip(s, sizes, strict=True)])))


def tile(input: AnyTensor[Tensor], dims: Sequence[Any]) -> Tensor:
    """`repeat` that lets dims be shorter than the rank."""
    dims = size_list((dims,))
    return repeat(input, (1,) * (input.ndim - len(dims)) + dims)


def repeat_interleave(input: AnyTensor[Tensor], repeats: Any, dim: int | None = None, *,
                      output_size: Any = None) -> Tensor:
    """Each element (or each slice along dim) repeated; `repeats` is a number or an integer vector."""
    if dim is None:
        return repeat_interleave(flatten(input), repeats, 0, output_size=output_size)
    a = axis(dim, input.ndim)
    s = input.shape
    if hasattr(repeats, "ndim") and repeats.ndim and is_one(repeats.shape[0]):
        repeats = apply("squeeze", repeats, axis=0)
    if hasattr(repeats, "ndim") and repeats.ndim:
        return _repeat_each(input, repeats, a, output_size)
    times = size_of(repeats)
    require(times >= 0, RuntimeError, "repeats can not be negative")
    if output_size is not None:
        require(output_size == s[a] * times, RuntimeError, "repeat_interleave: Invalid output_size, expected ",
                s[a] * times, " but got ", output_size)
    tall = expand_to(unsqueeze(input, a + 1), (*s[:a + 1], times, *s[a + 1:]))
    return apply("reshape", clone(tall), shape=(*s[:a], s[a] * times, *s[a + 1:]))


def _repeat_each(input: AnyTensor[Tensor], repeats: AnyTensor[Tensor], a: int, output_size: Any) -> Tensor:
    require_equal(repeats.shape[0], input.shape[a],
                  lambda: "repeats must have the same size as input along dim, but got repeats.size(0) = "
                          f"{repeats.shape[0]} and input.size({a}) = {input.shape[a]}")
    least = backend().item(apply("amin", apply("pad", repeats, pads=((0, 1),), value=0), axes=(0,), keepdim=False))
    require(least >= 0, RuntimeError, "repeats can not be negative")
    ends = apply("cumsum", apply("cast", repeats, dtype=int64), axis=0)
    total = output_size if output_size is not None else backend().item(
        apply("sum", apply("cast", repeats, dtype=int64), axes=(0,), keepdim=False))
    # position p comes from the element whose block is the first to end after p
    places = apply("unsqueeze", create("arange", repeats, length=total, dtype=int64), axis=1)
    passed = apply("le", apply("unsqueeze", ends, axis=0), places)
    source = apply("sum", apply("cast", passed, dtype=int64), axes=(1,), keepdim=False)
    return apply("index", input, source, axes=(a,))


# --- parts ---------------------------------------------------------------------------------------------------------


def take_slice(input: Any, a: int, start: Any, length: Any, step: Any = 1) -> Any:
    """The view of `length` elements from `start` in steps, input itself where those are all; bounds are in range."""
    if isinstance(start, int) and start == 0 and isinstance(step, int) and step == 1 and same_size(
            length, input.shape[a]):
        return input
    return apply("slice", input, axis=a, start=start, length=length, step=step)


def own_view(name: str, made: Any, **attrs: Any) -> Any:
    """`own` of what the view op `name` shows of a tensor that a function has made itself, and that nobody else sees."""
    return backend().own_view(OPS[name], made, attrs)


def some(x: Any, axis: int, value: Any) -> Any:
    """x, of one `value` along an axis where it has nothing; x itself where it is known to have something."""
    few = 1 - minimum(x.shape[axis], 1)
    if isinstance(few, int) and few == 0:
        return x
    return apply("pad", x, pads=tuple([(0, few if a == axis else 0) for a in range(x.ndim)]), value=value)


def _part(input: Any, a: int, start: Any, length: Any) -> Any:
    """`take_slice` as a view op of its own, also where it takes everything."""
    part = take_slice(input, a, start, length)
    return alias(input) if part is input else part


def narrow(input: AnyTensor[Tensor], dim: int, start: Any, length: Any) -> Tensor:
    """`length` elements of axis dim from `start` on. RuntimeError out of range."""
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    require(size_of(length) >= 0, RuntimeError, "narrow(): length must be non-negative.")
    return part_of(input, dim, start, length)


def part_of(input: AnyTensor[Tensor], dim: int, start: Any, length: Any) -> Tensor:
    """`narrow` which looks at the start first: torch's two forms do not agree which of two faults they name."""
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    start, length = size_of(start), size_of(length)
    a = axis(dim, input.ndim)
    n = input.shape[a]
    first = select_number(start < 0, start + n, start)
    for inside in (first >= 0, first <= n):
        require(inside, IndexError, "start out of range (expected to be in range of [-", n, ", ", n, "], but got ",
                start, ")")
    for inside in (first + length <= n, length >= 0):
        require(inside, RuntimeError, "start (", first, ") + length (", length, ") exceeds dimension size (", n, ").")
    return _part(input, a, first, length)


def select(input: AnyTensor[Tensor], dim: int, index: Any) -> Tensor:
    """Axis dim at one index. IndexError out of range."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    a = axis(dim, input.ndim)
    n, index = input.shape[a], size_of(index)
    i = select_number(index < 0, index + n, index)
    message = ("select(): index ", index, " out of range for tensor of size [", *joined(input.shape, ", "),
               f"] at dimension {a}")
    require(i >= 0, IndexError, *message)
    require(i < n, IndexError, *message)
    return apply("select", input, axis=a, index=i)


def split(tensor: AnyTensor[Tensor], split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of axis dim: of one size (the last may be smaller), or of the sizes given."""
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    a = axis(dim, tensor.ndim)
    n = tensor.shape[a]
    if isinstance(split_size_or_sections, (tuple, list)):
        sections = size_list((split_size_or_sections,))
        for s in sections:
            require(s >= 0, RuntimeError, "split_with_sizes expects split_sizes have only non-negative entries, but "
                    "got split_sizes=", s)
        total = sum(sections)
        require_equal(total, n, lambda: f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's "
                                        f"size at dimension {a}), but got split_sizes={text(sections)}")
        parts, start = [], 0
        for length in sections:
            parts.append(_part(tensor, a, start, length))
            start = start + length
        return tuple(parts)
    size = size_of(split_size_or_sections)
    require(size >= 0, RuntimeError, "split expects split_size be non-negative, but got split_size=", size)
    if isinstance(size, int) and size == 0:
        if isinstance(n, int) and n == 0:
            return (alias(tensor),)
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    if not isinstance(size, int):
        require(size > 0, RuntimeError, "split_size can only be 0 if dimension size is 0, but got dimension size of ",
                n)
    known = isinstance(n, int) and isinstance(size, int)
    return _pieces(tensor, a, n, size, ceil_div(n, size) if known else backend().pieces(n, size))


def _pieces(tensor: Any, a: int, n: Any, size: Any, count: int) -> tuple[Any, ...]:
    """`count` slices of `size`, the last one what is left; one empty slice of an empty axis."""
    if count == 0:
        return (alias(tensor),)
    parts = [_part(tensor, a, i * size, size) for i in range(count - 1)]
    last = (count - 1) * size
    return (*parts, _part(tensor, a, last, n - last))


def chunk(input: AnyTensor[Tensor], chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of axis dim, of equal size but for the last."""
    chunks = static_int(chunks)
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    a = axis(dim, input.ndim)
    n = input.shape[a]
    even = n // chunks
    if same_size(even * chunks, n):  # known to divide: the count needs no size
        return _pieces(input, a, n, even, chunks)
    size = ceil_div(n, chunks)
    if isinstance(size, int):
        return _pieces(input, a, n, size, ceil_div(n, size)) if size else tuple([alias(input) for _ in range(chunks)])
    count = chunks
    while count > 1 and static_int(minimum(maximum(n - size * (count - 1), 0), 1)) == 0:  # the last part is empty
        if static_int(minimum(n, 1)) == 0:  # as all are
            return tuple([alias(input) for _ in range(chunks)])
        count -= 1
    return _pieces(input, a, n, size, count)


def tensor_split(input: AnyTensor[Tensor], indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of axis dim: as many as given, sizes differing by at most one, or cut at the indices given."""
    if input.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    a = axis(dim, input.ndim)
    n = input.shape[a]
    if isinstance(indices_or_sections, AnyTensor):
        numbers = unbind(indices_or_sections) if indices_or_sections.ndim else [indices_or_sections]
        items = [backend().item(i) for i in numbers]
        indices_or_sections = items if indices_or_sections.ndim else items[0]
    if isinstance(indices_or_sections, (int, SymNumber)):
        count = static_int(indices_or_sections)
        cuts = [n // count * i + minimum(i, n % count) for i in range(count + 1)]
    else:
        cuts = [0, *[minimum(select_number(i < 0, maximum(i + n, 0), i), n) for i in indices_or_sections], n]
    return tuple([_part(input, a, low, maximum(high - low, 0))
                  for low, high in itertools.pairwise(cuts)])


def unbind(input: AnyTensor[Tensor], dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along axis dim, without it."""
    if input.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    a = axis(dim, input.ndim)
    return tuple([apply("select", input, axis=a, index=i) for i in range(static_int(input.shape[a]))])

complete(globals())

__all__ = ["broadcast_to", "chunk", "clone", "flatten", "moveaxis", "movedim", "narrow", "permute", "ravel",
           "reshape", "select", "split", "squeeze", "swapaxes", "swapdims", "t", "tensor_split",
           "tile", "transpose", "unbind", "unflatten", "unsqueeze"]
