"""Error function and gamma family for arrays: what NumPy lacks, without SciPy.

Float64 is computed to a few ulp by the sources named at each function; float32 and float16 are computed in float64
and rounded, but for the float32 `erf`, which activations call on every element and which has a form of its own.
The coefficients with public names are those of compiled code too (`kernels/math64_special.py`).
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any

import numpy as np

Kernel = Callable[..., Any]


def _in_double(f: Kernel) -> Kernel:
    """Run `f(xp, x, ...)` on x as a float64 vector and give the result x's shape and dtype."""
    @wraps(f)
    def run(xp: Any, x: Any, *args: Any) -> Any:
        x = xp.asarray(x)
        with np.errstate(all="ignore"):
            return f(xp, x.astype(np.float64).reshape(-1), *args).reshape(x.shape).astype(x.dtype, copy=False)
    return run


def _pieces(xp: Any, x: Any, *pieces: tuple[Any, Kernel]) -> Any:
    """For every (mask, f) the values f(x[mask]); NaN where no mask holds."""
    y = xp.full(x.shape, np.nan)
    for mask, f in pieces:
        if mask.any():
            y[mask] = f(x[mask])
    return y


def _polynomial(x: Any, coefficients: Sequence[Any]) -> Any:
    """Horner's rule, highest coefficient first."""
    y = coefficients[0]
    for c in coefficients[1:]:
        y = y * x + c
    return y


def _ratio(x: Any, p: Sequence[float], q: Sequence[float]) -> Any:
    return _polynomial(x, p) / _polynomial(x, q)


# --- error function ------------------------------------------------------------------------------------------------
# Source: FreeBSD msun, s_erf.c (Sun Microsystems, 1993); error below 1 ulp.

ERF_P = (-2.37630166566501626084e-05, -5.77027029648944159157e-03, -2.84817495755985104766e-02,
         -3.25042107247001499370e-01, 1.28379167095512558561e-01)
ERF_Q = (-3.96022827877536812320e-06, 1.32494738004321644526e-04, 5.08130628187576562776e-03,
         6.50222499887672944485e-02, 3.97917223959155352819e-01, 1.0)
ERX = 8.45062911510467529297e-01  # erf(1) in float32
ERF_PA = (-2.16637559486879084300e-03, 3.54783043256182359371e-02, -1.10894694282396677476e-01,
          3.18346619901161753674e-01, -3.72207876035701323847e-01, 4.14856118683748331666e-01,
          -2.36211856075265944077e-03)
ERF_QA = (1.19844998467991074170e-02, 1.36370839120290507362e-02, 1.26171219808761642112e-01,
          7.18286544141962662868e-02, 5.40397917702171048937e-01, 1.06420880400844228286e-01, 1.0)
ERF_RA = (-9.81432934416914548592e+00, -8.12874355063065934246e+01, -1.84605092906711035994e+02,
          -1.62396669462573470355e+02, -6.23753324503260060396e+01, -1.05586262253232909814e+01,
          -6.93858572707181764372e-01, -9.86494403484714822705e-03)
ERF_SA = (-6.04244152148580987438e-02, 6.57024977031928170135e+00, 1.08635005541779435134e+02,
          4.29008140027567833386e+02, 6.45387271733267880336e+02, 4.34565877475229228821e+02,
          1.37657754143519042600e+02, 1.96512716674392571292e+01, 1.0)
ERF_RB = (-4.83519191608651397019e+02, -1.02509513161107724954e+03, -6.37566443368389627722e+02,
          -1.60636384855821916062e+02, -1.77579549177547519889e+01, -7.99283237680523006574e-01,
          -9.86494292470009928597e-03)
ERF_SB = (-2.24409524465858183362e+01, 4.74528541206955367215e+02, 2.55305040643316442583e+03,
          3.19985821950859553908e+03, 1.53672958608443695994e+03, 3.25792512996573918826e+02,
          3.03380607434824582924e+01, 1.0)


