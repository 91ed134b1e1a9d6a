"""Where control goes: what is live after a statement, and what runs where control has not left its block."""

import ast
from collections.abc import Sequence
from typing import Any

from jitgrad.script.frontend.state import dispatch
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.values import UNBOUND, Number

#: under a frame: what a pending `return` returns
RESULT = ("result",)


def run_pending(context: Context, statements: Sequence[ast.stmt], live: frozenset[str]) -> None:
    """Evaluate statements as far as control gets to them."""
    left = pending(context)
    if isinstance(left, Number):
        if statements:
            unless_left(context, left, statements, live)
    elif not left:
        dispatch.run_block(context, statements)


def live_after(context: Context, s: ast.stmt) -> frozenset[str]:
    """Names read after a statement, on any way out of it."""
    live = context.frame.scope.after.get(id(s), frozenset())
    for loop in context.frame.loops:
        live = live | loop.live
    return live


def pending(context: Context) -> Any:
    """Whether control has left the current block: False, True or a run-time bool."""
    frame, values = context.frame, context.state.values
    result: Any = values.get((frame.id, "return"), False)
    if frame.loops:
        loop = frame.loops[-1]
        for kind in ("break", "continue"):
            result = numbers.either(context, result, values.get((loop.id, kind), False))
    return numbers.either(context, result, to_handler(context)) if context.tries else result


def unless_left(context: Context, left: Number, rest: Sequence[ast.stmt], live: frozenset[str]) -> None:
    """Run `rest` where control has not left."""
    frame = context.frame
    flag = context.state.values.get((frame.id, "return"), False)
    returned, known = flag is left, True
    if returned:
        left, known = returning(context, left, context.state.values[(frame.id, RESULT)])

    def gone() -> None:
        if returned:
            values = context.state.values
            values[(frame.id, "return")] = True
            values[(frame.id, RESULT)] = unions.without(context, values[(frame.id, RESULT)], UNBOUND, known)

    dispatch.branch(context, left, gone, lambda: dispatch.run_block(context, rest), live)


def to_handler(context: Context) -> Any:
    """Whether control is on its way to a handler in this function: False, True or a run-time bool."""
    result: Any = False
    for attempt in context.tries:
        if attempt.frame is context.frame:
            for handler in attempt.handlers:
                result = numbers.either(context, result, context.state.values.get(handler.flag, False))
    return result


def returning(context: Context, flag: Number, result: Any) -> tuple[Number, bool]:
    """A pending return as a condition: the presence of its result where that says it; else the flag."""
    if unions.untagged(result, UNBOUND):
        bound = numbers.negate(context, unions.is_static(context, result, UNBOUND))
        assert isinstance(bound, Number)
        return bound, False
    return flag, True
