"""The incomplete gamma functions and Hurwitz's zeta function, by NumPy: the number of steps depends on the operands.

Source: Cephes igam.c and zeta.c (S. L. Moshier), with SciPy's choice of method by region; DLMF 8.7.3 and 8.11.4 (the
series), 8.9.2 (the continued fraction), 8.12.3 (large parameters near the argument), 25.11.5 (zeta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.device import cpu_kernels
from jitgrad.ops import checks, specs
from jitgrad.ops.batching.rules import pointwise
from jitgrad.ops.opdef import OPAQUE, register
from jitgrad.ops.rows.special._temme import TEMME
from jitgrad.ops.rules import Missing, each

EPSILON = 2.0 ** -53
#: how many steps a series or fraction takes at most
STEPS = 2000
#: (k!)^-1 B_2k of the Euler-Maclaurin formula, as divisors
EULER_MACLAURIN = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
                   -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
                   1.8152105401943546773e17, -7.1661652561756670113e18)


def _elementwise(run: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The impl of a row of two operands from a function of two float64 vectors."""
    def impl(xp: Any, a: Any, b: Any) -> Any:
        d = a.dtype
        a, b = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(b, np.float64))
        with np.errstate(all="ignore"):
            return run(a.reshape(-1), b.reshape(-1)).reshape(a.shape).astype(d)

    return impl


def _where(masks: Any, a: Any, x: Any, methods: Any) -> Any:
    """Each method's values where its mask is set; the first mask counts."""
    result = np.full(a.shape, np.nan)
    left = np.ones(a.shape, bool)
    for mask, method in zip(masks, methods, strict=True):
        at = np.nonzero(mask & left)[0]
        left &= ~mask
        if at.size:
            result[at] = method(a[at], x[at])
    return result


# --- the incomplete gamma functions --------------------------------------------------------------------------------


def _lgamma(x: Any) -> Any:
    return cpu_kernels().computed("lgamma", x, 0)


def _log1p_less(x: Any) -> Any:
    """log(1 + x) - x, accurate near 0."""
    near = np.abs(x) < 0.3
    small = np.where(near, x, 0.0)
    total = np.zeros_like(x)
    for k in range(40, 1, -1):
        total = total * small + (-1.0) ** (k + 1) / k
    return np.where(near, total * small * small, np.log1p(x) - x)


def _stirling(a: Any) -> Any:
    """log gamma(a) - (a - 1/2) log a + a - log(2 pi) / 2, for a of at least 10."""
    w = 1.0 / (a * a)
    return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * (
        691 / 360360 - w * (1 / 156))))))) / a


def _factor(a: Any, x: Any) -> Any:
    """x^a exp(-x) / gamma(a)."""
    large = a > 10.0
    b = np.where(large, a, 10.0)
    deviation = (x - b) / b
    spread = np.where(np.abs(deviation) < 0.4, b * _log1p_less(deviation), b * np.log(x / b) - (x - b))
    scaled = np.exp(spread - _stirling(b)) * np.sqrt(b / (2.0 * math.pi))
    small = np.where(large, 1.0, a)
    return np.where(large, scaled, np.exp(small * np.log(x) - x - _lgamma(small)))


def _series(a: Any, x: Any) -> Any:
    """The lower function by its power series."""
    total, term, r = np.ones_like(a), np.ones_like(a), a.copy()
    for _ in range(STEPS):
        r = r + 1.0
        term = term * (x / r)
        total = total + term
        if not (term > EPSILON * total).any():
            break
    return total * _factor(a, x) / a


def _upper_series(a: Any, x: Any) -> Any:
    """The upper function for a small x, without cancellation."""
    factor, total = np.ones_like(a), np.zeros_like(a)
    for n in range(1, STEPS):
        factor = factor * (-x / n)
        term = factor / (a + n)
        total = total + term
        if not (np.abs(term) > EPSILON * np.abs(total)).any():
            break
    logarithm = np.log(x)
    return -np.expm1(a * logarithm - _lgamma(1.0 + a)) - np.exp(a * logarithm - _lgamma(a)) * total


def _fraction(a: Any, x: Any) -> Any:
    """The upper function by its continued fraction."""
    y = 1.0 - a
    z = x + y + 1.0
    p_before, q_before, p, q = np.ones_like(a), x, x + 1.0, z * x
    value = p / q
    done = np.zeros(a.shape, bool)
    for k in range(1, STEPS):
        y, z = y + 1.0, z + 2.0
        p, p_before = p * z - p_before * (y * k), p
        q, q_before = q * z - q_before * (y * k), q
        found = p / q
        change = np.abs((value - found) / found)
        value = np.where(done | (q == 0.0), value, found)
        done |= change <= EPSILON
        if done.all():
            break
        scale = np.where(np.abs(p) > 2.0 ** 52, 2.0 ** -52, 1.0)
        p, p_before, q, q_before = p * scale, p_before * scale, q * scale, q_before * scale
    return value * _factor(a, x)


def _near(a: Any, x: Any, sign: float) -> Any:
    """The upper (sign 1) or lower (-1) function of a large a near x, by the uniform asymptotic expansion."""
    deviation = (x - a) / a
    eta = np.copysign(np.sqrt(np.maximum(-2.0 * _log1p_less(deviation), 0.0)), deviation)
    value = 0.5 * cpu_kernels().computed("erfc", sign * eta * np.sqrt(a / 2.0), 0)
    total, before = np.zeros_like(a), np.full(a.shape, np.inf)
    done, power = np.zeros(a.shape, bool), np.ones_like(a)
    for row in TEMME:
        term = np.zeros_like(a)
        for c in reversed(row):
            term = term * eta + c
        term = term * power
        done |= np.abs(term) > before
        total = np.where(done, total, total + term)
        done |= np.abs(term) < EPSILON * np.abs(total)
        if done.all():
            break
        before, power = np.abs(term), power / a
    return value + sign * np.exp(-0.5 * a * eta * eta) * total / np.sqrt(2.0 * math.pi * a)


