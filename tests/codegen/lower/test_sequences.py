"""Sequences and Optionals natively: elements of one size in a block, others each with its own, what is absent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad.codegen.program.sequences import SeqHandle, from_list
from jitgrad.codegen.run.compile import compile
from jitgrad.script.graph.parse import parse
from tests.codegen.programs import agree

RAGGED = """graph f(%x: f32[N], %n: int) -> (seq<f32[E]>, f32[M], int):
  %h: f32[M], %ys: seq<f32[E]> = scan(%n, %x){n_carries=1, reverse=False} binds M:
    body[P](%k: int, %p: f32[P]):
      %q: f32[2*P] = cat(%p, %p){axis=0}
      yield %q, %p
  %l: int = seq.len(%ys)
  return %ys, %h, %l"""

SPARSE = """graph f(%x: f32[2], %n: int) -> seq<optional<f32[2]>>:
  %h: f32[2], %ys: seq<optional<f32[2]>> = scan(%n, %x){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[2]):
      %two: int = num.const(){value=2}
      %m: int = num.mod(%k, %two)
      %z: int = num.const(){value=0}
      %c: bool = num.eq(%m, %z)
      %q: f32[2] = add(%p, %x)
      %o: optional<f32[2]> = if(%c):
        then:
          %s: optional<f32[2]> = opt.some(%q)
          yield %s
        else:
          %u: optional<f32[2]> = opt.none(){type=f32[2]}
          yield %u
      yield %q, %o
  return %ys"""

READ = """graph f(%xs: seq<f32[E]>, %k: int) -> (f32[G], int):
  %e: f32[G] = seq.get(%xs, %k) binds G
  %l: int = seq.len(%xs)
  return %e, %l"""

OPTIONAL = """graph f(%o: optional<f32[2]>, %x: f32[2]) -> (f32[2], bool):
  %h: bool = opt.has(%o)
  %r: f32[2] = if(%h):
    then:
      %g: f32[2] = opt.get(%o)
      yield %g
    else:
      yield %x
  return %r, %h"""

X = np.array([1.5, -2.0], np.float32)


@pytest.mark.parametrize("text", [RAGGED, SPARSE], ids=["ragged", "sparse"])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_native_is_what_the_interpreter_gives(text: str, n: int) -> None:
    agree(parse(text), [X, n])


@pytest.mark.parametrize("given", [None, X * 3])
def test_what_may_be_absent(given: Any) -> None:
    result, there = agree(parse(OPTIONAL), [X, X], passes=False)["f"]([given, X.copy()])
    np.testing.assert_array_equal(result, X if given is None else given)
    assert there is (given is not None)


def test_a_result_is_read_by_another_program() -> None:
    made: SeqHandle = agree(parse(RAGGED), [X, 3])["f"]([X.copy(), 3])[0]
    assert [a.shape for a in made.to_list()] == [(2,), (4,), (8,)]
    reader = compile({"f": parse(READ)})["f"]
    for k, element in enumerate(made.to_list()):
        found, length = reader([made, k])
        np.testing.assert_array_equal(found, element)
        assert length == 3


@pytest.mark.parametrize(("values", "kind"), [
    ([1, 2, -3], ("seq", "int")),
    ([0.5, -1.0], ("seq", "float")),
    ([1, 2.5, True], ("seq", "number")),
    ([], ("seq", "int")),
    ([[1], [], [2, 3]], ("seq", ("seq", "int"))),
    ([1.0, None, 2.0], ("seq", ("optional", "float"))),
])
def test_python_values_go_to_native_form_and_back(values: list[Any], kind: Any) -> None:
    handle = from_list(values, kind)
    assert len(handle) == len(values)
    assert handle.to_list() == values
    assert [type(v) for v in handle.to_list()] == [type(v) for v in values]
