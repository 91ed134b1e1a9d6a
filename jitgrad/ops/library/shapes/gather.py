"""Gathering and scattering along an axis, and by masks and positions."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from jitgrad.dtypes import bool_, dtype, int32, int64, uint8
from jitgrad.ops.autocast import widest
from jitgrad.ops.backend import AnyTensor, Batched, SymNumber, Tensor, backend, own
from jitgrad.ops.library.core import (Number, apply, as_operand, cast, create, expand_to, not_implemented, number_type,
                                      require_tensor, written_operand)
from jitgrad.ops.library.elements.filling import filling, wrapped
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.indexing import (checked_indices, index_put_value, mask_indices, one_element,
                                                 require_value)
from jitgrad.ops.library.shapes.shape import take_slice
from jitgrad.ops.library.sizes import (axis, is_empty, is_one, joined, maximum, minimum, product, require,
                                       require_equal, same_shape, same_size, size_of, text)

__library__ = True


def _index(fn: str, index: Any) -> Any:
    require_tensor(fn, index, "index", 3)
    if index.dtype is not int64 and index.dtype is not int32:
        raise RuntimeError(f"{fn}(): Expected dtype int32/int64 for index")
    return index


def _chosen(fn: str, index: Any) -> tuple[Any, bool]:
    """An index of elements, and whether it is known to have none: then it may have any dtype."""
    empty = require_tensor(fn, index, "index", 3)._is_empty
    return cast(index, int64) if empty else _index(fn, index), empty


def _at_least_vector(x: Any) -> Any:
    return apply("reshape", x, shape=(1,)) if x.ndim == 0 else x


# --- one index per element -----------------------------------------------------------------------------------------


def gather(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor], *, sparse_grad: bool = False) -> Tensor:
    """result[i][j] = input[index[i][j]][j] for dim = 0, and so on. The result has index's shape.

    Raises RuntimeError: other ranks, an index out of range.
    """
    a = axis(dim, input.ndim)
    index, empty = _chosen("gather", index)
    if empty:  # it may have any rank
        return apply("index", apply("reshape", input, shape=(product(input.shape),)), index, axes=(0,))
    rank = index.ndim
    if (rank or 1) != (input.ndim or 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    x, i = (input, index) if rank and input.ndim else (_at_least_vector(input), _at_least_vector(index))
    taken = apply("gather", x, checked_indices(i, x._sizes[a], a, negative=False, error=RuntimeError), axis=a)
    return taken if rank else own(apply("reshape", taken, shape=()))


def _repeated(value: Any, like: Any, shape: tuple[Any, ...]) -> Any:
    """A number in a shape, of the dtype of another tensor, which must hold it, and where that is."""
    written = written_operand(value, like.dtype)
    if isinstance(value, SymNumber):
        return expand_to(written, shape)
    return create("full", like, value=wrapped(value, like.dtype), shape=shape, dtype=like.dtype)


def _require_fitting(name: str, input: Any, a: int, index: Any, src: Any, one: bool = False) -> None:
    """RuntimeError unless src has input's dtype, and the index fits into src and, but along axis a, into input.

    `one`: src was a tensor without axes, of which torch takes any size to be one.
    """
    if src.dtype is not input.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if index.ndim != input.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    ranks = "Index tensor must have the same number of dimensions as src tensor"
    for k, n in enumerate(index.shape if src.ndim < index.ndim and not one else ()):  # torch looks as far as sizes fit
        require(n <= src.shape[axis(k, src.ndim)], RuntimeError, ranks)
    if index.ndim != src.ndim:
        raise RuntimeError(ranks)
    for k, n in enumerate(index.shape):
        limits = (src.shape[k],) if k == a else (input.shape[k], src.shape[k])
        for m in limits:
            if not same_size(n, m):
                require(n <= m, RuntimeError, "Expected index [", *joined(index.shape, ", "),
                        "] to be no larger than self [", *joined(input.shape, ", "), f"] apart from dimension {a} and "
                        "to be no larger size than src [", *joined(src.shape, ", "), "]")


def _aligned(name: str, input: Any, index: Any, src: Any) -> tuple[Any, Any]:
    """Index and source; where no element is chosen of input's rank, whatever theirs is."""
    index, empty = _chosen(name, index)
    if not empty:
        return index, src
    nothing = (0,) * max(input.ndim, 1)
    if not isinstance(src, AnyTensor):
        src = 0  # torch does not look at it
    else:
        line = apply("reshape", src, shape=(product(src.shape),))
        src = apply("reshape", take_slice(line, 0, 0, 0), shape=nothing)
    return apply("reshape", index, shape=nothing), src


