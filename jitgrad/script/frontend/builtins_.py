"""Builtin functions, and functions of the standard library, on values of a script: function -> handler."""

from __future__ import annotations

import ast
import builtins
import functools
import math
import operator
import os
import types
import warnings
from collections.abc import Callable
from typing import Any

from jitgrad.errors import NotStatic, UnsupportedCall
from jitgrad.ops.backend import backend
from jitgrad.script.frontend import (
    calls,
    containers,
    contents,
    listlib,
    lists,
    mathematics,
    merge,
    numbers,
    strings,
    subscripts,
)
from jitgrad.script.frontend import iteration as it
from jitgrad.script.frontend.attributes import delete_attribute, getattribute, has_attribute, setattribute
from jitgrad.script.frontend.comprehensions import new_set
from jitgrad.script.frontend.context import Context
from jitgrad.script.frontend.generators import Generator
from jitgrad.script.frontend.printing import print_
from jitgrad.script.frontend.values import (
    Function,
    Instance,
    Method,
    Number,
    Range,
    SymDict,
    SymList,
    SymTensor,
    Text,
    Union,
    is_dynamic,
    type_word,
)

Args = tuple[Any, ...]
Handler = Callable[[Context, Args, dict[str, Any]], Any]
HANDLERS: dict[Any, Handler] = {}


