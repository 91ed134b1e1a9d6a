"""float64 functions over the lanes of a `V`: powers, error functions and the gamma family.

Sources: fdlibm s_erf.c (erf, erfc); M. J. Wichura, Algorithm AS 241 (erfinv); Cephes gamma.c and psi.c (lgamma,
digamma), with fdlibm's polynomials around the zeros of lgamma and J. Maddock's rational function around the root of
digamma (Boost).
"""

import math

from jitgrad.kernels.functions import binary64, unary64
from jitgrad.kernels.math64 import (
    INF,
    LN2_HI,
    LN2_LO,
    circular,
    exp,
    kernel_cos,
    kernel_sin,
    log,
    polynomial,
    split,
)
from jitgrad.kernels.values import V
from jitgrad.ops import special as table

# --- pow ---

_THIRD_LOW = 1.850371707708594e-17  # 1/3 - float(1/3)
_ATANH = [1 / k for k in range(23, 3, -2)]  # s^5/5 + s^7/7 + ... without the powers of s


def _log_twice(x: V) -> tuple[V, V]:
    """log(x) as an unevaluated sum, relative error about 2^-66, for positive finite x."""
    k, m = split(x)
    f = m - 1.0
    d = m + 1.0
    d_low = (m - d) + 1.0
    d_low = (m < 1.0).where((1.0 - d) + m, d_low)
    s = f / d
    s_low = ((-s).fma(d, f) - s * d_low) / d
    z = s * s
    z_low = s.fma(s, -z) + 2.0 * s * s_low
    # s^3 / 3, twice as precise: it is up to a hundredth of the result
    cube = z * s
    cube_low = z.fma(s, -cube) + z * s_low + z_low * s
    third = cube * (1 / 3)
    third_low = cube.fma(1 / 3, -third) + cube * _THIRD_LOW + cube_low * (1 / 3)
    rest = (z * z) * s * polynomial(z, _ATANH)
    # 2 (s + third + rest) + k ln2, largest first
    a = k * LN2_HI
    b = s * 2.0
    c = third * 2.0
    head = a + b
    head_low = (k.eq(0)).where(0.0, (a - head) + b)
    total = head + c
    total_low = (head - total) + c
    # 2 * rest may be 1e-5: exactly added, or exp's first-order correction would show its square
    d = rest * 2.0
    result = total + d
    result_low = (total - result) + d
    e = k * LN2_LO
    final = result + e
    final_low = (result - final) + e
    low = 2.0 * (third_low + s_low) + head_low + total_low + result_low + final_low
    return final, low


@binary64
def pow(x: V, y: V, precise: bool = True) -> V:
    """x ** y as C's pow. precise=False: about 2^-44 relative, enough for a float32 result."""
    a = x.abs()
    if precise:
        high, low = _log_twice(a)
        p = y * high
        p_low = y.fma(high, -p) + y * low
        # beyond these the result is 0 or infinity; keeps inf - inf out of the sum
        p = (p > 800.0).where(800.0, (p < -800.0).where(-800.0, p))
        p_low = (p.abs() >= 800.0).where(0.0, p_low)
        r = exp(p, low=p_low)
    else:
        r = exp(y * log(a))
    below = a < 1.0
    up = y > 0
    extreme = a.eq(0) | a.eq(INF) | y.abs().eq(INF)
    grows = a.eq(0).where(~up, a.eq(INF).where(up, up ^ below))
    infinity = a.code.const(INF, "double", a.lanes)
    r = extreme.where(grows.where(infinity, 0.0), r)
    whole = y.intrinsic("floor").eq(y)
    half = y * 0.5
    odd = whole & half.intrinsic("floor").ne(half) & (y.abs() < 9007199254740992.0)
    negative = x.bits() < 0
    r = (negative & odd).where(-r, r)
    r = ((x < 0) & ~whole & x.ne(-INF)).where(math.nan, r)
    r = (x.isnan() | y.isnan()).where(x + y, r)
    minus_one = x.eq(-1.0) & y.abs().eq(INF)
    return (x.eq(1.0) | y.eq(0) | minus_one).where(1.0, r)


# --- error functions ---


