"""Strings with run-time parts: made by f-strings, `str`, `%`, `format`, `+`, `join`; printed, raised, returned.

A part is a string, or (value, conversion, format) of a number, a string of the run, or a tensor as it was when the
string was made. `ask` is how everything else comes about that is computed of strings.
"""

import re
import string
from collections.abc import Iterable, Sequence
from typing import Any

from jitgrad.errors import UnsupportedCall
from jitgrad.ops.backend import backend
from jitgrad.ops.texts import TEXTS, TextOp
from jitgrad.ops.types import TEXT
from jitgrad.script.frontend.containers import contents
from jitgrad.script.frontend.state import effects
from jitgrad.script.frontend.state.context import Context
from jitgrad.script.frontend.state.effects import guarded
from jitgrad.script.frontend.templates import unions
from jitgrad.script.frontend.templates.texts import templated
from jitgrad.script.frontend.templates.unions import force
from jitgrad.script.frontend.values import numbers
from jitgrad.script.frontend.values.plain import static
from jitgrad.script.frontend.values.protocol import get_attribute, get_item, is_dynamic, text, truth, type_name
from jitgrad.script.frontend.values.values import Number, RunText, SymDict, SymTensor, Text
from jitgrad.script.graph.ir import Value

STRINGS = (str, Text, RunText)
#: what an operand may be that is known while compiling
_KNOWN = (bool, int, float, str, type(None))
_formatter_split: Any = string.Formatter.get_field.__globals__["_string"].formatter_field_name_split


def joined(context: Context, parts: Sequence[Any]) -> Any:
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
    if len(flat) == 1 and (isinstance(flat[0], str) or (isinstance(flat[0][0], RunText) and flat[0][1:] == ("", ""))):
        return flat[0] if isinstance(flat[0], str) else flat[0][0]
    return Text(flat)


def _pieces(context: Context, value: Any, conversion: str, spec: Any) -> list[Any]:
    """The text of a value, in a format that may be a string of the run."""
    if conversion and spec and is_dynamic(value) and not isinstance(value, Number):
        value, conversion = joined(context, [(value, conversion, "")]), ""
    if not is_dynamic(spec):
        return text(context, value, conversion, spec)
    value = force(context, value, "text of None instead of '{}'")
    if conversion:
        value = joined(context, [(value, conversion, "")])
    elif isinstance(value, SymTensor) and not value.type_.dims and truth(context, spec) is True:
        tensor = value
        value = guarded(context, lambda: backend().item(tensor))
    elif not isinstance(value, (Text, RunText, Number)) and type(value) not in _KNOWN:
        spec = static(context, spec, "the format of anything but strings and numbers")
    return [(ask(context, "formatted", value, spec), "", "")]


def template_of(context: Context, parts: Sequence[Any]) -> tuple[tuple[Any, ...], list[Value]]:
    """Values of any kind, joined, as the template of a `check` or `print` and the graph values that it names."""
    values: list[Value] = []
    found = joined(context, [(p, "s", "") for p in parts])
    return templated(context, parts_of(found), values), values


def parts_of(value: Any) -> list[Any]:
    """The parts of a string."""
    return [value] if isinstance(value, str) else value.parts if isinstance(value, Text) else [(value, "", "")]


class _Shown:
    """The containers whose text is being made, from the outermost inwards."""

    def __init__(self) -> None:
        self.containers: list[Any] = []


def listed(context: Context, obj: Any, opening: str, items: Iterable[tuple[str, Any]], closing: str) -> list[Any]:
    """The text of a container: of each item a label and its `repr`, with commas between them; dots where it is in
    itself."""
    shown = context.part(_Shown).containers
    if any(obj is s for s in shown):
        return ["..." if opening[-1] == "(" != opening else {"(": "(...)", "[": "[...]", "{": "{...}"}[opening[-1]]]
    found: list[Any] = [opening]
    shown.append(obj)
    try:
        for i, (label, item) in enumerate(items):
            found += [", " * (i > 0) + label, *text(context, item, "r", "")]
    finally:
        shown.pop()
    return [*found, closing]


