"""What an exception stores: which places that raise say what, and that the values are still there."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.codegen.lower.deferred_stores import attach, own
from jitgrad.codegen.run.compile import compile
from jitgrad.script.graph.effects import take
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import InvalidGraph, verify
from jitgrad.script.passes.dce import dce

#: a value that an op makes, an input that is written afterwards, one more in a branch, and a loop
GRAPH = """graph f[n!](%x: f32[n], %k: int, %c: bool) -> f32[n]:
  %0: f32[n] = exp(%x)
  %1: int = num.const(){value=0}
  %2: bool = num.ne(%k, %1)
  pending(%0, %x){recipe=0, carried=(0,), hosted=(), more=False}
  check(%2){error=$ValueError, template=('first',)}
  %3: f32[n] = mul(%0, %0)
  commit(%3){target=0}
  %4: int = num.floordiv(%k, %k){checked=True}
  if(%c):
    then:
      %5: f32[n] = neg(%3)
      pending(%5){recipe=1, carried=(), hosted=(), more=True}
      %6: int = num.const(){value=2}
      %7: bool = num.ne(%k, %6)
      check(%7){error=$ValueError, template=('second',)}
      yield
    else:
      yield
  %8: list<int> = list.new(){type=list<int>}
  %9: list<int> = scan(%k, %8){n_carries=1, reverse=False}:
    body(%i: int, %p: list<int>):
      %10: int = list.len(%p)
      %11: list<int> = list.put(%p, %10, %i)
      %12: int = num.const(){value=1}
      %13: bool = num.le(%i, %12)
      pending(%p){recipe=2, carried=(), hosted=(), more=False}
      check(%13){error=$ValueError, template=('third',)}
      yield %11
  %14: int = list.len(%9)
  %15: bool = num.ne(%k, %14)
  pending(){recipe=3, carried=(), hosted=(), more=False}
  check(%15){error=$ValueError, template=('fourth',)}
  return %0
"""


def graph() -> Graph:
    made = parse(GRAPH)
    verify(made)
    return made


def test_operands_are_what_may_be_overwritten():
    raising = [n for n in walk(attach(graph()).block) if own(n) is not n]
    names = [[v.name for v in n.inputs[len(own(n).inputs):]] for n in raising]
    assert names == [["x"], ["x"], ["x"], ["p"], []]


@pytest.mark.parametrize(("k", "c", "recipes"), [(0, False, [0]), (2, True, [0, 1]), (4, False, [2]), (2, False, [3]),
                                                 (1, True, [3])])
def test_what_the_exception_knows(k, c, recipes):
    found = []
    for run in (interpret, lambda g, inputs: compile({"f": g})["f"](inputs)):
        with pytest.raises(ValueError, match=r"first|second|third|fourth") as error:
            run(graph(), [np.array([1.0, 2.0], np.float32), k, c])
        pending = take(error.value)
        assert pending is not None
        assert take(error.value) is None
        found.append([(p.recipe, tuple(p.carried), [np.asarray(v).tolist() for v in p.values])
                      for p in pending.chain()])
    assert [p[0] for p in found[0]] == recipes
    for a, b in zip(*found, strict=True):
        assert a[:2] == b[:2]
        for x, y in zip(a[2], b[2], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6)


def test_nothing_is_pending_where_nothing_raises():
    text = GRAPH.replace("  check(%15){error=$ValueError, template=('fourth',)}\n", "")
    assert [n.attrs["recipe"] for n in walk(dce(parse(text)).block) if n.op == "pending"] == [0, 1, 2]


@pytest.mark.parametrize(("old", "new"), [("carried=(0,)", "carried=(2,)"), ("hosted=()", "hosted=(7,)"),
                                          ("recipe=1", "recipe=-1")])
def test_verify(old, new):
    with pytest.raises(InvalidGraph, match=r"carried|hosted|recipe"):
        verify(parse(GRAPH.replace(old, new)))
