"""float64 functions over the lanes of a `V`: exponentials, logarithms, hyperbolics, circular functions and inverses.

Each is straight-line code with selects: NaN, infinities, signed zeros, subnormals and poles come out as in C.
Sources: fdlibm (https://www.netlib.org/fdlibm) for log, log1p, sin, cos, asin, acos, atan, atan2 and the forms of
sinh, cosh, tanh, asinh, acosh, atanh; argument reductions use fused multiply-adds.
"""

import math
from collections.abc import Callable, Sequence

from jitgrad.kernels.functions import binary64, unary64
from jitgrad.kernels.values import V

LN2_HI, LN2_LO = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 32 bits: k * LN2_HI is exact
LN2 = math.log(2)
INF = math.inf


def polynomial(x: V, coefficients: Sequence[float]) -> V:
    """Horner's scheme, highest power first."""
    result = x.mad(coefficients[0], coefficients[1])
    for c in coefficients[2:]:
        result = result.mad(x, c)
    return result


def scale(x: V, n: V) -> V:
    """x * 2^n for integral n within +-2100 (a float32: +-250), rounded once: in two steps, so that subnormals come
    out right.
    """
    scaled = x.scale(n)
    if scaled is not None:
        return scaled
    n = to_int(n)
    half = n.ashr(1)
    return x * power_of_two(half) * power_of_two(n - half)


def power_of_two(n: V) -> V:
    bias, bits, elem = (1023, 52, "double") if n.elem == "i64" else (127, 23, "float")
    return (n + bias).shl(bits).cast("bitcast", elem)


#: adding 1.5 * 2^52 leaves an integer in a double's low bits
_MAGIC = {"double": 6755399441055744.0, "float": 12582912.0}


def to_int(x: V) -> V:
    """An integral float below 2^51 (a float32: 2^22) as an integer; anything else gives any value, never a trap."""
    magic = _MAGIC[x.elem]
    return (x + magic).bits() - x.code.const(magic, x.elem, x.lanes).bits()


def clamp(x: V, low: float, high: float) -> V:
    """Into [low, high]; NaN stays."""
    x = (x < low).where(low, x)
    return (x > high).where(high, x)


def vanishing(x: V, low: float, high: float) -> tuple[V, V]:
    """Where x is below `low`, and x up to `high` with 0 there; NaN stays.

    There the value is zero. Computed as an underflow it would be an assist of the microcode on some processors.
    """
    gone = x < low
    x = gone.where(0.0, x)
    return gone, (x > high).where(high, x)


# --- exponentials ---

_EXPM1_TAIL = [1 / math.factorial(k) for k in range(13, 1, -1)]  # (e^r - 1 - r) / r^2 for |r| <= ln2 / 2


def _reduce_exp(x: V) -> tuple[V, V, V]:
    """n and r, and what is lost in r, with x = n ln2 + r."""
    n = (x * (1 / LN2)).intrinsic("roundeven")
    high = n.mad(-LN2_HI, x)
    low = n * LN2_LO
    r = high - low
    return n, r, (high - r) - low


@unary64
def exp(x: V, shift: int = 0, low: V | None = None) -> V:
    """e^(x + low) * 2^shift."""
    gone, x = vanishing(x, -746.0, 720.0)
    n, r, lost = _reduce_exp(x)
    tail = polynomial(r, _EXPM1_TAIL)
    e = (r * r).mad(tail, lost) + r
    if low is not None:
        e = e + (low * e + low)
    y = e + 1.0
    return gone.where(0.0, scale(y, n + float(shift) if shift else n))


@unary64
def expm1(x: V) -> V:
    x_in = x
    x = clamp(x, -45.0, 710.0)
    n, r, lost = _reduce_exp(x)
    tail = polynomial(r, _EXPM1_TAIL)
    e = (r * r).mad(tail, lost) + r
    half = power_of_two(to_int(n) - 1)
    y = (half.mad(e, half - 0.5)) * 2.0
    y = n.eq(0).where(e, y)
    return x_in.eq(0).where(x_in, y)


@unary64
def exp2(x: V) -> V:
    gone, x = vanishing(x, -1076.0, 1030.0)
    n = x.intrinsic("roundeven")
    f = x - n
    r = f * LN2
    lost = f.fma(LN2, -r) + f * 2.3190468138462996e-17
    tail = polynomial(r, _EXPM1_TAIL)
    return gone.where(0.0, scale(((r * r).mad(tail, lost) + r) + 1.0, n))


# --- logarithms ---

_LOG = (1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
        2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01)


