"""The zip file of a saved program: text members and arrays, each with its checksum in the manifest.

    manifest.json      {"format", "version", "jitgrad", "members": {name: sha256}}
    program.json       everything but graphs and arrays
    graphs/0.txt ...   one graph per program, in the text form of `script/graph/text.py`
    arrays/0.npy ...   one array per memory

Members are stored, not compressed, so that a file cannot grow while it is read. Nothing is ever extracted to disk.
"""

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

import jitgrad
from jitgrad import dtypes
from jitgrad.serialization import LoadError, check_members, read_array

FORMAT, VERSION = "jitgrad program", 2
File = str | os.PathLike[str] | IO[bytes]
_MEMBER = re.compile(r"program\.json|graphs/\d{1,6}\.txt|arrays/\d{1,6}\.npy")
_ARRAY_DTYPES = {d.np for d in dtypes.ALL}


def write(file: IO[bytes], program: Any, graphs: Sequence[str], arrays: Sequence[np.ndarray[Any, Any]]) -> None:
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
        self.arrays = [_read_numbers(members[n], n) for n in _numbered(members, "arrays/", ".npy")]


def _numbered(members: Mapping[str, bytes], start: str, end: str) -> list[str]:
    count = sum(name.startswith(start) for name in members)
    names = [f"{start}{i}{end}" for i in range(count)]
    if any(name not in members for name in names):
        raise LoadError(f"damaged file: the members of `{start}` are not numbered from 0")
    return names


def read(file: IO[bytes]) -> Contents:
    """Read a file that `write` wrote. Raises LoadError, and what zipfile and json raise for damaged ones."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        for name in names:
            if name != "manifest.json" and not _MEMBER.fullmatch(name):
                raise LoadError(f"not a saved jitgrad program: it has a member named {name[:80]!r}")
        check_members(archive, file)
        if "manifest.json" not in names:
            raise LoadError("not a saved jitgrad program: it has no `manifest.json`")
        manifest = json.loads(archive.read("manifest.json"))
        expected = _check_manifest(manifest)
        if expected.keys() != {*names} - {"manifest.json"}:
            raise LoadError("damaged file: its members are not those of its manifest")
        members = {}
        for name, digest in expected.items():
            members[name] = archive.read(name)
            if hashlib.sha256(members[name]).hexdigest() != digest:
                raise LoadError(f"damaged file: the checksum of `{name}` is wrong")
    return Contents(members)


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


def _read_numbers(data: bytes, name: str) -> np.ndarray[Any, Any]:
    """The array of an .npy file, of one of our dtypes."""
    array = read_array(data, name)
    if array.dtype not in _ARRAY_DTYPES or array.ndim > 32:
        raise LoadError(f"damaged file: `{name}` is not an array of numbers")
    return array
