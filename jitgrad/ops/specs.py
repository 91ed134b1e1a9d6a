"""Type rules: from operand types and attrs to result types, on sizes that may be symbolic.

A spec never checks: what it assumes of sizes is stated by the row's `check` (see `checks.py`), which runs before.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad import dims
from jitgrad.dims import Size, Symbol
from jitgrad.dtypes import bool_, dtype, int64
from jitgrad.ops.types import TensorType

Shape = tuple[Size, ...]
Spec = Callable[..., Any]

# --- broadcasting --------------------------------------------------------------------------------------------------


def broadcast_size(a: Size, b: Size) -> Size:
    """The size of an axis where sizes `a` and `b` meet; they are equal or one of them is 1.

    Equal sizes give that size; 1 gives the other; a known size beats a symbol; of two symbols the first that is known
    not to be 1 is taken; otherwise the result is the run-time function `bcast(a, b)`.
    """
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(b, int):
        return b
    return a if isinstance(a, int) else dims.call("bcast", a, b)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all of `shapes` broadcast to, aligned at the last axis."""
    result = shapes[0]
    for shape in shapes[1:]:
        if shape == result:
            continue
        longer, shorter = (result, shape) if len(result) >= len(shape) else (shape, result)
        lead = len(longer) - len(shorter)
        result = (*longer[:lead], *map(broadcast_size, longer[lead:], shorter))
    return result


def _shape_of(types: tuple[TensorType, ...]) -> Shape:
    first = types[0].dims
    if all(t.dims == first for t in types):
        return first
    return broadcast_shapes(*(t.dims for t in types))


def pointwise(*types: TensorType, **attrs: Any) -> TensorType:
    """Operands broadcast; the dtype is theirs."""
    if len(types) == 1:
        return types[0]
    return TensorType(types[0].dtype, _shape_of(types))


def predicate(*types: TensorType, **attrs: Any) -> TensorType:
    """Operands broadcast; the result is bool."""
    return TensorType(bool_, _shape_of(types))


def select_by(condition: TensorType, *types: TensorType) -> TensorType:
    """`where`: the condition broadcasts too, the dtype is the others'."""
    return TensorType(types[0].dtype, _shape_of((condition, *types)))


def cast(x: TensorType, *, dtype: dtype) -> TensorType:
    return TensorType(dtype, x.dims)


