"""`run --check`: the names of torch that a program uses and that are missing, by their lines, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitgrad.__main__ import main
from jitgrad.utils._missing import missing
from tests.examples.files import FOLDER, PROGRAMS

PROGRAM = """\
import numpy as np
import torch
import torch.nn as nn
import torch.quantization
from torch import optim, made_up
from torch.nn import functional as F, Invented
from torch.utils.data import *
import helper
from package.inner import thing

x = torch.randn(3)
y = torch.nn.init.made_up_(x) + F.relu(x) + F.made_up(x)
z = x.qscheme() + np.linalg.solve(x, x) + {}.values() + x.index(0)
w = torch.Tensor.made_up + torch.Tensor.add + torch.float32.made_up
getattr(torch, "made_up_too"), getattr(torch, "made_up_three", None), getattr(torch, "relu")
try:
    from torch import tried
    torch.tried_too
except (ImportError, AttributeError):
    torch.not_tried
if hasattr(torch, "asked"):
    torch.asked()
else:
    torch.not_asked()


def other(nn, data):
    F = data
    return nn.made_up, F.made_up, [optim.made_up for optim in data]


def inner():
    import torch as t
    return t.made_up_here, lambda: optim.made_up


class Net(nn.Module):
    def forward(self, x):
        return self.made_up(torch.nn.functional.made_up(x)), nn.modules.linear.Linear, torch.jit.script

    def q_scale(self):
        return self.q_scale()
"""


def test_every_kind_of_name(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text("import program\nimport torch.nn.functional as F\nF.helping()\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise SystemExit('nothing is run')")
    (tmp_path / "package" / "inner.py").write_text("from . import deep\nfrom torch import thing_of_theirs as thing\n")
    found = missing(tmp_path / "program.py")
    lines = PROGRAM.splitlines()
    own = [(m.name, lines[m.line - 1].strip()) for m in found if m.file.name == "program.py"]
    assert [name for name, _ in own] == [
        "torch.quantization", "torch.made_up", "torch.nn.Invented", "torch.nn.functional.made_up",
        "torch.nn.init.made_up_", "Tensor.qscheme", "torch.Tensor.made_up", "torch.made_up_too", "torch.not_tried",
        "torch.not_asked", "torch.made_up_here", "torch.optim.made_up", "torch.nn.functional.made_up"]
    assert all(name.rpartition(".")[2] in line for name, line in own)
    assert sorted(str(m) for m in found if m.file.name != "program.py") == [
        f"{tmp_path / 'helper.py'}:3: torch.nn.functional.helping",
        f"{tmp_path / 'package' / 'inner.py'}:2: torch.thing_of_theirs"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text("import torch\nraise SystemExit('it ran')\ntorch.relu\n")
    assert main(["run", "--check", str(path)]) == 0
    assert capsys.readouterr().out == f"jitgrad has every name of torch that {path} uses\n"
    path.write_text("import torch\nraise SystemExit('it ran')\ntorch.made_up\ntorch.made_up\n")
    assert main(["run", "--check", str(path)]) == 1
    assert capsys.readouterr().out == (f"{path}:3: torch.made_up\n{path}:4: torch.made_up\n"
                                       f"jitgrad lacks 1 of the names of torch that {path} uses\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs_have_all(name: str) -> None:
    assert missing(FOLDER / "programs" / f"{name}.py") == []
