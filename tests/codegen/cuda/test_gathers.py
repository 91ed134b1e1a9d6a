"""Gathers and scatters on a device: values, rows that are moved at once, every dtype, machine code."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from jitgrad import config, dtypes
from jitgrad.codegen.cuda.host.gpu import DeviceCompiled, compile
from jitgrad.codegen.cuda.kernels import text
from jitgrad.script.graph.ir import Graph
from jitgrad.script.passes import pipeline
from tests.codegen import programs
from tests.codegen.cuda import host, machinecode
from tests.codegen.cuda.fakedriver import driver
from tests.codegen.programs import graph, sizes, tensor

pytestmark = host.emulated
NUMBERS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.int32, dtypes.int16,
           dtypes.int8, dtypes.uint8)


@pytest.fixture(autouse=True)
def on_device(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Programs are compiled for the device, where dead memory is NaN."""
    monkeypatch.setattr(programs, "compile", lambda graphs: compile(graphs, driver()))
    with config.override(debug_arena=True):
        yield


def lookups(d: dtypes.dtype) -> Graph:
    """Rows of a table, and what is added to them."""
    V, D, N = sizes("V D N")

    def body(F: Any, table: Any, i: Any) -> Any:
        rows = F.index(table, i, axes=(0,))
        return rows, F.index_put(F.zeros_like(table), F.add(rows, rows), i, axes=(0,), accumulate=True)

    return graph(body, tensor(V, D, dtype=d), tensor(N, dtype=dtypes.int64))


def along(d: dtypes.dtype) -> Graph:
    """Elements along the last axis and the first, where indices differ from element to element; columns."""
    V, D, N = sizes("V D N")

    def body(F: Any, x: Any, i: Any, j: Any, k: Any) -> Any:
        picked = F.gather(x, i, axis=1)
        return (picked, F.scatter_add(x, i, picked, axis=1), F.gather(x, j, axis=0), F.index(x, k, axes=(1,)),
                F.index_put(x, F.index(x, k, axes=(1,)), k, axes=(1,), accumulate=True))

    return graph(body, tensor(V, D, dtype=d), tensor(V, N, dtype=dtypes.int64), tensor(N, D, dtype=dtypes.int64),
                 tensor(N, dtype=dtypes.int64))


def numbers(rng: np.random.Generator, shape: tuple[int, ...], d: dtypes.dtype) -> Any:
    return rng.integers(-3 if d is not dtypes.uint8 else 0, 4, shape).astype(d.np)


@pytest.mark.parametrize("d", NUMBERS, ids=lambda d: d.name)
def test_values(d: dtypes.dtype) -> None:
    rng = np.random.default_rng(0)
    compiled, other = pipeline.run(lookups(d)), pipeline.run(along(d))
    for v, width, n in ((7, 33, 5), (5, 8, 40), (9, 16, 0), (33, 7, 33)):
        table = numbers(rng, (v, width), d)
        programs.agree(compiled, [table, rng.integers(0, v, n)], 0, passes=False)
        i, j, k = rng.integers(0, width, (v, n)), rng.integers(0, v, (n, width)), rng.integers(0, width, n)
        programs.agree(other, [table, i, j, k], 0, passes=False)


@pytest.mark.parametrize("d", [dtypes.float32, dtypes.bfloat16, dtypes.float64], ids=lambda d: d.name)
def test_rows_are_moved_at_once(d: dtypes.dtype) -> None:
    whole = source(lookups(d))
    width = 16 // d.itemsize
    assert f"jg_read_row<{width}>(" in whole
    assert f"jg_add_row<{width}>(" in whole
    loops = re.findall(r"#pragma unroll\n *for \(int k = 0.*?\n                \}\n", whole, re.DOTALL)
    assert loops
    assert not any("p1[" in loop for loop in loops)  # an index is read once for all elements of a vector


def test_rows_that_are_not_aligned() -> None:
    """A table whose rows begin anywhere, and one that is a window of another."""
    V, D, N = sizes("V D N")

    def body(F: Any, table: Any, i: Any) -> Any:
        part = F.slice(table, axis=1, start=1, length=D - 2, step=1)
        return F.index(part, i, axes=(0,)), F.index(F.flip(part, axes=(1,)), i, axes=(0,))

    rng = np.random.default_rng(0)
    g = pipeline.run(graph(body, tensor(V, D), tensor(N, dtype=dtypes.int64)))
    for width in (3, 9, 10, 35):
        inputs = [rng.standard_normal((7, width)).astype(np.float32), rng.integers(0, 7, 5)]
        programs.agree(g, inputs, 0, passes=False)


