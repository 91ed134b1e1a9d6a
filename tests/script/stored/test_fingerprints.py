"""Specialisations on disk: what a second process may use, and what must be compiled again."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jitgrad import dtypes
from jitgrad.dims import Symbol, dim, floordiv
from jitgrad.script.call import signature as sig
from jitgrad.script.call.sources import argument_guards
from jitgrad.script.stored import fingerprints
from jitgrad.script.stored.values import NotSavable, from_plain, to_plain

LIBRARY = """\
def helper(x):
    return x * 2
"""

PROGRAM = """\
import json
import sys

import jitgrad
import library

LEVEL = 3


def maker(rate):
    def inner(x):
        return x * rate

    return inner


inner = maker(float(sys.argv[1]) if len(sys.argv) > 1 else 0.5)


def f(x, w):
    return (library.helper(x) @ w).sum() * LEVEL + inner(x).sum()


class Net(jitgrad.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = jitgrad.nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x).tanh().sum()


def local():
    thing = {1}
    act = lambda x: x * 2  # noqa: E731

    def g(x):
        return act(x) if 1 in thing else x

    return jitgrad.script(g)


f, g, net = jitgrad.script(f), local(), jitgrad.script(Net())
x, w = jitgrad.ones(2, 3), jitgrad.ones(3, 2, requires_grad=True)
value = f(x, w)
value.backward()
loss = net(x)
loss.backward()
expected = net.eager(x)
print(json.dumps({"value": value.item(), "grad": w.grad.tolist(), "f": f.cache_info(), "g": g(x).sum().item(),
                  "g_info": g.cache_info(), "net": abs(loss.item() - expected.item()) < 1e-5,
                  "net_info": net.cache_info(), "code": f.code,
                  "asm": ".text" in f.asm()}))
"""

ROOT = Path(__file__).parents[3]
COUNTS = ("hits", "misses", "compilations", "disk_hits", "entries")


class World:
    """A folder with a program, its library and a cache of its own."""

    def __init__(self, folder: Path):
        self.folder, self.cache = folder, folder / "cache"
        self.write("library.py", LIBRARY)
        self.write("program.py", PROGRAM)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def run(self, *arguments: str, **environment: str) -> dict:
        """What the program printed. Its bytecode is not written, so that an edit within a second is seen."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith("JITGRAD_")}
        done = subprocess.run(
            [sys.executable, "-W", "error", "program.py", *arguments], cwd=self.folder, capture_output=True, text=True,
            env={**variables, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1",
                 "JITGRAD_CACHE": str(self.cache), **environment})
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        for name in ("f", "g_info", "net_info"):
            found[name] = dict(zip(COUNTS, found[name], strict=bool(found[name])))
        return found


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A world whose program has run once, and what it printed."""
    world = World(tmp_path_factory.mktemp("world"))
    return world, world.run()


@pytest.fixture(scope="module")
def second(filled):
    """What the program printed in a second process."""
    return filled[0].run()


def test_a_second_process_loads_what_the_first_compiled(filled, second):
    _, first = filled
    assert (first["value"], first["f"]["disk_hits"], first["net_info"]["disk_hits"]) == (75.0, 0, 0)
    assert (second["value"], second["grad"]) == (first["value"], first["grad"])
    assert (second["f"]["disk_hits"], second["f"]["compilations"]) == (1, 1)
    assert second["net_info"]["disk_hits"] == 1
    assert second["net"]
    assert second["code"] == first["code"]
    assert second["asm"]


def test_what_has_no_name_is_compiled_in_every_process(filled, second):
    assert filled[1]["g"] == second["g"] == 12.0
    assert second["g_info"]["disk_hits"] == 0


def test_a_closure_s_float_is_an_input(filled):
    world, _ = filled
    other = world.run("2.5")
    assert (other["value"], other["f"]["disk_hits"]) == (87.0, 1)


def test_a_global_int_is_part_of_the_program(filled):
    world, _ = filled
    world.write("program.py", PROGRAM.replace("LEVEL = 3", "LEVEL = 4"))
    changed = world.run()
    assert (changed["value"], changed["f"]["disk_hits"]) == (99.0, 0)
    world.write("program.py", PROGRAM)


def test_an_edit_of_an_inlined_function_is_seen(filled):
    world, _ = filled
    world.write("library.py", LIBRARY.replace("x * 2", "x * 3"))
    changed = world.run()
    assert (changed["value"], changed["f"]["disk_hits"]) == (111.0, 0)
    world.write("library.py", LIBRARY)


RECORDS = """\
import collections
import dataclasses
import json

import jitgrad

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Out:
    y: jitgrad.Tensor
    n: int = 3


@jitgrad.script
def f(x):
    pair, out = Pair(x, x * 2), Out(x)
    return Out(pair.a + out.n), x.sum()


