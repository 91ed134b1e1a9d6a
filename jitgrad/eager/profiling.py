"""What runs while a profile is taken, as events with a beginning and an end.

Nothing is looked at, or costs, while no profile is taken: `start` puts functions that take the time in the place of
those that eager execution, the backward engine and scripts go through, and `stop` puts these back.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator
from pathlib import Path
from typing import Any

from jitgrad.eager.autograd.cotangents import Arrays, Placed, Tensors
from jitgrad.eager.autograd.node import TapedArray
from jitgrad.eager.backend import EagerBackend

PACKAGE = str(Path(__file__).parent.parent)
#: lines of a stack that are kept
DEPTH = 8
_now = time.perf_counter_ns


class Event:
    """Something that ran: its name, its times in nanoseconds, in which thread, and inside which other event."""

    __slots__ = ("cpu_children", "cpu_parent", "end", "input_shapes", "is_user_annotation", "name", "stack", "start",
                 "thread")
    count = 1

    def __init__(self, name: str, parent: Event | None, shapes: list[Any], stack: list[str], annotation: bool) -> None:
        self.name, self.cpu_parent, self.is_user_annotation = name, parent, annotation
        self.input_shapes, self.stack = shapes, stack
        self.thread = threading.get_ident()
        self.cpu_children: list[Event] = []
        self.start = self.end = _now()
        if parent is not None:
            parent.cpu_children.append(self)

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from beginning to end."""
        return (self.end - self.start) / 1000

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that are no other event's."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    def __repr__(self) -> str:
        return f"<Event {self.name} cpu_time={self.cpu_time_total:.3f}us>"


class Recorder:
    """The events of a profile, in the order of their beginnings."""

    def __init__(self, shapes: bool, stacks: bool) -> None:
        self.shapes, self.stacks = shapes, stacks
        self.events: list[Event] = []
        self._open = threading.local()

    def begin(self, name: str, operands: Any = (), annotation: bool = False) -> Event:
        """An event begins, in this thread."""
        stack = self._open.__dict__.setdefault("stack", [])
        shapes = shapes_of(operands) if self.shapes else []
        event = Event(name, stack[-1] if stack else None, shapes, _lines() if self.stacks else [], annotation)
        self.events.append(event)
        stack.append(event)
        event.start = event.end = _now()
        return event

    def drop(self, event: Event) -> None:
        """It turned out to be nothing."""
        self.events.remove(event)
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_children.remove(event)

    def end(self, event: Event) -> None:
        """It ends, and all that began in it."""
        event.end = _now()
        stack = self._open.__dict__.get("stack", [])
        while stack and stack.pop() is not event:
            pass


class _Current:
    recorder: Recorder | None = None


def current() -> Recorder | None:
    """What records at the moment."""
    return _Current.recorder


def shapes_of(operands: Any) -> list[Any]:
    """The shapes of operands; [] for what is no tensor."""
    return [list(x._data.shape) if isinstance(x, TapedArray) else [] for x in operands]


def _lines() -> list[str]:
    """The program's lines that lead here, the innermost first."""
    found: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None and len(found) < DEPTH:
        code = frame.f_code
        if not code.co_filename.startswith((PACKAGE, "<")):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


# --- what is replaced ----------------------------------------------------------------------------------------------

Describe = Callable[..., tuple[str, Any]]


def timed(fn: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    """`fn`, whose calls are events; `describe` tells from its arguments the name, and the operands."""
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = _Current.recorder
        if recorder is None:
            return fn(*args, **kwargs)
        event = recorder.begin(*describe(*args, **kwargs))
        try:
            result = fn(*args, **kwargs)
        finally:
            recorder.end(event)
        if result is NotImplemented:  # the general way is taken, with events of its own
            recorder.drop(event)
        return result

    return call


def _op(op: Any, operands: Any, *rest: Any) -> tuple[str, Any]:
    return f"aten::{op.name}", operands if isinstance(operands, tuple) else ()


def _drawn(kind: str, *rest: Any, **params: Any) -> tuple[str, Any]:
    return f"aten::{kind}", ()


def _written(name: str, target: Any, args: Any, kwargs: Any) -> tuple[str, Any]:
    return f"aten::{name}_", (target, *args)


def _node(node: Any, *rest: Any) -> tuple[str, Any]:
    return f"autograd::engine::evaluate_function: {node.name()}", ()


#: owner, name, what a call is: static methods, and methods of higher storeys, which add theirs
POINTS: list[tuple[type, str, Describe]] = [
    (EagerBackend, "apply", _op), (EagerBackend, "create", _op), (EagerBackend, "draw", _drawn),
    (EagerBackend, "update", _written), (Arrays, "run", _node), (Placed, "run", _node), (Tensors, "run", _node)]


def _replacements() -> Iterator[tuple[type, str, Any, Any]]:
    for owner, name, describe in POINTS:
        old = vars(owner)[name]
        is_static = isinstance(old, staticmethod)
        new = timed(old.__func__ if is_static else old, describe)
        yield owner, name, old, staticmethod(new) if is_static else new


_replaced: list[tuple[type, str, Any]] = []


def start(recorder: Recorder) -> None:
    """Record from now on. RuntimeError where something records already."""
    if _Current.recorder is not None:
        raise RuntimeError("Profiler is already enabled on this thread")
    for owner, name, old, new in _replacements():
        _replaced.append((owner, name, old))
        setattr(owner, name, new)
    _Current.recorder = recorder


def stop() -> None:
    """Record no more."""
    _Current.recorder = None
    while _replaced:
        setattr(*_replaced.pop())


class record_function(ContextDecorator):
    """A `with` block, or a decorated function, as an event of this name. In a script the block is no event."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._events: list[tuple[Recorder, Event] | None] = []

    def __enter__(self) -> record_function:
        recorder = _Current.recorder
        self._events.append(None if recorder is None else (recorder, recorder.begin(self.name, annotation=True)))
        return self

    def __exit__(self, *error: object) -> None:
        begun = self._events.pop()
        if begun is not None:
            begun[0].end(begun[1])
