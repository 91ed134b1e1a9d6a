"""Profiles: what eager operations, gradients and scripted calls take, by torch.profiler's names.

Times are those of the processor: an operation on a GPU counts until it is launched. `Explanation` (`f.explain`) says
what each line of a script costs, of which a profile sees the whole call.
"""

from __future__ import annotations

import enum
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.device import has_gpu
from jitgrad.eager.profiling import Event, Recorder, record_function, start as _start, stop as _stop
from jitgrad.profiler import averages as _averages
from jitgrad.profiler.averages import Averages

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
           "tensorboard_trace_handler"]


class ProfilerActivity(enum.Enum):
    """What may be looked at. Only what the processor does is."""

    CPU = 0
    XPU = 1
    CUDA = 2


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """CPU, and CUDA where there is a GPU: its kernels are seen when they are launched."""
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if has_gpu() else {ProfilerActivity.CPU}


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """Steps that are not recorded (`skip_first`, then `wait` and `warmup`), then `active` recorded ones; and again.

    Args:
        repeat: how often; 0: for ever.
        skip_first_wait: leave out the first `wait`.

    Raises:
        AssertionError: a negative number, or nothing active.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments")
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False
                              ) -> Callable[[profile], None]:
    """For `on_trace_ready`: writes each trace into a folder, under torch's names."""
    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


class profile:
    """Record what runs inside of `with`, or between `start()` and `stop()`.

    Args:
        activities: of `ProfilerActivity`; accepted for torch's sake.
        schedule: says for each step, which `step()` ends, whether it is recorded; all is if None.
        on_trace_ready: called with this object when a cycle of the schedule, or the profile, ends.
        record_shapes: keep the shapes of operands, for `key_averages(group_by_input_shape=True)`.
        with_stack: keep lines of the program, for `key_averages(group_by_stack_n=n)`.
        profile_memory, with_flops, with_modules, experimental_config, execution_trace_observer, acc_events, use_cuda,
            custom_trace_id_callback: accepted for torch's sake; there are no columns of these.

    Raises:
        RuntimeError: another profile is being taken.
    """

    def __init__(self, *, activities: Iterable[ProfilerActivity] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None, execution_trace_observer: Any = None,
                 acc_events: bool = False, use_cuda: bool | None = None, custom_trace_id_callback: Any = None) -> None:
        self.activities = set(activities) if activities is not None else supported_activities()
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.with_stack = record_shapes, with_stack
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder: Recorder | None = None
        self._recording = False
        self._step: record_function | None = None
        self._metadata: dict[str, Any] = {}

    # --- taking it -----------------------------------------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the first step."""
        self._begin()

    def stop(self) -> None:
        """End, with what is recorded so far."""
        self._end_step()
        if self._recording:
            self._halt()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def step(self) -> None:
        """A step of the program ends, the next one begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        over = self.current_action in (ProfilerAction.NONE, ProfilerAction.WARMUP)
        if self._recording and (before is ProfilerAction.RECORD_AND_SAVE or over):
            if before is ProfilerAction.RECORD:
                warnings.warn("Incorrect schedule: RECORD followed by NONE", stacklevel=2)
            self._halt()
            if before is ProfilerAction.RECORD_AND_SAVE and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._begin()

    def _begin(self) -> None:
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            if not self._recording:
                self._recorder = Recorder(self.record_shapes, self.with_stack)
                _start(self._recorder)
                self._recording = True
            if self.record_steps:
                self._step = record_function(f"ProfilerStep#{self.step_num}")
                self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _halt(self) -> None:
        self._recording = False
        _stop()

    # --- what was seen -------------------------------------------------------------------------------------------

    def events(self) -> list[Event]:
        """What ran, in the order of its beginning. AssertionError where nothing was recorded."""
        if self._recorder is None:
            raise AssertionError("Profiler must be initialized before calling this method")
        return self._recorder.events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> Averages:
        """Events summed up by name; also by the shapes of operands, or by the program's n innermost lines."""
        return _averages.averages(self.events(), group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as chrome://tracing and Perfetto read them; compressed where the name ends in .gz."""
        _averages.chrome_trace(self.events(), path, self._metadata)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write lines of the program with their times, as flame graphs are made of; needs `with_stack`."""
        if metric != "self_cpu_time_total":
            raise ValueError(f"metric should be one of: ['self_cpu_time_total'], got {metric!r}")
        _averages.stacks(self.events(), path)

    def add_metadata(self, key: str, value: str) -> None:
        """Write a text into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Write a JSON value, given as its text, into the trace."""
        self._metadata[key] = json.loads(value)
