"""`@script`: on a function, a method, or a Module."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from jitgrad.errors import ScriptError
from jitgrad.script.call.tracebacks import refused
from jitgrad.script.executor import Remat, Scripted, Shown, scripted
from jitgrad.script.graph.marks import mark_of
from jitgrad.script.inspect.face import BoundScript, ScriptFunction, Writable


def script(obj: Any = None, *, check: bool = False, remat: Remat = None) -> Any:
    """Compile a function or a module: same code, same results, one native program per signature.

    Args:
        obj: a Python function, a method, a `Module` instance, or nothing (then a decorator is returned). Of a
            staticmethod, classmethod or property the function in it is scripted.
        check: run the first call of each signature as plain Python too, and compare results, gradients, prints,
            exceptions and state. A difference raises `errors.CheckFailed`, which names the first line that differs.
        remat: True (or "sqrt"): what the gradient of a loop of n iterations needs takes memory for sqrt(n) of them; the
            backward pass runs each segment of the loop again. An int: in so many segments, where the number of
            iterations is known before the loop.

    Returns:
        For a function a `ScriptFunction`; for a method, or an object with `__call__`, that bound to it; for a partial
            a partial of the scripted function; for a module an object of a subclass of its class that shares every
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
    if not (remat is None or remat is True or remat is False or remat == "sqrt" or (
            isinstance(remat, int) and remat > 0)):
        raise ValueError(f'remat is True, False, "sqrt" or a positive number of segments, not {remat!r}')
    if obj is None:
        return functools.partial(script, check=check, remat=remat)
    if inspect.isfunction(obj):
        return _checked(obj, check, remat)
    if isinstance(obj, (staticmethod, classmethod)):
        return type(obj)(script(obj.__func__, check=check, remat=remat))
    if isinstance(obj, property):
        getter, setter, deleter = (f and script(f, check=check, remat=remat) for f in (obj.fget, obj.fset, obj.fdel))
        return property(getter, setter, deleter, obj.__doc__)
    if scripted(obj) is not None:
        return obj
    from jitgrad.nn import Module  # functions do without

    if isinstance(obj, Module):
        return script_module(obj, check, remat)
    if isinstance(obj, functools.partial):
        return functools.partial(script(obj.func, check=check, remat=remat), *obj.args, **obj.keywords)
    if inspect.ismethod(obj):
        return BoundScript(_checked(obj.__func__, check, remat), obj.__self__)
    if inspect.isclass(obj):
        raise TypeError(f"cannot script the class `{obj.__name__}`: script an instance of it, or decorate its methods")
    call = getattr(type(obj), "__call__", None)  # noqa: B004  (the attribute itself is wanted)
    if inspect.isfunction(call):
        return BoundScript(_checked(call, check, remat), obj)
    raise TypeError(f"cannot script an object of type `{type(obj).__name__}`: expected a Python function, a method or "
                    "a Module")


def _checked(function: Callable[..., Any], check: bool = False, remat: Remat = None) -> ScriptFunction:
    from jitgrad.ops.library.core import COMPOSITE, is_library
    from jitgrad.script.frontend.source.syntax import check_syntax

    if function.__code__ is COMPOSITE:
        function = function.__wrapped__  # type: ignore[attr-defined]
    if is_library(function):
        function = calling(function)
    try:
        check_syntax(function)
    except ScriptError as error:
        raise refused(error) from None
    return ScriptFunction(function, check, remat)


def calling(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls one of the library's: their own source is the compiler's, not a script."""
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__, call.__qualname__, call.__doc__ = function.__name__, function.__qualname__, function.__doc__
    return call


class ScriptModule(Writable):
    """What a scripted module has besides its own class: a compiled call, and the means to look at it.

    These are `ScriptFunction`'s; where that takes arguments of a call, the module is the first one.
    """

    _script_call: ScriptFunction
    _unscripted: Any

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "_script_call" not in cls.__dict__:
            raise TypeError(f"`{cls.__name__}` derives from `ScriptModule`: derive from `nn.Module`, and call `script` "
                            "on the instance")

    def _script(self) -> ScriptFunction:
        function: ScriptFunction = type(self)._script_call
        return function

    def _scripted(self) -> Scripted:
        return Scripted(self._script(), self._unscripted, self._unscripted._get_name())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return type(self).__dict__["_script_call"](self._unscripted, *args, **kwargs)  # no `__get__` on the way

    def _bound(self) -> BoundScript:
        return BoundScript(self._script(), self._unscripted)

    eager, explain, traffic = Shown(), Shown(), Shown()
    graph, graph_for, graph_inputs, grad_graph = Shown(), Shown(), Shown(), Shown()
    code, grad_code, kernels, asm = Shown(), Shown(), Shown(), Shown()
    cache_info, compile_ms, recompilations = Shown(), Shown(), Shown()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """A copy, by pickle or by `deepcopy`, is the copied module, scripted."""
        return script_module, (self._unscripted, self._script().check, self._script().remat)


class _Exported:
    """A method that is compiled besides `forward`; its `self` is the plain module."""

    def __init__(self, function: ScriptFunction):
        self.function = function

    def __get__(self, instance: Any, owner: type) -> Any:
        return self.function if instance is None else BoundScript(self.function, instance._unscripted)


#: methods of ScriptModule that give way to a method of the same name of the scripted class
_OWN = ("export_onnx", "save")


def script_module(module: Any, check: bool = False, remat: Remat = None) -> Any:
    """`module` with a scripted call: an instance of a subclass of its class, sharing its `__dict__`."""
    original = type(module)
    function = _checked(original.__call__, check, remat)
    function.__name__, function.__qualname__ = original.__name__, original.__qualname__
    names = {"_script_call": function, "_unscripted": module, "__doc__": original.__doc__,
             "__module__": original.__module__}
    names |= {name: getattr(original, name) for name in _OWN if hasattr(original, name)}
    for name in dir(original):
        method = getattr(original, name, None)
        if inspect.isfunction(method):
            mark = mark_of(method)
            if mark is not None and mark.kind == "export":
                names[name] = _Exported(_checked(method, check, remat))
    made: Any = object.__new__(type("Script" + original.__name__, (ScriptModule, original), names))
    object.__setattr__(made, "__dict__", module.__dict__)
    return made
