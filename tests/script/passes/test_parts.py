"""Sums of disjoint slices: where they become joins, that every bit stays, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.parts import parts

CHUNKS = """graph f(%a: f32[B, N], %b: f32[B, N]) -> ():
  %z: f32[B, 2*N] = full(){value=0, shape=(B, 2*N), dtype=f32}
  %0: f32[B, 2*N] = slice_add(%z, %a){axis=1, start=N, length=N, step=1}
  %1: f32[B, 2*N] = slice_add(%0, %b){axis=1, start=0, length=N, step=1}
  return %1
"""


def ops(graph: Graph) -> list[str]:
    return [n.op for n in walk(graph.block)]


def test_disjoint_parts_are_joined() -> None:
    before = parse(CHUNKS)
    after = dce(parts(before))
    verify(after)
    assert "slice_add" not in ops(after)
    assert "cat" in ops(after)
    a, b = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    a[0, 0], b[1, 1] = -0.0, np.nan
    x, y = (np.ascontiguousarray(interpret(g, [a, b])[0]).view(np.int32) for g in (after, before))
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("change", [
    ("return %1", "return %1, %0"),                 # what is in between is wanted
    ("start=N, length=N", "start=0, length=N"),     # they overlap
    ("value=0,", "value=1,"),
    ("shape=(B, 2*N)", "shape=(B, 3*N)"),           # zeros are left
], ids=["returned", "overlap", "ones", "zeros"])
def test_what_is_left_alone(change: tuple[str, str]) -> None:
    text = CHUNKS.replace(*change)
    if "3*N" in text:
        text = text.replace("2*N", "3*N")
    assert "cat" not in ops(parts(parse(text)))


def test_without_slices_it_is_the_same_graph() -> None:
    graph = parse("graph f(%x: f32[N]) -> ():\n  %0: f32[N] = tanh(%x)\n  return %0\n")
    assert parts(graph) is graph
