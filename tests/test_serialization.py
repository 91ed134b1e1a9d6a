"""`save` and `load`: everything comes back, nothing else is accepted, and no file can run code."""

from __future__ import annotations

import io
import json
import math
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.serialization import LoadError


def round_trip(obj: Any) -> Any:
    buffer = io.BytesIO()
    jitgrad.save(obj, buffer)
    buffer.seek(0)
    return jitgrad.load(buffer)


def test_plain_objects() -> None:
    obj = {"a": 1, 2: [1.5, None, True, "x", b"\x00\xff"], (1, "k"): {1, 2}, "big": 1 << 80, "inf": -math.inf,
           "dtype": jitgrad.float16, "o": OrderedDict(b=1, a=2), "empty": ()}
    back = round_trip(obj)
    assert back == obj
    assert isinstance(back["o"], OrderedDict)
    assert isinstance(back["empty"], tuple)
    assert math.isnan(round_trip(math.nan))


@pytest.mark.parametrize("d", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
                               "float64"])
def test_tensors(d: str) -> None:
    for t in (jitgrad.arange(6).reshape(2, 3).to(getattr(jitgrad, d)), jitgrad.tensor(1).to(getattr(jitgrad, d)),
              jitgrad.zeros(0, 3).to(getattr(jitgrad, d)), jitgrad.arange(6).reshape(2, 3).t().to(getattr(jitgrad, d))):
        back = round_trip(t)
        assert back.dtype is t.dtype
        assert back.shape == t.shape
        assert back.tolist() == t.tolist()


def test_parameters_and_state_dicts(tmp_path: Path) -> None:
    model = jitgrad.nn.Linear(3, 2)
    jitgrad.save(model.state_dict(), tmp_path / "model.pt")
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]
    other = jitgrad.nn.Linear(3, 2)
    other.load_state_dict(jitgrad.load(tmp_path / "model.pt"))
    assert jitgrad.equal(other.weight, model.weight)
    p = round_trip(model.weight)
    assert isinstance(p, jitgrad.nn.Parameter)
    assert p.requires_grad
    assert round_trip(jitgrad.ones(2, requires_grad=True)).requires_grad


def test_shared_memory_stays_shared() -> None:
    t = jitgrad.ones(3)
    a, b = round_trip([t, t])
    a += 1
    assert b.tolist() == [2.0, 2.0, 2.0]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"cannot save the object\['model'\]: an object of type `Linear`; save a"):
        jitgrad.save({"model": jitgrad.nn.Linear(1, 1)}, tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []
    for content in (b"", b"not a zip", pickle.dumps({"a": 1})):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(LoadError):
            jitgrad.load(tmp_path / "bad")
    with pytest.raises(FileNotFoundError):
        jitgrad.load(tmp_path / "missing")


def written(header: dict[str, Any], **members: bytes) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data.json", json.dumps(header))
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    buffer.seek(0)
    return buffer


def test_a_pickled_array_is_not_unpickled() -> None:
    member = io.BytesIO()
    np.save(member, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    header = {"format": "jitgrad", "version": 1, "root": {"tensor": 0}}
    with pytest.raises(LoadError):
        jitgrad.load(written(header, t0=member.getvalue()))


def test_versions() -> None:
    with pytest.raises(LoadError, match="a file of version 99"):
        jitgrad.load(written({"format": "jitgrad", "version": 99, "root": None}))
    with pytest.raises(LoadError, match="not a jitgrad file"):
        jitgrad.load(written({"format": "other"}))
    with pytest.raises(LoadError, match="entry of kind `code`"):
        jitgrad.load(written({"format": "jitgrad", "version": 1, "root": {"code": "1 + 1"}}))
