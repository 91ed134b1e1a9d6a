"""Python's `multiprocessing`, whose queues and pipes send tensors as memory that both processes have.

The start method is Python's own: on Linux "fork", from Python 3.14 on "forkserver".
"""

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403
from typing import Any as _Any

from jitgrad.multiprocessing.reductions import (get_all_sharing_strategies, get_sharing_strategy, register as _register,
                                                set_sharing_strategy)
from jitgrad.multiprocessing.spawning import (ProcessContext, ProcessExitedException, ProcessRaisedException,
                                              SpawnContext, spawn, start_processes)

__all__ = ["ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
           "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]
__all__ += _multiprocessing.__all__

_register()


def __getattr__(name: str) -> _Any:
    """What `multiprocessing` has beside its public names: `connection`, `reduction`, ..."""
    return getattr(_multiprocessing, name)
