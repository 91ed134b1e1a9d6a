"""Parts that are added to zeros: what is joined, and what overlaps or leaves gaps."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.joined import joined


def added(starts: tuple[str, str], value: float = 0.0) -> Graph:
    return parse(f"""graph f(%a: f32[N, K], %b: f32[N, 3]) -> ():
  %t: f32[N, 3 + K] = full(){{value={value}, shape=(N, 3 + K), dtype=f32}}
  %x: f32[N, 3 + K] = slice_add(%t, %b){{axis=1, start={starts[1]}, length=3, step=1}}
  %y: f32[N, 3 + K] = slice_add(%x, %a){{axis=1, start={starts[0]}, length=K, step=1}}
  return %y
""")


@pytest.mark.parametrize(("starts", "value", "whole"), [
    (("0", "K"), 0.0, True), (("3", "0"), 0.0, True), (("1", "0"), 0.0, False), (("0", "K"), 1.0, False)])
def test_parts(starts: tuple[str, str], value: float, whole: bool) -> None:
    graph = added(starts, value)
    made = dce(joined(graph))
    verify(made)
    assert ("cat" in [n.op for n in walk(made.block)]) is whole
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(2, n)).astype(np.float32) for n in (4, 3)]
    np.testing.assert_array_equal(interpret(made, inputs)[0], interpret(graph, inputs)[0])
