"""Rules of batching for rows whose kind does not say it all: see `jitgrad.ops.batching.rules`."""

import operator
from typing import Any

from jitgrad.ops.batching.rules import Operands, Rule, lifted, to_front

# --- views ---------------------------------------------------------------------------------------------------------


def reshape(B: Operands, x: Any, *, shape: tuple[Any, ...]) -> Any:
    return B.F.reshape(x, shape=(B.size, *shape))


def permute(B: Operands, x: Any, *, axes: tuple[int, ...]) -> Any:
    return B.F.permute(x, axes=(0, *(a + 1 for a in axes)))


def expand(B: Operands, x: Any, *, shape: tuple[Any, ...]) -> Any:
    return B.F.expand(lifted(B.F, x, len(shape) + 1), shape=(B.size, *shape))


def view_dtype(B: Operands, x: Any, *, dtype: Any) -> Any:
    """Of numbers of another size the last axis must lie in order, whichever the batch's is."""
    return B.F.view_dtype(x if x.dtype.itemsize == dtype.itemsize else B.F.contiguous(x), dtype=dtype)


def sum_to(B: Operands, x: Any, *, shape: tuple[Any, ...]) -> Any:
    ones = (1,) * (B.rank(0) - len(shape))
    return B.F.reshape(B.F.sum_to(x, shape=(B.size, *ones, *shape)), shape=(B.size, *shape))


def pad(B: Operands, x: Any, *, pads: tuple[Any, ...], value: Any) -> Any:
    return B.F.pad(x, pads=((0, 0), *pads), value=value)


# --- write-backs ---------------------------------------------------------------------------------------------------


def write_back(more: int) -> Any:
    """A part of x, whose rank is x's and `more`, is written."""
    def rule(B: Operands, x: Any, src: Any, *, axis: int, **where: Any) -> Any:
        return B.run(B.spread(0), B.spread(1, B.rank(0) + more), axis=axis + 1, **where)
    return rule


def diagonal_scatter(B: Operands, x: Any, src: Any, *, offset: int, axis1: int, axis2: int) -> Any:
    return B.run(B.spread(0), B.spread(1, B.rank(0) - 1), offset=offset, axis1=axis1 + 1, axis2=axis2 + 1)


# --- indices -------------------------------------------------------------------------------------------------------


def _key(B: Operands, first: int) -> tuple[list[Any], int]:
    """Indices from operand `first` on, with one more for the item, along the batch's axis; the rank of their block."""
    block = max([B.rank(i) for i in range(first, len(B.xs))])
    indices = B.aligned(block)[first:]
    items = B.F.arange(indices[0], length=B.size, dtype=indices[0].dtype)
    for _ in range(block):
        items = B.F.unsqueeze(items, axis=items.ndim)
    return [items, *indices], block


def _place(axes: tuple[int, ...]) -> int:
    """Where the block of indices goes in the result."""
    return axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0


def index(B: Operands, x: Any, *indices: Any, axes: tuple[int, ...]) -> Any:
    at = _place(axes)
    if not B.batched[0]:  # the batch is one more axis of the block
        block = max([B.rank(i) for i in range(1, len(B.xs))])
        return to_front(B.F, B.F.index(x, *B.aligned(block)[1:], axes=axes), at)
    if not any(B.batched[1:]):
        further = tuple([a + 1 for a in axes])
        y = B.F.index(x, *indices, axes=further)
        if _place(further):
            return y
        return to_front(B.F, y, max([i.ndim for i in indices]))
    key, block = _key(B, 1)
    rest = tuple([a + 1 for a in range(B.rank(0)) if a not in axes])
    y = B.F.index(B.F.permute(x, axes=(0, *(a + 1 for a in axes), *rest)), *key, axes=tuple(range(len(key))))
    before, blocks = tuple(range(1 + block, 1 + block + at)), tuple(range(1, 1 + block))
    return y if not at else B.F.permute(y, axes=(0, *before, *blocks, *range(1 + block + at, y.ndim)))


