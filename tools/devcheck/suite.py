"""The tests marked `gpu`."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.devcheck.checks import Facts, Lost, check

TESTS = Path(__file__).parent.parent.parent / "tests"
#: seconds of one test, failures after which the rest is left out, processes at most: they compile, and share one GPU
LIMIT, FAILURES, PROCESSES = 120, 60, 14
_FINAL = re.compile(r"\d+ (?:passed|failed|error|skipped|deselected|no tests ran)")


def command(*folders: Path) -> list[str]:
    """pytest without the project's configuration, which asks for plugins and makes other people's warnings errors."""
    config = Path(tempfile.mkdtemp()) / "pytest.ini"
    config.write_text("[pytest]\nmarkers =\n    gpu: needs a CUDA device\n    slow: more than a few seconds\n",
                      encoding="utf-8")
    # a thread ends a test that waits for the device for ever: no signal is seen there
    limit = [f"--timeout={LIMIT}", "--timeout-method=thread"] if importlib.util.find_spec("pytest_timeout") else []
    processes = min(PROCESSES, os.cpu_count() or 1)
    several = ["-n", str(processes), "--dist", "worksteal"] if importlib.util.find_spec("xdist") else []
    return [sys.executable, "-m", "pytest", "-c", str(config), f"--rootdir={TESTS.parent}", "-m", "gpu", "-v",
            f"--maxfail={FAILURES}", "--import-mode=importlib", "--continue-on-collection-errors", "-p",
            "no:cacheprovider", "--tb=short", *several, *limit, *map(str, folders)]


def run(*folders: Path) -> Facts:
    """pytest's last line. Lost where it or a folder is missing; RuntimeError with its output where a test fails."""
    if importlib.util.find_spec("pytest") is None:
        raise Lost("pytest is not installed: the tests marked gpu are not run")
    if not all(folder.is_dir() for folder in folders):
        raise Lost("the package is installed without its tests")
    environment = {**os.environ, "JITGRAD_REQUIRE_GPU": "1",
                   "PYTHONPATH": os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])}
    lines = []
    with subprocess.Popen(command(*folders), cwd=TESTS.parent, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        assert process.stdout is not None
        for line in process.stdout:  # shown as it comes: it is the output of this check if it is stopped
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    status = process.returncode
    if status == 5:
        raise Lost("no test is marked gpu")
    if status:
        raise RuntimeError("\n".join(["pytest failed:", *lines[-60:]]))
    return {"pytest": next((line for line in reversed(lines) if _FINAL.search(line)), "")}


@check(cap=540.0, alone=True)
def gpu_tests() -> Facts:
    """`pytest -m gpu` on eager tensors, scripts and native programs; a test that cannot use the GPU fails."""
    return run(TESTS / "cuda", TESTS / "codegen")
