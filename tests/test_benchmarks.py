"""The benchmarks' own code: programs run and agree, tables tell what was measured. No times are looked at."""

import json
import sys

import numpy as np
import pytest

import jitgrad
from benchmarks import __main__ as bench, compiling, convolutions, curves, eager, first, machine, models, peers, threads
from benchmarks.programs import programs
from jitgrad.ops.rows import convolutions as rows
from jitgrad.script.inspect.explain.ceilings import Ceilings

SMALL = [p for p in programs() if sum(a.size for a in p.weights) < 50_000 and "GRU" not in p.name]


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No peers, installed or not: they take seconds to load."""
    for name in ("torch", "jax"):
        monkeypatch.setitem(sys.modules, name, None)


def test_programs_have_names_of_their_own():
    names = [p.name for p in programs()]
    assert len(set(names)) == len(names) == 17
    assert len(SMALL) >= 6


@pytest.mark.parametrize("program", SMALL, ids=lambda p: p.name)
def test_ways_of_ours_agree(program):
    """A scripted loss, a scripted step and eager: `measure` raises where they differ."""
    found = peers.measure(program, rounds=1, seconds=0.0)
    assert set(found["us"]) == {"jitgrad loss", "jitgrad step", "jitgrad eager"}
    assert set(found["lost"]) == {"torch eager", "torch.jit.script", "jax.jit"}
    assert found["x"] is None
    assert program.name in peers.table({program.name: found | {"wanted": program.wanted}})


def test_floors_are_products_and_bytes_at_given_rates():
    """Of a net with an optimizer: three products forward and backward, the rest by its bytes, of whichever size."""
    program = next(p for p in SMALL if p.name.startswith("MLP 64-32-10"))
    rates = Ceilings({1 << 16: 1e9, 1 << 20: 4e9, 1 << 23: 2e9}, {"float32": 1e6, "float64": 1.0})
    products = 2 * 8 * (2 * 64 * 32 + 3 * 32 * 10)
    found = peers.floor(program, rates)
    moved = peers.floor(program, Ceilings(rates.bytes, {"float32": float("inf")}))
    assert found == pytest.approx(products + moved)
    sizes = [a.nbytes for a in program.weights]
    assert 5 * sum(sizes) / 4e9 < moved / 1e6 < 20 * sum(sizes) / 4e9
    us = {"jitgrad step": 3.0, "jitgrad eager": 9.0}
    text = peers.table({"one": {"us": us, "x": None, "peer": None, "wanted": 2.0, "floor": 2.0}})
    assert "of it |" in text
    assert text.endswith("| 2 | 1.50 |")


def test_all_take_turns():
    seen = []
    samples = machine.alternate({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, 2, 0.0, warm=2, turns=3)
    assert "".join(seen) == "aaabbb" + "aaabbb" * 2
    assert [len(v) for v in samples.values()] == [2, 2]


def test_what_differs_is_an_error(monkeypatch):
    program = SMALL[-1]
    one = np.float64(1)
    monkeypatch.setattr(peers, "systems", lambda program, compiled: {
        "jitgrad loss": lambda: lambda: (one, np.ones(2)), "torch eager": lambda: lambda: (one, np.ones(2) * 1.1)})
    with pytest.raises(AssertionError, match="torch eager differs by"):
        peers.measure(program, rounds=1, seconds=0.0)


def test_the_ratio_is_of_the_best_peer(monkeypatch):
    monkeypatch.setattr(peers, "systems", lambda program, compiled: {
        name: lambda: lambda: (np.float64(1), np.ones(2)) for name in ("jitgrad loss", "jitgrad eager", "jax.jit")})
    found = peers.measure(SMALL[0], rounds=3, seconds=0.0)
    assert found["peer"] == "jax.jit"
    assert found["x"] > 0
    text = peers.table({"one": found | {"wanted": 2.0}})
    assert "| jax.jit |" in text
    assert "geometric mean" in text


def test_convolutions_are_what_they_are_compared_with():
    rng = np.random.default_rng(0)
    x, w, g = (rng.standard_normal(s) for s in ((2, 3, 6, 6), (4, 3, 3, 3), (2, 4, 3, 3)))
    how = (2, 2), (1, 1), (1, 1), 1
    y, gw, gx = (run() for run in convolutions.ours(x, w, g, 2, 1))
    np.testing.assert_allclose(y, rows._conv(np, x, w, *how))
    np.testing.assert_allclose(gw, rows._conv_weight(np, g, x, w.shape, *how))
    np.testing.assert_allclose(gx, rows._conv_transpose(np, g, w, x.shape, *how))
    assert [round(us) >= 0 for us in convolutions.best_us([lambda: None], 2)] == [True]


def test_eager_operations_are_measured():
    """In both directions, each of at least forty."""
    operations = eager.operations()
    assert len(operations) >= 40
    for letters, op in operations.values():
        forward, backward = eager.runs(jitgrad, jitgrad.from_numpy, letters, op, (16, 16))
        assert forward().numel() > 0
        assert all(g is not None for g in backward())


def test_eager_ratios_are_of_the_two(monkeypatch):
    monkeypatch.setattr(eager, "SHAPES", {"small": (4, 4)})
    systems = {"jitgrad": (jitgrad, jitgrad.from_numpy), "torch": (jitgrad, jitgrad.from_numpy)}
    found = eager.measure(*eager.operations()["add"], 0.0, systems)
    assert set(found) == {"small forward", "small with gradient"}
    text = eager.table({"add": {way: {"jitgrad": 2.0, "torch": 3.0} for way in found}})
    assert "| add | 2 | 3 | 1.50 | 2 | 3 | 1.50 |" in text
    assert "under 0.5: 0" in text
    assert "| add | 2 | - | - |" in eager.table({"add": {way: {"jitgrad": 2.0} for way in found}})


def test_numbers_of_threads_take_turns():
    before, seen = jitgrad.get_num_threads(), []
    us = threads.measure(lambda: seen.append(jitgrad.get_num_threads()), [2, 1], seconds=0.0, calls=2)
    assert seen == [2] * 10 + [1] * 10
    assert jitgrad.get_num_threads() == before
    assert len(us) == 2
    assert "| one | 3 | 2 | 1.50 |" in threads.table({"one": {"us": [3.0, 2.0], "x": 1.5}}, [2, 1])


def test_figures_go_to_a_file(tmp_path, capsys):
    machine.tell({"a": 1}, "| the table |", tmp_path / "figures.json")
    assert "| the table |" in capsys.readouterr().out
    assert '"a": 1' in (tmp_path / "figures.json").read_text()


@pytest.mark.parametrize("name", ["small-1", "gpt-1", "resnet-18"])
def test_a_first_call_by_stages(name, tmp_path):
    found = compiling.best(name, 1, str(tmp_path), stages=True)["cold"]
    assert set(found) == {"imports", *compiling.STAGES, "other"}
    assert min(found[stage] for stage in compiling.STAGES) > 0


def test_lines_for_llvm():
    kernel, rest = "define void @k() {\n  ret void\n}\n", "declare void @x()\ndefine void @f() {\n  a\n  ret void\n}\n"
    assert compiling.llvm_lines(kernel, rest) == {"good": 3, "quick": 5, "longest": 2}


def test_a_loop_of_training_steps_is_one_program():
    step, arguments = models.by_name("loop-1")(jitgrad)
    compiled = jitgrad.script(step)
    assert np.isfinite(float(compiled(*arguments)))
    assert compiled.cache_info().compilations == 1


@pytest.mark.parametrize("curve", curves.CURVES)
def test_a_curve_s_program_is_the_same_in_every_way(curve):
    make, sizes = curves.CURVES[curve]
    assert list(sizes) == sorted(set(sizes))
    found = curves.measure(make(3), rounds=1, seconds=0.0, only=curves.SYSTEMS)["us"]
    assert set(found) == {"jitgrad loss", "jitgrad eager"}


def test_a_cliff_is_told():
    flat = {size: {"jitgrad loss": 10.0 + size, "jitgrad eager": 1.0} for size in (1, 10, 100)}
    assert curves.growth(flat) == pytest.approx([2 / 11, 5.5 / 10])
    assert "| 10 | 20 | 1 | 0.18 |" in curves.table({"layers": flat})
    assert "no cliff" in curves.table({"layers": flat})
    assert ", a cliff" in curves.table({"layers": flat | {200: {"jitgrad loss": 1000.0, "jitgrad eager": 1.0}}})


def test_first_calls_are_measured_in_processes_of_their_own(tmp_path):
    name = next(p.name for p in SMALL if p.name.startswith("Newton"))
    found = first._process(name, "jitgrad", str(tmp_path))
    assert found["ms"] > 0
    assert 0 <= found["bytes"] <= found["whole"]
    text = first.table({name: {column: found for column in first.COLUMNS if column != "JAX"}})
    assert "| program | jitgrad, nothing | jitgrad, new | jitgrad, disk |" in text
    assert text.count(f"| {name} |") == 3


def test_a_peer_that_is_not_there_has_no_first_call(tmp_path):
    assert first._process("no such program", "jitgrad", str(tmp_path)) == {}


def test_one_command_measures_writes_and_draws(tmp_path, monkeypatch, capsys):
    """`make bench`: steps, first calls and memory in one document, a plot of the steps, all figures as data."""
    pytest.importorskip("matplotlib")
    name = next(p.name for p in SMALL if p.name.startswith("Newton"))
    calls = {"disk": {"ms": 3.0, "bytes": 2e6, "whole": 5e7}}
    monkeypatch.setattr(first, "measure", lambda name, runs, cache: calls)
    monkeypatch.setattr(peers, "floor", lambda program, rates: 1.0)
    files = {kind: tmp_path / f"figures.{kind}" for kind in ("md", "png", "json")}
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--only", "Newton", "--out", str(files["md"]), "--plot",
                                      str(files["png"]), "--json", str(files["json"])])
    assert bench.main() == 0
    text = files["md"].read_text()
    assert text == capsys.readouterr().out[:-1]
    assert text.count(f"| {name} |") == 4
    assert text.index("floor µs") < text.index("First call, ms") < text.index("of the whole process")
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert json.loads(files["json"].read_text())["results"]["first"] == {name: calls}


def test_a_name_that_no_program_has_is_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "no such program"])
    with pytest.raises(SystemExit, match="2"):
        bench.main()
    assert "'no such program': lecture net" in capsys.readouterr().err
