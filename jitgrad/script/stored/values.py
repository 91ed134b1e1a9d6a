"""Values as JSON, and back, checked one by one: what reads returns what it says, or raises LoadError."""

import builtins
import keyword
import re
import types
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad import dtypes, errors
from jitgrad.device import device
from jitgrad.serialization import LoadError

Json = Any
_DTYPES = {d.name: d for d in dtypes.ALL}
_DEVICE = re.compile(r"cpu|cuda(:\d{1,3})?")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), range, slice, type(Ellipsis))
#: classes that a file names; named tuples of other classes are described by their fields
CLASSES: dict[str, Any] = {
    "tuple": tuple, "list": list, "dict": dict, "OrderedDict": OrderedDict,
    "defaultdict": defaultdict, "Size": jitgrad.Size, "bool": bool,
    "int": int, "float": float, "complex": complex, "str": str, "bytes": bytes, "method": types.MethodType}
_FAULTS = {name: value for name, value in vars(errors).items()
           if isinstance(value, type) and issubclass(value, Exception)}


class NotSavable(TypeError):
    """Something in a program cannot be in a file; the message says what, and what to do."""


# --- checks --------------------------------------------------------------------------------------------------------


def need(condition: bool, what: str) -> None:
    """Raise LoadError unless `condition` holds."""
    if not condition:
        raise LoadError(f"damaged file: {what}")


def integer(value: Json, low: int = 0, high: int = 1 << 62) -> int:
    """An int in a range, `high` excluded."""
    if type(value) is not int or not low <= value < high:
        raise LoadError(f"damaged file: {str(value)[:40]} is not a number from {low} to {high - 1}")
    return value


def boolean(value: Json) -> bool:
    if type(value) is not bool:
        raise LoadError(f"damaged file: {str(value)[:40]} is not a bool")
    return value


def items(value: Json, n: int | None = None) -> list[Any]:
    """A list, of n items if n is given."""
    need(type(value) is list and (n is None or len(value) == n), "a list has another length")
    return list(value)


def string(value: Json) -> str:
    need(type(value) is str, "something is not a string")
    return str(value)


def identifier(value: Json) -> str:
    """A name that may stand in generated code: none of Python's own double-underscore names but `__self__`."""
    name = string(value)
    need(name.isidentifier() and not keyword.iskeyword(name) and len(name) < 200, f"{name[:40]!r} is not a name")
    need(not name.startswith("__") or name == "__self__", f"the name {name[:40]!r}")
    return name


def dtype_of(value: Json) -> Any:
    name = string(value)
    found = _DTYPES.get(name)
    need(found is not None, f"the dtype {name[:40]!r}")
    return found


def device_of(value: Json) -> device:
    """A device, whether it is there or not."""
    name = string(value)
    need(_DEVICE.fullmatch(name) is not None, f"the device {name[:40]!r}")
    return device(name)


# --- numbers, strings, dtypes, devices, and tuples of them ---------------------------------------------------------


def is_plain(value: Any) -> bool:
    """Whether `to_plain` can say the value."""
    if type(value) in (tuple, frozenset):
        return all(is_plain(v) for v in value)
    return type(value) in _PLAIN or isinstance(value, (dtypes.dtype, device))


def to_plain(value: Any) -> Json:
    """A number, string, dtype... as JSON; `from_plain` is the inverse."""
    if value is None or isinstance(value, (bool, str)):
        return value
    for kind, (cls, stated, _) in _KINDS.items():
        if type(value) is cls or (isinstance(value, cls) and cls not in (tuple, frozenset)):
            return {kind: stated(value)}
    raise NotSavable(f"a value of type `{type(value).__name__}`")


def from_plain(stored: Json) -> Any:
    """The inverse of `to_plain`."""
    if stored is None or type(stored) in (bool, str):
        return stored
    need(type(stored) is dict and len(stored) == 1, "a value of an unknown kind")
    (kind, value), = stored.items()
    need(kind in _KINDS, f"a value of the unknown kind {str(kind)[:40]!r}")
    return _KINDS[kind][2](value)


def _hex(value: Json) -> float:
    return float.fromhex(string(value))


def _parts(value: Any) -> list[Json]:
    return [to_plain(v) for v in value]


def _limits(value: Any) -> list[Json]:
    return _parts((value.start, value.stop, value.step))


def _read(value: Json, n: int | None = None) -> list[Any]:
    return [from_plain(v) for v in items(value, n)]


#: kind -> its class, and how it is stated and read
_KINDS: dict[str, tuple[type, Callable[[Any], Json], Callable[[Json], Any]]] = {
    "int": (int, str, lambda v: int(string(v))),
    "float": (float, float.hex, _hex),
    "complex": (complex, lambda v: [v.real.hex(), v.imag.hex()], lambda v: complex(*map(_hex, items(v, 2)))),
    "bytes": (bytes, bytes.hex, lambda v: bytes.fromhex(string(v))),
    "dtype": (dtypes.dtype, lambda v: v.name, dtype_of),
    "device": (device, str, device_of),
    "range": (range, _limits, lambda v: range(*_read(v, 3))),
    "slice": (slice, _limits, lambda v: slice(*_read(v, 3))),
    "ellipsis": (type(Ellipsis), lambda v: [], lambda v: Ellipsis),
    "tuple": (tuple, _parts, lambda v: tuple(_read(v))),
    "frozenset": (frozenset, lambda v: sorted(_parts(v), key=str), lambda v: frozenset(_read(v))),
}


# --- classes and exceptions ----------------------------------------------------------------------------------------


def class_name(cls: Any) -> Json:
    """A class of the table, or a named tuple by its fields. Raises NotSavable."""
    name = getattr(cls, "__name__", "")
    if CLASSES.get(name) is cls:
        return name
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return {"namedtuple": cls.__name__, "fields": list(cls._fields)}
    raise NotSavable(f"the class `{getattr(cls, '__qualname__', cls)}`: use tensors, numbers, strings and tuples, "
                     "lists, dicts and named tuples of them")


def class_of(stored: Json) -> Any:
    """A class of the table, or a named tuple with these fields."""
    if type(stored) is str:
        need(stored in CLASSES, f"the class {stored[:40]!r}")
        return CLASSES[stored]
    need(type(stored) is dict and stored.keys() == {"namedtuple", "fields"}, "a class of an unknown kind")
    fields = [identifier(f) for f in items(stored["fields"])]
    return namedtuple(identifier(stored["namedtuple"]), fields)


def fault_name(error: type[BaseException]) -> str:
    """An exception class as a name that loading knows: one of `jitgrad.errors`, or the first built-in base."""
    for base in error.__mro__:
        if _FAULTS.get(base.__name__) is base:
            return base.__name__
        if base.__module__ == "builtins":
            return base.__name__
    raise AssertionError(error)


def fault(stored: Json) -> type[Exception]:
    """An exception by the name that `write.fault_name` gave it."""
    name = string(stored)
    found = getattr(errors, name, None) or getattr(builtins, name, None)
    need(isinstance(found, type) and issubclass(found, Exception), f"the exception {name[:40]!r}")
    assert isinstance(found, type)
    return found