def _scatter(name: str, input: Any, dim: Any, index: Any, src: Any) -> Any:
    a = axis(dim, input.ndim)
    index, src = _aligned(name, input, index, src)
    s: Any = src if isinstance(src, AnyTensor) else _repeated(src, input, tuple(index.shape))
    x, i, s = (_at_least_vector(v) for v in (input, index, s))
    _require_fitting(name, x, a, i, s, isinstance(src, AnyTensor) and not src.ndim)
    for k, n in enumerate(i.shape):  # src may be larger than index
        s = take_slice(s, k, 0, n)
    result = apply(name, x, checked_indices(i, x.shape[a], a, negative=False, error=RuntimeError), s, axis=a)
    return result if input.ndim else own(apply("reshape", result, shape=()))


def scatter(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor], src: AnyTensor[Tensor] | Number | None = None,
            *, value: Number | None = None, reduce: str | None = None) -> Tensor:
    """input with src (or a number) written at index along dim: the inverse of `gather`.

    reduce: "add" or "multiply", by which the values of a place and input's are joined. RuntimeError for another, and
    for shapes that do not fit.
    """
    src = value if src is None else src
    if src is None:
        raise TypeError("scatter() needs a src or a value")
    if reduce == "multiply":
        values = src if isinstance(src, AnyTensor) else _repeated(src, input, tuple(index.shape))
        return scatter_reduce(input, dim, index, values, "prod")
    if reduce not in (None, "add"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    return _scatter("scatter" if reduce is None else "scatter_add", input, dim, index, src)


def scatter_add(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor], src: AnyTensor[Tensor]) -> Tensor:
    """input with src added at index along dim."""
    input, src = widest("cuda", input, require_tensor("scatter_add", src, "src", 4))
    return _scatter("scatter_add", input, dim, index, src)


def scatter_reduce(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor], src: AnyTensor[Tensor], reduce: str, *,
                   include_self: bool = True) -> Tensor:
    """Elements of src that go to the same place, and input's there if include_self, reduced.

    reduce: "sum", "mean", "prod", "amax" or "amin". RuntimeError for another.
    """
    if reduce in ("prod", "amax", "amin"):
        from jitgrad.ops.library.combine import extreme_scatter

        index, src = _aligned("scatter_reduce", input, index, src)
        _require_fitting("scatter_reduce", _at_least_vector(input), axis(dim, input.ndim), _at_least_vector(index),
                         _at_least_vector(src), not src.ndim)
        if input.ndim == 0:
            line = extreme_scatter(_at_least_vector(input), 0, _at_least_vector(index),
                                   _at_least_vector(src), reduce, bool(include_self))
            return apply("reshape", line, shape=())
        return extreme_scatter(input, dim, _at_least_vector(index), _at_least_vector(src), reduce, bool(include_self))
    if reduce not in ("sum", "mean"):
        raise RuntimeError("reduce argument must be one of \"sum\", \"prod\", \"mean\", \"amax\", \"amin\", got "
                           + str(reduce))
    ones, zeros = _repeated(1, input, tuple(index.shape)), _repeated(0, input, tuple(input.shape))
    count = _scatter("scatter_add", zeros, dim, index, ones)
    base, one = input, as_operand(1, input.dtype)
    if include_self:
        count = apply("add", count, one)
    else:
        untouched = apply("eq", count, as_operand(0, input.dtype))
        count = apply("where", untouched, one, count)
        base = apply("where", untouched, input, as_operand(0, input.dtype))
    total = _scatter("scatter_add", base, dim, index, src)
    if reduce == "sum":
        return total
    if input.dtype is bool_:
        raise NotImplementedError('"scatter_gather_tensor_cpu_reduce_mean" not implemented for \'Bool\'')
    return apply("div" if input.dtype.is_inexact else "floor_divide", total, count)


