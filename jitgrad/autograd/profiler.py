"""torch.autograd.profiler: the older form of `jitgrad.profiler`."""

from __future__ import annotations

import os
from typing import Any

from jitgrad import profiler as _profiler
from jitgrad.eager.profiling import Event, record_function
from jitgrad.profiler.averages import Averages, FunctionEventAvg

__all__ = ["profile", "record_function"]


class profile:
    """Record what runs inside of `with`; as `jitgrad.profiler.profile`, without steps.

    Args:
        enabled: False: record nothing.
        record_shapes, with_stack: as there. The others are accepted for torch's sake.
    """

    def __init__(self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
                 record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False, use_cpu: bool = True,
                 experimental_config: Any = None, acc_events: bool = False) -> None:
        self.enabled = enabled
        self._taken = _profiler.profile(record_shapes=record_shapes, with_stack=with_stack)

    def __enter__(self) -> profile:
        if self.enabled:
            self._taken.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            self._taken.stop()

    @property
    def function_events(self) -> list[Event]:
        """What ran. AssertionError where nothing was recorded."""
        return self._taken.events()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """Events summed up by name, and by shapes or lines."""
        return self._taken.key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        return self.key_averages().total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """The table of `key_averages()`."""
        return self.key_averages().table(sort_by, row_limit, **options)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return self.key_averages().self_cpu_time_total

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as chrome://tracing and Perfetto read them."""
        self._taken.export_chrome_trace(path)

    def __str__(self) -> str:
        return self.table()
