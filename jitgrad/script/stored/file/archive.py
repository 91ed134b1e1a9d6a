"""The zip file of a saved program: text members and arrays, each with its checksum in the manifest.

    manifest.json      {"format", "version", "jitgrad", "members": {name: sha256}}
    program.json       everything but graphs and arrays
    graphs/0.txt ...   one graph per program, in the text form of `script/graph/text.py`
    arrays/0.npy ...   one array per memory

Members are stored, not compressed, so that a file cannot grow while it is read. Nothing is ever extracted to disk.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

import jitgrad
from jitgrad import dtypes
from jitgrad.serialization import LoadError

FORMAT, VERSION = "jitgrad program", 2
File = str | os.PathLike[str] | IO[bytes]
_MEMBER = re.compile(r"program\.json|graphs/\d{1,6}\.txt|arrays/\d{1,6}\.npy")
_ARRAY_DTYPES = {d.np: d for d in dtypes.ALL if d is not dtypes.bfloat16} | {np.dtype("V2"): dtypes.bfloat16}


def write(file: IO[bytes], program: Any, graphs: Sequence[str], arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    """Write a saved program to a binary file."""
    members = {"program.json": json.dumps(program, allow_nan=False).encode()}
    members |= {f"graphs/{i}.txt": text.encode() for i, text in enumerate(graphs)}
    for i, array in enumerate(arrays):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), allow_pickle=False)
        members[f"arrays/{i}.npy"] = buffer.getvalue()
    manifest = {"format": FORMAT, "version": VERSION, "jitgrad": jitgrad.__version__,
                "members": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, data in members.items():
            archive.writestr(name, data)


class Contents:
    """What a saved file holds, its checksums compared.

    Attributes:
        program: the JSON of `program.json`.
        graphs: the texts.
        arrays: the arrays, each its own memory, writable.
    """

    def __init__(self, members: Mapping[str, bytes]):
        if "program.json" not in members:
            raise LoadError("damaged file: `program.json` is missing")
        self.program = json.loads(members["program.json"])
        self.graphs = [members[n].decode() for n in _numbered(members, "graphs/", ".txt")]
        self.arrays = [read_array(members[n], n) for n in _numbered(members, "arrays/", ".npy")]


def _numbered(members: Mapping[str, bytes], start: str, end: str) -> list[str]:
    count = sum(name.startswith(start) for name in members)
    names = [f"{start}{i}{end}" for i in range(count)]
    if any(name not in members for name in names):
        raise LoadError(f"damaged file: the members of `{start}` are not numbered from 0")
    return names


def read(file: IO[bytes]) -> Contents:
    """Read a file that `write` wrote. Raises LoadError, and what zipfile and json raise for damaged ones."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        _check_members(infos, size)
        if "manifest.json" not in archive.namelist():
            raise LoadError("not a saved jitgrad program: it has no `manifest.json`")
        manifest = json.loads(archive.read("manifest.json"))
        expected = _check_manifest(manifest)
        if expected.keys() != {i.filename for i in infos} - {"manifest.json"}:
            raise LoadError("damaged file: its members are not those of its manifest")
        members = {}
        for name, digest in expected.items():
            members[name] = archive.read(name)
            if hashlib.sha256(members[name]).hexdigest() != digest:
                raise LoadError(f"damaged file: the checksum of `{name}` is wrong")
    return Contents(members)


def _check_members(infos: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Names are ours and occur once; nothing is compressed, and all of it fits into the file."""
    seen = set()
    for info in infos:
        if info.filename != "manifest.json" and not _MEMBER.fullmatch(info.filename):
            raise LoadError(f"not a saved jitgrad program: it has a member named {info.filename[:80]!r}")
        if info.filename in seen:
            raise LoadError(f"damaged file: `{info.filename}` occurs twice")
        seen.add(info.filename)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise LoadError(f"damaged file: `{info.filename}` is compressed")
    if sum(info.file_size for info in infos) > size:
        raise LoadError("damaged file: its members are larger than the file")


def _check_manifest(manifest: Any) -> dict[str, str]:
    """The members' checksums. Raises LoadError for another format or a newer version."""
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise LoadError("not a saved jitgrad program")
    version, members = manifest.get("version"), manifest.get("members")
    if type(version) is not int or version < 1:
        raise LoadError("damaged file: the version is not a number")
    if version > VERSION:
        raise LoadError(f"a file of format version {version}, written by jitgrad {manifest.get('jitgrad')}, but this "
                        f"jitgrad reads up to {VERSION}")
    if not isinstance(members, dict) or not all(isinstance(v, str) for v in members.values()):
        raise LoadError("damaged file: the manifest names no members")
    return members


def read_array(data: bytes, name: str) -> np.ndarray[Any, Any]:
    """The array of an .npy file; its header must fit the bytes that follow, so that no header can ask for memory."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise LoadError(f"damaged file: `{name}` is of another version of the .npy format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype not in _ARRAY_DTYPES or len(shape) > 32 or any(n < 0 for n in shape):
        raise LoadError(f"damaged file: `{name}` is not an array of numbers")
    start = stream.tell()
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise LoadError(f"damaged file: `{name}` has {len(data) - start} bytes for the shape {shape}")
    flat = np.frombuffer(data, _ARRAY_DTYPES[dtype].np, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="K")
