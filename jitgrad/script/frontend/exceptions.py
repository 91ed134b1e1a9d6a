"""Exceptions of the user's program: `raise`, `assert`, `try`, `with`.

A `raise` reached for certain while compiling unwinds the evaluation to the `try` that handles it, and nothing is
emitted. A `raise` that only some runs reach leaves its `try` like a `break` leaves a loop: by a flag, under the
handler's id. What `finally` says runs on every way out, in front of a failing check too. Where an operation may fail
at run time under a handler for its error, Python would leave in the middle of an expression: the statement's
evaluation is abandoned (`MayFail`), and done again under `if it does not fail`, the rest of its block with it.
"""

from __future__ import annotations

import ast
import contextlib
import operator
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.amp.autocast_mode import autocast
from jitgrad.errors import (
    ScriptError,
    ShapeMismatch,
    TypeMismatch,
    UnresolvedAttribute,
    UnresolvedName,
    UnsupportedCall,
    UnsupportedSyntax,
)
from jitgrad.ops.types import TensorType
from jitgrad.script.frontend import calls, contents, heap, lists, lowering, merge, numbers
from jitgrad.script.frontend import expressions as ex
from jitgrad.script.frontend.context import Context
from jitgrad.script.frontend.liveness import exits
from jitgrad.script.frontend.values import (
    UNBOUND,
    Instance,
    Number,
    SymList,
    SymTensor,
    Text,
    Union,
    is_dynamic,
    type_word,
)
from jitgrad.script.ir import Block, Value, walk
from jitgrad.script.irops import Effect, effect

Classes = tuple[type[BaseException], ...]


class Handler:
    """One `except` of a `try` being evaluated. `raised`: the exceptions that may reach it by its flag."""

    __slots__ = ("classes", "id", "node", "raised", "reads")

    def __init__(self, context: Context, classes: Classes, node: ast.ExceptHandler):
        self.id, self.classes, self.node = context.new_id(), classes, node
        self.raised: list[calls.ExceptionValue] = []
        inside = [n for s in node.body for n in ast.walk(s)]
        self.reads = any(isinstance(n, ast.Raise) and n.exc is None for n in inside) or (
            node.name is not None and any(isinstance(n, ast.Name) and n.id == node.name for n in inside))

    @property
    def flag(self) -> tuple[int, str]:
        """Where the state says whether control goes to this handler."""
        return self.id, "break"

    @property
    def arrived(self) -> tuple[int, tuple[str]]:
        """Where the state has the class and the arguments of the exception on its way; like a `return`'s result."""
        return self.id, ("result",)


class Attempt:
    """A `try` being evaluated: its handlers, or what runs on the way out."""

    __slots__ = ("depth", "finish", "frame", "handlers", "loops", "modes")

    def __init__(self, context: Context, handlers: list[Handler], finish: Callable[[], None] | None):
        self.depth, self.frame, self.modes = context.depth, context.frame, context.modes
        self.loops = len(context.frame.loops)
        self.handlers, self.finish = handlers, finish

    def handler(self, error: type[BaseException]) -> Handler | None:
        """The handler that takes an error."""
        return next((h for h in self.handlers if issubclass(error, h.classes)), None)


class Step:
    """A statement being evaluated inside a `try`: where evaluation goes back to when an operation in it may fail.

    `passed`: how many of its operations that may fail are known not to.
    """

    __slots__ = ("block", "frame", "modes", "node", "passed", "seen", "start", "state", "tries")

    def __init__(self, context: Context, passed: int):
        self.frame, self.node, self.modes, self.tries = context.frame, context.node, context.modes, context.tries
        self.block, self.state, self.passed, self.seen = context.builder.block, context.state.copy(), passed, 0
        self.start = len(self.block.nodes)

    def back(self, context: Context) -> None:
        """Take back what the statement did; the nodes that it left have no effect."""
        context.frame, context.node, context.modes, context.tries = self.frame, self.node, self.modes, self.tries
        context.state = self.state

    def observed(self) -> bool:
        """Whether the statement has done anything so far that cannot be taken back."""
        made = Block(nodes=self.block.nodes[self.start:])
        return any(effect(n.op, n.attrs) not in (Effect.NONE, Effect.RAISES) for n in walk(made))


class MayFail(Exception):
    """Unwinds to `step`, one of whose operations fails unless `condition`; None where it is certain to fail."""

    def __init__(self, step: Step, condition: Number | None, error: calls.ExceptionValue):
        super().__init__(error)
        self.step, self.condition, self.error = step, condition, error


