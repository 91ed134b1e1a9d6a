"""Native memory seen from Python: arrays over it, numbers and strings in its words.

A value travels as its *kind* says (`kind_of`). A string is a handle, the address of Python's object; 0 is the empty
string. Whoever makes a handle keeps the object: the workspace of a call those that its sites made, until the call ends.
"""

import ctypes
import functools
import math
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.dtypes import dtype
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, TEXT, OptionalType, SeqType, TensorType, Type


def _dense(address: int, shape: tuple[int, ...], d: dtype) -> np.ndarray[Any, Any]:
    size = math.prod(shape) * d.itemsize
    return np.ndarray(shape, d.np, memoryview((ctypes.c_char * size).from_address(address)))


def array(address: int, shape: Sequence[int], strides: Sequence[int] | None, d: dtype) -> np.ndarray[Any, Any]:
    """An ndarray over native memory; strides in elements, None: row-major."""
    if 0 in shape:
        return np.empty(tuple(shape), d.np)
    if strides is None:
        return _dense(address, tuple(shape), d)
    low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
    flat = _dense(address + low * d.itemsize, (high - low + 1,), d)
    return np.lib.stride_tricks.as_strided(flat[-low:], tuple(shape), [s * d.itemsize for s in strides])


class Memory:
    """Arrays over a program's memory, and what computes with them: the host's, if nobody says otherwise."""

    def row(self, op: Any) -> Callable[..., Any]:
        """A row of the op table as a function of such arrays."""
        return functools.partial(op.impl, np)

    def view(self, address: int, shape: Sequence[int], strides: Sequence[int] | None, d: dtype) -> Any:
        """An array over memory; strides in elements, None: row-major."""
        return array(address, shape, strides, d)

    def contiguous(self, value: Any) -> Any:
        """`value` itself, or a copy in row-major order in this memory."""
        return np.require(value, requirements=["C", "A"])

    def address(self, value: Any) -> int:
        """Where the elements of an array begin."""
        return int(value.ctypes.data)

    def empty(self, shape: tuple[int, ...], d: Any) -> Any:
        """A new array; `d` is a NumPy dtype."""
        return np.empty(shape, d)


HOST = Memory()


# --- strings ----------------------------------------------------------------------------------------------------------

#: from here on a string that parts are put behind is not copied each time
LONG = 1024


class _Buffer:
    """Characters that strings share which begin alike: `text` and, not joined to it yet, `tail`."""

    __slots__ = ("length", "tail", "text")

    def __init__(self, text: str):
        self.text, self.length = text, len(text)
        self.tail: list[str] = []


class Grown:
    """The first `length` characters of a buffer."""

    __slots__ = ("buffer", "length")

    def __init__(self, buffer: _Buffer, length: int):
        self.buffer, self.length = buffer, length

    def __str__(self) -> str:
        buffer = self.buffer
        if buffer.tail:
            buffer.text = "".join((buffer.text, *buffer.tail))
            buffer.tail.clear()
        return buffer.text if self.length == buffer.length else buffer.text[:self.length]


def extended(long: Any, more: str) -> Any:
    """A long string with `more` behind it: n pieces, one by one, take memory for their characters, not n times that."""
    buffer = long.buffer if isinstance(long, Grown) and long.length == long.buffer.length else _Buffer(str(long))
    buffer.tail.append(more)
    buffer.length += len(more)
    return Grown(buffer, buffer.length)


def is_long(value: Any) -> bool:
    """Whether it pays to share what a string begins with."""
    return isinstance(value, Grown) or len(value) >= LONG


def handle(value: Any) -> int:
    """The handle of a string (or of several, a tuple) that somebody keeps."""
    return id(value) if value != "" else 0


def object_of(handle: int) -> Any:
    """The object behind a handle."""
    return ctypes.cast(ctypes.c_void_p(handle), ctypes.py_object).value if handle else ""


def read_text(handle: int) -> Any:
    """The string, or strings, behind a handle."""
    found = object_of(handle)
    return str(found) if isinstance(found, Grown) else found


# --- words ------------------------------------------------------------------------------------------------------------


def read_number(block: Any, word: int, kind: Any) -> tuple[Any, int]:
    """A number and the word after it."""
    if kind == "float":
        return struct.unpack_from("=d", block, 8 * word)[0], word + 1
    if kind == "bool":
        return bool(block[word]), word + 1
    if kind == "number":
        return read_number(block, word + 1, ("bool", "int", "float")[block[word]])
    if kind == "str":
        return read_text(block[word]), word + 1
    return block[word], word + 1


def write_number(block: Any, word: int, kind: Any, value: Any) -> int:
    """Write a number, or a string that the caller keeps; the word after it."""
    if kind == "number":
        kind = "float" if isinstance(value, float) else "int"
        block[word] = 2 if kind == "float" else 0 if isinstance(value, bool) else 1
        word += 1
    if kind == "str":
        value = handle(value)
    struct.pack_into("=d" if kind == "float" else "=q", block, 8 * word, value)
    return word + 1


@cache
def tensor_kind(kind: str) -> tuple[dtype, int]:
    """dtype and rank of "t:float32:2"."""
    _, name, rank = kind.split(":")
    return dtypes.by_name(name), int(rank)


def is_tensor(kind: Any) -> bool:
    """Whether a kind is a tensor's."""
    return isinstance(kind, str) and kind.startswith("t:")


def payload(kind: Any) -> Any:
    """The kind inside any number of Optionals."""
    while isinstance(kind, tuple) and kind[0] == "optional":
        kind = kind[1]
    return kind


def kind_of(type_: Type) -> Any:
    """How a value of a type travels: "t:float32:2", "int", "float", "bool", "number", "str", ("optional", k) or
    ("seq", k).
    """
    if isinstance(type_, TensorType):
        return f"t:{type_.dtype.name}:{type_.ndim}"
    if isinstance(type_, OptionalType):
        return ("optional", kind_of(type_.elem))
    if isinstance(type_, SeqType):
        return ("seq", kind_of(type_.elem))
    return _NUMBER_KINDS[type_]


_NUMBER_KINDS: dict[Type, str] = {t: t.name for t in (INT, FLOAT, BOOL, NUMBER, TEXT)}