#: of a type: the smallest normal number, bits of the mantissa, the exponent of 1, the bits of 1 and of sqrt(1/2)
_FORMAT = {"double": (2.2250738585072014e-308, 52, 1023, 0x3FF0000000000000, 0x3FE6A09E667F3BCD),
           "float": (1.1754943508222875e-38, 23, 127, 0x3F800000, 0x3F3504F3)}


def split(x: V) -> tuple[V, V]:
    """k, as a float, and m in [sqrt(1/2), sqrt(2)) with x = 2^k m, for positive finite x."""
    smallest, places, bias, one, root = _FORMAT[x.elem]
    small = x < smallest
    bits = small.where(x * 2.0**54, x).bits()
    k = (bits + (one - root)).lshr(places) - bias
    m = (bits - k.shl(places)).cast("bitcast", x.elem)
    magic = _MAGIC[x.elem]  # a small int as a float
    offset = small.where(k - 54, k) + x.code.const(magic, x.elem, x.lanes).bits()
    return offset.cast("bitcast", x.elem) - magic, m


def _log_parts(f: V) -> tuple[V, V]:
    """f^2 / 2 and s (f^2 / 2 + R(s^2)) with s = f / (2 + f), so that log(1 + f) = f - (first - second)."""
    s = f / (f + 2.0)
    z = s * s
    r = polynomial(z, _LOG) * z
    half_square = f * f * 0.5
    return half_square, s * (half_square + r)


def log_edges(x: V, y: V) -> V:
    """log's values at 0, infinity, NaN and below 0."""
    y = x.eq(0).where(-INF, y)
    y = (x < 0).where(math.nan, y)
    return (x.eq(INF) | x.isnan()).where(x, y)


def _log_sum(k: V, f: V, extra: V | None = None) -> V:
    """k ln2 + log(1 + f) + extra."""
    half_square, rest = _log_parts(f)
    low = k * LN2_LO if extra is None else k * LN2_LO + extra
    return k.mad(LN2_HI, -((half_square - (rest + low)) - f))


@unary64
def log(x: V) -> V:
    k, m = split(x)
    return log_edges(x, _log_sum(k, m - 1.0))


def _log_base(x: V, per_octave: float, per_octave_low: float, high: float, low: float) -> V:
    """k * per_octave + log(m) * (high + low): logarithms to other bases."""
    k, m = split(x)
    f = m - 1.0
    half_square, rest = _log_parts(f)
    top = ((f - half_square).bits() & -(1 << 32)).cast("bitcast", "double")
    bottom = (f - top) - half_square + rest
    value = bottom * low + (top * low + bottom * high)
    exact = k * per_octave
    head = top * high
    total = exact + head
    value = value + ((exact - total) + head) + k * per_octave_low
    return log_edges(x, total + value)


@unary64
def log2(x: V) -> V:
    return _log_base(x, 1.0, 0.0, 1.44269504072144627571e+00, 1.67517131648865118353e-10)


@unary64
def log10(x: V) -> V:
    return _log_base(x, 3.01029995663611771306e-01, 3.69423907715893078616e-13, 4.34294481878168880939e-01,
                     2.50829467116452752298e-11)


def log1p_by(log_sum: Callable[[V, V, V], V], x: V) -> V:
    """log(1 + x); `log_sum`: see `_log_sum`."""
    u = x + 1.0
    near = (x > -0.2928) & (x < 0.4142)
    k, m = split(u)
    lost = (u > 2.0).where(1.0 - (u - x), x - (u - 1.0)) / u
    y = log_sum(near.where(0.0, k), near.where(x, m - 1.0), (near | u.eq(INF)).where(0.0, lost))
    return x.eq(0).where(x, log_edges(u, y))


@unary64
def log1p(x: V) -> V:
    return log1p_by(_log_sum, x)


# --- hyperbolic functions (near 0: Cephes) ---

_TANH_P = (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3)
_TANH_Q = (1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3)
_SINH_P = (-7.89474443963537015605e-1, -1.63725857525983828727e2, -1.15614435765005216044e4,
           -3.51754964808151394800e5)
_SINH_Q = (1.0, -2.77711081420602794433e2, 3.61578279834431989373e4, -2.11052978884890840399e6)


def _odd_ratio(a: V, p: Sequence[float], q: Sequence[float], near: V) -> V:
    """a + a z P(z) / Q(z) with z = a^2, where `near` holds."""
    z = near.where(a * a, 0.0)
    return (a * z).mad(polynomial(z, p) / polynomial(z, q), a)


