"""Strings with run-time parts: made by f-strings, `str`, `%`, `format`, `+`, `join`; printed, raised, returned.

A part is a string, or (value, conversion, format) of a number or a tensor as it was when the string was made.
"""

from __future__ import annotations

import dataclasses
import re
import string
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.backend import backend
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.state import dispatch, effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.templates.alternatives import tag_of
from jitgrad.script.frontend.templates.unions import force
from jitgrad.script.frontend.values import heap, numbers
from jitgrad.script.frontend.values.objects import generated
from jitgrad.script.frontend.values.plain import PLAIN, PlainKind, static
from jitgrad.script.frontend.values.protocol import (
    Kind,
    Methods,
    call,
    get_attribute,
    get_item,
    is_dynamic,
    items_of,
    method_of,
    register,
    type_name,
    type_word,
)
from jitgrad.script.frontend.values.raised import ExceptionValue, check_readable
from jitgrad.script.frontend.values.values import Instance, Number, SymDict, SymList, SymTensor, Text, Union
from jitgrad.script.graph.ir import Value

_formatter_split: Any = string.Formatter.get_field.__globals__["_string"].formatter_field_name_split
_CONVERT: dict[str, Callable[[Any], Any]] = {"": lambda v: v, "s": str, "r": repr, "a": ascii}


def text(context: Context, parts: Sequence[Any]) -> Any:
    """Parts, of any values, joined: a string where all is known, else a Text."""
    flat: list[Any] = []
    for part in parts:
        for piece in [part] if isinstance(part, str) else _pieces(context, *part):
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
    found = text(context, [(p, "s", "") for p in parts])
    for part in [found] if isinstance(found, str) else found.parts:
        if isinstance(part, str):
            template.append(part)
            continue
        value, conversion, spec = part
        template.append((len(values), conversion, spec))
        values.append(value.value if isinstance(value, Number) else heap.read(context, value))
    return tuple(template), values


def _pieces(context: Context, value: Any, conversion: str, spec: str) -> list[Any]:
    """The parts that one formatted value gives."""
    if isinstance(value, Text):
        if spec or conversion in ("r", "a"):
            raise UnsupportedCall("a format of a string that is known only at run time", context.span(),
                                  hint="format the number itself: `f'{x:>8}'`")
        return value.parts
    if isinstance(value, Union):
        return _union(context, value, conversion, spec)
    if isinstance(value, Number):
        return [(value, conversion, spec)]
    if isinstance(value, SymTensor):
        if not conversion and not value.ndim:  # a 0-d tensor is formatted as the number that it holds
            tensor = value
            if spec or not _is_parameter(context, tensor):
                return [(guarded(context, lambda: backend().item(tensor)), "", spec)]
            conversion = "s"
        about = dispatch.history_word(context, value) if conversion or not spec else ""
        shown = heap.read(context, value)
        if context.has_history(shown):  # a text that the script returns has none
            shown = context.one("detach", shown)
        return [(heap.new_tensor(context, shown), (conversion or "s") + about if about else conversion, spec)]
    if isinstance(value, ExceptionValue):
        return _message(context, value)
    if isinstance(value, Instance) or (not isinstance(value, (type, *PLAIN)) and not is_dynamic(value)):
        found = _by_method(context, value, conversion, spec)
        if found is not None:
            return found
    if is_dynamic(value) or (isinstance(value, tuple) and any(isinstance(v, Text) for v in value)):
        if spec:
            raise effects.raise_now(context, TypeError, (
                f"unsupported format string passed to {type_name(value)}.__format__",))
        return _container(context, value)
    context.look(value)
    return [guarded(context, lambda: format(_CONVERT[conversion](value), spec))]


def _is_parameter(context: Context, tensor: SymTensor) -> bool:
    """Whether a tensor is an input of a class of its own: only plain tensors are formatted as numbers."""
    from jitgrad.eager.tensor import Tensor

    index = tensor.storage.input
    return index >= 0 and not tensor.path and type(context.inputs.tensors[index]) is not Tensor


def _union(context: Context, value: Union, conversion: str, spec: str) -> list[Any]:
    if value.inner is None and all(isinstance(s, (str, int, float, type(None))) for s in value.statics):
        texts = tuple([format(_CONVERT[conversion](s), spec) for s in value.statics])
        return [(numbers.wrap(context, tag_of(context, value)), texts, "")]
    held = force(context, value, "text of None instead of '{}'")
    if isinstance(held, Union):
        raise UnsupportedCall(f"the text of {type_word(value)}, decided at run time", context.span(),
                              hint="write the `if` around the statement")
    return _pieces(context, held, conversion, spec)


