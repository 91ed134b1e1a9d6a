"""safetensors files: what the package writes is read, what we write it reads, and damage is an error."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.serialization import LoadError
from tests.serialization.record import DTYPES
from tests.serialization.test_checkpoints import memory_below


def tensors() -> dict[str, Any]:
    return {d: (jitgrad.arange(6).reshape(2, 3) % 2).to(getattr(jitgrad, d)) for d in DTYPES} | {
        "number": jitgrad.tensor(2.5), "empty": jitgrad.zeros(0, 2), "turned": jitgrad.arange(6.0).reshape(2, 3).t()}


def header(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    return found


def written(path: Path, entries: Any, content: bytes = b"", length: int | None = None) -> Path:
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + content)
    return path


@pytest.mark.parametrize("mapped", [False, True])
def test_round_trip(mapped: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    jitgrad.save(tensors(), path)
    found = jitgrad.load(path, mmap=mapped)
    assert set(found) == set(tensors())
    for name, t in tensors().items():
        assert found[name].dtype is t.dtype
        assert found[name].shape == t.shape
        assert found[name].tolist() == t.tolist()
        assert found[name].data_ptr() % t.dtype.itemsize == 0
    found["float32"] += 1
    assert header(path)["__metadata__"] == {"format": "pt"}
    with path.open("rb") as file:
        assert jitgrad.load(file)["float32"].tolist() == tensors()["float32"].tolist()
    model = jitgrad.nn.Linear(2, 3)
    jitgrad.save(model.state_dict(), path)
    jitgrad.nn.Linear(2, 3).load_state_dict(jitgrad.load(path))
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    path, a = tmp_path / "model.safetensors", jitgrad.arange(4.0)
    for obj in ([a], {"a": 1}, {1: a}, {"a": {"b": a}}, a):
        with pytest.raises(TypeError, match="a dict of tensors by name"):
            jitgrad.save(obj, path)
    with pytest.raises(RuntimeError, match="`a` and `b` share memory"):
        jitgrad.save({"b": a[2:], "c": jitgrad.ones(1), "a": a}, path)
    assert list(tmp_path.iterdir()) == []
    jitgrad.save({"a": a[:2], "b": a[2:]}, path)


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize("entries", [
    [], 1, "text", {"a": 1}, {"a": {}}, {"a": {**ENTRY, "dtype": "F8_E4M3"}}, {"a": {**ENTRY, "dtype": ["F32"]}},
    {"a": {**ENTRY, "shape": [3]}}, {"a": {**ENTRY, "shape": [-2]}}, {"a": {**ENTRY, "shape": [2.0]}},
    {"a": {**ENTRY, "shape": [1 << 62, 4]}}, {"a": {**ENTRY, "data_offsets": [0, 4]}},
    {"a": {**ENTRY, "data_offsets": [8, 16]}}, {"a": {**ENTRY, "data_offsets": [8, 0]}},
    {"a": {**ENTRY, "data_offsets": [0, 1 << 70]}}, {"a": ENTRY, "b": ENTRY}, {},
    {"a": {"dtype": "BOOL", "shape": [8], "data_offsets": [0, 8]}},
    b'{"a": {"dtype":"U8","shape":[4],"data_offsets":[0,4]}, "a": {"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
    b"{" * 5000, b'{"a":' * 50000, b"{}" + b"\xff", b""])
def test_headers_that_make_no_sense(entries: Any, tmp_path: Path) -> None:
    with pytest.raises(LoadError):
        jitgrad.load(written(tmp_path / "file", entries, b"12345678"))


@pytest.mark.parametrize("length", [0, 7, 1 << 26, 1 << 40, (1 << 64) - 1])
def test_lengths_cannot_ask_for_memory(length: int, tmp_path: Path) -> None:
    path = written(tmp_path / "file", {"a": ENTRY}, b"12345678", length)
    with memory_below(1 << 23), pytest.raises(LoadError):
        jitgrad.load(path)


def test_any_damage_is_one_error(tmp_path: Path) -> None:
    path, rng = tmp_path / "file.safetensors", random.Random(0)
    jitgrad.save(tensors(), path)
    whole = path.read_bytes()
    for number in range(200):
        data = bytearray(whole)
        if number % 3 == 0:
            del data[rng.randrange(len(data)):]
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        with contextlib.suppress(LoadError):
            jitgrad.load(path, mmap=number % 2 == 0)


def test_the_package_agrees(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    arrays = {d: np.arange(6).reshape(2, 3).astype(d) for d in DTYPES if d not in ("bfloat16", "bool")}
    package.save_file(arrays, tmp_path / "theirs.safetensors", metadata={"by": "them"})
    found = jitgrad.load(tmp_path / "theirs.safetensors")
    assert {k: t.tolist() for k, t in found.items()} == {k: a.tolist() for k, a in arrays.items()}
    jitgrad.save({k: t for k, t in tensors().items() if k != "bfloat16"}, tmp_path / "ours.safetensors")
    theirs = package.load_file(tmp_path / "ours.safetensors")
    assert {k: a.tolist() for k, a in theirs.items()} == {
        k: t.tolist() for k, t in tensors().items() if k != "bfloat16"}
