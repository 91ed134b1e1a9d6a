"""Where eager would have the elements of a tensor: strides as sizes, which say whether a reshape copies.

The strides of a tensor that the script made follow from its sizes; of the caller's it is asked at entry whether they
are in row order, and if not, in which order. Views change them. What is compared are sizes: it is guarded that those of
later calls compare as those of the first call do.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.classes import dataclass, field
from jitgrad.dims import Size, Symbol, call, dim, is_not_one, product, substitute, symbols
from jitgrad.dtypes import float32
from jitgrad.errors import UnsupportedCall
from jitgrad.ops.opdef import OPS, has_trait
from jitgrad.ops.specs import other_dtype
from jitgrad.ops.types import TensorType
from jitgrad.script.call.sources import APART, BEHIND, REPEATED
from jitgrad.script.frontend.state import copies
from jitgrad.script.frontend.state.context import LAYOUT, REFERENCES, Context, Restart

Strides = tuple[Size, ...]


@dataclass(slots=True)
class Layouts:
    """What one evaluation knows of memory.

    Attributes:
        given: the strides of the caller's tensors.
        apart: strides that are no functions of sizes, as the least that they can be and a gap.
        gaps: those gaps, at least 0.
        doubtful: storages of which there is a tensor that may show them or be a copy.
        kept: those of them where the tensor is what `contiguous` gave.
        conjugates: of complex storages, those of their conjugates.
    """

    given: dict[Any, Strides] = field(default_factory=dict)
    apart: dict[Symbol, Size] = field(default_factory=dict)
    gaps: set[Symbol] = field(default_factory=set)
    doubtful: dict[Any, None] = field(default_factory=dict)
    kept: dict[Any, None] = field(default_factory=dict)
    conjugates: dict[Any, list[Any]] = field(default_factory=dict)


def of(context: Context) -> Layouts:
    """The record of an evaluation."""
    return context.part(Layouts)


def doubt(context: Context, storage: Any, kept: bool = False) -> None:
    """Note that a tensor may show a storage, or be a copy."""
    of(context).doubtful[storage] = None
    if kept:
        of(context).kept[storage] = None


def leave(context: Context, storage: Any) -> None:
    """A tensor leaves the script: what it shows must be known. Raises Restart; UnsupportedCall where that is no use."""
    if storage not in of(context).kept:
        return
    if LAYOUT not in context.decisions:
        raise Restart(LAYOUT, "what the script returns or stores may be the caller's tensor, or a copy")
    if storage in copies.of(context).shared and not context.by_reference:
        raise Restart(REFERENCES, "what the script returns or stores may be one of two tensors, or a copy")
    if storage.input >= 0:
        raise UnsupportedCall("whether this is the caller's tensor or a copy in row order is known only "
                              "at run time", context.span(), hint="write `.clone()`")


def joined_order(*orders: bool | None) -> bool | None:
    """Whether what is made of several is in row order: False where one is not, None where one need not be."""
    return False if False in orders else None if None in orders else True


def _moves_axes(tensor: Any) -> bool:
    """Whether a view's axes come in another order than in memory: those of a diagonal and of windows come last."""
    type_ = tensor.storage.type
    for op, attrs in tensor.path:
        last = len(type_.dims) - 1
        if (op == "permute" and list(attrs["axes"]) != sorted(attrs["axes"])) or (
                op == "diagonal" and {attrs["axis1"], attrs["axis2"]} != {last - 1, last}) or (
                op == "windows" and attrs["axis"] != last):
            return True
        spec = OPS[op].spec
        assert spec is not None
        type_ = spec(type_, **attrs)
    return False


def keeps_order(context: Context, tensor: Any) -> bool | None:
    """Whether what is computed from this operand, element by element, lies in row order in eager's memory; None where
    that is as the caller's tensors lie, which is only asked once it matters."""
    storage = tensor.storage
    if _moves_axes(tensor):
        return False
    if storage.input < 0 or len(storage.type.dims) < 2:
        found: bool | None = storage.ordered
        return found
    if LAYOUT not in context.decisions:
        return None
    if context.inputs.contiguous(storage):
        return True
    axes = context.inputs.memory_order(storage)  # NumPy's results have no gaps, and the axes of its operands in order
    return all(how != REPEATED for _, how in axes) and [a for a, _ in axes] == sorted(a for a, _ in axes)


def in_rows(tensor: Any) -> bool:
    """Whether the script made a tensor in row order, and all of it is shown in that order."""
    storage = tensor.storage
    return storage.input < 0 and storage.ordered and not storage.alias and all(
        has_trait(op, "in_order") for op, _ in tensor.path)


