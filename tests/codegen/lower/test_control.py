"""Branches and loops as steps: variables that joins set, sizes that change from one iteration to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.step import every
from jitgrad.codegen.program.steps import KernelStep, LoopStep
from jitgrad.script.graph.parse import parse
from tests.codegen.programs import agree

SWAP = """graph f(%x: f32[N], %y: f32[N], %n: int) -> (f32[N], f32[N]):
  %a: f32[N], %b: f32[N] = scan(%n, %x, %y){n_carries=2, reverse=False}:
    body(%k: int, %p: f32[N], %q: f32[N]):
      yield %q, %p
  return %a, %b"""

GROWS = """graph f(%x: f32[N], %n: int) -> f32[M]:
  %h: f32[M] = scan(%n, %x){n_carries=1, reverse=False} binds M:
    body[P](%k: int, %p: f32[P]):
      %q: f32[2*P] = cat(%p, %p){axis=0}
      yield %q
  return %h"""

REVERSED = """graph f(%x: f32[2], %n: int) -> (f32[2], seq<f32[2]>):
  %h: f32[2], %ys: seq<f32[2]> = scan(%n, %x){n_carries=1, reverse=True}:
    body(%k: int, %p: f32[2]):
      %s: f32[] = fill(%k){shape=(), dtype=float32}
      %q: f32[2] = add(%p, %s)
      yield %q, %q
  return %h, %ys"""

WHILE = """graph f(%x: f32[2], %n: int) -> (int, f32[2], seq<int>):
  %z: int = num.const(){value=0}
  %c: bool = num.lt(%z, %n)
  %t: int, %i: int, %h: f32[2], %ys: seq<int> = while(%c, %z, %x):
    body(%k: int, %p: f32[2]):
      %one: int = num.const(){value=1}
      %j: int = num.add(%k, %one)
      %q: f32[2] = mul(%p, %p)
      %d: bool = num.lt(%j, %n)
      yield %d, %j, %q, %k
  return %t, %h, %ys"""

BRANCHES = """graph f(%x: f32[N], %y: f32[N], %c: bool, %d: bool) -> (f32[N], f32[N]):
  %a: f32[N], %b: f32[N] = if(%c):
    then:
      %e: f32[N] = if(%d):
        then:
          %s: f32[N] = exp(%x)
          yield %s
        else:
          yield %y
      yield %e, %x
    else:
      yield %y, %y
  return %a, %b"""

#: what each iteration finds is collected, and collected again after another loop, whose carry is what it reads
COLLECTED = """graph f(%x: f32[2], %y: f32[2], %n: int) -> (f32[2], f32[2], seq<f32[2]>, f32[2]):
  %h: f32[2], %hs: seq<f32[2]> = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[2]):
      %q: f32[2] = mul(%p, %y)
      yield %q, %p
  %g: f32[2], %last: f32[2] = scan(%n, %y, %h, %hs){n_carries=2, reverse=True}:
    body(%l: int, %u: f32[2], %after: f32[2], %e: f32[2]):
      %d: f32[2] = sub(%after, %e)
      %v: f32[2] = add(%u, %d)
      yield %v, %e
  return %h, %g, %hs, %last"""

#: the same in a loop, whose carry goes on with what is behind the inner sequence
AGAIN = """graph f(%x: f32[2], %n: int, %m: int) -> (f32[2], f32[2]):
  %h: f32[2], %s: f32[2] = scan(%n, %x, %x){n_carries=2, reverse=False}:
    body(%k: int, %p: f32[2], %t: f32[2]):
      %i: f32[2], %is: seq<f32[2]> = scan(%m, %p){n_carries=1, reverse=False}:
        body(%l: int, %a: f32[2]):
          %b: f32[2] = exp(%a)
          %c: f32[2] = sin(%b)
          yield %c, %a
      %w: f32[2], %r: f32[2] = scan(%m, %t, %p, %is){n_carries=2, reverse=False}:
        body(%q: int, %u: f32[2], %o: f32[2], %e: f32[2]):
          %z: f32[2] = mul(%e, %o)
          %v: f32[2] = add(%u, %z)
          yield %v, %e
      %j: f32[2] = add(%i, %r)
      yield %j, %w
  return %h, %s"""

X, Y = np.array([1.5, -2.0], np.float32), np.array([0.5, 3.0], np.float32)


@pytest.mark.parametrize(("text", "inputs"), [
    (SWAP, [[X, Y, 0], [X, Y, 1], [X, Y, 2], [X, Y, 5]]),
    (GROWS, [[X, 0], [X, 1], [X, 4]]),
    (REVERSED, [[X, 0], [X, 3]]),
    (WHILE, [[X, 0], [X, 1], [X, 3]]),
    (BRANCHES, [[X, Y, c, d] for c in (True, False) for d in (True, False)]),
    (COLLECTED, [[X, Y, n] for n in (3, 0, 1, 4)]),
    (AGAIN, [[X, n, m] for n in (0, 1, 3) for m in (0, 1, 2)]),
], ids=["swap", "grows", "reversed", "while", "branches", "collected", "again"])
@pytest.mark.parametrize("passes", [True, False])
def test_native_is_what_the_interpreter_gives(text: str, inputs: list[list[Any]], passes: bool) -> None:
    for given in inputs:
        agree(parse(text), given, passes=passes)


def test_carries_are_exchanged_not_overwritten() -> None:
    compiled = agree(parse(SWAP), [X, Y, 3])
    a, b = compiled["f"]([X.copy(), Y.copy(), 3])
    np.testing.assert_array_equal(a, Y)
    np.testing.assert_array_equal(b, X)


def test_what_an_iteration_finds_is_collected_where_it_was_made() -> None:
    """Nothing is copied but what the loop begins with: not into the sequence, and not out of it into the other loop."""
    loops = [s for s in lower("f", parse(COLLECTED)).steps if isinstance(s, LoopStep)]
    kernels = [s.kernel.name for loop in loops for s in every(loop.body) if isinstance(s, KernelStep)]
    assert len(loops) == 2
    assert "copy" not in kernels
