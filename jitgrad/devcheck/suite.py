"""The tests marked `gpu`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from jitgrad.devcheck.checks import Facts, Lost, check

TESTS = Path(__file__).parent.parent.parent / "tests"


@check(cap=240.0)
def gpu_tests() -> Facts:
    """`pytest -m gpu` on the tests beside the package."""
    if importlib.util.find_spec("pytest") is None:
        raise Lost("pytest is not installed: the tests marked gpu are not run")
    if not TESTS.is_dir():
        raise Lost("the package is installed without its tests")
    done = subprocess.run([sys.executable, "-m", "pytest", "-m", "gpu", "-x", "-q", "-p", "no:cacheprovider", "-p",
                           "no:xdist", str(TESTS)], cwd=TESTS.parent, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 5:
        raise Lost("no test is marked gpu")
    if done.returncode:
        raise RuntimeError("\n".join(["pytest failed:", *lines[-40:], done.stderr[-500:]]))
    return {"pytest": lines[-1] if lines else ""}
