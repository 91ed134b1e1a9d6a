"""The lecture's programs run eagerly with every tensor on a CUDA device, with PyTorch's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from tools.devcheck.lecture import LATER, REFERENCE, SHARED, OnDevice, programs


def run(program: Any) -> None:
    torch = OnDevice(jitgrad, "cuda")
    with jitgrad.device("cuda"), jitgrad.eager_mode():
        got = program(torch)
    assert all(t.is_cuda for t in torch.made)
    np.testing.assert_allclose(got, REFERENCE[program.__name__], rtol=2e-3, atol=1e-4)


PROGRAMS = [p for p in programs.PROGRAMS if p.__name__ not in SHARED | LATER]


@pytest.mark.sampled("emulated GPU")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(cuda: Any, program: Any) -> None:
    run(program)


@pytest.mark.gpu
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program_on_a_gpu(gpu: None, program: Any) -> None:
    run(program)
