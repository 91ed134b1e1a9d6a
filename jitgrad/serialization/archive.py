"""What all formats share: the error, the bytes of a file, and the doubts about what a file claims of itself.

What a file claims is compared with its size before memory is asked for.
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from jitgrad import dtypes
from jitgrad.errors import JitgradError

if TYPE_CHECKING:
    import zipfile  # loaded by the first file: programs from the disk cache need this module, but no files

#: bytes of an .npy file's header, as NumPy limits them: what parses it may be overcome by more
LONGEST_HEADER = 10_000
#: where in a zip file data begin, so that they can be mapped as numbers of any dtype; PyTorch's choice, too
ALIGNMENT = 64
#: bytes of the widest number
WIDEST = 16
File = str | os.PathLike[str] | IO[bytes]
Array = np.ndarray[Any, Any]


class LoadError(JitgradError, RuntimeError):
    """A file that `load` cannot read: of no known format, damaged, or of a newer version."""


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


class Source:
    """The bytes of a file: parts of it are read when asked for, or are windows of its pages.

    Pages are this process's own: one that is written to is copied by the system, and the file stays as it is.

    Args:
        file: opened for reading bytes.
        mapped: map it.
    """

    def __init__(self, file: IO[bytes], mapped: bool = False):
        self.file, self.size = file, file.seek(0, os.SEEK_END)
        self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if mapped and self.size else None

    def part(self, start: int, length: int, alignment: int = 1) -> Array:
        """Bytes as a writable uint8 array; LoadError where the file has fewer. Pages that do not begin at a multiple of
        `alignment` are copied."""
        if start < 0 or length < 0 or start + length > self.size:
            raise LoadError(f"damaged file: {length} bytes at {start} of {self.size}")
        if self._pages is not None:
            window = np.frombuffer(self._pages, np.uint8, length, start)
            return window.copy() if start % alignment else window
        self.file.seek(start)
        found = np.empty(length, np.uint8)
        into, read = found.data, 0
        while read < length:
            got = self.file.readinto(into[read:])  # type: ignore[attr-defined]
            if not got:
                raise LoadError("damaged file: it ended while it was read")
            read += got
        return found

    def member(self, info: zipfile.ZipInfo) -> Array:
        """The bytes of a member of a zip file, which is stored. Checksums are compared where bytes are read anyway."""
        head = self.part(info.header_offset, 30)
        if bytes(head[:4]) != b"PK\3\4":
            raise LoadError(f"damaged file: `{info.filename}` does not begin where the directory says")
        names = sum(head[26:30].view("<u2").tolist())
        found = self.part(info.header_offset + 30 + names, info.file_size, WIDEST)
        if self._pages is None and zlib.crc32(found.data) != info.CRC:
            raise LoadError(f"damaged file: `{info.filename}` has not the checksum that it was written with")
        return found


def numbers(data: Array, d: dtypes.dtype, count: int, little: bool = True) -> Array:
    """The first `count` numbers of some bytes, in their memory where it is aligned and of this machine's byte order."""
    if count < 0 or count * d.itemsize > data.size:
        raise LoadError(f"damaged file: {data.size} bytes for {count} numbers of {d.name}")
    stored = d.np if little or d is dtypes.bfloat16 else d.np.newbyteorder(">")
    raw = data[:count * d.itemsize]
    if d is dtypes.bfloat16 and not little:
        raw = raw.reshape(-1, 2)[:, ::-1].reshape(-1)
    found = _bools(raw.view(stored))
    return found.astype(d.np, copy=not found.flags.aligned)


def _bools(array: Array) -> Array:
    """The array, unless it is of bools that are neither 0 nor 1: NumPy relies on that."""
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise LoadError("damaged file: a bool is neither 0 nor 1")
    return array


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


def read_array(data: bytes | Array, name: str) -> Array:
    """The array of the .npy file `name`, never of objects; its header must fit the bytes that follow.

    It lies in the memory of `data` where that is writable and aligned. The format has no name for bfloat16: it is what
    is 16 bits of no known kind. Source: numpy.lib.format.
    """
    import ast

    head = bytes(data[:LONGEST_HEADER])
    version = head[6:7]
    if head[:6] != b"\x93NUMPY" or version not in (b"\1", b"\2", b"\3"):
        raise LoadError(f"damaged file: `{name}` is no .npy file of a known version")
    begin = 10 if version == b"\1" else 12
    start = begin + int.from_bytes(head[8:begin], "little")
    try:
        if start > min(len(data), LONGEST_HEADER):
            raise ValueError("it does not end")
        header = ast.literal_eval(head[begin:start].decode("utf-8" if version == b"\3" else "latin-1"))
        shape, fortran = header["shape"], header["fortran_order"]
        dtype = np.lib.format.descr_to_dtype(header["descr"])
        if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape) or dtype.hasobject:
            raise ValueError("it is not one of an array of numbers")
    except (ValueError, TypeError, SyntaxError, LookupError, AttributeError, RecursionError, MemoryError) as error:
        raise LoadError(f"damaged file: the header of `{name}` cannot be read ({error})") from error
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise LoadError(f"damaged file: `{name}` has {len(data) - start} bytes for the shape {shape}")
    flat = np.frombuffer(data, dtypes.bfloat16.np if dtype == np.dtype("V2") else dtype, offset=start)
    found = _bools(flat).reshape(shape, order="F" if fortran else "C")
    return found if found.flags.writeable and found.flags.aligned else found.copy(order="K")
