"""A value that is one of several: the one place where a verb finds out which, and goes on with that."""

from collections.abc import Callable
from typing import Any

from jitgrad.errors import NotStatic, UnresolvedAttribute, UnsupportedCall
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.state import copies, effects
from jitgrad.script.frontend.state.context import Context, current
from jitgrad.script.frontend.state.handlers import Args
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates.alternatives import Num, tag_of
from jitgrad.script.frontend.templates.identities import cell_of
from jitgrad.script.frontend.templates.tensors import Tensor, numbers_of
from jitgrad.script.frontend.templates.unions import (certain, force, is_choice, is_static, opened, optional, switch,
                                                      undecided)
from jitgrad.script.frontend.values import numbers, protocol
from jitgrad.script.frontend.values.protocol import SYMBOLS, Kind, class_of, is_dynamic, register, type_name, type_word
from jitgrad.script.frontend.values.strings import joined, parts_of
from jitgrad.script.frontend.values.values import (HELD, Boxed, Iterable, Method, Number, SymList, SymTensor, Union,
                                                   is_entry, refers)

#: an alternative that has no operators, items or attributes: that a value is not None is a check, not a branch
_NONE = (type(None),)


def _of_each(verb: Callable[..., Any], what: str = "") -> Callable[..., Any]:
    """The method that asks each alternative; with `what`, the value of the run, as `_of` does."""
    def method(self: Kind, context: Context, obj: Union, *args: Any) -> Any:
        held = certain(context, obj, what, absent=_NONE) if what else obj
        return switch(context, held, lambda v: verb(context, v, *args))
    return method