def _erf_middle(a: Any) -> Any:
    """erf(a) - ERX on 0.84375 <= a < 1.25."""
    return _ratio(a - 1.0, ERF_PA, ERF_QA)


def _erfc_tail(xp: Any, a: Any) -> Any:
    """erfc on a >= 1.25; exp(-a^2) from a's upper half, whose square is exact, and a correction."""
    s = 1.0 / (a * a)
    near = a < 1.0 / 0.35
    r = xp.where(near, _ratio(s, ERF_RA, ERF_SA), _ratio(s, ERF_RB, ERF_SB))
    z = (a.view(np.int64) & np.int64(-1 << 32)).view(np.float64)
    y = xp.exp(-z * z - 0.5625) * xp.exp((z - a) * (z + a) + r) / a
    return xp.where(a > 28.0, 0.0, y)


@_in_double
def _erf_double(xp: Any, x: Any) -> Any:
    a = xp.abs(x)
    y = _pieces(xp, a, (a < 0.84375, lambda v: v + v * _ratio(v * v, ERF_P, ERF_Q)),
                ((a >= 0.84375) & (a < 1.25), lambda v: ERX + _erf_middle(v)),
                ((a >= 1.25) & (a < 6.0), lambda v: 1.0 - _erfc_tail(xp, v)), (a >= 6.0, xp.ones_like))
    return xp.copysign(y, x)


# Source: Juffa, "Efficient implementation of erff", Stack Overflow 35148198; error here at most 2 ulp.
_E32 = tuple(np.float32(c) for c in (
    -1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1, -1.28717512e-1))
_S32 = tuple(np.float32(c) for c in (
    -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1))


def erf(xp: Any, x: Any) -> Any:
    """The error function of an array."""
    if x.dtype != np.float32:
        return _erf_double(xp, x)
    a = xp.minimum(xp.abs(x), np.float32(4.0))  # from 3.92 on the result is 1
    small = x + x * _polynomial(a * a, _S32)
    large = xp.copysign(1 - xp.exp(a * _polynomial(a, _E32) - a), x)
    return xp.where(a > np.float32(0.927734375), large, small)


@_in_double
def erfc(xp: Any, x: Any) -> Any:
    """1 - erf(x), without cancellation for positive x."""
    a = xp.abs(x)

    def middle(v: Any) -> Any:
        p = _erf_middle(xp.abs(v))
        return xp.where(v >= 0, (1.0 - ERX) - p, 1.0 + (ERX + p))

    def small(v: Any) -> Any:
        r = v * _ratio(v * v, ERF_P, ERF_Q)
        return xp.where(v < 0.25, 1.0 - (v + r), 0.5 - (r + (v - 0.5)))

    def tail(v: Any) -> Any:
        y = _erfc_tail(xp, xp.abs(v))
        return xp.where(v >= 0, y, 2.0 - y)

    return _pieces(xp, x, (a < 0.84375, small), ((a >= 0.84375) & (a < 1.25), middle), (a >= 1.25, tail))


# Source: Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37, 1988.
INV_A = (2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
         1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e0)
INV_B = (5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
         5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0)
INV_C = (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
         1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0,
         1.42343711074968357734e0)
INV_D = (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
         1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0,
         1.0)
INV_E = (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
         2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0,
         6.65790464350110377720e0)
INV_F = (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
         7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
         5.99832206555887937690e-1, 1.0)


@_in_double
def erfinv(xp: Any, x: Any) -> Any:
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    a = xp.abs(x)

    def central(v: Any) -> Any:
        q = v * 0.5
        return refined(v, q * _ratio(0.180625 - q * q, INV_A, INV_B) * math.sqrt(0.5))

    def tail(v: Any) -> Any:
        r = xp.sqrt(-xp.log((1.0 - v) * 0.5))
        y = xp.where(r <= 5.0, _ratio(r - 1.6, INV_C, INV_D), _ratio(r - 5.0, INV_E, INV_F))
        return refined(v, y * math.sqrt(0.5))

    def refined(v: Any, y: Any) -> Any:  # one Newton step
        far = y > 1.25
        excess = xp.where(far, (1.0 - v) - _erfc_tail(xp, xp.where(far, y, 2.0)), _erf_double(xp, y) - v)
        return y - excess * xp.exp(y * y) * (0.5 * math.sqrt(math.pi))

    y = _pieces(xp, a, (a <= 0.85, central), ((a > 0.85) & (a < 1.0), tail), (a == 1.0, lambda v: v * np.inf))
    return xp.copysign(y, x)


