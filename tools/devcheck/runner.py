"""Checks in processes of their own: none can stop the others, whatever it does to the device or the process.

Each check's process writes one line `RESULT {...}`, and lines `PART {...}` before where it takes long; the runner adds
the result to `results.jsonl`. A check that takes longer than its cap, or than what is left of the budget, is stopped
with its children, and what it had found stands. Output goes to files: a pipe stays open as long as any child's child
lives. Checks that do not measure run several at a time.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitgrad.codegen.cuda.driver.libraries import LibraryError
from tools.devcheck import table
from tools.devcheck.checks import PART, RESULT, Check, Lost, Wrong

#: characters of a failed check's output that are kept
KEPT = 3000
#: seconds kept back for the table, the least that a check is started with, the least share of a check that shares
RESERVE, LEAST, SHARE = 5.0, 3.0, 25.0
#: how many checks run at a time: most of each is compiling
TOGETHER = max(4, (os.cpu_count() or 1) - 4)

Result = dict[str, Any]
How = Callable[[Check], Sequence[str]]


def perform(check: Check) -> Result:
    """Run a check in this process: its result."""
    started = time.perf_counter()
    result: Result = {"check": check.title, "status": "ok"}
    try:
        result["facts"] = check.function()
    except (Lost, ImportError, LibraryError) as error:
        result.update(status="lost", error=str(error))
    except BaseException as error:  # whatever it is, the result says so
        where = "".join(traceback.format_exception(error))
        result.update(status="failed", error=f"{type(error).__name__}: {error}", where=where[-KEPT:])
        if isinstance(error, Wrong):
            result["facts"] = error.facts
    result["seconds"] = round(time.perf_counter() - started, 3)
    return result


def command(check: Check) -> list[str]:
    """What runs a check in a process of its own."""
    return [sys.executable, "-m", "tools.devcheck", "--one", check.title]


def _stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # it leads a session of its own, with its children
        else:
            process.kill()


def _told(output: str, beginning: str) -> Any:
    """What the last whole line with this beginning says, None without one."""
    for line in reversed(output.splitlines()):
        if line.startswith(beginning):
            with contextlib.suppress(ValueError):  # it was stopped while it wrote the line
                return json.loads(line[len(beginning):])
    return None


def separately(check: Check, limit: float, how: How = command) -> Result:
    """Run a check in a process of its own, for at most `limit` seconds: its result."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as file:
        process = subprocess.Popen(list(how(check)), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            process.wait(limit)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        except BaseException:
            _stop(process)
            raise
        if late:
            _stop(process)
            process.wait()
        file.seek(0)
        output = file.read().decode(errors="replace")
    result: Result | None = _told(output, RESULT)
    if result is None:
        status, error = ("timeout", f"stopped after {limit:.0f} s") if late else (
            "crashed", f"its process ended with status {process.returncode}")
        result = {"check": check.title, "status": status, "error": error,
                  "seconds": round(time.perf_counter() - started, 3)}
        facts = _told(output, PART)
        if facts is not None:
            result["facts"] = facts
    if result["status"] in ("failed", "timeout", "crashed"):
        result["output"] = "\n".join(line for line in output.splitlines() if not line.startswith((RESULT, PART))
                                     )[-KEPT:]
    return result


@dataclass
class Budget:
    """The time that there is."""

    seconds: float
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def used(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.started

    def limit(self, check: Check, sharing: int) -> float:
        """How long a check may take, when it and those after it that share are `sharing`; 0: it is not started."""
        left = self.seconds - RESERVE - self.used
        if left < LEAST:
            return 0.0
        return min(check.cap, left, max(SHARE, left / max(1, sharing)) if check.shares else left)


def groups(checks: Sequence[Check]) -> Iterator[list[Check]]:
    """Checks in order, those that may run at a time together."""
    for alone, some in itertools.groupby(checks, lambda c: c.alone):
        if alone:
            yield from ([c] for c in some)
        else:
            yield list(some)


def run(checks: Sequence[Check], folder: Path, budget: Budget | float, how: How = command,
        told: Callable[[Sequence[Result]], None] = lambda results: None) -> list[Result]:
    """Run checks within a budget, in seconds; their results in order, also in `folder/results.jsonl`.

    What a check measured is printed when it ends, and `told` is called with all results until then: whoever is cut off
    has them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    time_left = budget if isinstance(budget, Budget) else Budget(budget)
    results: list[Result] = []
    sharing = sum(c.shares for c in checks)

    def one(check: Check) -> Result:
        limit = time_left.limit(check, sharing)
        if not limit:
            return {"check": check.title, "status": "skipped", "seconds": 0.0, "error": "no time left"}
        return separately(check, limit, how)

    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        for group in groups(checks):
            with ThreadPoolExecutor(min(TOGETHER, len(group))) as pool:
                for check, result in zip(group, pool.map(one, group), strict=True):
                    sharing -= check.shares
                    results.append(result)
                    file.write(json.dumps(result) + "\n")
                    file.flush()
                    error = str(result.get("error", "")).partition("\n")[0]
                    print(f"{len(results):>3}/{len(checks)} {time_left.used:>5.0f} s of {time_left.seconds:.0f}  "
                          f"{result['status']:<8} {check.title} ({result['seconds']} s) {error}".rstrip(), flush=True)
                    for row in table.measured([result]):
                        print(" " * 8 + " | ".join(table.cells(row)).rstrip(" |"), flush=True)
                    told(results)
    return results


__all__ = ["Budget", "perform", "run", "separately"]
