"""Python's arithmetic on numbers of which at least one is known only at run time.

Ints are exact or raise OverflowError (64 bits); sizes stay sizes under + - * // %, so that shapes computed by the
script can be compared by form. Division by zero raises what Python raises.
"""

import math
from typing import Any

from jitgrad import dims
from jitgrad.dims import Dim, Size, floordiv, is_not_one, is_small, mod
from jitgrad.errors import NotStatic, TypeMismatch
from jitgrad.ops.numbers import FUNCTIONS, NUMBERS, operator_of
from jitgrad.ops.types import BOOL, FLOAT, INT, Type
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import TYPES_APART, Context, Restart
from jitgrad.script.frontend.values.symnumbers import TYPES, Number, size_number
from jitgrad.script.graph.ir import Value

#: ints up to here are floats
EXACT = 1 << 53


def value_of(context: Context, number: Any) -> Value:
    """The graph value of a static or run-time number; a member of an `IntEnum` is its int."""
    if isinstance(number, Number):
        return number.value
    return context.constant(int(number) if isinstance(number, int) and not isinstance(number, bool) else number)


def type_unknown(context: Context) -> Exception:
    """Where the type of a number is asked for that is known only at run time: evaluation begins again with such numbers
    apart; where that was of no use, the refusal."""
    if TYPES_APART not in context.decisions:
        return Restart(TYPES_APART, "numbers of several types are one of several")
    return NotStatic("the type of this number is known only at run time", context.span())


def kind_of(number: Any) -> type:
    """bool, int, float, or `object` where that is known only at run time."""
    return number.number_type if isinstance(number, Number) else type(number)


def wrap(context: Context, value: Value) -> Number:
    """A graph value of a number type as a Number."""
    return Number(context, value, TYPES.get(value.type, object))


def size_of(number: Any) -> Size | None:
    """The size that an int is: itself, or a Number's dim; None for other numbers."""
    if isinstance(number, Number):
        return number.size
    return number if type(number) is int else None


def binary(context: Context, op: str, a: Any, b: Any, checked: bool = True) -> Any:
    """`a op b` for numbers; `op` is add, sub, mul, truediv, floordiv, mod, pow or a bit operation.

    `checked=False` (the library's arithmetic on indices and sizes) is total: it may be evaluated needlessly.
    """
    if not isinstance(a, Number) and not isinstance(b, Number):
        return operator_of(op)(a, b)
    sized = _on_sizes(op, a, b)
    if sized is not None:
        return sized
    kinds, row = (kind_of(a), kind_of(b)), NUMBERS[f"num.{op}"]
    if row.family == "bitwise":
        if float in kinds or object in kinds:
            said = f"unsupported operand type(s) for {row.infix}: '{kinds[0].__name__}' and '{kinds[1].__name__}'"
            raise effects.mistake(context, said, TypeMismatch(said, context.span()))
        return _emit(context, f"num.{op}", a, b, checked=bool(row.raises))
    if op == "pow":
        return _power(context, a, b, kinds)
    if row.raises:
        safe = isinstance(b, (int, float)) and b != 0 and (float in kinds or b > 0) and (
            op != "truediv" or float in kinds or _rounds_never(a))  # a large int is divided by Python
        result = _emit(context, f"num.{op}", a, b, checked=checked and not safe)
        if op == "mod" and type(b) is int and b > 0 and kinds[0] is not float and kinds[0] is not object:
            result.low, result.high = 0, b
        return result
    result = _emit(context, f"num.{op}", a, b, checked=checked and float not in kinds)
    if op == "add" and result.number_type is int:
        low_a, low_b = low_of(a), low_of(b)
        if low_a is not None and low_b is not None:
            result.low = low_a + low_b
    return result


def low_of(number: Any) -> int | None:
    """A lower bound of an int; None if none is known."""
    if isinstance(number, Number):
        learnt = number.context.recall(("low", number.held)) if number.held is not None else None
        return number.low if learnt is None else learnt if number.low is None else max(learnt, number.low)
    return int(number) if isinstance(number, int) else None


def _power(context: Context, a: Any, b: Any, kinds: tuple[type, type]) -> Any:
    if float in kinds:
        return _emit(context, "num.pow", a, b, checked=True)
    if object in kinds:
        raise TypeMismatch("`**` of a number whose type is known only at run time", context.span(),
                           hint="convert it with `float(...)` or `int(...)` first")
    low = low_of(b)
    if low is not None and low >= 0:
        return _emit(context, "num.pow", a, b, checked=True)
    if isinstance(b, int):  # a negative literal exponent gives a float
        return _emit(context, "num.pow", cast(context, a, float), b, checked=True)

    return dispatch.branch(
        context, compare(context, "ge", b, 0), lambda: _emit(context, "num.pow", a, b, checked=True),
        lambda: _emit(context, "num.pow", cast(context, a, float), cast(context, b, float), checked=True))


