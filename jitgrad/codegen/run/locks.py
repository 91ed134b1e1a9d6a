"""Locks and `os.fork`: a child has one thread, so a lock that another thread of its parent held would stay locked."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_owners: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def new_in_children(owner: Any) -> None:
    """`owner._lock` is another lock, which nobody holds, in every process that is forked from this one."""
    _owners[id(owner)] = owner


def _renew() -> None:
    for owner in list(_owners.values()):
        owner._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
