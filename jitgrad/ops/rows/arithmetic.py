"""Arithmetic, rounding, minima and maxima, `where`, `cast`.

Ties and kinks as in torch: abs has slope 0 at 0, minimum and maximum give half to each of two equal operands.
"""

import math
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.ops import specs
from jitgrad.ops.complex import pairs
from jitgrad.ops.opdef import EXPRESSION, NONDIFF, PARTS
from jitgrad.ops.rows._pointwise import attr_samples, pointwise
from jitgrad.ops.rules import each, is_complex, zeros

# --- the four operations -------------------------------------------------------------------------------------------

pointwise("add", 2, "a + b.", "add", infix="+", dtypes="any", traits={"commutative", "cheap", "passes"},
          pair=PARTS, vjp=each(lambda F, g, y, a, b: g, lambda F, g, y, a, b: g))
pointwise("sub", 2, "a - b.", "subtract", infix="-", dtypes="number", traits={"cheap", "passes"},
          pair=PARTS, vjp=each(lambda F, g, y, a, b: g, lambda F, g, y, a, b: -g))
pointwise("mul", 2, "a * b.", "multiply", infix="*", dtypes="any", traits={"barebones", "commutative", "cheap"},
          pair=pairs.product, vjp=each(lambda F, g, y, a, b: g * b, lambda F, g, y, a, b: g * a))
pointwise("div", 2, "a / b.", "true_divide", infix="/", pair=pairs.quotient,
          vjp=each(lambda F, g, y, a, b: g / b, lambda F, g, y, a, b: -(g * (F.div(a, b) / b))))
pointwise("fma", 3, "a * b + c.", lambda xp, a, b, c: a * b + c, dtypes="number",
          vjp=each(lambda F, g, y, a, b, c: g * b, lambda F, g, y, a, b, c: g * a, lambda F, g, y, a, b, c: g))
pointwise("neg", 1, "-x.", "negative", dtypes="number", pair=PARTS, vjp=lambda F, g, y, x: (-g,),
          traits={"involution", "cheap", "passes", "exact", "lossless"})
pointwise("reciprocal", 1, "1 / x.", vjp=lambda F, g, y, x: (-(g * (y * y)),),
          compose=lambda F, x: 1.0 / x, pair=EXPRESSION, ref="numpy.reciprocal", domain=(0.2, 3.0))
pointwise("square", 1, "x * x.", vjp=lambda F, g, y, x: (g * (x * 2),),
          compose=lambda F, x: x * x, pair=EXPRESSION, dtypes="number", ref="numpy.square")


def _pow(xp: Any, a: Any, b: Any) -> Any:
    if (a if hasattr(a, "dtype") else b).dtype.kind != "i":
        return xp.power(a, b)
    # NumPy refuses negative exponents of integers; 1 / a^|b| is 0 but for a = 1 and -1
    y = xp.power(a, xp.maximum(b, 0))
    return xp.where(b >= 0, y, xp.where(a == 1, 1, xp.where(a == -1, 1 - 2 * (b & 1), 0))).astype(a.dtype)


pointwise("pow", 2, "a to the power b; integers to negative powers are 0 but for bases 1 and -1.", _pow,
          ref="numpy.power", infix="**", dtypes="number", domain=(0.2, 3.0), traits={"expensive"},
          pair=pairs.power, vjp=each(
    # where b is 0 the slope is 0, also at a = 0; where a is 0 and b >= 0 the exponent's slope is 0, not 0 * log(0)
    lambda F, g, y, a, b: F.where(F.eq(b, 0), 0.0, g * (b * F.pow(a, F.where(F.eq(b, 0), 1.0, b - 1)))),
    lambda F, g, y, a, b: _pow_exponent(F, g, y, a, b)))


