"""How many threads compute: those of the run-time library (`kernels/pool.py`), and the BLAS's.

A program's kernels and large products are shared among the former. NumPy's BLAS, which eager products use, has its own.
"""

import atexit
import ctypes
import os
from collections.abc import Callable

from jitgrad import config
from jitgrad.kernels import blas


class _Control:
    """What was asked for (0: nothing yet), and how to tell the run-time library once it is there."""

    asked = 0
    tell: Callable[[int], None] | None = None


def _usable() -> int:
    """The processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads share the work of a compiled function.

    What `set_num_threads` said, else JITGRAD_NUM_THREADS, else OMP_NUM_THREADS, else the processors that this process may
    use.
    """
    if _Control.asked:
        return _Control.asked
    known = config.current().num_threads
    if not known:
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # it may have numbers for inner levels
        known = int(first) if first.isdecimal() else 0
    return known or _usable()


def set_num_threads(num_threads: int) -> None:
    """Let so many threads share the work of compiled functions from now on, and products of eager tensors.

    Results do not depend on it. Waits for work that is under way.

    Args:
        num_threads: the thread that calls counts.

    Raises:
        TypeError: it is not an int.
        RuntimeError: it is not positive.
    """
    if type(num_threads) is not int:
        raise TypeError(f"set_num_threads expects an int, but got {type(num_threads).__name__}")
    if num_threads < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    _Control.asked = num_threads
    blas.set_threads(num_threads)
    if _Control.tell is not None:
        _Control.tell(num_threads)


def manage(set_threads: int, forget_threads: int) -> None:
    """The run-time library is there: functions at these addresses set the number, and say in a child that none is left.
    """
    tell = ctypes.CFUNCTYPE(None, ctypes.c_int64)(set_threads)
    forget = ctypes.CFUNCTYPE(None)(forget_threads)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)
    # a thread must not be where its code is unmapped
    atexit.register(tell, 1)
    _Control.tell = tell
    tell(get_num_threads())
