"""Large arrays in memory that is kept for the next ones (`kernels/blocks.py`): new memory costs a fault per page.

NumPy asks a handler for an array's memory (NEP 49): the one in a context variable, so it is in force where it was set,
and only while jitgrad computes; the user's own arrays have NumPy's. An array remembers whose its memory is.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

import numpy as np

#: bytes from which an array is large
LEAST = 1 << 18


class _Handler:
    """NumPy's variable and our handler for it, once native code is there."""

    variable: ContextVar[Any] | None = None
    handler: Any = None


def provide(variable: ContextVar[Any] | None, handler: Any) -> None:
    """Say where NumPy looks for a handler, and which to use; None: none is to be used."""
    _Handler.variable, _Handler.handler = variable, handler


def keep() -> Token[Any] | None:
    """Let the arrays that are made from now on have our memory, until `release`."""
    variable = _Handler.variable
    return variable.set(_Handler.handler) if variable is not None else None


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
