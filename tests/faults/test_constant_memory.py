"""Calls of one script over many shapes keep nothing."""

import gc
import os
import sys

import pytest

import jitgrad

pytestmark = pytest.mark.sampled("faults")

SHAPES = [(1 + k % 8, 2 + k // 8) for k in range(40)]
CALLS = 50_000 if os.environ.get("JITGRAD_TEST_ALL") == "1" else 4_000


def resident() -> int:
    """Bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="the figures are Linux's")
def test_memory_is_constant_over_shapes() -> None:
    @jitgrad.script
    def step(x, w, n: int):
        for _ in range(n):
            x = (x * w).tanh()
        return x.sum()

    inputs = [jitgrad.ones(*shape).requires_grad_() for shape in SHAPES]
    w = jitgrad.ones(1).requires_grad_()

    def calls(count: int) -> tuple[int, int]:
        for k in range(count):
            x = inputs[k % len(inputs)]
            x.grad = w.grad = None
            step(x, w, 1 + k % 5).backward()
        gc.collect()
        return resident(), len(gc.get_objects())

    calls(1_000)
    compiled = step.cache_info().compilations
    bytes_before, objects_before = calls(1_000)
    bytes_after, objects_after = calls(CALLS)
    assert bytes_after - bytes_before < 4e6
    assert objects_after - objects_before < 100  # fewer are no leak
    assert step.cache_info().compilations == compiled