def _handles(*functions: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for f in functions:
            HANDLERS[f] = handler
        return handler
    return register


@_handles(len)
def _len(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return calls.guarded(context, lambda: contents.length(context, args[0]))


@_handles(range)
def _range(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    given = []
    for a in args:
        if isinstance(a, SymTensor):
            a = calls.guarded(context, lambda a=a: backend().item(a))  # type: ignore[misc]
        if (isinstance(a, Number) and a.number_type is float) or isinstance(a, float):
            raise merge.raise_now(context, TypeError, ("'float' object cannot be interpreted as an integer",))
        given.append(a)
    if not any(isinstance(a, Number) for a in given):
        return calls.guarded(context, lambda: range(*given))
    start, stop, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    return Range(start, stop, step)


@_handles(enumerate)
def _enumerate(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)
    return it.enumerated(context, _iterable(context, args[0]), start)


@_handles(zip)
def _zip(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    parts = [_iterable(context, a) for a in args]
    return calls.guarded(context, lambda: it.zipped(context, parts, bool(kwargs.get("strict"))))


@_handles(reversed)
def _reversed(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return it.reversed_(context, _iterable(context, args[0]))


@_handles(iter)
def _iter(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return _iterable(context, args[0])


def _iterable(context: Context, value: Any) -> it.Iterable:
    found = calls.guarded(context, lambda: it.Iterable.of(context, value))
    assert isinstance(found, it.Iterable)
    return found


@_handles(print)
def _print(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    print_(context, args, kwargs)


@_handles(isinstance)
def _isinstance(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    value, classes = args
    flat: list[Any] = []
    pending = [classes]
    while pending:
        c = pending.pop()
        if isinstance(c, tuple):
            pending += list(c)
        elif isinstance(c, types.UnionType):
            pending += list(c.__args__)
        else:
            flat.append(c)
    if isinstance(value, Union):
        return merge.switch(context, value, lambda v: _isinstance(context, (v, classes), {}))
    if isinstance(value, SymTensor):
        original = context.inputs.tensors.get(value.storage.input) if not value.path else None
        if original is not None:
            return isinstance(original, tuple(flat))
        from jitgrad.eager.tensor import Tensor

        return any(issubclass(Tensor, c) for c in flat if isinstance(c, type))
    if isinstance(value, Number) and value.number_type is object:
        answers = {any(issubclass(kind, c) for c in flat if isinstance(c, type)) for kind in (bool, int, float)}
        if len(answers) == 1:
            return answers.pop()
        raise NotStatic("the type of this number is known only at run time", context.span())
    kind = _type(context, (value,), {})
    return any(issubclass(kind, c) for c in flat if isinstance(c, type))


@_handles(type)
def _type(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    value = args[0]
    if isinstance(value, SymTensor):
        from jitgrad.eager.tensor import Tensor

        return Tensor
    if isinstance(value, Number):
        return value.number_type
    for cls, real in ((SymList, list), (SymDict, dict), (Range, range), (Function, types.FunctionType),
                      (Method, types.MethodType), (Text, str), (Generator, types.GeneratorType)):
        if isinstance(value, cls):
            return real
    if isinstance(value, (Instance, calls.ExceptionValue)):
        return value.cls
    if isinstance(value, Union):
        raise NotStatic(f"the type of {type_word(value)} is known only at run time", context.span())
    return type(value)


@_handles(issubclass)
def _issubclass(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return calls.guarded(context, lambda: issubclass(*args))


@_handles(callable)
def _callable(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return isinstance(args[0], (Function, Method)) or (not is_dynamic(args[0]) and callable(args[0]))


@_handles(id)
def _id(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    raise UnsupportedCall("`id` inside a script", context.span(), hint="compare objects with `is`")


@_handles(getattr)
def _getattr(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    name = calls.static(context, args[1], "the attribute's name")
    if len(args) == 3 and not has_attribute(context, args[0], name):
        return args[2]
    return getattribute(context, args[0], name)


@_handles(delattr)
def _delattr(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    delete_attribute(context, args[0], calls.static(context, args[1], "the attribute's name"))


@_handles(hasattr)
def _hasattr(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return has_attribute(context, args[0], calls.static(context, args[1], "the attribute's name"))


@_handles(setattr)
def _setattr(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    setattribute(context, args[0], calls.static(context, args[1], "the attribute's name"), args[2])


@_handles(super)
def _super(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if len(args) == 2:
        return calls.Super(args[0], args[1])
    frame = context.frame
    function: Any = frame.function
    code = getattr(function, "__code__", None)
    if code is None or "__class__" not in code.co_freevars:
        raise UnsupportedCall("`super()` outside a method", context.span())
    owner = function.__closure__[code.co_freevars.index("__class__")].cell_contents
    return calls.Super(owner, context.state.values[(frame.id, frame.scope.parameters[0])])


# --- numbers -------------------------------------------------------------------------------------------------------


def _number(context: Context, value: Any, what: str) -> Any:
    """The number that `int`, `float` and kin convert: a number, or what a one-element tensor holds."""
    value = merge.force(context, value, f"{what}: the argument cannot be None instead of '{{}}'")
    if isinstance(value, SymTensor):
        return calls.guarded(context, lambda: backend().item(value))
    return value


def _conversion(to: type) -> Handler:
    def convert(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if not args:
            return to()
        value = _number(context, args[0], f"{to.__name__}()")
        if isinstance(value, Number):
            return numbers.cast(context, value, to)
        if is_dynamic(value) or not isinstance(value, calls.PLAIN):
            raise merge.raise_now(context, TypeError, (
                f"{to.__name__}() argument must be a string or a real number, not '{calls.type_name(value)}'",))
        return calls.guarded(context, lambda: to(value, *args[1:]))
    return convert


HANDLERS[int], HANDLERS[float] = _conversion(int), _conversion(float)


@_handles(bool)
def _bool(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    from jitgrad.script.frontend.expressions import truth

    return truth(context, args[0]) if args else False


@_handles(abs, operator.abs)
def _abs(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    value = args[0]
    if isinstance(value, SymTensor):
        return calls.guarded(context, lambda: abs(value))
    return calls.guarded(context, lambda: numbers.unary(context, "abs", value))


@_handles(round)
def _round(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    digits = args[1] if len(args) > 1 else kwargs.get("ndigits")
    value = args[0]
    if isinstance(value, SymTensor):
        tensor: Any = value
        return calls.guarded(context, lambda: tensor.round() if digits is None else tensor.round(decimals=digits))
    return numbers.round_(context, value, digits)


@_handles(pow)
def _pow(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    from jitgrad.script.frontend.expressions import binary

    if len(args) == 3:
        if not any(isinstance(a, Number) for a in args):
            return calls.guarded(context, lambda: pow(*args))
        return numbers.power_modulo(context, *args)
    return binary(context, "pow", args[0], args[1])


@_handles(divmod)
def _divmod(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    from jitgrad.script.frontend.expressions import binary

    return (binary(context, "floordiv", *args), binary(context, "mod", *args))


def _extreme(largest: bool) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        whole = lists.of_run_time_length(context, args[0]) if len(args) == 1 else None
        if whole is not None:
            return calls.call(context, listlib.largest if largest else listlib.smallest, (whole,), kwargs)
        items = contents.items_of(context, args[0]) if len(args) == 1 else list(args)
        if not items:
            if "default" in kwargs:
                return kwargs["default"]
            return calls.guarded(context, lambda: (max if largest else min)([]))
        key = kwargs.get("key")
        if key is None:
            result = items[0]
            for x in items[1:]:
                result = _better(context, result, x, largest)
            return result
        best, measure = items[0], calls.call(context, key, (items[0],), {})
        for x in items[1:]:
            best, measure = _better_by(context, best, measure, x, calls.call(context, key, (x,), {}), largest)
        return best

    return handler


def _better_by(context: Context, best: Any, measure: Any, item: Any, other: Any, largest: bool) -> tuple[Any, Any]:
    """The better of two items by their keys."""
    from jitgrad.script.frontend.expressions import compare, truth

    test = truth(context, compare(context, ast.Gt() if largest else ast.Lt(), other, measure))
    if not isinstance(test, Number):
        return (item, other) if test else (best, measure)
    chosen = merge.branch(context, test, lambda: (item, other), lambda: (best, measure))
    return chosen[0], chosen[1]


def _better(context: Context, a: Any, b: Any, largest: bool) -> Any:
    kinds = (bool, int, float, Number)
    if isinstance(a, kinds) and isinstance(b, kinds):
        return numbers.minimum(context, a, b, largest)
    if isinstance(a, SymTensor) or isinstance(b, SymTensor):
        from jitgrad.script.frontend.expressions import truth

        test = truth(context, calls.guarded(context, lambda: calls.DUNDER["gt" if largest else "lt"](b, a)))
        if not isinstance(test, Number):
            return b if test else a
        return merge.branch(context, test, lambda: b, lambda: a)
    return calls.guarded(context, lambda: (max if largest else min)(a, b))


HANDLERS[min], HANDLERS[max] = _extreme(False), _extreme(True)


@_handles(sum)
def _sum(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    from jitgrad.script.frontend.expressions import binary

    result: Any = kwargs.get("start", args[1] if len(args) > 1 else 0)
    whole = lists.of_run_time_length(context, args[0])
    if whole is not None:
        function = listlib.total_of_tensors if lists.holds_tensors(context, whole) else listlib.total
        return calls.call(context, function, (whole, result), {})
    for x in contents.items_of(context, args[0]):
        result = binary(context, "add", result, x)
    return result


def _quantifier(all_: bool) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        from jitgrad.script.frontend.expressions import truth

        if isinstance(args[0], (Generator, it.Iterable)):  # no item is asked for after the one that decides
            return calls.call(context, listlib.every if all_ else listlib.some, args, {})
        whole = lists.of_run_time_length(context, args[0])
        if whole is not None:
            return calls.call(context, listlib.every if all_ else listlib.some, (whole,), {})
        result: Any = all_
        for x in contents.items_of(context, args[0]):
            test = truth(context, x)
            result = (numbers.both if all_ else numbers.either)(context, result, test)
        return result

    return handler


HANDLERS[all], HANDLERS[any] = _quantifier(True), _quantifier(False)


# --- containers ----------------------------------------------------------------------------------------------------


@_handles(tuple)
def _tuple(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return tuple(contents.items_of(context, args[0])) if args else ()


@_handles(list)
def _list(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if args and isinstance(args[0], SymList):
        return lists.new(context, lists.content(context, args[0]))
    if args and lists.is_open(context, args[0]):
        return calls.call(context, listlib.collected, args, {})
    return contents.new_list(context, contents.items_of(context, args[0]) if args else [])


@_handles(dict)
def _dict(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return contents.new_dict(context, {**(containers.pairs(context, args[0]) if args else {}), **kwargs})


@_handles(dict.fromkeys)
def _fromkeys(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    value = args[1] if len(args) > 1 else None
    return contents.new_dict(context, {calls.static(context, k, "a dict key"): value
                                    for k in contents.items_of(context, args[0])})


@_handles(sorted)
def _sorted(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return lists.new(context, containers.ordered(context, args[0], kwargs.get("key"), kwargs.get("reverse", False)))


def _set_of(cls: type) -> Handler:
    return lambda context, args, kwargs: new_set(context, contents.items_of(context, args[0]) if args else [], cls)


HANDLERS[set], HANDLERS[frozenset] = _set_of(set), _set_of(frozenset)


@_handles(filter)
def _filter(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    from jitgrad.script.frontend.expressions import truth

    kept: list[Any] = []
    source = args[1]
    items = None if lists.is_open(context, source) else contents.items_of(context, source)
    if items is None:
        made = calls.call(context, listlib.filtered, (bool if args[0] is None else args[0], source), {})
        return _iterable(context, made)
    for item in items:
        test = truth(context, item if args[0] is None else calls.call(context, args[0], (item,), {}))
        if isinstance(test, Number):
            function = bool if args[0] is None else args[0]
            return _iterable(context, calls.call(context, listlib.filtered, (function, it.sequence(items)), {}))
        if test:
            kept.append(item)
    return it.sequence(kept)


@_handles(map)
def _map(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    parts = [_iterable(context, a) for a in args[1:]]
    joined = it.zipped(context, parts, False)
    return it.Iterable(joined.length, lambda cx, k: calls.call(cx, args[0], joined.item(cx, k), {}), joined.unrolled)


def _text(conversion: str) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        return strings.text(context, [(args[0], conversion, "")] if args else [])
    return handler


HANDLERS[str], HANDLERS[repr], HANDLERS[ascii] = _text("s"), _text("r"), _text("a")


@_handles(format)
def _format(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    spec = calls.static(context, args[1], "a format specification") if len(args) > 1 else ""
    return strings.text(context, [(args[0], "", spec)])


@_handles(functools.partial)
def _partial(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    fn, given, named = args[0], args[1:], dict(kwargs)
    return Method("partial", lambda cx, more, extra: calls.call(cx, fn, (*given, *more), {**named, **extra}))


@_handles(warnings.warn)
def _warn(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    raise UnsupportedCall("`warnings.warn` inside a script", context.span(), hint="warn outside the script")


def _refused(name: str) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        raise UnsupportedCall(f"`{name}` inside a script", context.span(),
                              hint="call it outside the script, or in a function marked `@jitgrad.ignore`")
    return handler


for _name in ("eval", "exec", "compile", "open", "input", "globals", "locals", "vars", "next", "__import__",
              "breakpoint", "memoryview", "bytearray", "object"):
    HANDLERS[getattr(builtins, _name)] = _refused(_name)


# --- math and operator ---------------------------------------------------------------------------------------------


def _math(name: str) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if name in mathematics.SEQUENCES:
            whole = lists.of_run_time_length(context, args[0]) if name == "prod" else None
            if whole is not None:
                return calls.call(context, listlib.product, (whole, kwargs.get("start", 1)), {})
            return mathematics.SEQUENCES[name](context, *[contents.items_of(context, a) for a in args], **kwargs)
        given = tuple(_number(context, a, f"math.{name}()") for a in args)
        if name in mathematics.COMPOSED and any(isinstance(a, Number) for a in given):
            return mathematics.COMPOSED[name](context, *given, **kwargs)
        if kwargs:
            return calls.guarded(context, lambda: getattr(math, name)(*given, **kwargs))
        if any(isinstance(a, Number) for a in given) and name not in numbers.KNOWN:
            raise NotStatic(f"`math.{name}` of a number that is known only at run time", context.span())
        if name == "log" and len(given) == 2 and any(isinstance(a, Number) for a in given):
            top, bottom = (numbers.math_call(context, "log", (a,)) for a in given)
            return numbers.binary(context, "truediv", top, bottom)
        return calls.guarded(context, lambda: numbers.math_call(context, name, given))
    return handler


for _name in dir(math):
    if callable(getattr(math, _name)) and not _name.startswith("_"):
        HANDLERS[getattr(math, _name)] = _math(_name)


def _operator(op: str) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        from jitgrad.script.frontend.expressions import binary

        return binary(context, op, args[0], args[1])
    return handler


_UNARY = {"neg": ast.USub, "pos": ast.UAdd, "invert": ast.Invert, "inv": ast.Invert}
_COMPARISONS = {"eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE,
                "is_": ast.Is, "is_not": ast.IsNot}


def _unary_operator(name: str) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        from jitgrad.script.frontend.expressions import unary

        return unary(context, _UNARY[name](), args[0])
    return handler


def _comparison(name: str) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        from jitgrad.script.frontend.expressions import compare

        return compare(context, _COMPARISONS[name](), args[0], args[1])
    return handler


for _name in _UNARY:
    HANDLERS[getattr(operator, _name)] = _unary_operator(_name)
for _name in _COMPARISONS:
    HANDLERS[getattr(operator, _name)] = _comparison(_name)


@_handles(operator.itemgetter)
def _itemgetter(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    def pick(cx: Context, given: Args, named: dict[str, Any]) -> Any:
        found = tuple([subscripts.getitem(cx, given[0], key) for key in args])
        return found[0] if len(found) == 1 else found

    return Method("itemgetter", pick)


@_handles(operator.attrgetter)
def _attrgetter(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    def pick(cx: Context, given: Args, named: dict[str, Any]) -> Any:
        found = []
        for path in args:
            value = given[0]
            for name in path.split("."):
                value = getattribute(cx, value, name)
            found.append(value)
        return found[0] if len(found) == 1 else tuple(found)

    return Method("attrgetter", pick)


@_handles(functools.reduce)
def _reduce(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    items = [*args[2:], *contents.items_of(context, args[1])]
    if not items:
        raise merge.raise_now(context, TypeError, ("reduce() of empty iterable with no initial value",))
    result = items[0]
    for x in items[1:]:
        result = calls.call(context, args[0], (result, x), {})
    return result


@_handles(functools.wraps)
def _wraps(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return Method("wraps", lambda cx, given, named: given[0])


for _name, _op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "truediv"), ("floordiv", "floordiv"),
                   ("mod", "mod"), ("pow", "pow"), ("matmul", "matmul"), ("and_", "and"), ("or_", "or"),
                   ("xor", "xor"), ("lshift", "lshift"), ("rshift", "rshift")):
    HANDLERS[getattr(operator, _name)] = _operator(_op)


@_handles(operator.getitem)
def _getitem(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return subscripts.getitem(context, args[0], args[1])


# --- this library --------------------------------------------------------------------------------------------------


def _is_grad_enabled(context: Context, args: Any, kwargs: Any) -> bool:
    context.gradient_state = True
    return context.grad


def _checkpoint(context: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`utils.checkpoint.checkpoint`: the call, between the marks of a region (see `autodiff.regions`)."""
    function, *rest = args
    if kwargs.pop("context_fn", None) is not None:
        raise UnsupportedCall("`checkpoint` with `context_fn`", context.span(),
                              hint="enter the context inside the function")
    for option in ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop"):
        kwargs.pop(option, None)
    if not context.grad:
        return calls.call(context, function, tuple(rest), kwargs)
    number = -1 - len(_open)  # by nesting; those of loops in segments count upwards
    _open.append(number)
    try:
        context.builder.emit("region.begin", (), types=(), number=number)
        result = calls.call(context, function, tuple(rest), kwargs)
        context.builder.emit("region.end", (), types=(), number=number)
    finally:
        _open.pop()
    return result


_open: list[int] = []


def _refuse(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    span = context.span()
    while span is not None and span.caller is not None and span.file.startswith(_PACKAGE):
        span = span.caller  # the user's own line
    raise UnsupportedCall(args[0], span, hint=args[1])


_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _register_library() -> None:
    from jitgrad.eager import engine, grad_mode
    from jitgrad.eager.function import Function as CustomFunction
    from jitgrad.jit import is_scripting
    from jitgrad.script.frontend import customs, gradients, modules
    from jitgrad.script.marks import refuse
    from jitgrad.utils.checkpoint import checkpoint

    HANDLERS[engine.backward] = lambda context, args, kwargs: gradients.backward_of(context, *args, **kwargs)
    HANDLERS[engine.grad] = lambda context, args, kwargs: gradients.grad(context, *args, **kwargs)

    HANDLERS[grad_mode.is_grad_enabled] = _is_grad_enabled
    HANDLERS.update(modules.handlers())
    HANDLERS[checkpoint] = _checkpoint
    HANDLERS[CustomFunction.apply.__func__] = customs.apply  # type: ignore[attr-defined]
    HANDLERS[refuse] = _refuse
    HANDLERS[is_scripting] = lambda context, args, kwargs: True


_register_library()

__all__ = ["HANDLERS"]
