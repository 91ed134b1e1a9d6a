"""Files that are damaged, too new, or made by somebody who means harm: one exception, nothing executed."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import random
import struct
import zipfile

import numpy as np
import pytest

import jitgrad
from jitgrad import nn
from jitgrad.jit import load, save
from jitgrad.script.stored.file import archive
from jitgrad.serialization import LoadError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.scale = 0.5

    def forward(self, x, n: int):
        h = self.fc(x)
        for _ in range(n):
            h = jitgrad.tanh(h) * self.scale
        if n > 10:
            raise ValueError(f"{n} is too many")
        return {"h": h, "n": n}


@pytest.fixture(scope="module")
def data():
    model = jitgrad.script(Net())
    file = io.BytesIO()
    save(model, file, example_inputs=(jitgrad.ones(4, 3), 2))
    return file.getvalue()


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {i.filename: z.read(i) for i in z.infolist()}


def pack(parts, manifest=True, method=zipfile.ZIP_STORED):
    """A file of these members, with a manifest that fits them."""
    file = io.BytesIO()
    if manifest:
        found = json.loads(parts["manifest.json"])
        found["members"] = {n: hashlib.sha256(d).hexdigest() for n, d in parts.items() if n != "manifest.json"}
        parts = {**parts, "manifest.json": json.dumps(found).encode()}
    with zipfile.ZipFile(file, "w", method) as z:
        for name, content in parts.items():
            z.writestr(name, content)
    file.seek(0)
    return file


def refused(file, match):
    with pytest.raises(LoadError, match=match):
        load(file)


def test_the_helpers_make_files_that_load(data):
    assert load(pack(members(data)))(jitgrad.ones(5, 3), 1)["h"].shape == (5, 2)


def test_other_files(tmp_path):
    refused(io.BytesIO(b""), "not a saved jitgrad program")
    refused(io.BytesIO(b"hello" * 100), "not a saved jitgrad program")
    jitgrad.save({"a": jitgrad.ones(2)}, tmp_path / "state.pt")
    refused(tmp_path / "state.pt", "it has a member named 'data.json'")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


def test_newer_versions_say_so(data):
    parts = members(data)
    parts["manifest.json"] = parts["manifest.json"].replace(b'"version": 2', b'"version": 3')
    refused(pack(parts), "a file of format version 3, written by jitgrad .*, but this jitgrad reads up to 2")


def test_checksums_are_compared(data):
    parts = members(data)
    parts["graphs/0.txt"] = parts["graphs/0.txt"].replace(b"tanh", b"sinh")
    refused(pack(parts, manifest=False), "the checksum of `graphs/0.txt` is wrong")


def test_odd_members(data):
    parts = members(data)
    for name in ("../../etc/passwd", "/abs", "arrays/../x", "arrays/99999999.npy", "code.py"):
        refused(pack({**parts, name: b"x"}), "it has a member named")
    refused(pack({**parts, "arrays/7.npy": b"x"}), "not numbered from 0")
    refused(pack({k: v for k, v in parts.items() if k != "program.json"}), "`program.json` is missing")
    refused(pack(parts, method=zipfile.ZIP_DEFLATED), "is compressed")
    file = pack(parts)
    with zipfile.ZipFile(file, "a") as z, pytest.warns(UserWarning, match="Duplicate name"):
        z.writestr("program.json", b"{}")
    refused(file, "occurs twice")


def test_array_headers_cannot_ask_for_memory(data):
    def npy(shape, descr="<f4", content=b""):
        header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content

    parts = members(data)
    for bad in (npy((1 << 40, 1 << 20)), npy((2,), "|O", b"x" * 16), npy((-1,)), npy((2,), "<c8", b"x" * 16), b"",
                npy("__import__('os')"), npy((1,) * 40, content=b"1234"),
                npy((3,), content=b"x" * 12).replace(b"(3,)", b"((3,")):
        refused(pack({**parts, "arrays/0.npy": bad}), "damaged")


def test_a_graph_that_is_none_is_refused(data):
    parts = members(data)
    text = parts["graphs/0.txt"].decode()
    for old, new in (("tanh(", "system("), ("return", "retrun"), ("f32", "f33"), ("scan(", "callback("),
                     ("matmul(%", "matmul(%x%"), ("$ValueError", "$eval"), ("tanh(", "matmul("),
                     ("axes=(1, 0)", "axes=(1, 7)"), (": f32[", ": f64[")):
        assert old in text, old
        refused(pack({**parts, "graphs/0.txt": text.replace(old, new, 1).encode()}), "damaged")


def test_inputs_must_be_what_their_guards_say(data):
    parts = members(data)
    text = parts["graphs/0.txt"].decode()
    wider = text.replace("f32", "f64")  # a graph that is right in itself
    refused(pack({**parts, "graphs/0.txt": wider.encode()}), "another type than the graph's")
    program = json.loads(parts["program.json"])
    for guard in program["programs"][0]["guards"]:
        if guard[1] == "tensor":
            guard[2] = ["float32", 3, [False, False, False], True]
    refused(pack({**parts, "program.json": json.dumps(program).encode()}), "an input differs from its guard")


def test_equal_sizes_are_guarded_whatever_the_file_says(data):
    parts = members(data)
    program = json.loads(parts["program.json"])
    assert program["programs"][0]["size_guards"]
    program["programs"][0]["size_guards"] = []
    loaded = load(pack({**parts, "program.json": json.dumps(program).encode()}))
    with pytest.raises(TypeError, match="sizes that were equal"):
        loaded(jitgrad.ones(4, 7), 1)


def replaced(program, old, new):
    """JSON with every value `old` replaced."""
    if program == old and type(program) is type(old):
        return new
    if isinstance(program, dict):
        return {(new if k == old and isinstance(new, str) else k): replaced(v, old, new) for k, v in program.items()}
    if isinstance(program, list):
        return [replaced(v, old, new) for v in program]
    return program


def test_names_cannot_become_code(data):
    parts = members(data)
    program = json.loads(parts["program.json"])
    wrong = [
        ("scale", "x.__class__"), ("scale", "__class__"), ("scale", "a; import os"), ("args", "x): import os #"),
        ("self", "self=print('hi')"), ("dict", "eval"), ("<saved/test_damaged.py>", "/etc/passwd"),
        ("fc", "_forward_hooks"), ("fc", "__dict__"),
    ]
    for old, new in wrong:
        changed = replaced(program, old, new)
        if changed != program:
            refused(pack({**parts, "program.json": json.dumps(changed).encode()}), "damaged")
    results = copy.deepcopy(program)
    results["programs"][0]["result"] = ["output", "0] + __import__('os').getcwd() + o[0"]
    refused(pack({**parts, "program.json": json.dumps(results).encode()}), "is not a number")


def test_paths_cannot_leave_the_saved_objects(data):
    parts = members(data)
    program = json.loads(parts["program.json"])
    for path in (["attr", ["attr", ["root"], "forward"], "__globals__"], ["attr", ["root"], "save"],
                 ["attr", ["root"], "state_dict"], ["global", "os", "system"], ["rng", "__class__"],
                 ["attr", ["attr", ["root"], "fc"], "in_features"]):
        changed = copy.deepcopy(program)
        changed["programs"][0]["guards"].append([path, "is", None])
        refused(pack({**parts, "program.json": json.dumps(changed).encode()}), "damaged")
        changed = copy.deepcopy(program)
        changed["programs"][0]["stores"].append([path, ["output", 0]])
        if path != ["attr", ["attr", ["root"], "fc"], "in_features"]:  # a new attribute, which does no harm
            refused(pack({**parts, "program.json": json.dumps(changed).encode()}), "damaged")


def attempt(file):
    """Load; whatever happens, it is a LoadError or a module."""
    try:
        load(file)
    except LoadError:
        return False
    return True


def test_flipped_and_missing_bytes(data):
    rng = random.Random(0)
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        attempt(io.BytesIO(bytes(broken)))
    for _ in range(60):
        assert not attempt(io.BytesIO(data[:rng.randrange(len(data))]))


def test_files_with_right_checksums_and_wrong_contents(data):
    parts = members(data)
    rng = random.Random(1)
    text = parts["graphs/0.txt"].decode()
    words = text.split(" ")
    for _ in range(120):
        changed = list(words)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.choice((*words, "", "7", "(", "%x", "f64[]", "@N", "-1"))
        attempt(pack({**parts, "graphs/0.txt": " ".join(changed).encode()}))
    program = json.loads(parts["program.json"])
    for _ in range(250):
        changed = copy.deepcopy(program)
        mutate(changed, rng)
        attempt(pack({**parts, "program.json": json.dumps(changed).encode()}))


VALUES = [None, -1, 0, 1, 10**12, 1.5, True, "x", "__class__", [], {}, ["root"], ["arg", "x"], ["output", 0],
          {"int": "1"}]


def mutate(value, rng):
    """Replace, remove or double something, somewhere inside."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = value[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.9:
            value = inner
            continue
        if rng.random() < 0.2:
            del value[key]
        elif rng.random() < 0.2 and isinstance(value, list):
            value.append(inner)
        else:
            value[key] = rng.choice(VALUES)
        return


@pytest.mark.parametrize(("member", "content"), [
    ("program.json", b"[" * 100_000), ("program.json", b'{"a":' * 100_000), ("manifest.json", b"[" * 100_000),
    ("program.json", b"9" * 100_000), ("graphs/0.txt", b"graph f(" + b"(" * 50_000),
    ("graphs/0.txt", b"graph f():\n  %0: int = num.const(){value=" + b"(" * 50_000),
    ("graphs/0.txt", b"graph f():\n  %0: int = num.const(){value=" + b"9" * 100_000 + b"}\n  return %0\n"),
    ("graphs/0.txt", b"graph f(%x: " + b"list<" * 20_000), ("graphs/0.txt", b"\0" * 100_000),
    ("graphs/0.txt", b"\xff" * 100)])
def test_nesting_and_numbers_without_end(data, member, content):
    refused(pack({**members(data), member: content}, manifest=member != "manifest.json"), "damaged")


def test_arrays_come_back_as_they_were():
    for array in (np.zeros((0, 3), "f4"), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(True),
                  np.arange(10, dtype="i8")[::2]):
        file = io.BytesIO()
        archive.write(file, {}, [], [array])
        (found,) = archive.read(file).arrays
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
        assert found.flags.writeable
        assert found.flags.owndata
