"""What kernels compute for a `cat` is written where it belongs, not copied there.

    aim_parts(units, ordered)       # before the units of a block are emitted

Only parts that nobody else reads, of a result whose size is known when the program begins and that is no result of the
block: what an iteration hands on may be read while the next one writes.
"""

from collections.abc import Sequence

from jitgrad.codegen.lower.fuse import Group
from jitgrad.codegen.lower.rules.joins import aim
from jitgrad.codegen.lower.rules.ops import parts_of
from jitgrad.codegen.lower.state import tensor
from jitgrad.codegen.lower.units import Units
from jitgrad.dims import product
from jitgrad.script.graph.ir import Node


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
