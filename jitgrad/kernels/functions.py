"""The math functions of the run-time library by name, entered where they are written: `@unary64` above one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from jitgrad.kernels.values import V

Function = Callable[..., V]
F = TypeVar("F", bound=Function)


class Functions(dict[str, Function]):
    """Functions by name; as a decorator it enters one."""

    def __call__(self, function: F) -> F:
        self[function.__name__] = function
        return function


#: of one float64 (of float32 it is rounded, where there is none of its own), of two, and of one float32
unary64, binary64, unary32 = Functions(), Functions(), Functions()
