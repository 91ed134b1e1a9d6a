"""Strings that only the run knows, in scripts on a GPU: the host computes them."""

from collections.abc import Iterator
from typing import Any

import pytest

import jitgrad
from jitgrad import config
from tests.codegen.cuda import host
from tests.cuda.hosted import StandinDriver, gpu
from tests.cuda.test_scripts import on_gpu
from tests.programs.surprises import texts, words
from tests.script.frontend.agree import compare, run

PROGRAMS = [*texts.PROGRAMS, *words.PROGRAMS]


@pytest.fixture
def device() -> Iterator[StandinDriver]:
    """A GPU, on which new tensors are."""
    with gpu() as driver, jitgrad.device("cuda"), config.override(debug_arena=True):
        yield driver


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.function.__name__)
def test_programs(case: Any, device: StandinDriver) -> None:
    scripted = jitgrad.script(case.function)
    for call in case.calls[:2]:
        args = on_gpu(call)
        compare(run(case.function, args), run(scripted, args), (case.function.__name__, args), loops=True)
