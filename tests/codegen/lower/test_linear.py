"""Copies of lists: none where the old value dies, one where it is read again or is not the block's to give."""

from __future__ import annotations

import pytest

from jitgrad.codegen.lower.linear import linearize
from jitgrad.codegen.run.compile import compile
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify

APPENDED = """graph f(%n: int) -> list<int>:
  %0: list<int> = list.new(){type=list<int>}
  %1: list<int> = scan(%n, %0){n_carries=1, reverse=False}:
    body(%k: int, %p: list<int>):
      %m: int = list.len(%p)
      %q: list<int> = list.put(%p, %m, %k)
      yield %q
  return %1
"""

READ_AGAIN = """graph f(%n: int) -> (list<int>, list<int>, int):
  %0: list<int> = list.new(){type=list<int>}
  %z: int = num.const(){value=0}
  %1: list<int> = list.put(%0, %z, %n)
  %2: list<int> = list.take(%1, %z)
  %3: list<int> = list.put(%1, %z, %z)
  %4: int = list.len(%1)
  %5: list<int> = list.put(%2, %z, %4)
  return %3, %5, %4
"""

IN_A_BRANCH = """graph f(%c: bool, %n: int) -> list<int>:
  %0: list<int> = list.new(){type=list<int>}
  %z: int = num.const(){value=0}
  %1: list<int> = list.put(%0, %z, %n)
  %2: list<int> = if(%c):
    then:
      %3: list<int> = list.put(%1, %z, %z)
      yield %3
    else:
      yield %1
  return %2
"""

FROM_OUTSIDE = """graph f(%n: int) -> (list<int>, int):
  %0: list<int> = list.new(){type=list<int>}
  %z: int = num.const(){value=0}
  %1: list<int> = list.put(%0, %z, %n)
  %2: int = scan(%n, %z){n_carries=1, reverse=False}:
    body(%k: int, %p: int):
      %3: list<int> = list.put(%1, %z, %k)
      %4: int = list.get(%3, %z)
      %5: int = num.add(%p, %4)
      yield %5
  return %1, %2
"""

SPARSE = """graph f[N](%x: f32[N], %n: int) -> list<optional<f32[N]>>:
  %0: list<optional<f32[N]>> = list.new(){type=list<optional<f32[N]>>}
  %s: optional<f32[N]> = opt.some(%x)
  %1: list<optional<f32[N]>> = list.put(%0, %n, %s)
  return %1
"""


@pytest.mark.parametrize(("text", "copies", "args"), [
    (APPENDED, 0, (40,)), (READ_AGAIN, 2, (3,)), (IN_A_BRANCH, 0, (True, 4)), (IN_A_BRANCH, 0, (False, 4)),
    (FROM_OUTSIDE, 1, (3,)), (FROM_OUTSIDE, 1, (0,)),
], ids=lambda v: v if not isinstance(v, str) else "")
def test_copies(text, copies, args):
    graph = verify(parse(text))
    linear = verify(linearize(graph))
    assert sum(n.op == "list.copy" for n in walk(linear.block)) == copies
    found = compile({"forward": graph})["forward"](list(args))
    expected = interpret(graph, list(args))
    assert [v if isinstance(v, int) else v.to_list() for v in found] == expected
    assert interpret(linear, list(args)) == expected


def test_a_sparse_list_grows_as_far_as_it_must():
    import numpy as np

    graph = verify(parse(SPARSE))
    for n in (0, 3, 100):
        (found,) = compile({"forward": graph})["forward"]([np.ones(2, np.float32), n])
        assert [v is None for v in found.to_list()] == [True] * n + [False]


def test_no_lists_no_change():
    graph = parse("graph f(%x: f32[3]) -> f32[3]:\n  %0: f32[3] = tanh(%x)\n  return %0\n")
    assert linearize(graph) is graph