def index_put(B: Operands, x: Any, v: Any, *indices: Any, axes: tuple[int, ...], accumulate: bool) -> Any:
    """Written where the indexed axes are in front, items first."""
    F, at, rank = B.F, _place(axes), B.rank(0)
    key, block = _key(B, 2)
    rest = [a for a in range(rank) if a not in axes]
    order = (0, *(a + 1 for a in axes), *(a + 1 for a in rest))
    values = B.spread(1, block + len(rest)) if at or B.batched[1] else v
    if at:
        values = F.permute(values, axes=(0, *range(1 + at, 1 + at + block), *range(1, 1 + at),
                                         *range(1 + at + block, values.ndim)))
    y = F.index_put(F.permute(B.spread(0), axes=order), values, *key, axes=tuple(range(len(key))),
                    accumulate=accumulate)
    return F.permute(y, axes=tuple([order.index(a) for a in range(rank + 1)]))


# --- convolutions and pools: the batch joins the images, or the channels as groups of them -------------------------


def _joined(B: Operands, x: Any, axis: int) -> Any:
    """x, whose first axis is the batch's, with that axis joined to one of an item's."""
    axes = (*range(1, 1 + axis), 0, *range(1 + axis, x.ndim))
    x = x if not axis else B.F.permute(x, axes=axes)
    shape = tuple(x.shape)
    return B.F.reshape(x, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:]))


def _parted(B: Operands, y: Any, axis: int, size: Any) -> Any:
    """The inverse, where an item's axis has `size`."""
    shape = tuple(y.shape)
    return to_front(B.F, B.F.reshape(y, shape=(*shape[:axis], B.size, size, *shape[axis + 1:])), axis)


def grouped(rule: Rule) -> Rule:
    """A rule that makes groups of channels of the items: their number is a constant, and there is one at least."""
    def of(B: Operands, *xs: Any, **attrs: Any) -> Any:
        B.size = operator.index(B.size)
        if B.size:
            return rule(B, *xs, **attrs)
        some = [B.F.pad(x, pads=((0, 1), *((0, 0),) * (x.ndim - 1)), value=0) if b else x
                for x, b in zip(xs, B.batched, strict=True)]
        y = rule(Operands(B.F, B.op, 1, some, B.batched), *some, **attrs)
        return B.F.slice(y, axis=0, start=0, length=0, step=1)
    return of


@grouped
def _conv_by_item(B: Operands, x: Any, w: Any, *, groups: int, **how: Any) -> Any:
    y = B.F.conv(_joined(B, B.spread(0), 1), _joined(B, w, 0), groups=groups * B.size, **how)
    return _parted(B, y, 1, w.shape[1])


def conv(B: Operands, x: Any, w: Any, *, groups: int, **how: Any) -> Any:
    if not B.batched[1]:
        y = B.F.conv(_joined(B, x, 0), w, groups=groups, **how)
        return _parted(B, y, 0, x.shape[1])
    if not B.batched[0] and groups == 1:  # filters of all items on the same images
        return _parted(B, B.F.conv(x, _joined(B, w, 0), groups=1, **how), 1, w.shape[1])
    return _conv_by_item(B, x, w, groups=groups, **how)


@grouped
def _transpose_by_item(B: Operands, g: Any, w: Any, *, shape: tuple[Any, ...], groups: int, **how: Any) -> Any:
    n, c, *rest = shape
    y = B.F.conv_transpose(_joined(B, B.spread(0), 1), _joined(B, w, 0), shape=(n, B.size * c, *rest),
                           groups=groups * B.size, **how)
    return _parted(B, y, 1, c)


def conv_transpose(B: Operands, g: Any, w: Any, *, shape: tuple[Any, ...], groups: int, **how: Any) -> Any:
    n, c, *rest = shape
    if B.batched[1]:
        return _transpose_by_item(B, g, w, shape=shape, groups=groups, **how)
    y = B.F.conv_transpose(_joined(B, g, 0), w, shape=(B.size * n, c, *rest), groups=groups, **how)
    return _parted(B, y, 0, n)


@grouped
def conv_weight(B: Operands, g: Any, x: Any, *, shape: tuple[Any, ...], groups: int, **how: Any) -> Any:
    o, *rest = shape
    y = B.F.conv_weight(_joined(B, B.spread(0), 1), _joined(B, B.spread(1), 1), shape=(B.size * o, *rest),
                        groups=groups * B.size, **how)
    return _parted(B, y, 0, o)


def max_pool(B: Operands, x: Any, **how: Any) -> Any:
    n = x.shape[1]
    return tuple([_parted(B, y, 0, n) for y in B.F.max_pool(_joined(B, x, 0), **how)])


__all__ = ["conv", "conv_transpose", "conv_weight", "diagonal_scatter", "expand", "index", "index_put", "max_pool",
           "pad", "permute", "reshape", "sum_to", "write_back"]
