"""PyTorch's files: everything in them comes back, what is refused is named, and damage is an error."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import tracemalloc
import types
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.serialization import LoadError, add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from jitgrad.serialization.pickles import Machine, Refused, refusals
from tests.serialization.record import FOLDER, net, objects, stepped, tensors


@contextlib.contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """The body allocates less than that many bytes."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


#: how many damaged files of each kind are tried
DAMAGED = int(os.environ.get("JITGRAD_TEST_DAMAGED", "60"))


def assert_same(found: Any, expected: Any) -> None:
    """Equal in kind and value, tensors in everything that a file says of them."""
    assert type(found) is type(expected)
    if isinstance(expected, jitgrad.Tensor):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.stride() == expected.stride() or not expected.numel()
        assert found.requires_grad is expected.requires_grad
        assert found.tolist() == expected.tolist()
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
    else:
        assert found == expected


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("name", objects(jitgrad))
def test_files_of_pytorch(name: str, mapped: bool) -> None:
    expected = objects(jitgrad)[name]
    found = jitgrad.load(FOLDER / f"{name}.pt", mmap=mapped)
    if name == "optimizer":  # what the steps computed may differ in a last digit
        assert_same(found["param_groups"], [{k: g[k] for k in f} for f, g in zip(
            found["param_groups"], expected["param_groups"], strict=True)])
        for number, state in expected["state"].items():
            for key, value in state.items():
                np.testing.assert_allclose(found["state"][number][key], value, rtol=1e-4, atol=1e-6)
        return
    assert_same(found, expected)


@pytest.mark.parametrize("name", ["tensors", "legacy_tensors"])
def test_storages_are_shared(name: str) -> None:
    found = jitgrad.load(FOLDER / f"{name}.pt")
    found["base"] += 100
    with jitgrad.no_grad():
        found["parameter"] += 1
    assert found["again"].tolist() == [101.0, 102.0, *range(102, 124)]
    assert found["turned"][0].tolist() == [102.0, 113.0]
    assert found["part"].tolist() == [105.0, 106.0]
    assert found["expanded"].tolist() == [[101.0, 102.0, 102.0]] * 2


def test_a_checkpoint_goes_on() -> None:
    model = net(jitgrad)
    with jitgrad.no_grad():
        for p in model.parameters():
            p.zero_()
    state = jitgrad.load(FOLDER / "state.pt")
    assert state._metadata["1"] == {"version": 2}
    assert str(model.load_state_dict(state)) == "<All keys matched successfully>"
    assert model[0].weight.tolist() == net(jitgrad)[0].weight.tolist()
    optimizer = stepped(jitgrad)
    optimizer.load_state_dict(jitgrad.load(FOLDER / "optimizer.pt"))
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]


def test_map_location_is_asked_once_for_each_storage() -> None:
    asked = []

    def where(t: Any, saved: str) -> Any:
        asked.append((saved, t.ndim))
        return t

    found = jitgrad.load(FOLDER / "tensors.pt", map_location=where)
    assert asked == [("cpu", 1)] * len(asked)
    assert len(asked) < len(found)
    assert jitgrad.load(FOLDER / "tensors.pt", map_location="cpu")["base"].device.type == "cpu"

    def wrong(t: Any, saved: str) -> Any:
        raise KeyError(saved)

    with pytest.raises(KeyError, match="cpu"):
        jitgrad.load(FOLDER / "tensors.pt", map_location=wrong)


# --- files made by hand -------------------------------------------------------------------------------------------


