"""What figures were measured on, and how they are told."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def _processor() -> str:
    """Its maker's name for it, where the system tells."""
    told = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", told.read_text(), re.MULTILINE) if told.exists() else []
    return f"{names[0]} ({platform.machine()})" if names else platform.machine()


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    from importlib.metadata import PackageNotFoundError, version

    facts = {"date": time.strftime("%Y-%m-%d"), "processor": _processor(), "python": platform.python_version(),
             "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())}
    for package in ("jitgrad", "numpy", "llvmlite", "torch", "jax"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def alternate(runs: Mapping[str, Callable[[], Any]], rounds: int, seconds: float, warm: int = 1, turns: int = 1
              ) -> dict[str, list[float]]:
    """Microseconds of each run in each round, in which all take turns: a noisy moment hits all alike.

    Args:
        seconds: for about which each is repeated in a round.
        warm: calls before anything is measured.
        turns: how many calls go through all that a run has to do: it is repeated so many times, or a multiple.
    """
    repeats, samples = {}, {name: list[float]() for name in runs}
    for name, run in runs.items():
        for _ in range(warm):
            run()
        started = time.perf_counter()
        run()
        repeats[name] = turns * max(1, int(seconds / turns / max(1e-6, time.perf_counter() - started)))
    for _ in range(rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            samples[name].append(1e6 * (time.perf_counter() - started) / repeats[name])
    return samples


def described() -> str:
    """One line: what the figures were measured on."""
    return ", ".join(f"{k} {v}" for k, v in machine().items())


def write(results: dict[str, Any], file: Path | None) -> None:
    """All figures to a file, if one is given."""
    if file is not None:
        file.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))


def tell(results: dict[str, Any], table: str, file: Path | None) -> None:
    """Print the machine and the table of results; write all figures to a file, if one is given."""
    print(f"{described()}\n\n{table}")
    write(results, file)