# --- log gamma -----------------------------------------------------------------------------------------------------
# Source: FreeBSD msun, e_lgamma_r.c (Sun Microsystems, 1993).

#: log gamma around its zeros (fdlibm): at 2 - y in even and odd powers of y, and at 1 + y
NEAR2_EVEN = (2.52144565451257326939e-05, 2.20862790713908385557e-04, 1.19270763183362067845e-03,
              7.38555086081402883957e-03, 6.73523010531292681824e-02, 7.72156649015328655494e-02)
NEAR2_ODD = (4.48640949618915160150e-05, 1.08011567247583939954e-04, 5.10069792153511336608e-04,
             2.89051383673415629091e-03, 2.05808084325167332806e-02, 3.22467033424113591611e-01)
NEAR1_P = (1.33810918536787660377e-02, 2.28963728064692451092e-01, 9.77717527963372745603e-01,
           1.45492250137234768737e+00, 6.32827064025093366517e-01, -7.72156649015328655494e-02)
NEAR1_Q = (3.21709242282423911810e-03, 1.04222645593369134254e-01, 7.69285150456672783825e-01,
           2.12848976379893395361e+00, 2.45597793713041134822e+00, 1.0)
#: ... and at its minimum in (1, 2): the place, the value in two parts, every third power of y in each row
MINIMUM = 1.46163214496836224576
AT_MINIMUM, AT_MINIMUM_LOW = -1.21486290535849611461e-01, -3.63867699703950536541e-18
MINIMUM_T0 = (3.15632070903625950361e-04, -1.40346469989232843813e-03, 6.10053870246291332635e-03,
              -3.27885410759859649565e-02, 4.83836122723810047042e-01)
MINIMUM_T1 = (-3.12754168375120860518e-04, 8.81081882437654011382e-04, -3.68452016781138256760e-03,
              1.79706750811820387126e-02, -1.47587722994593911752e-01)
MINIMUM_T2 = (3.35529192635519073543e-04, -5.38595305356740546715e-04, 2.25964780900612472250e-03,
              -1.03142241298341437450e-02, 6.46249402391333854778e-02)
_LS = (3.19475326584100867617e-05, 1.84028451407337715652e-03, 2.66422703033638609560e-02, 1.46350472652464452805e-01,
       3.25778796408930981787e-01, 2.14982415960608852501e-01, -7.72156649015328655494e-02)
_LR = (7.32668430744625636189e-06, 7.77942496381893596434e-04, 1.86459191715652901344e-02, 1.71933865632803078993e-01,
       7.21935547567138069525e-01, 1.39200533467621045958e+00, 1.0)
_LW = (-1.63092934096575273989e-03, 8.36339918996282139126e-04, -5.95187557450339963135e-04, 7.93650558643019558500e-04,
       -2.77777777728775536470e-03, 8.33333333333329678849e-02)
_LW0 = 4.18938533204672725052e-01


