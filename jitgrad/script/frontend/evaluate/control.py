"""Where control goes: what is live after a statement, and what runs where control has not left its block."""

import ast
from collections.abc import Callable, Sequence
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
            unless_left(context, left, lambda: dispatch.run_block(context, statements), live)
    elif not left:
        dispatch.run_block(context, statements)


def live_after(context: Context, s: ast.stmt) -> frozenset[str]:
    """Names read after a statement, on any way out of it."""
    live = context.frame.scope.after.get(id(s), frozenset())
    for loop in context.frame.loops:
        live = live | loop.live
    return live


def _exits(context: Context) -> list[tuple[int, str]]:
    """Where the state says whether control has left the current block."""
    loops = context.frame.loops[-1:]
    return [(context.frame.id, "return"), *((loop.id, kind) for loop in loops for kind in ("break", "continue")),
            *_to_handlers(context)]


def pending(context: Context) -> Any:
    """Whether control has left the current block: False, True or a run-time bool."""
    return _any(context, _exits(context))


def _any(context: Context, flags: Sequence[tuple[int, str]]) -> Any:
    result: Any = False
    for flag in flags:
        result = numbers.either(context, result, context.state.values.get(flag, False))
    return result


def unless_left(context: Context, left: Number, rest: Callable[[], None], live: frozenset[str]) -> None:
    """Run `rest` where control has not left: no exit is pending there."""
    values, returns = context.state.values, (context.frame.id, "return")
    returned, known = values.get(returns, False) is left, True
    if returned:
        left, known = returning(context, left, values[(returns[0], RESULT)])
    exits = {flag: (flag, (flag[0], RESULT)) for flag in _exits(context) if values.get(flag, False) is not False}

    def gone() -> None:
        if returned:
            values = context.state.values
            values[returns] = True
            values[(returns[0], RESULT)] = unions.without(context, values[(returns[0], RESULT)], UNBOUND, known)

    def stays() -> None:
        values = context.state.values
        before = {key: values.pop(key) for keys in exits.values() for key in keys if key in values}
        rest()
        values = context.state.values
        for flag, keys in exits.items():
            if values.get(flag, False) is False and not (returned and flag == returns):
                for key in keys:
                    if key in before:
                        values[key] = before[key]  # so that it is the same on both sides

    dispatch.branch(context, left, gone, stays, live)


def to_handler(context: Context) -> Any:
    """Whether control is on its way to a handler in this function: False, True or a run-time bool."""
    return _any(context, _to_handlers(context))


def arriving(context: Context, *attempts: Any) -> Any:
    """Whether an exception is on its way to a handler of a `try`: False, True or a run-time bool."""
    return _any(context, [h.flag for a in attempts for h in a.handlers])


def _to_handlers(context: Context) -> list[tuple[int, str]]:
    return [h.flag for a in context.tries if a.frame is context.frame for h in a.handlers]


def returning(context: Context, flag: Number, result: Any) -> tuple[Number, bool]:
    """A pending return as a condition: the presence of its result where that says it; else the flag."""
    if unions.untagged(result, UNBOUND):
        bound = numbers.negate(context, unions.is_static(context, result, UNBOUND))
        assert isinstance(bound, Number)
        return bound, False
    return flag, True
