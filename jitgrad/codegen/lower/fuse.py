"""Which nodes become one kernel.

An `Item` is a pointwise, reducing or gathering node with its own iteration space (axes of size 1 left out). A `Group`
is a set of items over one space; it grows along the edges from producers to consumers. Two groups merge where every
value that flows between them is read at the index at which it was made, and

- both have the same axes, and at most one set of reduced axes (chains, producers into reductions, softmax's division);
- or the producer has one value per row of the consumer's reduction;
- or the consumer reads a reduction's result once per row, or repeated back over the reduced axes (softmax, layer norm).

Afterwards siblings over the same space that read the same memory merge. Before: `m = amax(x); e = exp(x - m);
s = sum(e); y = e / s`; after: one group, outer (N,), inner (D,). Reductions over different axes never share a group,
but for sums that a kernel over rows takes along (`column_sums.py`).
"""

from collections.abc import Callable, Sequence

from jitgrad.classes import dataclass
from jitgrad.codegen.program.access import NOWHERE, IndexMap
from jitgrad.dims import Size
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node, Value

#: limits of one kernel: distinct memory operands, and nodes
MAX_OPERANDS, MAX_ITEMS = 40, 160

#: of two groups that merge: what the later one needs that comes after the earlier one, or else (the other is None)
#: what needs the earlier one and comes before the later one
Room = tuple["set[object] | None", "set[object] | None"]


@dataclass(slots=True, eq=False)
class Operand:
    """A value that an item reads, at an index map over the item's axes.

    Attributes:
        stored: it has to be in memory.
        makers: then, the units that make it, or what it is a view of.
    """

    base: Value
    entries: IndexMap
    stored: bool = False
    makers: frozenset[object] = frozenset()


@dataclass(slots=True, eq=False)
class Item:
    """A node that a kernel can hold.

    Attributes:
        space: sizes of its axes.
        inner: those that it reduces.
        out_axes: per axis of the result, the axis of the space, or -1 where the result has size 1.
        index: position in the block.
        column_sum: it sums over the axes that the other items of its kernel do not reduce; see `column_sums.py`.
    """

    node: Node
    out: Value
    space: tuple[Size, ...]
    inner: frozenset[int]
    operands: list[Operand]
    out_axes: tuple[int, ...]
    index: int
    column_sum: bool = False

    @property
    def own(self) -> IndexMap:
        """How the result is read at the index at which it is made."""
        return tuple((a, 1, 0) if a >= 0 else NOWHERE for a in self.out_axes)


@dataclass(slots=True, eq=False)
class Group:
    """Items over one space. `maps`: item -> its axes as axes of the space. `sources`: memory that it reads."""

    space: tuple[Size, ...]
    inner: frozenset[int]
    items: list[Item]
    maps: dict[Item, tuple[int, ...]]
    sources: set[Value]

    @property
    def outer(self) -> list[int]:
        return [a for a in range(len(self.space)) if a not in self.inner]


