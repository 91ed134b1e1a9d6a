"""Composite rows become the expressions that define them.

    %0: f32[N] = silu(%x)

becomes

    %0: f32[N] = sigmoid(%x)          and then   neg, exp, add, div
    %1: f32[N] = mul(%x, %0)

Before differentiation a row that has a derivative of its own (softmax, relu) stays: `keep_vjp`. One that is "whole"
(a step of Adam's) stays in any case, unless it is of a single element, which is no kernel's. Does not handle: control
flow, which no row composes.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from jitgrad.dims import Size
from jitgrad.ops import OPS
from jitgrad.ops.opdef import OpDef
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Builder, Graph, Node, Value
from jitgrad.script.graph.namespace import GraphHandle, GraphNamespace
from jitgrad.script.passes.rewrite import Rewriter


def decompose(graph: Graph, *, keep_vjp: bool = False, keep: Collection[str] = ()) -> Graph:
    """`graph` without composites, but for those in `keep`, and those with their own derivative if `keep_vjp`."""
    return _Decompose(graph, keep_vjp, keep).run()


class _Namespace(GraphNamespace):
    """Expands composites where the base class emits them as nodes."""

    def __init__(self, builder: Builder, keep_vjp: bool, keep: Collection[str]):
        super().__init__(builder)
        self.keep_vjp, self.keep = keep_vjp, keep

    def is_expanded(self, op: OpDef, shapes: Iterable[tuple[Size, ...]]) -> bool:
        if op.compose is None or op.name in self.keep or (self.keep_vjp and op.vjp is not None):
            return False
        return "whole" not in op.traits or all(n == 1 for shape in shapes for n in shape)

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if not self.is_expanded(op, [x.shape for x in xs if isinstance(x, GraphHandle)]):
            return super().apply(op, xs, attrs)
        return self.expand_composite(op, xs, attrs)


class _Decompose(Rewriter):
    def __init__(self, graph: Graph, keep_vjp: bool, keep: Collection[str]):
        super().__init__(graph)
        self.namespace = _Namespace(self.builder, keep_vjp, keep)

    def visit(self, node: Node) -> Sequence[Value] | None:
        if node.op in ("detach", "leaf") and not self.namespace.keep_vjp:
            return node.inputs[:1]  # they only say where the tape ends
        if node.op == "custom" and not self.namespace.keep_vjp:
            return node.inputs[:len(node.outputs)]
        op = OPS.get(node.op)
        if op is None or op.compose is None or not self.namespace.is_expanded(
                op, [v.type.dims for v in node.inputs if isinstance(v.type, TensorType)]):
            return None
        result = self.namespace.apply(op, tuple([self.namespace.wrap(v) for v in node.inputs]), dict(node.attrs))
        values = [h.value for h in (result if isinstance(result, tuple) else (result,))]
        for old, new in zip(node.outputs, values, strict=True):
            assert isinstance(old.type, TensorType)
            assert isinstance(new.type, TensorType)
            assert old.type.dtype is new.type.dtype, f"{node.op} is composed to {new.type}, not {old.type}"
        return values
