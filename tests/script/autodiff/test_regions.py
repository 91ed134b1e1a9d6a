"""Stretches that the backward computes again: gradients as without, and what is saved."""

import numpy as np
import pytest

from jitgrad.script.autodiff import differentiate
from jitgrad.script.autodiff.regions import BEGIN, END, REGION, flatten, fold, unmark
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Block, Graph, Node, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.text import equal, to_text
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes import pipeline
from tests.script.gradients import check, cotangents_for, gradients
from tests.script.graphs import random_graph

CHAIN = """graph f(%x: f64[3]) -> f64[3]:
  region.begin(){number=1}
  %a: f64[3] = sin(%x)
  %b: f64[3] = exp(%a)
  %y: f64[3] = sin(%b)
  region.end(){number=1}
  %z: f64[3] = mul(%y, %y)
  return %z"""


def names(values):
    return [v.name for v in values]


def test_only_what_goes_in_and_what_comes_out_is_saved():
    graph = parse(CHAIN)
    assert sorted(names(differentiate(graph, (0,), (0,)).residuals)) == ["x", "y"]
    assert sorted(names(differentiate(unmark(graph), (0,), (0,)).residuals)) == ["b", "x", "y"]
    check(graph, [np.array([0.1, -0.4, 2.0])], (0,), order=2)


def test_fold_and_back():
    graph = parse(CHAIN)
    folded = fold(graph)
    assert [n.op for n in folded.block.nodes] == [REGION, "mul"]
    again = flatten(folded)
    verify(again)
    assert equal(again, unmark(graph))
    assert equal(parse(to_text(graph)), graph)
    assert fold(unmark(graph)) is not graph
    assert not any(n.op in (BEGIN, END) for n in walk(pipeline.run(graph).block))


def test_prints_and_checks_are_not_repeated(capsys):
    graph = parse("""graph f(%x: f64[3]) -> f64[3]:
  region.begin(){number=1}
  %a: f64[3] = sin(%x)
  print(){template=("once\\n",)}
  %y: f64[3] = exp(%a)
  region.end(){number=1}
  return %y""")
    d = differentiate(graph, (0,), (0,))
    x = np.array([0.1, -0.4, 2.0])
    _, *residuals = interpret(d.forward, [x])
    gradient = interpret(d.backward((True,)), [*residuals, np.ones(3)])[0]
    np.testing.assert_allclose(gradient, np.exp(np.sin(x)) * np.cos(x))
    assert capsys.readouterr().out == "once\n"


def test_a_region_with_a_loop_saves_no_iteration():
    graph = parse("""graph f(%x: f64[3], %n: int) -> f64[3]:
  region.begin(){number=1}
  %h: f64[3] = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f64[3]):
      %0: f64[3] = sin(%p)
      %1: f64[3] = mul(%0, %x)
      yield %1
  region.end(){number=1}
  return %h""")
    assert sorted(names(differentiate(graph, (0,), (0,)).residuals)) == ["n", "x"]
    check(graph, [np.array([0.1, -0.4, 2.0]), 4], (0,), order=2)


def test_a_size_that_is_used_later_keeps_the_region_open():
    graph = parse("""graph f(%x: f64[3], %n: int) -> f64[@m]:
  region.begin(){number=1}
  %k: int = dim.bind(%n){symbol=@m} binds m
  %a: f64[m] = slice(%x){axis=0, start=0, length=m, step=1}
  region.end(){number=1}
  %y: f64[m] = exp(%a)
  return %y""".replace("-> f64[@m]", "-> f64[m]"))
    assert [n.op for n in fold(graph).block.nodes] == ["dim.bind", "slice", "exp"]


def marked(block, rng):
    """Marks around a random stretch of every block."""
    nodes = [Node(n.op, n.inputs, n.attrs, n.outputs, tuple(marked(b, rng) for b in n.blocks), n.span, n.binds)
             for n in block.nodes]
    if len(nodes) > 1:
        first, last = sorted(rng.choice(len(nodes) + 1, 2, replace=False))
        number = {"number": int(rng.integers(1 << 30))}
        nodes = [*nodes[:first], Node(BEGIN, (), number, ()), *nodes[first:last], Node(END, (), number, ()),
                 *nodes[last:]]
    return Block(block.params, nodes, block.results, block.binds)


@pytest.mark.parametrize("seed", range(30))
def test_random_regions_of_random_programs(seed):
    """Regions in loops in regions: same gradients, for all and for some cotangents, before and after passes."""
    case = random_graph(seed, size=4, depth=2)
    rng = np.random.default_rng(seed)
    cotangents = cotangents_for(case.graph, case.inputs, case.outputs)
    some = [c if rng.random() < 0.6 else None for c in cotangents]
    graph = Graph(marked(case.graph.block, rng))
    verify(graph)
    for given in (cotangents, some):
        expected = gradients(case.graph, case.inputs, case.floats, case.outputs, given)
        for program in (graph, pipeline.prepare(graph)):
            found = gradients(program, case.inputs, case.floats, case.outputs, given)
            for (a, reached), (b, also) in zip(expected, found, strict=True):
                assert reached == also
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
