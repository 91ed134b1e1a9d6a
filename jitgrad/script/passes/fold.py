"""Ops on constants are constants.

    %0: int = num.const(){value=2}
    %1: int = num.add(%0, %0)
    %2: f32[] = full(){value=2, shape=(), dtype=f32}
    %3: f32[] = exp(%2)

becomes (before dead code goes)

    %1: int = num.const(){value=4}
    %3: f32[] = full(){value=7.389056205749512, shape=(), dtype=f32}

Pointwise ops on constants of any shape fold to a constant, through the row's own implementation: the bits of eager.
Does not handle: checked arithmetic that raises, which stays and raises at run time; reductions of constants.
"""

from typing import Any

import numpy as np

from jitgrad.ops import OPS, Kind
from jitgrad.ops.types import NUMBER, TensorType
from jitgrad.script.graph import numbers
from jitgrad.script.graph.ir import Node, Value
from jitgrad.script.passes.rewrite import Rewriter


def fold_node(r: Rewriter, node: Node) -> Value | None:
    """The constant that a number op or pointwise op on constants is, or None."""
    if not node.inputs:
        return None
    values = []
    for v in node.inputs:
        source = r.nodes.get(v)
        if source is None or source.op not in ("num.const", "full"):
            return None
        values.append(source)
    if node.op.startswith("num."):
        return _number(r, node, [n.attrs["value"] for n in values])
    row = OPS.get(node.op)
    if row is None or row.kind is not Kind.POINTWISE or row.impl is None:
        return None
    return _tensor(r, node, row.impl, values)


def _number(r: Rewriter, node: Node, values: list[Any]) -> Value | None:
    type_ = node.outputs[0].type
    if type_ == NUMBER:
        return None  # a constant has one kind
    try:
        result = numbers.compute(node.op, tuple(values), node.attrs, type_)
    except (ArithmeticError, ValueError):
        return None  # raises at run time, where the program gets there
    return r.emit("num.const", types=(type_,), value=result)


def _tensor(r: Rewriter, node: Node, impl: Any, sources: list[Node]) -> Value:
    type_ = node.outputs[0].type
    assert isinstance(type_, TensorType)
    arrays = [np.asarray(n.attrs["value"]).astype(n.attrs["dtype"].np) for n in sources]
    with np.errstate(all="ignore"):
        result = np.asarray(impl(np, *arrays, **node.attrs))
    assert result.dtype == type_.dtype.np
    return r.emit("full", value=result.item(), shape=type_.dims, dtype=type_.dtype)