def surely_shares(context: Context, tensor: Any, shape: Sequence[Size]) -> bool:
    """Whether a reshape shares the tensor's memory wherever the caller's tensors have their elements: it is in row
    order, or only axes of size 1 come and go."""
    if in_rows(tensor):
        return True
    old, new = ([d for d in map(context.sizes.canonical, dims) if d != 1] for dims in (tensor.type_.dims, shape))
    return old == new


def keeps_rows(context: Context, tensor: Any) -> bool | None:
    """For `contiguous`: whether a tensor is in row order; where that need not be known, whether its views keep that;
    None where neither says it."""
    storage = tensor.storage
    if storage.input < 0 and not tensor.path and not storage.alias:
        if storage.ordered is None:
            doubt(context, storage, kept=True)
        return storage.ordered is not False
    kept = all(has_trait(op, "in_order") or op == "view_dtype" or (
        op in ("select", "slice") and attrs["axis"] == 0 and attrs.get("step", 1) == 1) for op, attrs in tensor.path)
    found = is_contiguous(context, tensor) if not kept or LAYOUT in context.decisions else None
    if found is None and kept:
        doubt(context, storage, kept=True)
    return (kept or None) if found is None else found


def brought_in_rows(context: Context, tensor: Any, made: Any) -> None:
    """`contiguous` is a copy here. Where eager's is the tensor itself, perhaps, nobody writes to either."""
    if keeps_rows(context, tensor) is None:
        doubt(context, tensor.storage)
        doubt(context, made.storage)


def is_contiguous(context: Context, tensor: Any) -> bool | None:
    """Whether a tensor's elements are in row order; None where that is not known."""
    strides = strides_of(context, tensor)
    return None if strides is None else _in_row_order(context, tensor.type_.dims, strides)


def shares(context: Context, tensor: Any, shape: Sequence[Size]) -> bool | None:
    """Whether a reshape shares the tensor's memory; None where that is not known."""
    strides = strides_of(context, tensor)
    found = None if strides is None else _reshaped(context, tensor.type_.dims, strides, shape)
    return found if found is None or found is False else True


def strides_of(context: Context, tensor: Any) -> Strides | None:
    """A tensor's strides, in elements; None where they are not known."""
    type_, strides = tensor.storage.type, _of_storage(context, tensor.storage)
    shape, d = type_.dims, type_.dtype
    for op, attrs in tensor.path:
        if strides is None:
            return None
        if op == "view_dtype":
            shape, d, same = other_dtype(TensorType(d, shape), **attrs).dims, attrs["dtype"], (
                d.itemsize == attrs["dtype"].itemsize)
            strides = strides if same else _row_order(shape)  # numbers of another size: only where they were in order
            continue
        shape, strides = _viewed(context, shape, strides, op, attrs)
    return strides


def _of_storage(context: Context, storage: Any) -> Strides | None:
    shape = storage.type.dims
    if storage.input < 0:
        return _row_order(shape) if storage.ordered and not storage.alias else None
    known = of(context)
    if storage in known.given:
        return known.given[storage]
    if context.inputs.contiguous(storage):
        strides = _row_order(shape)
    else:
        found: list[Size] = [0] * len(shape)
        step: Size = 1
        for axis, how in reversed(context.inputs.memory_order(storage)):
            if how == REPEATED:
                continue
            if how != BEHIND:
                symbol, gap = Symbol(), Symbol()
                known.apart[symbol] = dim(gap) + (step + 1 if how == APART else 1)
                known.gaps.add(gap)
                step = dim(symbol)
            found[axis] = step
            step = step * shape[axis]
        strides = tuple(found)
    known.given[storage] = strides
    return strides


def _row_order(shape: Sequence[Size]) -> Strides:
    behind = [max(n, 1) if isinstance(n, int) else n for n in shape]  # an axis of nothing counts as one, as in torch
    return tuple([product(behind[i + 1:]) for i in range(len(shape))])


def _viewed(context: Context, shape: Strides, strides: Strides, op: str, attrs: Mapping[str, Any]
            ) -> tuple[Strides, Strides | None]:
    """The sizes and strides of a view."""
    at = attrs.get("axis", 0)
    match op:
        case "alias" | "detach":
            return shape, strides
        case "permute":
            return tuple([shape[a] for a in attrs["axes"]]), tuple([strides[a] for a in attrs["axes"]])
        case "select" | "squeeze":
            return (*shape[:at], *shape[at + 1:]), (*strides[:at], *strides[at + 1:])
        case "unsqueeze":
            return (*shape[:at], 1, *shape[at:]), (*strides[:at], 0, *strides[at:])
        case "slice":
            return ((*shape[:at], attrs["length"], *shape[at + 1:]),
                    (*strides[:at], strides[at] * attrs["step"], *strides[at + 1:]))
        case "expand":
            target = attrs["shape"]
            lead = len(target) - len(shape)
            found: list[Size] = [0] * lead
            for now, before, stride in zip(target[lead:], shape, strides, strict=True):
                one = _equal(context, before, 1)
                if one is None:
                    return target, None
                found.append(0 if one and _equal(context, now, 1) is not True else stride)
            return target, tuple(found)
        case "reshape":
            made = _reshaped(context, shape, strides, attrs["shape"])
            return attrs["shape"], made if isinstance(made, tuple) else None
        case "diagonal":
            two = attrs["axis1"], attrs["axis2"]
            rest = [s for a, s in enumerate(strides) if a not in two]
            return _made(op, shape, attrs), (*rest, strides[two[0]] + strides[two[1]])
        case "windows":
            steps = *strides[:at], strides[at] * attrs["step"], *strides[at + 1:], strides[at] * attrs["dilation"]
            return _made(op, shape, attrs), steps
    return shape, None


