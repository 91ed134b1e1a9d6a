"""Expressions that are found again in a block of nodes, of which the library knows more than their parts say.

    found = match(maker, value, GELU)       # None, or what stands for X and the nodes between

A pattern is a leaf (`X`), a number, or an op and its operands. The operands of commutative ops may be swapped, and
equal parts may be one node or several. Patterns come from the rows of the op table: what their rules say, run on `X`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from jitgrad.ops import OPS
from jitgrad.ops.namespaces import Handle, Namespace
from jitgrad.ops.opdef import OpDef, has_trait
from jitgrad.script.graph.ir import Node, Value

X = "x"
Pattern = Any


class _Term(Handle):
    """A pattern as rules see it."""

    __slots__ = ("F", "pattern")

    def __init__(self, F: _Patterns, pattern: Pattern):
        self.F, self.pattern = F, pattern


class _Patterns(Namespace):
    """The namespace under which the rules of pointwise rows make patterns."""

    def lift_literals(self, op: OpDef, xs: tuple[Any, ...]) -> tuple[Any, ...]:
        return xs

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> _Term:
        return _Term(self, (op.name, *[x.pattern if isinstance(x, _Term) else float(x) for x in xs]))


def value_of(name: str) -> Pattern:
    """What composite row `name` makes of X."""
    F, compose = _Patterns(), OPS[name].compose
    assert compose is not None
    return compose(F, _Term(F, X)).pattern


def slope_of(name: str) -> Pattern:
    """What the derivative rule of row `name`, a function of X, multiplies the cotangent by."""
    F, vjp = _Patterns(), OPS[name].vjp
    assert callable(vjp)
    (cotangent,) = vjp(F, _Term(F, "g"), _Term(F, "y"), _Term(F, X))
    product, g, slope = cotangent.pattern
    assert (product, g) == ("mul", "g")
    return slope


GELU, GELU_SLOPE = value_of("gelu_tanh"), slope_of("gelu_tanh")


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
    orders = (node.inputs, node.inputs[::-1]) if has_trait(op, "commutative") else (node.inputs,)
    for operands in orders:
        found = leaf
        for operand, part in zip(operands, parts, strict=True):
            if isinstance(part, float):
                made = maker.get(operand)
                if made is None or made.op != "full" or not math.isclose(made.attrs["value"], part, rel_tol=1e-12):
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