@unary64
def tanh(x: V) -> V:
    a = x.abs()
    near = a < 0.625
    far = 1.0 - 2.0 / (exp(clamp(a, 0.0, 22.0) * 2.0) + 1.0)
    return near.where(_odd_ratio(a, _TANH_P, _TANH_Q, near), far).copysign(x)


@unary64
def sinh(x: V) -> V:
    a = x.abs()
    near = a < 1.0
    e = exp(a, shift=-1)
    return near.where(_odd_ratio(a, _SINH_P, _SINH_Q, near), e - 0.25 / e).copysign(x)


@unary64
def cosh(x: V) -> V:
    a = x.abs()
    t = expm1((a > 1.0).where(1.0, a))
    near = (t * t) / ((t + 1.0) * 2.0) + 1.0
    e = exp(a, shift=-1)
    return (a < 0.35).where(near, e + 0.25 / e)


@unary64
def asinh(x: V) -> V:
    a = x.abs()
    big = a > 268435456.0
    c = big.where(1.0, a)
    square = c * c
    y = log1p(big.where(a - 1.0, c + square / ((square + 1.0).intrinsic("sqrt") + 1.0)))
    y = big.where(y + LN2, y)
    return y.copysign(x)


@unary64
def acosh(x: V) -> V:
    big = x > 268435456.0
    t = big.where(1.0, x - 1.0)
    y = log1p(big.where(x - 1.0, t + (t * 2.0 + t * t).intrinsic("sqrt")))
    y = big.where(y + LN2, y)
    return (x < 1.0).where(math.nan, y)


@unary64
def atanh(x: V) -> V:
    a = x.abs()
    t = a + a
    y = 0.5 * log1p((a < 0.5).where(t + t * a / (1.0 - a), t / (1.0 - a)))
    return y.copysign(x)


# --- circular functions ---

#: pi / 2 in three parts of 53 bits
PIO2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_SIN = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
        -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)
_COS = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
        2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)
#: above this the reduction in three parts loses bits
LARGE_ANGLE = 1e13


def reduce_angle(x: V) -> tuple[V, V, V]:
    """Quadrant (i64), r and what r lost, with x = quadrant * pi/2 + r, for |x| <= LARGE_ANGLE."""
    n = (x * (2 / math.pi)).intrinsic("roundeven")
    high = n.fma(-PIO2[0], x)
    mid = n.fma(-PIO2[1], high)
    # the rounding error of `mid`, exactly: high - n * PIO2[1] = mid + lost
    product = n * PIO2[1]
    product_error = n.fma(PIO2[1], -product)
    difference = high - product
    back = difference - high
    lost = (high - (difference - back)) - (product + back)
    lost = ((difference - mid) + lost) - product_error - n * PIO2[2]
    r = mid + lost
    return to_int(n), r, (mid - r) + lost


def kernel_sin(r: V, lost: V) -> V:
    """sin(r + lost) for |r| <= pi/4."""
    return r + _sin_rest(r, lost)


def _sin_rest(r: V, lost: V) -> V:
    z = r * r
    v = z * r
    p = polynomial(z, _SIN[:-1])
    return v * _SIN[-1] - (z * (lost * 0.5 - v * p) - lost)


def kernel_cos(r: V, lost: V) -> V:
    """cos(r + lost) for |r| <= pi/4."""
    w, rest = _cos_parts(r, lost)
    return w + rest


def _cos_parts(r: V, lost: V) -> tuple[V, V]:
    z = r * r
    p = z * polynomial(z, _COS)
    half = z * 0.5
    w = 1.0 - half
    return w, ((1.0 - w) - half) + (z * p - r * lost)


def _ratio(a: V, a_low: V, b: V, b_low: V) -> V:
    """(a + a_low) / (b + b_low)."""
    q = a / b
    return b.eq(0).where(q, q + ((-q).fma(b, a) + (a_low - q * b_low)) / b)


def _tan(odd: V, r: V, lost: V) -> V:
    """sin / cos, or -cos / sin where `odd`, both with their rounding errors."""
    rest = _sin_rest(r, lost)
    s = r + rest
    s_low = (r - s) + rest
    w, rest = _cos_parts(r, lost)
    c = w + rest
    c_low = (w - c) + rest
    return _ratio(odd.where(-c, s), odd.where(-c_low, s_low), odd.where(s, c), odd.where(s_low, c_low))


def circular(name: str, quadrant: V, r: V, lost: V) -> V:
    """sin, cos or tan of a reduced angle."""
    odd = (quadrant & 1).ne(0)
    if name == "tan":
        return _tan(odd, r, lost)
    s, c = kernel_sin(r, lost), kernel_cos(r, lost)
    if name == "cos":
        quadrant = quadrant + 1
        odd = ~odd
    value = odd.where(c, s)
    return (quadrant & 2).ne(0).where(-value, value)


