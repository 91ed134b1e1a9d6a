"""Bessel functions of the first and second kind, of orders 0 and 1, the spherical one of order 0, and Airy's Ai.

Source: Cephes j0.c, j1.c and airy.c (S. L. Moshier): rational functions up to 5, of the modulus and phase beyond.
PyTorch does not differentiate these functions; the derivatives of the Bessel functions are DLMF 10.6.2.
"""

import math
from typing import Any

from jitgrad.ops.opdef import NONDIFF
from jitgrad.ops.rows.special._series import monic, polynomial, special

PP0 = (0.0007969367292973471, 0.08283523921074408, 1.239533716464143, 5.447250030587687, 8.74716500199817,
       5.303240382353949, 1.0)
PQ0 = (0.0009244088105588637, 0.08562884743544745, 1.2535274390105895, 5.470977403304171, 8.761908832370695,
       5.306052882353947, 1.0)
QP0 = (-0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683, -177.68116798048806,
       -147.07750515495118, -51.41053267665993, -6.050143506007285)
QQ0 = (64.3178256118178, 856.4300259769806, 3882.4018360540163, 7240.467741956525, 5930.727011873169,
       2062.0933166032783, 242.0057402402914)
RP0 = (-4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0)
RQ0 = (499.563147152651, 173785.4016763747, 48440965.83399621, 11185553704.535683, 2112775201154.892,
       310518229857422.56, 3.1812195594320496e+16, 1.7108629408104315e+18)
YP0 = (15592.436785523574, -14663929.59039716, 5435264770.518765, -982136065717.9115, 87590639439536.7,
       -3466283033847297.0, 4.4273326857256984e+16, -1.8495080043698668e+16)
YQ0 = (1041.2835366425984, 626107.330137135, 268919633.39381415, 86400248710.3935, 20297961275010.555,
       3171577528429750.5, 2.5059625617265306e+17)
PP1 = (0.0007621256162081731, 0.07313970569409176, 1.1271960812968493, 5.112079511468076, 8.424045901417724,
       5.214515986823615, 1.0)
PQ1 = (0.0005713231280725487, 0.06884559087544954, 1.105142326340617, 5.073863861286015, 8.399855543276042,
       5.209828486823619, 1.0)
QP1 = (0.05108625947501766, 4.982138729512334, 75.82382841325453, 366.7796093601508, 710.8563049989261,
       597.4896124006136, 211.68875710057213, 25.207020585802372)
QQ1 = (74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562, 7997.041604473507,
       2826.1927851763908, 336.0936078106983)
RP1 = (-899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0)
RQ1 = (620.8364781180543, 256987.25675774884, 83514679.14319493, 22151159547.97925, 4749141220799.914,
       784369607876235.9, 8.952223361846274e+16, 5.322786203326801e+18)
YP1 = (1263204747.9017804, -647355876379.1603, 114509511541823.73, -8127702555013251.0, 2.024394757135949e+17,
       -7.788771962659501e+17)
YQ1 = (594.3015923461282, 235564.09294306856, 73481194.44597217, 18760131610.870617, 3882312774962.3857,
       620557727146953.8, 6.871410873553005e+16, 3.9727060811656064e+18)
#: squares of the first two zeros of J0 and of J1
ZEROS0, ZEROS1 = (5.783185962946784521, 30.4712623436620863991), (14.6819706421238932572, 49.2184563216946036703)

TWO_OVER_PI = 2.0 / math.pi


def _far(F: Any, x: Any, tables: tuple[Any, ...], order: int) -> tuple[Any, Any]:
    """J and Y of an order beyond 5, by modulus and phase."""
    pp, pq, qp, qq = tables
    w = 5.0 / x
    z = w * w
    p = polynomial(z, pp) / polynomial(z, pq)
    q = w * (polynomial(z, qp) / monic(z, qq))
    # sine and cosine of x less pi/4, or less 3 pi/4: times sqrt(2), sums of those of x
    s, c = F.sin(x), F.cos(x)
    sine, cosine = (s - c, s + c) if order == 0 else (-(s + c), s - c)
    scale = F.rsqrt(x * math.pi)
    return (p * cosine - q * sine) * scale, (p * sine + q * cosine) * scale


def _near0(x: Any) -> Any:
    z = x * x
    return (z - ZEROS0[0]) * (z - ZEROS0[1]) * (polynomial(z, RP0) / monic(z, RQ0))


