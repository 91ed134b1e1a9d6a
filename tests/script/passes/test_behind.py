"""Products that a loop adds up, computed behind it: the same values, and what stays in the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.loops.behind import products_behind

SUM = """graph f[T, R, M, N](%x: f32[T, R, M], %w: f32[R, N], %start: f32[M, N]) -> (f32[M, N], f32[R, N]):
  %n: int = dim.value(){dim=T}
  %total: f32[M, N], %last: f32[R, N] = scan(%n, %start, %w){n_carries=2, reverse=False}:
    body(%k: int, %p: f32[M, N], %u: f32[R, N]):
      %s: int = dim.bind(%k){symbol=@s} binds s
      %a: f32[R, M] = select(%x){axis=0, index=s}
      %b: f32[R, N] = mul(%u, %w)
      %0: f32[M, R] = permute(%a){axes=(1, 0)}
      %1: f32[M, N] = matmul(%0, %b)
      %2: f32[M, N] = add(%p, %1)
      yield %2, %b
  return %total, %last
"""


def inside(graph: Graph) -> int:
    """Products in loops."""
    return sum(n.op == "matmul" for loop in walk(graph.block) if loop.op == "scan" for n in walk(loop.blocks[0]))


def given(t: int = 4, r: int = 2, m: int = 3, n: int = 5) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(np.float32) for s in ((t, r, m), (r, n), (m, n))]


def same(before: Graph, after: Graph, arrays: list[np.ndarray[Any, Any]]) -> None:
    for a, b in zip(interpret(after, arrays), interpret(before, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("trips", [0, 2, 7])
@pytest.mark.parametrize("change", [
    ("", ""), ("reverse=False", "reverse=True"), ("add(%p, %1)", "add(%1, %p)"),
    ("%a: f32[R, M] = select(%x){axis=0, index=s}", "%c: f32[R, M] = select(%x){axis=0, index=s}\n"
     "      %a: f32[R, M] = mul(%c, %c)"),
    ("%s: int = dim.bind(%k){symbol=@s} binds s\n      %a: f32[R, M] = select(%x){axis=0, index=s}",
     "%a: f32[R, M] = select(%x){axis=0, index=0}")])
def test_the_product_is_behind_the_loop(trips: int, change: tuple[str, str]) -> None:
    if trips == 0 and "index=0" in change[1]:
        pytest.skip("there is no row 0")
    before = parse(SUM.replace(*change) if change[0] else SUM)
    after = dce(products_behind(before))
    verify(after)
    assert (inside(before), inside(after)) == (1, 0)
    same(before, after, given(trips))


def test_a_row_is_kept_where_it_is() -> None:
    after = dce(products_behind(parse(SUM)))
    assert sum(n.op == "select_scatter" for n in walk(after.block)) == 1  # the other factor


@pytest.mark.parametrize("change", [
    ("yield %2, %b", "%3: f32[M, N] = neg(%2)\n      yield %3, %b"),
    ("%b: f32[R, N] = mul(%u, %w)", "%b: f32[R, N] = matmul(%a, %p)"),
    ("%2: f32[M, N] = add(%p, %1)", "%2: f32[M, N] = mul(%p, %1)"),
], ids=["not the sum", "the sum so far is read", "no sum"])
def test_what_stays_in_the_loop(change: tuple[str, str]) -> None:
    graph = parse(SUM.replace(*change))
    assert inside(dce(products_behind(graph))) == inside(graph) > 0


def cell(xs: Any, h: Any, wx: Any, wh: Any, b: Any) -> Any:
    for k in range(xs.shape[0]):
        z = xs[k] @ wx + h @ wh + b
        h = h + z.tanh() * (h @ wh).sigmoid()
    return (h * h).sum()


@pytest.mark.parametrize("steps", [0, 1, 9])
@pytest.mark.parametrize("d", [jitgrad.float32, jitgrad.float64], ids=str)
def test_gradients_of_a_recurrent_cell(steps: int, d: Any) -> None:
    rng = np.random.default_rng(1)
    shapes = ((steps, 3, 4), (3, 8), (4, 8), (8, 8), (8,))
    arrays = [0.3 * rng.normal(size=s) for s in shapes]
    before, found = jitgrad.get_num_threads(), []
    try:
        for function, threads in ((cell, 1), (jitgrad.script(cell), 1), (jitgrad.script(cell), 2)):
            jitgrad.set_num_threads(threads)
            xs = [jitgrad.tensor(a, dtype=d).requires_grad_() for a in arrays]
            function(*xs).backward()
            found.append([None if x.grad is None else x.grad.numpy() for x in xs])
    finally:
        jitgrad.set_num_threads(before)
    for eager, one, two in zip(*found, strict=True):
        assert (eager is None) == (one is None) == (two is None)
        if eager is not None:
            np.testing.assert_allclose(one, eager, rtol=1e-4 if d is jitgrad.float32 else 1e-10, atol=1e-6)
            np.testing.assert_array_equal(one, two)
