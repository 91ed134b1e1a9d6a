"""Functions of `math` that are composed of others, and those of whole sequences."""

import math
from collections.abc import Callable
from typing import Any

from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.protocol import binary
from jitgrad.script.frontend.values.values import Number


def _isclose(context: Context, a: Any, b: Any, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    """`abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)`, infinities equal only to themselves."""
    x, y = (numbers.cast(context, v, float) for v in (a, b))
    size = numbers.minimum(context, numbers.unary(context, "abs", x), numbers.unary(context, "abs", y), True)
    allowed = numbers.minimum(context, numbers.binary(context, "mul", rel_tol, size), abs_tol, True)
    difference = numbers.unary(context, "abs", numbers.binary(context, "sub", x, y))
    near = numbers.compare(context, "le", difference, allowed)
    finite = numbers.compare(context, "lt", size, math.inf)
    return numbers.either(context, numbers.compare(context, "eq", x, y), numbers.both(context, finite, near))


def _prod(context: Context, items: list[Any], start: Any = 1) -> Any:
    result = start
    for x in items:
        result = binary(context, "mul", result, x)
    return result


def _fsum(context: Context, items: list[Any]) -> Any:
    if not any(isinstance(x, Number) for x in items):
        return math.fsum(items)
    return numbers.exact(context, "fsum", *[numbers.cast(context, x, float) for x in items])


def _dist(context: Context, a: list[Any], b: list[Any]) -> Any:
    if len(a) != len(b):
        raise effects.raise_now(context, ValueError, ("both points must have the same number of dimensions",))
    if not any(isinstance(x, Number) for x in (*a, *b)):
        return math.dist(a, b)
    return numbers.exact(context, "dist", *[numbers.cast(context, x, float) for x in (*a, *b)])


SEQUENCES: dict[str, Callable[..., Any]] = {"prod": _prod, "fsum": _fsum, "dist": _dist}
COMPOSED: dict[str, Callable[..., Any]] = {"isclose": _isclose}
