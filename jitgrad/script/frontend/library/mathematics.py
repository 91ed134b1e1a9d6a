"""Functions of `math` that are composed of others, and those of whole sequences; `int`, `float`, `pow`, `divmod`."""

import math
from collections.abc import Callable
from typing import Any

from jitgrad.ops.backend import backend
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import HANDLERS, Args, Handler, handles
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import numbers, strings
from jitgrad.script.frontend.values.plain import PLAIN
from jitgrad.script.frontend.values.protocol import as_number, binary, call, class_of, is_dynamic, kind_of, type_name
from jitgrad.script.frontend.values.values import Number, SymTensor


def _isclose(context: Context, a: Any, b: Any, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Any:
    """`abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)`, infinities equal only to themselves."""
    x, y = (numbers.cast(context, v, float) for v in (a, b))
    size = numbers.minimum(context, numbers.unary(context, "abs", x), numbers.unary(context, "abs", y), True)
    allowed = numbers.minimum(context, numbers.binary(context, "mul", rel_tol, size), abs_tol, True)
    difference = numbers.unary(context, "abs", numbers.binary(context, "sub", x, y))
    near = numbers.compare(context, "le", difference, allowed)
    finite = numbers.compare(context, "lt", size, math.inf)
    return numbers.either(context, numbers.compare(context, "eq", x, y), numbers.both(context, finite, near))


def _prod(context: Context, items: list[Any], start: Any = 1) -> Any:
    result = start
    for x in items:
        result = binary(context, "mul", result, x)
    return result


def _fsum(context: Context, items: list[Any]) -> Any:
    if not any(isinstance(x, Number) for x in items):
        return math.fsum(items)
    return numbers.exact(context, "fsum", *[numbers.cast(context, x, float) for x in items])


def _dist(context: Context, a: list[Any], b: list[Any]) -> Any:
    if len(a) != len(b):
        raise effects.raise_now(context, ValueError, ("both points must have the same number of dimensions",))
    if not any(isinstance(x, Number) for x in (*a, *b)):
        return math.dist(a, b)
    return numbers.exact(context, "dist", *[numbers.cast(context, x, float) for x in (*a, *b)])


SEQUENCES: dict[str, Callable[..., Any]] = {"prod": _prod, "fsum": _fsum, "dist": _dist}
COMPOSED: dict[str, Callable[..., Any]] = {"isclose": _isclose}


# --- conversions, `pow`, `divmod` ------------------------------------------------------------------------------------


def number_argument(context: Context, value: Any, what: str, *names: str) -> Any:
    """The number that `int`, `float` and kin convert: a number, what a one-element tensor holds, or what the first of
    some dunders gives."""
    value = as_number(context, value, *names)
    value = unions.force(context, value, f"{what}: the argument cannot be None instead of '{{}}'")
    if isinstance(value, SymTensor):
        return effects.guarded(context, lambda: backend().item(value))
    return value


def _conversion(to: type, *names: str) -> Handler:
    def convert(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if not args:
            return to()
        if unions.undecided(args[0]):
            return unions.switch(context, args[0], lambda v: convert(context, (v, *args[1:]), kwargs))
        if is_dynamic(args[0]) and class_of(args[0]) is str:
            return strings.ask(context, to.__name__, *args, **kwargs)
        value = number_argument(context, args[0], f"{to.__name__}()", *names)
        if isinstance(value, Number) and len(args) + len(kwargs) == 1:
            return numbers.cast(context, value, to)
        if not isinstance(value, (Number, *PLAIN)):
            raise effects.raise_now(context, TypeError, (
                f"{to.__name__}() argument must be a string{', a bytes-like object' * (to is int)} or a real number, "
                f"not '{type_name(value)}'",))
        given = 1 if isinstance(value, Number) else value  # with a base, which a number may not have
        return effects.guarded(context, lambda: to(given, *args[1:], **kwargs))
    return convert


HANDLERS[int] = _conversion(int, "__int__", "__index__", "__trunc__")
HANDLERS[float] = _conversion(float, "__float__", "__index__")


@handles(pow)
def _pow(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if len(args) == 3:
        if not any(isinstance(a, Number) for a in args):
            return effects.guarded(context, lambda: pow(*args))
        return numbers.power_modulo(context, *args)
    return binary(context, "pow", args[0], args[1])


@handles(divmod)
def _divmod(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    for one, name, other in ((args[0], "__divmod__", args[1]), (args[1], "__rdivmod__", args[0])):
        method = kind_of(one).method(one, name)
        if method is not None:
            return call(context, method, one, other)
    if not all(issubclass(class_of(a), (int, float)) or class_of(a) is object for a in args):
        raise effects.raise_now(context, TypeError, (
            f"unsupported operand type(s) for divmod(): '{type_name(args[0])}' and '{type_name(args[1])}'",))
    return (binary(context, "floordiv", *args), binary(context, "mod", *args))
