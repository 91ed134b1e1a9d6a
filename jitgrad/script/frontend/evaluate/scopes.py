"""`with` on grad modes, autocast, null contexts and context managers written in Python."""

import ast
import contextlib
import types
from collections.abc import Callable
from typing import Any

from jitgrad.amp.autocast_mode import autocast
from jitgrad.eager.autograd.grad_mode import Scope
from jitgrad.eager.profiling import record_function
from jitgrad.errors import NotStatic, UnsupportedCall, UnsupportedSyntax
from jitgrad.script.frontend.containers.generators import Consumer, Generator
from jitgrad.script.frontend.evaluate import control, expressions as ex, merge, targets
from jitgrad.script.frontend.evaluate.attempts import Handler
from jitgrad.script.frontend.evaluate.exceptions import handled, throw, with_finish
from jitgrad.script.frontend.source.source import own_nodes, source_of
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import CONSTRUCTORS, Args
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import instances
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import (Kind, call, class_of, get_attribute, is_dynamic, register, truth,
                                                     type_word)
from jitgrad.script.frontend.values.values import ExceptionValue, Function, Method, Number


class GradScope:
    """`no_grad()` and kin, entered by `with`; `inference_mode`, which switches recording off, is the `negated` one."""

    __slots__ = ("enabled", "negated")

    def __init__(self, enabled: bool | Number, negated: bool = False):
        self.enabled, self.negated = enabled, negated


@register(GradScope)
class GradScopeKind(Kind):
    """A grad mode: as a decorator, each call of the function is in it."""

    def class_of(self, obj: GradScope) -> type:
        return Scope

    def call(self, context: Context, obj: GradScope, args: Args, kwargs: dict[str, Any]) -> Any:
        (fn,) = args
        if isinstance(obj.enabled, Number):
            raise NotStatic("the mode of a decorator is known only at run time", context.span(), hint="use `with`")

        def decorated(cx: Context, given: Args, named: dict[str, Any]) -> Any:
            modes = cx.modes
            _enter(cx, obj)
            found = call(cx, fn, *given, **named)
            cx.modes = modes
            return _in_mode(cx, obj, found) if isinstance(found, Generator) else found

        return Method("decorated", decorated)


def _in_mode(context: Context, scope: GradScope, generator: Generator) -> Generator:
    """A generator whose statements run in a mode, and those of who takes its items do not."""
    def produce(cx: Context, consumer: Consumer) -> None:
        outside = cx.modes

        def take(item: Any) -> Any:
            inside, cx.modes = cx.modes, outside
            done = consumer(item)
            cx.modes = inside
            return done

        _enter(cx, scope)
        generator.run(cx, take)
        cx.modes = outside

    return Generator(context, produce, generator.asked)


def _enter(context: Context, scope: GradScope) -> None:
    context.grad = bool(scope.enabled) is not scope.negated
    if scope.negated:
        context.inference = bool(scope.enabled)


#: what a branch may have chosen between
_SCOPES = (GradScope, autocast, contextlib.nullcontext)


