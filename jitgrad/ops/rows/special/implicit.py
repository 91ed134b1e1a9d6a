"""How draws of gamma and beta numbers move with their parameters, while the probability of less stays: the derivative
of the distribution function in a parameter, over minus the density.

Each is a sum whose terms have one sign, in float64. Source: Figurnov, Mohamed and Mnih, "Implicit Reparameterization
Gradients", 2018; the sums are derivatives of DLMF 8.7.1, 8.9.2 and 8.17.8, term by term.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.device import cpu_kernels
from jitgrad.ops import checks, specs
from jitgrad.ops.batching.rules import pointwise
from jitgrad.ops.opdef import OPAQUE, register
from jitgrad.ops.rules import Missing, each

EPSILON = 2.0 ** -53
#: how many steps a sum takes at most
STEPS = 100_000
#: up to how many expected counts an end of the interval is near
NEAR = 15
#: from which concentration on an expansion about the normal distribution is as good as the sum
LARGE = 1e4


def _digamma(x: Any) -> Any:
    return cpu_kernels().computed("digamma", x, 0)


def _summed(run: Callable[..., tuple[Any, ...]], state: list[Any]) -> Any:
    """The sum that `run(n, *state)` adds to until it is as good as done: (state, and first of it the sum; done)."""
    result = np.full(state[0].shape, np.nan)
    left = np.arange(len(result))
    for n in range(1, STEPS):
        if not left.size:
            break
        *state, done = run(n, *state)
        if done.any():
            result[left[done]] = state[0][done]
            left, state = left[~done], [s[~done] for s in state]
    result[left] = state[0]
    return result


def _gamma_below(a: Any, x: Any) -> Any:
    """x times the sum of x^n Gamma(a) / Gamma(a + n + 1) (digamma(a + n + 1) - log x): of x up to about a."""
    def step(n: int, total: Any, term: Any, a: Any, x: Any, slope: Any) -> tuple[Any, ...]:
        term = term * x / (a + n)
        slope = slope + 1 / (a + n)
        more = term * slope
        return total + more, term, a, x, slope, (a + n > x) & (np.abs(more) <= EPSILON * np.abs(total))

    slope = _digamma(a) + 1 / a - np.log(x)
    return x * _summed(step, [slope / a, 1 / a, a, x, slope])


def _gamma_above(a: Any, x: Any) -> Any:
    """x (h (log x - digamma(a)) + dh/da), of the fraction h of Gamma(a, x), by Lentz's method: of x above a + 1."""
    def step(n: int, h: Any, dh: Any, b: Any, c: Any, dc: Any, d: Any, dd: Any, a: Any) -> tuple[Any, ...]:
        factor = n * (a - n)
        b = b + 2.0
        base = 1 / (factor * d + b)  # dd, dc: slopes in a; that of factor is n, that of b is -1
        dd = -(n * d + factor * dd - 1) * base * base
        dc = -1 + (n * c - factor * dc) / (c * c)
        d, c = base, b + factor / c
        ratio = c * d
        slope = dh * ratio + h * (dc * d + c * dd)
        done = (np.abs(ratio - 1) <= 4 * EPSILON) & (np.abs(slope - dh) <= 4 * EPSILON * np.abs(slope))
        return h * ratio, slope, b, c, dc, d, dd, a, done

    b = x + 1 - a
    huge = np.full_like(x, 1e300)
    state = [1 / b, 1 / (b * b), b, huge, np.zeros_like(x), 1 / b, 1 / (b * b), a]
    keep = np.log(x) - _digamma(a)

    def weighed(n: int, total: Any, keep: Any, *state: Any) -> tuple[Any, ...]:
        *state_, done = step(n, *state)
        return keep * state_[0] + state_[1], keep, *state_, done

    return x * _summed(weighed, [keep * state[0] + state[1], keep, *state])


def _gamma_large(a: Any, x: Any) -> Any:
    """By the expansion of Cornish and Fisher, at the normal number of x."""
    root = np.sqrt(a)
    z = (x - a) / root
    for _ in range(3):
        off = a + z * root + (z * z - 1) / 3 + (z ** 3 - 7 * z) / (36 * root) - (
            3 * z ** 4 + 7 * z * z - 16) / (810 * a) - x
        z = z - off / (root + 2 * z / 3)
    return 1 + z / (2 * root) - (z ** 3 - 7 * z) / (72 * a * root) + (3 * z ** 4 + 7 * z * z - 16) / (810 * a * a)


