"""Exceptions of the user's program: `raise`, `assert`, `try`.

A `raise` that only some runs reach leaves its `try` like a `break` leaves a loop: by a flag, under the handler's id.
What `finally` says runs on every way out. Operations that may fail inside a `try`: `attempts.py`.
"""

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.errors import (InvalidOperation, ScriptError, ShapeMismatch, TypeMismatch, UnresolvedName, UnsupportedCall,
                            UnsupportedSyntax)
from jitgrad.script.frontend.batches.items import check_none
from jitgrad.script.frontend.evaluate import attempts, conditions, control, expressions as ex, merge, names
from jitgrad.script.frontend.evaluate.attempts import Attempt, Classes, Handler, MayFail, thrown
from jitgrad.script.frontend.source.liveness import exits
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values import heap, strings
from jitgrad.script.frontend.values.plain import PLAIN, static
from jitgrad.script.frontend.values.protocol import call, is_dynamic, items_of
from jitgrad.script.frontend.values.values import UNBOUND, ExceptionValue, Number, RunText, SymList, SymTensor, Text
from jitgrad.script.graph.ir import Value

_SIZES = re.compile(r"\bs\d+\b")  # as symbols are called

# --- raising -------------------------------------------------------------------------------------------------------


def assert_(context: Context, s: ast.Assert) -> None:
    """`assert test, message`."""
    test = conditions.condition(context, s.test)
    if test is True:
        return

    def fail() -> None:
        args = () if s.msg is None else (ex.evaluate(context, s.msg),)
        throw(context, ExceptionValue(AssertionError, args))

    if test is False:
        fail()
        return
    merge.branch(context, test, lambda: None, fail, control.live_after(context, s))
    conditions.narrow(context, s.test, test, True)


def raise_(context: Context, s: ast.Raise) -> None:
    """`raise`, `raise error`, `raise error from cause` (the cause is only seen in a traceback)."""
    if s.exc is None:
        if not context.handling:
            raise effects.raise_now(context, RuntimeError, ("No active exception to reraise",))
        throw(context, context.handling[-1])
        return
    value = ex.evaluate(context, s.exc)
    if s.cause is not None:
        ex.evaluate(context, s.cause)
    context.node = s

    def one(value: Any) -> None:
        if isinstance(value, type) and issubclass(value, BaseException):
            value = call(context, value)
        if not isinstance(value, ExceptionValue):
            raise effects.raise_now(context, TypeError, ("exceptions must derive from BaseException",))
        throw(context, value)

    unions.switch(context, value, one, control.live_after(context, s))


def throw(context: Context, error: ExceptionValue) -> None:
    """Raise an exception: to a handler in this function by its flag, else out of here."""
    if error.unknown:
        raise UnsupportedCall("which exception is raised again is known only at run time", context.span(),
                              hint="name the exception")
    for attempt in reversed(context.tries):
        handler = attempt.handler(error.cls)
        if handler is not None:
            inside = attempt.frame is context.frame or attempts.returns(context, attempt)
            if inside and attempt.depth != context.depth:
                handler.raised.append(error)
                context.state.values[handler.flag] = True
                if handler.reads:
                    context.state.values[handler.arrived] = (error.cls, error.args)
                attempts.leave(context, attempt)
                return
            break
    raise raised(context, error)


def raised(context: Context, error: ExceptionValue) -> effects.Raised:
    """The raise of an exception, for the caller to raise."""
    if not error.args:
        return effects.raise_now(context, error.cls, None)
    values: list[Value] = []
    if len(error.args) == 1 and isinstance(error.args[0], (str, Text, RunText)):
        template, values = strings.template_of(context, error.args)
    else:
        template = (None, *[_stated(context, a, values) for a in error.args])
    return effects.raise_now(context, error.cls, template, values)


