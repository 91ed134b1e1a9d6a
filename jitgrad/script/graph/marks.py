"""Marks on functions that say how a script treats a call of them: `ignore`, `unused`, `export`."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, TypeVar, overload

from jitgrad.classes import dataclass

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "_jitgrad_mark"
#: no `returns=` was given: the annotation says what is returned
BY_ANNOTATION: Any = object()


@dataclass(frozen=True, slots=True)
class Mark:
    """`kind`: "ignore", "unused" or "export"; `returns`: what an ignored function returns (see `ignore`)."""

    kind: str
    returns: Any = BY_ANNOTATION


def mark_of(function: Any) -> Mark | None:
    mark: Mark | None = getattr(function, "__dict__", {}).get(_ATTRIBUTE)
    return mark


@overload
def ignore(function: F) -> F: ...
@overload
def ignore(function: None = None, *, drop: bool = False, returns: Any = BY_ANNOTATION) -> Callable[[F], F]: ...
def ignore(function: Any = None, *, drop: bool = False, returns: Any = BY_ANNOTATION) -> Any:
    """Leave a function to Python: compiled code calls it back, in program order, with real Tensors and numbers.

    What it returns goes on in the compiled program, so its type must be known before the call. From the annotation:
    nothing or `None`, `bool`, `int`, `float`, `Tensor` (dtype and rank of the first tensor argument, any sizes), and
    tuples of these. For other tensors give `returns`: a function of the same arguments that returns tensors and numbers
    like the result; it is compiled, never run, and only types and sizes of what it returns count.

    A gradient flows through the function as in eager, from its result to its tensor arguments; to a second order it
    does not. Exceptions go through the script. The function must not change what the script has read.

    Args:
        function: a Python callable; nothing: a decorator is returned.
        drop: torch's: the same as `unused`.
        returns: a function, a type, or None.

    >>> import jitgrad
    >>> @jitgrad.ignore
    ... def show(step: int, loss) -> None:
    ...     print(f"step {step}: {loss.item():.2f}")
    >>> @jitgrad.script
    ... def halve(x, n: int):
    ...     for i in range(n):
    ...         x = x / 2
    ...         show(i, x.sum())
    ...     return x
    >>> halve(jitgrad.ones(2), 2)
    step 0: 1.00
    step 1: 0.50
    tensor([0.2500, 0.2500])
    """
    if function is None:
        return lambda f: ignore(f, drop=drop, returns=returns)
    if drop:
        return unused(function)
    return _marked(function, Mark("ignore", returns))


def unused(function: F) -> F:
    """Say that compiled code never gets to a function: in a script a call of it raises RuntimeError."""
    marked: F = _marked(function, Mark("unused"))
    return marked


def export(function: F) -> F:
    """Have `script(module)` compile this method besides `forward`."""
    marked: F = _marked(function, Mark("export"))
    return marked


def _marked(function: Any, mark: Mark) -> Any:
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(_marked(function.__func__, mark))
    if isinstance(function, property):
        getter, setter = (f and _marked(f, mark) for f in (function.fget, function.fset))
        return property(getter, setter, function.fdel, function.__doc__)
    if inspect.isclass(function) or not callable(function):
        raise TypeError(f"`{mark.kind}` is for functions and methods, not for a `{type(function).__name__}`")
    if mark.kind == "ignore":
        function = _once(function)
    setattr(function, _ATTRIBUTE, mark)
    return function


def refuse(message: str, hint: str) -> None:
    """In a script: refuse to compile what got here. Plain Python does nothing. For functions that scripts inline."""


def is_scripting() -> bool:
    """True while a function is being compiled: inside a script the call is folded to True."""
    return False


class _Tape(threading.local):
    """What ignored functions returned in this thread; None: nobody asks.

    `record`: calls are made and noted. `replay`: calls that returned no tensor are not made again.
    """

    record: list[Noted] | None = None
    replay: list[Noted] | None = None


#: a function, what it returned, what it raised, what it printed
Noted = tuple[Any, Any, BaseException | None, str]
calls = _Tape()


def _once(function: Any) -> Any:
    """`function` as a Python function whose effects `check` can have once."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if calls.record is None and calls.replay is None:
            return function(*args, **kwargs)
        return _noted(function, args, kwargs)

    return functools.update_wrapper(call, function, updated=()) if hasattr(function, "__name__") else call


def _noted(function: Any, args: Any, kwargs: Any) -> Any:
    """A call that is recorded or replayed; those that it makes itself belong to it."""
    record, replay = calls.record, calls.replay
    result: Any = None
    error: BaseException | None = None
    if replay is not None:
        made: Any = None
        if replay:
            made, result, error, printed = replay.pop(0)
        if made is not function:
            raise OtherCall(getattr(function, "__qualname__", "an ignored function"))
        if error is not None or _plain(result):
            sys.stdout.write(printed)
            if error is not None:
                raise error
            return result
    calls.record = calls.replay = None
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            result = function(*args, **kwargs)
    except Exception as raised:
        error = raised
        raise
    finally:
        calls.record, calls.replay = record, replay
        sys.stdout.write(out.getvalue())
        if record is not None:
            record.append((function, result, error, out.getvalue()))
    return result


#: the code through which ignored functions are called
CALLERS: frozenset[types.CodeType] = frozenset({_once(_noted).__code__, _noted.__code__})


class OtherCall(Exception):
    """An ignored function is called where the recorded run called another, or none."""


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_plain(v) for v in value)
    return isinstance(value, (type(None), bool, int, float))