def _pow_exponent(F: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    flat = F.logical_and(F.eq(a, 0), F.ge(F.real(b) if is_complex(b) else b, 0))
    return F.where(flat, 0.0, g * (y * F.log(F.where(flat, 1.0, a))))


# --- division with remainder ---------------------------------------------------------------------------------------

pointwise("floor_divide", 2, "The largest integer not above a / b.", "floor_divide", dtypes="number",
          domain=(0.3, 4.0), traits={"expensive"},
          vjp=each(lambda F, g, y, a, b: F.zeros_like(a), lambda F, g, y, a, b: F.zeros_like(b)))
pointwise("div_trunc", 2, "a / b without its fraction.", compose=lambda F, a, b: F.trunc(a / b), domain=(0.3, 4.0),
          vjp=each(lambda F, g, y, a, b: F.zeros_like(a), lambda F, g, y, a, b: F.zeros_like(b)))
pointwise("remainder", 2, "a - b * floor(a / b): has b's sign.", "remainder", dtypes="number", domain=(0.3, 4.0),
          traits={"expensive"},
          vjp=each(lambda F, g, y, a, b: g, lambda F, g, y, a, b: -(g * F.floor_divide(a, b))))


def _truncated_quotient(F: Any, a: Any, b: Any) -> Any:
    """trunc(a / b), with slope 0 also where b is 0."""
    zero = F.eq(b, 0)
    return F.where(zero, F.floor_divide(a, b), F.trunc(a / F.where(zero, 1.0, b)))


pointwise("fmod", 2, "a - b * trunc(a / b): has a's sign.", "fmod", dtypes="number", domain=(0.3, 4.0),
          traits={"expensive"},
          vjp=each(lambda F, g, y, a, b: g, lambda F, g, y, a, b: -(g * _truncated_quotient(F, a, b))))

# --- rounding and sign ---------------------------------------------------------------------------------------------


def _rounding(function: str) -> Any:
    def impl(xp: Any, x: Any) -> Any:
        return getattr(xp, function)(x) if x.dtype.kind == "f" else x.copy()  # integers are round already
    return impl


for _name, _function, _doc in (
        ("floor", "floor", "The largest integer not above x."), ("ceil", "ceil", "The smallest integer not below x."),
        ("trunc", "trunc", "x without its fraction."), ("round", "rint", "The nearest integer, halves to even.")):
    pointwise(_name, 1, _doc, _rounding(_function), vjp=zeros, dtypes="number", ref=f"numpy.{_function}",
              traits={"barebones", "idempotent", "exact"})


def _sign(xp: Any, x: Any) -> Any:
    s = xp.sign(x)
    return xp.where(x == x, s, 0).astype(x.dtype) if x.dtype.kind == "f" else s  # torch: the sign of NaN is 0


pointwise("sign", 1, "-1, 0 or 1; 0 for NaN.", _sign, vjp=zeros, dtypes="number", ref="numpy.sign",
          traits={"idempotent", "exact"})
pointwise("abs", 1, "The absolute value.", "absolute", vjp=lambda F, g, y, x: (g * F.sign(x),), dtypes="number",
          traits={"idempotent", "exact"})

# --- minima and maxima ---------------------------------------------------------------------------------------------

pointwise("minimum", 2, "The smaller operand; NaN if one is NaN.", "minimum", dtypes="any",
          traits={"commutative", "cheap", "exact"},
          vjp=each(lambda F, g, y, a, b: F.where(F.eq(a, b), g * 0.5, F.where(F.gt(a, b), 0.0, g)),
                   lambda F, g, y, a, b: F.where(F.eq(a, b), g * 0.5, F.where(F.gt(b, a), 0.0, g))))
pointwise("maximum", 2, "The larger operand; NaN if one is NaN.", "maximum", dtypes="any",
          traits={"commutative", "cheap", "exact"},
          vjp=each(lambda F, g, y, a, b: F.where(F.eq(a, b), g * 0.5, F.where(F.lt(a, b), 0.0, g)),
                   lambda F, g, y, a, b: F.where(F.eq(a, b), g * 0.5, F.where(F.lt(b, a), 0.0, g))))
# the gradient passes at the bounds themselves; where the bounds cross, the result is the upper one
pointwise("clamp_min", 2, "max(x, low); the gradient passes where x equals the bound.", dtypes="number",
          compose=lambda F, x, low: F.maximum(x, low), ref="numpy.maximum",
          vjp=each(lambda F, g, y, x, low: F.where(F.ge(x, low), g, 0.0),
                   lambda F, g, y, x, low: F.where(F.lt(x, low), g, 0.0)))
pointwise("clamp_max", 2, "min(x, high); the gradient passes where x equals the bound.", dtypes="number",
          compose=lambda F, x, high: F.minimum(x, high), ref="numpy.minimum",
          vjp=each(lambda F, g, y, x, high: F.where(F.le(x, high), g, 0.0),
                   lambda F, g, y, x, high: F.where(F.gt(x, high), g, 0.0)))
pointwise("clamp", 3, "min(max(x, low), high).", dtypes="number", ref="numpy.clip",
          compose=lambda F, x, low, high: F.minimum(F.maximum(x, low), high),
          vjp=each(lambda F, g, y, x, low, high: F.where(F.logical_and(F.ge(x, low), F.le(x, high)), g, 0.0),
                   lambda F, g, y, x, low, high: F.where(F.logical_and(F.lt(x, low), F.lt(low, high)), g, 0.0),
                   lambda F, g, y, x, low, high: F.where(F.logical_or(F.gt(x, high), F.gt(low, high)), g, 0.0)))


def _hypot(F: Any, a: Any, b: Any) -> Any:
    a, b = F.abs(a), F.abs(b)
    large = F.maximum(a, b)
    ratio = F.minimum(a, b) / F.where(F.eq(large, 0.0), 1.0, large)
    infinite = F.logical_or(F.eq(a, math.inf), F.eq(b, math.inf))  # the other one may be NaN
    return F.where(infinite, math.inf, large * F.sqrt(ratio * ratio + 1.0))


pointwise("hypot", 2, "sqrt(a * a + b * b), by the larger operand's scale.", compose=_hypot, ref="numpy.hypot",
          vjp=each(lambda F, g, y, a, b: g * (a / y), lambda F, g, y, a, b: g * (b / y)))

# --- choice and conversion -----------------------------------------------------------------------------------------

pointwise("where", 3, "a where the condition holds, else b.", "where", dtypes="any", pair=PARTS,
          traits={"barebones", "cheap", "passes", "exact"}, spec=specs.select_by, samples=lambda rng: [
              ((rng.random((3, 4)) < 0.5, rng.normal(size=(3, 4)), rng.normal(size=(3, 4))), {}),
              ((rng.random((3, 1)) < 0.5, rng.normal(size=(4,)), rng.normal(size=())), {})],
          vjp=each(None, lambda F, g, y, c, a, b: F.where(c, g, 0.0), lambda F, g, y, c, a, b: F.where(c, 0.0, g)))


def _cast(xp: Any, x: Any, dtype: Any) -> Any:
    """bfloat16 has its conversions from and to float32 alone: wider numbers are rounded twice, as in torch."""
    d = getattr(dtype, "np", dtype)
    if x.dtype.kind == "c" and d.kind not in "cb":
        x = x.real
    if (d.kind == "V") is not (x.dtype.kind == "V"):
        x = x.astype(np.float32, copy=False)
    if type(x) is np.ndarray and 0 in x.strides:  # repeated axes stay where they are in memory, as with any ufunc
        how: Any = [["readonly"], ["writeonly", "allocate"]]
        made = np.nditer((x, None), ["zerosize_ok"], how, [x.dtype, d]).operands[1]
        np.copyto(made, x, casting="unsafe")
        return made
    return x.astype(d)


def _cast_pair(F: Any, x: Any, dtype: Any) -> Any:
    if not isinstance(x, pairs.Pair):
        re = F.cast(x, dtype=dtype.to_real())
        return F.pair(re, F.zeros_like(re))
    if dtype is dtypes.bool_:
        return F.logical_or(F.ne(x.re, 0.0), F.ne(x.im, 0.0))
    re = F.cast(x.re, dtype=dtype.to_real())
    return F.pair(re, F.cast(x.im, dtype=dtype.to_real())) if dtype.is_complex else re


pointwise("cast", 1, "x converted to another dtype, of complex numbers the real part.", _cast, dtypes="any",
          pair=_cast_pair,
          traits={"barebones", "cheap", "passes", "exact", "converts"}, spec=specs.cast,
          vjp=lambda F, g, y, x, dtype: (F.cast(g, dtype=x.dtype),),
          samples=attr_samples({"dtype": dtypes.float64}, {"dtype": dtypes.float32}))


def _bitcast(xp: Any, x: Any, dtype: Any) -> Any:
    d = getattr(dtype, "np", dtype)
    return x != 0 if d.kind == "b" else x.view(d).copy()


pointwise("bitcast", 1, "The bits of x as a number of another dtype of the same size; a bool is whether one is set.",
          _bitcast, dtypes="any", vjp=NONDIFF, spec=specs.cast,
          traits={"barebones", "cheap", "exact", "converts", "total"}, samples=lambda rng: [
              ((rng.normal(size=(3, 4)).astype(np.float32),), {"dtype": d}) for d in (dtypes.int32, dtypes.float32)])
pointwise("contiguous", 1, "A copy of x whose memory is in the order of its indices.",
          lambda xp, x: xp.array(x, order="C"), dtypes="any", pair=PARTS, ref="numpy.array",
          traits={"barebones", "cheap", "passes", "exact", "converts", "copies", "in_rows"},
          vjp=lambda F, g, y, x: (g,))


def _lerp(F: Any, a: Any, b: Any, w: Any) -> Any:
    near = F.lt(F.abs(w), 0.5)  # the weights decide, before they meet the many numbers
    return F.where(near, a, b) + F.where(near, w, -(1.0 - w)) * (b - a)


pointwise("lerp", 3, "a + w * (b - a), computed from the nearer end.", compose=_lerp,
          vjp=each(lambda F, g, y, a, b, w: g * (1.0 - w), lambda F, g, y, a, b, w: g * w,
                   lambda F, g, y, a, b, w: g * (b - a)))


# --- steps of optimizers: one node for each thing that they write --------------------------------------------------


def _adam(F: Any, p: Any, m: Any, v: Any, shrink: Any, rate: Any, eps: Any) -> Any:
    return p * shrink + m / (F.sqrt(v) + eps) * rate


def _adam_vjp(F: Any, g: Any, y: Any, p: Any, m: Any, v: Any, shrink: Any, rate: Any, eps: Any) -> Any:
    root = F.sqrt(v)
    below = root + eps
    through = g / below
    to_below = -(through * m * rate / below)
    return g * shrink, through * rate, to_below / (root * 2.0), g * p, through * m, to_below


pointwise("ema", 4, "An exponential moving average: a * keep + b * new.", traits={"whole"},
          compose=lambda F, a, b, keep, new: a * keep + b * new, vjp=each(
              lambda F, g, y, a, b, keep, new: g * keep, lambda F, g, y, a, b, keep, new: g * new,
              lambda F, g, y, a, b, keep, new: g * a, lambda F, g, y, a, b, keep, new: g * b))
pointwise("ema_of_squares", 4, "a * keep + b * b * new.", traits={"whole"},
          compose=lambda F, a, b, keep, new: a * keep + b * b * new, vjp=each(
              lambda F, g, y, a, b, keep, new: g * keep, lambda F, g, y, a, b, keep, new: g * (2.0 * b * new),
              lambda F, g, y, a, b, keep, new: g * a, lambda F, g, y, a, b, keep, new: g * (b * b)))
pointwise("adam", 6, "p * shrink + m / (sqrt(v) + eps) * rate.", compose=_adam, vjp=_adam_vjp, traits={"whole"},
          domain=(0.2, 3.0))