def _ends(a: Any, x: Any, upper: bool) -> tuple[list[Any], list[Any]]:
    """Where the functions need no computation, and what they are there."""
    def constant(value: float) -> Any:
        return lambda a, x: np.full(a.shape, value)

    infinite = np.isinf(a) & np.isinf(x)
    masks = [np.isnan(a) | np.isnan(x) | (x < 0) | (a < 0) | infinite | ((a == 0) & (x == 0)), (a == 0) | np.isinf(x),
             (x == 0) | np.isinf(a)]
    return masks, [constant(math.nan), constant(0.0 if upper else 1.0), constant(1.0 if upper else 0.0)]


def _is_near(a: Any, x: Any) -> Any:
    distance = np.abs(x - a) / a
    return ((a > 20) & (a < 200) & (distance < 0.3)) | ((a > 200) & (distance < 4.5 / np.sqrt(a)))


def _gammainc(a: Any, x: Any) -> Any:
    masks, methods = _ends(a, x, False)
    masks += [_is_near(a, x), (x > 1) & (x > a), np.ones(a.shape, bool)]
    methods += [lambda a, x: _near(a, x, -1.0), lambda a, x: 1.0 - _gammaincc(a, x), _series]
    return _where(masks, a, x, methods)


def _gammaincc(a: Any, x: Any) -> Any:
    masks, methods = _ends(a, x, True)
    by_series = np.where(x > 1.1, x < a, np.where(x <= 0.5, -0.4 / np.log(x) < a, x * 1.1 < a))
    masks += [_is_near(a, x), by_series, x > 1.1, np.ones(a.shape, bool)]
    methods += [lambda a, x: _near(a, x, 1.0), lambda a, x: 1.0 - _series(a, x), _fraction, _upper_series]
    return _where(masks, a, x, methods)


def _density(F: Any, a: Any, x: Any) -> Any:
    return F.exp((a - 1.0) * F.log(x) - x - F.lgamma(a))


def _row(name: str, doc: str, run: Any, ref: str, slope: Any, samples: Any, missing: str) -> None:
    register(name, 2, OPAQUE, doc, impl=_elementwise(run), traits={"in_library"}, spec=specs.pointwise,
             check=checks.pointwise, batch=pointwise, ref=ref, samples=samples, vjp=each(Missing(missing), slope))


def _positive(rng: np.random.Generator) -> Any:
    return [((rng.uniform(0.5, 4, (3, 4)), rng.uniform(0.3, 5, (4,))), {}), ((np.zeros((0, 2)), np.ones(2)), {}),
            ((rng.uniform(25, 30, (2, 1)), rng.uniform(24, 34, (3,))), {})]


_row("gammainc", "The regularised lower incomplete gamma function P(a, x).", _gammainc, "scipy.special.gammainc",
     lambda F, g, y, a, x: g * _density(F, a, x), _positive, "igamma: input")
_row("gammaincc", "The regularised upper incomplete gamma function Q(a, x).", _gammaincc, "scipy.special.gammaincc",
     lambda F, g, y, a, x: -(g * _density(F, a, x)), _positive, "igammac: input")

# --- zeta ----------------------------------------------------------------------------------------------------------


def _zeta(s: Any, q: Any) -> Any:
    """Sum of (q + k)^-s over k >= 0; a q below 0 has whole powers only."""
    pole = (q <= 0) & (q == np.floor(q))
    undefined = (s < 1) | ((q <= 0) & ~pole & (s != np.floor(s))) | np.isnan(s) | np.isnan(q)
    plain = ~(pole | undefined | (s == 1))
    s_, start = np.where(plain, s, 2.0), np.where(plain, q, 1.0)
    total, a, term = start ** -s_, start, start ** -s_
    open_ = plain.copy()
    count = 0
    while open_.any():
        count += 1
        a = np.where(open_, a + 1.0, a)
        term = np.where(open_, a ** -s_, term)
        total = np.where(open_, total + term, total)
        open_ &= (a <= 9.0) if count >= 9 else True
    rest = term * a / (s_ - 1.0) - 0.5 * term
    total = np.where(np.abs(term) < EPSILON * np.abs(total), total, total + rest)
    factor, k, power = np.ones_like(total), 0.0, term
    for divisor in EULER_MACLAURIN:
        factor = factor * (s_ + k)
        power = power / a
        part = factor * power / divisor
        total = np.where(np.isfinite(part), total + part, total)
        factor, power = factor * (s_ + k + 1.0), power / a
        k += 2.0
    total = np.where(undefined, np.nan, np.where(pole, np.inf, total))
    return np.where((s == 1) & ~np.isnan(q), np.inf, total)


_row("zeta", "Hurwitz's zeta function: the sum of (q + k)^-s over k >= 0.", _zeta, "scipy.special.zeta",
     lambda F, g, y, s, q: g * -s * F.zeta(s + 1.0, q),
     lambda rng: [((rng.uniform(1.2, 6, (3, 4)), rng.uniform(0.3, 5, (4,))), {}),
                  ((np.array([2.0, 3, 5]), np.array([-0.5, -2.25, 12.5])), {})], "zeta")
