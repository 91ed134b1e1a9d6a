"""Products of the rows that a loop takes: where they leave the loop, that values stay, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.loops.ahead import products_ahead

LOOP = """graph f[T!, B!, K!, N!](%x: f32[T, B, K], %w: f32[K, N], %h: f32[B, N], %v: f32[N, K]) -> ():
  %n: int = dim.value(){dim=T}
  %y: f32[B, N] = scan(%n, %h){n_carries=1, reverse=False}:
    body(%k: int, %p: f32[B, N]):
      %s: int = dim.bind(%k){symbol=@s} binds s
      %0: f32[B, K] = select(%x){axis=0, index=s}
      %1: f32[B, N] = matmul(%0, %w)
      %2: f32[B, N] = add(%p, %1)
      %3: f32[B, N] = tanh(%2)
      yield %3
  return %y
"""


def inside(graph: Graph) -> list[str]:
    """The ops of the loop's body."""
    (loop,) = (n for n in graph.block.nodes if n.op == "scan")
    return [n.op for n in loop.blocks[0].nodes]


def given(batch_first: bool = False, rows: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x = (2, rows, 4) if batch_first else (rows, 2, 4)
    return [rng.normal(size=shape).astype(np.float32) for shape in (x, (4, 5), (2, 5), (5, 4))]


@pytest.mark.parametrize("rows", [3, 0])
@pytest.mark.parametrize("batch_first", [False, True])
def test_products_leave_the_loop(batch_first: bool, rows: int) -> None:
    text = LOOP.replace("[T, B, K]", "[B, T, K]").replace("axis=0", "axis=1") if batch_first else LOOP
    before = parse(text)
    after = dce(products_ahead(before))
    verify(after)
    assert "matmul" not in inside(after)
    assert [n.op for n in walk(after.block)].count("matmul") == 1
    arguments = given(batch_first, rows)
    np.testing.assert_allclose(interpret(after, arguments)[0], interpret(before, arguments)[0], rtol=1e-5)


@pytest.mark.parametrize("change", [
    ("dim=T", "dim=B"),                                     # other iterations than rows
    ("matmul(%0, %w)", "matmul(%p, %q)"),                   # of what the loop changes
    ("index=s", "index=0"),                                 # the same row each time: another pass's
], ids=["length", "carried", "row"])
def test_what_is_left_alone(change: tuple[str, str]) -> None:
    text = LOOP.replace(*change)
    if "%q" in text:
        text = text.replace("  %n: int", "  %q: f32[N, N] = matmul(%v, %w)\n  %n: int")
    graph = parse(text)
    assert "matmul" in inside(products_ahead(graph))


def test_without_loops_it_is_the_same_graph() -> None:
    graph = parse("graph f(%x: f32[N]) -> ():\n  %0: f32[N] = tanh(%x)\n  return %0\n")
    assert products_ahead(graph) is graph
