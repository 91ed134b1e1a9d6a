"""Names of the script: where Python finds them, in frames, closures, globals and builtins."""

import ast
import builtins
import difflib
from typing import Any

from jitgrad.errors import UnresolvedName
from jitgrad.script.call.signature import Cell, Global
from jitgrad.script.frontend.source.recursion import surely_bound
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.frames import Frame
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values.values import UNBOUND


def load(context: Context, frame: Frame, name: str) -> Any:
    """The value of a name as Python resolves it. Raises UnresolvedName where nothing binds it."""
    known = frame.names.get(name)
    if known is not None:
        return context.state.values[(frame.id, known)]
    if name in frame.scope.local:
        return _load_local(context, frame, name, free=frame.inside > 0)
    outer = frame.outer
    while outer is not None and name not in frame.scope.global_:
        if name in outer.names:
            return context.state.values[(outer.id, outer.names[name])]
        if name in outer.scope.local:
            return _load_local(context, outer, name, free=True)
        frame, outer = outer, outer.outer
    declared = name in frame.scope.global_
    while declared and frame.outer is not None:
        frame = frame.outer
    function: Any = frame.function
    if function is not None:
        code = function.__code__
        if name in code.co_freevars and not declared:
            index = code.co_freevars.index(name)
            try:
                value = function.__closure__[index].cell_contents
            except ValueError:
                raise UnresolvedName(f"`{name}` is not assigned in the enclosing function", context.span()) from None
            slot: tuple[Any, ...] = ("cell", id(function.__closure__[index]))
            if slot in context.state.values:
                return context.state.values[slot]
            return context.inputs.read(value, Cell(function, index), slot)
        namespace = function.__globals__
        slot = ("global", id(namespace), name)
        if slot in context.state.values:
            return context.state.values[slot]
        if name in namespace:
            return context.inputs.read_global(namespace[name], Global(function, name))
        context.inputs.undefined(function, name)
    if hasattr(builtins, name):
        return getattr(builtins, name)
    raise UnresolvedName(f"`{name}`", context.span(), hint=_similar(name, frame, function))


def place(frame: Frame, name: str) -> tuple[int, str] | None:
    """The location of a name that code in `frame` assigns; None for a variable outside the script."""
    if name in frame.scope.global_:
        return None
    if name not in frame.scope.free:
        return frame.id, frame.names.get(name, name)
    outer = frame.outer
    while outer is not None:
        if name in outer.names or name in outer.scope.local:
            return outer.id, outer.names.get(name, name)
        outer = outer.outer
    return None


def assign(context: Context, name: str, value: Any, node: ast.AST) -> None:
    """Bind a name where the current frame's scope has it."""
    key = place(context.frame, name)
    if key is None:
        store_outside(context, context.frame, name, value)
        return
    context.state.values[key] = value
    where = context.span(node)
    if where is not None:
        context.state.where[key] = where


def store_outside(context: Context, frame: Frame, name: str, value: Any) -> None:
    """Assign to a global, or to a variable of the function around the scripted one: it happens when the script ends."""
    declared_global = name in frame.scope.global_
    while frame.outer is not None:
        frame = frame.outer
    function: Any = frame.function
    if declared_global or name not in function.__code__.co_freevars:
        slot = ("global", id(function.__globals__), name)
        context.inputs.write_slot(slot, Global(function, name), value, function.__globals__.get(name, UNBOUND))
        return
    index = function.__code__.co_freevars.index(name)
    cell = function.__closure__[index]
    try:
        before = cell.cell_contents
    except ValueError:
        before = UNBOUND
    context.inputs.write_slot(("cell", id(cell)), Cell(function, index), value, before)


def _load_local(context: Context, frame: Frame, name: str, free: bool = False) -> Any:
    value = context.state.values.get((frame.id, name), UNBOUND)
    if unions.may_be(value, UNBOUND):
        text = (f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
                if free else f"cannot access local variable '{name}' where it is not associated with a value")
        with effects.unhandled(context, surely_bound(name)):
            value = unions.bound(context, value, NameError if free else UnboundLocalError, text)
        context.state.values[(frame.id, name)] = value
    return value


def _similar(name: str, frame: Frame, function: Any) -> str:
    names = set(frame.scope.local) | set(getattr(function, "__globals__", ()))
    close = difflib.get_close_matches(name, sorted(n for n in names if not n.startswith("_")), 1)
    return f"did you mean `{close[0]}`?" if close else ""
