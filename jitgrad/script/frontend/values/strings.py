"""Strings with run-time parts: made by f-strings, `str`, `%`, `format`, `+`, `join`; printed, raised, returned.

A part is a string, or (value, conversion, format) of a number or a tensor as it was when the string was made.
"""

import re
import string
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.backend import backend
from jitgrad.script.call import signature as sig
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.containers.indexing import pick
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.state.outside import Leaving
from jitgrad.script.frontend.templates.unions import force
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.plain import PlainKind, static
from jitgrad.script.frontend.values.protocol import (Kind, Methods, get_attribute, get_item, is_dynamic, items_of,
                                                     register, text, type_name)
from jitgrad.script.frontend.values.values import Number, SymDict, SymTensor, Text
from jitgrad.script.graph.ir import Value

_formatter_split: Any = string.Formatter.get_field.__globals__["_string"].formatter_field_name_split


def joined(context: Context, parts: Sequence[Any]) -> Any:
    """Parts, of any values, joined: a string where all is known, else a Text."""
    flat: list[Any] = []
    for part in parts:
        for piece in [part] if isinstance(part, str) else text(context, *part):
            if isinstance(piece, str) and flat and isinstance(flat[-1], str):
                flat[-1] += piece
            elif piece != "":
                flat.append(piece)
    if not flat:
        return ""
    return flat[0] if len(flat) == 1 and isinstance(flat[0], str) else Text(flat)


def template_of(context: Context, parts: Sequence[Any]) -> tuple[tuple[Any, ...], list[Value]]:
    """Values of any kind, joined, as the template of a `check` or `print` and the graph values that it names."""
    template: list[Any] = []
    values: list[Value] = []
    found = joined(context, [(p, "s", "") for p in parts])
    for part in [found] if isinstance(found, str) else found.parts:
        if isinstance(part, str):
            template.append(part)
            continue
        value, conversion, spec = part
        template.append((len(values), conversion, spec))
        values.append(value.value if isinstance(value, Number) else heap.read(context, value))
    return tuple(template), values


def listed(context: Context, opening: str, items: Iterable[tuple[str, Any]], closing: str) -> list[Any]:
    """The text of a container: of each item a label and its `repr`, with commas between them."""
    found: list[Any] = [opening]
    for i, (label, item) in enumerate(items):
        found += [", " * (i > 0) + label, *text(context, item, "r", "")]
    return [*found, closing]


# --- operations ----------------------------------------------------------------------------------------------------


def binary(context: Context, op: str, a: Any, b: Any) -> Any:
    """`a op b` where one is a string; NotImplemented where Python has no such operation."""
    if op == "mod" and isinstance(a, str):
        return percent(context, a, b)
    if op == "add" and isinstance(a, (str, Text)) and isinstance(b, (str, Text)):
        return joined(context, [(a, "", ""), (b, "", "")])
    if op == "mul":
        words, times = (a, b) if isinstance(a, (str, Text)) else (b, a)
        if isinstance(words, (str, Text)) and numbers.kind_of(times) in (int, bool):
            times = static(context, times, "how often a string is repeated")
            return joined(context, [(words, "", "")] * times)
    return NotImplemented


_PERCENT = re.compile(r"%(?:\((?P<name>[^)]*)\))?(?P<flags>[-+ #0]*)(?P<width>\d*)(?:\.(?P<precision>\d+))?"
                      r"(?P<kind>[diouxXeEfFgGcrsa%])")


def percent(context: Context, template: str, values: Any) -> Any:
    """`template % values`."""
    if not is_dynamic(values):
        return guarded(context, lambda: template % values)
    named = contents.dict_of(context, values) if isinstance(values, SymDict) else None
    given = iter(values if isinstance(values, tuple) else (values,))
    parts: list[Any] = []
    end = 0
    for found in _PERCENT.finditer(template):
        parts.append(template[end:found.start()])
        end = found.end()
        if found["kind"] == "%":
            parts.append("%")
            continue
        try:
            value = named[found["name"]] if named is not None else next(given)
        except StopIteration:
            raise effects.raise_now(context, TypeError, ("not enough arguments for format string",)) from None
        except KeyError as error:
            raise effects.raise_now(context, KeyError, (str(error.args[0]),)) from None
        parts.append(_converted(context, value, found))
    parts.append(template[end:])
    if named is None and next(given, None) is not None:
        raise effects.raise_now(context, TypeError, ("not all arguments converted during string formatting",))
    if "%" in _PERCENT.sub("", template):
        raise UnsupportedCall("this `%` format", context.span(), hint="use an f-string")
    return joined(context, parts)


