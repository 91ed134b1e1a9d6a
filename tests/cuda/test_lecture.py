"""The lecture's programs run eagerly with every tensor on a CUDA device, with PyTorch's results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.lecture import programs

REFERENCE = json.loads((Path(__file__).parents[1] / "lecture" / "reference.json").read_text())
#: on the CPU by their nature: memory shared with NumPy
HOST = {"tensor_basics"}
LATER = {"whole_step_scripted"}


class OnDevice:
    """jitgrad, whose `from_numpy` puts arrays on the default device."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(jitgrad, name)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        self.made.append(jitgrad.from_numpy(array).to(jitgrad.get_default_device()))
        return self.made[-1]


def run(program: Any) -> None:
    torch = OnDevice()
    with jitgrad.device("cuda"), jitgrad.eager_mode():
        got = program(torch)
    assert all(t.is_cuda for t in torch.made)
    np.testing.assert_allclose(got, REFERENCE[program.__name__], rtol=2e-3, atol=1e-4)


PROGRAMS = [p for p in programs.PROGRAMS if p.__name__ not in HOST | LATER]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(cuda: Any, program: Any) -> None:
    run(program)


@pytest.mark.gpu
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program_on_a_gpu(gpu: None, program: Any) -> None:
    run(program)