def _stated(context: Context, value: Any, values: list[Value]) -> Any:
    """An argument of an exception as a template has it; graph values are added to `values`."""
    value = unions.force(context, value, "None as the argument of an exception")
    if value is None or type(value) in (bool, float) or (type(value) is int and abs(value) < 1 << 63):
        return effects.stated(context, value, values)
    if isinstance(value, Number):
        values.append(value.value)
        return len(values) - 1
    if isinstance(value, SymTensor):
        check_none(context, [value], "an exception that has an item")
        values.append(heap.read(context, value))
        return len(values) - 1
    if type(value) is tuple or (type(value) is SymList and run_lists.run_items(context, value) is None):
        items = value if type(value) is tuple else items_of(context, value)
        return ("tuple" if type(value) is tuple else "list", *[_stated(context, v, values) for v in items])
    template, found = strings.template_of(context, [value])
    start = len(values)
    values += found
    return ("text", *[p if isinstance(p, str) else (p[0] + start, *p[1:]) for p in template])


def may_leave(context: Context, statements: Sequence[ast.stmt]) -> bool:
    """Whether a `raise` below goes to a handler around, in this function."""
    return "raise" in exits(statements) and any(a.frame is context.frame and a.handlers for a in context.tries)


def fail(context: Context, failing: MayFail) -> None:
    """What happens where an operation fails."""
    context.state = failing.state.copy()
    if isinstance(failing.error, Attempt):
        attempts.leave(context, failing.error)
    else:
        throw(context, failing.error)


# --- try -----------------------------------------------------------------------------------------------------------


def try_(context: Context, s: ast.Try) -> None:
    """`try` with handlers, `else`, `finally`."""
    if not s.finalbody:
        _handled(context, s)
        return
    if exits(s.finalbody) & {"break", "continue", "return"}:
        raise UnsupportedSyntax("a `finally` that leaves by itself", context.span(s.finalbody[0]),
                                hint="return after the `try`")
    with_finish(context, lambda: _handled(context, s), lambda: dispatch.run_block(context, s.finalbody))


def with_finish(context: Context, run: Callable[[], None], finish: Callable[[], None]) -> None:
    """`run`, then `finish`, whichever way control takes."""
    attempt = Attempt(context, [], finish)
    frame, node, modes = context.frame, context.node, context.modes
    outer = context.tries
    context.tries = [*outer, attempt]
    try:
        run()
    except (effects.Raised, ScriptError) as error:
        context.frame, context.node, context.modes = frame, node, modes
        if isinstance(error, ScriptError):
            caught = _python_error(error)
            if caught is None or error.blocks or not any(a.handler(caught.cls) for a in outer):
                raise
            error = raised(context, caught)
        context.tries = outer
        if error.attempt is not attempt:
            raise
        finish()
        _raise_again(context, error)
        return
    finally:
        context.tries = outer
    kept = {key: context.state.values.pop(key) for key in _flags(context) if key in context.state.values}
    finish()
    left = control.to_handler(context)  # an exception of the `finally` takes the place of what was on its way
    if isinstance(left, Number) and kept:
        control.unless_left(context, left, lambda: context.state.values.update(kept), frozenset())
    elif left is not True:
        context.state.values.update(kept)


def _raise_again(context: Context, error: effects.Raised) -> None:
    """Let an exception go on after a `finally`, where that has not raised one of its own on its way to a handler."""
    def on() -> None:
        raise effects.raise_now(context, error.error, error.template, error.values) from None

    left = control.to_handler(context)
    if isinstance(left, Number):
        control.unless_left(context, left, on, frozenset())
    elif not left:
        on()


def _flags(context: Context) -> list[Any]:
    """Where pending exits of this function are."""
    frame = context.frame
    keys: list[Any] = [(frame.id, "return"), (frame.id, ("result",))]
    keys += [(loop.id, kind) for loop in frame.loops for kind in ("break", "continue")]
    handlers = [h for a in context.tries if a.frame is frame for h in a.handlers]
    return keys + [h.flag for h in handlers] + [h.arrived for h in handlers]


def _handled(context: Context, s: ast.Try) -> None:
    if not s.handlers:
        dispatch.run_block(context, s.body)
        return
    handled(context, lambda: dispatch.run_block(context, s.body), [_except(context, h) for h in s.handlers], s.orelse,
            control.live_after(context, s.handlers[0].body[-1]))  # in front of `finally`


