"""Scripts on a GPU: the lecture's programs, programs of the corpus, what a script says of devices."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad import config, nn
from tests import tiers
from tests.codegen.cuda import host
from tests.cuda.hosted import StandinDriver, gpu
from tests.programs import test_programs
from tests.programs.harness import Program, check
from tools.devcheck.lecture import LATER, REFERENCE, programs as lecture, run


@pytest.fixture
def device() -> Iterator[StandinDriver]:
    """A GPU, on which new tensors are; dead memory is NaN."""
    with gpu() as driver, jitgrad.device("cuda"), config.override(debug_arena=True):
        yield driver


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize("order", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("program", [p for p in lecture.PROGRAMS if p.__name__ not in LATER], ids=lambda p: p.__name__)
def test_lecture(program: Any, order: bool, device: StandinDriver) -> None:
    """The threads of each kernel in both orders."""
    with device.reversed(order):
        check_lecture(program)


def check_lecture(program: Any) -> None:
    np.testing.assert_allclose(run(program, jitgrad, "cuda"), REFERENCE[program.__name__], rtol=2e-3, atol=1e-4)


def on_gpu(value: Any) -> Any:
    """A value with all of its tensors on the GPU."""
    if isinstance(value, jitgrad.Tensor):
        return value.detach().cuda().requires_grad_(value.requires_grad)
    if isinstance(value, nn.Module):
        return copy.deepcopy(value).cuda()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(on_gpu, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(on_gpu, value))
    if isinstance(value, dict):
        return {k: on_gpu(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{k: on_gpu(v) for k, v in vars(value).items()})
    return value


class GpuProgram(Program):
    """A program of the corpus on the GPU."""

    def new(self) -> Any:
        made = super().new()
        return made.cuda() if isinstance(made, nn.Module) else made


PROGRAMS = sorted(test_programs.PROGRAMS.items())
#: every third: the time on a real GPU is short
SOME = PROGRAMS[::1 if os.environ.get(tiers.VARIABLE) == "1" else 3]


@host.needs_compiler
@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize("item", [pytest.param(p, id=name) for name, p in PROGRAMS])
def test_program(item: Program, device: StandinDriver) -> None:
    moved = tuple(on_gpu(args) for args in item.calls)
    check(GpuProgram(item.make, moved, item.again, item.reason), ("native",))


@pytest.mark.gpu
@pytest.mark.parametrize("item", [pytest.param(p, id=name) for name, p in SOME])
def test_program_on_a_gpu(gpu: None, item: Program) -> None:
    with jitgrad.device("cuda"):
        moved = tuple(on_gpu(args) for args in item.calls)
        check(GpuProgram(item.make, moved, item.again, item.reason), ("native",))


@host.needs_compiler
def test_large_results_are_on_the_gpu(device: StandinDriver) -> None:
    """The memory that the host keeps for large results is none of a GPU's."""
    y = jitgrad.script(lambda x: x + 1)(jitgrad.ones(1 << 17, device="cuda"))
    assert y.device.type == "cuda"
    assert float(y.sum()) == 2 << 17
