"""What is computed is written where it belongs, not copied there: parts of a `cat`, what results are views of.

    aim_parts(units, ordered)       # before the units of a block are emitted, on the CPU too
    also_written(units)             # value -> the writes into memory that a loop keeps, which its kernel may do, too

    %k, %l = attention(...);  %y = permute(%k){axes=(0, 2, 1, 3)};  return %y      %k is made with the strides of y

Kernels write with any strides, and so do the nodes of `WRITERS`: what is between, views and reshapes, is gone through
backwards, as long as neighbours along the last axis stay neighbours.

Of a `cat` only parts that nobody else reads, of a result whose size is known when the program begins. Results of a
nested block stay as they are: what an iteration hands on may be read while the next one writes. A row (`out[k] = h`) is
written by the kernel that makes it, beside what else it writes, where nobody reads the memory and nothing in the block
may leave the program before.
"""

from collections.abc import Sequence
from typing import Any

from jitgrad.codegen.lower.fuse import Group, Item
from jitgrad.codegen.lower.rules import attention
from jitgrad.codegen.lower.rules.joins import aim
from jitgrad.codegen.lower.rules.ops import parts_of
from jitgrad.codegen.lower.state import Lowering, tensor
from jitgrad.codegen.lower.units import Units
from jitgrad.codegen.program.access import reshape_strides, through
from jitgrad.codegen.program.step import Ref
from jitgrad.dims import Size, product
from jitgrad.script.graph.ir import Node, Value

#: nodes that write with the strides that they are given, as kernels do
WRITERS = attention.RULES


def aim_parts(units: Units, ordered: Sequence[Group | Node]) -> None:
    """Let units write in place; `ordered` are groups and nodes in their final order."""
    state, results = units.state, units.block.results
    outermost = units.block is state.graph.block
    for value in results if outermost else ():
        if value in state.dest and _before(units, value) is not None:
            _aim(units, value, state.dest[value])
    joins = [u for u in ordered if isinstance(u, Node) and u.op == "cat"]
    readers = units.readers() if joins else {}
    for node in joins:
        out = node.outputs[0]
        if not state.known_at_entry((product(tensor(out).dims),)) or (
                not outermost and (out in state.dest or out in results)):
            continue
        own = [v for v in node.inputs if _is_written(units, v) and node.inputs.count(v) == 1
               and _is_alone(units, readers, v) and not _is_one(units, v)]
        if own:
            for value, part in parts_of(node, state.place(out)):
                if value in own:
                    _aim(units, value, part)


def _before(units: Units, value: Value) -> Node | None:
    """The view or reshape that makes a value of another one's elements."""
    unit = units.state.views.get(value) or units.producers.get(value)
    return unit if isinstance(unit, Node) and (value in units.state.views or unit.op == "reshape") else None


def _is_written(units: Units, value: Value) -> bool:
    """Whether a unit makes the elements of a value that can make them anywhere."""
    node = _before(units, value)
    if node is not None:
        return _is_written(units, node.inputs[0])
    unit = units.producers.get(value)
    return isinstance(unit, Item) or (unit is not None and unit.op in WRITERS)


def _is_one(units: Units, value: Value) -> bool:
    """Whether a value is a view of one number, as the parts of a `stack` of norms are: copies of many such are one
    launch, and what makes them is one too where each has a place of its own.
    """
    return _before(units, value) is not None and all(size == 1 for size in tensor(value).dims)


def _is_alone(units: Units, readers: dict[Value, list[Any]], value: Value) -> bool:
    """Whether nobody but a join reads a value, or what it is a view of."""
    node, state = _before(units, value), units.state
    only = value in state.views or len(readers.get(value, ())) == 1
    return only and value not in state.dest and value not in units.block.results and (
        node is None or _is_alone(units, readers, node.inputs[0]))


def _aim(units: Units, value: Value, place: Ref) -> None:
    """Let what is behind `value` be made so that `value` is at its place."""
    node = _before(units, value)
    if node is not None:
        x = node.inputs[0]
        strides = _strides_before(units.state, node, place)
        if strides is not None:
            _aim(units, x, Ref(place.buffer, place.offset, tensor(x).dims, strides))
    elif _is_written(units, value) and place.strides[-1:] in ((), (1,)):
        aim(units.state, value, place)


def _strides_before(state: Lowering, node: Node, place: Ref) -> tuple[Size, ...] | None:
    """The strides of what a view or reshape reads, where its result is at `place`; None where it has not all of it."""
    shape = tensor(node.inputs[0]).dims
    if node.outputs[0] not in state.views:
        return reshape_strides(place.dims, place.strides, shape)
    entries = through(node, tuple([(axis, 1, 0) for axis in range(len(place.dims))]))
    assert entries is not None
    read = [axis for size, (axis, factor, shift) in zip(shape, entries, strict=True)
            if size != 1 and axis >= 0 and (factor, shift) == (1, 0) and size == place.dims[axis]]
    if not len(read) == sum(size != 1 for size in shape) == sum(size != 1 for size in place.dims):
        return None
    return tuple([place.strides[axis] if axis >= 0 else 0 for axis, _, _ in entries])


def also_written(units: Units) -> dict[Value, Node]:
    """The writes that kernels may do, by what is written."""
    state = units.state
    found: dict[Value, Node] = {}
    writes = [u for u in units.positions if isinstance(u, Node) and u.op in ("select_scatter", "slice_scatter")]
    if not writes or any(state.has_effect[n] for n in units.block.nodes):
        return found
    readers = units.readers()
    for node in writes:
        x, value = node.inputs
        if x in state.owned and node.outputs[0] in state.owned and x in state.refs and readers.get(x) == [node] and (
                value in units.item_of and value not in found):
            found[value] = node
    return found
