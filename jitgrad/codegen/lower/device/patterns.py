"""Expressions that are found again in a block of nodes, of which the library knows more than their parts say.

    found = match(maker, value, GELU)       # None, or what stands for X and the nodes between

A pattern is a leaf (`X`), a number, or an op and its operands. Operands of sums and products may be swapped, and equal
parts may be one node or several. The patterns are what passes make of the rows of the op table; tests compare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from jitgrad.ops.rows.activations import SQRT_2_OVER_PI
from jitgrad.script.graph.ir import Node, Value

X = "x"
Pattern = Any
_TANH = ("tanh", ("mul", ("add", X, ("mul", ("mul", ("mul", X, X), X), 0.044715)), SQRT_2_OVER_PI))
#: `gelu_tanh`
GELU: Pattern = ("mul", ("mul", X, 0.5), ("add", _TANH, 1.0))
#: its derivative
GELU_SLOPE: Pattern = (
    "add", ("mul", ("add", _TANH, 1.0), 0.5),
    ("mul", ("mul", ("mul", X, 0.5), ("sub", 1.0, ("mul", _TANH, _TANH))),
     ("mul", ("add", ("mul", ("mul", X, X), 3 * 0.044715), 1.0), SQRT_2_OVER_PI)))

_COMMUTATIVE = frozenset({"add", "mul"})


def match(maker: Mapping[Value, Node], value: Value, pattern: Pattern) -> tuple[Value, dict[Node, None]] | None:
    """The value that is X in `value`, and the nodes that make `value` of it; None where it is not the pattern."""
    nodes: dict[Node, None] = {}
    leaf = _bound(maker, value, pattern, None, nodes)
    return (leaf, nodes) if leaf is not None else None


def _bound(maker: Mapping[Value, Node], value: Value, pattern: Pattern, leaf: Value | None,
           nodes: dict[Node, None]) -> Value | None:
    """The leaf, where `value` is the pattern with that leaf, or with any if there was none. Constants come first in no
    pattern with nothing else, so that a match always has a leaf."""
    if pattern == X:
        return value if leaf is None or leaf is value else None
    node = maker.get(value)
    op, *parts = pattern
    if node is None or node.op != op or len(node.inputs) != len(parts):
        return None
    before = len(nodes)
    nodes[node] = None
    inside = len(nodes)
    orders = (node.inputs, node.inputs[::-1]) if op in _COMMUTATIVE else (node.inputs,)
    for operands in orders:
        found = leaf
        for operand, part in zip(operands, parts, strict=True):
            if isinstance(part, float):
                if not _is_constant(maker.get(operand), part):
                    break
            else:
                found = _bound(maker, operand, part, found, nodes)
                if found is None:
                    break
        else:
            return found
        while len(nodes) > inside:  # of the other order
            nodes.popitem()
    while len(nodes) > before:
        nodes.popitem()
    return None


def _is_constant(node: Node | None, number: float) -> bool:
    return node is not None and node.op == "full" and math.isclose(node.attrs["value"], number, rel_tol=1e-12)


__all__ = ["GELU", "GELU_SLOPE", "match"]
