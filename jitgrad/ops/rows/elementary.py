"""Exponentials, logarithms, roots, circular and hyperbolic functions, the error function and the gamma family."""

import math
from typing import Any

from jitgrad.device import cpu_kernels
from jitgrad.ops.complex import pairs
from jitgrad.ops.opdef import EXPRESSION
from jitgrad.ops.rows._pointwise import attr_samples, pointwise
from jitgrad.ops.rules import each, is_complex

LN2, LN10 = math.log(2.0), math.log(10.0)


def function(name: str, arity: int, doc: str, impl: Any, **fields: Any) -> None:
    """Register a row that each target's math library has a function for, of the row's name."""
    traits = {"elementary", "expensive"} | set(fields.pop("traits", ()))
    pointwise(name, arity, doc, impl, traits=traits, **fields)


# --- exponentials, logarithms, roots -------------------------------------------------------------------------------

function("exp", 1, "e to the x.", "exp", pair=pairs.exponential, vjp=lambda F, g, y, x: (g * y,))
function("expm1", 1, "exp(x) - 1, accurate near 0.", "expm1", pair=pairs.exponential_less_one,
         vjp=lambda F, g, y, x: (g * (y + 1.0),))
function("exp2", 1, "2 to the x.", "exp2", pair=lambda F, x: F.exp(x * LN2), vjp=lambda F, g, y, x: (g * (y * LN2),))
function("log", 1, "The natural logarithm.", "log",
         pair=pairs.logarithm, vjp=lambda F, g, y, x: (g / x,), domain=(0.1, 3.0))
function("log1p", 1, "log(1 + x), accurate near 0.", "log1p",
         traits={"complex"}, vjp=lambda F, g, y, x: (g / (x + 1.0),),
         domain=(-0.9, 3.0))
function("log2", 1, "The binary logarithm.", "log2",
         pair=lambda F, x: F.log(x) * (1.0 / LN2), vjp=lambda F, g, y, x: (g / (x * LN2),), domain=(0.1, 3.0))
function("log10", 1, "The decimal logarithm.", "log10",
         pair=lambda F, x: F.log(x) * (1.0 / LN10), vjp=lambda F, g, y, x: (g / (x * LN10),), domain=(0.1, 3.0))


def _safe_sqrt_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    flat = F.eq(y, 0.0)
    return (F.where(flat, 0.0, g / (F.where(flat, 1.0, y) * 2.0)),)


pointwise("sqrt", 1, "The square root; its slope at 0 is infinite.", "sqrt",
         pair=pairs.root, vjp=lambda F, g, y, x: (g / (y * 2.0),),
          domain=(0.1, 3.0))
pointwise("safe_sqrt", 1, "The square root, whose slope at 0 counts as 0: a norm's.", compose=lambda F, x: F.sqrt(x),
          vjp=_safe_sqrt_vjp, ref="numpy.sqrt", domain=(0.1, 3.0))
pointwise("rsqrt", 1, "1 / sqrt(x).", lambda xp, x: 1 / xp.sqrt(x), domain=(0.1, 3.0),
          pair=lambda F, x: 1.0 / F.sqrt(x), vjp=lambda F, g, y, x: (g * -0.5 * (y * y * y),))


#: exponent -> the row that is this power
_ROOTS = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}


def _root_vjp(F: Any, g: Any, y: Any, x: Any, exponent: float) -> tuple[Any]:
    r = F.reciprocal(x) if exponent == -1.0 else F.rsqrt(x)
    if exponent == -0.5 and not is_complex(x):  # x ** -1.5 has no sign at -0, and is 0 at -inf
        r = F.where(F.eq(x, -math.inf), 0.0, F.abs(r))
    return (g * ((r if exponent == 0.5 else r * r if exponent == -1.0 else r * r * r) * exponent),)


pointwise("root", 1, "x to the power 0.5, -0.5 or -1, of which the slope reads x, as that of every power does.",
          compose=lambda F, x, exponent: getattr(F, _ROOTS[exponent])(x), pair=EXPRESSION, vjp=_root_vjp,
          domain=(0.1, 3.0), samples=lambda rng: [
              ((rng.uniform(0.1, 3.0, (3, 4)),), {"exponent": exponent}) for exponent in _ROOTS])


def _logaddexp(F: Any, a: Any, b: Any) -> Any:
    m = F.maximum(a, b)
    distance = F.where(F.eq(a, b), 0.0, F.abs(a - b))  # inf - inf would be NaN
    return m + F.log1p(F.exp(-distance))


pointwise("logaddexp", 2, "log(exp(a) + exp(b)) without overflow.", compose=_logaddexp, ref="numpy.logaddexp",
          vjp=each(lambda F, g, y, a, b: g / (1.0 + F.exp(b - a)), lambda F, g, y, a, b: g / (1.0 + F.exp(a - b))))


def _xlogy(F: Any, a: Any, b: Any) -> Any:
    flat = F.logical_and(F.eq(a, 0), F.eq(b, b))
    return F.where(flat, 0.0, a * F.log(F.where(flat, 1.0, b)))