def power_modulo(context: Context, base: Any, exponent: Any, modulus: Any) -> Any:
    """`pow(base, exponent, modulus)`."""
    if any(kind_of(x) not in (bool, int) for x in (base, exponent, modulus)):
        raise TypeMismatch("pow() 3rd argument not allowed unless all arguments are integers", context.span())
    return exact(context, "pow_modulo", base, exponent, modulus)


def exact(context: Context, fn: str, *args: Any) -> Any:
    """A function that Python computes, of operands of the types that it takes."""
    return _emit_math(context, fn, [value_of(context, a) for a in args])


def _emit_math(context: Context, fn: str, values: list[Value]) -> Number:
    return wrap(context, effects.emit(context, "num.math", *values, fn=fn, checked=True)[0])


def _on_sizes(op: str, a: Any, b: Any) -> Any:
    m, n = size_of(a), size_of(b)
    if m is None or n is None:
        return None
    if op == "add":
        return size_number(n + m if isinstance(m, int) else m + n)
    if op == "sub":
        return size_number(m - n)
    if op == "mul":
        return size_number(n * m if isinstance(m, int) else m * n)
    if op in ("floordiv", "mod") and isinstance(n, int) and n > 0:
        return size_number(floordiv(m, n) if op == "floordiv" else mod(m, n))
    return None


def _emit(context: Context, op: str, *operands: Any, checked: bool) -> Number:
    values = [value_of(context, x) for x in operands]
    known = ("number", op, checked, *values)  # what was computed before is so again, and did not fail
    value = None if context.tries else context.recall(known)
    if value is None:
        (value,) = effects.emit(context, op, *values, checked=True) if checked else (context.one(op, *values),)
    return wrap(context, context.remember(known, value))


def unary(context: Context, op: str, a: Any) -> Any:
    """`-a`, `+a`, `~a`, `abs(a)`."""
    if not isinstance(a, Number):
        return operator_of(op)(a)
    size = a.size
    if size is not None and op == "neg":
        return size_number(-size)
    if size is not None and op in ("pos", "abs") and context.sizes.at_least(size, 0):
        return a
    if op == "pos":
        return cast(context, a, int) if a.number_type is bool else a
    if op == "invert":
        if a.number_type is float or a.number_type is object:
            raise effects.mistake(context, said := "bad operand type for unary ~: 'float'",
                                  TypeMismatch(said, context.span()))
        return _emit(context, "num.invert", a, checked=False)
    return _emit(context, f"num.{op}", a, checked=a.number_type is not float)


def compare(context: Context, op: str, a: Any, b: Any) -> Any:
    """`a op b` for numbers: a bool where the result is known now, else a Number."""
    if not isinstance(a, Number) and not isinstance(b, Number):
        return operator_of(op)(a, b)
    known = _known(context, op, a, b)
    if known is not None:
        return known
    if {kind_of(a), kind_of(b)} == {int, float} and not (_rounds_never(a) or _rounds_never(b)):
        swapped = kind_of(a) is float
        return _of_int_and_float(context, *((NUMBERS[f"num.{op}"].swapped, b, a) if swapped else (op, a, b)))
    result = wrap(context, context.one(f"num.{op}", value_of(context, a), value_of(context, b)))
    if type(b) is int:
        _remember_bounds(context, result, op, a, b)
    elif type(a) is int:
        _remember_bounds(context, result, NUMBERS[f"num.{op}"].swapped, b, a)
    return result


def bounded(number: Number, low: int | None, end: Any) -> Number:
    """The number, which in this block is at least `low` and less than `end`."""
    number.low, number.high = low, size_of(end)
    if isinstance(end, Number) and end.size is None:
        number.context.remember(("below", number.value, end.value), True)
    return number


def _remember_bounds(context: Context, result: Number, op: str, a: Number, b: int) -> None:
    """Note of `a op b`, which is `result`, how large the int `a` is at least where it holds, and where it does not."""
    if a.number_type is not int or a.size is not None:
        return
    above = b + 1 if low_of(a) == b else None  # all that it can be but b
    bounds = {"gt": (b + 1, None), "ge": (b, None), "lt": (None, b), "le": (None, b + 1), "eq": (b, above),
              "ne": (above, b)}[op]
    context.remember(("bounds", result.value), (a.value, *bounds))


def _rounds_never(number: Any) -> bool:
    """Whether what is compared with this is less or greater as a float, too, where it is as it is."""
    if isinstance(number, Number):
        return number.high is not None or (number.size is not None and is_small(number.size))
    return abs(number) <= EXACT or not math.isfinite(number)