def take_along_dim(input: AnyTensor[Tensor], indices: AnyTensor[Tensor], dim: int | None = None) -> Tensor:
    """`gather` with broadcasting, and negative indices; flattened without dim.

    RuntimeError unless they are int64, or int32 without dim.
    """
    if dim is None:
        _index("gather", indices)
        count = product(input.shape)
        i = apply("reshape", indices, shape=(product(indices.shape),))
        i = checked_indices(i, count, 0, error=RuntimeError)
        return apply("gather", apply("reshape", input, shape=(count,)), i, axis=0)
    if indices.dtype is not int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.word}")
    if input.ndim != indices.ndim:
        raise RuntimeError("torch.take_along_dim(): input and indices should have the same number of dimensions, but "
                           f"got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices")
    a = axis(dim, input.ndim)
    for k, (m, n) in enumerate(zip(input.shape, indices.shape, strict=True)):
        if k != a and not is_one(m) and not is_one(n):
            require_equal(m, n, partial(str, f"The size of tensor a ({m}) must match the size of tensor b ({n}) at "
                                             f"non-singleton dimension {k}"))
    i = checked_indices(indices, input.shape[a], a, error=RuntimeError)

    def broadcast(x: Any, y: Any) -> Any:
        shape = [m if k == a else (n if isinstance(m, int) and m == 1 else m)
                 for k, (m, n) in enumerate(zip(x.shape, y.shape, strict=True))]
        return expand_to(x, tuple(shape))

    return apply("gather", broadcast(input, i), broadcast(i, input), axis=a)


# --- one index per slice -------------------------------------------------------------------------------------------


def _vector(fn: str, index: Any) -> Any:
    if _index(fn, index).ndim > 1:
        raise IndexError(f"{fn}(): Index is supposed to be a vector")
    return _at_least_vector(index)


def index_select(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor]) -> Tensor:
    """The slices of input at the index vector, along dim."""
    rank = input.ndim
    a = axis(dim, rank)
    i = _vector("index_select", index)
    if rank == 0:
        taken = apply("index", _at_least_vector(input), checked_indices(i, 1, 0), axes=(0,))
        return apply("reshape", taken, shape=())
    n = input._sizes[a]
    if not isinstance(n, int) or n == 0:
        require(maximum(n, 1 - i.shape[0]) > 0, IndexError if rank == 1 else RuntimeError,
                "index_select(): self indexing axis dim should be positive")
    error = RuntimeError if a == 1 else IndexError  # torch has a function of its own for this axis
    return apply("index", input, checked_indices(i, n, a, negative=False, error=error), axes=(a,))


def _put_slices(fn: str, input: Any, a: int, index: Any, source: Any, accumulate: bool) -> Any:
    """input with the slices of source, of its dtype, written or added; a tensor without axes counts as a vector."""
    i = _vector(fn, index)
    require_one_dtype(fn, input, source)
    x = _at_least_vector(input)
    i = checked_indices(i, x.shape[a], a, negative=False,
                        error=RuntimeError if accumulate and input.ndim > 1 else IndexError)
    put = apply("index_put", x, source, i, axes=(a,), accumulate=accumulate)
    return put if input.ndim else apply("reshape", put, shape=())


def require_one_dtype(fn: str, input: Any, source: Any) -> None:
    if source.dtype is not input.dtype:
        raise RuntimeError(f"{fn}(): self and source expected to have the same dtype, but got (self) "
                           f"{input.dtype.word} and (source) {source.dtype.word}")


def require_slices(fn: str, a: int, count: Any, source: Any) -> None:
    """torch's errors where the source of a function has not so many slices along axis `a`."""
    if a >= maximum(source.ndim, 1):
        raise RuntimeError(f"{fn}(): Indexing dim {a} is out of bounds of the source tensor with dim {source.ndim}")
    n = source.shape[a] if source.ndim else 1
    require_equal(count, n, lambda: (
        f"{fn}(): Number of indices ({count}) should be equal to source.size(dim): ({n}), for dim: {a}" if source.ndim
        else f"Dimension specified as {a} but tensor has no dimensions"), RuntimeError if source.ndim else IndexError)