def _where(where: Any, first: Callable[..., Any], second: Callable[..., Any], *xs: Any) -> Any:
    result = np.empty(xs[0].shape)
    for at, run in ((where, first), (~where, second)):
        if at.any():
            result[at] = run(*[x[at] for x in xs])
    return result


def _gamma(a: Any, x: Any) -> Any:
    def exact(a: Any, x: Any) -> Any:
        return _where(x > a + 1, _gamma_above, _gamma_below, a, x)

    return _where((a > LARGE) & (np.abs(x - a) < 12 * np.sqrt(a)), _gamma_large, exact, a, x)


def _beta_below(x: Any, a: Any, b: Any) -> Any:
    """x times the sum of c_n (digamma(a + n + 1) - digamma(a + b + n) - log x), c_n = (a + b)_n / (a)_(n+1) x^n."""
    def step(n: int, total: Any, term: Any, x: Any, a: Any, b: Any, slope: Any) -> tuple[Any, ...]:
        term = term * x * (a + b + n - 1) / (a + n)
        slope = slope + 1 / (a + n) - 1 / (a + b + n - 1)
        more = term * slope
        return total + more, term, x, a, b, slope, np.abs(more) <= EPSILON * (1 - x) * np.abs(total)

    slope = _digamma(a) + 1 / a - _digamma(a + b) - np.log(x)
    return x * _summed(step, [slope / a, 1 / a, x, a, b, slope])


def _beta_above(x: Any, a: Any, b: Any) -> Any:
    """(1 - x) times the sum of c_n (log x + digamma(a + b + n) - digamma(a)), c_n = (a + b)_n / (b)_(n+1) (1 - x)^n."""
    y = 1 - x

    def step(n: int, total: Any, term: Any, y: Any, a: Any, b: Any, slope: Any) -> tuple[Any, ...]:
        term = term * y * (a + b + n - 1) / (b + n)
        slope = slope + 1 / (a + b + n - 1)
        more = term * slope
        return total + more, term, y, a, b, slope, np.abs(more) <= EPSILON * (1 - y) * np.abs(total)

    slope = np.log(x) + _digamma(a + b) - _digamma(a)
    return x * _summed(step, [slope / b, 1 / b, y, a, b, slope])


def _dirichlet(x: Any, a: Any, total: Any) -> Any:
    b = total - a
    x = np.clip(x, 1e-300, 1 - EPSILON)
    # beyond the mean the terms' signs differ, at a loss of exp(NEAR) at most, but there are few of them near an end
    first = (x * total < NEAR) & (x < 0.1) | (x <= a / total) & ((x < 0.9) | ((1 - x) * total >= NEAR))
    return _where(first, _beta_below, _beta_above, x, a, b)


def _elementwise(run: Callable[..., Any]) -> Callable[..., Any]:
    """The impl of a row from a function of float64 vectors."""
    def impl(xp: Any, *xs: Any) -> Any:
        wide = np.broadcast_arrays(*[np.asarray(x, np.float64) for x in xs])
        with np.errstate(all="ignore"):
            return run(*[x.reshape(-1) for x in wide]).reshape(wide[0].shape).astype(xs[0].dtype)

    return impl


def _row(name: str, arity: int, doc: str, run: Any, samples: Any) -> None:
    register(name, arity, OPAQUE, doc, impl=_elementwise(run), traits={"in_library"}, spec=specs.pointwise,
             check=checks.pointwise, batch=pointwise, vjp=each(*[Missing(name)] * arity), samples=samples)


_row("standard_gamma_grad", 2, "The slope of a gamma number of rate 1 in its concentration: (concentration, draw).",
     _gamma, lambda rng: [((rng.uniform(0.3, 9, (3, 4)), rng.uniform(0.2, 12, (4,))), {})])
_row("dirichlet_grad", 3, "The slope of a beta number x in its first parameter, by 1 - x: (x, first, sum of both).",
     _dirichlet, lambda rng: [((rng.uniform(0.1, 0.9, (3, 4)), rng.uniform(0.3, 3, (4,)), np.array(4.0)), {})])
