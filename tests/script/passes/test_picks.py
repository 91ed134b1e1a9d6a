"""One element of each row: what becomes of reads and writes of one, that every bit stays, and what is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgrad.script.graph.interpret import interpret
from jitgrad.script.graph.ir import Graph, walk
from jitgrad.script.graph.parse import parse
from jitgrad.script.graph.verify import verify
from jitgrad.script.passes.dce import dce
from jitgrad.script.passes.picks import picks

#: what each row's element is written over, and the type of the whole
TARGETS = {
    "zeros": "full(){value=0.0, shape=(N, M), dtype=DTYPE}",
    "threes": "full(){value=3.0, shape=(N, M), dtype=DTYPE}",
    "rows": "expand(%u){shape=(N, M)}",
    "computed": "mul(%x, %u)",
}


def written(target: str, dtype: str = "f32") -> Graph:
    return parse(f"""graph f(%u: {dtype}[N, 1], %i: i64[N, 1], %v: {dtype}[N, 1], %x: {dtype}[N, M]) -> ():
  %t: {dtype}[N, M] = {TARGETS[target].replace("DTYPE", dtype)}
  %y: {dtype}[N, M] = scatter_add(%t, %i, %v){{axis=1}}
  %s: {dtype}[N, 1] = sum(%y){{axes=(1,), keepdim=True}}
  return %y, %s
""")


def given(dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 5, 1)).astype(dtype)
    v[:3, 0] = -0.0, np.nan, np.inf
    u[:2, 0] = -0.0, 0.0
    return [u, rng.integers(0, 7, (5, 1)), v, rng.normal(size=(5, 7)).astype(dtype)]


def bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint8)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in walk(graph.block)]


@pytest.mark.parametrize("target", TARGETS)
def test_writes(target: str) -> None:
    before = written(target)
    after = dce(picks(before))
    verify(after)
    assert "scatter_add" not in ops(after)
    assert ("sum" in ops(after)) == (target != "zeros")  # of zeros and one element
    for a, b in zip(interpret(after, given()), interpret(before, given()), strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))


def test_sums_keep_their_dtype() -> None:
    graph = parse("""graph f(%i: i64[N, 1], %v: f32[N, 1], %x: f32[N, M]) -> ():
  %t: f32[N, M] = full(){value=0.0, shape=(N, M), dtype=f32}
  %y: f32[N, M] = scatter_add(%t, %i, %v){axis=1}
  %z: f16[N, M] = cast(%y){dtype=f16}
  %s: f16[N] = sum(%z){axes=(1,), keepdim=False}
  return %s
""")
    after = dce(picks(graph))
    verify(after)
    assert "sum" not in ops(after)
    np.testing.assert_array_equal(interpret(after, given()[1:])[0], interpret(graph, given()[1:])[0])


def test_reads() -> None:
    graph = parse("""graph f(%u: f32[N, 1], %i: i64[N, 1], %v: f32[N, 1], %x: f32[N, M]) -> ():
  %y: f32[N, M] = sub(%x, %u)
  %e: f32[N, M] = exp(%y)
  %g: f32[N, 1] = gather(%e, %i){axis=1}
  return %g
""")
    after = dce(picks(graph))
    verify(after)
    assert ops(after) == ["gather", "sub", "exp"]
    np.testing.assert_array_equal(bits(interpret(after, given())[0]), bits(interpret(graph, given())[0]))


def test_places_in_all_rows() -> None:
    graph = parse("""graph f(%u: f32[N, 1], %i: i64[N], %v: f32[N], %x: f32[N, M]) -> ():
  %a: i64[N] = arange(){length=N, dtype=i64}
  %y: f32[N, M] = sub(%x, %u)
  %r: f32[N] = index(%y, %a, %i){axes=(0, 1)}
  %w: f32[N, M] = index_put(%y, %v, %a, %i){axes=(0, 1), accumulate=True}
  %p: f32[N, M] = index_put(%y, %v, %a, %i){axes=(0, 1), accumulate=False}
  return %r, %w, %p
""")
    after = dce(picks(graph))
    verify(after)
    assert {"gather", "index_put"} <= set(ops(after))
    assert ops(after).count("index_put") == 1  # that does not add
    assert not {"index", "scatter_add"} & set(ops(after))
    u, i, v, x = given()
    for a, b in zip(interpret(after, [u, i[:, 0], v[:, 0], x]), interpret(graph, [u, i[:, 0], v[:, 0], x]),
                    strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))


@pytest.mark.parametrize("body", [
    "%y: f32[N, M] = scatter_add(%x, %i, %v){axis=1}",       # memory: a row of it is not written as a whole
    "%y: f32[N, 1] = gather(%x, %i){axis=1}",                # already
    "%y: f32[N, 1, M] = index(%x, %i){axes=(0,)}",           # whole rows
    "%y: f32[N, 1] = scatter_add(%v, %i, %v){axis=1}",       # a row of one element
])
def test_what_is_left_alone(body: str) -> None:
    head = "graph f(%u: f32[N, 1], %i: i64[N, 1], %v: f32[N, 1], %x: f32[N, M]) -> ():"
    graph = parse(f"{head}\n  {body}\n  return %y\n")
    assert ops(picks(graph)) == ops(graph)
