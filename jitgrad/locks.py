"""Locks and `os.fork`: a child has one thread, so a lock that another thread of its parent held would stay locked.

And what stops the search for garbage for a while.
"""

import gc
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Locked(Protocol):
    """What has a lock of its own."""

    _lock: Any


_owners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def new_in_children(owner: Locked) -> None:
    """In every process that is forked from this one no thread that is not there holds `owner._lock`, an RLock."""
    _owners[id(owner)] = owner


def _renew() -> None:
    """The thread that forked goes on in the child, with the locks that it holds itself."""
    for owner in list(_owners.values()):
        if owner._lock.acquire(blocking=False):
            owner._lock.release()
        else:
            owner._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Inside, nobody looks for cyclic garbage: what imports and compilation make lives on, and to search it all again
    and again took a tenth of their time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
