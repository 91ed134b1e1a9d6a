"""What kernels compute for a `cat` is written where it belongs, not copied there; so are rows of what a loop fills.

    aim_parts(units, ordered)       # before the units of a block are emitted
    also_written(units)             # value -> the writes into memory that a loop keeps, which its kernel may do, too

Of a `cat` only parts that nobody else reads, of a result whose size is known when the program begins and that is no
result of the block: what an iteration hands on may be read while the next one writes. A row (`out[k] = h`) is written
by the kernel that makes it, beside what else it writes, where nobody reads the memory and nothing in the block may
leave the program before.
"""

from collections.abc import Sequence

from jitgrad.codegen.lower.fuse import Group
from jitgrad.codegen.lower.rules.joins import aim
from jitgrad.codegen.lower.rules.ops import parts_of
from jitgrad.codegen.lower.state import tensor
from jitgrad.codegen.lower.units import Units
from jitgrad.dims import product
from jitgrad.script.graph.ir import Node, Value


def aim_parts(units: Units, ordered: Sequence[Group | Node]) -> None:
    """Let kernels write parts in place; `ordered` are groups and nodes in their final order."""
    state, results = units.state, units.block.results
    joins = [u for u in ordered if isinstance(u, Node) and u.op == "cat"]
    readers = units.readers() if joins else {}
    for node in joins:
        out = node.outputs[0]
        if out in state.dest or out in results or not state.known_at_entry((product(tensor(out).dims),)):
            continue
        own = [v for v in node.inputs if v in units.item_of and len(readers.get(v, ())) == 1
               and v not in state.dest and v not in results and node.inputs.count(v) == 1]
        if own:
            for value, part in parts_of(node, state.place(out)):
                if value in own:
                    aim(state, value, part)


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
