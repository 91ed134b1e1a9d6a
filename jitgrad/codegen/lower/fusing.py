"""Fusion of one block: what is fused first, what kernels take along, what they compute again.

The nodes before a place where the program may leave are fused on their own, as are sums over columns, which wait for
all else (`column_sums.py`). A result that is an input (the gradient of a residual) is copied by a kernel that
reads it anyway. At last what costs more to store than to compute again is computed again (`rematerialise.py`).
"""

from jitgrad.codegen.lower.column_sums import ColumnSums
from jitgrad.codegen.lower.fuse import MAX_ITEMS, MAX_OPERANDS, Fusion, Group, Item
from jitgrad.codegen.lower.rematerialise import Rematerialisation
from jitgrad.codegen.lower.state import tensor
from jitgrad.codegen.lower.units import Units
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Graph, Node, Value, walk


def fused(units: Units, fusion: Fusion, device: bool) -> list[Group]:
    """All groups of a block."""
    times = eras(units)
    columns = ColumnSums(units, fusion, device)
    sums = columns.sums
    if sums or times:
        fusion.run(lambda a, b: a in sums or b in sums or times.get(a) != times.get(b), columns.join)
    else:
        fusion.run()
    for item in list(fusion.items):
        node = item.node
        if node.op == "cast" and tensor(node.inputs[0]).dtype is node.attrs["dtype"]:  # it only copies
            join_copy(fusion, item)
    Rematerialisation(units, fusion).run()
    return list(dict.fromkeys(fusion.group[item] for item in fusion.items))


def eras(units: Units) -> dict[object, int]:
    """By unit, the first place where the program may leave that it has to come before, as it is written to memory.

    What has to come before the same place is fused first: gradients that are clipped in place are written before
    the optimizer computes numbers that may overflow, its moments are not.
    """
    found: dict[object, int] = {}
    depends, may_leave = units.depends, units.state.may_leave
    for number, unit in enumerate(u for u in depends if isinstance(u, Node) and may_leave[u]):
        pending: list[object] = [unit]
        while pending:
            for d in depends[pending.pop()]:
                if d not in found:
                    found[d] = number
                    pending.append(d)
    return found


def join_copy(fusion: Fusion, item: Item) -> None:
    """Let a kernel that reads an input copy it, too."""
    alone = fusion.group[item]
    (operand,) = item.operands
    for group in fusion.holders(operand):
        if group is alone or len(alone.items) > 1 or len(group.items) >= MAX_ITEMS or (
                len(group.sources) >= MAX_OPERANDS):
            continue
        found = fusion.places(group, operand) or {}
        axes = tuple([found.get(a, -1) for a in range(len(item.space))])
        if sorted(axes) != list(range(len(group.space))) or any(
                group.space[a] != n for a, n in zip(axes, item.space, strict=True)):
            continue
        room = fusion.unrelated(group, alone)
        if room is not None:
            fusion.absorb(group, alone, axes, room)
            return


def with_copies(graph: Graph) -> Graph:
    """`graph` where results that are inputs are made by nodes, which kernels can take along."""
    block = graph.block
    inputs, nodes, results = set(graph.inputs), list(block.nodes), list(block.results)
    if any(n.op == "commit" for n in walk(block)):
        return graph
    for k, v in enumerate(results):
        if v in inputs and isinstance(v.type, TensorType) and any(n != 1 for n in v.type.dims):
            results[k] = Value(v.type, v.name)
            nodes.append(Node("cast", (v,), {"dtype": v.type.dtype}, (results[k],)))
    return Graph(Block(block.params, nodes, tuple(results), block.binds), graph.name)
