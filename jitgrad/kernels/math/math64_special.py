"""float64 functions over the lanes of a `V`: powers, error functions and the gamma family.

Sources: fdlibm s_erf.c (erf, erfc); M. J. Wichura, Algorithm AS 241 (erfinv); Cephes gamma.c and psi.c (lgamma,
digamma), with fdlibm's polynomials around the zeros of lgamma and J. Maddock's rational function around the root of
digamma (Boost).
"""

import math

from jitgrad.kernels.functions import binary64, unary64
from jitgrad.kernels.math.math64 import (INF, LN2_HI, LN2_LO, circular, exp, kernel_cos, kernel_sin, log, polynomial,
                                         split)
from jitgrad.kernels.values import V

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


def _erf_pieces(x: V) -> tuple[V, V, V, V]:
    """|x|; y with erf = x + x y below 0.84; p with erf = ERX + p to 1.25; erfc above (for |x|)."""
    a = x.abs()
    z = a * a
    near = (a < 0.84375).where(z, 0.0)
    y = polynomial(near, ERF_P) / polynomial(near, ERF_Q)
    s = (a < 1.25).where(a - 1.0, 0.0)
    middle = polynomial(s, ERF_PA) / polynomial(s, ERF_QA)
    far = (a > 1.0).where(a, 1.0)
    far = (far > 30.0).where(30.0, far)
    t = 1.0 / (far * far)
    low_range = far < 1 / 0.35
    ratio = low_range.where(polynomial(t, ERF_RA), polynomial(t, ERF_RB)) / low_range.where(
        polynomial(t, ERF_SA), polynomial(t, ERF_SB))
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
    value = (a < 1.25).where(middle + ERX, 1.0 - tail).copysign(x)
    value = (a < 0.84375).where(x.mad(y, x), value)
    return x.isnan().where(x, value)


@unary64
def erfc(x: V) -> V:
    a, y, middle, tail = _erf_pieces(x)
    negative = x < 0
    near = (x < 0.25).where(1.0 - (x + x * y), 0.5 - (x - 0.5 + x * y))
    mid = negative.where((middle + ERX) + 1.0, (1.0 - ERX) - middle)
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
    middle = q * (central.where(polynomial(r, INV_A), 0.0) / central.where(polynomial(r, INV_B), 1.0))
    t = (-log((1.0 - a) * 0.5)).intrinsic("sqrt")
    near = t <= 5.0
    u, w = t - 1.6, t - 5.0
    tail = near.where(polynomial(u, INV_C), polynomial(w, INV_E)) / near.where(
        polynomial(u, INV_D), polynomial(w, INV_F))
    y = central.where(middle, tail.copysign(x)) * math.sqrt(0.5)
    if precise:
        size, ratio, inner, beyond = _erf_pieces(y)
        below = (size < 0.84375).where(y.mad(ratio, y), (inner + ERX).copysign(x)) - x
        excess = (1.0 - a) - (size < 1.25).where((1.0 - ERX) - inner, beyond)
        above = (x < 0).where(-excess, excess)
        error = central.where(below, above)
        y = y - error * exp(y * y) * (math.sqrt(math.pi) / 2)
    infinity = x.code.const(INF, "double", x.lanes)
    y = a.eq(1.0).where(infinity.copysign(x), y)
    y = x.eq(0).where(x, y)
    return ((a > 1.0) | x.isnan()).where(math.nan, y)


# --- the gamma family ---

#: log gamma around its zeros: at 2 - y in even and odd powers of y, and at 1 + y
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
    value2 = (y * polynomial(z, NEAR2_EVEN) + z * polynomial(z, NEAR2_ODD)) - 0.5 * y
    value2 = below1.where(value2 - logarithm, value2)
    y = near1.where(x - 1.0, 0.0)
    value1 = y * polynomial(y, NEAR1_P) / polynomial(y, NEAR1_Q) - 0.5 * y
    y = middle.where(lower.where(x - (MINIMUM - 1.0), x - MINIMUM), 0.0)
    z = y * y
    w = z * y
    rest = w * (polynomial(w, MINIMUM_T1) + y * polynomial(w, MINIMUM_T2))
    value3 = (z * polynomial(w, MINIMUM_T0) - (AT_MINIMUM_LOW - rest)) + AT_MINIMUM
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


#: digamma is (x - root) * (PSI_Y + P(x - 1) / Q(x - 1)) on [1, 2]
PSI_ROOT = (1569415565.0 / 1073741824.0, 381566830.0 / 1073741824.0 / 1073741824.0,
            0.9016312093258695918615325266959189453125e-19)
PSI_P = (-0.0020713321167745952, -0.045251321448739056, -0.28919126444774784, -0.65031853770896507,
         -0.32555031186804491, 0.25479851061131551)
PSI_Q = (-0.55789841321675513e-6, 0.0021284987017821144, 0.054151797245674225, 0.43593529692665969,
         1.4606242909763515, 2.0767117023730469, 1.0)
PSI_Y = 0.99558162689208984375
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
    g = ((a - PSI_ROOT[0]) - PSI_ROOT[1]) - PSI_ROOT[2]
    t = moderate.where(a - 1.0, 0.0)
    ratio = polynomial(t, PSI_P) / polynomial(t, PSI_Q)
    near = g * PSI_Y + g * ratio
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
    total = total + _inverse_power(w, n) * (1.0 / n) - term * 0.5
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