class Fusion:
    """Grows groups. `depends[item]` are the units (items or other nodes) of the block that an item needs.

    `chain`: units that are no items and need one another, each all before it. Ways through it are long, and known.
    """

    def __init__(self, items: list[Item], producers: dict[Value, Item], depends: dict[object, set[object]],
                 chain: Sequence[object] = ()):
        self.items, self.producers, self.depends = items, producers, depends
        self.group: dict[object, Group] = {}
        self.reasons: list[tuple[Node, Node, str]] = []
        self.readers: dict[Value, list[Item]] = {}  # of memory that no item makes: which items may read it
        for item in self.items:
            sources = {o.base for o in item.operands if o.base not in producers}
            for base in sources:
                self.readers.setdefault(base, []).append(item)
            self.group[item] = Group(item.space, item.inner, [item], {item: tuple(range(len(item.space)))}, sources)
        order = _sorted(depends)
        self.ranks: dict[object, tuple[int, ...]] = {self.group.get(u, u): (rank,) for rank, u in enumerate(order)}
        self.users: dict[object, dict[object, None]] = {}
        for unit, needed in depends.items():
            for d in needed:
                self.users.setdefault(d, {})[unit] = None
        links = {unit: number for number, unit in enumerate(chain)}
        self.links = len(links)
        #: the last link that an item needs, and the first one that needs it
        self.needed: dict[object, int] = {}
        self.needing: dict[object, int] = {}
        for unit in order:
            self.needed[unit] = max([links.get(d, self.needed[d]) for d in depends[unit]], default=-1)
        for unit in reversed(order):
            self.needing[unit] = min([links.get(u, self.needing[u]) for u in self.users.get(unit, ())],
                                     default=self.links)

    def run(self, late: Callable[[Item, Item], bool] | None = None,
            join: Callable[[], None] | None = None) -> list[Group]:
        """All groups, after merging. Edges (producer, consumer) that are `late` come last, after `join` was called."""
        last: list[tuple[Item, Item, Operand]] = []
        for item in self.items:
            for operand in item.operands:
                producer = self.producers.get(operand.base)
                if producer is None:
                    continue
                if late is not None and late(producer, item):
                    last.append((producer, item, operand))
                else:
                    self.try_merge(producer, item, operand)
        if join is not None:
            join()
        for producer, item, operand in last:
            if operand in item.operands:
                self.try_merge(producer, item, operand)
        self.merge_siblings()
        return list(dict.fromkeys(self.group[item] for item in self.items))

    def try_merge(self, producer: Item, consumer: Item, operand: Operand) -> None:
        first, second = self.group[producer], self.group[consumer]
        if first is second:
            return
        plan = self.plan(first, second, producer, consumer, operand)
        if isinstance(plan, str):
            self.reasons.append((producer.node, consumer.node, plan))
            return
        room = self.room(first, second)
        if room is None:
            self.reasons.append((producer.node, consumer.node, "something between them is not part of a kernel"))
        else:
            self.merge(first, second, *plan, room)

    def plan(self, first: Group, second: Group, producer: Item, consumer: Item,
             operand: Operand) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Size, ...], frozenset[int]] | str:
        """Maps of both groups' axes into the merged space, and that space; or why not."""
        if len(first.items) + len(second.items) > MAX_ITEMS or len(first.sources | second.sources) > MAX_OPERANDS:
            return "the kernel would be too large"
        match = self.match(first, second, producer, consumer, operand)
        if isinstance(match, str):
            return match
        free1 = [a for a in range(len(first.space)) if a not in match]
        free2 = [a for a in range(len(second.space)) if a not in match.values()]
        if not free1 and not free2:
            moved = frozenset(match[a] for a in first.inner)
            if moved and second.inner and moved != second.inner:
                return "they reduce different axes"
        elif not free1:
            if first.inner or frozenset(free2) != second.inner:
                return "the value is repeated over axes that the consumer does not reduce"
        else:
            if frozenset(free1) != first.inner:
                return "the value is read along only some axes of its space"
            if not free2:
                if second.inner:
                    return "a reduction of a reduction"
            elif [first.space[a] for a in free1] != [second.space[a] for a in free2]:
                return "different sizes of the reduced axes"
            elif second.inner and frozenset(free2) != second.inner:
                return "they reduce different axes"
        # the merged space: the consumer's axes, then axes that only the producer reduces
        place, space = dict(match), list(second.space)
        if free1 and free2:
            place.update(zip(free1, free2, strict=True))
        else:
            for a in free1:
                place[a] = len(space)
                space.append(first.space[a])
        map1 = tuple(place[a] for a in range(len(first.space)))
        inner = frozenset(map1[a] for a in first.inner) | second.inner
        return map1, tuple(range(len(second.space))), tuple(space), inner

    @staticmethod
    def match(first: Group, second: Group, producer: Item, consumer: Item, operand: Operand) -> dict[int, int] | str:
        """The producer's axes that this edge identifies with axes of the consumer."""
        if operand.stored:
            return "the consumer reads it by index"
        match: dict[int, int] = {}
        map1, map2 = first.maps[producer], second.maps[consumer]
        for axis, entry in zip(producer.out_axes, operand.entries, strict=True):
            if axis < 0:
                continue
            if entry[0] < 0 or entry[1] != 1 or entry[2] != 0:
                return "the consumer reads a slice, or repeats it"
            here, there = map1[axis], map2[entry[0]]
            if first.space[here] != second.space[there]:
                return "different sizes"
            if match.get(here, there) != there or (there in match.values() and here not in match):
                return "the consumer reads it at another index"
            match[here] = there
        return match

    def merge(self, first: Group, second: Group, map1: tuple[int, ...], map2: tuple[int, ...],
              space: tuple[Size, ...], inner: frozenset[int], room: Room) -> None:
        """Make one group of two, which have `room` for it."""
        maps = {**_moved(first.maps, map1), **_moved(second.maps, map2)}
        low, high = (first, second) if self.ranks[first] < self.ranks[second] else (second, first)
        if not self.consistent(low, high, maps):
            self.reasons.append((first.items[-1].node, second.items[-1].node, "a value is read at two indices"))
            return
        items = sorted(first.items + second.items, key=lambda i: i.index)
        group = Group(space, inner, items, maps, first.sources | second.sources)
        self.join(low, high, group, room)
        for item in items:
            self.group[item] = group

    def absorb(self, group: Group, other: Group, axes: tuple[int, ...], room: Room) -> None:
        """Make one group of two in the space of the first, of which `axes` are the other's."""
        self.merge(group, other, tuple(range(len(group.space))), axes, group.space, group.inner, room)

    def consistent(self, low: Group, high: Group, maps: dict[Item, tuple[int, ...]]) -> bool:
        """Whether everything that flows from one to the other is read at the index at which it is made."""
        producers, group = self.producers, self.group
        for item in high.items:
            for operand in item.operands:
                if any(group.get(maker) is low for maker in operand.makers):
                    return False
                producer = producers.get(operand.base)
                if producer is None or group[producer] is not low:
                    continue
                for axis, (a, factor, shift) in zip(producer.out_axes, operand.entries, strict=True):
                    if axis >= 0 and (a < 0 or factor != 1 or shift != 0 or maps[item][a] != maps[producer][axis]):
                        return False
        return True

    # --- order ---
    # Groups and the other units have ranks, compared as tuples: each has a greater one than what it needs. So a search
    # for a way from one group to another looks only at what lies between the two.

    def room(self, low: Group, high: Group) -> Room | None:
        """What has to move so that the two may be one; None where a way from `low` to `high` leads through a third.

        A search up from `high` and one down from `low` take turns, the one that has cost less first, until they meet or
        either ends:
        what the update of a parameter needs may be most of a program that comes after its gradient, but of that
        nothing except the update needs the gradient.
        """
        begins = min([self.needing.get(item, self.links) for item in low.items])
        if begins <= max([self.needed.get(item, -1) for item in high.items]):
            return None
        ranks, group = self.ranks, self.group
        begin, end = ranks[low], ranks[high]
        before: set[object] = set()
        behind: set[object] = set()
        up: list[object] = [high]
        down: list[object] = [low]
        costs = [0, 0]
        while up and down:
            side = costs[0] > costs[1]
            waiting, seen, others, start, goal = (
                (down, behind, before, low, high) if side else (up, before, behind, high, low))
            unit = waiting.pop()
            for part in unit.items if isinstance(unit, Group) else (unit,):
                neighbours = self.users.get(part, ()) if side else self.depends[part]
                costs[side] += len(neighbours)
                for n in neighbours:
                    near = group.get(n, n)
                    if near is goal:
                        if unit is not start:
                            return None
                    elif near is not start and near not in seen and begin < ranks[near] < end:
                        if near in others:
                            return None
                        seen.add(near)
                        waiting.append(near)
        return (before, None) if not up else (None, behind)

    def join(self, low: Group, high: Group, merged: Group, room: Room) -> None:
        """Put a merged group in the place of the earlier one, behind what has to come before it, or in that of the
        later one, ahead of what has to come after it. Nothing else moves: those get ranks that extend the place's.

        Source: after Pearce and Kelly, "A Dynamic Topological Sort Algorithm for Directed Acyclic Graphs", JEA 2007.
        """
        ranks = self.ranks
        before, behind = room
        first, last = ranks.pop(low), ranks.pop(high)
        if before is not None:
            moved = [*sorted(before, key=ranks.__getitem__), merged]
            place = first
        else:
            assert behind is not None
            moved = [merged, *sorted(behind, key=ranks.__getitem__)]
            place = last
        if len(moved) == 1:
            ranks[merged] = place
        else:
            ranks.update((unit, (*place, i)) for i, unit in enumerate(moved))

    def split(self, item: Item, part: Item) -> None:
        """`item`, alone so far, now reads `part`, which reads what it read before; `part` is in its place."""
        rank = self.ranks.pop(self.group[item])
        for unit, suffix in ((part, 0), (item, 1)):
            axes = tuple(range(len(unit.space)))
            sources = {o.base for o in unit.operands if o.base not in self.producers and not o.stored}
            for base in sources:
                self.readers.setdefault(base, []).append(unit)
            group = self.group[unit] = Group(unit.space, unit.inner, [unit], {unit: axes}, sources)
            self.ranks[group] = (*rank, suffix)
        self.depends[part], self.depends[item] = self.depends[item], {part}
        for d in self.depends[part]:
            users = self.users[d]
            del users[item]
            users[part] = None
        self.users[part] = {item: None}

    def merge_siblings(self) -> None:
        """Groups over the same space that read the same memory and do not need each other."""
        buckets: dict[object, list[Group]] = {}
        for group in dict.fromkeys(self.group[item] for item in self.items):
            buckets.setdefault((group.space, group.inner), []).append(group)
        for groups in buckets.values():
            current = groups[0]
            for other in groups[1:]:
                small = (len(current.items) + len(other.items) <= MAX_ITEMS
                         and len(current.sources | other.sources) <= MAX_OPERANDS)
                room = self.unrelated(current, other) if small and _share_memory(current, other) else None
                if room is not None:
                    self.absorb(current, other, tuple(range(len(current.space))), room)
                    current = self.group[current.items[0]]
                else:
                    current = other

    def unrelated(self, a: Group, b: Group) -> Room | None:
        """The room for both as one; None where one needs the other in any way."""
        low, high = (a, b) if self.ranks[a] < self.ranks[b] else (b, a)
        if any(self.group.get(d) is low for item in high.items for d in self.depends[item]):
            return None
        return self.room(low, high)

    def holders(self, operand: Operand) -> list[Group]:
        """The kernels that have what an operand reads."""
        producer = self.producers.get(operand.base)
        if producer is not None:
            return [self.group[producer]]
        holders = dict.fromkeys(self.group[i] for i in self.readers.get(operand.base, ()) if i in self.group)
        return sorted((g for g in holders if operand.base in g.sources), key=lambda g: g.items[0].index)

    def places(self, group: Group, operand: Operand) -> dict[int, int] | None:
        """Axis of the reader `operand` -> axis of the group, by how both have what it reads."""
        producer = self.producers.get(operand.base)
        if producer is not None:
            return _matched(producer.own, group.maps[producer], operand)
        for reader in group.items:
            for other in reader.operands:
                if other.base is operand.base and not other.stored:
                    found = _matched(other.entries, group.maps[reader], operand)
                    if found is not None:
                        return found
        return None


