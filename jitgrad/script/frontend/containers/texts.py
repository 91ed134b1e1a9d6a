"""Strings as values: known ones, some of whose methods take values of the run, and those of the run."""

from typing import Any, ClassVar

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.texts import LISTS, METHODS, TRIPLES
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.containers.indexing import pick
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates import run_lists
from jitgrad.script.frontend.templates.alternatives import of_the_run
from jitgrad.script.frontend.templates.texts import value_of
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.plain import PlainKind
from jitgrad.script.frontend.values.protocol import (SYMBOLS, Kind, Methods, call, is_dynamic, kind_of, register,
                                                     type_name)
from jitgrad.script.frontend.values.strings import STRINGS, ask, formatted, joined, parts_of, percent, sure
from jitgrad.script.frontend.values.values import (Iterable, Method, Number, RunItems, RunText, SymList, SymTensor,
                                                   Text, Union)


def _join(context: Context, separator: Any, items: Any) -> Any:
    """`separator.join(items)`."""
    made = call(context, list, items)
    held = run_lists.content(context, made)
    if isinstance(held, RunItems):
        strings = of_the_run(held.elem)
        if strings.text is None:
            raise UnsupportedCall(f"`join` of a list whose items are {held.elem}", context.span(), hint="join strings")
        return ask(context, "join", separator, run_lists.lower(context, strings, held)[0])
    parts: list[Any] = []
    for i, item in enumerate(held):
        if not isinstance(item, STRINGS):
            raise effects.raise_now(context, TypeError, (
                f"sequence item {i}: expected str instance, {type_name(item)} found",))
        parts += [(separator, "", "")] * (i > 0) + [(item, "", "")]
    return joined(context, parts)


