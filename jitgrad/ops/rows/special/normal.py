"""The normal distribution, the scaled complement of erf, and products with logarithms.

Source: ndtri: Cephes ndtri.c (S. L. Moshier); log_ndtr as SciPy has it, by erfcx in the lower tail; the asymptotic
series of erfcx: DLMF 7.12.1.
"""

import math
from typing import Any

from jitgrad.ops.rows._pointwise import pointwise
from jitgrad.ops.rows.special._series import polynomial, special, square_exponential
from jitgrad.ops.rules import each

SQRT_PI, SQRT_2PI, SQRT_HALF = math.sqrt(math.pi), math.sqrt(2.0 * math.pi), math.sqrt(0.5)

# --- erfcx ---------------------------------------------------------------------------------------------------------

#: (2k - 1)!! (-1/2)^k, k from 8 down to 0
_TAIL = tuple([math.prod(range(1, 2 * k, 2)) * (-0.5) ** k for k in range(8, -1, -1)])


def _erfcx(F: Any, x: Any) -> Any:
    near = F.lt(x, 25.0)
    small, large = F.where(near, x, 0.0), F.where(near, 25.0, x)
    inverse = 1.0 / large
    tail = polynomial(inverse * inverse, _TAIL) * (inverse / SQRT_PI)
    return F.where(near, square_exponential(F, small) * F.erfc(small), tail)


special("erfcx", "exp(x * x) * erfc(x).", _erfcx, ref="scipy.special.erfcx",
        vjp=lambda F, g, y, x: (g * (2.0 * x * y - 2.0 / SQRT_PI),))

# --- the normal distribution ---------------------------------------------------------------------------------------


def _log_ndtr(F: Any, x: Any) -> Any:
    low = F.lt(x, -1.0)
    t = x * SQRT_HALF
    below, above = F.where(low, t, -1.0), F.where(low, 0.0, t)
    finite = F.where(F.eq(below, -math.inf), -1.0, below)
    value = F.where(low, F.log(F.erfcx(-finite) * 0.5) - below * below, F.log1p(F.erfc(above) * -0.5))
    return F.where(F.eq(x, -math.inf), -math.inf, value)


special("ndtr", "The normal distribution function.", lambda F, x: F.erfc(x * -SQRT_HALF) * 0.5,
        ref="scipy.special.ndtr", vjp=lambda F, g, y, x: (g * (F.exp(x * x * -0.5) * (1.0 / SQRT_2PI)),))
special("log_ndtr", "The logarithm of the normal distribution function.", _log_ndtr, ref="scipy.special.log_ndtr",
        vjp=lambda F, g, y, x: (g * (math.sqrt(2.0 / math.pi) / F.erfcx(x * -SQRT_HALF)),))

#: around the middle, then by sqrt(-2 log y) up to 8 and beyond; lowest power last
P0 = (-59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968, -1.2391658386738125)
Q0 = (1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905, -225.46268785411937, 200.26021238006066,
      -82.03722561683334, 15.90562251262117, -1.1833162112133)
P1 = (4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008, 14.684956192885803,
      2.1866330685079025, -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854)
Q1 = (1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672, 15.04253856929075, 2.504649462083094,
      -0.14218292285478779, -0.03808064076915783, -0.0009332594808954574)
P2 = (3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755, 0.20148538954917908,
      0.012371663481782003, 0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09)
Q2 = (1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132, 0.21623699359449663, 0.013420400608854318,
      0.00032801446468212774, 2.8924786474538068e-06, 6.790194080099813e-09)
_EDGE = math.exp(-2.0)


def _ndtri(F: Any, p: Any) -> Any:
    upper = F.gt(p, 1.0 - _EDGE)
    y = F.where(upper, 1.0 - p, p)
    central = F.gt(y, _EDGE)
    c = F.where(central, y - 0.5, 0.0)
    z = c * c
    middle = (c + c * (z * (polynomial(z, P0) / polynomial(z, Q0)))) * SQRT_2PI
    tail = F.logical_and(F.gt(y, 0.0), F.le(y, _EDGE))
    x = F.sqrt(F.log(F.where(tail, y, _EDGE)) * -2.0)
    z = 1.0 / x
    ratio = F.where(F.lt(x, 8.0), polynomial(z, P1) / polynomial(z, Q1), polynomial(z, P2) / polynomial(z, Q2))
    end = x - F.log(x) / x - z * ratio
    value = F.where(central, middle, F.where(upper, end, -end))
    value = F.where(F.eq(p, 0.0), -math.inf, F.where(F.eq(p, 1.0), math.inf, value))
    return F.where(F.logical_and(F.ge(p, 0.0), F.le(p, 1.0)), value, math.nan)


special("ndtri", "The inverse of the normal distribution function.", _ndtri, ref="scipy.special.ndtri",
        domain=(0.05, 0.95), vjp=lambda F, g, y, x: (g * (SQRT_2PI * F.exp(y * y * 0.5)),))

# --- products with logarithms --------------------------------------------------------------------------------------


def _entr(F: Any, x: Any) -> Any:
    positive = F.gt(x, 0.0)
    value = F.where(positive, -(x * F.log(F.where(positive, x, 1.0))), -math.inf)
    return F.where(F.eq(x, 0.0), 0.0, F.where(F.ne(x, x), x, value))


pointwise("entr", 1, "-x * log(x); 0 at 0, -inf below.", compose=_entr, ref="scipy.special.entr", domain=(0.1, 3.0),
          vjp=lambda F, g, y, x: (g * (-1.0 - F.log(x)),))


def _xlog1py(F: Any, a: Any, b: Any) -> Any:
    flat = F.logical_and(F.eq(a, 0.0), F.eq(b, b))
    return F.where(flat, 0.0, a * F.log1p(F.where(flat, 0.0, b)))


def _xlog1py_first(F: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    flat = F.logical_and(F.eq(a, 0.0), F.le(b, -1.0))
    return F.where(flat, 0.0, g * F.log1p(F.where(flat, 0.0, b)))


pointwise("xlog1py", 2, "a * log(1 + b), 0 where a is 0.", compose=_xlog1py, ref="scipy.special.xlog1py",
          domain=(0.1, 3.0), vjp=each(_xlog1py_first, lambda F, g, y, a, b: g * (a / (b + 1.0))))


def _logaddexp2(F: Any, a: Any, b: Any) -> Any:
    m = F.maximum(a, b)
    distance = F.where(F.eq(a, b), 0.0, F.abs(a - b))  # inf - inf would be NaN
    return m + F.log1p(F.exp2(-distance)) * (1.0 / math.log(2.0))


pointwise("logaddexp2", 2, "log2(2^a + 2^b) without overflow.", compose=_logaddexp2, ref="numpy.logaddexp2",
          vjp=each(lambda F, g, y, a, b: g / (1.0 + F.exp2(b - a)), lambda F, g, y, a, b: g / (1.0 + F.exp2(a - b))))
