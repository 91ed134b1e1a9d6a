"""The math functions of the run-time library by name, entered where they are written: `@unary64` above one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from jitgrad.kernels.values import V

Function = Callable[..., V]
F = TypeVar("F", bound=Function)

UNARY64: dict[str, Function] = {}
BINARY64: dict[str, Function] = {}
UNARY32: dict[str, Function] = {}


def unary64(function: F) -> F:
    """A function of one float64; of float32 it is rounded, where there is none of its own."""
    UNARY64[function.__name__] = function
    return function


def binary64(function: F) -> F:
    """A function of two."""
    BINARY64[function.__name__] = function
    return function


def unary32(function: F) -> F:
    """A function of one float32."""
    UNARY32[function.__name__] = function
    return function
