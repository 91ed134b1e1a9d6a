"""Deterministic algorithms on a GPU: the CPU's bits, in eager and in scripts; what a script is compiled for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from jitgrad.nn import functional as F
from tests.codegen.cuda import host
from tests.cuda.hosted import StandinDriver, gpu

pytestmark = host.needs_compiler


@pytest.fixture
def deterministic() -> Iterator[StandinDriver]:
    """A GPU, and algorithms that must be deterministic."""
    jitgrad.use_deterministic_algorithms(True)
    try:
        with gpu() as driver, config.override(debug_arena=True):
            yield driver
    finally:
        jitgrad.use_deterministic_algorithms(False)


def embedded(table: Any, i: Any, g: Any) -> Any:
    y = F.embedding(i, table)
    return y, jitgrad.autograd.grad(y, table, g)[0]


def added(x: Any, i: Any, g: Any) -> Any:
    wide = g[:, 0]
    return (x.index_add(0, i[:, 0], wide), x.scatter_add(0, i[:, :1].expand(-1, 3), wide[:, :3]),
            x.index_put((i[:, 0], i[:, 1] * 0), wide[:, 0], accumulate=True), x.index_put((i[:, 0],), wide),
            x.scatter(0, i[:, :1].expand(-1, 3), wide[:, :3]), jitgrad.bincount(i[:, 0], wide[:, 0]))


def pooled(x: Any, i: Any, g: Any) -> Any:
    y = F.max_pool2d(x.reshape(1, 1, 7, 8), 3, stride=1, padding=1)
    return jitgrad.autograd.grad((y * y).sum(), x)[0]


@pytest.mark.parametrize("dtype", [jitgrad.float32, jitgrad.bfloat16, jitgrad.float16], ids=str)
@pytest.mark.parametrize("f", [embedded, added, pooled], ids=lambda f: f.__name__)
def test_the_bits_of_the_cpu(f: Any, dtype: Any, deterministic: StandinDriver) -> None:
    if f is added and dtype is not jitgrad.float32:
        pytest.skip("weights of bincount are float64 or float32")
    jitgrad.manual_seed(0)
    x, i, g = jitgrad.randn(7, 8).to(dtype), jitgrad.randint(0, 3, (33, 2)), jitgrad.randn(33, 2, 8).to(dtype)
    expected = f(x.requires_grad_(), i, g)
    given = x.detach().cuda().requires_grad_(), i.cuda(), g.cuda()
    for run in (f, jitgrad.script(f)):
        found = run(*given)
        for a, b in zip(found if isinstance(found, tuple) else (found,),
                        expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_array_equal(a.detach().cpu().float().numpy(), b.detach().float().numpy())


def test_a_script_is_compiled_for_one_or_the_other(deterministic: StandinDriver) -> None:
    script = jitgrad.script(embedded)
    table = jitgrad.randn(7, 8, device="cuda", requires_grad=True)
    i, g = jitgrad.randint(0, 7, (5, 2), device="cuda"), jitgrad.randn(5, 2, 8, device="cuda")
    texts = []
    for mode in (True, False, True, False):
        jitgrad.use_deterministic_algorithms(mode)
        script(table, i, g)
        texts.append("\n".join(script.kernels(table, i, g, device="cuda")))
    assert script.cache_info().compilations == 2
    assert ["ordered_add" in text for text in texts] == [True, False, True, False]


def test_a_program_for_the_cpu_serves_both() -> None:
    script = jitgrad.script(embedded)
    table = jitgrad.randn(7, 8, requires_grad=True)
    i, g = jitgrad.randint(0, 7, (5, 2)), jitgrad.randn(5, 2, 8)
    try:
        for mode in (True, False):
            jitgrad.use_deterministic_algorithms(mode)
            script(table, i, g)
    finally:
        jitgrad.use_deterministic_algorithms(False)
    assert script.cache_info().compilations == 1