def _grad_mode(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    name = cls.__name__
    if args and isinstance(args[0], (Function, types.FunctionType)):
        return call(context, _grad_mode(context, cls, (), {}), args[0])
    if name in ("no_grad", "enable_grad"):
        return GradScope(name == "enable_grad")
    if name == "set_grad_enabled" and not context.entering:
        raise UnsupportedCall("`set_grad_enabled` outside a `with`", context.span(),
                              hint="write `with set_grad_enabled(mode):`")
    mode = args[0] if args else kwargs.get("mode", True)
    if not (isinstance(mode, Number) and mode.number_type is bool):
        mode = bool(static(context, mode, "the mode"))
    return GradScope(mode, negated=name == "inference_mode")


def _autocast(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    given = [_known(context, a) for a in args]
    named = {k: _known(context, v) for k, v in kwargs.items()}
    return effects.guarded(context, lambda: cls(*given, **named))


def _known(context: Context, value: Any) -> Any:
    """`value`, or what it is at the first call where that is known at entry, and assumed. Raises NotStatic."""
    found = context.inputs.assumed(value) if isinstance(value, Number) else None
    if found is None and is_dynamic(value):
        raise NotStatic(f"an argument of `autocast` must be known while compiling, but this is {type_word(value)}",
                        context.span(),
                        hint="use an attribute or a bool argument of the script, or write an `if` around the `with`")
    return value if found is None else found


def _nullcontext(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    if cls is not contextlib.nullcontext or args or kwargs:
        return instances.construct(context, cls, args, kwargs)
    return contextlib.nullcontext()  # a static object, which a branch may choose


def _unseen(context: Context, cls: type, args: Args, kwargs: dict[str, Any]) -> Any:
    """A profile sees the call of a script alone."""
    if cls is not record_function:
        return instances.construct(context, cls, args, kwargs)
    return contextlib.nullcontext()


CONSTRUCTORS.update({Scope: _grad_mode, autocast: _autocast, contextlib.nullcontext: _nullcontext,
                     record_function: _unseen})


def with_(context: Context, s: ast.With) -> None:
    """`with` on grad modes, autocast, context managers written in Python. What is known at run time is a branch."""
    live = control.live_after(context, s)

    def enter(items: list[ast.withitem]) -> None:
        if not items:
            dispatch.run_block(context, s.body)
            return
        before, context.entering = context.entering, True
        value = ex.evaluate(context, items[0].context_expr)
        context.entering = before
        context.node = items[0].context_expr

        def inside(scope: Any) -> None:
            _scope(context, scope, items[0], lambda: enter(items[1:]), live)

        if unions.is_choice(value, *_SCOPES):
            unions.switch(context, value, inside, live)
        elif isinstance(value, GradScope) and isinstance(value.enabled, Number):
            merge.branch(context, value.enabled, lambda: inside(GradScope(not value.negated)),
                         lambda: inside(GradScope(value.negated)), live)
        else:
            inside(value)

    before = context.modes
    try:
        enter(s.items)
    finally:
        context.modes = before


def _scope(context: Context, value: Any, item: ast.withitem, run: Callable[[], None], live: frozenset[str]) -> None:
    def bind(entered: Any) -> None:
        if item.optional_vars is not None:
            targets.assign(context, item.optional_vars, entered)

    if isinstance(value, GradScope):
        modes = context.modes
        _enter(context, value)
        bind(None)
        run()
        context.modes = modes
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
        def enter(entered: Any) -> Any:
            inner = context.frame, context.node
            context.frame, context.node = frame, node
            bind(entered)
            run()
            context.frame, context.node = inner
            return control.arriving(context, *context.tries)  # an exception comes up at the `yield`

        frame, node = context.frame, context.node
        value.run(context, enter)
        return
    cls: Any = class_of(value)
    if not all(hasattr(getattr(cls, name, None), "__code__") for name in ("__enter__", "__exit__")):
        raise UnsupportedSyntax(f"`with` on {type_word(value)}", context.span(item.context_expr),
                                hint="scripts know `no_grad()`, `enable_grad()`, `set_grad_enabled(...)` and "
                                     "`autocast(...)`, and context managers written in Python")
    bind(call(context, cls.__enter__, value))
    taken = context.new_id(), "break"  # a flag: an exception has been taken

    def leave(*raised: Any) -> Any:
        context.node = item.context_expr
        return call(context, cls.__exit__, value, *(raised or (None, None, None)))

    def take(error: ExceptionValue) -> None:
        """Leave with an exception, which goes on where `__exit__` gives nothing true."""
        context.state.values[taken] = True
        merge.branch(context, truth(context, leave(error.cls, error, None)), lambda: None,
                     lambda: throw(context, error), live)

    classes, reads = _taken(context, value, cls)
    if classes:
        inside, handler = run, Handler(context, classes, take, reads)

        def run() -> None:
            handled(context, inside, [handler], (), live)

    with_finish(context, run, lambda: merge.branch(context, context.state.values.pop(taken, False), lambda: None, leave,
                                                   live))


def _taken(context: Context, value: Any, cls: Any) -> tuple[tuple[type[BaseException], ...], bool]:
    """The exceptions that a context manager is told of, if it looks at them or may keep them from going on, and whether
    it looks at them."""
    if cls is contextlib.suppress:
        return tuple(static(context, get_attribute(context, value, "_exceptions"), "an exception to suppress")), False
    body: Any = source_of(cls.__exit__).node
    returned = [n.value for s in body.body for n in own_nodes(s) if isinstance(n, ast.Return)]
    reads = _reads_exception(body)
    told = reads or not all(v is None or (isinstance(v, ast.Constant) and not v.value) for v in returned)
    return (BaseException,) if told else (), reads


def _reads_exception(body: ast.FunctionDef) -> bool:
    """Whether an `__exit__` reads what it is told of the exception."""
    arguments = body.args
    told = {a.arg for a in [*arguments.posonlyargs, *arguments.args][1:]}
    if arguments.vararg is not None:
        told.add(arguments.vararg.arg)
    return any(isinstance(n, ast.Name) and n.id in told for n in ast.walk(body))