def _lgamma_near(xp: Any, x: Any) -> Any:
    """lgamma on (0, 2): three expansions about 1, the minimum, and 2, for x or x + 1."""
    low = x <= 0.9
    base = xp.where(low, -xp.log(x), 0.0)
    v = xp.where(low, x + 1.0, x)  # only to choose: distances are taken from x, exactly

    def about_two(d: Any) -> Any:  # d = 2 - v
        z = d * d
        return d * _polynomial(z, NEAR2_EVEN) + z * _polynomial(z, NEAR2_ODD) - 0.5 * d

    def about_minimum(d: Any) -> Any:  # d = v - MINIMUM
        z = d * d
        w = z * d
        p1, p2, p3 = (_polynomial(w, t) for t in (MINIMUM_T0, MINIMUM_T1, MINIMUM_T2))
        return AT_MINIMUM + (z * p1 - (AT_MINIMUM_LOW - w * (p2 + d * p3)))

    def about_one(d: Any) -> Any:  # d = v - 1
        return -0.5 * d + d * _ratio(d, NEAR1_P, NEAR1_Q)

    one = xp.where(low, 0.0, 1.0)
    two_at, minimum_at = xp.where(low, 0.7316, 1.7316), xp.where(low, 0.23164, 1.23164)
    y = xp.where(x >= two_at, about_two((1.0 + one) - x),
                 xp.where(x >= minimum_at, about_minimum(x - (MINIMUM - 1.0 + one)), about_one(x - one)))
    return xp.where(v > 0, base + y, np.nan)


def _lgamma_middle(xp: Any, x: Any) -> Any:
    """lgamma on [2, 8): down to [2, 3) by the recurrence."""
    i = xp.floor(x)
    y = x - i
    z = xp.ones_like(x)
    for k in range(2, 7):
        z = xp.where(i > k, z * (y + k), z)
    return 0.5 * y + y * _ratio(y, _LS, _LR) + xp.log(z)


def _lgamma_large(xp: Any, x: Any) -> Any:
    """Stirling's series on x >= 8."""
    z = 1.0 / x
    series = _LW0 + z * _polynomial(z * z, _LW)
    y = (x - 0.5) * (xp.log(x) - 1.0) + series
    return xp.where(x >= 2.0 ** 58, x * (xp.log(x) - 1.0), y)


def _sin_pi(xp: Any, x: Any) -> Any:
    """|sin(pi x)| for any x, from the exact distance to the nearest integer."""
    return xp.sin(math.pi * xp.abs(x - xp.rint(x)))


@_in_double
def lgamma(xp: Any, x: Any) -> Any:
    """log |gamma(x)|; infinite at 0, at negative integers and at both infinities.

    Between negative integers lgamma crosses zero; there the error is absolute, not relative.
    """
    a = xp.abs(x)
    y = _pieces(xp, a, (a < 2.0, lambda v: _lgamma_near(xp, v)),
                ((a >= 2.0) & (a < 8.0), lambda v: _lgamma_middle(xp, v)), (a >= 8.0, lambda v: _lgamma_large(xp, v)))
    negative = x < 0
    if negative.any():
        tiny = a < 2.0 ** -70
        reflected = xp.log(math.pi / (_sin_pi(xp, a) * a)) - y
        y = xp.where(negative, xp.where(tiny, -xp.log(a), reflected), y)
    infinite = (a == np.inf) | (x == 0) | (negative & (x == xp.floor(x)))
    return xp.where(infinite, np.inf, y)


# --- digamma and polygamma -----------------------------------------------------------------------------------------
# Source: Boost.Math, digamma.hpp, digamma_imp_1_2 (Maddock, 2006): (x - root) * (Y + P(x - 1) / Q(x - 1)) on [1, 2].

PSI_ROOT = (1569415565.0 / 1073741824.0, 381566830.0 / 1073741824.0 / 1073741824.0,
            0.9016312093258695918615325266959189453125e-19)
PSI_P = (-0.0020713321167745952, -0.045251321448739056, -0.28919126444774784, -0.65031853770896507,
         -0.32555031186804491, 0.25479851061131551)
PSI_Q = (-0.55789841321675513e-6, 0.0021284987017821144, 0.054151797245674225, 0.43593529692665969,
         1.4606242909763515, 2.0767117023730469, 1.0)
PSI_Y = 0.99558162689208984375
# Bernoulli numbers B_2, B_4, ... (Abramowitz and Stegun, table 23.2)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
              854513 / 138, -236364091 / 2730)


