"""`save` and `load`: tensors and plain containers in a zip file of .npy arrays and one JSON description.

Nothing in a file is code: loading builds tensors, numbers, strings, bytes, None, lists, tuples, sets, dicts, dtypes and
parameters, and refuses everything else. Tensors that share memory are saved once and share it again after loading.

    data.json   {"format": "jitgrad", "version": 1, "root": <description>}
    t0.npy ...  one array per memory
"""

from __future__ import annotations

import errno
import json
import math
import os
import struct
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from jitgrad import dtypes
from jitgrad.device import device
from jitgrad.eager.arrays.arrays import to_host
from jitgrad.eager.construct import from_numpy
from jitgrad.eager.locations import Locations, MapLocation
from jitgrad.eager.tensor import Tensor
from jitgrad.errors import JitgradError

if TYPE_CHECKING:
    import zipfile  # loaded by the first file: programs from the disk cache need this module, but no files

FORMAT, VERSION = "jitgrad", 1
#: bytes of an .npy file's header, as NumPy limits them: what parses it may be overcome by more
LONGEST_HEADER = 10_000
File = str | os.PathLike[str] | IO[bytes]


class LoadError(JitgradError, RuntimeError):
    """A file that `load` cannot read: not a jitgrad file, damaged, or of a newer version."""


# --- writing -------------------------------------------------------------------------------------------------------


