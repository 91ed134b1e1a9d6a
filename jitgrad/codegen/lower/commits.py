"""Writes to inputs: in what order, and in place where nothing can tell the difference.

A commit is a copy of a finished value into the input's memory. Where one kernel computes the value and reads the old
content element by element, as the update of a parameter does, the kernel writes the memory itself.
"""

from collections import Counter
from collections.abc import Sequence

from jitgrad.codegen.lower.fuse import Group, Item, Operand
from jitgrad.codegen.lower.rules.joins import aim
from jitgrad.codegen.lower.units import Units
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node, Value, walk


def order_commits(units: Units) -> None:
    """A write to an input waits for the reads of what was there."""
    state = units.state
    commits = [n for n in units.depends if isinstance(n, Node) and n.op == "commit"]
    if not commits:
        return
    readers = units.readers()
    for node in commits:
        target = state.graph.inputs[node.attrs["target"]]
        if isinstance(target.type, TensorType) and node.attrs["target"] not in state.originals:
            units.depends[node].update(u for u in readers.get(target, ()) if u is not node)


def aim_commits(units: Units, ordered: Sequence[Group | Node]) -> None:
    """Let kernels of the outermost block write inputs directly; `ordered` are groups and nodes in their final order."""
    state, inputs = units.state, units.state.graph.inputs
    if units.block is not state.graph.block or not any(isinstance(u, Node) and u.op == "commit" for u in ordered):
        return
    times = Counter(node.attrs["target"] for node in walk(state.graph.block) if node.op == "commit")
    place = {unit: k for k, unit in enumerate(ordered)}
    readers = units.readers()
    left = -1  # the last place so far where control or a value may leave the program
    for k, unit in enumerate(ordered):
        if not isinstance(unit, Node):
            continue
        if unit.op != "commit":
            if state.may_leave[unit]:
                left = k
            continue
        target, value = unit.attrs["target"], unit.inputs[0]
        item = units.item_of.get(value)
        if item is None or times[target] > 1 or target in state.originals or value in state.dest:
            continue
        group = units.group_of[item]
        old = inputs[target]
        others = [u for u in readers.get(old, ()) if u is not unit]
        last = max([place[units.group_of[u] if isinstance(u, Item) else u] for u in others], default=-1)
        own = [u for u in others if isinstance(u, Item) and units.group_of[u] is group]
        if left < place[group] and last <= place[group] and _same_elements(units, group, item, old, own):
            aim(state, value, state.refs[old])


def _same_elements(units: Units, group: Group, item: Item, old: Value, readers: Sequence[Item]) -> bool:
    """Whether a group's `readers` of `old` read it only where, and at the level at which, it makes the result of
    `item`."""
    def places(axes: Sequence[int], owner: Item) -> list[int]:
        mapped = group.maps[owner]
        return [mapped[a] if a >= 0 else -1 for a in axes]

    made = places(item.out_axes, item)
    if not group.inner.isdisjoint(made) or item.inner or not isinstance(old.type, TensorType):
        return False
    if not group.inner.isdisjoint(group.maps[item]):
        return False
    for other in readers:
        for operand in other.operands:
            if old not in units.leaves(units.state.base(operand.base)):
                continue
            if operand.stored or operand.base is not old or not group.inner.isdisjoint(group.maps[other]):
                return False
            if not _reads_at(operand, old.type, made, group.maps[other]):
                return False
    return True


def _reads_at(operand: Operand, type_: TensorType, made: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether an operand is read at the very index at which the result is made."""
    for size, out, (a, factor, shift) in zip(type_.dims, made, operand.entries, strict=True):
        if size != 1 and (a < 0 or factor != 1 or shift != 0 or axes[a] != out):
            return False
    return True
