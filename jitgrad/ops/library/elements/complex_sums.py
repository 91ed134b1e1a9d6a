"""Logarithms of sums of exponentials of complex numbers: by the largest real part, as of real numbers.

Sums of two, and running ones, have an angle near that of the largest, as in torch; others one within pi of 0.
"""

from typing import Any

from jitgrad.dtypes import dtype, int64
from jitgrad.ops.library.core import apply, as_operand, cast

__library__ = True


def _scale(top: Any, d: dtype) -> Any:
    """The largest of complex numbers, or its real part, as what exponentials are divided by: 0 where it is infinite."""
    top = apply("detach", top)
    part = apply("real", top) if top.dtype.is_complex else top
    return cast(apply("where", apply("isfinite", part), top, as_operand(0, top.dtype)), d)


def logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)) of complex numbers."""
    top = _scale(apply("where", apply("ge", apply("real", a), apply("real", b)), a, b), a.dtype)
    return apply("add", apply("log", apply("add", *[apply("exp", apply("sub", x, top)) for x in (a, b)])), top)


def logsumexp(x: Any, along: tuple[int, ...], keepdim: bool) -> Any:
    """log(sum(exp(x))) of complex numbers over axes."""
    if any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in along):
        return apply("log", apply("sum", apply("exp", x), axes=along, keepdim=keepdim))
    parts = apply("real", x)
    top = _scale(apply("amax", parts, axes=along, keepdim=True), x.dtype)
    total = apply("sum", apply("exp", apply("sub", x, top)), axes=along, keepdim=keepdim)
    return apply("add", apply("log", total), top if keepdim else apply("sum", top, axes=along, keepdim=False))


def logsumexp_of_rows(x: Any) -> Any:
    """log(sum(exp(x))) of complex numbers along the last axis."""
    last = x.ndim - 1
    behind = apply("argmax", apply("flip", apply("real", x), axes=(last,)), axes=(last,), keepdim=True)
    place = apply("sub", as_operand(x.shape[last] - 1, int64), behind)  # of equal ones the last
    top = _scale(apply("gather", x, place, axis=last), x.dtype)
    total = apply("sum", apply("exp", apply("sub", x, top)), axes=(last,), keepdim=False)
    return apply("add", apply("log", total), apply("squeeze", top, axis=last))


__all__ = ["logaddexp", "logsumexp", "logsumexp_of_rows"]
