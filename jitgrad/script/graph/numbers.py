"""What the number ops of the graph compute, on Python numbers: for the interpreter and for constant folding.

With `checked=True` an op raises what Python would, and OverflowError where a result needs more than 64 bits. Without
it every op is total: int results wrap, int division by zero and a shift by a negative count give 0, floats follow
IEEE 754.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitgrad.ops.numbers import FUNCTIONS, NUMBERS, Function, may_divide_by_zero
from jitgrad.ops.types import BOOL, FLOAT, INT, Type

Number = bool | int | float

#: the text of the OverflowError of an int that needs more than 64 bits
OVERFLOW = "Python int too large to convert to C long"
COMPLEX = ("a negative number to the power of a fraction is complex, and the type of a script's number is known before "
           "it runs: write `complex(a) ** b`")
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


def compute(op: str, args: tuple[Number, ...], attrs: Mapping[str, Any], type_: Type) -> Number:
    """The value of a `num.*` node. `type_` is its output's type (an int may become a float in it).

    Raises OverflowError, ZeroDivisionError or ValueError, worded as Python's, if `checked` is among the attrs, and
    TypeError where Python's result is complex.
    """
    checked = bool(attrs.get("checked"))
    if op == "num.const":
        value: Number = attrs["value"]
        return value
    if op == "num.cast":
        return _cast(args[0], attrs["to"], checked)
    if op == "num.math":
        return _function(FUNCTIONS[attrs["fn"]], args, checked, type_)
    result = NUMBERS[op].python(*args) if checked else _total(op, args)
    return _fit(result, checked, type_)


def _fit(result: Any, checked: bool, type_: Type) -> Number:
    """A result as a number of the output's type."""
    if isinstance(result, complex):
        raise TypeError(COMPLEX)
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


def _total(op: str, args: tuple[Number, ...]) -> Any:
    """The op where Python may raise, without raising."""
    if op == "num.lshift":
        count = int(args[1])
        return int(args[0]) << count if 0 <= count < 64 else 0
    if op == "num.rshift":
        return int(args[0]) >> int(args[1]) if args[1] >= 0 else 0
    if op == "num.pow":
        return _total_pow(*args)
    if may_divide_by_zero(op) and args[1] == 0:
        if op == "num.truediv" or isinstance(args[0], float) or isinstance(args[1], float):
            return _ieee(np.true_divide if op != "num.mod" else np.fmod, *args)
        return 0
    try:
        return NUMBERS[op].python(*args)
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


def _function(function: Function, args: tuple[Number, ...], checked: bool, type_: Type) -> Number:
    """A function of Python's; unchecked, 0 or NaN where it raises, of one that native code has IEEE's answer."""
    try:
        return _fit(function.python(*args), checked, type_)
    except (ArithmeticError, ValueError):
        if checked:
            raise
    if function.exact:
        return math.nan if type_ == FLOAT else 0
    if type_ == INT:  # floor and kin of an infinity or NaN
        return _cast(float(args[0]), "int", False)
    if function.name in ("gamma", "lgamma"):
        return math.inf if args[0] == math.inf or function.name == "lgamma" else math.nan
    return _ieee(getattr(np, function.numpy), *args)
