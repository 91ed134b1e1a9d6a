"""`python -m jitgrad`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jitgrad import config
from jitgrad.__main__ import main

PROGRAM = """\
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim.lr_scheduler as schedules
from torch.utils.data import DataLoader, TensorDataset


@torch.jit.script
def penalty(w, scale: float):
    total = torch.zeros(())
    for i in range(w.shape[0]):
        if w[i].sum() > 0:
            total = total + w[i].pow(2).sum() * scale
    return total


torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 3), torch.randint(0, 2, (32,)))
net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
schedule = schedules.StepLR(optimizer, 100)
first = last = None
for _ in range(5):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y) + penalty(net[0].weight, 1e-3)
        loss.backward()
        optimizer.step()
        first = loss.item() if first is None else first
        last = loss.item()
try:
    import torch.no_such_module
except ModuleNotFoundError as error:
    print(error)
print(torch.__name__, sys.argv[1:], last < first, __name__, sys.modules["torch.nn"] is sys.modules["jitgrad.nn"])
"""


@pytest.fixture
def own_cache(tmp_path):
    with config.override(cache=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def test_info_is_a_table(capsys):
    assert main(["info"]) == 0
    rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line)
    assert {"jitgrad", "python", "numpy", "llvmlite", "cpu", "cores", "blas", "cupy", "nvrtc", "GPU usable",
            "disk cache", "llvm loads in", "runtime ready in", "cold compile"} <= rows.keys()
    assert rows["cold compile"].strip().split()[1] == "ms"
    assert rows["runtime ready in"].strip().split()[1] == "ms"


def test_cache_shows_and_clears(own_cache, capsys):
    import jitgrad

    jitgrad.script(lambda x: x * 3)(jitgrad.ones(2))
    assert main(["cache"]) == 0
    assert str(own_cache) in capsys.readouterr().out
    entries = len(list(own_cache.iterdir()))
    assert entries > 0
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"removed {entries} entries\n"
    assert list(own_cache.iterdir()) == []
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == "removed 0 entries\n"


def test_clearing_may_keep_what_no_program_changes(own_cache):
    import jitgrad
    from jitgrad.codegen.run import tiled

    tiled._loaded.cache_clear()
    images, weights = jitgrad.ones(1, 1, 4, 4), jitgrad.ones(1, 1, 3, 3)
    jitgrad.script(lambda x, w: jitgrad.nn.functional.conv2d(x, w) * 3)(images, weights)
    assert main(["cache", "--clear", "--keep-runtime"]) == 0
    kept = [path.name for path in own_cache.iterdir()]
    made = tiled.keys()
    assert any(key in name for name in kept for key in made)
    assert main(["cache", "--clear"]) == 0
    assert list(own_cache.iterdir()) == []


def test_cache_that_is_off(capsys):
    with config.override(cache=""):
        assert main(["cache"]) == 0
    assert capsys.readouterr().out.startswith("off")


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == 2
    assert "command" in capsys.readouterr().err


def test_a_torch_program_runs_unchanged(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-m", "jitgrad", "run", "--as-torch", str(program), "--epochs", "3"],
                          capture_output=True, text=True, cwd=tmp_path,
                          env=os.environ | {"PYTHONPATH": str(root), "JITGRAD_CACHE": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("No module named 'torch.no_such_module'\n"
                           "jitgrad ['--epochs', '3'] True __main__ True\n")


def test_a_program_s_folder_is_on_the_path(tmp_path):
    (tmp_path / "neighbour.py").write_text("VALUE = 42\n")
    program = tmp_path / "program.py"
    program.write_text("import neighbour\nprint(neighbour.VALUE)\n")
    done = subprocess.run([sys.executable, "-m", "jitgrad", "run", str(program)], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])})
    assert done.stdout == "42\n", done.stderr


def test_a_run_can_explain_its_scripts(tmp_path):
    program = tmp_path / "prog.py"
    program.write_text("import jitgrad\n\n@jitgrad.script\ndef f(x):\n    print('once')\n    return x.exp().sum()\n\n"
                       "f(jitgrad.ones(3))\nf(jitgrad.ones(4))\nf(jitgrad.ones(2, 2))\nprint('done')\n")
    done = subprocess.run([sys.executable, "-m", "jitgrad", "run", "--explain", str(program)], capture_output=True,
                          text=True, check=True)
    printed, _, reports = done.stdout.partition("done\n")
    assert printed == "once\n" * 3
    assert reports.count("how it was measured") == 2  # one per signature
    assert "return x.exp().sum()" in reports


def test_a_script_that_cannot_be_measured_runs_all_the_same(tmp_path):
    program = tmp_path / "prog.py"
    program.write_text("import jitgrad\n\n@jitgrad.script\ndef f(x):\n    assert x.sum() > 0, 'empty'\n    return x\n\n"
                       "try:\n    f(jitgrad.zeros(3))\nexcept AssertionError as error:\n    print('caught', error)\n")
    done = subprocess.run([sys.executable, "-m", "jitgrad", "run", "--explain", str(program)], capture_output=True,
                          text=True, check=True)
    assert done.stdout == "caught empty\nf\n  not measured: AssertionError: empty\n"
