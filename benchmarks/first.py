"""The first call and the memory of the programs of the table of peers, every system in processes of its own.

    python -m benchmarks.first [--only RNN] [--runs 3] [--json FILE]

`new` is the first call of a program that no cache has, in a process that has imported its library and made its data:
what is imported late, compilation and one step. `disk` is the same with the program in the disk cache, `nothing` with
no cache at all, where jitgrad compiles its run-time library too. PyTorch's eager step and script and JAX's first call
are measured likewise. Medians of some runs. Memory is the most that a process takes for its first call and twenty
steps: above what it had after its imports and arguments, and in all.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.machine import tell

#: column -> system of `peers.systems`, and the state of the disk cache
COLUMNS = {"nothing": ("jitgrad", "nothing"), "new": ("jitgrad", "new"), "disk": ("jitgrad", "disk"),
           "jitgrad eager": ("jitgrad eager", "disk"), "torch eager": ("torch eager", "disk"),
           "jit.script": ("torch.jit.script", "disk"), "JAX": ("jax.jit", "disk")}
STEPS = 20


def _status(field: str) -> int:
    """Bytes that the system's record of this process has under a name; 0 where there is no such record."""
    record = Path("/proc/self/status")
    if not record.exists():
        return 0
    found = next(line for line in record.read_text().splitlines() if line.startswith(field))
    return 1024 * int(found.split()[1])


def first_call(name: str, system: str) -> dict[str, float]:
    """In this process: milliseconds of the first call, and bytes at most from then on."""
    from benchmarks.peers import systems
    from benchmarks.programs import programs

    program = next(p for p in programs() if p.name == name)
    found = systems(program, False)
    if system == "jitgrad":
        system = "jitgrad step" if "jitgrad step" in found else "jitgrad loss"
    run = found[system]()
    before = _status("VmRSS")
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")  # the peak starts over
    started = time.perf_counter()
    run()
    first = time.perf_counter() - started
    for _ in range(STEPS):
        run()
    peak = _status("VmHWM")
    return {"ms": 1e3 * first, "bytes": peak - before, "whole": peak}


def _process(name: str, system: str, cache: str) -> dict[str, float]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run([sys.executable, "-m", "benchmarks.first", "--process", name, system], check=False, text=True,
                         env=environment | {"JITGRAD_CACHE": cache}, capture_output=True)
    if run.returncode:
        return {}  # a peer that is not installed, or cannot run this
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def _clear(cache: str, *options: str) -> None:
    subprocess.run([sys.executable, "-m", "jitgrad", "cache", "--clear", *options], check=True,
                   env=os.environ | {"JITGRAD_CACHE": cache}, stdout=subprocess.DEVNULL)


def measure(name: str, runs: int, cache: str) -> dict[str, dict[str, float]]:
    """By column, the medians."""
    found: dict[str, list[dict[str, float]]] = {column: [] for column in COLUMNS}
    for _ in range(runs):
        for column, (system, state) in COLUMNS.items():
            if state != "disk":
                _clear(cache, *["--keep-runtime"] * (state == "new"))
            found[column].append(_process(name, system, cache))
    return {column: {key: statistics.median(r[key] for r in results) for key in results[0]}
            for column, results in found.items() if all(results)}


def measure_all(only: str = "", runs: int = 3) -> dict[str, dict[str, dict[str, float]]]:
    """What `measure` finds of each program whose name contains `only`; says on the way what it does."""
    from benchmarks.programs import programs

    results = {}
    with tempfile.TemporaryDirectory() as cache:
        for name in (p.name for p in programs() if only in p.name):
            print(f"first calls of {name} ...", file=sys.stderr, flush=True)
            results[name] = measure(name, runs, cache)
    return results


def _table(results: dict[str, dict[str, dict[str, float]]], columns: dict[str, str], key: str, unit: float) -> str:
    """Markdown; `columns`: those of `COLUMNS`, and how they are called."""
    lines = ["| program | " + " | ".join(columns.values()) + " |", "| --- |" + " ---: |" * len(columns)]
    cells = {name: {c: found[c][key] / unit for c in columns if c in found} for name, found in results.items()}
    for name, found in cells.items():
        lines.append(f"| {name} | " + " | ".join(f"{found[c]:.0f}" if c in found else "" for c in columns) + " |")
    known = {c: [found[c] for found in cells.values() if c in found] for c in columns}
    middle = [f"**{statistics.median(values):.0f}**" if values else "" for values in known.values()]
    return "\n".join([*lines, "| **median** | " + " | ".join(middle) + " |"])


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Markdown: a table of first calls, two of memory."""
    titles = {c: f"jitgrad, {c}" if system == "jitgrad" else c for c, (system, _) in COLUMNS.items()}
    memory = {c: title for c, title in titles.items() if c != "nothing"}
    return "\n\n".join(["First call, ms", _table(results, titles, "ms", 1),
                        "Memory, MB at most, above what imports and arguments take",
                        _table(results, memory, "bytes", 1e6), "Memory, MB at most, of the whole process",
                        _table(results, memory, "whole", 1e6)])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--process", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process is not None:
        print(json.dumps(first_call(*options.process)))
        return 0
    results = measure_all(options.only, options.runs)
    tell(results, table(results), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