def _message(context: Context, error: ExceptionValue) -> list[Any]:
    """`str(error)`."""
    check_readable(context, error)
    if issubclass(error.cls, KeyError) and len(error.args) == 1:
        return _pieces(context, error.args[0], "r", "")
    if len(error.args) == 1:
        return _pieces(context, error.args[0], "s", "")
    return _pieces(context, error.args, "s", "") if error.args else []


def _by_method(context: Context, value: Any, conversion: str, spec: str) -> list[Any] | None:
    """The text that a class written in Python gives its objects; None where it does not."""

    cls = value.cls if isinstance(value, Instance) else type(value)
    if not isinstance(value, Instance) and cls.__module__.split(".")[0] in ("jitgrad", "builtins", "enum"):
        return None
    names = ("__format__",) if not conversion and hasattr(cls.__format__, "__code__") else ()
    for name in (*names, *(("__repr__",) if conversion == "r" else ("__str__", "__repr__"))):
        method = method_of(value, name)
        if method is None or (not isinstance(value, Instance) and not _users(method)):
            continue
        if isinstance(value, Instance) and generated(cls, name):
            return _fields(context, value)
        result = call(context, method, value, spec)
        return _pieces(context, result, "", "" if name == "__format__" else spec)
    if isinstance(value, Instance):
        if generated(cls, "__repr__") or dataclasses.is_dataclass(cls):
            return _fields(context, value)
        raise UnsupportedCall(f"the text of {type_word(value)}", context.span(), hint="define `__repr__`")
    return None


def _users(method: Any) -> bool:
    """Whether a method's source is the user's (and not generated, or of the standard library's)."""
    return not method.__code__.co_filename.startswith("<") and getattr(method, "__wrapped__", None) is None


def _fields(context: Context, value: Instance) -> list[Any]:
    """The text that `dataclass` generates."""
    from jitgrad.script.frontend.values import instances

    items = instances.items_of(context, value)
    shown = [f.name for f in dataclasses.fields(value.cls) if f.repr]
    return _listed(context, f"{value.cls.__qualname__}(", [(f"{n}=", items[n]) for n in shown], ")")


def _container(context: Context, value: Any) -> list[Any]:
    if isinstance(value, SymDict):
        found = contents.dict_of(context, value)
        return _listed(context, "{", [(f"{k!r}: ", v) for k, v in found.items()], "}")
    if not isinstance(value, (tuple, SymList)):
        raise UnsupportedCall(f"text of {type_word(value)}", context.span(), hint="print its parts")
    items = items_of(context, value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _listed(context, f"{type(value).__name__}(",
                       [(f"{n}=", v) for n, v in zip(value._fields, items, strict=True)], ")")
    opening, closing = ("[", "]") if isinstance(value, SymList) else ("(", ",)" if len(items) == 1 else ")")
    if isinstance(value, tuple) and type(value) is not tuple:
        opening, closing = f"{type(value).__name__}([", "])"
    return _listed(context, opening, [("", v) for v in items], closing)


def _listed(context: Context, opening: str, items: Sequence[tuple[str, Any]], closing: str) -> list[Any]:
    found: list[Any] = [opening]
    for i, (label, item) in enumerate(items):
        found += [", " * (i > 0) + label, *_pieces(context, item, "r", "")]
    return [*found, closing]


# --- operations ----------------------------------------------------------------------------------------------------


def binary(context: Context, op: str, a: Any, b: Any) -> Any:
    """`a op b` where one is a string; NotImplemented where Python has no such operation."""
    if op == "mod" and isinstance(a, str):
        return percent(context, a, b)
    if op == "add" and isinstance(a, (str, Text)) and isinstance(b, (str, Text)):
        return text(context, [(a, "", ""), (b, "", "")])
    if op == "mul":
        words, times = (a, b) if isinstance(a, (str, Text)) else (b, a)
        if isinstance(times, int) and isinstance(words, (str, Text)):
            return text(context, [(words, "", "")] * times)
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
    return text(context, parts)


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
    return text(context, _fields_of(context, template, args, kwargs, iter(range(len(args)))))


def _fields_of(context: Context, template: str, args: Sequence[Any], kwargs: dict[str, Any], count: Any) -> list[Any]:
    pass

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
        inner = static(context, text(context, _fields_of(context, spec or "", args, kwargs, count)),
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
    return text(context, parts)


@register(str)
class StringKind(PlainKind):
    """A string; some of its methods take values of the run."""

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