@register(Union)
class UnionKind(Kind):
    """One of several static objects, or a value of the run.

    Where the value of the run is what a verb is about (`None` has no items), that it is there is a check, with
    Python's complaint of what is there instead; else there is a branch for each alternative.
    """

    dynamic = True
    rank = 4
    is_instance, has_attribute = _of_each(protocol.is_instance), _of_each(protocol.has_attribute)
    delete_attribute = _of_each(protocol.delete_attribute)
    truth, length, contains = _of_each(protocol.truth), _of_each(protocol.length), _of_each(protocol.contains)
    get_item = _of_each(protocol.get_item, "'{}' object is not subscriptable")
    set_item = _of_each(protocol.set_item, "'{}' object does not support item assignment")
    delete_item = _of_each(protocol.delete_item, "'{}' object doesn't support item deletion")

    def class_of(self, obj: Union) -> type:
        classes = {class_of(s) for s in obj.statics} if obj.inner is None else set()
        if len(classes) == 1:
            return classes.pop()
        raise NotStatic(f"the type of {self.type_word(obj)} is known only at run time", current().span())

    def type_name(self, obj: Union) -> str:
        if isinstance(obj.inner, Tensor):
            return "Tensor"
        if obj.inner is not None and obj.inner.text is not None:
            return "str"
        if isinstance(obj.inner, Num):
            return obj.inner.kind.__name__
        return " or ".join(dict.fromkeys(map(type_name, obj.statics)))

    def type_word(self, obj: Union) -> str:
        return " or ".join([*map(type_word, obj.statics), *([str(obj.inner)] if obj.inner is not None else [])])

    def method(self, obj: Union, name: str) -> Any:
        return None

    def argument(self, context: Context, obj: Union) -> Any:
        if obj.inner is not None or any(isinstance(s, SymTensor) for s in obj.statics):
            return force(context, obj, "a tensor or number is needed here, not an object of '{}'", several=True)
        raise UnsupportedCall(f"this argument is {self.type_word(obj)}, decided at run time", context.span(),
                              hint="write an `if` around the call")

    def get_attribute(self, context: Context, obj: Union, name: str) -> Any:
        if all(s is None or isinstance(s, SymTensor) for s in obj.statics):
            obj = certain(context, obj, f"'{{}}' object has no attribute '{name}'", AttributeError)
        return switch(context, obj, lambda v: _attribute(context, v, name))

    def set_attribute(self, context: Context, obj: Union, name: str, value: Any) -> None:
        if all(s is None or isinstance(s, HELD) for s in obj.statics):
            obj = certain(context, obj, f"'{{}}' object has no attribute '{name}'", AttributeError)
        switch(context, obj, lambda v: protocol.set_attribute(context, v, name, value))

    def callee(self, context: Context, obj: Union, name: str) -> Any:
        if obj.inner is not None and all(s is None for s in obj.statics):
            return self.get_attribute(context, obj, name)
        if all(s is None or isinstance(s, SymTensor) for s in obj.statics):
            obj = certain(context, obj, f"'{{}}' object has no attribute '{name}'", AttributeError)

        def each(cx: Context, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return switch(cx, obj, lambda v: protocol.call(cx, _attribute(cx, v, name), *args, **kwargs))

        return Method(name, each)

    def iterate(self, context: Context, obj: Union) -> Iterable:
        held = certain(context, obj, "'{}' object is not iterable", absent=_NONE)  # not what it holds: that is written
        if not isinstance(held, Union):
            return protocol.iterate(context, held)
        begun: dict[Any, Iterable] = {}  # an iterator's items are gone with that

        def length(alternative: Any) -> Any:
            found = protocol.iterate(context, alternative)
            if isinstance(alternative, Iterable):
                begun[alternative] = found
            return found.length

        def item(cx: Context, k: Any) -> Any:
            return switch(cx, held, lambda v: _item(cx, begun[v] if isinstance(v, Iterable) else v, k))

        return Iterable(switch(context, held, length), item, False)

    def is_open(self, context: Context, obj: Union) -> bool:
        return isinstance(obj.inner, Tensor) or any(protocol.is_open(context, s) for s in obj.statics)

    def call(self, context: Context, obj: Union, args: Args, kwargs: dict[str, Any]) -> Any:
        return switch(context, obj, lambda v: protocol.call(context, v, *args, **kwargs))

    def result(self, results: Leaving, obj: Union) -> sig.Result:
        copies.identify(results.context, obj)
        if isinstance(obj.inner, Tensor):
            results.leave(obj.inner)
        leaf = optional(obj)
        if leaf is not None:
            return numbers_of(obj.inner, sig.Output(results.output(leaf)))
        return results.one_of(tag_of(results.context, obj), obj.statics, obj.inner, obj.leaves)

    def text(self, context: Context, obj: Union, conversion: str, spec: str) -> list[Any]:
        if is_choice(obj, str, int, float, type(None)):
            texts = tuple(["".join(protocol.text(context, s, conversion, spec)) for s in obj.statics])
            return [(numbers.wrap(context, tag_of(context, obj)), texts, "")]
        found = switch(context, obj, lambda v: joined(context, [(v, conversion, spec)]))
        return self.text(context, found, "", "") if undecided(found) else parts_of(found)

    def in_place(self, context: Context, op: str, obj: Union, value: Any) -> Any:
        return _of(context, obj, f"unsupported operand type(s) for {SYMBOLS[op]}=: '{{}}' and '{type_name(value)}'",
                   lambda v: protocol.in_place(context, op, v, value))

    def unary(self, context: Context, op: str, obj: Union) -> Any:
        return _of(context, obj, f"bad operand type for unary {SYMBOLS[op]}: '{{}}'",
                   lambda v: protocol.unary(context, op, v))

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        a, b = _operands(context, "unsupported operand type(s) for {}: {} and {}", op, a, b)
        return switch(context, a, lambda x: switch(context, b, lambda y: protocol.binary(context, op, x, y)))

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if op not in ("eq", "ne"):
            a, b = _operands(context, "'{}' not supported between instances of {} and {}", op, a, b)
        if op == "ne":
            return numbers.negate(context, self.compare(context, "eq", a, b))
        return switch(context, a, lambda x: switch(context, b, lambda y: protocol.compare(context, op, x, y)))

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        union, other = (a, b) if isinstance(a, Union) else (b, a)
        if isinstance(other, Union) or is_entry(other) or any(isinstance(s, Boxed) for s in union.statics):
            return switch(context, union, lambda v: protocol.identical(context, v, other))
        if is_dynamic(other) and not refers(other):
            raise NotStatic("`is` between values that are known only at run time", context.span())
        for one in union.statics if refers(other) else ():
            if refers(one):
                copies.are_one(context, cell_of(one), cell_of(other))
        return is_static(context, union, other)


@register(Boxed)
class BoxedKind(Kind):
    """A value in a box, beside others of other types: whoever asks for one of these opens it."""

    dynamic = True

    def class_of(self, obj: Boxed) -> type:
        return class_of(opened(current(), obj))

    def type_word(self, obj: Boxed) -> str:
        return type_word(opened(current(), obj))

    def result(self, results: Leaving, obj: Boxed) -> sig.Result:
        return results.tree(opened(results.context, obj))

    def text(self, context: Context, obj: Boxed, conversion: str, spec: str) -> list[Any]:
        return protocol.text(context, opened(context, obj), conversion, spec)


def _item(context: Context, value: Any, k: Any) -> Any:
    """Item k of an alternative that is gone over."""
    if isinstance(value, Iterable) and value.unrolled and isinstance(k, Number):
        value = tuple([value.item(context, i) for i in range(value.length)])
    if isinstance(value, (tuple, SymList, SymTensor)):
        with effects.unhandled(context):
            return protocol.get_item(context, value, k)
    return protocol.iterate(context, value).item(context, k)


def _attribute(context: Context, value: Any, name: str) -> Any:
    """An attribute of an alternative: that it has none is an exception where the run comes to it."""
    try:
        return protocol.get_attribute(context, value, name)
    except UnresolvedAttribute:
        text = f"'{type_name(value)}' object has no attribute '{name}'"
        raise effects.raise_now(context, AttributeError, (text,)) from None


def _of(context: Context, obj: Union, what: str, operation: Callable[[Any], Any]) -> Any:
    """`operation` of the value of the run, a `TypeError` at run time where that is not there; of each where none is."""
    return switch(context, certain(context, obj, what, absent=_NONE), operation)


def _operands(context: Context, what: str, op: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands, of which a union is taken to hold its value of the run: Python's complaint if not."""
    first, second, symbol = f"'{type_name(a)}'", f"'{type_name(b)}'", SYMBOLS[op]
    return (force(context, a, what.format(symbol, "'{}'", second), several=True, absent=_NONE),
            force(context, b, what.format(symbol, first, "'{}'"), several=True, absent=_NONE))
