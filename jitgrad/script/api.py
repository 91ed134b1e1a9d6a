"""`@script`: on a function, a method, or a Module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from jitgrad.script.executor import BoundScript, ScriptFunction


def script(obj: Any = None) -> Any:
    """Compile a function or a module: same code, same results, one native program per signature.

    Args:
        obj: a Python function, a method, a `Module` instance, or nothing (then a decorator is returned).

    Returns:
        For a function a `ScriptFunction`; for a module an object of a subclass of its class that shares every
        attribute with it and whose call is scripted.

    Raises:
        ScriptError: at decoration for syntax that no script may contain; at the first call that reaches it for the
            rest; with file, line, column and caret.
        TypeError: obj is neither callable Python code nor a Module.

    >>> import jitgrad
    >>> @jitgrad.script
    ... def power(x, n: int):
    ...     y = x
    ...     for _ in range(n - 1):
    ...         y = y * x
    ...     return y
    >>> power(jitgrad.tensor([2.0, 3.0]), 3)
    tensor([ 8., 27.])
    """
    from jitgrad.nn import Module

    if obj is None:
        return script
    if isinstance(obj, (ScriptFunction, BoundScript)) or getattr(type(obj), "_script_call", None) is not None:
        return obj
    if isinstance(obj, Module):
        return script_module(obj)
    if inspect.ismethod(obj):
        return BoundScript(_checked(obj.__func__), obj.__self__)
    if inspect.isfunction(obj):
        return _checked(obj)
    if inspect.isclass(obj):
        raise TypeError(f"cannot script the class `{obj.__name__}`: script an instance of it, or decorate its methods")
    raise TypeError(f"cannot script an object of type `{type(obj).__name__}`: expected a Python function, a method or "
                    "a Module")


def _checked(function: Callable[..., Any]) -> ScriptFunction:
    from jitgrad.script.frontend.syntax import check_syntax

    check_syntax(function)
    return ScriptFunction(function)


def script_module(module: Any) -> Any:
    """`module` with a scripted call: an instance of a subclass of its class, sharing its `__dict__`."""
    original = type(module)
    function = _checked(original.__call__)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(module, *args, **kwargs)

    names = {"__call__": call, "_script_call": function, "__doc__": original.__doc__, "__module__": original.__module__,
             "cache_info": lambda self: function.cache_info(), "graph": property(lambda self: function.graph),
             "code": property(lambda self: function.code), "_unscripted": module,
             "graph_for": lambda self, *args, **kwargs: function.graph_for(module, *args, **kwargs),
             "kernels": lambda self, *args, **kwargs: (function.kernels(module, *args, **kwargs) if args or kwargs
                                                       else function.kernels()),
             "eager": lambda self, *args, **kwargs: function.eager(module, *args, **kwargs),
             "recompilations": property(lambda self: function.recompilations)}
    scripted: Any = object.__new__(type("Script" + original.__name__, (original,), names))
    object.__setattr__(scripted, "__dict__", module.__dict__)
    return scripted
