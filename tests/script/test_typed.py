"""What mypy is told of scripted functions and modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_types_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"),
               str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    revealed = [line.partition("Revealed type is ")[2] for line in done.stdout.splitlines() if "Revealed" in line]
    tensor = '"jitgrad.eager.tensor.Tensor"'
    assert revealed == [tensor, '"int"', '"int"', '"Any"', tensor, '"int"'], done.stdout
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(errors) == 2
    assert 'incompatible type "str"; expected "Tensor"' in errors[0]
    assert "Missing positional argument" in errors[1]
