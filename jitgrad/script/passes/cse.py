"""Common subexpressions are computed once.

    %0: f32[N] = exp(%x)
    %1: f32[N] = exp(%x)
    %2: f32[N] = add(%0, %1)

becomes

    %0: f32[N] = exp(%x)
    %2: f32[N] = add(%0, %0)

An expression is known in its block after its node, and in the blocks nested there. A check whose condition was checked,
or checked arithmetic that was done, cannot fail again. Does not handle: nodes with blocks.
"""

from collections.abc import Sequence
from typing import Any

from jitgrad.ops import OPS
from jitgrad.script.graph.ir import Block, Graph, Node, Value
from jitgrad.script.graph.irops import Effect, effect
from jitgrad.script.passes.rewrite import Rewriter


def cse(graph: Graph) -> Graph:
    """`graph` with equal total nodes merged."""
    return _Cse(graph).run()


class _Cse(Rewriter):
    def __init__(self, graph: Graph):
        super().__init__(graph)
        self.known: dict[Any, Node] = {}
        self.added: list[list[Any]] = []  # keys that each open block added

    def enter_block(self, block: Block, owner: Node | None) -> None:
        self.added.append([])

    def leave_block(self, block: Block, owner: Node | None) -> None:
        keys = self.added.pop()
        for key in keys if self.added else ():  # after the outermost block nobody asks
            del self.known[key]

    def visit(self, node: Node) -> Sequence[Value] | None:
        if node.blocks:
            return None
        op, inputs = node.op, node.inputs
        if op == "check":
            key: Any = (op, inputs[0])
        else:
            if effect(op, node.attrs) not in _NO_MORE or op == "dim.bind":
                return None
            if len(inputs) == 2 and inputs[1].id < inputs[0].id:
                row = OPS.get(op)
                if row is not None and "commutative" in row.traits:
                    inputs = (inputs[1], inputs[0])
            attrs = node.attrs
            # repr tells 1 from True from 1.0, and 0.0 from -0.0
            key = (op, inputs, *[(k, a if a.__class__ not in _NUMBERS else repr(a)) for k, a in attrs.items()])
        found = self.known.get(key)
        if found is not None:
            return found.outputs
        self.known[key] = node
        self.added[-1].append(key)
        return None


_NUMBERS = frozenset({int, float, bool})
#: effects of what may be done once: an equal check or operation cannot fail again
_NO_MORE = (Effect.NONE, Effect.RAISES)
