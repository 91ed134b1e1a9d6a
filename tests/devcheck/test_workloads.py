"""The workloads at tiny sizes: scripted on the stand-in's GPU as eager, and as PyTorch where it is installed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tools.devcheck import benchmarks, jaxpeers
from tools.devcheck.checks import Lost
from tools.devcheck.workloads import WORKLOADS

#: what draws its own numbers
RANDOM = {"bias_gelu_dropout"}


def numbers(run: Any, module: Any) -> np.ndarray[Any, Any]:
    for _ in range(2):
        jitgrad.manual_seed(5)
        found = run()
    return benchmarks.numbers(module, found)


@host.needs_compiler
@pytest.mark.parametrize("name", WORKLOADS)
def test_scripted_as_eager(name: str) -> None:
    w = WORKLOADS[name]
    with gpu():
        mine = numbers(w.make(jitgrad, "cuda", jitgrad.script, **w.tiny), jitgrad)
        eager = numbers(w.make(jitgrad, "cuda", lambda f: f, **w.tiny), jitgrad)
    np.testing.assert_allclose(mine, eager, rtol=3e-2, atol=3e-2 * np.abs(eager).max())
    assert np.abs(eager).max() > 0


@pytest.mark.parametrize("name", sorted(WORKLOADS.keys() - RANDOM))
def test_as_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    w = WORKLOADS[name]
    mine = numbers(w.make(jitgrad, "cpu", lambda f: f, **w.tiny), jitgrad)
    theirs = numbers(w.make(torch, "cpu", lambda f: f, **w.tiny), torch)
    np.testing.assert_allclose(mine, theirs, rtol=3e-2, atol=3e-2 * np.abs(theirs).max())


def test_floors_are_those_of_the_design() -> None:
    """Microseconds, of the sizes that are measured."""
    floors = {name: 1e6 * w.floor(**w.sizes) for name, w in WORKLOADS.items()}
    assert floors["layer_norm"] == pytest.approx(156, rel=0.01)
    assert floors["cross_entropy"] == pytest.approx(575, rel=0.01)
    assert floors["bias_gelu_dropout"] == pytest.approx(187, rel=0.01)
    assert floors["adam"] == pytest.approx(651, rel=0.01)
    assert floors["mlp_step"] == pytest.approx(12)


@pytest.mark.parametrize("name", WORKLOADS)
def test_as_jax(name: str) -> None:
    """JAX computes what we do, in the first step and the next."""
    pytest.importorskip("jax")
    w = WORKLOADS[name]
    mine, theirs = w.make(jitgrad, "cpu", lambda f: f, **w.tiny), jaxpeers.PEERS[name](jaxpeers.load(), **w.tiny)
    for _ in range(2):
        expected = benchmarks.numbers(jitgrad, mine())
        found = np.asarray(theirs().astype(np.float32))
        np.testing.assert_allclose(found, expected, rtol=3e-2, atol=3e-2 * np.abs(expected).max())


def tiny(name: str) -> Any:
    w = WORKLOADS[name]
    return type(w)(w.make, w.tiny, w.tiny, w.floor, w.title)


def test_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known at any time is told; a peer that fails too; the others are measured, and compared with."""
    w = tiny("newton")
    theirs = numbers(w.make(jitgrad, "cpu", lambda f: f, **w.tiny), jitgrad)

    def broken() -> Any:
        raise ValueError("no\nway")

    monkeypatch.setattr(benchmarks, "peers", lambda w, device: [("a", broken), ("b", lambda: (12.0, theirs))])
    monkeypatch.setattr(benchmarks, "SERIES", 0.0)
    rows = benchmarks.row(w, "cpu")
    found = next(rows)
    assert found["us"] > 0
    assert (found["peers"], found["error"], found["lost"]) == ({}, None, {})
    *_, found = rows
    assert found["peers"] == {"b": 12.0}
    assert found["lost"] == {"a": "ValueError: no"}
    assert found["error"] < 1e-5


@pytest.mark.parametrize("name", ["mlp_step", "layer_norm"])
def test_peers(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Every way to measure, on the CPU; PyTorch's compiler stands aside."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    monkeypatch.setattr(benchmarks, "SERIES", 0.0)
    modes = []
    monkeypatch.setattr(torch, "compile", lambda f, mode: (modes.append(mode), f)[1])
    *_, found = benchmarks.row(tiny(name), "cpu")
    assert list(found["peers"]) == ["torch eager", "JAX", "torch.compile", "torch.compile reduce-overhead",
                                    "torch.compile max-autotune"]
    assert modes == [None, "reduce-overhead", "max-autotune"]
    assert found["lost"] == {}
    assert found["error"] < 1e-2


def test_jax_without_a_gpu_is_lost() -> None:
    pytest.importorskip("jax")
    with pytest.raises(Lost, match="without CUDA"):
        benchmarks.jax_peer(tiny("newton"), "cuda")


@host.needs_compiler
@pytest.mark.parametrize("name", ["newton", "mlp_step"])
def test_a_benchmark_on_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The check itself, on the stand-in; there are no peers."""
    monkeypatch.setattr(benchmarks, "SERIES", 0.0)
    monkeypatch.setattr(benchmarks, "peers", lambda w, device: [])
    with gpu():
        facts = benchmarks.benchmark(tiny(name), name)()
    assert facts["rows"][0]["us"] > 0
    assert json.loads(capsys.readouterr().out.removeprefix("PART ")) == facts
