"""What rewrite rules are made of: the registry, and the questions that they ask.

A rule is a named row: two patterns (`row`), or a function (`rule`) `(r, node) -> value or values that stand for the
node's outputs, or None` for "does not apply".
`r` is the rewriter: `r.emit` appends nodes (on which the rules are tried at once), `r.source(v, op)` looks at a
definition. Rules keep every bit (powers to 1 ulp, softmax to some; an accumulator that starts at zero may keep -0.0):
no reassociation, never `x * 0` or `x - x` (wrong for NaN, infinities), never `x + 0.0` (wrong for -0.0). They run
before differentiation too, so they keep derivatives: nothing may bridge an `item`, which cuts the tape.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jitgrad.ops import OPS
from jitgrad.ops.types import TensorType
from jitgrad.script.graph.ir import Node, Value
from jitgrad.script.passes.rewrite import Rewriter

Rule = Callable[[Rewriter, Node], "Value | Sequence[Value] | None"]

CONSTANTS = frozenset({"full", "num.const"})
#: op -> rules, tried in order
RULES: dict[str, list[tuple[str, Rule]]] = {}


#: a rule that also gets the node that makes the first operand
InnerRule = Callable[[Rewriter, Node, Node], "Value | Sequence[Value] | None"]


def rule_of(op: str, *inner: str) -> Callable[[InnerRule], InnerRule]:
    """Register a function for nodes of `op` whose first operand is made by a node of one of `inner`."""
    def register(function: InnerRule) -> InnerRule:
        def applied(r: Rewriter, node: Node) -> Value | Sequence[Value] | None:
            made = r.nodes.get(node.inputs[0])
            return function(r, node, made) if made is not None and made.op in inner else None

        RULES.setdefault(op, []).append((function.__name__, applied))
        return function
    return register


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register a function, whose name is the rule's, for nodes of `ops`."""
    def register(function: Rule) -> Rule:
        for op in ops:
            RULES.setdefault(op, []).append((function.__name__, function))
        return function
    return register


#: what a value may be: anything, the same wherever the name stands again; a number; what an op makes of operands
Pattern = Any
Operands = tuple[tuple[int, Any], ...]


def row(name: str, pattern: tuple[Any, ...], result: Pattern) -> None:
    """Register that `pattern` is `result`, where that has the very type. `("mul", "x", 1)` is matched either way round.

    A result that is a node of the op of the pattern has its attributes.
    """
    op, *operands = pattern
    commutes = op in OPS and "commutative" in OPS[op].traits and operands[0] != operands[1]
    for order in (operands, operands[::-1])[:1 + commutes]:
        RULES.setdefault(op, []).append((name, partial(_applied, _ordered(order), result)))


def _ordered(patterns: Sequence[Pattern]) -> Operands:
    """Patterns of operands with their numbers; first those that seldom match."""
    found = [(k, (p[0], _ordered(p[1:])) if isinstance(p, tuple) else p) for k, p in enumerate(patterns)]
    return tuple(sorted(found, key=lambda item: isinstance(item[1], str)))


def _applied(operands: Operands, result: Pattern, r: Rewriter, node: Node) -> Value | None:
    found: dict[str, Value] = {}
    if not _match(r.nodes, operands, node.inputs, found):
        return None
    if isinstance(result, str):
        return as_result(r, found[result], node)
    if not isinstance(result, tuple):
        return r.emit("num.const", value=result)
    op, *names = result
    return as_result(r, r.emit(op, *[found[v] for v in names], **(node.attrs if op == node.op else {})), node)


def _match(nodes: dict[Value, Node], operands: Operands, values: tuple[Value, ...], found: dict[str, Value]) -> bool:
    """Whether values are as patterns say; `found`: what the names stand for."""
    for k, pattern in operands:
        value = values[k]
        if pattern.__class__ is str:
            if found.setdefault(pattern, value) is not value:
                return False
            continue
        made = nodes.get(value)
        if made is None:
            return False
        if pattern.__class__ is tuple:
            if made.op != pattern[0] or not _match(nodes, pattern[1], made.inputs, found):
                return False
        elif made.op not in CONSTANTS or made.attrs["value"] != pattern or (
                pattern.__class__ is bool and made.attrs["value"] is not pattern):
            return False
    return True


def constant(r: Rewriter, value: Value) -> bool | int | float | None:
    """The number of which every element of a tensor is, if it is a `full`, or that a number is."""
    node = r.nodes.get(value)
    if node is None or node.op not in CONSTANTS:
        return None
    number: bool | int | float = node.attrs["value"]
    return number


def tensor(value: Value) -> TensorType:
    """The type of a value that is a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type


def is_float(value: Value) -> bool:
    return tensor(value).dtype.is_floating_point


def as_result(r: Rewriter, value: Value, node: Node) -> Value | None:
    """`value`, if the node's result has its very type."""
    return value if value.type == node.outputs[0].type else None


def is_power_of_two(number: bool | int | float) -> bool:
    """Whether division by `number` is exactly multiplication by its inverse, in every float dtype."""
    if number == 0 or not math.isfinite(number):
        return False
    mantissa, exponent = math.frexp(abs(number))
    return mantissa == 0.5 and -13 <= exponent <= 13