def index_add(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor], source: AnyTensor[Tensor], *,
              alpha: Number = 1) -> Tensor:
    """input with alpha times the slices of source added at the index vector, along dim."""
    a, i = axis(dim, input.ndim), _vector("index_add", index)
    require_one_dtype("index_add_", input, source)
    require_slices("index_add_", a, i.shape[0], source)
    if source.ndim != input.ndim:
        raise RuntimeError("source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                           f"self.shape = {text(input.shape)} source.shape = {text(source.shape)}")
    for k, (p, q) in enumerate(zip(source.shape, input.shape, strict=False)):
        if k != a:
            require_equal(p, q, lambda: "source tensor shape must match self tensor shape, excluding the specified "
                                        "dimension.")
    if input.ndim > 1 and is_empty(input.shape):  # nothing is looked up
        i, source = take_slice(i, 0, 0, 0), take_slice(source, a, 0, 0)
    if not isinstance(alpha, int) or alpha != 1:
        source = apply("mul", source, written_operand(alpha, source.dtype))
    return _put_slices("index_add", input, a, i, source, True)


def index_copy(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor], source: AnyTensor[Tensor]) -> Tensor:
    """input with the slices of source written at the index vector, along dim.

    Raises IndexError where index and source do not have as many elements, or other ranks than input.
    """
    input, source = widest("cpu", input, source)
    a = axis(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    i, n = _at_least_vector(index), source.shape[a] if 0 < input.ndim == source.ndim else product(source.shape)
    if source.ndim == 0:
        require_equal(i.shape[0], 1, lambda: (
            f"index_copy_(): When source is scalar, index should have one element (got {i.shape[0]})"), IndexError)
    elif input.ndim and source.ndim != input.ndim:
        raise IndexError("index_copy_(): When source and destination are not scalars, their dimensionality must match. "
                         f"Source dimensionality ({source.ndim}), destination dimensionality ({input.ndim})")
    if index.dtype is not int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index.dtype.word}")
    require_one_dtype("index_copy_", input, source)
    if (not input.ndim and source.ndim > 1) or (not source.ndim and input.ndim > 1):
        raise RuntimeError("index_copy_(): Source/destination tensor must have same slice shapes.")
    for k, (p, q) in enumerate(zip(source.shape, input.shape, strict=False)):
        if k != a:
            require_equal(p, q, lambda: "index_copy_(): Source/destination tensor must have same slice shapes.")
    require_equal(i.shape[0], n, lambda: f"index_copy_(): Number of indices ({i.shape[0]}) should be equal to "
                                         f"source.size(dim) ({n})", IndexError)
    return _put_slices("index_copy", input, a, i, source, False)


def index_fill(input: AnyTensor[Tensor], dim: int, index: AnyTensor[Tensor],
               value: AnyTensor[Tensor] | Number) -> Tensor:
    """input with a number written to the slices at the index vector, along dim."""
    if isinstance(value, AnyTensor) and value.ndim:
        raise RuntimeError("index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                           f"{value.ndim} dimension(s).")
    if require_tensor("index_fill", index, "index", 3).dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    kind = value.dtype if isinstance(value, AnyTensor) else number_type(value)
    if (kind is complex or (isinstance(kind, dtype) and kind.is_complex)) and not input.dtype.is_complex:
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    a = axis(dim, input.ndim)
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    i, size = _at_least_vector(index), input.shape[a] if input.ndim else 1
    if is_empty([n for k, n in enumerate(input.shape) if k != a]):  # nothing is looked up
        i = take_slice(i, 0, 0, 0)
    filled = filling(value, input.dtype)
    i = checked_indices(i, size, a)
    if not isinstance(value, AnyTensor) or not input.ndim:
        i = i if input.ndim else take_slice(i, 0, 0, minimum(i.shape[0], 1))
        return _put_slices("index_fill", input, a, i, filled, False)
    line = create("full", input, value=0, shape=(size,), dtype=bool_)  # of an index given twice the gradient comes once
    line = apply("index_put", line, as_operand(True, bool_), i, axes=(0,), accumulate=False)
    chosen = apply("reshape", line, shape=tuple(size if k == a else 1 for k in range(input.ndim)))
    return apply("where", chosen, filled, input)


def index_put(input: AnyTensor[Tensor], indices: Sequence[AnyTensor[Tensor]], values: AnyTensor[Tensor],
              accumulate: bool = False) -> Tensor:
    """input with values written (or added) at the tuple of index tensors or masks."""
    input, values = widest("cuda", input, require_tensor("index_put", values, "values", 2))
    if sum([i.ndim if i.dtype in (bool_, uint8) else 1 for i in indices]) > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim} (got {len(indices)})")
    if values.dtype is not input.dtype:
        for i, n in zip(indices, input.shape, strict=False):
            if isinstance(n, int) and n == 0 and i.dtype not in (bool_, uint8) and product(i.shape) > 0:
                raise IndexError("index is out of bounds for dimension with size 0")
        raise RuntimeError(f"Index put requires the source and destination dtypes match, got {input.dtype.word} for "
                           f"the destination and {values.dtype.word} for the source.")
    if one_element(values) and all(i.dtype in (bool_, uint8) for i in indices):
        values = apply("reshape", values, shape=())
    if all(i.dtype not in (bool_, uint8) for i in indices):
        require_value(input, [*indices], tuple(range(len(indices))), values)
    found: list[Any] = []
    for i in indices:
        if i.dtype in (bool_, uint8):
            for k, m in enumerate(i.shape):
                n = input.shape[len(found) + k]
                require_equal(m, n, lambda: "The shape of the mask does not match the shape of "
                                            "the indexed tensor", IndexError)
            found.extend(mask_indices(cast(i, bool_)))
        else:
            found.append(checked_indices(i, input.shape[len(found)], len(found)))
    return index_put_value(input, found, tuple(range(len(found))), values, accumulate)


