"""How pointwise rows are written: one line each, with the fields that all of them share filled in."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.ops import checks, specs
from jitgrad.ops.halves import in_float32
from jitgrad.ops.opdef import NONDIFF, POINTWISE, register


class Ufunc:
    """An impl that is a function of the array library; `ArrayNamespace` then calls NumPy's itself, which knows half
    types. Another library's computes them in float32.
    """

    __slots__ = ("function",)

    def __init__(self, function: str):
        self.function = function

    def __call__(self, xp: Any, *arrays: Any) -> Any:
        function = getattr(xp, self.function)
        return function(*arrays) if xp is np else _in_float32(function, *arrays)


@in_float32
def _in_float32(function: Callable[..., Any], *arrays: Any) -> Any:
    return function(*arrays)


def pointwise(name: str, arity: int, doc: str, impl: str | Callable[..., Any] | None = None, **fields: Any) -> None:
    """Register a pointwise row; a string for `impl` names a function of the array library."""
    if isinstance(impl, str):
        fields.setdefault("ref", f"numpy.{impl}")
        impl = Ufunc(impl)
    fields.setdefault("spec", specs.pointwise)
    if arity > 1:
        fields.setdefault("check", checks.pointwise)
    register(name, arity, POINTWISE, doc, impl=impl, **fields)


def predicate(name: str, arity: int, doc: str, impl: str | None = None, **fields: Any) -> None:
    """Register a pointwise row that gives bools and has no gradient."""
    fields.setdefault("dtypes", "any")
    pointwise(name, arity, doc, impl, vjp=NONDIFF, spec=specs.predicate, **fields)


def attr_samples(*choices: dict[str, Any], low: float = -3.0, high: float = 3.0) -> Callable[..., Any]:
    """Samples of a pointwise row of one operand with attrs: random operands with each choice of attrs."""
    return lambda rng: [((rng.uniform(low, high, (3, 4)),), attrs) for attrs in choices]
