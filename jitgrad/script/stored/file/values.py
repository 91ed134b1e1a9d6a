"""Values of a file, checked one by one: each function returns what it says, or raises LoadError."""

from __future__ import annotations

import keyword
import re
from collections import namedtuple
from typing import Any

from jitgrad import dtypes
from jitgrad.device import device
from jitgrad.script.stored.file.write import CLASSES
from jitgrad.serialization import LoadError

Json = Any
_DEVICE = re.compile(r"cpu|cuda(:\d{1,3})?")


def need(condition: bool, what: str) -> None:
    """Raise LoadError unless `condition` holds."""
    if not condition:
        raise LoadError(f"damaged file: {what}")


def integer(value: Json, low: int = 0, high: int = 1 << 62) -> int:
    """An int in a range, `high` excluded."""
    need(type(value) is int and low <= value < high, f"{str(value)[:40]} is not a number from {low} to {high - 1}")
    return int(value)


def boolean(value: Json) -> bool:
    need(type(value) is bool, f"{str(value)[:40]} is not a bool")
    return bool(value)


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
    found = {d.name: d for d in dtypes.ALL}.get(name)
    need(found is not None, f"the dtype {name[:40]!r}")
    return found


def device_of(value: Json) -> device:
    """A device, whether it is there or not."""
    name = string(value)
    need(_DEVICE.fullmatch(name) is not None, f"the device {name[:40]!r}")
    return device(name)


def plain(stored: Json) -> Any:
    """The inverse of `snapshot.plain`."""
    if stored is None or type(stored) in (bool, str):
        return stored
    need(type(stored) is dict and len(stored) == 1, "a value of an unknown kind")
    (kind, value), = stored.items()
    if kind == "int":
        return int(string(value))
    if kind == "float":
        return float.fromhex(string(value))
    if kind == "complex":
        return complex(*(float.fromhex(string(v)) for v in items(value, 2)))
    if kind == "bytes":
        return bytes.fromhex(string(value))
    if kind == "dtype":
        return dtype_of(value)
    if kind == "device":
        return device_of(value)
    if kind in ("range", "slice"):
        parts = [plain(v) for v in items(value, 3)]
        return range(*parts) if kind == "range" else slice(*parts)
    if kind == "ellipsis":
        return Ellipsis
    need(kind in ("tuple", "frozenset"), f"a value of the unknown kind {str(kind)[:40]!r}")
    found = [plain(v) for v in items(value)]
    return tuple(found) if kind == "tuple" else frozenset(found)


def class_of(stored: Json) -> Any:
    """A class of the table, or a named tuple with these fields."""
    if type(stored) is str:
        need(stored in CLASSES, f"the class {stored[:40]!r}")
        return CLASSES[stored]
    need(type(stored) is dict and stored.keys() == {"namedtuple", "fields"}, "a class of an unknown kind")
    fields = [identifier(f) for f in items(stored["fields"])]
    return namedtuple(identifier(stored["namedtuple"]), fields)