found, _ = f(jitgrad.ones(2))
print(json.dumps({"value": [found.y.tolist(), found.n], "f": f.cache_info(), "g_info": [], "net_info": []}))
"""


def test_objects_are_results_of_stored_programs_and_an_edit_of_their_class_is_seen(tmp_path):
    world = World(tmp_path)
    default, order = RECORDS.replace("= 3", "= 5"), RECORDS.replace("= 3", "= 5").replace('"a b"', '"b a"')
    for text, value, hits in ((RECORDS, [[4.0, 4.0], 3], 0), (RECORDS, [[4.0, 4.0], 3], 1),
                              (default, [[6.0, 6.0], 5], 0), (default, [[6.0, 6.0], 5], 1),
                              (order, [[7.0, 7.0], 5], 0)):
        world.write("program.py", text)
        found = world.run()
        assert (found["value"], found["f"]["disk_hits"]) == (value, hits)


def test_damaged_entries_are_compiled_again(filled):
    world, first = filled
    for path in world.cache.iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(bytes(data))
    damaged = world.run()
    assert (damaged["value"], damaged["f"]["disk_hits"]) == (first["value"], 0)
    assert world.run()["f"]["disk_hits"] == 1


def test_the_cache_can_be_off(tmp_path):
    world = World(tmp_path)
    for _ in range(2):
        assert world.run(JITGRAD_CACHE="off")["f"]["disk_hits"] == 0
    assert not world.cache.exists()
    assert not (tmp_path / "off").exists()


# --- parts ---------------------------------------------------------------------------------------------------------


def root(x):
    return x


def round_trip(write, read, value):
    writer = fingerprints.Writer(root)
    stored = json.loads(json.dumps(getattr(writer, write)(value)))
    sources = json.loads(json.dumps(writer.sources))
    reader = fingerprints.Reader(root, {"x": 1.0}, sources, [s.not_one for s in writer.symbols])
    return getattr(reader, read)(stored)


@pytest.mark.parametrize("source", [
    sig.Arg("x"), sig.Global(root, "World"), sig.Cell(root, 2), sig.Attr(sig.Item(sig.Arg("x"), "k"), "name"),
    sig.Item(sig.Item(sig.Arg("x"), 3), "lr"), sig.RngState("offset"), sig.Constant(2.5, 1),
])
def test_sources_round_trip(source):
    assert round_trip("source", "source", source) == source


def test_a_path_is_written_once():
    writer = fingerprints.Writer(root)
    base = sig.Attr(sig.Arg("x"), "layers")
    numbers = [writer.source(sig.Item(base, 1)), writer.source(sig.Item(sig.Attr(sig.Arg("x"), "layers"), 1))]
    assert numbers[0] == numbers[1]
    assert len(writer.sources) == 3
    assert writer.source(sig.Constant(1, 1)) != writer.source(sig.Constant(1.0, 1))


@pytest.mark.parametrize("result", [
    sig.Output(3), sig.Same(1), sig.Static(None), sig.Static(2.5), sig.Static("text"),
    sig.Container(tuple, None, (sig.Output(0), sig.Container(dict, ("a", 1), (sig.Same(0), sig.Static(True)))), 4),
    sig.Made(collections.deque, (sig.Container(list, None, (sig.Output(0),)), sig.Static(3)), 2),
    sig.ViewOf(0, (("select", {"axis": 0, "index": 2}), ("permute", {"axes": (1, 0)}))),
    sig.ViewOf(1, (("flip", {"axes": (0,)}),), made=True),
])
def test_results_round_trip(result):
    assert round_trip("result", "result", result) == result


def test_sizes_round_trip():
    a, b = Symbol(), Symbol(not_one=True)
    size = floordiv(dim(a) * 3 + dim(b) * dim(a), 2) - 1
    stored = fingerprints.Writer(root)
    text = json.loads(json.dumps(stored.size(size)))
    reader = fingerprints.Reader(root, {}, [], [False, True])
    again = reader.size(text)
    assert str(again).replace(reader.symbols[0].name, a.name).replace(reader.symbols[1].name, b.name) == str(size)
    assert reader.symbols[1].not_one


@pytest.mark.parametrize("value", [3, 2.5, True, "text", None, (1, ("a", None)), dtypes.float64])
def test_plain_values_round_trip(value):
    found = from_plain(json.loads(json.dumps(to_plain(value))))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", [object(), {1}, lambda x: x])
def test_what_cannot_be_named(value):
    with pytest.raises(NotSavable):
        fingerprints.Writer(root).result(sig.Static(value))


def test_guards_of_arguments_round_trip():
    for value in (1, 2.5, "s", [1, (2.0, None)], {"a": 1}):
        for guard in argument_guards(sig.Arg("x"), value):
            writer = fingerprints.Writer(root)
            stored = json.loads(json.dumps(writer.guard(guard)))
            sources = json.loads(json.dumps(writer.sources))
            assert fingerprints.Reader(root, {"x": value}, sources, []).guard(stored) == guard


def test_a_hash_of_code_does_not_say_who_else_holds_its_constants():
    scope = {}
    exec("def f(x):\n    return x + 123456789.5, 'no name of anything', (1, 2.5)\n", scope)
    function = scope["f"]
    before = fingerprints.code_hash(function)
    kept = [*function.__code__.co_consts, function.__code__.co_consts]
    assert fingerprints.code_hash(function) == before
    assert kept