def _erf_pieces(x: V) -> tuple[V, V, V, V]:
    """|x|; y with erf = x + x y below 0.84; p with erf = ERX + p to 1.25; erfc above (for |x|)."""
    a = x.abs()
    z = a * a
    near = (a < 0.84375).where(z, 0.0)
    y = polynomial(near, table.ERF_P) / polynomial(near, table.ERF_Q)
    s = (a < 1.25).where(a - 1.0, 0.0)
    middle = polynomial(s, table.ERF_PA) / polynomial(s, table.ERF_QA)
    far = (a > 1.0).where(a, 1.0)
    far = (far > 30.0).where(30.0, far)
    t = 1.0 / (far * far)
    low_range = far < 1 / 0.35
    ratio = low_range.where(polynomial(t, table.ERF_RA), polynomial(t, table.ERF_RB)) / low_range.where(
        polynomial(t, table.ERF_SA), polynomial(t, table.ERF_SB))
    square = far * far
    square_low = far.fma(far, -square)
    rest = ratio - 0.5625
    total = rest - square
    lost = (-square - total) + rest - square_low
    tail = exp(total, low=lost) / far
    return a, y, middle, tail


@unary64
def erf(x: V) -> V:
    a, y, middle, tail = _erf_pieces(x)
    value = (a < 1.25).where(middle + table.ERX, 1.0 - tail).copysign(x)
    value = (a < 0.84375).where(x.mad(y, x), value)
    return x.isnan().where(x, value)


@unary64
def erfc(x: V) -> V:
    a, y, middle, tail = _erf_pieces(x)
    negative = x < 0
    near = (x < 0.25).where(1.0 - (x + x * y), 0.5 - (x - 0.5 + x * y))
    mid = negative.where((middle + table.ERX) + 1.0, (1.0 - table.ERX) - middle)
    value = (a < 1.25).where(mid, negative.where(2.0 - tail, tail))
    value = (a < 0.84375).where(near, value)
    return x.isnan().where(x, value)


@unary64
def erfinv(x: V, precise: bool = True) -> V:
    """precise=False: about 6 ulp, enough for a float32 result; else one Newton step on top."""
    a = x.abs()
    q = x * 0.5
    central = a <= 0.85
    r = 0.180625 - q * q
    middle = q * (central.where(polynomial(r, table.INV_A), 0.0) / central.where(polynomial(r, table.INV_B), 1.0))
    t = (-log((1.0 - a) * 0.5)).intrinsic("sqrt")
    near = t <= 5.0
    u, w = t - 1.6, t - 5.0
    tail = near.where(polynomial(u, table.INV_C), polynomial(w, table.INV_E)) / near.where(
        polynomial(u, table.INV_D), polynomial(w, table.INV_F))
    y = central.where(middle, tail.copysign(x)) * math.sqrt(0.5)
    if precise:
        size, ratio, inner, beyond = _erf_pieces(y)
        below = (size < 0.84375).where(y.mad(ratio, y), (inner + table.ERX).copysign(x)) - x
        excess = (1.0 - a) - (size < 1.25).where((1.0 - table.ERX) - inner, beyond)
        above = (x < 0).where(-excess, excess)
        error = central.where(below, above)
        y = y - error * exp(y * y) * (math.sqrt(math.pi) / 2)
    infinity = x.code.const(INF, "double", x.lanes)
    y = a.eq(1.0).where(infinity.copysign(x), y)
    y = x.eq(0).where(x, y)
    return ((a > 1.0) | x.isnan()).where(math.nan, y)


# --- the gamma family ---

_STIRLING = (8.11614167470508450300e-4, -5.95061904284301438324e-4, 7.93650340457716943945e-4,
             -2.77777777730099687205e-3, 8.33333333333331927722e-2)
_GAMMA_B = (-1.37825152569120859100e3, -3.88016315134637840924e4, -3.31612992738871184744e5,
            -1.16237097492762307383e6, -1.72173700820839662146e6, -8.53555664245765465627e5)
_GAMMA_C = (1.0, -3.51815701436523470549e2, -1.70642106651881159223e4, -2.20528590553854454839e5,
            -1.13933444367982507207e6, -2.53252307177582951285e6, -2.01889141433532773231e6)
_LOG_SQRT_2PI = 0.91893853320467274178
_LOG_PI = 1.14472988584940017414


