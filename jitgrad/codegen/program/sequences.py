"""Sequences outside native code: opaque handles that own their memory, and conversion from and to lists.

The layout is that of `llvm/sequences.py`. A handle keeps the arena of the call that made it; when the last handle goes,
the arena's newest chunk is kept for the next call and the rest is freed.
"""

import ctypes
import math
import struct
from typing import Any

from jitgrad.codegen.program.memory import HOST, Memory, handle, is_tensor, payload, read_number, tensor_kind

_free = ctypes.CDLL(None).free
_free.argtypes, _free.restype = [ctypes.c_void_p], None


def free_chunks(address: int | None, free: Any = _free) -> None:
    """Free a chain of arena chunks."""
    while address:
        previous = ctypes.c_size_t.from_address(address).value
        free(address)
        address = previous


class Arena:
    """Owns a chain of chunks. `spare`: where its newest chunk goes in the end (at most a few)."""

    __slots__ = ("address", "spare")

    def __init__(self, address: int, spare: list[int]):
        self.address, self.spare = address, spare

    def __del__(self, release: Any = free_chunks) -> None:
        if self.address:
            if len(self.spare) < 4:
                newest = ctypes.c_size_t.from_address(self.address)
                release(newest.value)
                newest.value = 0
                self.spare.append(self.address)
            else:
                release(self.address)


class SeqHandle:
    """A sequence as native code returns and takes it."""

    __slots__ = ("address", "kind", "memory", "owners")

    def __init__(self, address: int, kind: Any, owners: Any, memory: Memory = HOST):
        self.address, self.kind, self.owners, self.memory = address, kind, owners, memory

    def __len__(self) -> int:
        return int(ctypes.c_int64.from_address(self.address).value)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements, what is absent included where room for it was made."""
        return _nbytes(self.address, self.kind)

    def to_list(self) -> list[Any]:
        """Its elements: copies of the tensors, numbers, None for what is absent, lists of these."""
        return to_list(self.address, self.kind, self.memory)


def columns(kind: Any) -> list[tuple[Any, int]]:
    """(kind, first header word) of each column of sequences of `kind`."""
    found: list[Any] = []
    while isinstance(kind, tuple) and kind[0] == "optional":
        found.append("bool")
        kind = kind[1]
    found.append(kind)
    result, at = [], 2
    for k in found:
        result.append((k, at))
        at += _words(k)
    return result


def _words(kind: Any) -> int:
    """The header words of a column."""
    return 3 + tensor_kind(kind)[1] if is_tensor(kind) else 1


def _nbytes(address: int, kind: Any) -> int:
    last, at = columns(payload(kind)[1])[-1]
    header = (ctypes.c_int64 * (at + _words(last))).from_address(address)
    length = int(header[0])
    if isinstance(last, tuple):
        words = (ctypes.c_int64 * length).from_address(header[at])
        return sum(_nbytes(word, last) for word in words if word)
    if not is_tensor(last):
        return length * (16 if last == "number" else 8)
    d, rank = tensor_kind(last)
    if not header[at + 2]:
        return length * d.itemsize * math.prod(header[at + 3:at + 3 + rank])
    records = ((ctypes.c_int64 * (1 + rank)).from_address(header[at] + header[at + 1] * k) for k in range(length))
    return sum(d.itemsize * math.prod(record[1:]) for record in records if record[0])


def to_list(address: int, kind: Any, memory: Memory = HOST) -> list[Any]:
    """The elements of the sequence at an address; `memory` has those that are tensors."""
    places = columns(kind[1])
    header = (ctypes.c_int64 * 64).from_address(address)
    return [_element(header, places, k, memory) for k in range(header[0])]


def _element(header: Any, places: list[tuple[Any, int]], k: int, memory: Memory) -> Any:
    for kind, at in places[:-1]:
        assert kind == "bool"
        if not ctypes.c_int64.from_address(header[at] + 8 * k).value:
            return None
    kind, at = places[-1]
    if not is_tensor(kind):
        width = 16 if kind == "number" else 8
        words = (ctypes.c_int64 * 2).from_address(header[at] + width * k)
        if isinstance(kind, tuple):
            return to_list(words[0], kind, memory)
        return read_number(words, 0, kind)[0]
    d, rank = tensor_kind(kind)
    place = header[at] + header[at + 1] * k
    if header[at + 2]:
        record = (ctypes.c_int64 * (1 + rank)).from_address(place)
        return memory.view(record[0], record[1:], None, d).copy()
    return memory.view(place, header[at + 3:at + 3 + rank], None, d).copy()


def from_list(values: list[Any], kind: Any, memory: Memory = HOST) -> SeqHandle:
    """A sequence made of Python values (nested lists for sequences of sequences)."""
    kind = payload(kind)
    places = columns(kind[1])
    last, at = places[-1]
    header = (ctypes.c_int64 * (at + _words(last)))()
    owners: list[Any] = [header]
    header[0] = header[1] = len(values)
    for number, (k, place) in enumerate(places):
        width = 8 * (1 + tensor_kind(k)[1]) if is_tensor(k) else 16 if k == "number" else 8
        data = (ctypes.c_char * max(1, width * len(values)))()
        owners.append(data)
        header[place] = ctypes.addressof(data)
        if is_tensor(k):
            header[place + 1], header[place + 2] = width, 1
        for i, value in enumerate(values):
            _store(data, width * i, k, value, number < len(places) - 1, owners, memory)
    return SeqHandle(ctypes.addressof(header), kind, owners, memory)


def _store(data: Any, at: int, kind: Any, value: Any, flag: bool, owners: list[Any], memory: Memory) -> None:
    if flag:
        struct.pack_into("=q", data, at, value is not None)
    elif value is None:
        return
    elif is_tensor(kind):
        array = memory.contiguous(value)
        owners.append(array)
        struct.pack_into(f"={1 + array.ndim}q", data, at, memory.address(array), *array.shape)
    elif isinstance(kind, tuple):
        inner = value if isinstance(value, SeqHandle) else from_list(value, kind, memory)
        owners.append(inner)
        struct.pack_into("=q", data, at, inner.address)
    elif kind == "number":
        tag = 2 if isinstance(value, float) else 0 if isinstance(value, bool) else 1
        struct.pack_into("=qd" if tag == 2 else "=qq", data, at, tag, value)
    elif kind == "str":
        owners.append(value)
        struct.pack_into("=q", data, at, handle(value))
    else:
        struct.pack_into("=d" if kind == "float" else "=q", data, at, value)
