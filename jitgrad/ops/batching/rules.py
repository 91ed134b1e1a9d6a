"""What an op on one item is on a batch of them: the same op, or others, on tensors with one more axis in front.

A rule is `(B, *xs, **attrs)` -> the result (or tuple of results) for the whole batch, its items along axis 0. `B` has
the operands' helpers (`Operands`); `attrs` are those of one item. Most rows have the rule of their kind; the others
have theirs on the row (`OpDef.batch`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.ops.namespaces import Namespace
from jitgrad.ops.opdef import CONTRACT, GATHER, JOIN, OPAQUE, POINTWISE, REDUCE, SCAN, SORT, VIEW, Kind, OpDef

Rule = Callable[..., Any]
#: attrs that name axes of the operand
AXES = frozenset({"axis", "axis1", "axis2", "axes"})


class Operands:
    """The operands of one op, some of which have the batch's axis in front.

    Attributes:
        F: the namespace that runs ops on them.
        size: how many items there are.
        batched: which operands have the axis.
    """

    __slots__ = ("F", "batched", "op", "size", "xs")

    def __init__(self, F: Namespace, op: OpDef, size: Any, xs: Sequence[Any], batched: Sequence[bool]):
        self.F, self.op, self.size, self.xs, self.batched = F, op, size, tuple(xs), tuple(batched)

    def run(self, *xs: Any, **attrs: Any) -> Any:
        """The op itself."""
        return getattr(self.F, self.op.name)(*xs, **attrs)

    def rank(self, i: int) -> int:
        """The rank of an item of operand i."""
        ndim: int = self.xs[i].ndim
        return ndim - self.batched[i]

    def item_shape(self, i: int) -> tuple[Any, ...]:
        """The shape of an item of operand i."""
        shape = tuple(self.xs[i].shape)
        return shape[1:] if self.batched[i] else shape

    def aligned(self, rank: int) -> list[Any]:
        """The operands, of items that broadcast: those with the axis have axes of one after it, up to `rank` more."""
        return [lifted(self.F, x, rank + 1) if b else x for x, b in zip(self.xs, self.batched, strict=True)]

    def spread(self, i: int, rank: int | None = None) -> Any:
        """Operand i with the axis, its items of at least `rank` axes: repeated where it has it not."""
        x = self.xs[i]
        if not self.batched[i]:
            x = repeated(self.F, x, self.size)
        return x if rank is None else lifted(self.F, x, rank + 1)


def repeated(F: Namespace, x: Any, size: Any) -> Any:
    """x for each of `size` items."""
    return F.expand(F.unsqueeze(x, axis=0), shape=(size, *x.shape))


def lifted(F: Namespace, x: Any, rank: int) -> Any:
    """x, which has the batch's axis in front, with axes of one behind that, so that it has `rank`."""
    for _ in range(rank - x.ndim):
        x = F.unsqueeze(x, axis=1)
    return x


def shifted(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attrs whose axes are those behind the batch's."""
    return {k: (tuple([a + 1 for a in v]) if k == "axes" else v + 1) if k in AXES else v for k, v in attrs.items()}


def to_front(F: Namespace, x: Any, axis: int) -> Any:
    """x with an axis moved to the front."""
    return x if axis == 0 else F.permute(x, axes=(axis, *(a for a in range(x.ndim) if a != axis)))


# --- the rules of kinds --------------------------------------------------------------------------------------------


def pointwise(B: Operands, *xs: Any, **attrs: Any) -> Any:
    """Items broadcast against each other."""
    rank = max([B.rank(i) for i in range(len(xs))])
    return B.run(*B.aligned(rank), **attrs)


def along_axes(B: Operands, x: Any, **attrs: Any) -> Any:
    """One operand; axes are one further."""
    return B.run(x, **shifted(attrs))


def alike(B: Operands, *xs: Any, **attrs: Any) -> Any:
    """All operands have the axis, which is one like the others of the op."""
    return B.run(*[B.spread(i) for i in range(len(xs))], **shifted(attrs))


#: by kind; a row's own rule goes first
RULES: dict[Kind, Rule] = {POINTWISE: pointwise, REDUCE: along_axes, SCAN: alike, SORT: along_axes,
                           VIEW: along_axes, JOIN: alike, GATHER: alike, CONTRACT: pointwise, OPAQUE: alike}


def rule_of(op: OpDef) -> Rule | None:
    """How `op` is applied to a batch; None where it cannot be."""
    return op.batch if callable(op.batch) else None if op.batch is not None else RULES.get(op.kind)
