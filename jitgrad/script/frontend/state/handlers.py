"""Functions and classes that are neither the library's nor inlined from their source: function -> handler.

`builtins.py` has Python's, `stdlib.py` those of its standard library, `jitgrad_functions.py` the few of jitgrad that
need to know the evaluation.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.script.frontend.state.context import Context

Args = tuple[Any, ...]
Handler = Callable[[Context, Args, dict[str, Any]], Any]
HANDLERS: dict[Any, Handler] = {}
#: a package of functions -> what imports their handlers, once a script calls the first of them: few need any of these
LATE: dict[str, Callable[[], object]] = {}
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


def handler_of(fn: Any) -> Handler | None:
    """The handler of a function, if it has one."""
    if LATE and isinstance(fn, FunctionType):
        module = f"{fn.__module__}."
        for package in [p for p in LATE if module.startswith(f"{p}.")]:
            LATE.pop(package)()
    try:
        return HANDLERS.get(fn)
    except TypeError:  # it has no hash
        return None
