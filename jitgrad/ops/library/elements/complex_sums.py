"""Logarithms of sums of exponentials of complex numbers: by the largest real part, as of real numbers."""

from typing import Any

from jitgrad.dtypes import dtype
from jitgrad.ops.library.core import apply, as_operand, cast

__library__ = True


def _scale(top: Any, d: dtype) -> Any:
    """The largest real part of complex numbers, as what their exponentials are divided by: 0 where it is infinite."""
    top = apply("detach", top)
    return cast(apply("where", apply("isfinite", top), top, as_operand(0, top.dtype)), d)


def logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)) of complex numbers."""
    top = _scale(apply("maximum", apply("real", a), apply("real", b)), a.dtype)
    return apply("add", apply("log", apply("add", *[apply("exp", apply("sub", x, top)) for x in (a, b)])), top)


def logsumexp(x: Any, along: tuple[int, ...], keepdim: bool) -> Any:
    """log(sum(exp(x))) of complex numbers over axes."""
    if any(isinstance(x.shape[a], int) and x.shape[a] == 0 for a in along):
        return apply("log", apply("sum", apply("exp", x), axes=along, keepdim=keepdim))
    parts = apply("real", x)
    top = _scale(apply("amax", parts, axes=along, keepdim=True), x.dtype)
    total = apply("sum", apply("exp", apply("sub", x, top)), axes=along, keepdim=keepdim)
    return apply("add", apply("log", total), top if keepdim else apply("sum", top, axes=along, keepdim=False))


__all__ = ["logaddexp", "logsumexp"]
