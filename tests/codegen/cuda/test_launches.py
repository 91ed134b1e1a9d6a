"""How regions are launched: threads of short and of long ones, told by their texts too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jitgrad
from jitgrad import config
from jitgrad.codegen.cuda.schedule import launches
from tests.codegen.cuda import machinecode


@jitgrad.script
def short(x: Any) -> Any:
    while (x * x).sum() > 1.0:
        x = x * 0.5
    return x


@jitgrad.script
def long(x: Any) -> Any:
    while (x * x).sum() > 1.0:
        if x.amax() > 2.0:
            x = x.softmax(-1) - 0.1
        if x.amin() < -1.0:
            x = x - x.mean(-1, keepdim=True)
        if x.sum() > 3.0:
            x = x.log_softmax(-1) * 0.5
        if x.abs().amax() > 4.0:
            x = x - x.amax(-1, keepdim=True)
        if (x + 1).prod() > 5.0:
            x = x.tanh()
        x = (x - x.mean(0)) * 0.25
    return x


def text_of(function: Any) -> str:
    with config.override(interpret=True, cache=""):
        return "\n".join(function.kernels(jitgrad.ones(4, 6), device="cuda"))


def test_long_regions_have_few_threads() -> None:
    assert list(launches.threads_in(text_of(short)).values()) == [launches.THREADS]
    found = text_of(long)
    assert list(launches.threads_in(found).values()) == [launches.FEW]


@machinecode.needs_cuda
def test_they_put_no_registers_aside() -> None:
    from jitgrad.codegen.cuda.kernels import text

    found = text_of(long)
    used = machinecode.compiled("\n".join([text.prelude(), found]), "sm_90")
    assert all(facts.stack <= machinecode.BARRIER for facts in used.values()), used


def test_the_threads_of_a_region() -> None:
    for count, threads in ((launches.LONG, launches.THREADS), (launches.LONG + 1, launches.FEW)):
        step: Any = SimpleNamespace()
        step.steps = [SimpleNamespace(blocks=()) for _ in range(count)]
        assert launches.threads_of(step) == threads
