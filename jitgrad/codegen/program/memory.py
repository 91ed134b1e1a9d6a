"""Native memory seen from Python: arrays over it, and numbers in its words.

A value travels as its *kind* says (`kind_of`).
"""

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.dtypes import dtype
from jitgrad.ops.types import BOOL, FLOAT, INT, NUMBER, OptionalType, SeqType, TensorType, Type


def _flat(address: int, size: int, d: dtype) -> np.ndarray[Any, Any]:
    return np.frombuffer(memoryview((ctypes.c_char * size).from_address(address)), dtype=d.np)


def array(address: int, shape: Sequence[int], strides: Sequence[int] | None, d: dtype) -> np.ndarray[Any, Any]:
    """An ndarray over native memory; strides in elements, None: row-major."""
    if 0 in shape:
        return np.empty(tuple(shape), d.np)
    if strides is None:
        count = int(np.prod(shape, dtype=np.int64))
        return _flat(address, count * d.itemsize, d).reshape(tuple(shape))
    low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
    size = (high - low + 1) * d.itemsize
    flat = _flat(address + low * d.itemsize, size, d)
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


def read_number(block: Any, word: int, kind: Any) -> tuple[Any, int]:
    """A number and the word after it."""
    if kind == "float":
        return struct.unpack_from("=d", block, 8 * word)[0], word + 1
    if kind == "bool":
        return bool(block[word]), word + 1
    if kind == "number":
        return read_number(block, word + 1, ("bool", "int", "float")[block[word]])
    return block[word], word + 1


def write_number(block: Any, word: int, kind: Any, value: bool | int | float) -> int:
    """Write a number; the word after it."""
    if kind == "number":
        kind = "float" if isinstance(value, float) else "int"
        block[word] = 2 if kind == "float" else 0 if isinstance(value, bool) else 1
        word += 1
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
    """How a value of a type travels: "t:float32:2", "int", "float", "bool", "number", ("optional", k) or ("seq", k)."""
    if isinstance(type_, TensorType):
        return f"t:{type_.dtype.name}:{type_.ndim}"
    if isinstance(type_, OptionalType):
        return ("optional", kind_of(type_.elem))
    if isinstance(type_, SeqType):
        return ("seq", kind_of(type_.elem))
    return _NUMBER_KINDS[type_]


_NUMBER_KINDS: dict[Type, str] = {INT: "int", FLOAT: "float", BOOL: "bool", NUMBER: "number"}
