"""Reversing, rolling, diagonals, triangles, windows."""

from collections.abc import Sequence
from typing import Any

from jitgrad.dtypes import int64
from jitgrad.ops.backend import AnyTensor, Tensor, backend, own
from jitgrad.ops.library.core import apply, bind, create
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.shape import clone, flatten, movedim, reshape, select, take_slice, transpose
from jitgrad.ops.library.sizes import axes, axis, require, static_int

__library__ = True

# --- reversing, rolling, diagonals, triangles ----------------------------------------------------------------------


def flip(input: AnyTensor[Tensor], dims: Sequence[int]) -> Tensor:
    """A copy with the axes in dims reversed."""
    if dims is None or isinstance(dims, int):
        raise TypeError(f"flip(): argument 'dims' (position 2) must be tuple of ints, not {type(dims).__name__}")
    found = axes(tuple(dims), input.ndim) if dims else ()
    return apply("flip", input, axes=found)


def _flipped(axis: int, input: AnyTensor[Tensor]) -> Tensor:
    if input.ndim <= axis:
        raise RuntimeError(f"Input must be >= {axis + 1}-d.")
    return flip(input, (axis,))


fliplr = bind(_flipped, 1, "fliplr", "Axis 1 reversed.")
flipud = bind(_flipped, 0, "flipud", "Axis 0 reversed.")


def roll(input: AnyTensor[Tensor], shifts: Any, dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements shifted along axes, those that leave coming back at the other end; flattened without dims."""
    moves = list(shifts) if isinstance(shifts, (tuple, list)) else [shifts]
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        if len(moves) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:0")
        return own(reshape(roll(flatten(input), moves, 0), input.shape))
    along = [axis(d, input.ndim) for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]
    if len(along) != len(moves):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(along)}")
    result = clone(input)
    for a, shift in zip(along, moves, strict=True):
        n = input.shape[a]
        if isinstance(n, int) and n == 0:
            continue
        head = (n - shift) % n
        if isinstance(head, int) and head == 0:
            continue
        parts = [take_slice(result, a, start, length) for start, length in ((head, n - head), (0, head))]
        result = apply("cat", *parts, axis=a)
    return result


def rot90(input: AnyTensor[Tensor], k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated by 90 degrees k times, from the first axis of dims towards the second."""
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (axis(d, input.ndim) for d in dims)
    k = static_int(k) % 4
    if k == 0:
        return clone(input)
    if k == 2:
        return flip(input, (a, b))
    return flip(transpose(input, a, b), (a,)) if k == 1 else own(transpose(flip(input, (a,)), a, b))


def diagonal(input: AnyTensor[Tensor], offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two axes, as a new last axis. A view."""
    a, b = axis(dim1, input.ndim), axis(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply("diagonal", input, offset=static_int(offset), axis1=a, axis2=b)


def diag_embed(input: AnyTensor[Tensor], offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last axis of input on the diagonal of two new axes."""
    n = input.ndim + 1
    a, b, offset = axis(dim1, n), axis(dim2, n), static_int(offset)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = input.shape[-1] + (offset if offset >= 0 else -offset)
    before, after = (0, offset) if offset >= 0 else (-offset, 0)
    wide = apply("pad", input, pads=((0, 0),) * (n - 2) + ((before, after),), value=0)  # element i of row i
    rows = apply("unsqueeze", create("arange", input, length=side, dtype=int64), axis=1)
    columns = create("arange", input, length=side, dtype=int64)
    on = apply("eq", apply("add", rows, backend().lift(offset, int64)), columns)
    full = apply("where", on, apply("unsqueeze", wide, axis=n - 1), backend().lift(0, input.dtype))
    return own(movedim(full, (-2, -1), (a, b)))


def diag(input: AnyTensor[Tensor], diagonal: int = 0) -> Tensor:
    """A matrix's diagonal as a vector, or a square matrix with the vector on its diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return clone(apply("diagonal", input, offset=static_int(diagonal), axis1=0, axis2=1))


def _triangle(comparison: str, input: AnyTensor[Tensor], diagonal: Any = 0) -> Tensor:
    if input.ndim < 2:
        name = "tril" if comparison == "le" else "triu"
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    rows = apply("unsqueeze", create("arange", input, length=input.shape[-2], dtype=int64), axis=1)
    columns = create("arange", input, length=input.shape[-1], dtype=int64)
    kept = apply(comparison, apply("sub", columns, rows), backend().lift(diagonal, int64))
    made: Any = apply("where", kept, input, backend().lift(0, input.dtype))
    return made.contiguous()  # in row order wherever input lies


tril = bind(_triangle, "le", "tril", "The elements on and below a diagonal, zeros elsewhere.")
triu = bind(_triangle, "ge", "triu", "The elements on and above a diagonal, zeros elsewhere.")


def unfold(input: AnyTensor[Tensor], dimension: int, size: Any, step: Any) -> Tensor:
    """Windows of `size` elements, `step` apart, along an axis; the window is the new last axis. A view."""
    a = axis(dimension, input.ndim)
    if not input.ndim:
        return select(unfold(apply("unsqueeze", input, axis=0), 0, size, step), 0, 0)
    n = input.shape[a]
    require(size >= 0, RuntimeError, "size is ", size, " but must be >= 0")
    require(size <= n, RuntimeError, f"maximum size for tensor at dimension {a} is ", n, " but size is ", size)
    require(step > 0, RuntimeError, "step is ", step, " but must be > 0")
    return apply("windows", input, axis=a, size=size, step=step, dilation=1)

complete(globals())

__all__ = ["diag", "diag_embed", "diagonal", "flip", "fliplr", "flipud", "roll", "rot90", "tril", "triu"]
