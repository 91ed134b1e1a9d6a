"""`@script`: on a function, a method, or a Module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitgrad.script.executor import BoundScript, CacheInfo, ScriptFunction
from jitgrad.script.ir import Graph

if TYPE_CHECKING:
    from jitgrad.script.explain import Explanation


def script(obj: Any = None) -> Any:
    """Compile a function or a module: same code, same results, one native program per signature.

    Args:
        obj: a Python function, a method, a `Module` instance, or nothing (then a decorator is returned). Of a
            staticmethod, classmethod or property the function in it is scripted.

    Returns:
        For a function a `ScriptFunction`; for a module an object of a subclass of its class that shares every
        attribute with it and whose call is scripted. What is scripted already is returned as it is.

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
    if isinstance(obj, (staticmethod, classmethod)):
        return type(obj)(script(obj.__func__))
    if isinstance(obj, property):
        getter, setter, deleter = (f and script(f) for f in (obj.fget, obj.fset, obj.fdel))
        return property(getter, setter, deleter, obj.__doc__)
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


class ScriptModule:
    """What a scripted module has besides its own class: a compiled call, and the means to look at it."""

    _script_call: ScriptFunction
    _unscripted: Any

    def _script(self) -> ScriptFunction:
        function: ScriptFunction = type(self)._script_call
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._script()(self._unscripted, *args, **kwargs)

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The call without compilation."""
        return self._script().eager(self._unscripted, *args, **kwargs)

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph, after passes, that a call with these arguments runs."""
        return self._script().graph_for(self._unscripted, *args, **kwargs)

    def explain(self, *args: Any, backward: bool = True, **kwargs: Any) -> Explanation:
        """What a call costs per source line, and why; see `ScriptFunction.explain`."""
        return self._script().explain(self._unscripted, *args, backward=backward, **kwargs)

    def kernels(self, *args: Any, **kwargs: Any) -> list[str]:
        """The generated kernels; see `ScriptFunction.kernels`."""
        given = (self._unscripted, *args) if args or kwargs else ()
        return self._script().kernels(*given, **kwargs)

    def asm(self, *args: Any, **kwargs: Any) -> str:
        """The machine code as text; see `ScriptFunction.asm`."""
        given = (self._unscripted, *args) if args or kwargs else ()
        return self._script().asm(*given, **kwargs)

    def cache_info(self) -> CacheInfo:
        """Counters since the module was scripted."""
        return self._script().cache_info()

    @property
    def graph(self) -> Graph:
        return self._script().graph

    @property
    def code(self) -> str:
        return self._script().code

    @property
    def recompilations(self) -> list[str]:
        return self._script().recompilations

    @property
    def compile_ms(self) -> float:
        return self._script().compile_ms

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """A copy, by pickle or by `deepcopy`, is the copied module, scripted."""
        return script_module, (self._unscripted,)


def script_module(module: Any) -> Any:
    """`module` with a scripted call: an instance of a subclass of its class, sharing its `__dict__`."""
    original = type(module)
    function = _checked(original.__call__)
    function.__name__, function.__qualname__ = original.__name__, original.__qualname__
    names = {"_script_call": function, "_unscripted": module, "__doc__": original.__doc__,
             "__module__": original.__module__}
    scripted: Any = object.__new__(type("Script" + original.__name__, (ScriptModule, original), names))
    object.__setattr__(scripted, "__dict__", module.__dict__)
    return scripted