def _near1(x: Any) -> Any:
    z = x * x
    return x * (z - ZEROS1[0]) * (z - ZEROS1[1]) * (polynomial(z, RP1) / monic(z, RQ1))


def _split(F: Any, x: Any) -> tuple[Any, Any, Any]:
    """Where |x| is above 5, |x| there and 5 elsewhere, |x| elsewhere and 1 there; NaN is elsewhere, infinity is not."""
    a = F.abs(x)
    far = F.gt(a, 5.0)
    return far, F.where(far, a, 5.0), F.where(far, 1.0, a)


def _bounded(F: Any, a: Any) -> Any:
    """Of an infinite argument a large finite one, of which the result is thrown away."""
    return F.where(F.eq(a, math.inf), 1.0e9, a)


def _j0(F: Any, x: Any) -> Any:
    far, large, small = _split(F, x)
    value = F.where(far, _far(F, _bounded(F, large), (PP0, PQ0, QP0, QQ0), 0)[0], _near0(small))
    return F.where(F.eq(large, math.inf), 0.0, value)


def _j1(F: Any, x: Any) -> Any:
    far, large, small = _split(F, x)
    value = F.where(far, _far(F, _bounded(F, large), (PP1, PQ1, QP1, QQ1), 1)[0], _near1(small))
    return F.where(F.eq(large, math.inf), 0.0, F.where(F.lt(x, 0.0), -value, value))


def _y0(F: Any, x: Any) -> Any:
    far, large, small = _split(F, x)
    small = F.where(F.gt(x, 0.0), small, 1.0)
    z = small * small
    near = polynomial(z, YP0) / monic(z, YQ0) + TWO_OVER_PI * F.log(small) * _near0(small)
    return _ends(F, x, F.where(far, _far(F, _bounded(F, large), (PP0, PQ0, QP0, QQ0), 0)[1], near))


def _y1(F: Any, x: Any) -> Any:
    far, large, small = _split(F, x)
    small = F.where(F.gt(x, 0.0), small, 1.0)
    z = small * small
    near = small * (polynomial(z, YP1) / monic(z, YQ1)) + TWO_OVER_PI * (_near1(small) * F.log(small) - 1.0 / small)
    return _ends(F, x, F.where(far, _far(F, _bounded(F, large), (PP1, PQ1, QP1, QQ1), 1)[1], near))


def _ends(F: Any, x: Any, value: Any) -> Any:
    """The functions of the second kind: -inf at 0, NaN below, 0 at infinity."""
    value = F.where(F.eq(x, math.inf), 0.0, F.where(F.eq(x, 0.0), -math.inf, value))
    return F.where(F.ge(x, 0.0), value, math.nan)


def _over(F: Any, y: Any, x: Any, at_zero: float) -> Any:
    """y / x, and its limit at 0."""
    zero = F.eq(x, 0.0)
    return F.where(zero, at_zero, y / F.where(zero, 1.0, x))


special("bessel_j0", "The Bessel function of the first kind, of order 0.", _j0, ref="scipy.special.j0",
        domain=(0.5, 12.0), vjp=lambda F, g, y, x: (-(g * F.bessel_j1(x)),))
special("bessel_j1", "The Bessel function of the first kind, of order 1.", _j1, ref="scipy.special.j1",
        domain=(0.5, 12.0), vjp=lambda F, g, y, x: (g * (F.bessel_j0(x) - _over(F, y, x, 0.5)),))
special("bessel_y0", "The Bessel function of the second kind, of order 0.", _y0, ref="scipy.special.y0",
        domain=(0.5, 12.0), vjp=lambda F, g, y, x: (-(g * F.bessel_y1(x)),))
special("bessel_y1", "The Bessel function of the second kind, of order 1.", _y1, ref="scipy.special.y1",
        domain=(0.5, 12.0), vjp=lambda F, g, y, x: (g * (F.bessel_y0(x) - y / x),))

# --- the spherical one of order 0: sin(x) / x ----------------------------------------------------------------------

#: of sin(x) / x and of its slope over x, in x * x
_SINC = tuple([(-1.0) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)])
_SINC_SLOPE = tuple([(-1.0) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(8, 0, -1)])