def archive_of(program: bytes, root: str = "archive", order: bytes = b"little", **storages: bytes) -> io.BytesIO:
    """A checkpoint with this pickle; `storages` by key, `_0` for 0."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{root}/data.pkl", program)
        archive.writestr(f"{root}/byteorder", order)
        for key, data in storages.items():
            archive.writestr(f"{root}/data/{key[1:]}", data)
    return file


def tensor_of(storage: str = "FloatStorage", count: int = 2, offset: int = 0, size: tuple[int, ...] = (2,),
              stride: tuple[int, ...] = (1,), location: str = "cpu", key: str = "0") -> bytes:
    """The pickle of a tensor."""
    arguments = pickle.dumps((offset, size, stride), 2)[2:-1]
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n" + storage.encode() + b"\n"
            + pickle.dumps((key, location, count), 2)[2:-1].replace(b"\x87", b"").rsplit(b"q", 1)[0] + b"tQ"
            + arguments.rsplit(b"\x87", 1)[0] + b"\x89Nt" + b"R.")


def test_bytes_of_the_other_order() -> None:
    for order in ("little", "big"):
        data = np.array([1.5, -2.0], ">f4" if order == "big" else "<f4").tobytes()
        found = jitgrad.load(archive_of(tensor_of(), order=order.encode(), _0=data))
        assert found.tolist() == [1.5, -2.0]
    data = np.array([1.5, -2.0], "<f4").view("<u2")[1::2].astype(">u2").tobytes()
    assert jitgrad.load(archive_of(tensor_of("BFloat16Storage"), order=b"big", _0=data)).tolist() == [1.5, -2.0]
    with pytest.raises(LoadError, match="the byte order"):
        jitgrad.load(archive_of(tensor_of(), order=b"middle", _0=b"12345678"))


def test_a_gpu_that_is_not_there_is_said() -> None:
    file = archive_of(tensor_of(location="cuda:0"), _0=bytes(8))
    assert jitgrad.load(file, map_location="cpu").tolist() == [0.0, 0.0]
    assert jitgrad.load(file, map_location={"cuda:0": "cpu"}).tolist() == [0.0, 0.0]
    if not jitgrad.cuda.is_available():
        with pytest.raises(RuntimeError, match="map_location='cpu'"):
            jitgrad.load(file)


@pytest.mark.parametrize("told", [
    {"offset": 1}, {"offset": -1}, {"size": (3,)}, {"size": (-1,)}, {"stride": (-1,)}, {"stride": (1 << 62,)},
    {"size": (1 << 62, 4), "stride": (4, 1)}, {"size": (2, 1)}, {"count": 3}, {"count": -2}, {"count": 1 << 60},
    {"key": "1"}, {"key": "../0"}, {"storage": "BoolStorage"}, {"location": "mps"}, {"storage": "DoubleStorage"},
    {"storage": "BoolStorage", "count": 8}])
def test_tensors_that_make_no_sense(told: Any) -> None:
    with pytest.raises(RuntimeError):  # a device of an unknown name is no damage
        jitgrad.load(archive_of(tensor_of(**told), _0=b"12345678"))


class Config:
    """A class of a user's."""

    def __init__(self) -> None:
        self.width = 3


class Ordered(OrderedDict[str, int]):
    pass


def test_what_is_refused_is_named() -> None:
    obj = {"epoch": 3, "best": [1, {"config": Config()}], "tried": {"x": (Config(), Ordered(a=1), len)}}
    path = f"{__name__}.Config"
    with pytest.raises(Refused) as error:
        jitgrad.load(archive_of(pickle.dumps(obj, 2)))
    text = str(error.value)
    assert f"`{path}` at object['best'][1]['config'], `{path}` at object['tried']['x'][0]" in text
    assert f"`{__name__}.Ordered` at object['tried']['x'][1]" in text
    assert "`builtins.len` at object['tried']['x'][2]" in text
    assert "add_safe_globals" in text
    assert isinstance(error.value, pickle.UnpicklingError)  # which PyTorch raises
    for weights_only in (None, False):
        with pytest.raises(Refused):
            jitgrad.load(archive_of(pickle.dumps(obj, 2)), weights_only=weights_only)


def test_classes_may_be_allowed() -> None:
    data = archive_of(pickle.dumps({"config": Config(), "space": types.SimpleNamespace(a=1)}, 2))
    with safe_globals([Config, types.SimpleNamespace]):
        assert get_safe_globals() == [Config, types.SimpleNamespace]
        found = jitgrad.load(data)
        assert type(found["config"]) is Config
        assert found["config"].width == 3
        assert found["space"].a == 1
    assert get_safe_globals() == []
    add_safe_globals([(Config, f"{__name__}.Config"), types.SimpleNamespace])
    assert type(jitgrad.load(data)["config"]) is Config
    clear_safe_globals()
    with pytest.raises(Refused):
        jitgrad.load(data)