def _share_memory(a: Group, b: Group) -> bool:
    """Whether two groups read the same memory, more than a number: the updates of all parameters read one rate."""
    return any(isinstance(v.type, TensorType) and any(n != 1 for n in v.type.dims) for v in a.sources & b.sources)


def _moved(maps: dict[Item, tuple[int, ...]], axes: tuple[int, ...]) -> dict[Item, tuple[int, ...]]:
    """The maps of a group's items into a space where each axis of the group is another one."""
    if axes == tuple(range(len(axes))):
        return maps
    return {item: tuple([axes[a] for a in own]) for item, own in maps.items()}


def _sorted(depends: dict[object, set[object]]) -> list[object]:
    """The units, each after those that it needs."""
    order: list[object] = []
    done: set[object] = set()
    begun: set[object] = set()
    number = {unit: i for i, unit in enumerate(depends)}  # a set has another order in another process
    for root in depends:
        stack = [root]
        while stack:
            unit = stack[-1]
            if unit in done:
                stack.pop()
                continue
            waiting = [d for d in depends[unit] if d not in done]
            if waiting:
                assert unit not in begun, "groups that need one another"
                begun.add(unit)
                stack += sorted(waiting, key=number.__getitem__, reverse=True)
            else:
                done.add(unit)
                order.append(stack.pop())
    return order


def _matched(entries: tuple[tuple[int, object, object], ...], axes: tuple[int, ...],
             operand: Operand) -> dict[int, int] | None:
    """Axis of the reader `operand` -> axis of the group, from how the group has the same value, dimension by dimension.
    """
    found: dict[int, int] = {}
    for have, want in zip(entries, operand.entries, strict=True):
        if have[0] < 0 and want[0] < 0:
            continue
        if have[0] < 0 or want[0] < 0 or have[1:] != want[1:]:
            return None
        if found.setdefault(want[0], axes[have[0]]) != axes[have[0]]:
            return None
    return found
