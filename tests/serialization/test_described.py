"""`save` and `load`: everything comes back, nothing else is accepted, and no file can run code."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import pickle
import random
import tracemalloc
import warnings
import zipfile
from collections import Counter, OrderedDict
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


def test_modules_of_our_own_classes() -> None:
    nn = jitgrad.nn
    tied = nn.Linear(4, 4)
    model = nn.Sequential(tied, nn.BatchNorm1d(4), nn.TransformerEncoderLayer(4, 2, dropout=0.0), tied, nn.Linear(4, 4))
    model[4].weight = tied.weight
    model.eval()
    back = round_trip({"model": model, "epoch": 3})["model"]
    x = jitgrad.randn(5, 4)
    assert repr(back) == repr(model)
    assert jitgrad.equal(back(x), model(x))
    assert back[0] is back[3]
    assert back[4].weight is back[0].weight
    assert not back.training
    assert [p.requires_grad for p in back.parameters()] == [p.requires_grad for p in model.parameters()]
    assert jitgrad.allclose(jitgrad.script(back)(x), model(x), atol=1e-6)


def test_modules_with_code_of_their_own_are_refused() -> None:
    class Own(jitgrad.nn.Module):
        pass

    hooked = jitgrad.nn.Linear(2, 2)
    hooked.register_forward_hook(lambda *given: None)
    for model, where in ((Own(), "the object: .* type `Own`"), (hooked, "_forward_hooks")):
        with pytest.raises(TypeError, match=rf"{where}.*`state_dict\(\)`.*load_state_dict"):
            round_trip(model)


@pytest.mark.parametrize("name", ["modules.linear.math", "modules.linear.Other", "module.Tensor", "os.path", "", "."])
def test_a_file_names_no_other_class(name: str) -> None:
    buffer = io.BytesIO()
    state = {"dict": [[part, {"dict": []}] for part in ("_parameters", "_buffers", "_modules")]}
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data.json", json.dumps({"format": "jitgrad", "version": 1, "root": {"module": name,
                                                                                              "state": state}}))
    buffer.seek(0)
    with pytest.raises(LoadError, match="is unknown"):
        jitgrad.load(buffer)


def test_shared_memory_stays_shared() -> None:
    t = jitgrad.ones(3)
    a, b = round_trip([t, t])
    a += 1
    assert b.tolist() == [2.0, 2.0, 2.0]


def test_views_stay_views() -> None:
    base = jitgrad.arange(12.0)
    other = jitgrad.ones(4)
    saved = {"part": base[2:5], "turned": base.view(3, 4).t()[1:], "parameter": jitgrad.nn.Parameter(base[8:]),
             "columns": [base.view(3, 4)[:, 0], base.view(3, 4)[:, 1]], "grown": base[2:3].expand(2, 2),
             "other": other, "half": [jitgrad.ones(3).bfloat16()] * 2}
    back = round_trip(saved)
    assert str(back) == str(saved)
    back["turned"] += 100
    assert back["part"].tolist() == [102.0, 103.0, 4.0]
    assert back["parameter"].tolist() == [8.0, 109.0, 110.0, 111.0]
    assert back["columns"][1].tolist() == [101.0, 105.0, 109.0]
    assert back["grown"].tolist() == [[102.0, 102.0]] * 2
    grown = round_trip(jitgrad.ones(1).expand(1000, 1000))
    assert grown.stride() == (0, 0)
    file = io.BytesIO()
    jitgrad.save(base[2:5], file)
    assert len(file.getvalue()) < 1000
    with pytest.raises(LoadError):
        jitgrad.load(written({"format": "jitgrad", "version": 2, "root": {"tensor": 0, "view": [1, [1], [1]]}},
                             t0=npy("(1,)", content=b"1234")))


def test_a_state_dict_keeps_its_versions() -> None:
    state = round_trip(jitgrad.nn.BatchNorm1d(2).state_dict())
    assert state._metadata == {"": {"version": 2}}


def test_more_kinds() -> None:
    obj = {"size": jitgrad.Size([1, 2]), "device": jitgrad.device("cpu"), "complex": complex(1, math.inf),
           "frozen": frozenset({1}), "counter": Counter("aab"), "bytes": bytearray(b"a")}
    back = round_trip(obj)
    assert back == obj
    assert {k: type(v) for k, v in back.items()} == {k: type(v) for k, v in obj.items()}


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"cannot save the object\['iterator'\]: an object of type `range_iterator`"):
        jitgrad.save({"iterator": iter(range(3))}, tmp_path / "model.pt")
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


# --- files of somebody who means harm ------------------------------------------------------------------------------


def npy(shape: Any, descr: Any = "<f4", content: bytes = b"", version: int = 1) -> bytes:
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + content


def load_limited(data: io.BytesIO) -> Any:
    """`load`, with little more memory than the file has."""
    tracemalloc.start()
    try:
        return jitgrad.load(data)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 23


@pytest.mark.parametrize("member", [
    npy("(99999999999,)", content=b"1234"), npy("(1 << 40,)"), npy("(4611686018427387904, 4, 16)"), npy("((1,"),
    npy("(-1,)"), npy("(2.0,)", content=b"12345678"), npy("[1]", content=b"1234"), npy("(True,)", content=b"1234"),
    npy("(" * 5000 + ")" * 5000), npy("(1,)" + " " * 20000, content=b"1234"), npy("__import__('os').getpid()"),
    npy("(1,)", "|O", b"12345678"), npy("(1,)", [("a", "|O")], b"12345678"), npy("(1,)", "<f999999999999"),
    npy("(1,)", ["<f4"], b"1234"), npy("(0, 99999999999999999999)"), npy("()", "|V99999999999"),
    npy("(1,)", "<c8", b"1234"),
    npy("(1,)", content=b"1234", version=4), npy("(1,)", content=b"1234")[:20], b"", b"\x93NUMPY", b"PK" * 40,
    npy("(2,)", "<M8[generic]", b"1" * 16) + b"1"])
def test_headers_cannot_ask_for_memory(member: bytes) -> None:
    for root in ({"tensor": 0}, {"ndarray": 0}, {"list": [1, {"parameter": 0, "requires_grad": True}]}):
        with pytest.raises(LoadError):
            load_limited(written({"format": "jitgrad", "version": 1, "root": root}, t0=member))


@pytest.mark.parametrize("root", [
    {"tensor": 1}, {"tensor": "x"}, {"tensor": [0]}, {"tensor": {}}, {"tensor": None}, {"tensor": -1}, [], {}, [1],
    {"list": 3}, {"list": "abc"}, {"set": [{"list": []}]}, {"dict": [[{"list": []}, 1]]}, {"dict": [[1]]}, {"dict": 5},
    {"dict": [1]}, {"int": "x"}, {"int": "9" * 10000}, {"int": []}, {"float": "x"}, {"float": {}}, {"bytes": "x"},
    {"bytes": 1}, {"dtype": "f3"}, {"dtype": []}, {"ndarray": {}}, {"tensor": 0, "device": "nowhere"},
    {"tensor": 0, "device": 5.5}, {"tensor": 2, "requires_grad": True}, {"parameter": 2, "requires_grad": True},
    {"module": "modules.linear.Linear"}, {"module": "modules.linear.Linear", "state": {"dict": []}}, {"same": 0},
    {"module": "modules.linear.Linear", "state": {"same": 0}}, {"module": 5, "state": None}, {"same": "x"},
    {"module": "modules.linear.Linear", "state": {"dict": [["_parameters", 1]]}}, {"function": "eval"},
    {"function": "_reexported"}, {"function": "Tensor"}, {"function": 1}])
def test_descriptions_that_make_no_sense(root: Any) -> None:
    single, whole = npy("()", content=b"1234"), npy("(1,)", "<i8", b"12345678")
    for asked in (root, {"list": [root]}, {"dict": [["a", root]]}):
        with pytest.raises(LoadError):
            jitgrad.load(written({"format": "jitgrad", "version": 1, "root": asked}, t0=single, t2=whole))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"list":' * 100_000, "[]", "1", "", "\x00", '{"format": "jitgrad"}',
                                  '{"format": "jitgrad", "version": "1", "root": 1}', "{" * 50, "9" * 10_000,
                                  '{"format": "jitgrad", "root": ' + '{"list": [' * 900 + "]}" * 900 + "}"])
def test_descriptions_that_are_none(text: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data.json", text)
    gc.collect()  # what other tests left has no room for its finalizers where this one is as deep as Python goes
    with pytest.raises(LoadError):
        jitgrad.load(buffer)


def test_members_cannot_grow_or_hide(tmp_path: Path) -> None:
    header = json.dumps({"format": "jitgrad", "version": 1, "root": {"list": ["x" * 1_000_000]}})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.json", header)
    with pytest.raises(LoadError, match=r"`data\.json` is compressed"):
        load_limited(buffer)
    member = npy("(1,)", content=b"1234")
    data = bytearray(written({"format": "jitgrad", "version": 1, "root": {"tensor": 0}}, t0=member).getvalue())
    place = data.rindex(b"PK\x01\x02")  # the array's entry in the directory: its two sizes
    data[place + 20:place + 28] = b"\xf0\xff\xff\xff" * 2
    with pytest.raises(LoadError):
        load_limited(io.BytesIO(bytes(data)))
    twice = written({"format": "jitgrad", "version": 1, "root": 1})
    with zipfile.ZipFile(twice, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("data.json", json.dumps({"format": "jitgrad", "version": 1, "root": 2}))
    with pytest.raises(LoadError, match="occurs twice"):
        jitgrad.load(twice)


def test_any_damage_is_one_error(tmp_path: Path) -> None:
    whole = io.BytesIO()
    jitgrad.save({"a": jitgrad.arange(6.0).reshape(2, 3), "b": [jitgrad.ones(2, dtype=jitgrad.bfloat16), 1.5],
                  "model": jitgrad.nn.Sequential(jitgrad.nn.Linear(2, 1), jitgrad.nn.ReLU())}, whole)
    rng = random.Random(0)
    for number in range(600):
        data = bytearray(whole.getvalue())
        if number % 3 == 0:
            del data[rng.randrange(len(data)):]
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / "file").write_bytes(data)
        for file in (io.BytesIO(data), tmp_path / "file"):
            with contextlib.suppress(LoadError):
                jitgrad.load(file)


def test_what_map_location_raises_is_not_damage() -> None:
    file = written({"format": "jitgrad", "version": 1, "root": {"tensor": 0}}, t0=npy("(1,)", content=b"1234"))

    def wrong(t: Any, where: str) -> Any:
        raise KeyError(where)

    with pytest.raises(KeyError, match="cpu"):
        jitgrad.load(file, map_location=wrong)


@pytest.mark.parametrize("array", [
    np.arange(3), np.ones((2, 3), order="F"), np.array(["a", "bc"]), np.array([1 + 2j]), np.zeros((0, 4)),
    np.array(2.5), np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array([(1,)], dtype=[("\u00e9\u4e2d", "i4")]),
    np.array(["2020-01-01"], "M8[D]"), np.arange(4, dtype=">i4"), np.ones((2, 0, 3), np.float16)])
def test_arrays_of_every_kind(array: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPy's, of names that are not Latin
        back = round_trip({"a": array})["a"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tolist() == array.tolist()
    assert back.flags.writeable
    assert back.flags.f_contiguous is array.flags.f_contiguous