def test_modules_are_refused_with_advice(tmp_path: Path) -> None:
    class Bad:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path / 'made'}",)

    torch_linear = b"\x80\x02}X\x05\x00\x00\x00modelctorch.nn.modules.linear\nLinear\n)\x81}X\x01\x00\x00\x00aK\x01sbs."
    with pytest.raises(Refused, match=r"`torch\.nn\.modules\.linear\.Linear` at object\['model'\].*state_dict"):
        jitgrad.load(archive_of(torch_linear))
    for protocol in range(6):
        with pytest.raises(Refused, match=r"`(posix|nt)\.system` at object\[0\]"):
            jitgrad.load(archive_of(pickle.dumps([Bad()], protocol)))
    assert not (tmp_path / "made").exists()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02N.")
        archive.writestr("m/constants.pkl", b"\x80\x02).")
    with pytest.raises(LoadError, match=r"torch\.jit\.save"):
        jitgrad.load(file)


def machine(*safe: type[Any]) -> Machine:
    return Machine({}, {}, lambda named: named, {f"{c.__module__}.{c.__qualname__}": c for c in safe})


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_every_protocol(protocol: int) -> None:
    shared: list[Any] = [1]
    obj = {"a": [None, True, False, 0, 255, 65535, -1, 1 << 40, 1 << 2000, 0.5, "text", "é" * 300], "b": b"x" * 300,
           "e": [b"", bytearray(), set(), frozenset(), OrderedDict()],
           "t": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "s": {1, 2}, "f": frozenset({1}), "ba": bytearray(b"abc"),
           "o": OrderedDict(x=1), "c": Counter("aab"), "shared": [shared, shared], "z": 1 + 2j}
    found = machine().run(io.BytesIO(pickle.dumps(obj, protocol)))
    assert found == obj
    assert found["shared"][0] is found["shared"][1]
    assert refusals(found) == []


GLOBAL_OF = {"array": b"cbuiltins\nbytearray\n", "counter": b"ccollections\nCounter\n",
             "dict": b"ccollections\nOrderedDict\n",
             "encode": b"c_codecs\nencode\n", "tensor": b"ctorch\nTensor\n", "storage": b"ctorch\nFloatStorage\n"}
DOUBLED = b")" + b"q\x01h\x01\x86" * 60  # a tuple of 2 ** 60 parts


@pytest.mark.parametrize("program", [
    b"", b".", b"(.", b")R.", b"K\x01K\x02R.", b"K\x01)R.", b"h\x05.", b"r\xff\xff\xff\x7f.", b"K\x01K\x02a.",
    b"}K\x01s.", b"}(K\x01u.", b"K\x01}b.", b"]}b.", b"\x82\x01.", b"X\xff\xff\xff\x7fabc.", b"\x8a\xff.",
    b"\x8e" + b"\xff" * 8,
    b"I1" * 500, b"c" + b"a" * 1000, b"K\x01Q.", b"]q\x01h\x01a}h\x01K\x01s.", b"}" + DOUBLED + b"K\x01s.",
    b"\x8f(" + DOUBLED + b"\x90.", b"(" + DOUBLED + b"ctorch\nFloatStorage\n" + DOUBLED + DOUBLED + b"K\x01tQ.",
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n" + DOUBLED + DOUBLED + b"K\x01tQ.",
    b"ctorch\ndevice\n" + DOUBLED + b"\x85R.",
    GLOBAL_OF["dict"] + b"](" + DOUBLED + b"K\x01ta\x85R.",
    b"ctorch\nSize\n" + DOUBLED + b"\x85R.", GLOBAL_OF["array"] + b"\x8a\x05\x00\x00\x00\x00\x01\x85R.",
    GLOBAL_OF["counter"] + b"K\x05\x85R.", GLOBAL_OF["encode"] + b"X\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R.",
    GLOBAL_OF["dict"] + b".", GLOBAL_OF["dict"] + b")R}X\x05\x00\x00\x00itemsK\x01sb.",
    GLOBAL_OF["tensor"] + b"J\xff\xff\xff\x7f\x85R.", GLOBAL_OF["storage"] + b"K\x01\x85R."])