def _of_int_and_float(context: Context, op: str, a: Any, b: Any) -> Number:
    """An int and a float compared exactly: as ints where the int, rounded to a float, is equal."""
    i, f = value_of(context, a), value_of(context, b)
    rounded = context.one("num.cast", i, to="float")
    tied = context.one("num.and", context.one("num.eq", rounded, f),
                       context.one("num.lt", f, context.constant(2.0**63)))
    exact = context.one("num.cast", context.one("num.select", tied, f, context.constant(0.0)), to="int")
    return wrap(context, context.one("num.select", tied, context.one(f"num.{op}", i, exact),
                                     context.one(f"num.{op}", rounded, f)))


def _known(context: Context, op: str, a: Any, b: Any) -> bool | None:
    m, n = size_of(a), size_of(b)
    if m is not None and n is not None:
        if m == n:
            return bool(operator_of(op)(0, 0))
        difference = m - n
        if isinstance(difference, int):
            return bool(operator_of(op)(difference, 0))
        if op in ("eq", "ne") and ((n == 1 and is_not_one(m)) or (m == 1 and is_not_one(n))):
            return op == "ne"
        sizes = context.sizes
        if sizes.at_least(difference, 1):
            return bool(operator_of(op)(1, 0))
        if sizes.at_least(difference, 0) and op in ("lt", "ge"):
            return op == "ge"
        if sizes.at_least(-difference, 1):
            return bool(operator_of(op)(-1, 0))
        if sizes.at_least(-difference, 0) and op in ("gt", "le"):
            return op == "le"
    return _by_bounds(op, a, b, n) if isinstance(a, Number) else (
        _by_bounds(NUMBERS[f"num.{op}"].swapped, b, a, m) if isinstance(b, Number) else None)


def _by_bounds(op: str, a: Number, b: Any, size_b: Size | None) -> bool | None:
    if size_b is not None and a.high is not None and op in ("lt", "ge"):
        gap = size_b - a.high
        if a.context.sizes.at_least(gap, 0):
            return op == "lt"
    if op in ("lt", "ge") and isinstance(b, Number) and size_b is None and a.context.recall(
            ("below", a.value, b.value)):
        return op == "lt"
    low = low_of(a) if type(b) is int else None
    if low is not None:
        if op in ("lt", "ge") and low >= b:
            return op == "ge"
        if op in ("gt", "le") and low > b:
            return op == "gt"
        if op in ("eq", "ne") and low > b:
            return op == "ne"
    return None


def truth(context: Context, a: Any) -> Any:
    """`bool(a)` of a number."""
    if not isinstance(a, Number):
        return bool(a)
    if a.number_type is bool:
        return a
    size = a.size
    if size is not None and context.sizes.at_least(size, 1):
        return True
    if a.number_type is object:
        return wrap(context, context.one("num.cast", a.value, to="bool"))
    return compare(context, "ne", a, 0)


def negate(context: Context, a: Any) -> Any:
    """`not a` of a bool."""
    if not isinstance(a, Number):
        return not a
    if a.denies is not None:
        return wrap(context, a.denies)
    result = wrap(context, context.one("num.not", a.value))
    result.denies = a.value
    return result


def both(context: Context, a: Any, b: Any) -> Any:
    """`a and b` of bools that are both evaluated."""
    if not isinstance(a, Number):
        return b if a else False
    if not isinstance(b, Number):
        return a if b else False
    return wrap(context, context.one("num.and", a.value, b.value))


def either(context: Context, a: Any, b: Any) -> Any:
    """`a or b` of bools that are both evaluated."""
    if not isinstance(a, Number):
        return True if a else b
    if not isinstance(b, Number):
        return True if b else a
    return wrap(context, context.one("num.or", a.value, b.value))


def select(context: Context, condition: Any, a: Any, b: Any) -> Any:
    """`a if condition else b` for numbers already evaluated."""
    if not isinstance(condition, Number):
        return a if condition else b
    if a is b:
        return a
    kinds = {kind_of(a), kind_of(b)}
    target = kinds.pop() if len(kinds) == 1 else object
    values = [value_of(context, cast(context, x, target)) for x in (a, b)]
    return wrap(context, context.one("num.select", condition.value, *values))


_NAMES = {bool: "bool", int: "int", float: "float", object: "number"}


def cast(context: Context, a: Any, to: type) -> Any:
    """`to(a)` for `to` bool, int, float; `object` forgets which kind it is."""
    if not isinstance(a, Number):
        return wrap(context, context.one("num.cast", context.constant(a), to="number")) if to is object else to(a)
    if a.number_type is to:
        return a
    if to is bool:
        return truth(context, a)
    if to is int and a.number_type in (float, object):
        return wrap(context, effects.emit(context, "num.cast", a.value, to="int", checked=True)[0])
    return wrap(context, context.one("num.cast", a.value, to=_NAMES[to]))


