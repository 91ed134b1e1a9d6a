"""Tensors that a loop only writes into, part by part: they are written where they are.

    %g = scan(%n, %g0):                                   %g keeps one buffer; each iteration writes one row
      body(%k, %p):
        %q = select_add(%p, %row){axis=0, index=k}
        yield %q

A carry may stay where it is if every value on the way from the parameter to the result has one reader: the next op that
replaces or adds to a part of it, a loop that carries it in the same way, or a branch both sides of which do so. Parts
of it that are read (`select`, `slice`) are copied out before.
"""

from collections import Counter

from jitgrad.codegen.lower.state import Lowering
from jitgrad.ops.opdef import has_trait
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Block, Loop, Node, Value, attr_symbols

#: ops that read a part of their operand
PARTS = frozenset({"select", "slice"})


def chain(state: Lowering, block: Block, start: Value, end: Value,
          uses: Counter[Value] | None = None) -> list[Value] | None:
    """The values on the way from `start` to the block's result `end`, `start` included, if nobody else reads one."""
    found = _way(state, block, start, uses if uses is not None else state.uses(block, block.nodes))
    return found if found is not None and found[-1] is end else None


def _way(state: Lowering, block: Block, start: Value, uses: Counter[Value]) -> list[Value] | None:
    """The values on the way from `start` to whichever result of the block it leads to."""
    if not isinstance(start.type, TensorType) or state.holds(start):
        return None
    found = [start]
    at = start
    while True:
        touching = [(i, n) for i, n in enumerate(block.nodes) if at in state.reads(n)]
        takers = [(i, n) for i, n in touching if n.op not in PARTS]
        if not takers:
            return found if uses[at] == 1 and at in block.results else None
        if len(takers) != 1 or uses[at] != len(touching):
            return None
        (place, taker), = takers
        late = {s for n in block.nodes[place:] for s in n.binds}  # a part read afterwards is read before instead
        following = _through(state, taker, at)
        if following is None or any(not late.isdisjoint(attr_symbols(a)) for i, n in touching if i > place
                                    for a in n.attrs.values()):
            return None
        at, *inside = following
        found += [*inside, at]


def _through(state: Lowering, node: Node, at: Value) -> list[Value] | None:
    """What becomes of a value in a node that only writes into it, then the values inside the node on the way."""
    if has_trait(node.op, "updates"):
        out = node.outputs[0]
        return [out] if at is node.inputs[0] and at not in node.inputs[1:] and out.type == at.type else None
    if node.op == "if" and at is not node.inputs[0]:
        return _through_branches(state, node, at)
    if node.op in ("scan", "while") and at not in state.captures[node]:
        return _through_loop(state, node, at)
    return None


def _through_branches(state: Lowering, node: Node, at: Value) -> list[Value] | None:
    inside: list[Value] = []
    places: set[int] = set()
    for block in node.blocks:
        way = _way(state, block, at, state.uses(block, block.nodes))
        if way is None:
            return None
        inside += way[1:]
        places.add(block.results.index(way[-1]))
    out = node.outputs[places.pop()]
    return [out, *inside] if not places and out.type == at.type else None


def _through_loop(state: Lowering, node: Node, at: Value) -> list[Value] | None:
    loop = Loop(node)
    if at not in loop.carries or node.inputs.count(at) != 1:
        return None
    j = loop.carries.index(at)
    param, result, out = loop.carry_params[j], loop.carry_results[j], loop.carry_outputs[j]
    if param.type != at.type or out.type != at.type or loop.body.results.count(result) != 1:
        return None
    return [out] if chain(state, loop.body, param, result) is not None else None