# --- inverse circular functions ---

_ASIN_P = (3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02,
           2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01)
_ASIN_Q = (7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e+00,
           -2.40339491173441421878e+00, 1.0)


def _asin_ratio(z: V) -> V:
    return z * polynomial(z, _ASIN_P) / polynomial(z, _ASIN_Q)


def _half_angle(a: V) -> tuple[V, V, V]:
    """For a >= 1/2: s = sqrt((1 - a) / 2), what s lost, and R((1 - a) / 2)."""
    z = (1.0 - a) * 0.5
    s = z.intrinsic("sqrt")
    lost = (-s).fma(s, z) / (s + s)
    return s, s.eq(0).where(0.0, lost), _asin_ratio(z)


@unary64
def asin(x: V) -> V:
    a = x.abs()
    small = a < 0.5
    direct = a.mad(_asin_ratio(small.where(a * a, 0.0)), a)
    s, lost, r = _half_angle(a)
    far = PIO2[0] - (2.0 * (s + (s * r + lost)) - PIO2[1])
    y = small.where(direct, far).copysign(x)
    return (a > 1.0).where(math.nan, y)


@unary64
def acos(x: V) -> V:
    a = x.abs()
    small = a < 0.5
    middle = PIO2[0] - (x - (PIO2[1] - x * _asin_ratio(small.where(a * a, 0.0))))
    s, lost, r = _half_angle(a)
    angle = 2.0 * (s + (s * r + lost))
    y = small.where(middle, (x < 0).where(2 * PIO2[0] - (angle - 2 * PIO2[1]), angle))
    return (a > 1.0).where(math.nan, y)


_ATAN_EVEN = (1.62858201153657823623e-02, 4.97687799461593236017e-02, 6.66107313738753120669e-02,
              9.09088713343650656196e-02, 1.42857142725034663711e-01, 3.33333333333329318027e-01)
_ATAN_ODD = (-3.65315727442169155270e-02, -5.83357013379057348645e-02, -7.69187620504482999495e-02,
             -1.11111104054623557880e-01, -1.99999999998764832476e-01)
_ATAN_HIGH = (4.63647609000806093515e-01, 7.85398163397448278999e-01, 9.82793723247329054082e-01,
              1.57079632679489655800e+00)
_ATAN_LOW = (2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17,
             6.12323399573676603587e-17)


def _atan_positive(n: V, d: V) -> V:
    """atan(n / d) for non-negative values, one of them finite and non-zero."""
    a = n / d
    # the interval decides the centre c: atan(a) = atan(c) + atan((a - c) / (1 + a c))
    first, second, third, fourth = a < 0.4375, a < 0.6875, a < 1.1875, a < 2.4375
    top = second.where(2.0 * a - 1.0, third.where(a - 1.0, fourth.where(a - 1.5, -1.0)))
    bottom = second.where(a + 2.0, third.where(a + 1.0, fourth.where(a * 1.5 + 1.0, a)))
    t = first.where(a, top / bottom)
    z = t * t
    w = z * z
    s = z * polynomial(w, _ATAN_EVEN) + w * polynomial(w, _ATAN_ODD)
    high = first.where(0.0, second.where(_ATAN_HIGH[0], third.where(_ATAN_HIGH[1], fourth.where(
        *[a.code.const(h, "double", a.lanes) for h in _ATAN_HIGH[2:]]))))
    lower = first.where(0.0, second.where(_ATAN_LOW[0], third.where(_ATAN_LOW[1], fourth.where(
        *[a.code.const(h, "double", a.lanes) for h in _ATAN_LOW[2:]]))))
    return high - ((t * s - lower) - t)


@unary64
def atan(x: V) -> V:
    return _atan_positive(x.abs(), x.code.const(1.0, "double", x.lanes)).copysign(x)


@binary64
def atan2(y: V, x: V) -> V:
    ay, ax = y.abs(), x.abs()
    same = (ay.eq(0) & ax.eq(0)) | (ay.eq(INF) & ax.eq(INF))
    one = y.code.const(1.0, "double", y.lanes)
    n, d = same.where(ay.eq(INF).where(one, 0.0), ay), same.where(one, ax)
    z = _atan_positive(n, d)
    negative = x.bits() < 0
    z = negative.where(2 * PIO2[0] - (z - 2 * PIO2[1]), z)
    return (x.isnan() | y.isnan()).where(x + y, z.copysign(y))