def convert(context: Context, value: Value, to: Type) -> Value:
    """A number's graph value as another number type (merges)."""
    if value.type == to:
        return value
    return context.one("num.cast", value, to=_NAMES[TYPES.get(to, object)])


def extreme(context: Context, a: Number, b: Any, largest: bool) -> Any:
    """The smaller or larger of two numbers; of two sizes a size, so that `x[1:]` and `x[:-1]` have equal ones."""
    m, n = a.size, size_of(b)
    if m is None or n is None:
        return minimum(context, a, b, largest)
    if context.sizes.at_least(m - n, 0):
        return size_number(m if largest else n)
    if context.sizes.at_least(n - m, 0):
        return size_number(n if largest else m)
    return size_number(dims.call("max" if largest else "min", m, n))


def minimum(context: Context, a: Any, b: Any, largest: bool = False) -> Any:
    """`min(a, b)` or `max(a, b)` as Python: the first of equals."""
    condition = compare(context, "gt" if largest else "lt", b, a)
    if not isinstance(condition, Number):
        return b if condition else a
    if kind_of(a) is int and kind_of(b) is int:
        first, second = size_of(a), size_of(b)
        if first is not None and second is not None:
            return size_number(dims.call("max" if largest else "min", first, second))
        result = wrap(context, context.one("num.max" if largest else "num.min", value_of(context, a),
                                           value_of(context, b)))
        lows = [low_of(a), low_of(b)]
        if None not in lows:
            result.low = max(lows) if largest else min(lows)  # type: ignore[type-var]
        return result
    return select(context, condition, b, a)


def round_(context: Context, a: Any, digits: Any = None) -> Any:
    """`round(a, digits)`: half to even."""
    if not isinstance(a, Number) and not isinstance(digits, Number):
        return round(a, digits)
    if digits is not None:
        if kind_of(a) is object:
            raise TypeMismatch("`round` to digits of a number whose type is known only at run time", context.span(),
                               hint="convert it with `float(...)` or `int(...)` first")
        return exact(context, "round_to", cast(context, a, int) if kind_of(a) is bool else a, digits)
    if a.number_type in (int, bool):
        return cast(context, a, int)
    return _emit_math(context, "round", [a.value])


#: functions of the math module that a script can call with numbers known at run time
KNOWN = frozenset({"frexp", "modf", *(name for name in FUNCTIONS if hasattr(math, name))})


def math_call(context: Context, name: str, args: tuple[Any, ...]) -> Any:
    """`math.<name>(*args)`."""
    if not any(isinstance(a, Number) for a in args):
        return getattr(math, name)(*args)
    row = FUNCTIONS.get(name)
    if row is not None and row.of == FLOAT and row.result == INT and kind_of(args[0]) in (int, bool):
        return cast(context, args[0], int)
    if row is not None and row.of == INT:
        if any(kind_of(a) is float for a in args):
            raise TypeError("'float' object cannot be interpreted as an integer")
        return exact(context, name, *[cast(context, a, int) for a in args])
    if row is None or row.exact or (name == "hypot" and len(args) != 2):
        floats = [a if name == "ldexp" and k else cast(context, a, float) for k, a in enumerate(args)]
        if name in ("frexp", "modf"):
            parts = ("mantissa", "exponent") if name == "frexp" else ("fraction", "whole")
            return tuple([exact(context, part, *floats) for part in parts])
        return exact(context, "norm" if name == "hypot" else name, *floats)
    values = [value_of(context, cast(context, a, float)) for a in args]
    if row.result == BOOL:
        return wrap(context, context.one("num.math", *values, fn=name))
    return _emit_math(context, name, values)


def bind_size(context: Context, number: Any) -> Size:
    """An int as a size: itself, its dim, or a fresh symbol bound to its value."""
    if isinstance(number, bool):
        return int(number)
    if isinstance(number, int):
        return number
    assert isinstance(number, Number)
    size = number.size
    if size is not None:
        return size
    key = ("bound", number.value)
    found = context.recall(key)
    if found is None:
        from jitgrad.dims import Symbol, dim
        from jitgrad.ops.types import INT

        symbol = Symbol()
        value = number.value if number.number_type is int else cast(context, number, int).value
        context.builder.emit("dim.bind", (value,), types=(INT,), binds=(symbol,), symbol=symbol)
        if number.low is None or number.low < 0:
            context.sizes.signed.add(symbol)
        context.ranges[symbol] = (number.low if number.low is not None else -(1 << 62), number.high)
        found = context.remember(key, dim(symbol))
    size_: Dim = found
    return size_
