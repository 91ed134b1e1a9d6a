"""Tests of the tests: what is made wrong on purpose must be found."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.ops import OPS
from jitgrad.script.graph.ir import Block, Graph, Node, Value
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import InvalidGraph, verify
from tests.fuzz import beside, compare as fuzz
from tests.fuzz.world import arguments

SOURCE = """\
def f(x, y, w, b, c, n: int, s: float, flag, maybe, xs, box):
    m0 = x
    for k in range(n):
        m0 = m0.tanh() * w[0] if m0.mean() < 5.0 else m0
    return (m0 + b).sum()
"""


def wrong_tanh(F: Any, g: Any, y: Any, x: Any) -> Any:
    return (g * (1 - y),)


def compare(monkeypatch: pytest.MonkeyPatch, vjp: Any) -> str:
    """Eager as it should be against a script whose tanh has `vjp`."""
    function = fuzz.compile_source(SOURCE, "meta")
    case = next(iter(arguments(3)))
    expected = fuzz.Session(function, False).run(case)
    if vjp is not None:
        monkeypatch.setitem(OPS, "tanh", replace(OPS["tanh"], vjp=vjp))
    with config.override(interpret=True, verify=1):
        return fuzz.difference(expected, fuzz.Session(jitgrad.script(function), False).run(case))


def test_a_wrong_derivative_makes_the_comparison_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(monkeypatch, None) == ""
    assert compare(monkeypatch, wrong_tanh).startswith("gradient 0")


def test_a_wrong_value_makes_the_comparison_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    function = fuzz.compile_source(SOURCE, "meta value")
    case = next(iter(arguments(3)))
    expected = fuzz.Session(function, False).run(case)
    monkeypatch.setitem(OPS, "tanh", replace(OPS["tanh"], impl=lambda xp, x: xp.tanh(x) * 1.0001))
    with config.override(interpret=True):
        assert fuzz.difference(expected, fuzz.Session(jitgrad.script(function), False).run(case)).startswith("value: ")


def test_the_interpreter_beside_native_code_sees_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    graph = parse("graph f[N](%x: f64[N]) -> f64[N]:\n  %0: f64[N] = tanh(%x)\n  return %0\n")
    x = np.linspace(-1, 1, 3)

    def native(inputs: list[Any], on_commit: Any, *, factor: float = 1.0, fails: bool = False, prints: str = "",
               commits: bool = False, writes: bool = False) -> list[Any]:
        outputs = [np.tanh(inputs[0]) * factor]
        if fails:
            raise ValueError("no tanh")
        if commits:
            on_commit(0, 1)
        if writes:
            inputs[0][0] = 0
        print(prints, end="")
        return outputs

    assert np.array_equal(beside.beside(graph, native, 1)([x])[0], np.tanh(x))
    beside.beside(graph, partial(native, factor=2.0), 0)([x])  # what is saved for a backward may be anything
    for wrong in ({"factor": 1.001}, {"fails": True}, {"prints": "tanh"}, {"commits": True}, {"writes": True}):
        with pytest.raises(beside.Difference, match="interpreted"):
            beside.beside(graph, partial(native, **wrong), 1)([x.copy()])
    assert capsys.readouterr().out == "tanh"


def test_the_comparison_sees_every_part_of_an_outcome() -> None:
    value = np.ones(2)
    whole = fuzz.Outcome(value, [value, None], [value], "", "text")
    assert fuzz.difference(whole, whole) == ""
    for changed in (replace(whole, value=value * 1.001), replace(whole, gradients=[value, value]),
                    replace(whole, gradients=[None, None]), replace(whole, gradients=[value * 2, None]),
                    replace(whole, second=[value * 2]), replace(whole, error="ValueError: x"),
                    replace(whole, printed="txt"), replace(whole, value=np.full(2, np.nan))):
        assert fuzz.difference(whole, changed)
    rounded, other = [replace(whole, printed=f"{v:8.3f} 1.00") for v in (-1e-5, 1e-5)]
    assert fuzz.difference(rounded, other) == ""
    assert fuzz.difference(rounded, replace(whole, printed=f"{-1e-3:8.3f} 1.00"))


def test_a_bad_graph_is_refused() -> None:
    good = parse("graph f[N](%x: f64[N]) -> f64[N]:\n  %0: f64[N] = tanh(%x)\n  return %0\n")
    verify(good)
    (x,), (tanh,) = good.block.params, good.block.nodes
    bad = [
        Block(good.block.params, [], tanh.outputs, good.block.binds),  # a result that nothing defines
        Block(good.block.params, [tanh], good.block.results, ()),  # a size that nothing binds
        Block(good.block.params, [tanh, tanh], good.block.results, good.block.binds),  # defined twice
        Block(good.block.params, [Node("tanh", (x, x), {}, tanh.outputs)], good.block.results, good.block.binds),
        Block(good.block.params, [Node("no_such_op", (x,), {}, tanh.outputs)], good.block.results, good.block.binds),
        Block(good.block.params, [Node("sum", (x,), {"axes": (0,), "keepdim": False}, tanh.outputs)],
              good.block.results, good.block.binds),  # another rank
        Block(good.block.params, [Node("tanh", (Value(x.type),), {}, tanh.outputs)], good.block.results,
              good.block.binds),  # an operand from nowhere
    ]
    for block in bad:
        with pytest.raises(InvalidGraph):
            verify(Graph(block))
