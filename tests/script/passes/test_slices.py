"""Pieces of pointwise results: where they are made of pieces, that every bit stays, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.slices import slices

GATES = """graph f(%w: f32[N], %x: f32[B, 2*N], %b: f32[2*N], %c: f32[B, 1]) -> ():
  %0: f32[B, 2*N] = mul(%x, %c)
  %1: f32[B, 2*N] = add(%0, %b)
  %2: f32[B, N] = slice(%1){axis=1, start=0, length=N, step=1}
  %3: f32[B, N] = slice(%1){axis=1, start=N, length=N, step=1}
  %4: f32[B, N] = tanh(%2)
  %5: f32[B, N] = mul(%4, %3)
  return %5
"""


def given() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((3,), (5, 6), (6,), (5, 1))]


def wholes(graph: Graph) -> list[str]:
    """Ops on whole rows."""
    return [n.op for n in walk(graph.block) if n.op != "slice" and "2*N" in str(n.outputs[0].type)]


def test_all_is_of_pieces() -> None:
    before = parse(GATES)
    after = dce(slices(before))
    verify(after)
    assert wholes(after) == []
    np.testing.assert_array_equal(interpret(after, given())[0], interpret(before, given())[0])


@pytest.mark.parametrize("change", [
    ("return %5", "return %5, %1"),                             # the whole is wanted too
    ("start=N, length=N", "start=1, length=N"),                 # pieces overlap
    ("axis=1, start=N, length=N, step=1", "axis=1, start=N, length=N, step=2"),
    ("mul(%4, %3)", "matmul(%4, %p)"),                          # a piece is not for what is pointwise
], ids=["returned", "overlap", "step", "product"])
def test_what_is_left_alone(change: tuple[str, str]) -> None:
    old, new = change
    text = GATES.replace(old, new)
    if "matmul" in text:
        text = text.replace("%5: f32[B, N]", "%6: f32[N, B] = permute(%3){axes=(1, 0)}\n  %5: f32[B, B]")
        text = text.replace("%p)", "%6)")
    graph = parse(text)
    assert wholes(slices(graph)) == ["mul", "add"]


def test_what_is_read_by_other_nodes() -> None:
    graph = parse("""graph f(%w: f32[N], %x: f32[B, 2*N]) -> ():
  %0: f32[B, 2*N] = tanh(%x)
  %1: f32[B, 2*N], %2: i64[B, 2*N] = sort(%0){axis=1, descending=False, stable=False}
  %3: f32[B, N] = slice(%1){axis=1, start=N, length=N, step=1}
  return %3, %2
""")
    assert wholes(slices(graph)) == wholes(graph)


def test_without_slices_it_is_the_same_graph() -> None:
    graph = parse("graph f(%x: f32[N]) -> ():\n  %0: f32[N] = tanh(%x)\n  return %0\n")
    assert slices(graph) is graph
