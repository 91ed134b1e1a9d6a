"""Complex numbers as pairs of reals: how a script computes them, so that kernels see real numbers only.

A row says with `pair` how it is computed of complex operands: a rule `(F, *xs, **attrs)` on `Pair`s, PARTS for an op
that treats both parts alike, EXPRESSION for a composite whose expression holds of complex numbers too. Operands that
are real (a condition, indices) reach a rule as they are. What a rule gives is made of real ops, with real derivatives:
of a real function these are, part by part, torch's gradient dL/dRe + i dL/dIm.

The formulas are those of NumPy's and C's functions where a plain one would overflow: the quotient is Smith's (1962).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.dtypes import dtype, from_numpy
from jitgrad.ops.namespaces import Handle, Namespace
from jitgrad.ops.opdef import EXPRESSION, PARTS, VIEW, OpDef


class Pair(Handle):
    """The two parts of a complex tensor, handles of one shape; `whole`: memory with both on a last axis, or None."""

    __slots__ = ("F", "im", "re", "whole")

    def __init__(self, F: PairNamespace, re: Any, im: Any, whole: Any = None):
        self.F, self.re, self.im, self.whole = F, re, im, whole

    @property
    def shape(self) -> Any:
        return self.re.shape

    @property
    def ndim(self) -> int:
        return len(self.re.shape)

    @property
    def dtype(self) -> dtype:
        d = self.re.dtype
        return (d if isinstance(d, dtype) else from_numpy(d)).to_complex()


class OnWhole:
    """How a view of complex memory is one of the reals that it consists of: `rule(F, whole, **attrs)`."""

    __slots__ = ("rule",)

    def __init__(self, rule: Callable[..., Any]):
        self.rule = rule


class PairNamespace(Namespace):
    """Ops on handles of the namespace `reals`, and on pairs of them."""

    def __init__(self, reals: Any):
        self.reals = reals

    def pair(self, re: Any, im: Any) -> Pair:
        """The complex number re + i im."""
        return Pair(self, re, im)

    def apply(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if not any(isinstance(x, Pair) for x in xs) and not makes_pair(op, attrs):
            return getattr(self.reals, op.name)(*xs, **attrs)
        rule = op.pair
        if rule is PARTS or isinstance(rule, OnWhole):
            whole = xs[0].whole if op.kind is VIEW else None
            if whole is None:
                return self._each(op, xs, attrs)
            view = rule.rule if isinstance(rule, OnWhole) else self._same_axes(op)
            return self.of_whole(view(self.reals, whole, **attrs))
        if rule is EXPRESSION:
            assert op.compose is not None
            return op.compose(self, *xs, **attrs)
        if rule is None:
            raise NotImplementedError(f"`{op.name}` of complex tensors is not available in a script" if (
                "complex" in op.traits) else f'"{op.name}_cpu" not implemented for complex tensors')
        return rule(self, *xs, **attrs)  # type: ignore[operator]

    def of_whole(self, whole: Any) -> Pair:
        """The complex numbers whose parts lie along the last axis of a real handle."""
        re, im = [self.reals.select(whole, axis=len(whole.shape) - 1, index=k) for k in (0, 1)]
        return Pair(self, re, im, whole)

    @staticmethod
    def _same_axes(op: OpDef) -> Callable[..., Any]:
        """A view whose axes are counted from the front: one axis more at the end changes nothing."""
        return lambda F, whole, **attrs: getattr(F, op.name)(whole, **attrs)

    def _each(self, op: OpDef, xs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        run = getattr(self.reals, op.name)
        re, im = [run(*[getattr(x, part) if isinstance(x, Pair) else x for x in xs], **attrs) for part in ("re", "im")]
        return self.pair(re, im)

    def lift(self, value: Any, d: Any) -> Any:
        d = d if isinstance(d, dtype) else from_numpy(d)
        if not d.is_complex:
            return self.reals.lift(value, d)
        real = d.to_real()
        return self.pair(self.reals.lift(value.real, real), self.reals.lift(value.imag, real))

    def count(self, x: Any, axes: Any) -> Any:
        n = 1
        for a in axes:
            n = x.shape[a] * n  # a size of a script is one of its numbers
        real = self.reals.lift(n, x.dtype.to_real())
        return self.pair(real, self.reals.lift(0, real.dtype)) if isinstance(x, Pair) else real


def makes_pair(op: OpDef, attrs: dict[str, Any]) -> bool:
    """Whether an op of real operands, or of none, gives complex numbers."""
    wanted = attrs.get("dtype")
    return (op.dtypes == "wide" and op.pair is not None) or (isinstance(wanted, dtype) and wanted.is_complex)


def interleaved(F: PairNamespace, x: Pair) -> Any:
    """The parts along a new last axis: the memory that has them, where there is one."""
    if x.whole is not None:
        return x.whole
    axis = x.ndim
    return F.cat(*[F.unsqueeze(part, axis=axis) for part in (x.re, x.im)], axis=axis)


# --- rules that several rows share -----------------------------------------------------------------------------------


def cis(F: PairNamespace, r: Any, angle: Any) -> Pair:
    """r (cos(angle) + i sin(angle))."""
    return F.pair(r * F.cos(angle), r * F.sin(angle))


def modulus(F: PairNamespace, x: Any) -> Any:
    """|x|, with slope 0 at 0."""
    zero = F.logical_and(F.eq(x.re, 0.0), F.eq(x.im, 0.0))
    return F.where(zero, 0.0, F.hypot(F.where(zero, 1.0, x.re), x.im))


def product(F: PairNamespace, a: Any, b: Any) -> Pair:
    return F.pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def quotient(F: PairNamespace, a: Any, b: Any) -> Pair:
    """a / b by the larger part of b; by zero, of whatever sign, each part by itself."""
    zero = F.logical_and(F.eq(b.re, 0.0), F.eq(b.im, 0.0))
    first = F.ge(F.abs(b.re), F.abs(b.im))
    large, small = F.where(first, b.re, b.im), F.where(first, b.im, b.re)
    ratio = small / F.where(zero, 1.0, large)
    scale = 1.0 / F.where(zero, 0.0, large + small * ratio)
    re = F.where(zero, a.re, F.where(first, a.re + a.im * ratio, a.re * ratio + a.im))
    im = F.where(zero, a.im, F.where(first, a.im - a.re * ratio, a.im * ratio - a.re))
    return F.pair(re * scale, im * scale)


def negative(F: PairNamespace, x: Any) -> Any:
    """Whether a real number has a minus sign, that of zero too."""
    zero = F.eq(x, 0.0)
    return F.where(zero, F.lt(1.0 / x, 0.0), F.lt(x, 0.0))


def root(F: PairNamespace, x: Any) -> Pair:
    """The principal square root: the one whose real part is not negative.

    Sizes of parts are chosen by sign, not `abs`: their slope at 0 is that of the side on which the root is.
    """
    zero = F.logical_and(F.eq(x.re, 0.0), F.eq(x.im, 0.0))
    re, right, below = F.where(zero, 1.0, x.re), F.ge(x.re, 0.0), negative(F, x.im)
    t = F.sqrt((F.where(right, re, -re) + F.hypot(re, x.im)) * 0.5)
    other = F.where(below, -x.im, x.im) / (t * 2.0)
    size = F.where(right, other, t)
    im = F.where(below, -size, size)
    return F.pair(F.where(zero, 0.0, F.where(right, t, other)), F.where(zero, x.im, im))


def logarithm(F: PairNamespace, x: Any) -> Pair:
    return F.pair(F.log(modulus(F, x)), F.atan2(x.im, x.re))


def exponential(F: PairNamespace, x: Any) -> Pair:
    return cis(F, F.exp(x.re), x.im)


def exponential_less_one(F: PairNamespace, x: Any) -> Pair:
    half = F.sin(x.im * 0.5)
    return F.pair(F.expm1(x.re) * F.cos(x.im) - half * half * 2.0, F.exp(x.re) * F.sin(x.im))


def power(F: PairNamespace, a: Any, b: Any) -> Pair:
    """exp(b log(a)); 0 to a power is 0, and 1 to the power 0."""
    zero = F.logical_and(F.eq(a.re, 0.0), F.eq(a.im, 0.0))
    y = exponential(F, product(F, b, logarithm(F, F.pair(F.where(zero, 1.0, a.re), a.im))))
    none = F.logical_and(F.eq(b.re, 0.0), F.eq(b.im, 0.0))
    at_zero = F.where(none, F.zeros_like(y.re) + 1.0, 0.0)
    return F.pair(F.where(zero, at_zero, y.re), F.where(zero, 0.0, y.im))


def tangent(F: PairNamespace, t: Any, h: Any, sign: float) -> tuple[Any, Any]:
    """The parts of (t + i h) / (1 - i sign t h)."""
    d = 1.0 + (t * t) * (h * h)
    return t * (1.0 - h * h * sign) / d, h * (1.0 + t * t * sign) / d
