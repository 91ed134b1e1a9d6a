"""How many threads compute: those of the run-time library (`kernels/pool.py`), and the BLAS's.

A program's kernels and large products are shared among the former. NumPy's BLAS, which eager products use, has its own;
while native code multiplies it has one (`kernels/products.py`).
"""

import atexit
import ctypes
import os
from collections.abc import Callable, Mapping
from typing import Any

from jitgrad import config
from jitgrad.kernels import blas


class _Control:
    """What was asked for (0: nothing yet), how to tell the run-time library once it is there, and the BLAS."""

    asked = 0
    asked_interop = 0
    tell: Callable[[int], None] | None = None
    manages_blas = False
    tell_blas: Callable[[int], None] = staticmethod(blas.set_threads)


def _usable() -> int:
    """The processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads share the work of a compiled function.

    What `set_num_threads` said, else JITGRAD_NUM_THREADS, else OMP_NUM_THREADS, but no more than the processors that
    this process may use; else all of these.
    """
    if _Control.asked:
        return _Control.asked
    known = config.current().num_threads
    if not known:
        first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # it may have numbers for inner levels
        known = min(int(first), _usable()) if first.isdecimal() else 0
    return known or _usable()


def set_num_threads(num_threads: int) -> None:
    """Let so many threads share the work of compiled functions from now on, and products of eager tensors.

    The results of compiled functions do not depend on it. Waits for work that is under way.

    Args:
        num_threads: the thread that calls counts.

    Raises:
        TypeError: it is not an int.
        RuntimeError: it is not positive.
    """
    _Control.asked = _checked("set_num_threads", num_threads)
    _Control.tell_blas(num_threads)
    if _Control.tell is not None:
        _Control.tell(num_threads)


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` said, else the processors that this process may use."""
    return _Control.asked_interop or _usable()


def set_num_interop_threads(num_interop_threads: int) -> None:
    """For programs written for torch: remembers the number, and nothing else, since no two operations run at once.

    Raises:
        TypeError: it is not an int.
        RuntimeError: it is not positive.
    """
    _Control.asked_interop = _checked("set_num_interop_threads", num_interop_threads)


def _checked(function: str, count: Any) -> int:
    if type(count) is not int:
        raise TypeError(f"{function} expects an int, but got {type(count).__name__}")
    if count < 1:
        raise RuntimeError(f"{function} expects a positive integer")
    return count


def manage(functions: Mapping[str, int]) -> None:
    """The run-time library is there, with functions at these addresses."""
    _Control.tell = tell = _function(functions, "jg_set_threads", ctypes.c_int64)
    if hasattr(os, "register_at_fork"):
        for name in ("jg_forget_threads", "jg_blas_forget"):
            os.register_at_fork(after_in_child=_function(functions, name))
    atexit.register(tell, 1)  # a thread must not be where code is unmapped
    tell(get_num_threads())


def manage_blas(functions: Mapping[str, int]) -> None:
    """A program with products is there: native code, at these addresses, may say how many threads the BLAS has."""
    control = blas.thread_control()
    if control is not None and not _Control.manages_blas:
        _Control.manages_blas = True
        _function(functions, "jg_blas_control", ctypes.c_int64, ctypes.c_int64)(*control)
        _Control.tell_blas = _function(functions, "jg_blas_threads", ctypes.c_int64)
        if config.current().num_threads and not _Control.asked:
            _Control.tell_blas(config.current().num_threads)


def _function(functions: Mapping[str, int], name: str, *arguments: Any) -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None, *arguments)(functions[name])