def may_fail(context: Context, attempt: Attempt, condition: Number | None, error: merge.Raised
             ) -> ScriptError | MayFail:
    """What to raise where an operation may fail with an error that `attempt` handles."""
    step = next((s for s in reversed(context.steps) if s.frame is attempt.frame), None)
    if (step is None or step.block is not context.builder.block or step.observed()
            or not all(loop.ends for loop in attempt.frame.loops[attempt.loops:])):
        return _dynamic(context, error.error)
    return MayFail(step, condition, _value(context, error))


def intercept(context: Context, error: type[BaseException], template: Any, values: Sequence[Value]
              ) -> merge.Raised | None:
    """A raise that an enclosing `try` sees: the unwinding to it; None where the raise is to be emitted here."""
    tries = context.tries
    try:
        for index in range(len(tries) - 1, -1, -1):
            attempt = tries[index]
            handler = attempt.handler(error)
            if handler is None and attempt.finish is None:
                continue
            if attempt.depth == context.depth:
                return merge.Raised(error, template, values, attempt)
            if handler is not None:
                raise may_fail(context, attempt, None, merge.Raised(error, template, values))
            context.tries = tries[:index]
            _finish_here(context, attempt)
        return None
    finally:
        context.tries = tries


def _finish_here(context: Context, attempt: Attempt) -> None:
    """What `finally` says, in front of a raise inside a branch, a loop or a call."""
    before = context.frame, context.node, context.modes
    context.frame, context.modes = attempt.frame, attempt.modes
    assert attempt.finish is not None
    attempt.finish()
    context.frame, context.node, context.modes = before


def _dynamic(context: Context, error: type[BaseException]) -> UnsupportedCall:
    return UnsupportedCall(f"only the run knows whether this raises a `{error.__name__}`, which a `try` handles",
                           context.span(), hint="test for it with an `if`, and `raise` in the function of the `try`")


def watch(context: Context, op: str, inputs: tuple[Value, ...], attrs: dict[str, Any]) -> bool:
    """Before an effect that may raise inside a `try`: whether it was emitted in another form."""
    errors: Classes = (attrs["error"],) if op == "check" else _ARITHMETIC.get(op, ())
    if not any(a.finish is not None or a.handler(e) for a in context.tries for e in errors):
        return False
    attempt = next((a for a in reversed(context.tries) if any(a.handler(e) for e in errors)), None)
    if attempt is not None and _passed(context, attempt):
        return op == "check"
    if op == "check":
        condition: Any = numbers.wrap(context, inputs[0])
        error, template, values = attrs["error"], attrs["template"], inputs[1:]
    elif op in ("num.truediv", "num.floordiv", "num.mod"):
        divisor = numbers.wrap(context, inputs[1])
        condition = numbers.compare(context, "ne", divisor, 0)
        error, template, values = ZeroDivisionError, (_zero(op, context, inputs),), ()
    else:
        raise _dynamic(context, errors[0])
    if attempt is not None:
        raise may_fail(context, attempt, condition, merge.Raised(error, template, values))

    def fail() -> None:
        raise merge.raise_now(context, error, template, values)

    merge.branch(context, condition, lambda: None, fail)
    return op == "check"


def _passed(context: Context, attempt: Attempt) -> bool:
    """Whether this operation is known not to fail: evaluation has come back from it."""
    step = next((s for s in reversed(context.steps) if s.frame is attempt.frame), None)
    if step is None or step.block is not context.builder.block:
        return False
    step.seen += 1
    return bool(step.seen <= step.passed)


def _zero(op: str, context: Context, inputs: tuple[Value, ...]) -> str:
    """Python's words for a division by zero."""
    operation = {"num.truediv": operator.truediv, "num.floordiv": operator.floordiv, "num.mod": operator.mod}[op]
    kinds = [numbers.wrap(context, v).number_type for v in inputs]
    one = 1.0 if float in kinds else 1
    try:
        operation(one, 0)
    except ZeroDivisionError as error:
        return str(error)
    raise AssertionError(op)


#: what checked arithmetic may raise that Python's would too
_ARITHMETIC: dict[str, Classes] = {
    "num.truediv": (ZeroDivisionError,), "num.floordiv": (ZeroDivisionError,), "num.mod": (ZeroDivisionError,),
    "num.pow": (ZeroDivisionError,), "num.math": (ValueError, OverflowError), "num.cast": (ValueError, OverflowError),
    "num.lshift": (ValueError,), "num.rshift": (ValueError,),
}


# --- raising -------------------------------------------------------------------------------------------------------


