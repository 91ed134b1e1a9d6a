"""Twenty whole programs as PyTorch users write them, against the losses that PyTorch computed from equal weights.

Each is run eagerly, with its models scripted, and with its training step as one program.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.examples.files import FOLDER, PROGRAMS, losses, program, start, text_of
from tests.examples.record import RECORDED

EXPECTED = json.loads(RECORDED.read_text())


def assert_learns(name: str, found: list[list[float]]) -> None:
    np.testing.assert_allclose(found, EXPECTED[name], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_eager(name: str) -> None:
    source = program(f"programs/{name}")
    assert_learns(name, losses(source, start(jitgrad, source), source.step))


@pytest.mark.parametrize("name", PROGRAMS)
def test_with_scripted_models(name: str) -> None:
    source = program(f"programs/{name}")
    state = start(jitgrad, source)
    scripted = tuple(jitgrad.script(part) if isinstance(part, jitgrad.nn.Module) else part for part in state)
    assert_learns(name, losses(source, scripted, source.step))


@pytest.mark.parametrize("name", PROGRAMS)
def test_with_a_scripted_step(name: str) -> None:
    source = program(f"programs/{name}")
    step: Any = jitgrad.script(source.step)
    state = start(jitgrad, source)
    assert_learns(name, losses(source, state, step))
    assert 1 <= step.cache_info().compilations <= 2  # the first step makes the optimizer's state


def test_as_pytorch_programs(tmp_path: Path) -> None:
    """`import torch` stays as it is written; the command makes it mean jitgrad."""
    path = tmp_path / "gpt.py"
    path.write_text(text_of(FOLDER / "programs" / "gpt.py", "torch"))
    command = [sys.executable, "-m", "jitgrad", "run", "--as-torch", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 30


def test_all_of_them_are_listed() -> None:
    listed = (FOLDER / "README.md").read_text()
    assert [name for name in PROGRAMS if f"programs/{name}.py" not in listed] == []
    assert EXPECTED.keys() == set(PROGRAMS)