def _spherical(F: Any, x: Any) -> Any:
    small = F.lt(F.abs(x), 0.5)
    finite = F.where(F.eq(F.abs(x), math.inf), 1.0, x)
    big = F.where(small, 1.0, finite)
    near = F.where(small, x, 0.0)
    value = F.where(small, polynomial(near * near, _SINC), F.sin(big) / big)
    return F.where(F.eq(F.abs(x), math.inf), 0.0, value)


def _spherical_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    small = F.lt(F.abs(x), 0.5)
    near, far = F.where(small, x, 0.0), F.where(small, 1.0, x)
    slope = F.where(small, near * polynomial(near * near, _SINC_SLOPE), (F.cos(far) - F.sin(far) / far) / far)
    return (g * slope,)


special("spherical_bessel_j0", "sin(x) / x, 1 at 0.", _spherical, domain=(-3.0, 3.0), vjp=_spherical_vjp)

# --- Airy's function -----------------------------------------------------------------------------------------------

AN = (0.346538101525629, 12.007595273964581, 76.27960536152345, 168.08922493463058, 159.75639135016442,
      70.53609068404442, 14.026469116338967, 1.0)
AD = (0.5675945326387702, 14.75625625848472, 84.51389701414746, 177.31808814540045, 164.2346928715297,
      71.47784008255756, 14.095913560783403, 1.0)
AFN = (-0.1316963234183318, -0.6264565444319123, -0.6931580360369335, -0.2797799815451191, -0.04919001326095003,
       -0.004062659235948854, -0.0001592764962392621, -2.776491081552329e-06, -1.6778769848911465e-08)
AFD = (13.356042070655324, 32.682503279522464, 26.736704094149957, 9.187074029072596, 1.4752914677166642,
       0.11568717379518804, 0.004402916416152112, 7.547203482874142e-05, 4.5185009297058035e-07)
AGN = (0.01973399320916857, 0.39110302961568827, 1.0657989759959559, 0.9391692298166502, 0.35146565610554764,
       0.06338889196289255, 0.005858041130483885, 0.000282851600836737, 6.98793669997261e-06, 8.117892395543892e-08,
       3.415517847659236e-10)
AGD = (9.30892908077442, 19.835292871831214, 15.564662893286462, 5.476860694229755, 0.9542936116189619,
       0.08645808263523921, 0.004126565238242226, 0.00010125908511650914, 1.1716673321441352e-06, 4.9183457006293e-09)
#: Ai(0) and -Ai'(0)
AI_ZERO, AI_SLOPE = 0.355028053887817239260, 0.258819403792806798405
#: of the two power series of DLMF 9.4.1, which are used up to 2.09, in x^3
_EVEN = [1.0]
_ODD = [1.0]
for _k in range(1, 15):
    _EVEN.insert(0, _EVEN[0] / ((3 * _k - 1) * 3 * _k))
    _ODD.insert(0, _ODD[0] / (3 * _k * (3 * _k + 1)))


def _airy(F: Any, x: Any) -> Any:
    above, below = F.gt(x, 2.09), F.lt(x, -2.09)
    near = F.where(F.logical_or(above, below), 0.0, x)
    cube = near * near * near
    value = AI_ZERO * polynomial(cube, _EVEN) - AI_SLOPE * near * polynomial(cube, _ODD)
    a = F.where(above, F.minimum(x, 200.0), 4.0)
    root = F.sqrt(a)
    zeta = a * root * (2.0 / 3.0)
    z = 1.0 / zeta
    decaying = polynomial(z, AN) / polynomial(z, AD) / F.sqrt(root) * F.exp(-zeta) * (0.5 / math.sqrt(math.pi))
    value = F.where(above, decaying, value)
    b = F.where(below, -x, 4.0)
    b = F.where(F.eq(b, math.inf), 4.0, b)
    root = F.sqrt(b)
    zeta = b * root * (2.0 / 3.0)
    z = 1.0 / zeta
    w = z * z
    s, c = F.sin(zeta), F.cos(zeta)  # of zeta + pi / 4, times sqrt(2): their sum and difference
    f = 1.0 + w * (polynomial(w, AFN) / monic(w, AFD))
    g = z * (polynomial(w, AGN) / monic(w, AGD))
    waving = ((s + c) * f - (c - s) * g) / F.sqrt(root) * math.sqrt(0.5 / math.pi)
    value = F.where(below, waving, value)
    return F.where(F.eq(F.abs(x), math.inf), 0.0, value)


special("airy_ai", "Airy's function Ai.", _airy, vjp=NONDIFF)
