"""What the rows' derivative rules share.

A vjp is `(F, g, y, *xs, **attrs) -> tuple` with one cotangent, or None, per operand. For a row with several results
`g` and `y` are tuples, with None in `g` for a result that has no cotangent. A rule written with `each` has one part per
operand, so that an executor can compute, and save operands for, only the cotangents that somebody asked for.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.dtypes import dtype
from jitgrad.ops.halves import half_of, narrow, wide
from jitgrad.ops.opdef import COMPUTING, WIDE_RULES, OpDef, Rule


class Each:
    """A vjp in parts: `parts[i]` gives the cotangent of operand i; None, or no part, where an operand has none."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Rule | None):
        self.parts = parts

    def __call__(self, F: Any, g: Any, y: Any, *xs: Any, **attrs: Any) -> tuple[Any, ...]:
        return tuple(part and part(F, g, y, *xs, **attrs) for part in self.of(len(xs)))

    def of(self, n: int) -> tuple[Rule | None, ...]:
        """The parts for n operands."""
        return (*self.parts, *(None,) * (n - len(self.parts)))


#: as rows write it: `vjp=each(rule of the first operand, ...)`
each = Each


class Missing:
    """The part of an operand whose derivative nobody has written: asking for it is NotImplementedError, as in torch."""

    __slots__ = ("what",)

    def __init__(self, what: str):
        self.what = what

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        raise NotImplementedError(f"the derivative for '{self.what}' is not implemented.")


def has_derivative(op: OpDef, n: int) -> tuple[bool, ...]:
    """Of which of n operands a row has, or denies, a derivative: all but those whose part is missing."""
    parts = op.vjp.of(n) if isinstance(op.vjp, Each) else ()
    return tuple([not isinstance(part, Missing) for part in parts]) or (True,) * n


def is_complex(x: Any) -> bool:
    """Whether a handle has complex numbers: rules may ask, for the dtype is no value."""
    d = x.dtype
    return d.is_complex if isinstance(d, dtype) else d.kind == "c"


def part_dtype(x: Any) -> Any:
    """The dtype of a handle's real parts: its own where it is real."""
    d = x.dtype
    if isinstance(d, dtype):
        return d.to_real()
    return np.dtype(f"f{d.itemsize // 2}") if d.kind == "c" else d


def transposed(F: Any, x: Any) -> Any:
    """Transposed matrices: the last two axes exchanged."""
    n = x.ndim
    return F.permute(x, axes=(*range(n - 2), n - 1, n - 2))


def zeros(F: Any, g: Any, y: Any, x: Any, **attrs: Any) -> tuple[Any]:
    """The vjp of a step function: a zero gradient that does reach the operand, as in torch."""
    return (F.zeros_like(x),)


def partial_vjp(op: OpDef, needs: Sequence[bool], F: Any, g: Any, y: Any, xs: Sequence[Any],
                attrs: dict[str, Any]) -> tuple[Any, ...]:
    """The cotangents of the operands that `needs` marks, None for the rest.

    Operands that only the unneeded parts read may be given as specs (`saved(op, needs)` says which). With operands of
    a half type the rule runs in float32.
    """
    assert callable(op.vjp)
    if conjugates(op) and any(is_complex(x) for x in xs if hasattr(x, "dtype")):
        return tuple([conjugate(F, c) for c in _parts(op.vjp, needs, F, conjugate(F, g), y, xs, attrs)])
    half = half_of(xs) if is_wide(op) else None
    if half is None:
        return _parts(op.vjp, needs, F, g, y, xs, attrs)
    g, y = ([tuple([wide(F, v) for v in x]) if isinstance(x, tuple) else wide(F, x) for x in (g, y)])
    found = _parts(op.vjp, needs, F, g, y, [wide(F, x) for x in xs], attrs)
    return tuple([narrow(F, c, half) for c in found])


def is_wide(op: OpDef) -> bool:
    """Whether the derivative rule of `op` computes, so that half types must become float32 first."""
    return op.kind in WIDE_RULES and "passes" not in op.traits


def conjugates(op: OpDef) -> bool:
    """Whether the derivative rule of `op`, of complex operands, gives what is to be conjugated, from g conjugated.

    A rule is a real function's: the transposed derivative. Of a holomorphic one torch's gradient is its conjugate, so
    that no rule needs to know of complex numbers, and none has more to do for real ones. Rules that hand cotangents on,
    or move them, multiply by real numbers alone: they commute with it.
    """
    return op.kind in COMPUTING and not op.traits & {"passes", "wirtinger"}


def conjugate(F: Any, x: Any) -> Any:
    """The conjugate of a handle, of each in a tuple; what is real, or None, as it is."""
    if isinstance(x, tuple):
        return tuple([conjugate(F, v) for v in x])
    return F.conj(x) if x is not None and is_complex(x) else x


def _parts(vjp: Rule, needs: Sequence[bool], F: Any, g: Any, y: Any, xs: Sequence[Any],
           attrs: dict[str, Any]) -> tuple[Any, ...]:
    if isinstance(vjp, Each):
        return tuple(part(F, g, y, *xs, **attrs) if needed and part is not None else None
                     for part, needed in zip(vjp.of(len(needs)), needs, strict=True))
    return tuple(c if needed else None for c, needed in zip(vjp(F, g, y, *xs, **attrs), needs, strict=True))
