"""Kernels that reduce rows and, in the same pass, add up columns, or everything: the backward of a layer norm.

`dx` needs sums along each row, the gradients of weight and bias sums over all rows: two kernels would read everything
twice. A sum over all outer axes of a kernel that reduces rows becomes two items: one that joins that kernel, where each
block of rows has sums of its own, and one that adds up the blocks' sums, in their order. On the CPU a sum over all axes
becomes that of each row, in the kernel, and of these.
Such sums wait until all else is fused, so that what is computed of the elements is with the rows.
"""

from jitgrad.codegen.lower.fuse import MAX_ITEMS, MAX_OPERANDS, Fusion, Group, Item, Operand
from jitgrad.codegen.lower.state import tensor
from jitgrad.codegen.lower.units import Units
from jitgrad.codegen.program.kernel import ROWS
from jitgrad.dims import Size, floordiv, product
from jitgrad.dtypes import float32
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node, Value

#: blocks that add up columns on devices, two for each of 132 multiprocessors; where there are fewer rows, others' sums
#: are zero
PARTS = 264
#: ends of sums in one kernel on devices, where a launch costs as much as several; a kernel of all would grow with them
TOGETHER = 8


class ColumnSums:
    """The sums over columns, and over everything, of one block."""

    def __init__(self, units: Units, fusion: Fusion, device: bool):
        self.units, self.fusion, self.device = units, fusion, device
        rows = {(item.space, frozenset(range(len(item.space))) - item.inner) for item in fusion.items if item.inner}
        spaces = {space for space, outer in rows if outer}
        self.sums = {item for item in fusion.items
                     if item.node.op == "sum" and tensor(item.out).dtype.is_floating_point and (
                         item.space in spaces if self.is_total(item) else
                         _leading(item) and (item.space, item.inner) in rows)}

    def is_total(self, item: Item) -> bool:
        """Whether a sum is one over everything that a kernel may take along."""
        return not self.device and len(item.inner) == len(item.space) > 1

    def join(self) -> None:
        """Split the sums that may join a kernel over rows."""
        ends: list[Item] = []
        for item in sorted(self.sums, key=lambda i: i.index):
            (operand,) = item.operands
            for group in self.fusion.holders(operand):
                axes = self.axes(group, item, operand)
                if axes is not None and self.split(item, group, axes):
                    ends.append(item)
                    break
        self.together(ends)

    def axes(self, group: Group, item: Item, operand: Operand) -> tuple[int, ...] | None:
        """The group's axes that are the sum's, where it sums over those that the group does not reduce, or over all."""
        if not group.inner or not group.outer or operand.stored or len(group.space) != len(item.space):
            return None
        found = self.fusion.places(group, operand)
        if found is None or len(found) != len(item.space):
            return None
        axes = tuple([found[a] for a in range(len(item.space))])
        summed = set(range(len(axes)) if self.is_total(item) else group.outer)
        fits = (sorted(axes) == list(range(len(axes))) and {axes[a] for a in item.inner} == summed
                and all(group.space[axes[a]] == n for a, n in enumerate(item.space)))
        return axes if fits else None

    def split(self, item: Item, group: Group, axes: tuple[int, ...]) -> bool:
        """Let a part of the sum join the group; what is left of it adds up the blocks' sums."""
        fusion, units = self.fusion, self.units
        alone = fusion.group[item]
        read = fusion.producers.get(item.operands[0].base) is not None  # so the sum comes after the group
        room = fusion.room(group, alone) if read else fusion.unrelated(group, alone)
        if (room is None or len(group.items) >= MAX_ITEMS or len(group.sources) + 1 >= MAX_OPERANDS
                or len(alone.items) > 1):
            return False
        d, rank = tensor(item.out).dtype, len(item.space)
        blocks: tuple[Size, ...] = ()
        if self.is_total(item):  # the sums of rows, all of which are summed at the end
            kept = [a for a in range(rank) if axes[a] in group.outer]
            inner, summed = frozenset(range(rank)) - {*kept}, tuple(range(len(kept)))
        else:  # those of columns in blocks of rows
            kept = [a for a in range(rank) if a not in item.inner]
            inner, blocks, summed = frozenset(), (self.blocks(group),), (0,)
        space = (*blocks, *[item.space[a] for a in kept])
        partial = Value(TensorType(float32 if d.is_half else d, space))
        part = Item(item.node, partial, item.space, inner, item.operands, (*[-1 for _ in blocks], *kept), item.index,
                    bool(blocks))
        # --- the sum reads the parts from here on
        everything = tuple([(a, 1, 0) for a in range(len(space))])
        item.node = Node("sum", (partial,), {"axes": summed, "keepdim": False}, (item.out,), (), item.node.span)
        item.space, item.inner = space, frozenset(summed)
        item.out_axes = tuple([1 + kept.index(a) if blocks and a in kept else -1 for a in item.out_axes])
        item.operands = [Operand(partial, everything, True, frozenset({part}))]
        fusion.split(item, part)
        units.split(item, part)
        if room[1] is not None and fusion.ranks[group] > fusion.ranks[fusion.group[part]]:
            room = None, room[1] | {fusion.group[item]}
        fusion.absorb(group, fusion.group[part], axes, room)
        return fusion.group[part] is fusion.group[group.items[0]]

    def blocks(self, group: Group) -> Size:
        """How many blocks of rows have sums of their own."""
        rows = product([group.space[a] for a in group.outer])
        return PARTS if self.device else floordiv(rows + (ROWS - 1), ROWS)

    def together(self, ends: list[Item]) -> None:
        """The ends of sums over equally many columns are one kernel, which waits for the last of those.

        On the CPU that is so of sums that one kernel takes along: those of equal layers are then equal kernels.
        """
        fusion = self.fusion
        for k, end in enumerate(ends):
            own = fusion.group[end]
            for other in dict.fromkeys(fusion.group[item] for item in ends[:k]):
                fits = other is not own and (other.space, other.inner) == (own.space, own.inner) and (
                    len(other.items) < TOGETHER if self.device else self.source(other.items[0]) is self.source(end))
                room = fusion.unrelated(other, own) if fits else None
                if room is not None:
                    fusion.absorb(other, own, tuple(range(len(own.space))), room)
                    break

    def source(self, end: Item) -> Group:
        """The kernel that an end's parts are from."""
        (operand,) = end.operands
        return self.fusion.group[self.fusion.producers[operand.base]]


def _leading(item: Item) -> bool:
    """Whether an item reduces its first axes and keeps the others."""
    return 0 < len(item.inner) < len(item.space) and item.inner == frozenset(range(len(item.inner)))
