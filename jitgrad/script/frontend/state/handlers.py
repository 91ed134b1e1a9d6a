"""Functions and classes that are neither the library's nor inlined from their source: function -> handler.

`builtins.py` has Python's, `stdlib.py` those of its standard library, `jitgrad_functions.py` the few of jitgrad that
need to know the evaluation.
"""

import functools
import inspect
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context

Args = tuple[Any, ...]
Handler = Callable[[Context, Args, dict[str, Any]], Any]
HANDLERS: dict[Any, Handler] = {}
#: a package of functions and classes -> what imports their handlers, once a script calls the first: few need any
LATE: dict[str, Callable[[], object]] = {}
_OF_MODULES = (FunctionType, MethodType, BuiltinFunctionType, type)
_SEEN: set[str] = set()  # modules of functions and classes that were called
#: a class -> how it and its subclasses are called, which the handler is given before the arguments
CONSTRUCTORS: dict[type, Callable[[Context, type, Args, dict[str, Any]], Any]] = {}


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Make what follows the handler of `functions`."""
    def register(handler: Handler) -> Handler:
        for f in functions:
            HANDLERS[f] = handler
        return handler
    return register


def by_parameters(function: Callable[..., Any], *first: Any) -> Handler:
    """The handler that gives `function` the arguments as its own, behind what comes `first`."""
    return lambda context, args, kwargs: function(context, *first, *args, **kwargs)


def refused(name: str, hint: str) -> Handler:
    """The handler of what scripts do not call."""
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        raise UnsupportedCall(f"`{name}` inside a script", context.span(), hint=hint)
    return handler


#: the parameters of built-ins that do not say them; who has no `None` here says them
_PARAMETERS: dict[Any, Callable[..., Any] | None] = {
    **dict.fromkeys((abs, all, any, ascii, bin, callable, chr, divmod, enumerate, float, format, hasattr, hex, id, ord,
                     isinstance, issubclass, len, list, oct, pow, print, repr, reversed, round, setattr, sorted, sum,
                     tuple)),
    bool: lambda x=False, /: 0, filter: lambda function, iterable, /: 0, frozenset: lambda iterable=(), /: 0,
    getattr: lambda object, name, default=None, /: 0, int: lambda x=0, /, base=10: 0,
    iter: lambda iterable, sentinel=None, /: 0, map: lambda function, iterable, /, *iterables: 0,
    max: lambda first, /, *others, key=None, default=None: 0, min: lambda first, /, *others, key=None, default=None: 0,
    next: lambda iterator, default=None, /: 0, range: lambda start, stop=0, step=1, /: 0, set: lambda iterable=(), /: 0,
    slice: lambda start, stop=None, step=None, /: 0, str: lambda object="", encoding="", errors="": 0,
    type: lambda object, bases=(), dict=None, /: 0, zip: lambda *iterables, strict=False: 0}


@functools.cache
def _signature(fn: Any) -> inspect.Signature:
    return inspect.signature(_PARAMETERS[fn] or fn)


def check_arguments(context: Context, fn: Any, args: Args, kwargs: dict[str, Any]) -> None:
    """That a built-in takes such arguments; else what Python says."""
    if fn in _PARAMETERS and (kwargs or len(args) != 1):
        try:
            _signature(fn).bind(*args, **kwargs)
        except TypeError:
            effects.guarded(context, lambda: fn(*[None] * len(args), **dict.fromkeys(kwargs)))


def handler_of(fn: Any) -> Handler | None:
    """The handler of a function, if it has one."""
    if LATE and isinstance(fn, _OF_MODULES):
        module = fn.__module__ or type(getattr(fn, "__self__", None)).__module__
        if module not in _SEEN:
            _SEEN.add(module)
            for package in [p for p in LATE if f"{module}.".startswith(f"{p}.")]:
                LATE.pop(package)()
    try:
        return HANDLERS.get(fn)
    except TypeError:  # it has no hash
        return None
