"""`save` and `load`: files of tensors and plain containers. No file can run code.

Files are known by their first bytes: jitgrad's own (`described.py`), PyTorch's checkpoints (`checkpoints.py`) and
safetensors (`safetensors.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from jitgrad.eager.locations import Locations, MapLocation
from jitgrad.serialization.archive import (File as File, LoadError as LoadError, Source, check_members as check_members,
                                           read_array as read_array, undamaged as undamaged)

SAFETENSORS = ".safetensors"
_safe: dict[str, Any] = {}


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let `load` make objects of these classes (or call these functions) where a file of PyTorch's names them.

    A pair (class, name) stands for a class that the file calls by another full name.
    """
    for given in safe_globals:
        made, name = given if isinstance(given, tuple) else (given, f"{given.__module__}.{given.__qualname__}")
        _safe[name] = made


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(_safe.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was given."""
    _safe.clear()


@contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """`add_safe_globals` for the body of a `with` statement."""
    before = dict(_safe)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)


def save(obj: Any, f: File, pickle_module: Any = None, pickle_protocol: Any = None,
         _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False) -> None:
    """Write `obj` to a path or a binary file; to a path that ends in `.safetensors` in that format.

    Args:
        obj: tensors, parameters, numbers, strings, bytes, None, arrays, dtypes, devices, and lists, tuples, sets, dicts
            of them; for safetensors a dict of tensors by name.
        f: a path, or a file opened for writing bytes.
        pickle_module, pickle_protocol: taken for PyTorch's sake, as those after them: nothing is pickled.

    Raises:
        TypeError: something else is in obj; the message says where.
        RuntimeError: tensors that share memory, in a safetensors file.
    """
    from jitgrad.serialization import described, safetensors

    if not isinstance(f, (str, os.PathLike)):
        return described.write(obj, f)
    path = os.fspath(f)
    write = safetensors.write if path.endswith(SAFETENSORS) else described.write
    partial = f"{path}.{os.getpid()}.part"  # a crash must not leave half a file under the name
    try:
        with open(partial, "wb") as file:
            write(obj, file)
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load(f: File, map_location: MapLocation = None, pickle_module: Any = None, *, weights_only: bool | None = True,
         mmap: bool | None = None, **pickle_load_args: Any) -> Any:
    """Read a file that `save`, PyTorch's `torch.save` or safetensors wrote. Never runs code from the file.

    Args:
        f: a path, or a file opened for reading bytes.
        map_location: where tensors go: a device, a dict from devices to devices, or a function of a tensor on the CPU
            and the name of the device that it was saved from; None: that device.
        pickle_module, weights_only, pickle_load_args: taken for PyTorch's sake; code is not run for False either.
        mmap: map the file into memory instead of reading it: a page is read when it is first used, and copied when it
            is written to. For paths only; the file must stay as it is meanwhile.

    Raises:
        LoadError: of no known format, damaged, of a newer version, or of a class that loading does not make.
        RuntimeError: a device that is not there.
        ValueError: `mmap` of a file that is open.
    """
    locations = Locations(map_location)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load(Source(file, bool(mmap)), locations)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    return _load(Source(f), locations)


def _load(source: Source, locations: Locations) -> Any:
    from zipfile import ZipFile

    from jitgrad.serialization import checkpoints, described, safetensors

    head = bytes(source.part(0, min(source.size, 16)))
    if head[8:9] == b"{":
        return safetensors.read(source, locations)
    if head[:1] == b"\x80":  # the instruction that begins a pickle
        return checkpoints.read_legacy(source, locations, _safe)
    with undamaged("file of jitgrad, PyTorch or safetensors"):
        archive = ZipFile(source.file)
    with archive:
        roots = [name.removesuffix("data.pkl") for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(roots) == 1 and roots[0].count("/") == 1:
            return checkpoints.read_zip(archive, roots[0], source, locations, _safe)
        return described.read(archive, source, locations)
