"""Half types, float16 and bfloat16: what is computed of them is computed in float32 and rounded once, at its end.

That holds for a row's `impl`, for the expression of a composite and for a derivative rule, in every namespace.
`in_float32` wraps what runs on arrays, `wide` and `narrow` are for rules under any `F`. Rows that only move or convert
values (trait "converts") and derivative rules that only hand cotangents on (trait "passes") round nothing and stay as
they are, and so do the derivative rules of products, which widen inside.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import numpy as np

from jitgrad.dtypes import HALF_CHARS, dtype, float32
from jitgrad.ops.types import TensorType


def in_float32(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run(xp, *arrays, **attrs)` with arrays of a half type in float32, and what is float32 of its results rounded.

    `plain` finds `run` again.
    """
    @wraps(run)
    def wide(xp: Any, *xs: Any, **attrs: Any) -> Any:
        for x in xs:
            if hasattr(x, "dtype") and x.dtype.char in HALF_CHARS:
                break
        else:
            return run(xp, *xs, **attrs)
        y = run(xp, *[widened(x) for x in xs], **attrs)
        return tuple([rounded(v, x.dtype) for v in y]) if isinstance(y, tuple) else rounded(y, x.dtype)

    wide.__dict__["plain"] = run
    return wide


def plain(run: Callable[..., Any]) -> Callable[..., Any] | None:
    """What a bound `in_float32` runs on arrays of no half type; None where nothing is widened."""
    if not isinstance(run, partial):
        return None
    inner = getattr(run.func, "plain", None)
    return None if inner is None else partial(inner, *run.args)


def widened(x: Any) -> Any:
    """An array of a half type in float32; anything else as it is."""
    return x.astype(np.float32) if hasattr(x, "dtype") and x.dtype.char in HALF_CHARS else x


def rounded(y: Any, half: np.dtype[Any]) -> Any:
    """A float32 array in a half type; anything else as it is."""
    return y.astype(half) if y.dtype == np.float32 else y


def half_of(handles: Sequence[Any]) -> dtype | None:
    """The half type that one of some handles has; None where none has."""
    for x in handles:
        d = getattr(x, "dtype", None)
        if d is not None and d.is_half:
            return d  # type: ignore[no-any-return]
    return None


def wide(F: Any, x: Any) -> Any:
    """A handle of a half type, or the type of one, in float32; anything else as it is."""
    d = getattr(x, "dtype", None)
    if d is None or not d.is_half:
        return x
    return replace(x, dtype=float32) if isinstance(x, TensorType) else F.cast(x, dtype=float32)


def narrow(F: Any, y: Any, half: dtype) -> Any:
    """A float32 handle in a half type; anything else as it is."""
    return F.cast(y, dtype=half) if y is not None and y.dtype is float32 else y
