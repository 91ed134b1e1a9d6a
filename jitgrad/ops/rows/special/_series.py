"""How special functions are written: as polynomials and Chebyshev series on handles, in float64."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from jitgrad.dtypes import float64
from jitgrad.ops.namespaces import ArrayNamespace
from jitgrad.ops.opdef import Rule
from jitgrad.ops.rows._pointwise import pointwise


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """c[0] x^n + ... + c[n]."""
    y: Any = coefficients[0]
    for c in coefficients[1:]:
        y = x * y + c
    return y


def monic(x: Any, coefficients: Sequence[float]) -> Any:
    """x^n + c[0] x^(n-1) + ... + c[n-1]."""
    return polynomial(x, (1.0, *coefficients))


def chebyshev(x: Any, coefficients: Sequence[float]) -> Any:
    """c[n] / 2 + c[n-1] T_1(x/2) + ... + c[0] T_n(x/2), by Clenshaw's recurrence."""
    before: Any = 0.0
    last: Any = coefficients[0]
    two_before: Any = 0.0
    for c in coefficients[1:]:
        two_before, before, last = before, last, x * last - before + c
    return (last - two_before) * 0.5


def in_double(rule: Rule) -> Callable[..., Any]:
    """A `compose` rule whose steps are float64's, rounded once at the end."""
    def compose(F: Any, *xs: Any) -> Any:
        y = rule(F, *[F.cast(x, dtype=float64) for x in xs])
        return F.cast(y, dtype=xs[0].dtype)

    return compose


#: elements that NumPy is given at a time: its temporaries stay in a core's own cache
BLOCK = 1 << 13


_arrays = cache(ArrayNamespace)


def special(name: str, doc: str, rule: Rule, **fields: Any) -> None:
    """Register a function of one operand whose steps, on handles, are float64's."""
    compose = in_double(rule)

    def impl(xp: Any, x: Any) -> Any:
        F = _arrays(xp)
        if x.size <= BLOCK:
            return compose(F, x)
        line, y = x.reshape(-1), xp.empty(x.size, x.dtype)
        for k in range(0, x.size, BLOCK):
            y[k:k + BLOCK] = compose(F, line[k:k + BLOCK])
        return y.reshape(x.shape)

    pointwise(name, 1, doc, impl, compose=compose, **fields)


def square_exponential(F: Any, x: Any) -> Any:
    """exp(x * x) to a few units of the last place: what the square is rounded by counts."""
    x = F.minimum(F.abs(x), 40.0)  # beyond, it is infinite; NaN stays
    head = F.round(x * 16.0) * 0.0625  # its square is exact
    return F.exp(head * head) * F.exp((x - head) * (x + head))
