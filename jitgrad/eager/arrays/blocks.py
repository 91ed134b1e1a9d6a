"""Large arrays in memory that is kept for the next ones (`kernels/blocks.py`): new memory costs a fault per page.

NumPy asks a handler for an array's memory (NEP 49): the one in a context variable, so it is in force where it was set,
and only while jitgrad computes; the user's own arrays have NumPy's. An array remembers whose its memory is.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

import numpy as np

from jitgrad.device import cpu_kernels

#: bytes from which an array is large
LEAST = 1 << 18
#: eager operands of so many bytes, the large ones together, are worth the loading of native code
ENOUGH = 1 << 30


class _Handler:
    """NumPy's variable and our handler for it, once native code is there."""

    variable: ContextVar[Any] | None = None
    handler: Any = None
    due = ENOUGH


def provide(variable: ContextVar[Any] | None, handler: Any) -> None:
    """Say where NumPy looks for a handler, and which to use; None: none is to be used."""
    _Handler.variable, _Handler.handler, _Handler.due = variable, handler, 0


def keep() -> Token[Any] | None:
    """Let the arrays that are made from now on have our memory, until `release`."""
    variable = _Handler.variable
    return variable.set(_Handler.handler) if variable is not None else None


def keep_for(size: int) -> Token[Any] | None:
    """`keep`, for an eager op on operands of LEAST bytes or more: enough of these load native code."""
    if _Handler.due > 0:
        _Handler.due -= size
        if _Handler.due <= 0:
            cpu_kernels().load()
    return keep()


def release(token: Token[Any] | None) -> None:
    """Undo a `keep`."""
    if token is not None:
        token.var.reset(token)


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """A new array, a large one."""
    token = keep()
    try:
        return np.empty(shape, dtype)
    finally:
        release(token)