def assert_(context: Context, s: ast.Assert) -> None:
    """`assert test, message`."""
    test = ex.condition(context, s.test)
    if test is True:
        return

    def fail() -> None:
        args = () if s.msg is None else (ex.evaluate(context, s.msg),)
        throw(context, calls.ExceptionValue(AssertionError, args))

    if test is False:
        fail()
        return
    from jitgrad.script.frontend.statements import live_after

    merge.branch(context, test, lambda: None, fail, live_after(context, s))
    ex.narrow(context, s.test, test, True)


def raise_(context: Context, s: ast.Raise) -> None:
    """`raise`, `raise error`, `raise error from cause` (the cause is only seen in a traceback)."""
    if s.exc is None:
        if not context.handling:
            raise merge.raise_now(context, RuntimeError, ("No active exception to reraise",))
        throw(context, context.handling[-1])
        return
    value = ex.evaluate(context, s.exc)
    if s.cause is not None:
        ex.evaluate(context, s.cause)
    context.node = s
    if isinstance(value, type) and issubclass(value, BaseException):
        value = calls.ExceptionValue(value, ())
    if not isinstance(value, calls.ExceptionValue):
        raise merge.raise_now(context, TypeError, ("exceptions must derive from BaseException",))
    throw(context, value)


def throw(context: Context, error: calls.ExceptionValue) -> None:
    """Raise an exception: to a handler in this function by its flag, else out of here."""
    if error.unknown:
        raise UnsupportedCall("which exception is raised again is known only at run time", context.span(),
                              hint="name the exception")
    for attempt in reversed(context.tries):
        handler = attempt.handler(error.cls)
        if handler is not None:
            if attempt.frame is context.frame and attempt.depth != context.depth:
                handler.raised.append(error)
                context.state.values[handler.flag] = True
                if handler.reads:
                    context.state.values[handler.arrived] = (error.cls, error.args)
                return
            break
    raise raised(context, error)


def raised(context: Context, error: calls.ExceptionValue) -> merge.Raised:
    """The raise of an exception, for the caller to raise."""
    from jitgrad.script.frontend.printing import template_of

    if not error.args:
        return merge.raise_now(context, error.cls, None)
    values: list[Value] = []
    if len(error.args) == 1 and isinstance(error.args[0], (str, Text)):
        template, values = template_of(context, error.args)
    else:
        template = (None, *[_stated(context, a, values) for a in error.args])
    return merge.raise_now(context, error.cls, template, values)


def _stated(context: Context, value: Any, values: list[Value]) -> Any:
    """An argument of an exception as a template has it (`interpret.exception`); graph values are added to `values`."""
    from jitgrad.script.frontend.printing import template_of

    if value is None:
        return None
    if isinstance(value, Number):
        values.append(value.value)
        return len(values) - 1
    if isinstance(value, SymTensor):
        values.append(heap.read(context, value))
        return len(values) - 1
    if type(value) in (bool, float) or (type(value) is int and abs(value) < 1 << 63):
        values.append(context.constant(value))
        return len(values) - 1
    if isinstance(value, Union):
        held = merge.force(context, value, "None as the argument of an exception")
        if not isinstance(held, Union):
            return _stated(context, held, values)
    if type(value) is tuple or (isinstance(value, SymList) and lists.run_items(context, value) is None):
        items = value if type(value) is tuple else contents.items_of(context, value)
        return ("tuple" if type(value) is tuple else "list", *[_stated(context, v, values) for v in items])
    template, found = template_of(context, [value])
    start = len(values)
    values += found
    return ("text", *[p if isinstance(p, str) else (p[0] + start, *p[1:]) for p in template])


def pending(context: Context) -> Any:
    """Whether control is on its way to a handler in this function: False, True or a run-time bool."""
    result: Any = False
    for attempt in context.tries:
        if attempt.frame is context.frame:
            for handler in attempt.handlers:
                result = numbers.either(context, result, context.state.values.get(handler.flag, False))
    return result


def may_leave(context: Context, statements: Sequence[ast.stmt]) -> bool:
    """Whether a `raise` below goes to a handler around, in this function."""
    return "raise" in exits(statements) and any(a.frame is context.frame and a.handlers for a in context.tries)


# --- try -----------------------------------------------------------------------------------------------------------


def try_(context: Context, s: ast.Try) -> None:
    """`try` with handlers, `else`, `finally`."""
    from jitgrad.script.frontend.statements import run_block

    if not s.finalbody:
        _handled(context, s)
        return
    if exits(s.finalbody) & {"break", "continue", "return"}:
        raise UnsupportedSyntax("a `finally` that leaves by itself", context.span(s.finalbody[0]),
                                hint="return after the `try`")
    with_finish(context, lambda: _handled(context, s), lambda: run_block(context, s.finalbody))


