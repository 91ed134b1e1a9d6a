"""compute-sanitizer over our kernels, on all workloads at tiny sizes: memory, races, barriers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable

from tools.devcheck.checks import Facts, Lost, check
from tools.devcheck.workloads import WORKLOADS

#: of a tool's output, what is kept
LINES = 60
#: workloads that a tool cannot watch: cuBLASLt's products of half types fail under it
LEFT_OUT = {"racecheck": ("lstm", "block")}


def command(tool: str) -> list[str]:
    """What runs the workloads under a tool. Lost where it is not installed."""
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        raise Lost("compute-sanitizer is not installed")
    # sizes of arguments are asked for until the driver says that there is no further one
    api = ["--report-api-errors", "no"] if tool == "memcheck" else []
    return [sanitizer, "--tool", tool, "--error-exitcode", "9", "--kernel-name", "kns=jg_", "--print-limit", "20", *api,
            sys.executable, "-m", "tools.devcheck.programs", *[w for w in WORKLOADS if w not in LEFT_OUT.get(tool, ())]]


def sanitized(tool: str) -> Callable[[], Facts]:
    """The check by a tool."""
    def perform() -> Facts:
        done = subprocess.run(command(tool), capture_output=True, text=True, errors="replace", check=False)
        lines = (done.stdout + done.stderr).splitlines()
        if done.returncode:
            said = [line for line in lines if line.startswith("=") and "Host Frame" not in line]
            raise RuntimeError("\n".join([f"{tool}: status {done.returncode}", *said[:LINES], *lines[-LINES // 2:]]))
        return {"summary": next((line.strip("= ") for line in reversed(lines) if "SUMMARY" in line), "")}

    perform.__name__, perform.__module__ = tool, __name__
    perform.__doc__ = f"compute-sanitizer's {tool} finds nothing in our kernels."
    return perform


for _tool in ("memcheck", "racecheck", "synccheck"):
    check(cap=240.0)(sanitized(_tool))
