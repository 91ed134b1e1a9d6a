"""What CONTRIBUTING.md adds is as it says: ops in a copy agree in eager, scripts and gradients; a kind is one file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
SECTION = TEXT.split("## Add an op")[1].split("\n## ")[0]
KIND = TEXT.split("## Add a kind of value")[1].split("\n## ")[0]

PROGRAM = """
import numpy as np
import jitgrad as jg

def eager(x, k):
    return jg.softsquare(x) + jg.cbrt(x) * jg.rotate(x, 2, 1), jg.bitwise_xor_sum(k, 1)

scripted = jg.script(eager)
x, k = np.random.default_rng(0).uniform(0.1, 3.0, (4, 5)), np.arange(40).reshape(4, 5, 2)
found = []
for run in (eager, scripted):
    a = jg.tensor(x, requires_grad=True)
    y, z = run(a, jg.tensor(k))
    y.sum().backward()
    found.append([y.detach().numpy(), z.numpy(), a.grad.numpy()])
for mine, other in zip(*found, strict=True):
    np.testing.assert_allclose(mine, other, rtol=1e-14)
np.testing.assert_allclose(found[0][0], x / (1 + x * x) + np.cbrt(x) * np.roll(x, -2, 1), rtol=1e-14)
np.testing.assert_array_equal(found[0][1], np.bitwise_xor.reduce(k, axis=1))
for name in ("softsquare", "cbrt"):
    jg.autograd.gradcheck(getattr(jg, name), (jg.tensor(x, requires_grad=True),))
jg.autograd.gradcheck(lambda a: jg.rotate(a, 2, 1), (jg.tensor(x, requires_grad=True),))
"""


def parts() -> list[tuple[str, str]]:
    """The files of the section, and what is added to each."""
    return re.findall(r"^`(jitgrad/\S+)`:\n```\w+\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the section's ops."""
    root = tmp_path_factory.mktemp("contributed")
    shutil.copytree(ROOT / "jitgrad", root / "jitgrad", ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in parts():
        with (root / path).open("a") as file:
            file.write(f"\n\n{text}")
    return root


def run(copy: Path, *command: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(copy)}
    result = subprocess.run([sys.executable, *command], cwd=copy, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_kind_takes_the_files_it_says() -> None:
    counted = {"one": 1, "two": 2, "three": 3}
    kinds = re.findall(r"^\*\*(.*?), (one|two|three) files?[.:]\*\*(.*?)(?=^\*\*|\Z)", SECTION,
                       re.MULTILINE | re.DOTALL)
    assert len(kinds) == 4
    for kind, number, text in kinds:
        files = [path for path in re.findall(r"^`(jitgrad/\S+)`:$", text, re.MULTILINE) if "/library/" not in path]
        assert len(files) == counted[number], kind


def test_a_kind_is_named_in_the_files_it_says() -> None:
    said = re.findall(r"^\| `(jitgrad/\S+)` \|", KIND, re.MULTILINE)
    assert len(said) == 3
    named = [str(path.relative_to(ROOT)) for path in (ROOT / "jitgrad").rglob("*.py") if "deque" in path.read_text()]
    assert sorted(named) == sorted(said)


def test_eager_scripts_and_gradients_agree(copy: Path) -> None:
    (copy / "program.py").write_text(PROGRAM)
    run(copy, "program.py")


def test_rows_are_complete(copy: Path) -> None:
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", copy)
    run(copy, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "tests/ops/test_rows.py",
        "tests/ops/test_tables.py", "-k", "softsquare or cbrt or xor_sum or rotate")