def _made(op: str, shape: Strides, attrs: Mapping[str, Any]) -> Strides:
    spec = OPS[op].spec
    assert spec is not None
    made: TensorType = spec(TensorType(float32, shape), **attrs)
    return made.dims


def _in_row_order(context: Context, shape: Sequence[Size], strides: Strides) -> bool | None:
    if any(context.sizes.hint(n) == 0 and context.sizes.assume_equal(n, 0) for n in shape):
        return True
    step: Size = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        one = _equal(context, size, 1)
        if one:
            continue
        same = _equal(context, stride, step)  # if so, it does not matter whether the axis has one element
        if not same:
            return None if one is None else same
        step = step * size
    return True


def _reshaped(context: Context, shape: Sequence[Size], strides: Strides, target: Sequence[Size]
              ) -> Strides | bool | None:
    """The strides of a reshape that shares memory; False where it copies, None where that is not known.

    Axes are taken from the front in groups of equal numbers of elements; those of a group must lie behind one another.
    """
    whole = _in_row_order(context, shape, strides)
    if whole:
        return _row_order(target)
    ones = [_equal(context, size, 1) for size in (*shape, *target)]
    if None in ones:
        return None
    axes = [(s, t) for s, t, one in zip(shape, strides, ones, strict=False) if not one]
    left = [(k, s) for k, (s, one) in enumerate(zip(target, ones[len(shape):], strict=True)) if not one]
    found: list[Size] = [0] * len(target)
    while axes and left:
        old, new = [axes.pop(0)], [left.pop(0)]
        while True:
            a, b = product([s for s, _ in old]), product([s for _, s in new])
            if context.sizes.equal(a, b):
                break
            if not axes and not left:  # the numbers of elements, which the reshape has compared
                context.sizes.assume_equal(a, b)
                break
            x, y = context.sizes.hint(a), context.sizes.hint(b)
            if x is None or y is None:
                return None
            if x == y and context.sizes.assume_equal(a, b):
                break
            if x == y or not (left if y < x else axes):
                return None
            if y < x:
                new.append(left.pop(0))
            else:
                old.append(axes.pop(0))
        for (_, stride), (size, after) in itertools.pairwise(old):
            behind = _equal(context, stride, after * size)
            if not behind:
                return behind
        step = old[-1][1]
        for k, size in reversed(new):
            found[k] = step
            step = step * size
    return tuple(found) if not axes and not left else None


def _equal(context: Context, a: Size, b: Size) -> bool | None:
    """Whether two sizes or strides are equal, guarded to be so or not; None where the arguments do not say it."""
    sizes = context.sizes
    a, b = sizes.canonical(a), sizes.canonical(b)
    if a == b:
        return True
    if (isinstance(a, int) and isinstance(b, int)) or a == 0 or b == 0:
        return False  # of no elements nothing is asked
    apart = of(context).apart
    for s in apart.keys() & symbols(a) & symbols(b):
        x, y = (call("floordiv", size, dim(s)) for size in (a, b))
        if s not in symbols(x) | symbols(y):
            return _equal(context, x, y)
    if (b == 1 and is_not_one(a)) or (a == 1 and is_not_one(b)) or _is_positive(context, a - b) or (
            _is_positive(context, b - a)):
        return False
    first, second = sizes.hint(a), sizes.hint(b)
    if not first or not second:
        return None
    if first == second:
        return True if sizes.assume_equal(a, b) else None
    differs = (call("not_one", a - b + 1), 1)
    if differs[0] != 1 and differs not in sizes.trips:
        sizes.trips.append(differs)
    return False


def _is_positive(context: Context, size: Size) -> bool:
    """Whether a difference of sizes is known to be positive, where no axis is empty."""
    known = of(context)
    while known.apart.keys() & symbols(size):
        size = substitute(size, known.apart)
    least = {s: dim(s) + (2 if s.not_one else 1) for s in symbols(size) if s not in known.gaps}
    return context.sizes.at_least(substitute(size, least), 1)