def test_programs_that_make_no_sense(program: bytes) -> None:
    with memory_below(1 << 23), pytest.raises(LoadError):
        jitgrad.load(archive_of(b"\x80\x02" + program))


@pytest.mark.parametrize("name", ["tensors", "legacy_tensors", "state", "containers"])
def test_any_damage_is_one_error(name: str, tmp_path: Path) -> None:
    whole, rng = (FOLDER / f"{name}.pt").read_bytes(), random.Random(0)
    for number in range(DAMAGED):
        data = bytearray(whole)
        if number % 3 == 0:
            del data[rng.randrange(len(data)):]
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / "file").write_bytes(data)
        for file, mapped in ((io.BytesIO(data), False), (tmp_path / "file", True)):
            with contextlib.suppress(RuntimeError):  # a LoadError, or of a device of another name
                jitgrad.load(file, mmap=mapped)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of escapes in strings
def test_any_program_is_safe() -> None:
    """Mutations of the pickle itself, which the checksum of the zip file would catch."""
    with zipfile.ZipFile(FOLDER / "tensors.pt") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    whole, rng = members["tensors/data.pkl"], random.Random(1)
    opcodes = [op for op in whole if op < 128]
    for _ in range(DAMAGED):
        program = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            program[rng.randrange(len(program))] = rng.choice((rng.randrange(256), rng.choice(opcodes)))
        file = archive_of(bytes(program), **{f"_{n.rsplit('/', 1)[1]}": d for n, d in members.items() if "/data/" in n})
        with memory_below(1 << 23), contextlib.suppress(RuntimeError):
            jitgrad.load(file)


# --- mapped files --------------------------------------------------------------------------------------------------


def test_a_mapped_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("large/data.pkl", tensor_of(count=1 << 22, size=(1 << 22,)))
        info = zipfile.ZipInfo("large/data/0")
        length = -(archive.start_dir + 34 + len(info.filename)) % 64
        info.extra = b"FB" + length.to_bytes(2, "little") + bytes(length)
        archive.writestr(info, bytes(1 << 24))
    before = path.read_bytes()
    with memory_below(1 << 23):
        found = jitgrad.load(path, mmap=True)
    assert found.data_ptr() % 64 == 0
    found += 1  # a copy of the pages, of this process
    assert found.sum().item() == 1 << 22
    assert path.read_bytes() == before
    with path.open("rb") as file, pytest.raises(ValueError, match="must be a file path"):
        jitgrad.load(file, mmap=True)


def test_our_own_files_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "own.pt"
    jitgrad.save({"a": jitgrad.ones(1 << 22), "b": jitgrad.arange(3), "c": jitgrad.ones(2).bfloat16()}, path)
    with memory_below(1 << 23):
        found = jitgrad.load(path, mmap=True)
    assert found["a"].data_ptr() % 64 == 0
    found["a"] += 1
    assert found["b"].tolist() == [0, 1, 2]
    assert found["c"].tolist() == [1.0, 1.0]
    assert jitgrad.load(path)["a"].sum().item() == 1 << 22
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(LoadError):
        jitgrad.load(tmp_path / "empty", mmap=True)


# --- beside PyTorch -------------------------------------------------------------------------------------------------


def test_recorded_files_are_what_pytorch_writes() -> None:
    torch = pytest.importorskip("torch")
    for name, obj in objects(torch).items():
        found = torch.load(FOLDER / f"{name}.pt", weights_only=False)
        assert str(found) == str(obj)
    marked = torch._neg_view(torch.ones(2))
    for obj, expected in ((marked, [-1.0, -1.0]), (torch.nn.Buffer(torch.ones(1)), [1.0])):
        torch.save(obj, file := io.BytesIO())
        assert jitgrad.load(file).tolist() == expected
    for obj in (torch.ones(2).untyped_storage(), torch.zeros(1, dtype=torch.float8_e5m2), torch.eye(2).to_sparse(),
                torch.nn.Linear(1, 1), {"best": np.float64(1)}):
        torch.save(obj, file := io.BytesIO())
        with pytest.raises(Refused):
            jitgrad.load(file)
    file = io.BytesIO()
    torch.save(tensors(torch), file)
    assert_same(jitgrad.load(file), tensors(jitgrad))
