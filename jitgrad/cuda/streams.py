"""Streams and events: torch's classes on CuPy's."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from threading import get_ident
from types import TracebackType
from typing import Any, Generic, TypeVar
from weakref import WeakSet, finalize

from jitgrad.device import device as _device, patient, require_gpu, resolve

T = TypeVar("T")
_kept: WeakSet[OfStreams[Any]] = WeakSet()
_followed: set[int] = set()  # handles
#: the handle of each thread's own default stream: CuPy's `Stream.ptds`
PER_THREAD = 2


class OfStreams(Generic[T]):
    """What is kept for each stream, by its handle, until the stream is gone. `make` makes it.

    One handle means another stream in each thread: what is kept for these is by thread, as a number below zero.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self.make = make
        self.by_handle: dict[int, T] = {}
        _kept.add(self)

    def of(self, handle: int) -> T:
        """What is kept for a stream that this thread knows by a handle; made at the first time."""
        key = _key(handle)
        try:
            return self.by_handle[key]
        except KeyError:
            return self.by_handle.setdefault(key, self.make())

    def __contains__(self, handle: int) -> bool:
        return _key(handle) in self.by_handle


def _key(handle: int) -> int:
    return -get_ident() if handle == PER_THREAD else handle


def followed(stream: Any) -> int:
    """The handle of a stream of CuPy's, whoever made it; what is kept for it goes with it.

    For one that others own, of which CuPy has but the handle, all is kept: nobody says when it is gone.
    """
    handle = int(stream.ptr)
    if handle not in _followed:
        _followed.add(handle)
        if type(stream).__name__ != "ExternalStream":
            finalize(stream, _is_gone, handle).atexit = False
    return handle


def _is_gone(handle: int) -> None:
    _followed.discard(handle)
    for kept in list(_kept):
        kept.by_handle.pop(handle, None)


class Stream:
    """A queue of work for a GPU; `with cuda.stream(s):` lets work go to it, and makes its GPU the current one.

    Args:
        device: a GPU; the current one if none is named.
        priority: lower numbers come first.
    """

    def __init__(self, device: Any = None, priority: int = 0, *, _stream: Any = None):
        cupy = require_gpu()
        self.device: _device = resolve("cuda" if device is None else device)
        if _stream is None:
            with cupy.cuda.Device(self.device.index):
                _stream = cupy.cuda.Stream(non_blocking=True, priority=priority)
        self._stream = _stream
        self._devices: list[Any] = []
        self.priority = priority

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(self._stream.ptr)

    def query(self) -> bool:
        """Whether all work is done."""
        return bool(self._stream.done)

    def synchronize(self) -> None:
        """Wait until all work is done."""
        wait = patient.get(self.device.index or 0)
        if wait is not None:
            wait(self.cuda_stream)
        self._stream.synchronize()

    def record_event(self, event: Event | None = None) -> Event:
        """An event after the work so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let later work wait for an event; one that was never recorded is there already."""
        if event._event is not None:
            with self._there():
                self._stream.wait_event(event._event)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for the work that another stream has so far."""
        self.wait_event(stream.record_event())

    def _there(self) -> Any:
        """CuPy's object for the GPU."""
        return require_gpu().cuda.Device(self.device.index)

    def __enter__(self) -> Stream:
        there = self._there()
        there.__enter__()
        self._devices.append(there)
        self._stream.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._stream.__exit__(kind, error, trace)
        self._devices.pop().__exit__(kind, error, trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream and self.device == other.device

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<jitgrad.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that somebody else made, by the driver's handle."""

    def __init__(self, stream_ptr: int, device: Any = None):
        super().__init__(device, _stream=require_gpu().cuda.ExternalStream(stream_ptr))


def current_stream(device: Any = None) -> Stream:
    """The stream to which the work of a GPU goes, of the current one if none is named."""
    where = resolve("cuda" if device is None else device)
    return Stream(where, _stream=require_gpu().cuda.get_current_stream(where.index))


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless another one is chosen."""
    return Stream(device, _stream=require_gpu().cuda.Stream.null)


def set_stream(stream: Stream) -> None:
    """Let work go to a stream from now on; its GPU becomes the current one."""
    stream._there().use()
    stream._stream.use()


def stream(stream: Stream | None) -> Any:
    """A context manager that lets work go to a stream; nothing for None."""
    return nullcontext() if stream is None else stream


class Event:
    """A point in the work of a stream, on the GPU of the first stream that it is recorded on.

    Args:
        enable_timing: whether `elapsed_time` may be asked.
        blocking: whether `synchronize` sleeps rather than spins.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        self._how = {"block": blocking, "disable_timing": not enable_timing, "interprocess": interprocess}
        self._event: Any = None

    def _made(self, stream: Stream | None = None) -> Any:
        if self._event is None:
            cupy = require_gpu()
            with cupy.cuda.Device() if stream is None else stream._there():
                self._event = cupy.cuda.Event(**self._how)
        return self._event

    def record(self, stream: Stream | None = None) -> None:
        """Put the event after the work that a stream, the current one, has so far."""
        stream = stream or current_stream()
        event = self._made(stream)
        with stream._there():
            event.record(stream._stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of a stream, the current one, wait for the event."""
        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        """Whether the work before the event is done."""
        return self._event is None or bool(self._event.done)

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""
        while patient and not self.query():  # what runs may never end: Python sees signals meanwhile
            time.sleep(1e-4)
        if self._event is not None:
            self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another, both recorded with timing."""
        return float(require_gpu().cuda.get_elapsed_time(self._made(), end_event._made()))

    @property
    def cuda_event(self) -> int:
        """The driver's handle."""
        return int(self._made().ptr)