def test_a_table_is_made_before_it_is_read_also_through_a_view() -> None:
    """No kernel reads elements by index that its own threads write."""
    (n,) = sizes("n")

    def body(F: Any, x: Any, y: Any, i: Any) -> Any:
        rows = F.unsqueeze(F.add(x, y), axis=0)
        return F.sub(F.gather(rows, i, axis=1), F.amax(rows, axes=(1,), keepdim=True)), rows

    g = pipeline.run(graph(body, tensor(n), tensor(n), tensor(1, 1, dtype=dtypes.int64)))
    rng = np.random.default_rng(0)
    for width in (2, 33, 5000):
        x, y = rng.standard_normal((2, width)).astype(np.float32)
        programs.agree(g, [x, y, rng.integers(0, width, (1, 1))], 1e-6, passes=False)


def writes(d: dtypes.dtype) -> Graph:
    """What is put at places of which some are equal."""
    V, D, N = sizes("V D N")

    def body(F: Any, table: Any, i: Any, j: Any, rows: Any) -> Any:
        return (F.index_put(table, rows, i, axes=(0,), accumulate=False),
                F.index_put(table, F.select(rows, axis=1, index=0), i, i, axes=(0, 1), accumulate=True),
                F.index_put(table, F.full(value=2.5, shape=(), dtype=d), i, axes=(1,), accumulate=True),
                F.scatter(table, j, F.gather(F.flip(table, axes=(0,)), j, axis=1), axis=1))

    return graph(body, tensor(V, D, dtype=d), tensor(N, dtype=dtypes.int64), tensor(V, N, dtype=dtypes.int64),
                 tensor(N, D, dtype=d))


@pytest.mark.parametrize("d", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16], ids=lambda d: d.name)
def test_a_fixed_order_gives_the_bits_of_the_cpu(d: dtypes.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "compile", lambda graphs: compile(graphs, driver(), ordered=True))
    rng = np.random.default_rng(0)
    graphs = [pipeline.run(g) for g in (lookups(d), along(d), writes(d))]
    for v, width, n in ((7, 33, 40), (5, 8, 1), (9, 16, 0), (33, 7, 33)):
        table = rng.standard_normal((v, width)).astype(d.np)
        i, j, k = rng.integers(0, width, (v, n)), rng.integers(0, v, (n, width)), rng.integers(0, width, n)
        index, rows = rng.integers(0, min(v, width, 3), n), rng.standard_normal((n, width)).astype(d.np)
        for g, inputs in zip(graphs, ([table, index], [table, i, j, k], [table, index, i, rows]), strict=True):
            compiled = programs.agree(g, inputs, 0, passes=False)
            assert "jg_gather_ordered_" in compiled.source
            assert not re.search(r"\bjg_add(_row)?[(<]", compiled.source.removeprefix(text.prelude()))


@pytest.mark.parametrize("d", [dtypes.uint8, dtypes.int16, dtypes.int64], ids=lambda d: d.name)
def test_integers_are_put_in_a_fixed_order(d: dtypes.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "compile", lambda graphs: compile(graphs, driver(), ordered=True))
    rng = np.random.default_rng(0)
    g = pipeline.run(writes(d))
    for v, width, n in ((7, 33, 40), (5, 8, 3)):
        inputs = [numbers(rng, (v, width), d), rng.integers(0, min(v, width, 3), n), rng.integers(0, width, (v, n)),
                  numbers(rng, (n, width), d)]
        compiled = programs.agree(g, inputs, 0, passes=False)
        assert "jg_write_row<1>(" in compiled.source.removeprefix(text.prelude())


def test_integers_are_added_as_they_come() -> None:
    found = compile({"f": pipeline.run(along(dtypes.int64))}, driver(), ordered=True)
    assert "ordered" not in found.source.removeprefix(text.prelude())


def source(g: Graph, ordered: bool = False) -> str:
    """The kernels of a graph's program."""
    found = compile({"f": pipeline.run(g)}, driver(), ordered=ordered)
    assert isinstance(found, DeviceCompiled)
    return found.source.removeprefix(text.prelude())


@machinecode.needs_cuda
def test_every_dtype_compiles_without_spills() -> None:
    kernels = []
    with config.override(debug_arena=False):
        for i, d in enumerate(NUMBERS):
            graphs = [(lookups(d), False), (along(d), False), (lookups(d), True), (along(d), True), (writes(d), True)]
            for j, (g, ordered) in enumerate(graphs):
                kernels.append(re.sub(r"\bjg_(pw|gather)_", rf"k{i}_{j}_\1_", source(g, ordered)))
    for arch in ("sm_80", "sm_90"):
        used = machinecode.compiled("\n".join([text.prelude(), *kernels]), arch)
        assert max(facts.stack for facts in used.values()) <= machinecode.BARRIER