def with_finish(context: Context, run: Callable[[], None], finish: Callable[[], None]) -> None:
    """`run`, then `finish`, whichever way control takes."""
    attempt = Attempt(context, [], finish)
    frame, node, modes = context.frame, context.node, context.modes
    outer = context.tries
    context.tries = [*outer, attempt]
    try:
        run()
    except merge.Raised as error:
        context.tries = outer
        context.frame, context.node, context.modes = frame, node, modes
        if error.attempt is not attempt:
            raise
        finish()
        raise merge.raise_now(context, error.error, error.template, error.values) from None
    finally:
        context.tries = outer
    kept = {key: context.state.values.pop(key) for key in _flags(context) if key in context.state.values}
    finish()
    context.state.values.update(kept)


def _flags(context: Context) -> list[Any]:
    """Where pending exits of this function are."""
    frame = context.frame
    keys: list[Any] = [(frame.id, "return"), (frame.id, ("result",))]
    keys += [(loop.id, kind) for loop in frame.loops for kind in ("break", "continue")]
    handlers = [h for a in context.tries if a.frame is frame for h in a.handlers]
    return keys + [h.flag for h in handlers] + [h.arrived for h in handlers]


def _handled(context: Context, s: ast.Try) -> None:
    from jitgrad.script.frontend.statements import run_block

    if not s.handlers:
        run_block(context, s.body)
        return
    handlers = [Handler(context, _classes(context, h), h) for h in s.handlers]
    attempt = Attempt(context, handlers, None)
    frame, node, modes = context.frame, context.node, context.modes
    outer = context.tries
    context.tries = [*outer, attempt]
    caught: calls.ExceptionValue | None = None
    try:
        run_block(context, s.body)
    except merge.Raised as error:
        if error.attempt is not attempt:
            raise
        caught = _value(context, error)
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
        _take(context, handler, caught)
        return
    _after(context, s, [(h, context.state.values.pop(h.flag, False)) for h in handlers])


def _after(context: Context, s: ast.Try, flags: list[tuple[Handler, Any]]) -> None:
    """After the body: the handler whose flag is set, else `else`."""
    from jitgrad.script.frontend.statements import live_after, run_pending

    if not flags:
        run_pending(context, s.orelse, live_after(context, s))
        return
    (handler, flag), *rest = flags

    arrived = context.state.values.pop(handler.arrived, None)

    def take() -> None:
        first = handler.raised[0]
        if not handler.reads:
            known = len(handler.raised) == 1 and not is_dynamic(first.args)
            _take(context, handler, first if known else calls.ExceptionValue(first.cls, (), unknown=True))
            return
        cls, args = lowering.without(context, arrived, UNBOUND, known=True)
        known = isinstance(args, tuple) and not any(isinstance(a, Union) and a.inner is not None for a in args)

        def run(cls: Any) -> None:
            _take(context, handler, calls.ExceptionValue(cls, args if known else (), unknown=not known))

        if isinstance(cls, Union):
            merge.switch(context, cls, run, live_after(context, s))
        else:
            run(cls)

    if isinstance(flag, Number):
        merge.branch(context, flag, take, lambda: _after(context, s, rest), live_after(context, s))
    elif flag:
        take()
    else:
        _after(context, s, rest)


def _take(context: Context, handler: Handler, error: calls.ExceptionValue) -> None:
    """Run a handler's body."""
    from jitgrad.script.frontend.statements import run_block
    from jitgrad.script.frontend.targets import assign_name

    name = handler.node.name
    if name is not None:
        assign_name(context, name, error, handler.node)
    context.handling.append(error)
    try:
        run_block(context, handler.node.body)
    finally:
        context.handling.pop()
    if name is not None:
        context.state.values[(context.frame.id, name)] = UNBOUND


def _classes(context: Context, handler: ast.ExceptHandler) -> Classes:
    if handler.type is None:
        return (BaseException,)
    found = calls.static(context, ex.evaluate(context, handler.type), "the class of an `except`")
    return found if isinstance(found, tuple) else (found,)


