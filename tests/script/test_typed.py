"""What mypy is told: of scripted functions and modules, and which names there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jitgrad
from tools import stubs

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """\
import jitgrad
from jitgrad import Tensor, jit, nn

@jitgrad.script
def scaled(x: Tensor, n: int = 3) -> Tensor:
    return x * n

@jitgrad.script(check=True)
def size(x: Tensor) -> int:
    return x.shape[0]

class Net(nn.Module):
    width: int = 3

@jit.script
def doubled(x: Tensor) -> Tensor:
    return 2 * x

net = jitgrad.script(Net())
reveal_type(scaled(jitgrad.ones(2), n=2))
reveal_type(size(jitgrad.ones(2)))
reveal_type(net.width)
reveal_type(net(jitgrad.ones(2)))
reveal_type(doubled(jitgrad.ones(2)))
reveal_type(scaled.cache_info().compilations)
scaled("text")
size()
"""


def told(program: str, folder: Path) -> list[str]:
    """What mypy says of a program."""
    pytest.importorskip("mypy")
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(folder / "cache"),
               str(folder / "program.py")]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout.splitlines()


def test_types_are_kept(tmp_path: Path) -> None:
    lines = told(PROGRAM, tmp_path)
    revealed = [line.partition("Revealed type is ")[2] for line in lines if "Revealed" in line]
    tensor = '"jitgrad.eager.tensor.Tensor"'
    assert revealed == [tensor, '"int"', '"int"', '"Any"', tensor, '"int"'], lines
    errors = [line for line in lines if "error:" in line]
    assert len(errors) == 2
    assert 'incompatible type "str"; expected "Tensor"' in errors[0]
    assert "Missing positional argument" in errors[1]


def test_names_are_known(tmp_path: Path) -> None:
    """All that are there, which most are made or found by name, and no others."""
    spaces = {space: getattr(jitgrad, space) for space in ("fft", "linalg", "special", "optim", "distributions")}
    names = [f"jitgrad.{name}" for name in jitgrad.__all__]
    names += [f"jitgrad.{space}.{name}" for space, module in spaces.items() for name in getattr(module, "__all__", ())]
    assert len(names) > 750
    wrong = ["jitgrad.rnadn", "jitgrad.optim.Addam", "jitgrad.fft.ftt"]
    lines = told("\n".join(["import jitgrad", *names, *wrong, ""]), tmp_path)
    errors = [line for line in lines if "error:" in line]
    assert len(errors) == len(wrong), errors
    for name, error in zip(wrong, errors, strict=True):
        assert f'Module has no attribute "{name.rpartition(".")[2]}"' in error


def test_the_stub_is_current() -> None:
    assert stubs.STUB.read_text() == stubs.text(), "python -m tools.stubs"