def handled(context: Context, run: Callable[[], None], handlers: list[Handler], orelse: Sequence[ast.stmt],
            live: frozenset[str]) -> None:
    """`run`, with handlers; `orelse` where no exception came. `live`: names that are read after it all."""
    attempt = Attempt(context, handlers, None)
    frame, node, modes = context.frame, context.node, context.modes
    outer = context.tries
    context.tries = [*outer, attempt]
    caught: ExceptionValue | None = None
    try:
        run()
    except effects.Raised as error:
        if error.attempt is not attempt:
            raise
        caught = thrown(context, error)
    except ScriptError as error:
        caught = _python_error(error)
        if caught is None or error.blocks or attempt.handler(caught.cls) is None:
            raise
    finally:
        context.tries = outer
    if caught is not None:
        context.frame, context.node, context.modes = frame, node, modes
        handler = attempt.handler(caught.cls)
        assert handler is not None
        handler.take(caught)
        return
    _after(context, orelse, [(h, context.state.values.pop(h.flag, False)) for h in handlers], live)


def _after(context: Context, orelse: Sequence[ast.stmt], flags: list[tuple[Handler, Any]], live: frozenset[str],
           ) -> None:
    """After the body: the handler whose flag is set, else `else`."""
    if not flags:
        control.run_pending(context, orelse, live)
        return
    (handler, flag), *rest = flags

    arrived = context.state.values.pop(handler.arrived, None)

    def take() -> None:
        first = handler.raised[0]
        if not handler.reads:
            known = len(handler.raised) == 1 and not is_dynamic(first.args)
            handler.take(first if known else ExceptionValue(first.cls, (), unknown="one of several"))
            return

        def run(error: tuple[Any, ...]) -> None:
            unions.each(context, error, lambda given: handler.take(ExceptionValue(*given)),
                        lambda v: unions.is_choice(v, *PLAIN))

        unions.switch(context, unions.without(context, arrived, UNBOUND, known=True), run, live)

    if isinstance(flag, Number):
        merge.branch(context, flag, take, lambda: _after(context, orelse, rest, live), live)
    elif flag:
        take()
    else:
        _after(context, orelse, rest, live)


def _except(context: Context, node: ast.ExceptHandler) -> Handler:
    """An `except`, which reads the exception where it raises it again or names it."""
    def take(error: ExceptionValue) -> None:
        if node.name is not None:
            names.assign(context, node.name, error, node)
        context.handling.append(error)
        try:
            dispatch.run_block(context, node.body)
        finally:
            context.handling.pop()
        if node.name is not None:
            context.state.values[(context.frame.id, node.name)] = UNBOUND

    inside = [n for s in node.body for n in ast.walk(s)]
    reads = any(isinstance(n, ast.Raise) and n.exc is None for n in inside) or (
        node.name is not None and any(isinstance(n, ast.Name) and n.id == node.name for n in inside))
    return Handler(context, _classes(context, node), take, reads)


def _classes(context: Context, node: ast.ExceptHandler) -> Classes:
    if node.type is None:
        return (BaseException,)
    found = static(context, ex.evaluate(context, node.type), "the class of an `except`")
    return found if isinstance(found, tuple) else (found,)


def _python_error(error: ScriptError) -> ExceptionValue | None:
    """What Python would have raised where compilation found an error; None for a refusal."""
    if isinstance(error, UnresolvedName):
        return ExceptionValue(NameError, (f"name {error.message.replace('`', chr(39))} is not defined",))
    cause = error.__cause__
    known = isinstance(error, (TypeMismatch, ShapeMismatch, InvalidOperation))
    if known and isinstance(cause, (TypeError, RuntimeError)):
        sizes = "which tells of sizes that only the run knows" if _SIZES.search(str(cause)) else ""
        return ExceptionValue(type(cause), (str(cause),), sizes)
    return None
