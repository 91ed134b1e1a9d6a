"""Dead memory of device programs is NaN: right programs do not notice, wrong ones show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jitgrad import config, dtypes
from jitgrad.codegen.cuda.host import gpu
from jitgrad.codegen.cuda.schedule import passes
from jitgrad.codegen.cuda.schedule.poison import poisoned
from jitgrad.codegen.lower.driver import lower
from jitgrad.codegen.program import buffers
from jitgrad.codegen.program.device_steps import PoisonStep
from jitgrad.codegen.program.step import Buffer
from jitgrad.codegen.program.steps import Allocate, IfStep, KernelStep, LoopStep
from jitgrad.script.graph.interpret import interpret
from jitgrad.script.passes import pipeline
from tests.codegen.cuda import host, hostgraphs
from tests.codegen.cuda.fakedriver import driver
from tests.codegen.programs import assert_same, duplicate, graph, sizes, tensor
from tests.script.graphs import random_graph

pytestmark = host.emulated


@pytest.fixture(autouse=True)
def debugging() -> Any:
    with config.override(debug_arena=True):
        yield


@pytest.mark.parametrize("seed", range(200, 212))
@pytest.mark.parametrize("replayed", [False, True], ids=["direct", "graphs"])
def test_random_programs(seed: int, replayed: bool) -> None:
    case = random_graph(seed)
    g = pipeline.run(case.graph)
    with np.errstate(all="ignore"):
        expected = interpret(g, duplicate(case.inputs))
    run = gpu.compile({"f": g}, hostgraphs.driver() if replayed else driver())["f"]
    for _ in range(2):
        for i, (a, e) in enumerate(zip(run(duplicate(case.inputs)), expected, strict=True)):
            assert_same(a, e, 1e-9, f"output {i}")


def two_products() -> Any:
    n, = sizes("n")

    def body(F: Any, x: Any) -> Any:
        return F.matmul(F.matmul(F.exp(x), x), F.tanh(x))

    return pipeline.run(graph(body, tensor(n, n, dtype=dtypes.float64)))


def test_what_nobody_has_written_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without its first kernel."""
    g, x = two_products(), np.eye(3)
    np.testing.assert_allclose(gpu.compile({"f": g}, driver())["f"]([x])[0], interpret(g, [x])[0])

    def without(program: Any) -> Any:
        first = next(s for s in program.steps if isinstance(s, KernelStep))
        return replace(program, steps=[s for s in program.steps if s is not first])

    monkeypatch.setattr(passes, "grouped", without)
    assert np.isnan(gpu.compile({"f": g}, driver())["f"]([x])[0]).any()


def test_a_range_that_is_too_short_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer begins where another one, that is still read, is thought to be dead."""
    g, x = two_products(), np.eye(3)

    def shortened(program: Any) -> Any:
        found = buffers._walked(program).ranges
        for live in found.values():
            live.last = live.first
        return found

    monkeypatch.setattr(buffers, "live_ranges", shortened)
    got, expected = gpu.compile({"f": g}, driver())["f"]([x])[0], interpret(g, [x])[0]
    assert not np.allclose(got, expected)


def test_every_buffer_begins_once() -> None:
    """Before the step at which its range begins; a growable one behind the steps that make room, in any list."""
    seen = 0

    def poisons(steps: list[Any]) -> list[Buffer]:
        found: list[Buffer] = []
        for k, step in enumerate(steps):
            if isinstance(step, PoisonStep) and step.buffer is not None:
                found.append(step.buffer)
                if step.buffer.kind == "growable":
                    assert isinstance(steps[k - 1], Allocate)
                    assert steps[k - 1].buffer is step.buffer
            elif isinstance(step, IfStep):
                found += poisons(step.then) + poisons(step.otherwise)
            elif isinstance(step, LoopStep):
                found += poisons(step.body)
        return found

    for seed in range(12):
        program = lower("f", pipeline.run(random_graph(seed).graph), device=True)
        new = poisoned(program)
        assert isinstance(new.steps[0], PoisonStep)
        own = poisons(new.steps)
        slots = [b for b in own if b.kind == "slot"]
        assert len(slots) == len(set(slots))
        assert not any(b.keeps for b in own)
        seen += len(own)
        before, after = buffers.assign(program)[0], buffers.assign(new)[0]
        assert before.keys() == after.keys()
    assert seen > 30