def _value(context: Context, error: merge.Raised) -> calls.ExceptionValue:
    """The exception object of a raise that unwound to its handler."""
    if error.template is None:
        return calls.ExceptionValue(error.error, ())
    from jitgrad.script.frontend import strings

    def held(value: Value) -> Any:
        return heap.new_tensor(context, value) if isinstance(value.type, TensorType) else numbers.wrap(context, value)

    def text(template: Sequence[Any]) -> Any:
        return strings.text(context, [p if isinstance(p, str) else (held(error.values[p[0]]), *p[1:])
                                      for p in template])

    def argument(stated: Any) -> Any:
        if stated is None or isinstance(stated, int):
            return None if stated is None else held(error.values[stated])
        kind, *parts = stated
        if kind == "text":
            return text(parts)
        items = tuple([argument(p) for p in parts])
        return items if kind == "tuple" else lists.new(context, items)

    several = error.template[:1] == (None,)
    args = tuple([argument(a) for a in error.template[1:]]) if several else (text(error.template),)
    return calls.ExceptionValue(error.error, args)


def _python_error(error: ScriptError) -> calls.ExceptionValue | None:
    """What Python would have raised where compilation found an error; None for a refusal."""
    if isinstance(error, UnresolvedAttribute):
        return calls.ExceptionValue(AttributeError, (error.message,))
    if isinstance(error, UnresolvedName):
        return calls.ExceptionValue(NameError, (f"name {error.message.replace('`', chr(39))} is not defined",))
    cause = error.__cause__
    if isinstance(error, (TypeMismatch, ShapeMismatch)) and isinstance(cause, (TypeError, RuntimeError)):
        return calls.ExceptionValue(type(cause), (str(cause),))
    return None


# --- with ----------------------------------------------------------------------------------------------------------


#: what a branch may have chosen between
_SCOPES = (calls.GradScope, autocast, contextlib.nullcontext)


def with_(context: Context, s: ast.With) -> None:
    """`with` on grad modes, autocast, context managers written in Python. What only the run knows is a branch."""
    from jitgrad.script.frontend.statements import live_after, run_block

    def enter(items: list[ast.withitem]) -> None:
        if not items:
            run_block(context, s.body)
            return
        before, context.entering = context.entering, True
        value = ex.evaluate(context, items[0].context_expr)
        context.entering = before
        context.node = items[0].context_expr
        if isinstance(value, Union) and value.inner is None and all(isinstance(v, _SCOPES) for v in value.statics):
            merge.switch(context, value, lambda v: _scope(context, v, items[0], lambda: enter(items[1:])),
                         live_after(context, s))
            return
        if isinstance(value, calls.GradScope) and isinstance(value.enabled, Number):
            merge.branch(context, value.enabled,
                         lambda: _scope(context, calls.GradScope(not value.negated), items[0],
                                        lambda: enter(items[1:])),
                         lambda: _scope(context, calls.GradScope(value.negated), items[0], lambda: enter(items[1:])),
                         live_after(context, s))
            return
        _scope(context, value, items[0], lambda: enter(items[1:]))

    before = context.modes
    try:
        enter(s.items)
    finally:
        context.modes = before


def _scope(context: Context, value: Any, item: ast.withitem, run: Callable[[], None]) -> None:
    from jitgrad.script.frontend.generators import Generator
    from jitgrad.script.frontend.targets import assign

    def bind(entered: Any) -> None:
        if item.optional_vars is not None:
            assign(context, item.optional_vars, entered)

    if isinstance(value, calls.GradScope):
        before, context.grad = context.grad, bool(value.enabled) is not value.negated
        bind(None)
        run()
        context.grad = before
        return
    if isinstance(value, autocast):
        modes = context.modes
        value.begin()
        bind(value)
        run()
        context.modes = modes
        return
    if isinstance(value, contextlib.nullcontext):
        bind(value.enter_result)
        run()
        return
    if isinstance(value, Generator):  # made by `contextlib.contextmanager`
        def enter(entered: Any) -> bool:
            inner = context.frame, context.node
            context.frame, context.node = frame, node
            bind(entered)
            run()
            context.frame, context.node = inner
            return False

        frame, node = context.frame, context.node
        value.run(context, enter)
        return
    cls: Any = value.cls if isinstance(value, Instance) else type(value)
    if not all(hasattr(getattr(cls, name, None), "__code__") for name in ("__enter__", "__exit__")):
        raise UnsupportedSyntax(f"`with` on {type_word(value)}", context.span(item.context_expr),
                                hint="scripts know `no_grad()`, `enable_grad()`, `set_grad_enabled(...)` and "
                                     "`autocast(...)`, and context managers written in Python")
    bind(calls.call(context, cls.__enter__, (value,), {}))

    def leave() -> None:
        if calls.call(context, cls.__exit__, (value, None, None, None), {}):
            raise UnsupportedCall("an `__exit__` that returns a true value", context.span(item.context_expr),
                                  hint="handle the exception with `try` and `except`")

    with_finish(context, run, leave)