def _lgamma_positive(x: V) -> V:
    """log gamma for x > 0."""
    small = x < 13.0
    u = small.where(x, 2.5)
    product = x.code.const(1.0, "double", x.lanes)
    for _ in range(10):  # down to [2, 3)
        above = u >= 3.0
        lower = above.where(u - 1.0, u)
        product = above.where(product * lower, product)
        u = lower
    divisor = x.code.const(1.0, "double", x.lanes)
    for _ in range(2):  # up to [2, 3)
        below = u < 2.0
        divisor = below.where(divisor * u, divisor)
        u = below.where(u + 1.0, u)
    t = u - 2.0
    p = t * polynomial(t, _GAMMA_B) / polynomial(t, _GAMMA_C)
    large = small.where(13.0, x)
    below1 = (x > 0.7316) & (x <= 0.9)
    near2 = below1 | ((x > 1.7316) & (x < 2.0))
    near1 = (x > 0.9) & (x < 1.2316)
    lower = (x > 0.23164) & (x <= 0.7316)
    middle = lower | ((x >= 1.2316) & (x <= 1.7316))
    below2 = x < 2.0  # there product is 1, else divisor is
    logarithm = log(small.where((below1 | lower).where(x, below2.where(divisor, product)), large))
    shifted = below2.where(-logarithm, logarithm)
    y = near2.where(below1.where(1.0 - x, 2.0 - x), 0.0)
    z = y * y
    value2 = (y * polynomial(z, table.NEAR2_EVEN) + z * polynomial(z, table.NEAR2_ODD)) - 0.5 * y
    value2 = below1.where(value2 - logarithm, value2)
    y = near1.where(x - 1.0, 0.0)
    value1 = y * polynomial(y, table.NEAR1_P) / polynomial(y, table.NEAR1_Q) - 0.5 * y
    y = middle.where(lower.where(x - (table.MINIMUM - 1.0), x - table.MINIMUM), 0.0)
    z = y * y
    w = z * y
    rest = w * (polynomial(w, table.MINIMUM_T1) + y * polynomial(w, table.MINIMUM_T2))
    value3 = (z * polynomial(w, table.MINIMUM_T0) - (table.AT_MINIMUM_LOW - rest)) + table.AT_MINIMUM
    value3 = lower.where(value3 - logarithm, value3)
    series = polynomial(1.0 / (large * large), _STIRLING) / large
    stirling = (large - 0.5) * logarithm - large + _LOG_SQRT_2PI + series
    stirling = x.eq(INF).where(x, stirling)
    value = near1.where(value1, middle.where(value3, near2.where(value2, shifted + p)))
    return small.where(value, stirling)


def _sin_pi(z: V) -> V:
    """sin(pi z) for z in [0, 1/2]."""
    far = z > 0.25
    w = far.where(0.5 - z, z)
    r = w * math.pi
    lost = w.fma(math.pi, -r) + w * 1.2246467991473532e-16
    return far.where(kernel_cos(r, lost), kernel_sin(r, lost))


@unary64
def lgamma(x: V) -> V:
    """log |gamma(x)|; below 0 by reflection (relative error is large only near its zeros there)."""
    q = x.abs()
    positive = _lgamma_positive(q)
    floor = q.intrinsic("floor")
    z = q - floor
    z = (z > 0.5).where((floor + 1.0) - q, z)
    reflected = _LOG_PI - log(q * _sin_pi(z)) - positive
    reflected = (floor.eq(q) | q.eq(INF)).where(INF, reflected)
    reflected = (q < 1e-17).where(-log(q), reflected)
    value = (x.bits() < 0).where(reflected, positive)
    return x.isnan().where(x, value)


_PSI = (8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3,
        -4.16666666666666666667e-3, 3.96825396825396825397e-3, -8.33333333333333333333e-3,
        8.33333333333333333333e-2)


