"""The safetensors format: tensors by name, without any program. A header of JSON, then the bytes.

    8 bytes: the header's length    {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}    bytes

Offsets count from the header's end; tensors lie one behind the other and use up the file.
Source: https://github.com/huggingface/safetensors, "Format". bfloat16 and mapped files are why it is read here.
"""

from __future__ import annotations

import itertools
import json
import math
from typing import IO, Any

import numpy as np

from jitgrad import dtypes
from jitgrad.eager.arrays.arrays import to_host
from jitgrad.eager.construct import from_numpy
from jitgrad.eager.locations import Locations
from jitgrad.eager.tensor import Tensor
from jitgrad.serialization.archive import Array, LoadError, Source, numbers, undamaged

DTYPES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
          "U16": "uint16", "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32",
          "F64": "float64", "C64": "complex64"}
_TAGS = {name: tag for tag, name in DTYPES.items()}
#: bytes of a header, as the format limits them
LONGEST = 100_000_000


def write(obj: Any, file: IO[bytes]) -> None:
    """Write a dict of tensors by name.

    Raises:
        TypeError: something else.
        RuntimeError: tensors that share memory, which the format cannot say.
    """
    if not isinstance(obj, dict) or not all(isinstance(k, str) and isinstance(t, Tensor) for k, t in obj.items()):
        raise TypeError("a safetensors file holds a dict of tensors by name, such as a state_dict(); other objects go "
                        "to a file of another suffix")
    arrays = {name: to_host(t._data) for name, t in obj.items()}
    _require_apart(arrays)
    # as the package orders them: large elements first, so that all of them are aligned
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for name in order:
        d, a = obj[name].dtype.name, arrays[name]
        if d not in _TAGS:
            raise TypeError(f"safetensors has no dtype {d}")
        header[name] = {"dtype": _TAGS[d], "shape": list(a.shape), "data_offsets": [begin, begin + a.nbytes]}
        begin += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        array = np.ascontiguousarray(arrays[name])
        file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())


def _require_apart(arrays: dict[str, Array]) -> None:
    ends: list[tuple[int, int, str]] = sorted(
        (*np.lib.array_utils.byte_bounds(a), name) for name, a in arrays.items() if a.size)
    for (_, end, one), (begin, _, other) in itertools.pairwise(ends):
        if begin < end:
            raise RuntimeError(f"`{one}` and `{other}` share memory, which a safetensors file cannot say: leave one of "
                               "them out (load_state_dict(strict=False) does without), save a clone() of it, or save "
                               "to a file of another suffix")


def read(source: Source, locations: Locations) -> dict[str, Any]:
    """The tensors of a file, in the order of its header."""
    found: dict[str, Any] = {}
    with undamaged("safetensors file"):
        for name, (d, shape, begin, end) in _entries(source).items():
            data = source.part(begin, end - begin)
            found[name] = from_numpy(numbers(data, d, math.prod(shape)).reshape(shape))
    return {name: locations.tensor(t, "cpu") for name, t in found.items()}


def _entries(source: Source) -> dict[str, tuple[dtypes.dtype, tuple[int, ...], int, int]]:
    """Dtype, shape, begin and end of each tensor; together they are the file, without a hole."""
    length = int.from_bytes(bytes(source.part(0, 8)), "little")
    if length > LONGEST:
        raise LoadError(f"damaged file: a header of {length} bytes")
    header = json.loads(bytes(source.part(8, length)), object_pairs_hook=_once)
    if not isinstance(header, dict):
        raise LoadError("not a safetensors file: its header is no object")
    header.pop("__metadata__", None)
    found, at = {}, 8 + length
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        tag, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not all(type(n) is int and n >= 0 for n in (begin, end, *shape)):
            raise LoadError(f"damaged file: `{name}` has the sizes {shape} at {begin, end}")
        if tag not in DTYPES or DTYPES[tag] not in {d.name for d in dtypes.ALL}:
            raise LoadError(f"`{name}` is of the dtype {tag}, which there is not here")
        d = dtypes.by_name(DTYPES[tag])
        if 8 + length + begin != at or end - begin != math.prod(shape) * d.itemsize:
            raise LoadError(f"damaged file: `{name}` lies at {begin, end}, which does not fit")
        found[name] = (d, tuple(shape), at, at + end - begin)
        at += end - begin
    if at != source.size:
        raise LoadError(f"damaged file: {source.size} bytes, of which tensors use {at}")
    return {name: found[name] for name in header}


def _once(items: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(items)) != len(items):
        raise LoadError("damaged file: a name occurs twice")
    return found
