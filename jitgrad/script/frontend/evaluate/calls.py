"""Calls: library functions emit, builtins have handlers, every other Python function is inlined."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jitgrad.errors import NotStatic, TypeMismatch, UnsupportedCall
from jitgrad.script.frontend.containers.generators import Consumer, Generator
from jitgrad.script.frontend.source.source import source_of
from jitgrad.script.frontend.source.syntax import check_source
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.frames import Frame
from jitgrad.script.frontend.state.handlers import HANDLERS
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values.plain import PLAIN, static
from jitgrad.script.frontend.values.protocol import argument, class_of, is_dynamic, type_name, type_word
from jitgrad.script.frontend.values.values import (
    Function,
    Method,
    Number,
    SymDict,
    SymList,
    SymTensor,
    Union,
)
from jitgrad.script.graph.marks import mark_of

DEPTH = 64
#: what `contextlib.contextmanager` makes of a generator function
_CONTEXT_MANAGER = contextlib.contextmanager(iter).__code__


class GradScope:
    """`no_grad()` and kin, entered by `with`."""

    __slots__ = ("enabled", "negated")

    def __init__(self, enabled: bool | Number, negated: bool = False):
        self.enabled, self.negated = enabled, negated


def known(context: Context, value: Any, what: str) -> Any:
    """`value`, or what a bool is that the call's arguments gave: assumed from then on. Raises NotStatic for others."""
    found = context.inputs.assumed(value) if isinstance(value, Number) else None
    if found is None and is_dynamic(value):
        raise NotStatic(f"{what} must be known while compiling, but this is {type_word(value)}", context.span(),
                        hint="use an attribute or a bool argument of the script, or write an `if` around the `with`")
    return value if found is None else found


