"""Rematerialisation: what a kernel computes again because reading it from memory would move more bytes.

In a training step that is one program, `exp(y - max)` of a softmax is made by the kernel of the loss and read by the
one of the gradient, in float32: 4 bytes written and 4 read for each element, where `y` is 2. So when all is fused, a
value that flows from one kernel to others is made once more in each of them, if what they read for it, and what has to
be stored only for that, are fewer bytes. A number for each row costs next to nothing, a draw nothing.
How that is counted is said in `script/autodiff/rematerialise.py`, which does the same between programs.
"""

import math
from collections.abc import Iterable, Sequence

from jitgrad.codegen.lower.fuse import MAX_ITEMS, MAX_OPERANDS, Fusion, Group, Item, Operand
from jitgrad.codegen.lower.state import tensor
from jitgrad.codegen.lower.units import Units
from jitgrad.codegen.program.access import IndexMap
from jitgrad.ops.opdef import RANDOM, is_elementwise, is_kind
from jitgrad.ops.types import TensorType
from jitgrad.script.autodiff.frame import DEPTH
from jitgrad.script.autodiff.rematerialise import CostModel, Way
from jitgrad.script.graph.ir import Node, Value

#: an item, or an operand of one, with the axes of a group that are the item's
Placed = tuple[Item, tuple[int, ...]]
Read = tuple[Operand, tuple[int, ...]]
Chain = Way[Placed, tuple[Value, IndexMap]]


class Rematerialisation:
    """The groups of one block, after fusion."""

    def __init__(self, units: Units, fusion: Fusion):
        self.units, self.fusion = units, fusion
        self.given = units.state.given
        self.copies: dict[tuple[Group, Item, tuple[int, ...]], Item] = {}

    def run(self) -> None:
        for item in sorted(self.fusion.items, key=lambda i: -i.index):
            if item in self.fusion.group and is_repeatable(item):
                self.repeat(item)

    def repeat(self, item: Item) -> None:
        """Let the other groups that read a value make it, where all of them can and that is less."""
        own, width = self.fusion.group[item], tensor(item.out).dtype.itemsize
        readers: dict[Group, dict[tuple[int, ...], list[Item]]] = {}
        for reader in dict.fromkeys(self.units.consumers.get(item.out, ())):
            group = self.fusion.group[reader]
            if group is own:
                continue
            for operand in reader.operands:
                if operand.base is item.out:
                    axes = None if operand.stored else self.placed(item, operand.entries, group.maps[reader])
                    if axes is None:
                        return
                    readers.setdefault(group, {}).setdefault(axes, []).append(reader)
        if not readers or any(len(places) > 1 for places in readers.values()):
            return
        chains: list[Chain] = []
        left = width * (len(readers) + (0 if self.is_stored(item.out) else 1))  # bytes that the others may move
        for group, (axes,) in zip(readers, readers.values(), strict=True):
            chain = _InGroup(self, group, len(item.space)).again((item, axes), most=left - 1)
            if chain is None:
                return
            left -= chain.cost
            chains.append(chain)
        for group, chain in zip(readers, chains, strict=True):
            if (len(group.items) + len(chain.makers) > MAX_ITEMS
                    or len(group.sources | {base for base, _ in chain.reads}) > MAX_OPERANDS):
                return
        for (group, places), chain in zip(readers.items(), chains, strict=True):
            self.place(item, group, chain, *places.items())
        self.drop(item)

    # --- what it takes ---

    def placed(self, item: Item, entries: IndexMap, axes: Sequence[int]) -> tuple[int, ...] | None:
        """The group's axes that are an item's, where its result is read at the index at which it is made."""
        found: dict[int, int] = {}
        for axis, (a, factor, shift) in zip(item.out_axes, entries, strict=True):
            if axis >= 0:
                if a < 0 or factor != 1 or shift != 0:
                    return None
                found[axis] = axes[a]
        if len(found) < len(item.space) or len(set(found.values())) < len(found):
            return None
        return tuple([found[a] for a in range(len(item.space))])

    def is_read(self, group: Group, base: Value, where: IndexMap) -> bool:
        """Whether a group reads `base` there as it is."""
        readers = min(group.items, self.units.consumers.get(base, []), key=len)
        return any(operand.base is base and not operand.stored and moved(operand.entries, group.maps[i]) == where
                   for i in readers if self.fusion.group[i] is group for operand in i.operands)

    def is_kept(self, base: Value) -> bool:
        """Whether what no kernel of this block makes is there until the block ends, as it is."""
        if base in self.units.state.inlined:
            return all(v in self.given for v in self.units.leaves(base))
        return base in self.given or (
            isinstance(self.units.producers.get(base), Node) and base not in self.units.state.owned)

    def is_stored(self, value: Value) -> bool:
        return value in self.units.stored or value in self.units.state.dest

    def leaves_home(self, item: Item) -> bool:
        """Whether another kernel reads a value already."""
        group = self.fusion.group
        return any(group[reader] is not group[item] for reader in self.units.consumers.get(item.out, ()))

    # --- doing it ---

    def place(self, item: Item, group: Group, chain: Chain, use: tuple[tuple[int, ...], list[Item]]) -> None:
        """Put what is repeated into a group, and let its items read that."""
        copies = [self.copy(source, group, axes) for source, axes in chain.makers]
        if copies:
            group.items = sorted([*copies, *group.items], key=lambda i: i.index)
        axes, readers = use
        for reader in dict.fromkeys(readers):
            self.redirect(reader, item, self.copies[group, item, axes])

    def copy(self, item: Item, group: Group, axes: tuple[int, ...]) -> Item:
        """The same computation as a member of another group. What it reads is repeated before."""
        units, fusion = self.units, self.fusion
        out = Value(item.out.type, item.out.name)
        made = Item(item.node, out, item.space, item.inner, list(item.operands), item.out_axes, item.index)
        if item.out in units.state.created:
            units.state.created[out] = units.state.created[item.out]
        self.copies[group, item, axes] = made
        group.maps = {**group.maps, made: axes}
        fusion.group[made], fusion.producers[out] = group, made
        units.producers[out] = made
        units.items.append(made)
        units.positions[made], units.reads[made] = units.positions[item], set(units.reads[item])
        units.depends[made] = set(units.depends[item])
        for d in units.depends[made]:
            fusion.users.setdefault(d, {})[made] = None
        for operand in made.operands:
            units.consumers.setdefault(operand.base, []).append(made)
        for operand in item.operands:
            source = fusion.producers.get(operand.base)
            own = self.placed(source, operand.entries, axes) if source is not None else None
            again = self.copies.get((group, source, own)) if source is not None and own is not None else None
            if again is not None:
                assert source is not None
                self.redirect(made, source, again)
            elif source is None:
                group.sources = group.sources | {operand.base}
        return made

    def redirect(self, reader: Item, item: Item, again: Item) -> None:
        """Let `reader` read `again` instead of `item`."""
        units, users = self.units, self.fusion.users
        reader.operands = [Operand(again.out, o.entries) if o.base is item.out else o for o in reader.operands]
        units.consumers[item.out] = [r for r in units.consumers[item.out] if r is not reader]
        units.consumers.setdefault(again.out, []).append(reader)
        units.depends[reader].discard(item)
        units.depends[reader].add(again)
        units.reads[reader] = units.reads[reader] - {item.out} | {again.out}
        users.get(item, {}).pop(reader, None)
        users.setdefault(again, {})[reader] = None

    def drop(self, item: Item) -> None:
        """Forget what nobody reads any more."""
        units, fusion = self.units, self.fusion
        if units.consumers.get(item.out) or self.is_stored(item.out) or fusion.users.get(item):
            return
        group = fusion.group.pop(item)
        group.items = [i for i in group.items if i is not item]
        units.items.remove(item)
        for d in units.depends.pop(item):
            del fusion.users[d][item]
        del units.positions[item], units.reads[item]
        for operand in item.operands:
            units.consumers[operand.base] = [r for r in units.consumers[operand.base] if r is not item]
        for base in dict.fromkeys(operand.base for operand in item.operands):
            source = fusion.producers.get(base)
            if source is not None and source in fusion.group and is_repeatable(source):
                self.drop(source)


