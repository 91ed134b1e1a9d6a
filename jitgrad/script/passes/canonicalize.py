"""Local algebra: the rewrite rows of `rules_*.py` and constant folding, and control flow that is decided.

    %0: f32[N] = neg(%x)
    %1: f32[N] = neg(%0)
    %2: f32[N] = if(%true):
      then:
        %3: f32[N] = mul(%1, %one)
        yield %3
      else:
        yield %0

becomes `%x` (and a dead `neg`). Rules are tried on every node in program order and on what they emit, until none
applies.
Does not handle: anything that needs to know who uses a value.
"""

from collections import Counter
from collections.abc import Sequence

from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER
from jitgrad.script.graph.ir import Block, Graph, Node, Value
from jitgrad.script.graph.irops import effect
from jitgrad.script.passes.fold import fold_node
from jitgrad.script.passes.rewrite import Rewriter
from jitgrad.script.passes.rules import numbers, pointwise, views  # noqa: F401  (they register rows)
from jitgrad.script.passes.rules.rules import RULES, constant

SPECULATED = 8  # number ops per branch that are computed in any case rather than branched over


def canonicalize(graph: Graph, fired: Counter[str] | None = None) -> Graph:
    """`graph` with the rules applied; `fired` counts them by name."""
    return Canonicalize(graph, fired if fired is not None else Counter()).run()


class Canonicalize(Rewriter):
    """Applies the rules; see `rules.py` for what they may ask."""

    def __init__(self, graph: Graph, fired: Counter[str]):
        super().__init__(graph)
        self.fired = fired

    def visit(self, node: Node) -> Sequence[Value] | None:
        if node.blocks:
            return self.control(node)
        folded = fold_node(self, node)
        if folded is not None:
            self.fired["fold"] += 1
            return (folded,)
        for name, rule in RULES.get(node.op, ()):
            result = rule(self, node)
            if result is not None:
                self.fired[name] += 1
                return (result,) if isinstance(result, Value) else result
        return None

    def enter(self, node: Node) -> Block | Sequence[Value] | None:
        """Branches on constants, loops without a trip."""
        if node.op == "if":
            truth = constant(self, node.inputs[0])
            if truth is not None:
                self.fired["if_constant"] += 1
                return node.blocks[0 if truth else 1]
        elif node.op == "while" and constant(self, node.inputs[0]) is False:
            if len(node.outputs) == len(node.inputs):  # no sequences
                self.fired["while_never"] += 1
                return (self.emit("num.const", value=0), *node.inputs[1:])
        elif node.op == "scan":
            trips, n = constant(self, node.inputs[0]), node.attrs["n_carries"]
            if trips is not None and trips <= 0 and len(node.outputs) == n:
                self.fired["scan_never"] += 1
                return node.inputs[1 : n + 1]
        return None

    def control(self, node: Node) -> Sequence[Value] | None:
        """A structural node whose blocks are done: a branch between numbers becomes a select."""
        if node.op != "if" or not node.outputs:
            return None
        if any(v.type not in (BOOL, INT, FLOAT, NUMBER) for v in node.outputs):
            then, other = node.blocks
            if then.results == other.results and not then.nodes and not other.nodes:
                self.fired["if_same"] += 1
                return then.results
            return None
        for block in node.blocks:
            if len(block.nodes) > SPECULATED:
                return None
            if any(not n.op.startswith("num.") or effect(n.op, n.attrs) for n in block.nodes):
                return None
        self.fired["if_to_select"] += 1
        for block in node.blocks:
            self.builder.block.nodes.extend(block.nodes)
        results = zip(node.blocks[0].results, node.blocks[1].results, node.outputs, strict=True)
        return [self.emit("num.select", node.inputs[0], a, b, types=(v.type,)) for a, b, v in results]