# --- what is computed of strings -------------------------------------------------------------------------------------


def ask(context: Context, fn: str, *args: Any, **named: Any) -> Any:
    """What a row of `ops.texts` computes; what it may raise, the script raises before."""
    names = tuple(named)
    return unions.each(context, (*args, *named.values()), lambda given: _asked(context, TEXTS[fn], given, names, True))


def sure(context: Context, fn: str, *args: Any) -> Any:
    """The same of what is known to raise nothing."""
    return _asked(context, TEXTS[fn], args, (), False)


def _asked(context: Context, row: TextOp, args: tuple[Any, ...], names: tuple[str, ...], checked: bool) -> Any:
    values: list[Value] = []
    attrs: dict[str, Any] = {"fn": row.name, "args": tuple([_operand(context, a, values) for a in args])}
    if names:
        attrs["names"] = names
    if checked and _may_raise(context, row, args, names):
        for error in row.raises:
            said = context.one("text", *values, **attrs, error=error.__name__)
            empty = numbers.negate(context, numbers.wrap(context, context.one("num.cast", said, to="bool")))
            effects.emit(context, "check", empty.value, said, error=error, template=((0, "", ""),))
    found = context.one("text", *values, **attrs)
    if row.result == TEXT:
        return RunText(found)
    number = numbers.wrap(context, found)
    if row.name == "len":
        number.low = 0
    return number


def _may_raise(context: Context, row: TextOp, args: tuple[Any, ...], names: tuple[str, ...]) -> bool:
    """Whether a function may raise one of its errors for values that only the run knows. What it raises for all values
    of their types is raised here."""
    n = len(args) - len(names)
    samples = [_sample(a) for a in args]
    may = row.by_itself or any(map(is_dynamic, args[1:]))

    def tried() -> None:
        try:
            row.python(*samples[:n], **dict(zip(names, samples[n:], strict=True)))
        except row.raises:
            if not may:
                raise

    guarded(context, tried)
    return bool(row.raises) and may


def _sample(value: Any) -> Any:
    """A value of the same type."""
    if isinstance(value, (Text, RunText)):
        return "x"
    if isinstance(value, Number):
        return 1 if value.number_type is object else value.number_type(1)
    if isinstance(value, tuple):
        return tuple(map(_sample, value))
    return ["x"] if isinstance(value, Value) else value


def _operand(context: Context, value: Any, values: list[Value]) -> tuple[Any, ...]:
    """An operand of a `text` node; the graph values in it are added to `values`."""
    if isinstance(value, Text):
        return ("text", *templated(context, value.parts, values))
    if isinstance(value, (RunText, Number, Value)):
        values.append(value if isinstance(value, Value) else value.value)
        return ("value", len(values) - 1)
    if isinstance(value, tuple):
        return ("tuple", *[_operand(context, v, values) for v in value])
    if isinstance(value, _KNOWN):
        return ("is", value)
    raise effects.raise_now(context, TypeError, (f"a string or a number is needed here, not '{type_name(value)}'",))


# --- formats ---------------------------------------------------------------------------------------------------------

_PERCENT = re.compile(r"%(?:\((?P<name>[^)]*)\))?(?P<flags>[-+ #0]*)(?P<width>\d*)(?:\.(?P<precision>\d+))?"
                      r"(?P<kind>[diouxXeEfFgGcrsa%])")


def percent(context: Context, template: str, values: Any) -> Any:
    """`template % values`."""
    if not is_dynamic(values):
        context.ask(*values if isinstance(values, tuple) else (values,))
        return guarded(context, lambda: template % values)
    if "%" in _PERCENT.sub("", template):
        raise UnsupportedCall("this `%` format", context.span(), hint="use an f-string")
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
        inner = joined(context, _fields_of(context, spec or "", args, kwargs, count))
        parts.append((value, conversion or "", inner))
    return parts


def _split(field: str) -> tuple[Any, list[tuple[bool, Any]]]:
    first, rest = _formatter_split(field)
    return first, list(rest)
