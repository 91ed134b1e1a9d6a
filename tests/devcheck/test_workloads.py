"""The workloads at tiny sizes: scripted on the stand-in's GPU as eager, and as PyTorch where it is installed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.devcheck import benchmarks
from jitgrad.devcheck.workloads import WORKLOADS
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu

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


def test_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that fails is told; the others are measured, and compared with."""
    w = WORKLOADS["newton"]
    tiny = type(w)(w.make, w.tiny, w.tiny, w.floor, w.title)
    theirs = numbers(w.make(jitgrad, "cpu", lambda f: f, **w.tiny), jitgrad)

    def broken() -> Any:
        raise ValueError("no\nway")

    monkeypatch.setattr(benchmarks, "peers", lambda w, device: [("a", broken), ("b", lambda: (12.0, theirs))])
    monkeypatch.setattr(jitgrad, "cuda", SimpleNamespace(synchronize=lambda: None, empty_cache=lambda: None))
    monkeypatch.setattr(benchmarks, "SERIES", 0.0)
    found = benchmarks.row(tiny, "cpu")
    assert found["peers"] == {"b": 12.0}
    assert found["lost"] == {"a": "ValueError: no"}
    assert found["error"] < 1e-5
    assert found["us"] > 0
