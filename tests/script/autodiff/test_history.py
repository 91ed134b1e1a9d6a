"""Whether a value requires a gradient: what the graph decides, and the bools that it gains elsewhere."""

import pytest

from jitgrad.script.autodiff.history import requires_grad
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Block, Graph, Value
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify

BRANCH = """
graph f(%c: bool, %w: f32[3], %x: f32[3]) -> f32[3]:
  %y: f32[3] = if(%c):
    then:
      %a: f32[3] = mul(%w, %x)
      yield %a
    else:
      yield %x
  %z: f32[3] = exp(%y)
  return %z
"""
LOOP = """
graph f(%n: int, %w: f32[3], %x: f32[3]) -> f32[3]:
  %y: f32[3] = scan(%n, %x) {n_carries=1, reverse=False}:
    body(%k: int, %p: f32[3]):
      %q: f32[3] = mul(%p, %w)
      yield %q
  return %y
"""
LIST = """
graph f(%n: int, %w: f32[3], %x: f32[3]) -> list<f32[3]>:
  %l0: list<f32[3]> = list.new() {type=list<f32[3]>}
  %one: int = num.const() {value=1}
  %l: list<f32[3]> = scan(%n, %l0) {n_carries=1, reverse=False}:
    body(%k: int, %p: list<f32[3]>):
      %c: bool = num.eq(%k, %one)
      %item: f32[3] = if(%c):
        then:
          %a: f32[3] = mul(%w, %x)
          yield %a
        else:
          yield %x
      %q: list<f32[3]> = list.put(%p, %k, %item)
      yield %q
  return %l
"""


def asked(text: str, roots: tuple[str, ...]) -> tuple[Graph, object]:
    graph = parse(text)
    named = {v.name: v for v in graph.inputs}
    wanted = {named[r] for r in roots}
    (answer,) = requires_grad([graph.block], list(graph.outputs), lambda v: v in wanted)
    if isinstance(answer, Value):
        block = graph.block
        graph = Graph(Block(block.params, block.nodes, (*block.results, answer), block.binds), graph.name)
        verify(graph)
    return graph, answer


@pytest.mark.parametrize(("text", "roots", "expected"), [
    (BRANCH, (), False), (BRANCH, ("x",), True), (BRANCH, ("w", "x"), True), (LOOP, (), False), (LOOP, ("x",), True)])
def test_the_graph_decides(text, roots, expected):
    assert asked(text, roots)[1] is expected


@pytest.mark.parametrize(("text", "cases"), [(BRANCH, [(True, True), (False, False)]),
                                             (LOOP, [(0, False), (1, True), (3, True)])])
def test_the_run_decides(text, cases):
    import numpy as np

    graph, answer = asked(text, ("w",))
    assert isinstance(answer, Value)
    for first, expected in cases:
        ones = np.ones(3, dtype=np.float32)
        assert interpret(graph, [first, ones, ones])[-1] is expected


def test_the_items_of_a_list():
    import numpy as np

    graph, answer = asked(LIST, ("w",))
    assert isinstance(answer, Value)
    for n in (0, 1, 3):
        ones = np.ones(3, dtype=np.float32)
        assert interpret(graph, [n, ones, ones])[-1] == [False, True, False][:n]
    assert asked(LIST, ("w", "x"))[1] is True
    assert asked(LIST, ())[1] is False
