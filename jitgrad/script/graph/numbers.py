"""What the number ops of the graph compute, on Python numbers: for the interpreter and for constant folding.

With `checked=True` an op raises what Python would, and OverflowError where a result needs more than 64 bits. Without
it every op is total: int results wrap, int division by zero and a shift by a negative count give 0, floats follow
IEEE 754.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitgrad.ops.types import BOOL, FLOAT, INT, Type
from jitgrad.script.graph import irops

Number = bool | int | float

#: the text of the OverflowError of an int that needs more than 64 bits
OVERFLOW = "Python int too large to convert to C long"
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


def compute(op: str, args: tuple[Number, ...], attrs: Mapping[str, Any], type_: Type) -> Number:
    """The value of a `num.*` node. `type_` is its output's type (an int may become a float in it).

    Raises OverflowError, ZeroDivisionError or ValueError, worded as Python's, if `checked` is among the attrs.
    """
    checked = bool(attrs.get("checked"))
    if op == "num.const":
        value: Number = attrs["value"]
        return value
    if op == "num.cast":
        return _cast(args[0], attrs["to"], checked)
    if op == "num.math":
        return (_exact if irops.is_exact(op, attrs) else _math)(attrs["fn"], args, checked, type_)
    if op == "num.select":
        return args[1] if args[0] else args[2]
    result = _EXACT[op](*args) if checked else _total(op, args, type_)
    return _fit(result, checked, type_)


def _fit(result: Any, checked: bool, type_: Type) -> Number:
    """A result as a number of the output's type."""
    if type_ == FLOAT:
        return float(result)
    if type_ == BOOL:
        return bool(result)
    if isinstance(result, bool):
        return int(result) if type_ == INT else result
    if isinstance(result, int) and not _LOW <= result <= _HIGH:
        if checked:
            raise OverflowError(OVERFLOW)
        return wrap(result)
    number: Number = result
    return number


def wrap(value: int) -> int:
    """`value` modulo 2^64, as a signed number."""
    return (value - _LOW) % (1 << 64) + _LOW


_EXACT: dict[str, Callable[..., Any]] = {
    "num.add": operator.add, "num.sub": operator.sub, "num.mul": operator.mul, "num.floordiv": operator.floordiv,
    "num.mod": operator.mod, "num.pow": operator.pow, "num.truediv": operator.truediv,
    "num.min": min, "num.max": max,
    "num.eq": operator.eq, "num.ne": operator.ne, "num.lt": operator.lt, "num.le": operator.le,
    "num.gt": operator.gt, "num.ge": operator.ge,
    "num.and": operator.and_, "num.or": operator.or_, "num.xor": operator.xor,
    "num.lshift": operator.lshift, "num.rshift": operator.rshift,
    "num.neg": operator.neg, "num.abs": abs, "num.invert": lambda v: ~int(v), "num.not": operator.not_,
}


def _total(op: str, args: tuple[Number, ...], type_: Type) -> Any:
    """The op where Python may raise, without raising."""
    if op == "num.lshift":
        count = int(args[1])
        return int(args[0]) << count if 0 <= count < 64 else 0
    if op == "num.rshift":
        return int(args[0]) >> int(args[1]) if args[1] >= 0 else 0
    if op == "num.pow":
        return _total_pow(*args)
    if op in ("num.truediv", "num.floordiv", "num.mod") and args[1] == 0:
        if op == "num.truediv" or isinstance(args[0], float) or isinstance(args[1], float):
            return _ieee(np.true_divide if op != "num.mod" else np.fmod, *args)
        return 0
    try:
        return _EXACT[op](*args)
    except OverflowError:  # an int beyond a float's range
        return math.inf


def _total_pow(base: Number, exponent: Number) -> Any:
    if isinstance(base, float) or isinstance(exponent, float):
        return _ieee(np.power, base, exponent)
    if exponent >= 0:
        return wrap(pow(int(base), int(exponent), 1 << 64))
    return int(base) ** (int(exponent) % 2) if base in (1, -1) else 0  # towards zero, as a C integer power


def _ieee(fn: Callable[..., Any], *args: Number) -> float:
    with np.errstate(all="ignore"):
        return float(fn(*[np.float64(a) for a in args]))


def _cast(value: Number, to: str, checked: bool) -> Number:
    if to == "number":
        return value
    if to == "bool":
        return bool(value)
    if to == "float":
        return float(value)
    if isinstance(value, float) and not checked:  # saturates; NaN is 0
        return 0 if math.isnan(value) else _HIGH if value >= 2.0**63 else _LOW if value <= -(2.0**63) else int(value)
    return _fit(int(value), checked, INT)


def _round_to(value: Number, digits: int) -> Number:
    return round(value, digits)


#: functions of exact or correctly rounded results, for which there is no short native form
EXACT: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in ("gcd", "lcm", "factorial", "comb", "perm", "isqrt", "remainder",
                                              "nextafter", "ulp", "ldexp")},
    "pow_modulo": pow, "round_to": _round_to, "norm": math.hypot,
    "mantissa": lambda x: math.frexp(x)[0], "exponent": lambda x: math.frexp(x)[1],
    "fraction": lambda x: math.modf(x)[0], "whole": lambda x: math.modf(x)[1],
    "fsum": lambda *xs: math.fsum(xs), "dist": lambda *xs: math.dist(xs[:len(xs) // 2], xs[len(xs) // 2:]),
}


def _exact(fn: str, args: tuple[Number, ...], checked: bool, type_: Type) -> Number:
    """One of `EXACT`; unchecked, 0 or NaN where Python raises."""
    try:
        return _fit(EXACT[fn](*args), checked, type_)
    except (ArithmeticError, ValueError):
        if checked:
            raise
        return math.nan if type_ == FLOAT else 0


_NUMPY_NAMES = {"acos": "arccos", "asin": "arcsin", "atan": "arctan", "atan2": "arctan2", "acosh": "arccosh",
                "asinh": "arcsinh", "atanh": "arctanh", "pow": "power"}


def _math(fn: str, args: tuple[Number, ...], checked: bool, type_: Type) -> Number:
    """A function of Python's math module (or `round`); unchecked, IEEE's answer where Python raises."""
    function: Callable[..., Any] = round if fn == "round" else getattr(math, fn)
    try:
        return _fit(function(*args), checked, type_)
    except (ValueError, OverflowError):
        if checked:
            raise
    if type_ == INT:  # floor and kin of an infinity or NaN
        return _cast(float(args[0]), "int", False)
    if fn in ("gamma", "lgamma"):
        return math.inf if args[0] == math.inf or fn == "lgamma" else math.nan
    return _ieee(getattr(np, _NUMPY_NAMES.get(fn, fn)), *args)