def take(input: AnyTensor[Tensor], index: AnyTensor[Tensor]) -> Tensor:
    """The elements at positions in the flattened input; the result has index's shape."""
    count = product(input.shape)
    if index.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.word}")
    i = checked_indices(index, count, 0)
    return apply("index", apply("reshape", input, shape=(count,)), i, axes=(0,))


# --- masks ---------------------------------------------------------------------------------------------------------


def nonzero(input: AnyTensor[Tensor], *, as_tuple: bool = False) -> Any:
    """The positions of nonzero elements: int64 (n, rank), or one vector per axis."""
    if not as_tuple:
        return apply("nonzero", input)
    return tuple(mask_indices(_at_least_vector(input)))


def nonzero_static(input: AnyTensor[Tensor], *, size: Any, fill_value: int = -1) -> Tensor:
    """The first `size` positions of nonzero elements, int64 (size, rank); `fill_value` where there are fewer."""
    found: Any = apply("nonzero", input)
    size = size_of(size)
    require(size >= 0, RuntimeError, "nonzero_static: 'size' must be an non-negative integer")
    missing = maximum(size - found.shape[0], 0)
    rest = create("full", found, value=fill_value, shape=(missing, input.ndim), dtype=int64)
    return own(take_slice(apply("cat", found, rest, axis=0), 0, 0, size))


def argwhere(input: AnyTensor[Tensor]) -> Tensor:
    """The positions of nonzero elements, int64 (n, rank)."""
    return apply("nonzero", input)


def masked_select(input: AnyTensor[Tensor], mask: AnyTensor[Tensor]) -> Tensor:
    """The elements where mask (which broadcasts with input) is True, as a vector."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    if isinstance(mask, Batched):
        raise RuntimeError("vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support "
                           "this because for each batch this would return a differently shaped Tensor.")
    if not same_shape(input.shape, mask.shape):
        from jitgrad.ops.library.shapes.join import broadcast_tensors

        input, mask = broadcast_tensors(input, mask)
    x, m = _at_least_vector(input), _at_least_vector(mask)
    return apply("index", x, *mask_indices(m), axes=tuple(range(x.ndim)))


def bincount(input: AnyTensor[Tensor], weights: AnyTensor[Tensor] | None = None, minlength: int = 0) -> Tensor:
    """How often each number occurs in a vector of non-negative ints (or the sum of its weights)."""
    if input.dtype.is_inexact or input.dtype is bool_:
        raise not_implemented("bincount", input.dtype)
    if input.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    require(minlength >= 0, RuntimeError, "minlength should be >= 0")
    i = cast(input, int64)
    most = backend().item(apply("amax", apply("pad", i, pads=((1, 0),), value=-1), axes=(0,), keepdim=False))
    length = maximum(most + 1, minlength)
    i = checked_indices(i, length, 0, negative=False, error=RuntimeError)
    if weights is None:
        zeros, ones = create("full", i, value=0, shape=(length,), dtype=int64), as_operand(1, int64)
    else:
        zeros, ones = create("full", weights, value=0, shape=(length,), dtype=weights.dtype), weights
    return apply("index_put", zeros, ones, i, axes=(0,), accumulate=True)

complete(globals())

__all__ = ["argwhere", "bincount", "gather", "index_add", "index_copy", "index_fill", "index_put", "index_select",
           "masked_select", "nonzero", "nonzero_static", "scatter", "scatter_add", "scatter_reduce", "take",
           "take_along_dim"]
