"""Gradients through sequences of sequences and Optionals of Optionals, against finite differences; native; again."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.codegen.run.compile import compile
from jitgrad.script.autodiff import gradient_function
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes import pipeline

NESTED = """graph f(%x: f64[3], %n: int, %i: int, %j: int) -> f64[3]:
  %0: seq<seq<f64[3]>> = scan(%n){n_carries=0, reverse=False}:
    body(%k: int):
      %1: f64[] = fill(%k){shape=(), dtype=f64}
      %2: f64[3] = mul(%x, %1)
      %3: seq<f64[3]> = scan(%n){n_carries=0, reverse=False}:
        body(%m: int):
          %4: f64[] = fill(%m){shape=(), dtype=f64}
          %5: f64[3] = mul(%2, %4)
          %6: f64[3] = mul(%5, %x)
          yield %6
      yield %3
  %7: seq<f64[3]> = seq.get(%0, %i)
  %8: f64[3] = seq.get(%7, %j)
  %9: f64[3] = mul(%8, %8)
  return %9
"""
OPT = """graph f(%x: f64[3], %c: bool) -> f64[3]:
  %0: optional<f64[3]> = if(%c):
    then:
      %1: f64[3] = mul(%x, %x)
      %2: optional<f64[3]> = opt.some(%1)
      yield %2
    else:
      %3: optional<f64[3]> = opt.none(){type=f64[3]}
      yield %3
  %4: optional<optional<f64[3]>> = opt.some(%0)
  %5: optional<f64[3]> = opt.get(%4)
  %6: bool = opt.has(%5)
  %7: f64[3] = if(%6):
    then:
      %8: f64[3] = opt.get(%5){known=True}
      yield %8
    else:
      yield %x
  return %7
"""


@pytest.mark.parametrize(("text", "args"), [(NESTED, (4, 2, 3)), (OPT, (True,)), (OPT, (False,))],
                         ids=["sequences", "present", "absent"])
def test_gradient(text, args):
    graph = verify(parse(text))
    x, w = np.array([0.3, -1.2, 2.0]), np.array([1.0, 2.0, 3.0])
    first = verify(gradient_function(graph, (0,), (0,), (True,)))
    second = verify(gradient_function(pipeline.prepare(first), (0,), (0,), (True,)))

    def numeric(f):
        return [(w @ f(x + h) - w @ f(x - h)) / 2e-6 for h in 1e-6 * np.eye(3)]

    expected = numeric(lambda at: interpret(graph, [at, *args])[0])
    expected_again = numeric(lambda at: interpret(first, [at, *args, w])[0])
    assert np.allclose(interpret(first, [x, *args, w])[0], expected, rtol=1e-6)
    assert np.allclose(interpret(second, [x, *args, w, w])[0], expected_again, rtol=1e-6)
    native = compile({"first": pipeline.run(first), "second": pipeline.run(second)})
    assert np.allclose(native["first"]([x, *args, w])[0], expected, rtol=1e-6)
    assert np.allclose(native["second"]([x, *args, w, w])[0], expected_again, rtol=1e-6)
