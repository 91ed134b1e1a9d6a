"""Texts made of values, and the graph's op on strings, `text`: Python computes it, in native code too.

The attr `fn` names a row, which says what one function does. A node is total: where Python raises what the row lists,
the result is empty or 0, and with the attr `error`, the name of a class, the result is what Python says when it raises
that (or nothing), for the check before. The attr `args` says what the operands are, over the node's inputs:

    ("is", x)        x: a number, a string, None
    ("value", i)     input i: a number, a string, a list of strings
    ("text", *parts) a string, as that of a `print`: literal parts, and (index, conversion, format) of inputs
    ("tuple", *args) a tuple of operands

The attr `names` has the names of the last of them that are given by name.
"""

import builtins
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad.classes import dataclass
from jitgrad.ops.backend import backend
from jitgrad.ops.types import BOOL, FLOAT, INT, TEXT, Type


@dataclass(frozen=True, slots=True)
class TextOp:
    """One function.

    Attributes:
        name: that of the method of `str`, or of the builtin function.
        python: what it computes. Several strings, a tuple, are one value of the graph.
        result: the type of the result.
        raises: what it may raise for operands of the right types.
        by_itself: whether it may do so for some strings, whatever the other operands are.
    """

    name: str
    python: Callable[..., Any]
    result: Type
    raises: tuple[type[Exception], ...] = ()
    by_itself: bool = False


TEXTS: dict[str, TextOp] = {}
#: the methods of `str` among them
METHODS: set[str] = set()
#: those that give several strings: a list of them, or a tuple of three
LISTS, TRIPLES = frozenset({"split", "rsplit", "splitlines"}), frozenset({"partition", "rpartition"})


def _methods(names: str, result: Type = TEXT, raises: tuple[type[Exception], ...] = (),
             by_itself: bool = False) -> None:
    for name in names.split():
        TEXTS[name] = TextOp(name, getattr(str, name), result, raises, by_itself)
        METHODS.add(name)


def _functions(result: Type, *raises: type[Exception], **functions: Callable[..., Any]) -> None:
    for name, python in functions.items():
        TEXTS[name] = TextOp(name, python, result, raises, bool(raises))


_methods("capitalize casefold expandtabs lower lstrip removeprefix removesuffix replace rstrip strip swapcase title "
         "upper zfill")
_methods("center ljust rjust", raises=(TypeError,))
_methods("isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper "
         "startswith endswith", BOOL)
_methods("count find rfind", INT)
_methods("index rindex", INT, (ValueError,), True)


def _several(method: Callable[..., Any]) -> Callable[..., tuple[str, ...]]:
    return lambda *args, **named: tuple(method(*args, **named))


for _name in (*LISTS, *TRIPLES):
    TEXTS[_name] = TextOp(_name, _several(getattr(str, _name)), TEXT, (ValueError,))
    METHODS.add(_name)


def _int(text: str, base: int = 10) -> int:
    value = builtins.int(text, base)
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError("Python int too large to convert to C long")
    return value


def _slice(text: str, start: int | None, stop: int | None, step: int | None) -> str:
    return text[start:stop:step]


_functions(TEXT, format=lambda text: text, join=lambda separator, items: separator.join(items),
           repeat=lambda text, n: text * n)
_functions(TEXT, IndexError, getitem=operator.getitem)
_functions(TEXT, ValueError, slice=_slice, formatted=format)
_functions(TEXT, ValueError, OverflowError, chr=chr)
_functions(INT, len=len)
_functions(INT, TypeError, ord=ord)
_functions(INT, ValueError, OverflowError, int=_int)
_functions(FLOAT, ValueError, float=float)
_functions(BOOL, eq=operator.eq, lt=operator.lt, le=operator.le, contains=operator.contains)

# --- what nodes compute -----------------------------------------------------------------------------------------------

_NOTHING: dict[Type, Any] = {BOOL: False, INT: 0, FLOAT: 0.0}


def compute(attrs: Mapping[str, Any], values: Sequence[Any]) -> Any:
    """The value of a `text` node."""
    row, error = TEXTS[attrs["fn"]], attrs.get("error", "")
    args, names = [_operand(a, values) for a in attrs["args"]], attrs.get("names", ())
    named = dict(zip(names, args[len(args) - len(names):], strict=True))
    try:
        result = row.python(*args[:len(args) - len(names)], **named)
    except row.raises as raised:
        if error:
            return str(raised) if type(raised).__name__ == error else ""
        return _NOTHING.get(row.result, "")
    return "" if error else result


def _operand(stated: Sequence[Any], values: Sequence[Any]) -> Any:
    kind, *rest = stated
    if kind == "text":
        return render(rest, values)
    if kind == "tuple":
        return tuple([_operand(a, values) for a in rest])
    return values[rest[0]] if kind == "value" else rest[0]


def grows(attrs: Mapping[str, Any]) -> bool:
    """Whether a node puts parts behind its first input as it is."""
    if attrs["fn"] != "format":
        return False
    parts = attrs["args"][0][1:]
    return len(parts) > 1 and tuple(parts[0]) == (0, "", "")


# --- texts of values --------------------------------------------------------------------------------------------------

_CONVERSIONS: dict[str, Callable[[Any], str]] = {"s": str, "r": repr, "a": ascii}


def render(template: Sequence[Any], values: Sequence[Any]) -> str:
    """The text of a `check` or `print`: literal parts, and (index, conversion, format) of values.

    A conversion is "s", "r", "a" or "", or the texts of which an int chooses one. After its letter it may say what is
    shown of a tensor besides its elements (see `Tensor._text`).
    """
    parts = []
    for part in template:
        if isinstance(part, str):
            parts.append(part)
            continue
        index, conversion, spec = part
        value = values[index]
        if is_array(value):
            value = tensor_of(value)
        if isinstance(conversion, tuple):
            value = conversion[value]
        elif conversion:
            value = value._text(conversion[1:]) if conversion[1:] else _CONVERSIONS[conversion](value)
        parts.append(format(value, spec))
    return "".join(parts)


def is_array(value: Any) -> bool:
    """Whether a value is an array, of any library, and no tensor."""
    return hasattr(value, "dtype") and not hasattr(value, "requires_grad")


class _Shown(threading.local):
    where: Any = None


_shown = _Shown()


@contextmanager
def tensors_on(where: Any) -> Iterator[None]:
    """Inside, what is printed and raised has tensors of this device: of a program that is interpreted on the host."""
    before, _shown.where = _shown.where, where
    try:
        yield
    finally:
        _shown.where = before


def tensor_of(array: Any) -> Any:
    """The eager tensor of an array, on its device, that formats as the user expects."""
    found = backend().from_data(array, None)
    return found if _shown.where is None else found.to(_shown.where)
