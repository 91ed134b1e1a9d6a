"""The units of one block: items, which kernels can hold, and other nodes. What each reads, and what comes before it.

These are the facts by which a block is fused and ordered: `classify` finds them, fusion for a device adds to them.
"""

import heapq
from typing import Any

from jitgrad.codegen.lower.fuse import Group, Item
from jitgrad.codegen.lower.state import Lowering
from jitgrad.script.graph.ir import Block, Node, Value


class Units:
    """What is known about a block's units.

    Attributes:
        items: the nodes that kernels can hold.
        item_of: result -> its item.
        producers: value -> the item or node that makes it; no views, and nothing that is repeated.
        depends: unit -> those that have to come before it.
        positions: unit -> its place in the graph.
        consumers: value -> the items that read it.
        reads: unit -> the values that it reads.
        stored: values that something other than a kernel reads.
        effects: the units with effects that are no items, each of which needs those before it.
        group_of: item -> its kernel, after fusion.
        rows: value -> what writes it into memory that a loop keeps, and that its kernel may do instead.
    """

    def __init__(self, state: Lowering, block: Block):
        self.state, self.block = state, block
        self.items: list[Item] = []
        self.item_of: dict[Value, Item] = {}
        self.producers: dict[Value, Item | Node] = {}
        self.depends: dict[object, set[object]] = {}
        self.positions: dict[object, int] = {}
        self.consumers: dict[Value, list[Item]] = {}
        self.reads: dict[object, set[Value]] = {}
        self.stored: set[Value] = set()
        self.effects: list[Node] = []
        self.group_of: dict[Item, Group] = {}
        self.rows: dict[Value, Node] = {}

    def leaves(self, base: Value) -> set[Value]:
        """What is in memory of what an expression that is repeated reads."""
        found = self.state.inlined.get(base)
        if found is None:
            return {base}
        return set().union(*(self.leaves(self.state.base(v)) for v in found[0].inputs))

    def readers(self) -> dict[Value, list[Any]]:
        """What is read -> the units that read it."""
        found: dict[Value, list[Any]] = {}
        for unit, reads in self.reads.items():
            for v in reads:
                found.setdefault(v, []).append(unit)
        return found

    def is_needed(self, value: Value, group: Group) -> bool:
        """Whether somebody outside the group reads an item's result."""
        if value in self.stored or value in self.state.dest:
            return True
        return any(self.group_of[item] is not group for item in self.consumers.get(value, ()))

    def is_apart(self, producer: Node, consumer: Node) -> bool:
        """Whether two nodes that could not merge did not come together by another way either."""
        first, second = (self.item_of[n.outputs[0]] for n in (producer, consumer))
        groups = self.group_of
        return first in groups and second in groups and groups[first] is not groups[second]  # or made where it is read

    def split(self, item: Item, part: Item) -> None:
        """A sum and a part of it, which reads what the sum read (see `column_sums.py`)."""
        self.items.append(part)
        self.item_of[part.out] = self.producers[part.out] = part
        self.positions[part] = self.positions[item]
        self.reads[part], self.reads[item] = self.reads[item], {part.out}
        for operand in part.operands:
            users = self.consumers[operand.base]
            users[users.index(item)] = part
        self.consumers[part.out] = [item]
        self.stored.add(part.out)

    def ordered(self, groups: list[Group]) -> list[Group | Node]:
        """Groups and other nodes so that everything comes after what it needs, else in program order."""
        cluster: dict[object, Any] = {item: g for g in groups for item in g.items}
        clusters: dict[Any, int] = {}
        for unit, position in self.positions.items():
            c = cluster.get(unit, unit)
            clusters[c] = max(clusters.get(c, -1), position)
        waits: dict[Any, set[Any]] = {c: set() for c in clusters}
        for unit, needs in self.depends.items():
            c = cluster.get(unit, unit)
            waits[c].update(cluster.get(n, n) for n in needs)
        users: dict[Any, list[Any]] = {c: [] for c in clusters}
        counts: dict[Any, int] = {}
        for c, needs in waits.items():
            needs.discard(c)
            counts[c] = len(needs)
            for n in needs:
                users[n].append(c)
        ready = [(position, c) for c, position in clusters.items() if not counts[c]]
        heap = [(position, number, c) for number, (position, c) in enumerate(ready)]
        heapq.heapify(heap)
        result: list[Group | Node] = []
        tie = len(heap)
        while heap:
            _, _, c = heapq.heappop(heap)
            result.append(c)
            for user in users[c]:
                counts[user] -= 1
                if not counts[user]:
                    tie += 1
                    heapq.heappush(heap, (clusters[user], tie, user))
        assert len(result) == len(clusters), "the fusion groups of a block need each other"
        return result
