"""The math functions of the run-time library by name, entered where they are written: `@unary64` above one."""

from collections.abc import Callable
from typing import TypeVar

from jitgrad.kernels.values import V, mangle

Function = Callable[..., V]
F = TypeVar("F", bound=Function)


def symbol_of(name: str, elem: str, lanes: int) -> str:
    """The name of a function in the library: `jg_exp_v16f32`, `jg_exp_f64`."""
    return f"jg_{name}_{mangle(elem, lanes)}"


class Functions(dict[str, Function]):
    """Functions by name; as a decorator it enters one."""

    def __call__(self, function: F) -> F:
        self[function.__name__] = function
        return function


#: of one float64 (of float32 it is rounded, where there is none of its own), of two, and of one float32
unary64, binary64, unary32 = Functions(), Functions(), Functions()
