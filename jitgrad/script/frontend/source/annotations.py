"""Annotations of a scripted function's parameters: what contradicts the call is refused, what is unknown is ignored.

As Python's users read them: `float` takes an int, `int` takes a bool, `Optional[T]` takes None, and a parameter whose
default is None does too.
"""

import collections.abc
import inspect
import numbers
import types
import typing
from collections.abc import Callable
from typing import Any

from jitgrad.errors import TypeMismatch
from jitgrad.ops.backend import AnyTensor
from jitgrad.script.frontend.source.source import source_of

#: annotation -> classes of the values that it takes
_PLAIN: dict[Any, tuple[type, ...]] = {
    int: (numbers.Integral,), float: (numbers.Real,), bool: (bool,), str: (str,)}
_SEQUENCES = (list, collections.abc.Sequence, collections.abc.Iterable)
_MAPPINGS = (dict, collections.abc.Mapping)


def check(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Raise TypeMismatch for the first argument that its parameter's annotation excludes."""
    hints = getattr(function, "__annotations__", {})
    if not hints:
        return
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError, SyntaxError):  # a name that only a type checker knows
        hints = {k: v for k, v in hints.items() if not isinstance(v, str)}
    parameters = inspect.signature(function).parameters
    for name, value in arguments.items():
        annotation = hints.get(name, Any)
        plain = parameters[name].kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if plain and not (value is None and parameters[name].default is None) and not _takes(annotation, value):
            source = source_of(function)
            node = next((a for a in (*source.node.args.posonlyargs, *source.node.args.args,
                                     *source.node.args.kwonlyargs) if a.arg == name), source.node)
            raise TypeMismatch(f"`{name}` is annotated as `{_word(annotation)}` and is given {_given(value)}",
                               source.span(node), hint="correct the annotation, or the call")


def _takes(annotation: Any, value: Any) -> bool:
    """Whether a value may be what an annotation says; True for annotations that say nothing here."""
    if annotation in _PLAIN:
        return isinstance(value, _PLAIN[annotation])
    if isinstance(annotation, type) and issubclass(annotation, AnyTensor):
        return isinstance(value, AnyTensor)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is None or annotation is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_takes(p, value) for p in parts)
    if origin in _SEQUENCES or annotation in (list, typing.List):  # noqa: UP006
        if origin in (list, None) and not isinstance(value, list):
            return False
        return not isinstance(value, (list, tuple)) or all(_takes(p, v) for p in parts[:1] for v in value)
    if origin is tuple or annotation is tuple:
        return isinstance(value, tuple) and _takes_items(parts, value)
    if origin in _MAPPINGS or annotation is dict:
        return isinstance(value, collections.abc.Mapping) and (
            len(parts) != 2 or all(_takes(parts[0], k) and _takes(parts[1], v) for k, v in value.items()))
    return True


def _takes_items(parts: tuple[Any, ...], value: tuple[Any, ...]) -> bool:
    if not parts:
        return True
    if len(parts) == 2 and parts[1] is ...:
        return all(_takes(parts[0], v) for v in value)
    return len(parts) == len(value) and all(_takes(p, v) for p, v in zip(parts, value, strict=True))


def _word(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not typing.get_args(annotation) else str(
        annotation).replace("typing.", "").replace("jitgrad.eager.tensor.", "")


def _given(value: Any) -> str:
    if value is None:
        return "None"
    name = "Tensor" if isinstance(value, AnyTensor) else type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} `{name}`"
