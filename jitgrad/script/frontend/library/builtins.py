"""Python's builtin functions on values of a script."""

import builtins
import types
from collections.abc import Callable
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.backend import backend
from jitgrad.ops.library.sizes import Size
from jitgrad.ops.texts import METHODS
from jitgrad.script.frontend.containers import (contents, generators, iteration as it, list_methods, lists, mappings,
                                                sequences)
from jitgrad.script.frontend.containers.generators import Generator
from jitgrad.script.frontend.evaluate import loops, merge
from jitgrad.script.frontend.library.printing import print_
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.handlers import (CONSTRUCTORS, HANDLERS, Args, Handler, by_parameters, handles,
                                                    refused)
from jitgrad.script.frontend.templates import run_lists, unions
from jitgrad.script.frontend.values import functions, instances, numbers, protocol, strings
from jitgrad.script.frontend.values.checks import emit_check
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import (as_number, binary, call, class_of, compare, delete_attribute,
                                                     get_attribute, has_attribute, is_dynamic, is_instance, is_open,
                                                     items_of, iterate, kind_of, set_attribute, truth, type_name,
                                                     type_word)
from jitgrad.script.frontend.values.values import (Borrowed, Function, Instance, Iterable, Method, Number, Range, Super,
                                                   SymDict, SymList, SymTensor, Union, sequence)


