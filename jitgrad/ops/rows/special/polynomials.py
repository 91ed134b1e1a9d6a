"""Classical orthogonal polynomials of an element's own degree, by their recurrences.

The degree n is an operand, so that NumPy runs as many steps as the largest one takes. PyTorch has no derivatives.
Source: DLMF 18.9 (the recurrences), 18.5.1 to 18.5.4 (the circular forms of Chebyshev's inside (-1, 1)).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.ops import checks, specs
from jitgrad.ops.batching.rules import pointwise
from jitgrad.ops.opdef import NONDIFF, OPAQUE, register

#: the value of degree k + 1 from x, k and the values of degrees k and k - 1
Step = Callable[[Any, int, Any, Any], Any]
#: (x, degrees) -> values inside (-1, 1)
Circular = Callable[[Any, Any, Any], Any]
#: degrees up to which Hermite's polynomials have values, by dtype; NaN beyond
LIMITS = {"float32": 128, "float64": 512}


def _recurrence(xp: Any, x: Any, n: Any, first: Any, step: Step) -> Any:
    """Values of degree n from those of degrees 0 and 1; those of elements that have their degree stay."""
    before, last = xp.ones_like(x), first
    result = xp.where(n < 1, before, last)
    for k in range(1, int(n.max()) if n.size else 0):
        before, last = last, step(x, k, last, before)
        result = xp.where(n == k + 1, last, result)
    return result


def _polynomial(first: Callable[[Any], Any], step: Step, circular: Circular | None = None, bounded: bool = False,
                shifted: bool = False) -> Any:
    """The impl of a row: 0 for a negative degree; `circular` from degree 6 on, where |x| < 1."""
    @np.errstate(all="ignore")
    def impl(xp: Any, x: Any, n: Any) -> Any:
        d = x.dtype
        x, n = xp.broadcast_arrays(x.astype(np.float64), n.astype(np.float64))
        if shifted:
            x = x + x - 1.0
        unknown = xp.logical_not(xp.isfinite(n))
        degree = xp.where(unknown, -1.0, xp.trunc(n))
        if circular is None:
            beyond = xp.zeros(x.shape, bool) if not bounded else degree > LIMITS.get(d.name, 128)
            steps = xp.where(beyond, 0.0, degree)
            result = xp.where(beyond, np.nan, _recurrence(xp, x, steps, first(x), step))
        else:
            inside = xp.logical_and(degree > 6, xp.abs(x) < 1)
            outer = xp.where(inside, 0.0, xp.minimum(degree, 1e6))
            angle = xp.arccos(xp.where(inside, x, 0.0))
            result = xp.where(inside, circular(xp, angle, degree),
                              _recurrence(xp, x, outer, first(x), step))
        return xp.where(degree < 0, 0.0, result).astype(d)

    return impl


def _twice(x: Any, k: int, last: Any, before: Any) -> Any:
    return 2.0 * x * last - before


CHEBYSHEV: dict[str, tuple[Callable[[Any], Any], Circular, str]] = {
    "t": (lambda x: x, lambda xp, a, n: xp.cos(n * a), "first"),
    "u": (lambda x: 2.0 * x, lambda xp, a, n: xp.sin((n + 1.0) * a) / xp.sin(a), "second"),
    "v": (lambda x: 2.0 * x - 1.0, lambda xp, a, n: xp.cos((n + 0.5) * a) / xp.cos(0.5 * a), "third"),
    "w": (lambda x: 2.0 * x + 1.0, lambda xp, a, n: xp.sin((n + 0.5) * a) / xp.sin(0.5 * a), "fourth"),
}


def _samples(rng: np.random.Generator) -> Any:
    return [((rng.uniform(-0.3, 1.2, (3, 4)), np.array([0.0, 1, 2, 9])), {}),
            ((rng.uniform(-0.3, 1.2, (2, 1)), np.array([[3.0, -1], [5, 8]])), {}), ((np.zeros((0, 2)), np.ones(2)), {})]


def _row(name: str, doc: str, impl: Any, ref: str = "") -> None:
    register(name, 2, OPAQUE, doc, impl=impl, vjp=NONDIFF, traits={"in_library"}, spec=specs.pointwise,
             check=checks.pointwise, batch=pointwise, samples=_samples, ref=ref)


for _kind, (_first, _circular, _word) in CHEBYSHEV.items():
    _row(f"chebyshev_polynomial_{_kind}", f"Chebyshev's polynomial of the {_word} kind, of degree n, at x.",
         _polynomial(_first, _twice, _circular))
    _row(f"shifted_chebyshev_polynomial_{_kind}",
         f"Chebyshev's polynomial of the {_word} kind, of degree n, at 2 x - 1.",
         _polynomial(_first, _twice, _circular, shifted=True))

_row("hermite_polynomial_h", "The physicists' Hermite polynomial of degree n at x.",
     _polynomial(lambda x: 2.0 * x, lambda x, k, last, before: 2.0 * x * last - 2.0 * k * before, bounded=True))
_row("hermite_polynomial_he", "The probabilists' Hermite polynomial of degree n at x.",
     _polynomial(lambda x: x, lambda x, k, last, before: x * last - k * before, bounded=True))
_row("laguerre_polynomial_l", "Laguerre's polynomial of degree n at x.",
     _polynomial(lambda x: 1.0 - x, lambda x, k, last, before: ((2 * k + 1.0 - x) * last - k * before) / (k + 1)))
_row("legendre_polynomial_p", "Legendre's polynomial of degree n at x.",
     _polynomial(lambda x: x, lambda x, k, last, before: ((2 * k + 1.0) * x * last - k * before) / (k + 1)))
