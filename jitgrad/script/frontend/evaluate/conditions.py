"""Conditions: the truth of an expression, and what is known of names where it holds."""

import ast
from collections.abc import Callable
from typing import Any

from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values.protocol import truth
from jitgrad.script.frontend.values.values import Number


def condition(context: Context, node: ast.expr) -> Any:
    """The truth of an expression: a bool or a bool Number. Operands of `and` and `or` need no common type here."""
    if not isinstance(node, ast.BoolOp):
        return truth(context, dispatch.evaluate(context, node))
    return joined(context, node, condition)


def joined(context: Context, node: ast.BoolOp, ask: Callable[[Context, ast.expr], Any]) -> Any:
    """`a and b ...`, `a or b ...`; `ask` evaluates an operand."""
    return _joined(context, node.values, isinstance(node.op, ast.And), ask)


def _joined(context: Context, nodes: list[ast.expr], conjunction: bool,
            ask: Callable[[Context, ast.expr], Any]) -> Any:
    value = ask(context, nodes[0])
    if len(nodes) == 1:
        return value
    test = truth(context, value)
    if not isinstance(test, Number):
        return _joined(context, nodes[1:], conjunction, ask) if bool(test) == conjunction else value
    boolean = isinstance(value, Number) and value.number_type is bool

    def rest() -> Any:
        narrow(context, nodes[0], test, conjunction)
        return _joined(context, nodes[1:], conjunction, ask)

    def keep() -> Any:
        return (not conjunction) if boolean else value

    return dispatch.branch(context, test, rest, keep) if conjunction else dispatch.branch(context, test, keep, rest)


def side(context: Context, node: ast.expr, test: Any, outcome: bool, run: Callable[[], Any]) -> Callable[[], Any]:
    """`run` where a condition has an outcome, with what that says of names."""
    def narrowed() -> Any:
        narrow(context, node, test, outcome)
        return run()
    return narrowed


def narrow(context: Context, test: ast.expr, value: Any, outcome: bool, direct: bool = True) -> None:
    """Use what a condition says: after `x is not None` a name that may be None holds its value.

    `direct`: the condition is this very test, not an `and` or `or` that it is part of.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        narrow(context, test.operand, value, not outcome, direct)
        return
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) == outcome:
            for part in test.values:
                narrow(context, part, value, outcome, False)
        return
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name)
            and isinstance(test.ops[0], (ast.Is, ast.IsNot)) and isinstance(test.comparators[0], ast.Constant)
            and test.comparators[0].value is None):
        return
    key = (context.frame.id, test.left.id)
    held = context.state.values.get(key)
    if unions.undecided(held):
        is_none = isinstance(test.ops[0], ast.Is) == outcome
        context.state.values[key] = None if is_none else unions.without(context, held, None, not direct)