@handles(len)
def _len(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return effects.guarded(context, lambda: protocol.length(context, args[0]))


@handles(range)
def _range(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    given = []
    for a in args:
        a = unions.force(context, a, "'{}' object cannot be interpreted as an integer")
        a = as_number(context, a, "__index__")
        if isinstance(a, SymTensor):
            a = effects.guarded(context, lambda a=a: backend().item(a))  # type: ignore[misc]
        if (isinstance(a, Number) and a.number_type is float) or isinstance(a, float):
            raise effects.raise_now(context, TypeError, ("'float' object cannot be interpreted as an integer",))
        given.append(a)
    if not any(isinstance(a, Number) for a in given):
        return effects.guarded(context, lambda: range(*given))
    start, stop, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    nonzero = numbers.compare(context, "ne", step, 0)
    if nonzero is not True:
        emit_check(context, nonzero, ValueError, ("range() arg 3 must not be zero",))
    return Range(start, stop, step)


@handles(enumerate)
def _enumerate(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    start = kwargs.get("start", args[1] if len(args) > 1 else 0)
    if isinstance(args[0], Generator):
        return call(context, generators.numbered, args[0], start)
    return it.Iterator(context, it.enumerated(context, _iterable(context, args[0]), start))


@handles(zip)
def _zip(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    args = tuple([generators.iterator_of(context, a) for a in args])
    asked = any(map(generators.gives_items, args))
    plain = [k for k, a in enumerate(args) if isinstance(a, Generator)]
    if plain and (asked or len(plain) > 1):  # each gives an item when its turn comes
        raise args[plain[0]].asked()
    at = next(iter(plain), None)
    if at is not None and not kwargs.get("strict"):
        before, after = [[_iterable(context, a) for a in part] for part in (args[:at], args[at + 1:])]
        return call(context, generators.beside, tuple(before), args[at], tuple(after))
    if asked or any(isinstance(a, it.Iterator) and (a.counted or args.count(a) > 1) for a in args):
        if kwargs.get("strict"):
            raise UnsupportedCall("`zip(strict=True)` of an iterator that is used again", context.span())
        return call(context, generators.by_turns, tuple([_iter(context, (a,), {}) for a in args]))
    parts = [_iterable(context, a) for a in args]
    found = guarded(context, lambda: it.zipped(context, parts, bool(kwargs.get("strict"))))
    return it.Iterator(context, found)


@handles(reversed)
def _reversed(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    value = args[0]
    method = kind_of(value).method(value, "__reversed__")
    if method is not None:
        return _iter(context, (call(context, method, value),), {})
    if not hasattr(class_of(value), "__reversed__") and not hasattr(class_of(value), "__getitem__"):
        raise effects.raise_now(context, TypeError, (f"'{type_name(value)}' object is not reversible",))
    return it.Iterator(context, it.reversed_(context, _iterable(context, value)))


@handles(iter)
def _iter(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    source = generators.iterator_of(context, args[0])
    if isinstance(source, it.Iterator) or generators.gives_items(source):
        return source
    return it.Iterator(context, _iterable(context, source))


@handles(next)
def _next(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    source, *default = args
    if isinstance(source, Union):
        return unions.switch(context, source, lambda one: _next(context, (one, *default), kwargs))
    if isinstance(source, Generator):
        raise source.asked()
    if isinstance(source, it.Iterator):
        return source.next(context, *default)
    if generators.gives_items(source):
        return call(context, generators.following, generators.steps_of(context, source), *default) if default else call(
            context, get_attribute(context, source, "__next__"))
    if hasattr(class_of(source), "__next__"):
        raise UnsupportedCall(f"`next` of {type_word(source)}", context.span(),
                              hint="write a `for` loop that is left with `break`")
    raise effects.raise_now(context, TypeError, (f"'{type_name(source)}' object is not an iterator",))


CONSTRUCTORS.update(dict.fromkeys((generators.Steps, generators.Asked), instances.instance))


def _iterable(context: Context, value: Any) -> Iterable:
    found: Iterable = guarded(context, lambda: iterate(context, value))
    return found


@handles(isinstance)
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
    for c in flat:
        if not isinstance(c, type) and not is_dynamic(c):
            guarded(context, lambda c=c: isinstance(None, c))  # type: ignore[misc]
    return is_instance(context, value, tuple(c for c in flat if isinstance(c, type)))


@handles(type)
def _type(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    def of(value: Any) -> type:
        found = class_of(value)
        context.inputs.class_of(value.real if isinstance(value, Borrowed) else value)
        if isinstance(value, Number) and found is object:
            raise numbers.type_unknown(context)
        return instances.stood_for(found)

    return unions.switch(context, args[0], of)


@handles(callable)
def _callable(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return unions.switch(context, args[0], lambda v: isinstance(v, (Function, Method)) or (
        not is_dynamic(v) and callable(v)))


@handles(getattr)
def _getattr(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if unions.undecided(args[1]):
        return unions.switch(context, args[1], lambda name: _getattr(context, (args[0], name, *args[2:]), kwargs))
    name = static(context, args[1], "the attribute's name")
    there = len(args) < 3 or has_attribute(context, args[0], name)
    if isinstance(there, Number):
        return dispatch.branch(context, there, lambda: get_attribute(context, args[0], name), lambda: args[2])
    return get_attribute(context, args[0], name) if there else args[2]


def _applied(context: Context, function: Any, *args: Any) -> Any:
    return unions.each(context, args, lambda given: guarded(context, lambda: function(*given)))


def _by_name(verb: Callable[..., Any]) -> Handler:
    return by_parameters(lambda context, obj, name, *value: unions.switch(context, name, lambda one: verb(
        context, obj, static(context, one, "the attribute's name"), *value)))


HANDLERS.update({print: print_, id: refused("id", "compare objects with `is`"), delattr: _by_name(delete_attribute),
                 hasattr: _by_name(has_attribute), setattr: _by_name(set_attribute)})
for _function in (slice, issubclass):
    HANDLERS[_function] = by_parameters(_applied, _function)


@handles(super)
def _super(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if len(args) == 2:
        return Super(args[0], args[1])
    frame = context.frame
    function: Any = frame.function
    code = getattr(function, "__code__", None)
    if code is None or "__class__" not in code.co_freevars:
        raise UnsupportedCall("`super()` outside a method", context.span())
    owner = function.__closure__[code.co_freevars.index("__class__")].cell_contents
    return Super(owner, context.state.values[(frame.id, frame.scope.parameters[0])])


# --- numbers and letters ---------------------------------------------------------------------------------------------


def _character(function: Any) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if any(map(is_dynamic, args)):
            return strings.ask(context, function.__name__, *args, **kwargs)
        return guarded(context, lambda: function(*args, **kwargs))
    return handler


HANDLERS[ord], HANDLERS[chr] = _character(ord), _character(chr)


@handles(bool)
def _bool(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return truth(context, args[0]) if args else False


def _extreme(largest: bool) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        whole = lists.of_run_time_length(context, args[0]) if len(args) == 1 else None
        if whole is not None:
            return call(context, list_methods.extreme, whole, largest, **kwargs)
        items = items_of(context, args[0]) if len(args) == 1 else list(args)
        if not items:
            if "default" in kwargs:
                return kwargs["default"]
            return effects.guarded(context, lambda: (max if largest else min)([]))
        key = kwargs.get("key")
        if key is None:
            result = items[0]
            for x in items[1:]:
                result = _better(context, result, x, largest)
            return result
        best, measure = items[0], call(context, key, items[0])
        for x in items[1:]:
            best, measure = _better_by(context, best, measure, x, call(context, key, x), largest)
        return best

    return handler


def _better_by(context: Context, best: Any, measure: Any, item: Any, other: Any, largest: bool) -> tuple[Any, Any]:
    """The better of two items by their keys."""
    test = truth(context, compare(context, "gt" if largest else "lt", other, measure))
    if not isinstance(test, Number):
        return (item, other) if test else (best, measure)
    chosen = merge.branch(context, test, lambda: (item, other), lambda: (best, measure))
    return chosen[0], chosen[1]


def _better(context: Context, a: Any, b: Any, largest: bool) -> Any:
    kinds = (bool, int, float, Number)
    if isinstance(a, kinds) and isinstance(b, kinds):
        return numbers.minimum(context, a, b, largest)
    if is_dynamic((a, b)):
        test = truth(context, compare(context, "gt" if largest else "lt", b, a))
        if not isinstance(test, Number):
            return b if test else a
        return merge.branch(context, test, lambda: b, lambda: a)
    return effects.guarded(context, lambda: (max if largest else min)(a, b))


HANDLERS[min], HANDLERS[max] = _extreme(False), _extreme(True)


@handles(sum)
def _sum(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    result: Any = kwargs.get("start", args[1] if len(args) > 1 else 0)
    items = args[0]
    if isinstance(items, Generator):  # an item may be another one's memory by the time that the next is there
        return call(context, generators.added, items, result)
    whole = lists.of_run_time_length(context, items)
    if whole is not None:
        if not lists.holds_tensors(context, whole):
            return call(context, list_methods.total, whole, result)
        try:
            some = loops.require_trip(context, protocol.length(context, whole))
        except loops.NoTrip:
            return result
        return call(context, list_methods.total_of_some if some else list_methods.total_of_tensors, whole, result)
    for x in items_of(context, items):
        result = binary(context, "add", result, x)
    return result


def _quantifier(all_: bool) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if isinstance(args[0], (Generator, Iterable)):  # no item is asked for after the one that decides
            return call(context, list_methods.every if all_ else list_methods.some, *args)
        whole = lists.of_run_time_length(context, args[0])
        if whole is not None:
            return call(context, list_methods.every if all_ else list_methods.some, whole)
        result: Any = all_
        for x in items_of(context, args[0]):
            test = truth(context, x)
            result = (numbers.both if all_ else numbers.either)(context, result, test)
        return result

    return handler


HANDLERS[all], HANDLERS[any] = _quantifier(True), _quantifier(False)


# --- containers ----------------------------------------------------------------------------------------------------


@handles(tuple)
def _tuple(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return tuple(items_of(context, args[0])) if args else ()


@handles(Size)
def _size(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return Size(_tuple(context, args, kwargs))


@handles(list)
def _list(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if args and isinstance(args[0], SymList):
        return run_lists.new(context, run_lists.content(context, args[0]))
    if args and (isinstance(args[0], Generator) or is_open(context, args[0])):
        return call(context, list_methods.collected, *args)
    return contents.new_list(context, items_of(context, args[0]) if args else [])


@handles(dict)
def _dict(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if args and not kwargs and not isinstance(args[0], SymDict):
        keys = args[0]
        if isinstance(keys, Instance) and hasattr(keys.cls, "keys"):
            keys = call(context, get_attribute(context, keys, "keys"))
        if is_open(context, keys):
            return call(context, list_methods.paired, *args)
    return contents.new_dict(context, {**(mappings.pairs(context, args[0]) if args else {}), **kwargs})


@handles(dict.fromkeys)
def _fromkeys(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    value = args[1] if len(args) > 1 else None
    return contents.new_dict(context, {static(context, k, "a dict key"): value
                                    for k in items_of(context, args[0])})


@handles(sorted)
def _sorted(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return run_lists.new(context, sequences.ordered(context, args[0], kwargs.get("key"), kwargs.get("reverse", False)))


@handles(filter)
def _filter(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    kept: list[Any] = []
    source = args[1]
    if isinstance(source, Generator):
        return call(context, generators.kept, bool if args[0] is None else args[0], source)
    items = None if is_open(context, source) else items_of(context, source)
    if items is None:
        made = call(context, list_methods.filtered, bool if args[0] is None else args[0], source)
        return it.Iterator(context, _iterable(context, made))
    for item in items:
        test = truth(context, item if args[0] is None else call(context, args[0], item))
        if isinstance(test, Number):
            function = bool if args[0] is None else args[0]
            made = call(context, list_methods.filtered, function, sequence(items))
            return it.Iterator(context, _iterable(context, made))
        if test:
            kept.append(item)
    return it.Iterator(context, sequence(kept))


@handles(map)
def _map(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    if any(isinstance(a, Generator) for a in args[1:]):
        return call(context, generators.mapped, args[0], _zip(context, args[1:], {}))
    parts = [_iterable(context, a) for a in args[1:]]
    joined = it.zipped(context, parts, False)
    return it.Iterator(context, Iterable(
        joined.length, lambda cx, k: call(cx, args[0], *joined.item(cx, k)), joined.unrolled, joined.now))


def _of_items(handler: Handler, others: int) -> Handler:
    """The handler of what goes over all its arguments but the first few: objects are asked for what gives items."""
    return lambda context, args, kwargs: handler(
        context, (*args[:others], *[generators.opened(context, a) for a in args[others:]]), kwargs)


HANDLERS.update({f: _of_items(HANDLERS[f], 0) for f in (enumerate, sum, any, all, list)})
HANDLERS.update({f: _of_items(HANDLERS[f], 1) for f in (map, filter)})


def _unbound(name: str) -> Handler:
    """`str.upper` and kin as functions."""
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if not args or class_of(args[0]) is not str:
            return guarded(context, lambda: getattr(str, name)(*args, **kwargs))
        return call(context, get_attribute(context, args[0], name), *args[1:], **kwargs)
    return handler


HANDLERS.update({getattr(str, name): _unbound(name) for name in (*METHODS, "join", "format")})


def _text(conversion: str) -> Handler:
    def handler(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
        if len(args) + len(kwargs) > 1:
            known = [static(context, a, "bytes and their encoding") for a in args]
            return guarded(context, lambda: str(*known, **kwargs))
        return strings.joined(context, [(v, conversion, "") for v in (*args, *kwargs.values())])
    return handler


HANDLERS[str], HANDLERS[repr], HANDLERS[ascii] = _text("s"), _text("r"), _text("a")


@handles(format)
def _format(context: Context, args: Args, kwargs: dict[str, Any]) -> Any:
    return strings.joined(context, [(args[0], "", args[1] if len(args) > 1 else "")])


for _name in ("eval", "exec", "compile", "open", "input", "globals", "locals", "__import__",
              "breakpoint", "memoryview", "bytearray", "object"):
    HANDLERS[getattr(builtins, _name)] = refused(
        _name, functions.TO_STOP if _name == "breakpoint" else
        "call it outside the script, or in a function marked `@jitgrad.ignore`")