def _xlogy_first(F: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    flat = F.logical_and(F.eq(a, 0), F.le(b, 0))
    return F.where(flat, 0.0, g * F.log(F.where(flat, 1.0, b)))


pointwise("xlogy", 2, "a * log(b), 0 where a is 0.", compose=_xlogy, ref="scipy.special.xlogy", domain=(0.1, 3.0),
          vjp=each(_xlogy_first, lambda F, g, y, a, b: g * a / b))

# --- circular ------------------------------------------------------------------------------------------------------

function("sin", 1, "Sine.", "sin",
         pair=lambda F, x: F.pair(F.sin(x.re) * F.cosh(x.im), F.cos(x.re) * F.sinh(x.im)),
         vjp=lambda F, g, y, x: (g * F.cos(x),))
function("cos", 1, "Cosine.", "cos",
         pair=lambda F, x: F.pair(F.cos(x.re) * F.cosh(x.im), -(F.sin(x.re) * F.sinh(x.im))),
         vjp=lambda F, g, y, x: (-(g * F.sin(x)),))
function("tan", 1, "Tangent.", "tan",
         pair=lambda F, x: F.pair(*pairs.tangent(F, F.tan(x.re), F.tanh(x.im), 1.0)),
         vjp=lambda F, g, y, x: (g * (1.0 + y * y),), domain=(-1.2, 1.2))
function("asin", 1, "Arc sine.", "arcsin",
         traits={"complex"}, vjp=lambda F, g, y, x: (g * F.rsqrt(1.0 - x * x),), domain=(-0.9, 0.9))
function("acos", 1, "Arc cosine.", "arccos", traits={"complex"}, vjp=lambda F, g, y, x: (-(g * F.rsqrt(1.0 - x * x)),),
         domain=(-0.9, 0.9))
function("atan", 1, "Arc tangent.", "arctan", traits={"complex"}, vjp=lambda F, g, y, x: (g / (x * x + 1.0),))


def _inverse_square(F: Any, a: Any, b: Any) -> Any:
    """1 / (a^2 + b^2), and 0 at the origin, as in torch."""
    d = a * a + b * b
    return F.where(F.eq(d, 0), 0.0, 1.0 / F.where(F.eq(d, 0), 1.0, d))


function("atan2", 2, "The angle of the point (b, a).", "arctan2",
         vjp=each(lambda F, g, y, a, b: g * (b * _inverse_square(F, a, b)),
                  lambda F, g, y, a, b: g * -(a * _inverse_square(F, a, b))))

# --- hyperbolic ----------------------------------------------------------------------------------------------------


def _acosh_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    if is_complex(x):  # the root of the product is not the product of the roots everywhere
        return (g * F.rsqrt(x - 1.0) * F.rsqrt(x + 1.0),)
    return (g * F.rsqrt(x * x - 1.0),)


function("sinh", 1, "Hyperbolic sine.", "sinh",
         pair=lambda F, x: F.pair(F.sinh(x.re) * F.cos(x.im), F.cosh(x.re) * F.sin(x.im)),
         vjp=lambda F, g, y, x: (g * F.cosh(x),))
function("cosh", 1, "Hyperbolic cosine.", "cosh",
         pair=lambda F, x: F.pair(F.cosh(x.re) * F.cos(x.im), F.sinh(x.re) * F.sin(x.im)),
         vjp=lambda F, g, y, x: (g * F.sinh(x),))
function("tanh", 1, "Hyperbolic tangent.", "tanh",
         pair=lambda F, x: F.pair(*pairs.tangent(F, F.tanh(x.re), F.tan(x.im), -1.0)),
         vjp=lambda F, g, y, x: (g * (1.0 - y * y),))
function("asinh", 1, "Inverse hyperbolic sine.", "arcsinh",
         traits={"complex"}, vjp=lambda F, g, y, x: (g * F.rsqrt(x * x + 1.0),))
function("acosh", 1, "Inverse hyperbolic cosine.", "arccosh", traits={"complex"}, vjp=_acosh_vjp,
         domain=(1.2, 4.0))
function("atanh", 1, "Inverse hyperbolic tangent.", "arctanh",
         traits={"complex"}, vjp=lambda F, g, y, x: (g / (1.0 - x * x),),
         domain=(-0.9, 0.9))

# --- error function and gamma family: NumPy has none, native code computes them on its arrays too -----------------


def _native(name: str) -> Any:
    """The function on arrays; on those of a GPU it has kernels of its own (`jitgrad/cuda/elementwise.py`)."""
    return lambda xp, x, n=0: cpu_kernels().computed(name, x, n)


function("erf", 1, "The error function.", _native("erf"), ref="scipy.special.erf",
         vjp=lambda F, g, y, x: (g * (2.0 / math.sqrt(math.pi)) * F.exp(-(x * x)),))
function("erfc", 1, "1 - erf(x), accurate in the tail.", _native("erfc"), ref="scipy.special.erfc",
         vjp=lambda F, g, y, x: (g * (-2.0 / math.sqrt(math.pi)) * F.exp(-(x * x)),))
function("erfinv", 1, "The inverse of erf on (-1, 1).", _native("erfinv"), domain=(-0.9, 0.9),
         vjp=lambda F, g, y, x: (g * (0.5 * math.sqrt(math.pi)) * F.exp(F.square(F.erfinv(x))),),
         ref="scipy.special.erfinv")
function("lgamma", 1, "log |gamma(x)|.", _native("lgamma"), domain=(0.2, 5.0),
         vjp=lambda F, g, y, x: (g * F.digamma(x),), ref="scipy.special.gammaln")
function("digamma", 1, "The derivative of lgamma.", _native("digamma"), domain=(0.2, 5.0),
         vjp=lambda F, g, y, x: (g * F.polygamma(x, n=1),), ref="scipy.special.digamma")
pointwise("polygamma", 1, "The n-th derivative of digamma.", _native("polygamma"),
          domain=(0.2, 5.0), vjp=lambda F, g, y, x, n: (g * F.polygamma(x, n=n + 1),), traits={"expensive"},
          samples=attr_samples({"n": 1}, {"n": 2}, {"n": 3}, low=0.3, high=5.0))
