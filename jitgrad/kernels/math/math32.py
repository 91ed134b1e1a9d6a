"""float32 functions over the lanes of a `V` that are worth their own form; the others are computed in float64.

At most 2 ulp over every bit pattern. Sources: Cephes (exp, log, sin, cos); erf: fits of least
maximum error on its two intervals.
"""

import math

from jitgrad.kernels.functions import unary32
from jitgrad.kernels.math.math64 import (clamp, log1p_by, log_edges, polynomial, power_of_two, scale, split, to_int,
                                         vanishing)
from jitgrad.kernels.values import V

LN2_HI, LN2_LO = 0.693359375, -2.12194440e-4  # the first has few bits: n * LN2_HI is exact


_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


@unary32
def exp(x: V) -> V:
    gone, x = vanishing(x, -104.0, 90.0)
    n = (x * (1 / math.log(2))).intrinsic("roundeven")
    r = n.mad(-LN2_LO, n.mad(-LN2_HI, x))
    y = polynomial(r, (*_EXP, 1.0, 1.0))
    return gone.where(0.0, scale(y, n))


@unary32
def exp2(x: V) -> V:
    gone, x = vanishing(x, -151.0, 130.0)
    n = x.intrinsic("roundeven")
    f = x - n
    r = f * math.log(2)
    y = (r * r).mad(polynomial(r, _EXP), f.mad(1.9046543e-09, r)) + 1.0
    return gone.where(0.0, scale(y, n))


@unary32
def expm1(x: V) -> V:
    given = x
    x = clamp(x, -20.0, 89.0)
    n = (x * (1 / math.log(2))).intrinsic("roundeven")
    r = n.mad(-LN2_LO, n.mad(-LN2_HI, x))
    e = (r * r).mad(polynomial(r, _EXPM1), r)
    half = power_of_two(to_int(n) - 1)
    y = half.mad(e, half - 0.5) * 2.0
    y = n.eq(0).where(e, y)
    return given.eq(0).where(given, y)


_EXPM1 = tuple(1 / math.factorial(k) for k in range(8, 1, -1))

_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)


def _log_sum(k: V, f: V, extra: V | None = None) -> V:
    """k ln2 + log(1 + f) + extra."""
    z = f * f
    y = f * z * polynomial(f, _LOG)
    y = k.mad(LN2_LO, y)
    if extra is not None:
        y = y + extra
    y = z.mad(-0.5, y)
    return k.mad(LN2_HI, f + y)


@unary32
def log(x: V) -> V:
    k, m = split(x)
    return log_edges(x, _log_sum(k, m - 1.0))


@unary32
def log1p(x: V) -> V:
    return log1p_by(_log_sum, x)


@unary32
def tanh(x: V) -> V:
    """y / (y + 2) of y = e^2|x| - 1, as 2^n (e^r - 1) + (2^n - 1): near 0 nothing is lost."""
    a = x.abs()
    a = (a > 9.1).where(9.1, a)  # from there on it is 1
    n = (a * (2 / math.log(2))).intrinsic("roundeven")
    r = n.mad(-LN2_LO / 2, n.mad(-LN2_HI / 2, a)) * 2.0
    power = power_of_two(to_int(n))
    y = power.mad((r * r).mad(polynomial(r, _EXP), r), power - 1.0)
    inverse = 1.0 / (y + 2.0)
    q = y * inverse
    left = q.mad(-y, q.mad(-2.0, y))  # of y: the sum was rounded, too
    return left.mad(inverse, q).copysign(x)


_ERF_NEAR = (7.853854185668752e-05, -8.01019137725234e-04, 5.18832728266716e-03, -2.6853810995817184e-02,
             1.128358542919159e-01, -3.761262595653534e-01, 1.2837916612625122e-01)
_LOG_ERFC = (-2.1701494915760122e-05, 1.3769934594165534e-04, -7.30212195776403e-04, 3.570524975657463e-03,
             -1.646580919623375e-02, -9.237509965896606e-01, -4.418160915374756, -5.364941120147705)


@unary32
def erf(x: V) -> V:
    """x + x P(x^2) under 1, else 1 - e^Q(|x| - 2)."""
    a = x.abs()
    near = x.mad(polynomial(x * x, _ERF_NEAR), x)
    t = (a > 4.0).where(4.0, a) - 2.0
    far = (1.0 - exp(polynomial(t, _LOG_ERFC))).copysign(x)
    value = (a < 1.0).where(near, far)
    return x.isnan().where(x, value)


_PIO2 = (1.5703125, 4.837512969970703125e-4, 7.549789948768648e-8)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
#: above this the three-part reduction loses bits
LARGE_ANGLE = 3000.0


def circular(name: str, x: V) -> V:
    """sin or cos for |x| <= LARGE_ANGLE."""
    n = (x * (2 / math.pi)).intrinsic("roundeven")
    r = x
    for part in _PIO2:
        r = n.mad(-part, r)
    z = r * r
    s = (r * z).mad(polynomial(z, _SIN), r)
    c = (z * z).mad(polynomial(z, _COS), z.mad(-0.5, 1.0))
    quadrant = to_int(n)
    if name == "cos":
        quadrant = quadrant + 1
    odd = (quadrant & 1).ne(0)
    value = odd.where(c, s)
    return (quadrant & 2).ne(0).where(-value, value)