def _converted(context: Context, value: Any, found: re.Match[str]) -> Any:
    """One `%` conversion as (value, conversion, format)."""
    kind, flags, width = found["kind"], found["flags"], found["width"]
    precision = "" if found["precision"] is None else f".{found['precision']}"
    align = "<" if "-" in flags else ">" if width and kind in "rsa" else ""
    if kind in "rsa":
        return (value, kind, f"{align}{width}{precision}")
    value = force(context, value, f"%{kind} format: a real number is required, not {{}}")
    if isinstance(value, SymTensor):
        tensor = value
        value = guarded(context, lambda: backend().item(tensor))
    if kind in "diu":
        if precision:
            raise UnsupportedCall("a precision of `%d`", context.span(), hint="use an f-string")
        kind = "d"
        value = numbers.cast(context, value, int)
    elif kind in "eEfFgG" and numbers.kind_of(value) in (int, bool):
        value = numbers.cast(context, value, float)
    sign = "+" if "+" in flags else " " if " " in flags else ""
    zero = "0" if "0" in flags and "-" not in flags else ""
    if kind in "gG" and not precision:
        precision = ".6"
    return (value, "", f"{align}{sign}{'#' if '#' in flags else ''}{zero}{width}{precision}{kind}")


def formatted(context: Context, template: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """`template.format(*args, **kwargs)`."""
    return joined(context, _fields_of(context, template, args, kwargs, iter(range(len(args)))))


def _fields_of(context: Context, template: str, args: Sequence[Any], kwargs: dict[str, Any], count: Any) -> list[Any]:
    parts: list[Any] = []
    for literal, field, spec, conversion in guarded(context, lambda: list(string.Formatter().parse(template))):
        parts.append(literal)
        if field is None:
            continue
        first, rest = guarded(context, lambda field=field: _split(field))  # type: ignore[misc]
        if first == "":
            first = next(count, len(args))
        if isinstance(first, int) and first >= len(args):
            raise effects.raise_now(context, IndexError, (
                f"Replacement index {first} out of range for positional args tuple",))
        if not isinstance(first, int) and first not in kwargs:
            raise effects.raise_now(context, KeyError, (str(first),))
        value = args[first] if isinstance(first, int) else kwargs[first]
        for is_attribute, key in rest:
            value = get_attribute(context, value, key) if is_attribute else get_item(context, value, key)
        inner = static(context, joined(context, _fields_of(context, spec or "", args, kwargs, count)),
                       "a format specification")
        parts.append((value, conversion or "", inner))
    return parts


def _split(field: str) -> tuple[Any, list[tuple[bool, Any]]]:
    first, rest = _formatter_split(field)
    return first, list(rest)


def _join(context: Context, separator: str, items: Any) -> Any:
    parts: list[Any] = []
    for i, item in enumerate(items_of(context, items)):
        if not isinstance(item, (str, Text)):
            raise effects.raise_now(context, TypeError, (
                f"sequence item {i}: expected str instance, {type_name(item)} found",))
        parts += [separator * (i > 0), (item, "", "")]
    return joined(context, parts)


@register(str)
class StringKind(PlainKind):
    """A string; some of its methods take values of the run."""

    def get_item(self, context: Context, obj: str, index: Any) -> Any:
        return pick(context, obj, index) if isinstance(index, Number) else super().get_item(context, obj, index)


    rank = 5

    methods: ClassVar[Methods] = {
        "join": _join, "format": lambda cx, template, *args, **kwargs: formatted(cx, template, args, kwargs)}

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        found = binary(context, op, a, b)
        return super().binary(context, op, a, b) if found is NotImplemented else found


@register(Text)
class TextKind(Kind):
    """A string with run-time parts."""

    dynamic = True
    rank = 5

    def class_of(self, obj: Text) -> type:
        return str

    def type_word(self, obj: Text) -> str:
        return "a string with run-time parts"

    def argument(self, context: Context, obj: Text) -> Any:
        raise UnsupportedCall("a string that is known only at run time, as an argument of the library", context.span())

    def truth(self, context: Context, obj: Text) -> Any:
        return True  # numbers and tensors have texts that are not empty

    def result(self, results: Leaving, obj: Text) -> sig.Result:
        return sig.Text(tuple(p if isinstance(p, str) else (results.tree(p[0]), *p[1:]) for p in obj.parts))

    def text(self, context: Context, obj: Text, conversion: str, spec: str) -> list[Any]:
        if spec or conversion in ("r", "a"):
            raise UnsupportedCall("a format of a string that is known only at run time", context.span(),
                                  hint="format the number itself: `f'{x:>8}'`")
        return obj.parts

    def binary(self, context: Context, op: str, a: Any, b: Any) -> Any:
        return binary(context, op, a, b)

    def compare(self, context: Context, op: str, a: Any, b: Any) -> Any:
        if a is b and op in ("eq", "ne"):
            return op == "eq"
        if not (isinstance(a, (str, Text)) and isinstance(b, (str, Text))):
            return NotImplemented
        raise UnsupportedCall("a comparison of strings that are known only at run time", context.span(),
                              hint="compare the numbers that they are made of")

    def no_attribute(self, context: Context, obj: Any, name: str) -> Exception:
        return UnsupportedCall(f"`{name}` of a string that is known only at run time", context.span(),
                               hint="format the number itself (`f'{x:>8}'`), or work on the string outside the script")