def call(context: Context, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`fn(*args, **kwargs)`."""
    if isinstance(fn, Function):
        return _inline(context, fn.node, fn.source, None, fn.frame, args, kwargs, fn.defaults, fn.kw_defaults)
    if isinstance(fn, Method):
        return fn.call(context, args, kwargs)
    if isinstance(fn, Union):
        return unions.switch(context, fn, lambda f: call(context, f, args, kwargs))
    try:
        handler = HANDLERS.get(fn)
    except TypeError:
        handler = None
    if handler is not None:
        return handler(context, args, kwargs)
    if getattr(fn, "__library__", False):
        return library(context, fn, args, kwargs)
    if isinstance(fn, types.MethodType):
        if isinstance(fn.__self__, SymTensor):
            return library(context, fn, args, kwargs)
        return call(context, fn.__func__, (fn.__self__, *args), kwargs)
    if isinstance(fn, types.FunctionType):
        return python(context, fn, args, kwargs)
    if isinstance(fn, functools.partial):
        return call(context, fn.func, (*fn.args, *args), {**fn.keywords, **kwargs})
    eager = getattr(fn, "eager", None)
    if eager is not None and hasattr(fn, "cache_info"):
        return call(context, eager, args, kwargs)
    if isinstance(fn, type):
        return _construct(context, fn, args, kwargs)
    if isinstance(fn, (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType,
                       types.WrapperDescriptorType)):
        return _builtin(context, fn, args, kwargs)
    method = getattr(class_of(fn), "__call__", None)  # noqa: B004  (the attribute itself is wanted)
    if isinstance(method, types.FunctionType):
        return call(context, method, (fn, *args), kwargs)
    if method is not None and hasattr(method, "eager"):
        return call(context, method.eager, (fn, *args), kwargs)
    raise _not_called(context, fn)


def _not_called(context: Context, fn: Any) -> Exception:
    """What to raise for something that is not called in any way that is known here."""
    if callable(fn) and not is_dynamic(fn):
        return _foreign(context, fn)
    return effects.raise_now(context, TypeError, (f"'{type_name(fn)}' object is not callable",))


def _foreign(context: Context, fn: Any) -> UnsupportedCall:
    """The refusal of a function of another library."""
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__
    module = getattr(fn, "__module__", None)
    return UnsupportedCall(f"call of `{module}.{name}`" if module else f"call of `{name}`", context.span(),
                           hint="use a tensor operation, or call it in a function marked `@jitgrad.ignore`")


def library(context: Context, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of the library, on symbolic tensors and numbers."""
    if any(isinstance(a, SymList) for a in (*args, *kwargs.values())):
        from jitgrad.script.frontend.containers import list_methods

        if any(run_lists.run_items(context, a) is not None for a in (*args, *kwargs.values())):
            special = list_methods.FUNCTIONS.get(fn)
            if special is None:
                raise run_lists.not_static(context)
            return call(context, special, args, kwargs)
    given = tuple([argument(context, a) for a in args])
    named = {k: argument(context, v) for k, v in kwargs.items()}
    return effects.guarded(context, lambda: fn(*given, **named))


def _builtin(context: Context, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if any(is_dynamic(a) for a in (*args, *kwargs.values())):
        name = getattr(fn, "__qualname__", repr(fn))
        raise UnsupportedCall(f"call of the built-in `{name}` with run-time values", context.span(),
                              hint="call it in a function marked `@jitgrad.ignore`, or use a tensor operation")
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, set) and fn.__name__ in ("add", "discard", "remove", "pop", "clear", "update"):
        raise UnsupportedCall("a change of a set inside a script", context.span(), hint="use a list, or a dict of True")
    if isinstance(owner, (list, dict)) or not _pure(fn):
        raise UnsupportedCall(f"call of the built-in `{getattr(fn, '__qualname__', fn)}`", context.span(),
                              hint="call it outside the script and pass the result, or in a function marked "
                                   "`@jitgrad.ignore`")
    return effects.guarded(context, lambda: fn(*args, **kwargs))


def _pure(fn: Any) -> bool:
    if isinstance(getattr(fn, "__self__", None), (*PLAIN, set, frozenset)):
        return True
    return (getattr(fn, "__module__", None) or "") in ("math", "operator", "_operator", "builtins", "cmath")


def _construct(context: Context, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from jitgrad.amp.autocast_mode import autocast
    from jitgrad.eager.autograd.grad_mode import _Scope
    from jitgrad.script.frontend.values.instances import construct

    if issubclass(cls, _Scope):
        name = cls.__name__
        if args and isinstance(args[0], (Function, types.FunctionType)):
            raise UnsupportedCall(f"`{name}` as a decorator inside a script", context.span(), hint="use `with`")
        if name in ("no_grad", "enable_grad"):
            return GradScope(name == "enable_grad")
        if name == "set_grad_enabled" and not context.entering:
            raise UnsupportedCall("`set_grad_enabled` outside a `with`", context.span(),
                                  hint="write `with set_grad_enabled(mode):`")
        mode = args[0] if args else kwargs.get("mode", True)
        if not (isinstance(mode, Number) and mode.number_type is bool):
            mode = bool(static(context, mode, "the mode"))
        return GradScope(mode, negated=name == "inference_mode")
    if cls is contextlib.nullcontext and not args and not kwargs:
        return contextlib.nullcontext()  # a static object, which a branch may choose
    if issubclass(cls, autocast):
        given = [known(context, a, "an argument of `autocast`") for a in args]
        named = {k: known(context, v, "an argument of `autocast`") for k, v in kwargs.items()}
        return effects.guarded(context, lambda: cls(*given, **named))
    return construct(context, cls, args, kwargs)


# --- inlining ------------------------------------------------------------------------------------------------------


def python(context: Context, fn: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Inline a Python function; one with a mark is treated as that says."""
    if fn.__code__ is _CONTEXT_MANAGER:
        return call(context, fn.__wrapped__, args, kwargs)  # type: ignore[attr-defined]
    mark = mark_of(fn)
    if mark is not None and mark.kind != "export":
        return dispatch.call_marked(context, fn, mark, args, kwargs)
    if (fn.__module__ or "").partition(".")[0] == "numpy":
        raise _foreign(context, fn)
    source = source_of(fn)
    context.functions[fn] = None
    defaults = tuple(context.inputs.constant(d) for d in fn.__defaults__ or ())
    kw_defaults = {k: context.inputs.constant(v) for k, v in (fn.__kwdefaults__ or {}).items()}
    return _inline(context, source.node, source, fn, None, args, kwargs, defaults, kw_defaults)


def _inline(context: Context, node: Any, source: Any, fn: Any, outer: Frame | None, args: tuple[Any, ...],
            kwargs: dict[str, Any], defaults: tuple[Any, ...], kw_defaults: dict[str, Any]) -> Any:
    if context.calls > DEPTH:
        place = context.span()
        raise UnsupportedCall(f"the calls are more than {DEPTH} deep", place and replace(place, caller=None),
                              hint="recursion must end by something that is known while compiling; where the run "
                                   "decides its depth, write a `while` loop with a list as the stack")
    if source.scope is None:
        check_source(source, inlined=True)
    bound = bind(context, node, source.name, args, kwargs, defaults, kw_defaults)
    frame = Frame(context.new_id(), source, fn, outer, context.span())
    for name, value in bound.items():
        context.state.values[(frame.id, name)] = value

    def run(context: Context, consumer: Consumer | None = None) -> Any:
        frame.consumer = consumer
        before = context.frame, context.node, context.modes
        context.frame = frame
        context.calls += 1
        try:
            result = dispatch.run_function(context, frame, node)
        finally:
            context.frame, context.node, context.modes = before
            context.calls -= 1
        values = context.state.values
        for name in frame.scope.local - frame.scope.captured:
            values.pop((frame.id, name), None)
        return result

    return Generator(context, run) if frame.scope.yields else run(context)


def bind(context: Context, node: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any],
         defaults: tuple[Any, ...], kw_defaults: dict[str, Any]) -> dict[str, Any]:
    """Parameter -> value, as Python binds a call. Raises TypeMismatch with Python's words."""
    a = node.args
    positional = [p.arg for p in (*a.posonlyargs, *a.args)]
    bound: dict[str, Any] = dict(zip(positional, args, strict=False))
    if len(args) > len(positional) and a.vararg is None:
        raise TypeMismatch(f"{name}() takes {len(positional)} positional argument{'s' * (len(positional) != 1)} but "
                           f"{len(args)} were given", context.span())
    if a.vararg is not None:
        bound[a.vararg.arg] = tuple(args[len(positional):])
    only = {p.arg for p in a.posonlyargs}
    keyword_only = [p.arg for p in a.kwonlyargs]
    extra: dict[str, Any] = {}
    for k, v in kwargs.items():
        if k in only or (k not in positional and k not in keyword_only):
            if a.kwarg is None:
                raise TypeMismatch(f"{name}() got an unexpected keyword argument '{k}'", context.span())
            extra[k] = v
        elif k in bound:
            raise TypeMismatch(f"{name}() got multiple values for argument '{k}'", context.span())
        else:
            bound[k] = v
    for p, v in zip(positional[len(positional) - len(defaults):], defaults, strict=True):
        bound.setdefault(p, v)
    for p, v in kw_defaults.items():
        bound.setdefault(p, v)
    missing = [p for p in positional if p not in bound]
    if missing:
        listed = " and ".join(", ".join(f"'{m}'" for m in missing).rsplit(", ", 1))
        raise TypeMismatch(f"{name}() missing {len(missing)} required positional argument{'s' * (len(missing) > 1)}: "
                           f"{listed}", context.span())
    missing = [p for p in keyword_only if p not in bound]
    if missing:
        raise TypeMismatch(f"{name}() missing {len(missing)} required keyword-only argument"
                           f"{'s' * (len(missing) > 1)}: '{missing[0]}'", context.span())
    if a.kwarg is not None:
        made = SymDict()
        context.state.values[made] = extra
        bound[a.kwarg.arg] = made
    return bound