class _Writer:
    """Descriptions of objects, and the arrays that they refer to."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}

    def describe(self, obj: Any, where: str) -> Any:
        """JSON for an object; `where` is its path, for the message."""
        if obj is None or isinstance(obj, (bool, str)):
            return obj
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(obj, (int, np.integer)):
            return {"int": str(int(obj))} if abs(int(obj)) >= 1 << 53 else int(obj)
        if isinstance(obj, (float, np.floating)):
            return float(obj) if math.isfinite(obj) else {"float": repr(float(obj))}
        if isinstance(obj, bytes):
            return {"bytes": obj.hex()}
        if isinstance(obj, np.ndarray):
            return {"ndarray": self._array(obj)}
        if isinstance(obj, dtypes.dtype):
            return {"dtype": obj.name}
        if isinstance(obj, dict):
            kind = "odict" if isinstance(obj, OrderedDict) else "dict"
            return {kind: [[self.describe(k, f"{where} key"), self.describe(v, f"{where}[{k!r}]")]
                           for k, v in obj.items()]}
        for kind, cls in (("list", list), ("tuple", tuple), ("set", set)):
            if isinstance(obj, cls):
                return {kind: [self.describe(v, f"{where}[{i}]") for i, v in enumerate(obj)]}
        raise TypeError(f"cannot save {where}: an object of type `{type(obj).__name__}`; save a module's "
                        "`state_dict()` rather than the module")

    def _tensor(self, t: Tensor) -> Any:
        from jitgrad.nn import Parameter

        kind = "parameter" if isinstance(t, Parameter) else "tensor"
        found = {kind: self._array(to_host(t._data), t), "requires_grad": bool(t.requires_grad)}
        return {**found, "device": str(t.device)} if t.is_cuda else found

    def _array(self, a: np.ndarray[Any, Any], t: Tensor | None = None) -> int:
        there: Any = a if t is None else t._data
        where = a.__array_interface__["data"][0] if t is None or not t.is_cuda else (str(t.device), t.data_ptr())
        key = (where, a.shape, there.strides, a.dtype.str)
        if key not in self._numbers or not a.size:
            self._numbers[key] = len(self.arrays)
            self.arrays.append(a)
        return self._numbers[key]


def save(obj: Any, f: File) -> None:
    """Write `obj` to a path or a binary file.

    Args:
        obj: tensors, parameters, numbers, strings, bytes, None, arrays, dtypes, and lists, tuples, sets, dicts of them.
        f: a path, or a file opened for writing bytes.

    Raises:
        TypeError: something else is in obj; the message says where.
    """
    writer = _Writer()
    root = writer.describe(obj, "the object")
    if isinstance(f, (str, os.PathLike)):  # a crash must not leave half a file under the name
        path = os.fspath(f)
        partial = f"{path}.{os.getpid()}.part"
        try:
            with open(partial, "wb") as file:
                _write(writer, root, file)
            os.replace(partial, path)
        finally:
            if os.path.exists(partial):
                os.remove(partial)
    else:
        _write(writer, root, f)


def _write(writer: _Writer, root: Any, file: IO[bytes]) -> None:
    import zipfile

    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        header = {"format": FORMAT, "version": VERSION, "root": root}
        archive.writestr("data.json", json.dumps(header, allow_nan=False))
        for number, array in enumerate(writer.arrays):
            with archive.open(f"t{number}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


# --- what a file claims is compared with its size before memory is asked for ---------------------------------------


@contextmanager
def undamaged(what: str, *others: type[Exception]) -> Iterator[None]:
    """What reading a damaged file may raise becomes LoadError; `others`: besides what zipfile, json and NumPy raise."""
    from zipfile import BadZipFile

    damage: tuple[type[Exception], ...] = (
        BadZipFile, LookupError, ValueError, TypeError, AttributeError, OverflowError, EOFError, struct.error,
        RuntimeError, OSError, *others)
    try:
        yield
    except LoadError:
        raise
    except damage as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # of the disk; but an offset may be negative
            raise
        raise LoadError(f"not a {what}, or damaged ({type(error).__name__}: {error})") from error


def check_members(archive: zipfile.ZipFile, file: IO[bytes]) -> None:
    """Raise LoadError unless names occur once, nothing is compressed, and all of it fits into the file."""
    infos = archive.infolist()
    seen = set()
    for info in infos:
        if info.filename in seen:
            raise LoadError(f"damaged file: `{info.filename}` occurs twice")
        seen.add(info.filename)
        if info.compress_type != 0 or info.file_size != info.compress_size:
            raise LoadError(f"damaged file: `{info.filename}` is compressed")
    if sum(info.file_size for info in infos) > file.seek(0, os.SEEK_END):
        raise LoadError("damaged file: its members are larger than the file")


def read_array(data: bytes, name: str) -> np.ndarray[Any, Any]:
    """The array of the .npy file `name`, never of objects; its header must fit the bytes that follow.

    The format has no name for bfloat16: it is what is 16 bits of no known kind. Source: numpy.lib.format.
    """
    import ast

    version = data[6:7]
    if data[:6] != b"\x93NUMPY" or version not in (b"\1", b"\2", b"\3"):
        raise LoadError(f"damaged file: `{name}` is no .npy file of a known version")
    begin = 10 if version == b"\1" else 12
    start = begin + int.from_bytes(data[8:begin], "little")
    try:
        if start > min(len(data), LONGEST_HEADER):
            raise ValueError("it does not end")
        header = ast.literal_eval(data[begin:start].decode("utf-8" if version == b"\3" else "latin-1"))
        shape, fortran = header["shape"], header["fortran_order"]
        dtype = np.lib.format.descr_to_dtype(header["descr"])
        if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape) or dtype.hasobject:
            raise ValueError("it is not one of an array of numbers")
    except (ValueError, TypeError, SyntaxError, LookupError, AttributeError, RecursionError, MemoryError) as error:
        raise LoadError(f"damaged file: the header of `{name}` cannot be read ({error})") from error
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise LoadError(f"damaged file: `{name}` has {len(data) - start} bytes for the shape {shape}")
    flat = np.frombuffer(data, dtypes.bfloat16.np if dtype == np.dtype("V2") else dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="K")


# --- reading -------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, archive: zipfile.ZipFile):
        self._archive = archive
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}
        self._moved: dict[tuple[int, str], Tensor] = {}
        #: None while the file is checked: tensors stay where they are
        self.locations: Locations | None = None

    def build(self, d: Any) -> Any:
        """The object of a description."""
        if d is None or isinstance(d, (bool, int, float, str)):
            return d
        if not isinstance(d, dict) or not d:
            raise LoadError("damaged file: an unknown kind of entry")
        kind, value = next(iter(d.items()))
        if kind in ("tensor", "parameter"):
            return self._tensor(kind, value, bool(d.get("requires_grad", False)), d.get("device", "cpu"))
        if kind in ("list", "tuple", "set", "dict", "odict") and not isinstance(value, list):
            raise LoadError(f"damaged file: a {kind} without items")
        if kind in ("list", "tuple", "set"):
            items = [self.build(v) for v in value]
            return items if kind == "list" else tuple(items) if kind == "tuple" else set(items)
        if kind in ("dict", "odict"):
            pairs = [(self.build(k), self.build(v)) for k, v in value]
            return dict(pairs) if kind == "dict" else OrderedDict(pairs)
        simple = {"int": int, "float": float, "bytes": bytes.fromhex, "dtype": dtypes.by_name, "ndarray": self._array}
        if kind not in simple:
            raise LoadError(f"a file of a newer version? entry of kind `{kind}` is unknown")
        return simple[kind](value)  # type: ignore[operator]

    def _tensor(self, kind: str, number: Any, requires_grad: bool, where: str) -> Any:
        if self.locations is None:
            device(where)  # raises for what is no device's name
            t = from_numpy(self._array(number))
        else:
            t = self._located(number, where, self.locations)
        if kind == "tensor":
            return t.requires_grad_() if requires_grad else t
        from jitgrad.nn import Parameter

        return Parameter(t, requires_grad)

    def _located(self, number: Any, where: str, locations: Locations) -> Any:
        """The tensor of an array, where `map_location` wants it, or on the device that it was saved from."""
        key = (int(number), where)
        if key not in self._moved:
            self._moved[key] = locations.tensor(from_numpy(self._array(number)), where)
        made: Any = self._moved[key].detach()
        return made

    def _array(self, number: Any) -> np.ndarray[Any, Any]:
        if number not in self._arrays:
            name = f"t{int(number)}.npy"
            self._arrays[number] = read_array(self._archive.read(name), name)
        return self._arrays[number]


def load(f: File, map_location: MapLocation = None, *, weights_only: bool = True) -> Any:
    """Read what `save` wrote. Never runs code from the file.

    Args:
        f: a path, or a file opened for reading bytes.
        map_location: where tensors go: a device, a dict from devices to devices, or a function of a tensor on the CPU
            and the name of the device that it was saved from; None: that device.

    Raises:
        LoadError: not a jitgrad file, damaged, or of a newer version.
        RuntimeError: a device that is not there.
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load(file, Locations(map_location))
    return _load(f, Locations(map_location))


def _load(file: IO[bytes], locations: Locations) -> Any:
    from zipfile import ZipFile

    with undamaged("jitgrad file"), ZipFile(file) as archive:
        check_members(archive, file)
        header = json.loads(archive.read("data.json"))
        if header.get("format") != FORMAT:
            raise LoadError("not a jitgrad file")
        if header.get("version", 0) > VERSION:
            raise LoadError(f"a file of version {header['version']}, but this jitgrad reads up to {VERSION}")
        reader = _Reader(archive)
        reader.build(header["root"])
    reader.locations = locations  # what is raised from here on is not the file's fault
    return reader.build(header["root"])