class _InGroup(CostModel[Read, Placed, tuple[Value, IndexMap]]):
    """What values cost in a group, for each element of one with `rank` axes."""

    def __init__(self, block: Rematerialisation, group: Group, rank: int):
        self.block, self.fusion, self.group, self.rank = block, block.fusion, group, rank

    def again(self, maker: Placed, depth: int = DEPTH, most: float = math.inf) -> Chain | None:
        if (self.group, *maker) in self.block.copies:
            return Way()
        return super().again(maker, depth, most) if is_repeatable(maker[0]) else None

    def stored(self, x: Read) -> dict[tuple[Value, IndexMap], int] | None:
        (operand, axes), block = x, self.block
        base, where = operand.base, moved(operand.entries, axes)
        producer = self.fusion.producers.get(base)
        if producer is not None and self.fusion.group[producer] is self.group:
            return None
        if not isinstance(base.type, TensorType) or block.is_read(self.group, base, where):
            return {}
        if producer is None and not block.is_kept(base):
            return None
        width = base.type.dtype.itemsize if len({a for a, *_ in where if a >= 0}) >= self.rank else 0
        new = producer is not None and not block.is_stored(base) and not block.leaves_home(producer)
        return {(base, where): width * (2 if new else 1)}

    def maker(self, x: Read) -> Placed | None:
        operand, axes = x
        producer = self.fusion.producers.get(operand.base)
        own = self.block.placed(producer, operand.entries, axes) if producer is not None else None
        return (producer, own) if producer is not None and own is not None else None

    def operands(self, maker: Placed) -> Iterable[Read]:
        item, axes = maker
        return [(operand, axes) for operand in item.operands]


def is_repeatable(item: Item) -> bool:
    """Whether an item may be computed twice: element by element, or drawn."""
    return (bool(item.space) and not item.inner and not item.column_sum and item.node.op not in ("index", "gather")
            and ((is_elementwise(item.node.op) and bool(item.operands)) or is_kind(item.node.op, RANDOM)))


def moved(entries: IndexMap, axes: Sequence[int]) -> IndexMap:
    """An index map over an item's axes as one over its group's."""
    return tuple([(axes[a] if a >= 0 else -1, factor, shift) for a, factor, shift in entries])
