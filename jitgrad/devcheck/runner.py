"""Checks in processes of their own: none can stop the others, whatever it does to the device or the process.

Each check's process writes one line `RESULT {...}`; the runner adds it to `results.jsonl`. A check that takes longer
than its cap, or than what is left of the budget, is stopped with all its children.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jitgrad.codegen.cuda.libraries import LibraryError
from jitgrad.devcheck.checks import Check, Lost

RESULT = "RESULT "
#: characters of a failed check's output that are kept
KEPT = 3000
#: seconds kept back for the table, and the least that a check is started with
RESERVE, LEAST = 5.0, 3.0


def perform(check: Check) -> dict[str, Any]:
    """Run a check in this process: its result."""
    started = time.perf_counter()
    result: dict[str, Any] = {"check": check.title, "status": "ok"}
    try:
        result["facts"] = check.function()
    except (Lost, ImportError, LibraryError) as error:
        result.update(status="lost", error=str(error))
    except BaseException as error:  # whatever it is, the result says so
        where = "".join(traceback.format_exception(error))
        result.update(status="failed", error=f"{type(error).__name__}: {error}", where=where[-KEPT:])
    result["seconds"] = round(time.perf_counter() - started, 3)
    return result


def command(check: Check) -> list[str]:
    """What runs a check in a process of its own."""
    return [sys.executable, "-m", "jitgrad.devcheck", "--one", check.title]


def _stop(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # it leads a session of its own, with its children
        else:
            process.kill()


def separately(check: Check, limit: float, how: Callable[[Check], Sequence[str]] = command) -> dict[str, Any]:
    """Run a check in a process of its own, for at most `limit` seconds: its result."""
    started = time.perf_counter()
    process = subprocess.Popen(list(how(check)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _stop(process)
        output, _ = process.communicate()
        return {"check": check.title, "status": "timeout", "seconds": round(time.perf_counter() - started, 3),
                "error": f"stopped after {limit:.0f} s", "output": output[-KEPT:]}
    lines = [line for line in output.splitlines() if line.startswith(RESULT)]
    if lines:
        result: dict[str, Any] = json.loads(lines[-1][len(RESULT):])
        if result["status"] == "failed":
            result["output"] = output[-KEPT:].partition(RESULT)[0]
        return result
    return {"check": check.title, "status": "crashed", "seconds": round(time.perf_counter() - started, 3),
            "error": f"its process ended with status {process.returncode}", "output": output[-KEPT:]}


def run(checks: Sequence[Check], folder: Path, budget: float,
        how: Callable[[Check], Sequence[str]] = command) -> list[dict[str, Any]]:
    """Run checks one after the other within `budget` seconds; their results, also in `folder/results.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + budget - RESERVE
    results = []
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        for check in checks:
            left = end - time.monotonic()
            if left < LEAST:
                result: dict[str, Any] = {"check": check.title, "status": "skipped", "seconds": 0.0,
                                          "error": "no time left"}
            else:
                result = separately(check, min(check.cap, left), how)
            results.append(result)
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(f"{result['status']:<8} {check.title} ({result['seconds']} s) {result.get('error', '')}", flush=True)
    return results


__all__ = ["perform", "run", "separately"]
