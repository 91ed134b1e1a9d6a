"""Functions of `math`, `operator` and `functools` on values of a script."""

import functools
import math
import operator
from typing import Any

from jitgrad.errors import NotStatic
from jitgrad.ops.numbers import NUMBERS, operator_of
from jitgrad.script.frontend.containers import list_methods, lists
from jitgrad.script.frontend.evaluate.expressions import UNARY
from jitgrad.script.frontend.evaluate.targets import BINARY
from jitgrad.script.frontend.library import mathematics
from jitgrad.script.frontend.library.mathematics import number_argument
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.handlers import HANDLERS, Args, Handler, by_parameters, handles
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import (binary, call, compare, get_attribute, get_item, identical, is_open,
                                                     items_of, kind_of, unary)
from jitgrad.script.frontend.values.values import Function, Method, Number, SymTensor


def _math(name: str) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if name in mathematics.SEQUENCES:
            whole = lists.of_run_time_length(context, args[0]) if name == "prod" else None
            if whole is not None:
                return call(context, list_methods.product, whole, kwargs.get("start", 1))
            return mathematics.SEQUENCES[name](context, *[items_of(context, a) for a in args], **kwargs)
        dunders = f"__{name}__", "__float__", "__index__"
        given = tuple(number_argument(context, a, f"math.{name}()", *dunders) for a in args)
        if name in mathematics.COMPOSED and any(isinstance(a, Number) for a in given):
            return mathematics.COMPOSED[name](context, *given, **kwargs)
        if kwargs:
            return effects.guarded(context, lambda: getattr(math, name)(*given, **kwargs))
        if any(isinstance(a, Number) for a in given) and name not in numbers.KNOWN:
            raise NotStatic(f"`math.{name}` of a number that is known only at run time", context.span())
        if name == "log" and len(given) == 2 and any(isinstance(a, Number) for a in given):
            top, bottom = (numbers.math_call(context, "log", (a,)) for a in given)
            return numbers.binary(context, "truediv", top, bottom)
        return effects.guarded(context, lambda: numbers.math_call(context, name, given))
    return handler


for _name in dir(math):
    if callable(getattr(math, _name)) and not _name.startswith("_"):
        HANDLERS[getattr(math, _name)] = _math(_name)


for _verb, _names in ((unary, UNARY.values()), (binary, BINARY.values()),
                      (compare, [row.name for row in NUMBERS.values() if row.family == "comparison"])):
    for _name in _names:
        HANDLERS[operator_of(_name)] = by_parameters(_verb, _name)
HANDLERS[operator.inv] = HANDLERS[operator.invert]
HANDLERS[operator.is_], HANDLERS[operator.getitem] = by_parameters(identical), by_parameters(get_item)


def _of_its_own(context: Context, name: str, *args: Any) -> Any:
    """What a class in Python says by a method; NotImplemented where it has none."""
    method = kind_of(args[0]).method(args[0], name)
    return NotImplemented if method is None else call(context, method, *args)


@handles(abs, operator.abs)
def _abs(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    (value,) = args
    if unions.undecided(value):
        return unions.switch(context, value, lambda one: _abs(context, (one,), kwargs))
    found = _of_its_own(context, "__abs__", value)
    if found is not NotImplemented:
        return found
    return effects.guarded(context, lambda: abs(value) if isinstance(value, SymTensor) else numbers.unary(
        context, "abs", value))


@handles(round)
def _round(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    digits = args[1] if len(args) > 1 else kwargs.get("ndigits")
    value = unions.force(context, args[0], "type {} doesn't define __round__ method")
    if isinstance(value, SymTensor):
        raise effects.raise_now(context, TypeError, ("type Tensor doesn't define __round__ method",))
    found = _of_its_own(context, "__round__", value, *(() if digits is None else (digits,)))
    if found is not NotImplemented:
        return found
    if not isinstance(digits, Number):
        effects.guarded(context, lambda: round(0.0, digits))  # that these are digits
    return effects.guarded(context, lambda: numbers.round_(context, value, digits))


@handles(operator.is_not)
def _is_not(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return numbers.negate(context, identical(context, *args))


@handles(operator.itemgetter)
def _itemgetter(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    def pick(cx: Context, given: Args, named: dict[str, Any]) -> Any:
        found = tuple([get_item(cx, given[0], key) for key in args])
        return found[0] if len(found) == 1 else found

    return Method("itemgetter", pick)


@handles(operator.methodcaller)
def _methodcaller(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    name, *rest = args
    return Method("methodcaller", lambda cx, given, named: call(
        cx, get_attribute(cx, given[0], static(cx, name, "the name of a method")), *rest, **kwargs))


@handles(operator.attrgetter)
def _attrgetter(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    def pick(cx: Context, given: Args, named: dict[str, Any]) -> Any:
        found = []
        for path in args:
            value = given[0]
            for name in path.split("."):
                value = get_attribute(cx, value, name)
            found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    return Method("attrgetter", pick)


@handles(functools.reduce)
def _reduce(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if is_open(context, args[1]):
        return call(context, list_methods.reduced, *args)
    items = [*args[2:], *items_of(context, args[1])]
    if not items:
        raise effects.raise_now(context, TypeError, ("reduce() of empty iterable with no initial value",))
    result = items[0]
    for x in items[1:]:
        result = call(context, args[0], result, x)
    return result


@handles(functools.wraps)
def _wraps(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    def wrap(cx: Context, given: Args, named: dict[str, Any]) -> Any:
        if isinstance(given[0], Function):
            given[0].name = get_attribute(cx, args[0], "__name__")
        return given[0]

    return Method("wraps", wrap)


@handles(functools.partial)
def _partial(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    fn, given, named = args[0], args[1:], dict(kwargs)
    return Method("partial", lambda cx, more, extra: call(cx, fn, *given, *more, **{**named, **extra}))


@handles(functools.lru_cache)
def _cache(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if args and isinstance(args[0], Function):
        return call(context, list_methods.cached, args[0])
    return Method("lru_cache", lambda cx, given, named: call(cx, list_methods.cached, *given))