@unary64
def digamma(x: V) -> V:
    """The logarithmic derivative of gamma; NaN at the negative integers, -+inf at +-0."""
    negative = x < 0
    a = negative.where(1.0 - x, x)
    start = a
    shift = (a < 1.0).where(-1.0 / a, 0.0)
    a = (a < 1.0).where(a + 1.0, a)
    moderate = start < 10.0
    for _ in range(8):  # down to [1, 2]
        above = (a > 2.0) & moderate
        lower = above.where(a - 1.0, a)
        shift = above.where(shift + 1.0 / lower, shift)
        a = lower
    g = ((a - table.PSI_ROOT[0]) - table.PSI_ROOT[1]) - table.PSI_ROOT[2]
    t = moderate.where(a - 1.0, 0.0)
    ratio = polynomial(t, table.PSI_P) / polynomial(t, table.PSI_Q)
    near = g * table.PSI_Y + g * ratio
    large = moderate.where(10.0, a)
    z = 1.0 / (large * large)
    far = log(large) - 0.5 / large - z * polynomial(z, _PSI)
    value = moderate.where(near, far) + shift
    # reflection: -pi / tan(pi r), r the fractional part in [-1/2, 1/2]
    nearest = x.intrinsic("roundeven")
    r = x - nearest
    angle = r * math.pi
    lost = r.fma(math.pi, -angle) + r * 1.2246467991473532e-16
    big = r.abs() > 0.25
    turned = big.where((r < 0).where(angle + math.pi / 2, angle - math.pi / 2), angle)
    tangent = circular("tan", big.where((r < 0).where(x.code.const(-1, "i64", x.lanes), 1), 0), turned,
                       big.where((r < 0).where(lost + 6.123233995736766e-17, lost - 6.123233995736766e-17), lost))
    value = negative.where(value - math.pi / tangent, value)
    value = (negative & (r.eq(0) | x.eq(-INF))).where(math.nan, value)
    infinity = x.code.const(INF, "double", x.lanes)
    value = x.eq(0).where(-(infinity.copysign(x)), value)
    return (x.isnan() | x.eq(INF)).where(x, value)


def _cotangent_derivative(n: int) -> list[float]:
    """The n-th derivative of cot(pi x) as a polynomial in cot(pi x), highest power first."""
    p = [0.0, 1.0]  # lowest first
    for _ in range(n):
        slope = [k * c for k, c in enumerate(p)][1:]
        p = [-math.pi * c for c in slope] + [0.0, 0.0]
        for k, c in enumerate(slope):
            p[k + 2] -= math.pi * c
    return p[::-1]


#: (2k)! / B(2k), k = 1, 2, ...
_EULER_MACLAURIN = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
                    -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
                    1.8152105401943546773e17, -7.1661652561756670113e18)


def _inverse_power(x: V, n: int) -> V:
    """x ** -n for n >= 1."""
    result: V | None = None
    square, rest = 1.0 / x, n
    while rest:
        if rest & 1:
            result = square if result is None else result * square
        square, rest = square * square, rest >> 1
    assert result is not None
    return result


def polygamma(x: V, n: int) -> V:
    """The n-th derivative of digamma, n >= 1: (-1)^(n+1) n! zeta(n + 1, x); reflected below 0.

    Source: Cephes zeta.c.
    """
    s = n + 1
    negative = x <= 0
    a = negative.where(1.0 - x, x)
    total = term = _inverse_power(a, s)
    for k in range(1, 10):
        term = _inverse_power(a + float(k), s)
        total = total + term
    w = a + 9.0
    inverse = 1.0 / w
    total = total + term * w * (1.0 / n) - term * 0.5
    factor, power = float(s), term * inverse
    for k, denominator in enumerate(_EULER_MACLAURIN):
        total = total + power * (factor / denominator)
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2)
        power = power * inverse * inverse
    sign = 1.0 if n % 2 else -1.0
    value = total * (sign * math.factorial(n))
    value = a.eq(INF).where(0.0, value)
    nearest = x.intrinsic("roundeven")
    r = x - nearest
    size = r.abs()
    zero = x.code.const(0.0, "double", x.lanes)
    cotangent = (_sin_pi(0.5 - size) / _sin_pi(size)).copysign(r)
    derivative = polynomial(cotangent, _cotangent_derivative(n))
    reflected = value * (1.0 if n % 2 == 0 else -1.0) - derivative * math.pi
    reflected = (r.eq(zero)).where(sign * INF, reflected)
    value = negative.where(reflected, value)
    return (x.isnan() | x.eq(-INF)).where(math.nan, value)