def _of_the_run(name: str, context: Context, obj: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A method of a string, where something is known only at run time."""
    found = ask(context, name, obj, *args, **named)
    if name in TRIPLES:
        return tuple([sure(context, "getitem", found, k) for k in range(3)])
    return call(context, list, _items(context, found)) if name in LISTS else found


def _items(context: Context, obj: Any) -> Iterable:
    """What a `for` over a string, or over the parts of one, goes over."""
    whole = RunText(value_of(context, obj))
    return Iterable(sure(context, "len", whole), lambda cx, k: sure(cx, "getitem", whole, k), False)


def _item(context: Context, obj: Any, index: Any) -> Any:
    """`obj[index]`."""
    if isinstance(index, slice):
        step = index.step
        fine = step is None or (isinstance(step, int) and step != 0)
        return (sure if fine else ask)(context, "slice", obj, *[
            numbers.cast(context, end, int) if numbers.kind_of(end) is bool else end
            for end in (index.start, index.stop, step)])
    if isinstance(index, SymTensor):
        raise effects.raise_now(context, TypeError, ("string indices must be integers, not 'Tensor'",))
    return ask(context, "getitem", obj, index)


def _binary(context: Context, op: str, a: Any, b: Any) -> Any:
    """`a op b` where one is a string; NotImplemented where Python has no such operation."""
    if op == "mod" and isinstance(a, str):
        return percent(context, a, b)
    if op == "mod" and isinstance(a, STRINGS):
        raise UnsupportedCall("`%` of a format that is known only at run time", context.span(), hint="use an f-string")
    if op == "add" and isinstance(a, STRINGS) and isinstance(b, STRINGS):
        return joined(context, [(a, "", ""), (b, "", "")])
    if op == "mul":
        words, times = (a, b) if isinstance(a, STRINGS) else (b, a)
        if isinstance(words, STRINGS) and numbers.kind_of(times) in (int, bool):
            return ask(context, "repeat", words, times) if isinstance(times, Number) else joined(
                context, [(words, "", "")] * times)
    return NotImplemented


def _compare(context: Context, op: str, a: Any, b: Any) -> Any:
    if not (isinstance(a, STRINGS) and isinstance(b, STRINGS)):
        other = b if isinstance(a, STRINGS) else a
        if op in ("eq", "ne") or not isinstance(other, (int, float, Number, tuple, SymList, type(None))):
            return NotImplemented
        raise effects.raise_now(context, TypeError, (
            f"'{SYMBOLS[op]}' not supported between instances of '{type_name(a)}' and '{type_name(b)}'",))
    if a is b and op in ("eq", "ne"):
        return op == "eq"
    if op == "ne":
        return numbers.negate(context, sure(context, "eq", a, b))
    turned = {"gt": "lt", "ge": "le"}.get(op)
    return sure(context, op, a, b) if turned is None else sure(context, turned, b, a)


@register(str)
class StringKind(PlainKind):
    """A string; some of its methods take values of the run."""

    rank = 5
    methods: ClassVar[Methods] = {
        "join": _join, "format": lambda cx, template, *args, **kwargs: formatted(cx, template, args, kwargs)}

    def get_attribute(self, context: Context, obj: str, name: str) -> Any:
        found = super().get_attribute(context, obj, name)
        if name not in METHODS:
            return found

        def method(cx: Context, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
            if not any(map(is_dynamic, (*args, *named.values()))):
                return call(cx, found, *args, **named)
            return _of_the_run(name, cx, obj, args, named)

        return Method(name, method)

    def get_item(self, context: Context, obj: str, index: Any) -> Any:
        if isinstance(index, slice) and is_dynamic(index):
            return _item(context, obj, index)
        return pick(context, obj, index) if isinstance(index, Number) else super().get_item(context, obj, index)

    def contains(self, context: Context, obj: str, item: Any) -> Any:
        return ask(context, "contains", obj, item) if is_dynamic(item) else super().contains(context, obj, item)

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        found = _binary(context, op, a, b)
        return super().binary(context, op, a, b) if found is NotImplemented else found


@register(Text, RunText)
class TextKind(Kind):
    """A string that is known only at run time."""

    dynamic = True
    rank = 5
    methods: ClassVar[Methods] = {"join": _join}

    def class_of(self, obj: Any) -> type:
        return str

    def type_word(self, obj: Any) -> str:
        return "a string known only at run time"

    def argument(self, context: Context, obj: Any) -> Any:
        raise UnsupportedCall("a string that is known only at run time, as an argument of the library", context.span())

    def result(self, results: Leaving, obj: Any) -> sig.Result:
        if isinstance(obj, RunText):
            return sig.Output(results.output(obj.value))
        return sig.Text(tuple(p if isinstance(p, str) else (results.tree(p[0]), *p[1:]) for p in obj.parts))

    def text(self, context: Context, obj: Any, conversion: str, spec: str) -> list[Any]:
        if not spec and conversion in ("", "s"):
            return parts_of(obj)
        guarded(context, lambda: format("x", spec))
        return [(RunText(value_of(context, obj)), conversion, spec)]

    def truth(self, context: Context, obj: Any) -> Any:
        if any(isinstance(p, str) or (not isinstance(p[0], RunText) and all(p[1])) for p in parts_of(obj)):
            return True  # numbers and tensors have texts that are not empty
        return numbers.wrap(context, context.one("num.cast", value_of(context, obj), to="bool"))

    def length(self, context: Context, obj: Any) -> Any:
        return sure(context, "len", obj)

    def iterate(self, context: Context, obj: Any) -> Iterable:
        return _items(context, obj)

    def is_open(self, context: Context, obj: Any) -> bool:
        return True

    def get_item(self, context: Context, obj: Any, index: Any) -> Any:
        return _item(context, obj, index)

    def contains(self, context: Context, obj: Any, item: Any) -> Any:
        return ask(context, "contains", obj, item)

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        return _binary(context, op, a, b)

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        return _compare(context, op, a, b)

    def identical(self, context: Context, a: Any, b: Any) -> Any:
        other = b if isinstance(a, (Text, RunText)) else a
        if a is b or not isinstance(other, STRINGS):
            return a is b or (isinstance(other, Union) and kind_of(other).identical(context, a, b))
        raise UnsupportedCall("`is` between strings that are known only at run time", context.span(), hint="use `==`")

    def get_attribute(self, context: Context, obj: Any, name: str) -> Any:
        if name in METHODS:
            return Method(name, lambda cx, args, named: _of_the_run(name, cx, obj, args, named))
        return super().get_attribute(context, obj, name)

    def has_attribute(self, context: Context, obj: Any, name: str) -> Any:
        return hasattr(str, name)

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        if not hasattr(str, name):
            return effects.raise_now(context, AttributeError, (f"'str' object has no attribute '{name}'",))
        return UnsupportedCall(f"`{name}` of a string that is known only at run time", context.span(), hint=(
            "use an f-string" if name in ("format", "format_map") else
            "call it outside the script, or in a function marked `@jitgrad.ignore`"))
