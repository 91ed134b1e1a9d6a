"""Whether operations are recorded: a state of the thread, with torch's context managers and decorators."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar, overload

Fn = TypeVar("Fn", bound=Callable[..., Any])


class _Mode(threading.local):
    enabled = True
    inference = False


#: `mode.enabled`: operations are recorded; `mode.inference`: new tensors are inference tensors, and nothing is
#: recorded whatever else is entered
mode = _Mode()


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded."""
    return mode.enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return mode.inference


class Scope:
    """A context manager that sets the mode of its thread, and a decorator. Scopes may be entered again and again."""

    def __init__(self, enabled: bool, inference: bool | None = None):
        self._enabled, self._inference = enabled, inference
        self._before: list[tuple[bool, bool]] = []

    @property
    def modes(self) -> tuple[bool, bool | None]:
        """What it sets: recording, inference mode (None: stays)."""
        return self._enabled, self._inference

    def _clone(self) -> Scope:
        return Scope(self._enabled, self._inference)

    def __enter__(self) -> None:
        before = mode.enabled, mode.inference
        self._before.append(before)
        inference = before[1]
        if self._inference is not None:
            mode.inference = inference = self._inference
        mode.enabled = self._enabled and not inference

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        mode.enabled, inference = self._before.pop()
        if self._inference is not None:
            mode.inference = inference

    def __call__(self, function: Fn) -> Fn:
        """`function`, each call (or each step, for a generator function) in this mode."""
        if inspect.isgeneratorfunction(function):
            return _generator(function, self._clone)  # type: ignore[return-value]

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self._clone():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def _generator(function: Callable[..., Any], scope: Callable[[], Scope]) -> Callable[..., Any]:
    """The body runs in the mode, what happens between its steps does not."""
    @functools.wraps(function)
    def steps(*args: Any, **kwargs: Any) -> Any:
        with scope():
            generator = function(*args, **kwargs)
        advance: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with scope():
                    item = advance()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield item
            except GeneratorExit:
                with scope():
                    generator.close()
                raise
            except BaseException as error:
                advance = functools.partial(generator.throw, error)
            else:
                advance = functools.partial(generator.send, sent)

    return steps


class _Bare(Scope):
    """A scope without arguments, which may decorate a function without being called."""

    _inference = None

    @overload
    def __new__(cls) -> Self: ...
    @overload
    def __new__(cls, function: Fn) -> Fn: ...  # type: ignore[misc]
    def __new__(cls, function: Any = None) -> Any:
        return object.__new__(cls) if function is None else cls()(function)

    def __init__(self, function: None = None):
        self._before = []


class no_grad(_Bare):
    """Operations are not recorded: `with no_grad():`, `@no_grad()` or `@no_grad`."""

    _enabled = False


class enable_grad(_Bare):
    """Operations are recorded: `with enable_grad():`, `@enable_grad()` or `@enable_grad`."""

    _enabled = True


class set_grad_enabled(Scope):
    """Recording on or off, from the call on; as a context manager until the block ends."""

    def __init__(self, mode: bool):
        super().__init__(bool(mode))
        self._outer = globals()["mode"].enabled
        globals()["mode"].enabled = bool(mode) and not globals()["mode"].inference

    def __enter__(self) -> None:
        super().__enter__()
        self._before[-1] = (self._outer, self._before[-1][1])

    def __call__(self, function: Fn) -> Fn:
        mode.enabled = self._outer  # a decorator changes the mode inside the function only
        return super().__call__(function)


class inference_mode(Scope):
    """Nothing is recorded, and tensors made inside can never take part in recorded computation."""

    @overload
    def __new__(cls, mode: bool = True) -> inference_mode: ...
    @overload
    def __new__(cls, mode: Fn) -> Fn: ...  # type: ignore[misc]
    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool = True):
        super().__init__(not mode, mode)

__all__ = ["enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "set_grad_enabled"]
