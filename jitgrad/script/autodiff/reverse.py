"""The reverse sweep over a block: from the cotangents of its results to those of everything it reads.

Rows of the op table go through their vjp, under `GraphNamespace`. Cotangents of a selected or indexed part are added
to the whole in place of being spread out and summed. The adjoints of other nodes are in `ADJOINTS`, which `adjoints.py`
(absence, sequences, lists, callbacks), `control.py` and `regions.py` fill.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jitgrad.errors import NonDifferentiable
from jitgrad.ops import NONDIFF, OPS
from jitgrad.ops.rules import partial_vjp
from jitgrad.ops.types import TensorType
from jitgrad.script.autodiff.cotangents import Cotangent, add, any_reached, conform, either, masked
from jitgrad.script.autodiff.frame import Context, Frame
from jitgrad.script.graph.ir import Node, Value

Cotangents = dict[Value, Cotangent]
Adjoint = Callable[["Reverse", Frame, Node, Cotangents], None]
#: how nodes that are no rows of the table are differentiated, by op
ADJOINTS: dict[str, Adjoint] = {}


def adjoint(*ops: str) -> Callable[[Adjoint], Adjoint]:
    """Make what follows the adjoint of nodes of these ops, some of whose outputs have cotangents."""
    def register(rule: Adjoint) -> Adjoint:
        ADJOINTS.update(dict.fromkeys(ops, rule))
        return rule
    return register


class Reverse:
    """A differentiation under way.

    `cotangents` maps values of the forward, of the frame's block or around it, to what has been found so far; that of
    a value is used up by the node that makes it, and kept in `targets` if it was asked for.
    """

    def __init__(self, context: Context, targets: Iterable[Value] = ()):
        self.targets: dict[Value, Cotangent | None] = dict.fromkeys(targets)
        self.context, self.flow = context, context.flow
        self.builder, self.F = context.builder, context.F
        self.ends: dict[tuple[Frame, object], tuple[Node, list[Value]]] = {}  # see `graph/custom.py`
        self.sometimes: dict[Node, set[int]] = {}  # per loop: carries not reached in every iteration

    def run(self, frame: Frame, outputs: Sequence[Value], seeds: Sequence[Value]) -> Cotangents:
        """From the cotangents `seeds` of `outputs` through the frame's block."""
        cotangents: Cotangents = {}
        with self.builder.into(frame.out):
            for v, g in zip(outputs, seeds, strict=True):
                self.accumulate(frame, cotangents, v, Cotangent(g))
        self.sweep(frame, cotangents)
        return cotangents

    def sweep(self, frame: Frame, cotangents: Cotangents) -> None:
        """Go through the nodes of the frame's block from the last to the first, writing into the frame's mirror."""
        builder = self.builder
        span = builder.span
        with builder.into(frame.out):
            for node in reversed(frame.block.nodes):
                for v in node.outputs:
                    if v in cotangents:
                        self.targets.update((x, cotangents[x]) for x in node.outputs
                                            if x in self.targets and x in cotangents)
                        builder.span = node.span
                        self.node(frame, node, cotangents)
                        break
        builder.span = span

    def accumulate(self, frame: Frame, cotangents: Cotangents, x: Value, c: Cotangent) -> None:
        """Add to the cotangent of `x` one that may still have the shape of an op's result."""
        if x not in self.flow.wanted:
            return
        context = self.context
        value = conform(context, c.value, frame.type(x.type))
        if value is not c.value:
            c = Cotangent(value, c.reached, c.clean)
        before = cotangents.get(x)
        cotangents[x] = c if before is None else add(context, before, c)

    def node(self, frame: Frame, node: Node, cotangents: Cotangents) -> None:
        """The adjoint of one node, some of whose outputs have cotangents."""
        if node.op in OPS:
            self.row(frame, node, cotangents)
        elif node.op in ADJOINTS:
            ADJOINTS[node.op](self, frame, node, cotangents)
        else:
            raise NonDifferentiable(f"`{node.op}` has no derivative", node.span)

    def row(self, frame: Frame, node: Node, cotangents: Cotangents) -> None:
        """An op of the table."""
        op, wanted, F = OPS[node.op], self.flow.wanted, self.F
        given = [cotangents.pop(v, None) for v in node.outputs]
        needs = [x in wanted for x in node.inputs]
        if op.vjp is NONDIFF or True not in needs:
            return
        first = node.inputs[0]
        if op.adds_back is not None and first in cotangents and sum(needs) == 1:
            (c,) = given
            assert c is not None
            self.add_back(frame, node, op.adds_back, c, cotangents)
            return
        if not callable(op.vjp):
            raise NonDifferentiable(f"`{node.op}` has no derivative", node.span)
        if len(given) == 1:
            (c,) = given
            assert c is not None
            reached = c.reached
            g: Any = F.wrap(c.value)
            y: Any = F.wrap(frame.fetch(node.outputs[0]))
        else:  # a rule of several results reads them all; what is not reached counts as absent or as zero
            reached = any_reached(self.context, given)
            g = tuple(None if c is None else F.wrap(masked(self.context, c)) for c in given)
            y = tuple(F.wrap(frame.fetch(v)) if isinstance(v.type, TensorType) else None for v in node.outputs)
        xs = [F.wrap(frame.fetch(x)) for x in node.inputs]
        results = partial_vjp(op, needs, F, g, y, xs, frame.attrs(node.attrs))
        for x, result in zip(node.inputs, results, strict=True):
            if result is not None and x in wanted:
                self.accumulate(frame, cotangents, x, Cotangent(result.value, reached, reached is True))

    def add_back(self, frame: Frame, node: Node, how: tuple[str, Mapping[str, Any]], c: Cotangent,
                 cotangents: Cotangents) -> None:
        """The cotangent of a part, added to what is known of the whole."""
        x, *rest = node.inputs
        whole = cotangents[x]
        op, attrs = how
        part = conform(self.context, masked(self.context, c), frame.type(node.output.type))
        others = [frame.fetch(v) for v in rest]
        operands = [*others, part] if op == "scatter_add" else [part, *others]
        value = self.builder.one(op, masked(self.context, whole), *operands, **frame.attrs(node.attrs), **attrs)
        cotangents[x] = Cotangent(value, either(self.context, whole.reached, c.reached))
