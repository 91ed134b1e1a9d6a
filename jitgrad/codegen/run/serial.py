"""Interfaces and sites as JSON: what a stored program needs besides its object code. Data only; nothing in it is run.

Exception classes are stored by module and name, and looked up when a check fails.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.codegen.program.sites import Site
from jitgrad.codegen.run.launch import Interface, OutputPlan
from jitgrad.errors import ErrorName, Span

Json = Any


class NotStorable(Exception):
    """An attr that has no name which another process could look up."""


def encode(value: Any) -> Json:
    """An attr, kind or shape as JSON. Raises NotStorable."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return {"tuple": [encode(v) for v in value]}
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    if isinstance(value, ErrorName):
        return {"error": [value.module, value.name]}
    if isinstance(value, type) and issubclass(value, BaseException):
        name = ErrorName(value.__module__, value.__qualname__)
        if not _finds(name, value):
            raise NotStorable(f"`{value.__module__}.{value.__qualname__}` cannot be found by its name")
        return {"error": [name.module, name.name]}
    raise NotStorable(f"an attr of type `{type(value).__name__}`")


def _finds(name: ErrorName, value: type) -> bool:
    try:
        return name.find() is value
    except (ImportError, AttributeError):
        return False


def decode(data: Json) -> Any:
    """The inverse of `encode`; an exception class stays a name."""
    if isinstance(data, dict):
        (kind, content), = data.items()
        if kind == "tuple":
            return tuple(decode(v) for v in content)
        return dtypes.by_name(content) if kind == "dtype" else ErrorName(*content)
    return data


def _span(span: Span | None) -> Json:
    if span is None:
        return None
    return [span.file, span.line, span.column, span.end_line, span.end_column, span.function, _span(span.caller)]


def _read_span(data: Json) -> Span | None:
    if data is None:
        return None
    file, line, column, end_line, end_column, function, caller = data
    return Span(file, line, column, end_line, end_column, function, _read_span(caller))


def dump(face: Interface) -> Json:
    """An interface as JSON. Raises NotStorable."""
    sites = [[s.kind, s.op, {k: encode(a) for k, a in s.attrs.items()}, encode(s.types), encode(s.result), s.n_inputs,
              _span(s.span)] for s in face.sites]
    outputs = [[encode(o.kind), encode(o.shape), o.word, o.flags] for o in face.outputs]
    return [face.name, encode(face.inputs), list(face.numbers.items()), outputs, list(face.commits.items()),
            face.written, face.growable, face.words, sites, list(face.pointers.items()), face.sizes,
            face.hosted]


def load(data: Json) -> Interface:
    """The inverse of `dump`."""
    name, inputs, numbers, outputs, commits, written, growable, words, sites, pointers, sizes, hosted = data
    return Interface(
        name, list(decode(inputs)), dict(numbers),
        [OutputPlan(decode(k), decode(s), w, flags) for k, s, w, flags in outputs], dict(commits), written,
        growable, words,
        [Site(kind, op, {k: decode(a) for k, a in attrs.items()}, list(decode(types)), decode(result), n,
              _read_span(span)) for kind, op, attrs, types, result, n, span in sites],
        dict(pointers), [(i, axis, word) for i, axis, word in sizes], hosted)


def to_json(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def pack(parts: Sequence[bytes]) -> bytes:
    """Several byte strings as one."""
    return b"".join(struct.pack("<q", len(p)) + p for p in parts)


def unpack(data: bytes) -> list[bytes]:
    """The inverse of `pack`. Raises ValueError for a truncated string."""
    parts, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<q", data, at)
        at += 8 + length
        if length < 0 or at > len(data):
            raise ValueError("truncated data")
        parts.append(data[at - length:at])
    return parts