def _digamma_positive(xp: Any, x: Any) -> Any:
    """digamma on x > 0: moved to [1, 2] by the recurrence below 10, by the asymptotic series from there."""

    def series(v: Any) -> Any:
        z = 1.0 / (v * v)
        tail = z * _polynomial(z, [b / (2 * k) for k, b in reversed([*enumerate(_BERNOULLI[:8], 1)])])
        return xp.log(v) - 0.5 / v - tail

    def recurrence(v: Any) -> Any:
        total = xp.where(v < 1.0, -1.0 / v, 0.0)
        v = xp.where(v < 1.0, v + 1.0, v)
        for _ in range(8):
            above = v > 2.0
            v = xp.where(above, v - 1.0, v)
            total = xp.where(above, total + 1.0 / v, total)
        g = v - PSI_ROOT[0] - PSI_ROOT[1] - PSI_ROOT[2]
        return g * PSI_Y + g * _ratio(v - 1.0, PSI_P, PSI_Q) + total

    return _pieces(xp, x, (x >= 10.0, series), (x < 10.0, recurrence))


@_in_double
def digamma(xp: Any, x: Any) -> Any:
    """The derivative of lgamma: -inf at 0, +inf at -0, NaN at negative integers and -inf.

    Between negative integers digamma crosses zero; there the error is absolute, not relative.
    """
    negative = x < 0
    y = _digamma_positive(xp, xp.where(negative, 1.0 - x, x))
    if negative.any():
        r = x - xp.rint(x)
        reflected = y - math.pi / xp.tan(math.pi * r)
        y = xp.where(negative, xp.where(r == 0, np.nan, reflected), y)
    return xp.where(x == 0, -xp.copysign(np.inf, x), y)


@lru_cache(maxsize=64)
def _cotangent_derivative(n: int) -> tuple[float, ...]:
    """The n-th derivative of cot as a polynomial in cot, highest coefficient first."""
    p = [0, 1]  # lowest first
    for _ in range(n):
        d = [k * c for k, c in enumerate(p)][1:]  # with cot' = -(1 + cot^2)
        p = [-(a + b) for a, b in zip([*d, 0, 0], [0, 0, *d], strict=True)]
    return tuple(map(float, reversed(p)))


def _zeta(xp: Any, s: int, x: Any) -> Any:
    """Hurwitz' zeta(s, x) for x > 0 and an integer s >= 2, by the Euler-Maclaurin formula from x >= 10 + s on.

    Source: Cephes, zeta.c (Moshier, 1987).
    """
    terms = []
    a = x
    for _ in range(10 + s):
        low = a < 10 + s
        terms.append(xp.where(low, a ** -float(s), 0.0))
        a = xp.where(low, a + 1.0, a)
    power = a ** -float(s)
    z = 1.0 / (a * a)
    factor, coefficients = float(s), []
    for k, b in enumerate(_BERNOULLI, 1):
        coefficients.append(b * factor / math.factorial(2 * k))
        factor *= (s + 2 * k - 1) * (s + 2 * k)
    total = a ** (1.0 - s) / (s - 1) + power * (0.5 + _polynomial(z, coefficients[::-1]) / a)
    for t in reversed(terms):  # from the smallest
        total = total + t
    return xp.where(a == np.inf, 0.0, total)


@_in_double
def polygamma(xp: Any, x: Any, n: int) -> Any:
    """The n-th derivative of digamma, n >= 0; at its poles, 0 and the negative integers, infinite (NaN for n = 0)."""
    if n == 0:
        return digamma(xp, x)
    sign = -1.0 if n % 2 == 0 else 1.0
    negative = x < 0
    y = sign * math.factorial(n) * _zeta(xp, n + 1, xp.where(negative, 1.0 - x, x))
    if negative.any():
        cot = 1.0 / xp.tan(math.pi * (x - xp.rint(x)))
        reflected = -sign * y - math.pi ** (n + 1) * _polynomial(cot, _cotangent_derivative(n))
        y = xp.where(negative, xp.where(x == -np.inf, np.nan, reflected), y)
    return xp.where((x <= 0) & (x == xp.floor(x)) & (x > -np.inf), sign * np.inf, y)
