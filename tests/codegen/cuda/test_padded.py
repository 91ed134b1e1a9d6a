"""Maxima of padded tensors on a device: without the padding, also of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, dtypes
from jitgrad.codegen.cuda.host.gpu import compile
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program.steps import KernelStep
from jitgrad.nn import functional as F
from jitgrad.script.passes import pipeline
from tests.codegen import programs
from tests.codegen.cuda import host
from tests.codegen.cuda.fakedriver import driver
from tests.codegen.programs import graph, sizes, tensor
from tests.cuda.hosted import gpu

pytestmark = host.needs_compiler


@pytest.mark.parametrize("d", [dtypes.float32, dtypes.int64, dtypes.bfloat16], ids=lambda d: d.name)
def test_values(d: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "compile", lambda graphs: compile(graphs, driver()))
    N, M = sizes("N M")

    def body(F: Any, x: Any) -> Any:
        both, all_ = (F.pad(x, pads=((p, 0), (1, 2)), value=2) for p in (0, 1))
        rows = F.pad(x, pads=((1, 0), (0, 0)), value=-3)
        return (F.amax(F.mul(x, x), axes=(1,), keepdim=False), F.amax(both, axes=(1,), keepdim=True),
                F.amin(all_, axes=(0, 1), keepdim=False), F.amin(rows, axes=(0,), keepdim=False),
                F.amax(rows, axes=(1,), keepdim=False), rows)

    g = pipeline.run(graph(body, tensor(N, M, dtype=d)))
    rng = np.random.default_rng(0)
    for shape in ((0, 3), (7, 33), (33, 7)):
        x = rng.integers(-9, 9, shape).astype(d.np)
        if d is dtypes.float32 and x.size:
            x[0, 0] = np.nan
        programs.agree(g, [x], 0, passes=False)


def test_one_kernel_of_nothing_and_of_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "compile", lambda graphs: compile(graphs, driver()))
    (N,) = sizes("N")
    g = pipeline.run(graph(lambda F, x: F.amax(F.pad(F.exp(x), pads=((1, 0),), value=-7.0), axes=(0,), keepdim=False),
                           tensor(N)))
    assert sum(isinstance(s, KernelStep) for s in lower("f", g, device=True).steps) == 1
    for n in (0, 1, 7, 1000):
        programs.agree(g, [np.linspace(-1, 1, n, dtype=np.float32)], 1e-6, passes=False)


def lookup(table: Any, i: Any) -> Any:
    return F.embedding(i, table)


def test_launches_of_a_lookup() -> None:
    with gpu() as device, config.override(cache="", debug_arena=False):
        script, table = jitgrad.script(lookup), jitgrad.randn(7, 8).cuda()
        for n in (5, 9):
            i = jitgrad.randint(0, 7, (n,)).cuda()
            device.forget()
            found = script(table, i)
            assert len(device.launches()) <= 3
            np.testing.assert_array_equal(found.cpu().numpy(), table.cpu().numpy()[i.cpu().numpy()])
        with pytest.raises(IndexError):
            script(table, i + 5).cpu()