def other_dtype(x: TensorType, *, dtype: dtype) -> TensorType:
    """The bytes seen as another dtype: the last axis is as much longer or shorter."""
    old, new = x.dtype.itemsize, dtype.itemsize
    if old == new:
        return TensorType(dtype, x.dims)
    *outer, last = x.dims
    return TensorType(dtype, (*outer, last * (old // new) if old > new else dims.floordiv(last, new // old)))


# --- reductions, scans, sorting ------------------------------------------------------------------------------------


def reduced_shape(shape: Shape, axes: Sequence[int], keepdim: bool) -> Shape:
    """`shape` without `axes`, or with ones there."""
    if keepdim:
        return tuple(1 if i in axes else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in axes)


def reduce(x: TensorType, *, axes: tuple[int, ...], keepdim: bool, **attrs: Any) -> TensorType:
    return TensorType(x.dtype, reduced_shape(x.dims, axes, keepdim))


def reduce_to(result: dtype) -> Spec:
    """A reduction whose result dtype is fixed: bool for any and all, int64 for argmax."""
    def spec(x: TensorType, *, axes: tuple[int, ...], keepdim: bool) -> TensorType:
        return TensorType(result, reduced_shape(x.dims, axes, keepdim))
    return spec


def same(x: TensorType, *others: TensorType, **attrs: Any) -> TensorType:
    """The first operand's type: scans, write-backs, index_put, scatter."""
    return x


def reshaped(x: TensorType, *, shape: Shape) -> TensorType:
    """A given shape: reshape, expand, sum_to."""
    return TensorType(x.dtype, shape)


def sort(x: TensorType, **attrs: Any) -> tuple[TensorType, TensorType]:
    return x, TensorType(int64, x.dims)


def argsort(x: TensorType, **attrs: Any) -> TensorType:
    return TensorType(int64, x.dims)


def nth_place(x: TensorType, *, axis: int, **attrs: Any) -> TensorType:
    return TensorType(int64, _replace(x.dims, axis, 1))


def steps_passed(steps: TensorType, x: TensorType, **attrs: Any) -> TensorType:
    return TensorType(int64, x.dims)


def topk(x: TensorType, *, k: Size, axis: int, **attrs: Any) -> tuple[TensorType, TensorType]:
    shape = _replace(x.dims, axis, k)
    return TensorType(x.dtype, shape), TensorType(int64, shape)


# --- views ---------------------------------------------------------------------------------------------------------


def _replace(shape: Shape, axis: int, size: Size) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1:])


def permute(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    return TensorType(x.dtype, tuple(x.dims[a] for a in axes))


def unsqueeze(x: TensorType, *, axis: int) -> TensorType:
    return TensorType(x.dtype, (*x.dims[:axis], 1, *x.dims[axis:]))


def drop_axis(x: TensorType, *, axis: int, **attrs: Any) -> TensorType:
    """squeeze, select."""
    return TensorType(x.dtype, (*x.dims[:axis], *x.dims[axis + 1:]))


def slice_(x: TensorType, *, axis: int, start: Size, length: Size, step: int) -> TensorType:
    return TensorType(x.dtype, _replace(x.dims, axis, length))


def diagonal_length(n1: Size, n2: Size, offset: int) -> Size:
    """How long the diagonal of an n1 x n2 matrix is, `offset` columns to the right of the main one."""
    if offset >= 0:
        n2 = n2 - offset
    else:
        n1 = n1 + offset
    return dims.call("max", dims.call("min", n1, n2), 0)


def diagonal(x: TensorType, *, offset: int, axis1: int, axis2: int) -> TensorType:
    rest = tuple(s for i, s in enumerate(x.dims) if i not in (axis1, axis2))
    return TensorType(x.dtype, (*rest, diagonal_length(x.dims[axis1], x.dims[axis2], offset)))


# --- joining, gathering, contracting -------------------------------------------------------------------------------


def _add(a: Size, b: Size) -> Size:
    return b + a if isinstance(a, int) else a + b


def cat(*types: TensorType, axis: int) -> TensorType:
    """Along other axes sizes are equal at run time: a known one is taken if there is one."""
    total: Size = 0
    for t in types:
        total = _add(total, t.dims[axis])
    shape = tuple(total if i == axis else next((t.dims[i] for t in types if isinstance(t.dims[i], int)), n)
                  for i, n in enumerate(types[0].dims))
    return TensorType(types[0].dtype, shape)


def pad(x: TensorType, *, pads: tuple[tuple[Size, Size], ...], value: Any) -> TensorType:
    return TensorType(x.dtype, tuple(_add(_add(s, before), after) for s, (before, after)
                                     in zip(x.dims, pads, strict=True)))


def index_result_shape(shape: Shape, index_shapes: Sequence[Shape], axes: tuple[int, ...]) -> Shape:
    """Where the broadcast index shape goes: in place of adjacent axes, to the front of scattered ones."""
    block = broadcast_shapes(*index_shapes)
    rest = tuple(s for i, s in enumerate(shape) if i not in axes)
    at = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    return (*rest[:at], *block, *rest[at:])


def index(x: TensorType, *indices: TensorType, axes: tuple[int, ...]) -> TensorType:
    return TensorType(x.dtype, index_result_shape(x.dims, [i.dims for i in indices], axes))


def gather(x: TensorType, i: TensorType, *, axis: int) -> TensorType:
    return TensorType(x.dtype, i.dims)


def nonzero(x: TensorType) -> TensorType:
    """int64[n, rank] with a fresh symbol n. Whoever emits the node passes `types` and `binds` with its own symbol."""
    return TensorType(int64, (dims.dim(Symbol("n")), x.ndim))


def matmul(a: TensorType, b: TensorType) -> TensorType:
    batch = broadcast_shapes(a.dims[:-2], b.dims[:-2])
    return TensorType(a.dtype, (*batch, a.dims[-2], b.dims[-1]))


def windows_count(n: Size, size: Size, step: int, dilation: int) -> Size:
    """How many windows of `size` elements, `dilation` apart, fit into n elements, `step` from one to the next."""
    return _add(dims.floordiv(_add(n, -1 - dilation * (size - 1)), step), 1)


def windows(x: TensorType, *, axis: int, size: Size, step: int, dilation: int) -> TensorType:
    count = windows_count(x.dims[axis], size, step, dilation)
    return TensorType(x.dtype, (*_replace(x.dims, axis, count), size))


def conv(x: TensorType, w: TensorType, *, stride: tuple[int, ...], padding: tuple[int, ...],
         dilation: tuple[int, ...], groups: int) -> TensorType:
    sizes = [windows_count(_add(n, 2 * p), k, s, d) for n, k, s, p, d in zip(
        x.dims[2:], w.dims[2:], stride, padding, dilation, strict=True)]
    return TensorType(x.dtype, (x.dims[0], w.dims[0], *sizes))


def shaped(x: TensorType, *others: TensorType, shape: Shape, **attrs: Any) -> TensorType:
    """A given shape, the first operand's dtype: the two gradients of a convolution."""
    return TensorType(x.dtype, shape)


def max_pool(x: TensorType, *, shape: Shape, **attrs: Any) -> tuple[TensorType, TensorType]:
    dims = (*x.dims[:2], *shape)
    return TensorType(x.dtype, dims), TensorType(int64, dims)


def create(*numbers: Any, shape: Shape, dtype: dtype, **attrs: Any) -> TensorType:
    return TensorType(dtype, shape)


def arange(*, length: Size, dtype: dtype) -> TensorType:
    return TensorType(dtype, (length,))


def random_bits(*numbers: Any, shape: Shape) -> TensorType:
    return TensorType(int64, shape)
