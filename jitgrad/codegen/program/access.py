"""Index maps and strided windows: how a view or a broadcast reads the value behind it, without copying.

An index map has one entry `(axis, factor, shift)` per axis of the value read: its index is `factor * i[axis] + shift`
where i is the reader's index; axis -1 stands for a constant index `shift`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad import dims
from jitgrad.dims import Size
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node

Entry = tuple[int, Size, Size]
IndexMap = tuple[Entry, ...]
NOWHERE: Entry = (-1, 0, 0)


def broadcast(entries: Sequence[Entry], shape: Sequence[Size], target: Sequence[Size]) -> IndexMap:
    """How an operand of `shape` is read where it broadcasts to `target`, whose axes are read at `entries`."""
    lead = len(target) - len(shape)
    return tuple(_repeat(entries[lead + j], size, target[lead + j]) for j, size in enumerate(shape))


def _repeat(entry: Entry, size: Size, target: Size) -> Entry:
    if size == target or dims.is_not_one(size):
        return entry
    if isinstance(size, int):
        return NOWHERE  # size 1
    axis, factor, shift = entry
    live = dims.call("not_one", size)
    return (axis, factor * live, shift * live)


def axes_of(shape: Sequence[Size]) -> tuple[tuple[Size, ...], IndexMap]:
    """The axes of a shape that are not of size 1, and each axis's place among them."""
    space: list[Size] = []
    own: list[Entry] = []
    for size in shape:
        if size == 1:
            own.append(NOWHERE)
        else:
            own.append((len(space), 1, 0))
            space.append(size)
    return tuple(space), tuple(own)


def through(node: Node, entries: IndexMap) -> IndexMap | None:
    """The index map of a view's operand, where the view's result is read at `entries`; None: not an index map."""
    operand = node.inputs[0].type
    assert isinstance(operand, TensorType)
    shape, attrs, op = operand.dims, node.attrs, node.op
    if op == "alias":
        return entries
    if op == "reshape":
        return _same_but_ones(shape, attrs["shape"], entries)
    if op == "expand":
        return broadcast(entries, shape, attrs["shape"])
    if op == "permute":
        result: list[Entry] = [NOWHERE] * len(shape)
        for axis, entry in zip(attrs["axes"], entries, strict=True):
            result[axis] = entry
        return tuple(result)
    if op == "diagonal":
        return _diagonal(attrs, entries, len(shape))
    if op == "flip":
        return tuple((a, -f, shape[i] - 1 - s) if i in attrs["axes"] else (a, f, s)
                     for i, (a, f, s) in enumerate(entries))
    axis = attrs["axis"]
    if op == "unsqueeze":
        return (*entries[:axis], *entries[axis + 1:])
    if op == "squeeze":
        return (*entries[:axis], NOWHERE, *entries[axis:])
    if op == "select":
        return (*entries[:axis], (-1, 0, attrs["index"]), *entries[axis:])
    a, f, s = entries[axis]
    return (*entries[:axis], (a, f * attrs["step"], s * attrs["step"] + attrs["start"]), *entries[axis + 1:])


def _diagonal(attrs: Mapping[str, Any], entries: IndexMap, rank: int) -> IndexMap:
    axis1, axis2, offset = attrs["axis1"], attrs["axis2"], attrs["offset"]
    a, f, s = entries[-1]
    rest = iter(entries[:-1])
    places = {axis1: (a, f, s + max(-offset, 0)), axis2: (a, f, s + max(offset, 0))}
    return tuple(places[i] if i in places else next(rest) for i in range(rank))


def _same_but_ones(shape: Sequence[Size], target: Sequence[Size], entries: IndexMap) -> IndexMap | None:
    kept = [(size, entry) for size, entry in zip(target, entries, strict=True) if size != 1]
    if [size for size, _ in kept] != [size for size in shape if size != 1]:
        return None
    found = iter(kept)
    return tuple(NOWHERE if size == 1 else next(found)[1] for size in shape)


def contiguous_strides(shape: Sequence[Size]) -> tuple[Size, ...]:
    """Row-major strides in elements."""
    result: list[Size] = []
    step: Size = 1
    for size in reversed(shape):
        result.append(step)
        step = step * size
    return tuple(reversed(result))


def is_contiguous(shape: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Whether the elements are known to lie in row-major order without gaps."""
    step: Size = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step = step * size
    return True


def reshape_strides(shape: Sequence[Size], strides: Sequence[Size], target: Sequence[Size]) -> tuple[Size, ...] | None:
    """Strides that read a window of `shape` as `target` without a copy, or None.

    Groups of axes with equal products of sizes are matched from the front; a group of several axes must be contiguous.
    What is left of both in the end has as many elements, whether its sizes are known to or not.
    """
    if is_contiguous(shape, strides):
        return contiguous_strides(target)
    old = [(s, t) for s, t in zip(shape, strides, strict=True) if s != 1]
    result: list[Size] = []
    i = 0
    pending: list[Size] = []
    for size in target:
        if size == 1:
            pending.append(size)
            continue
        if i < len(old) and not any(p != 1 for p in pending) and old[i][0] == size:
            result += [0] * len(pending) + [old[i][1]]
            pending = []
            i += 1
            continue
        pending.append(size)
        group = dims.product(pending)
        taken, at = _take(old, i, group)
        if taken is None:
            continue
        if not _is_even(taken):
            return None
        result += [step * taken[-1][1] for step in contiguous_strides(pending)]
        pending, i = [], at
    if all(p == 1 for p in pending):
        return tuple(result + [0] * len(pending)) if i == len(old) else None
    left = old[i:]
    if not left or left[-1][1] == 0 or not _is_even(left):
        return None
    return tuple(result + [step * left[-1][1] for step in contiguous_strides(pending)])


def _is_even(axes: list[tuple[Size, Size]]) -> bool:
    """Whether axes, sizes and strides, step evenly through memory."""
    return is_contiguous([s for s, _ in axes], [dims.floordiv(t, axes[-1][1]) for _, t in axes])


def _take(old: list[tuple[Size, Size]], i: int, total: Size) -> tuple[list[tuple[Size, Size]] | None, int]:
    """The axes from `i` on whose sizes multiply to `total`, and the index after them."""
    product: Size = 1
    for at in range(i, len(old)):
        product = product * old[at][0]
        if product == total:
            taken = old[i:at + 1]
            if taken[-1][1] == 0:
                return None, i
            return taken, at + 1
    return None, i
