"""Eager against scripted, and against PyTorch and JAX where they are installed.

    make bench                                   # or: python -m benchmarks [--quick] [--only RNN] [--json FILE]

All systems take turns in one process, so that a noisy moment hits all alike; figures are medians over rounds, the
ratios are medians of per-round ratios to jitgrad eager and to torch eager. Cold compile, first call and steady state
are told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import alternate, tell
from benchmarks.systems import SYSTEMS, CannotRun, Step, first_call_ms
from benchmarks.workloads import Workload, all_workloads


def measure(workload: Workload, rounds: int, seconds: float) -> dict[str, Any]:
    """Microseconds per step of every system that can run this workload."""
    steps: dict[str, Step] = {}
    rows: dict[str, dict[str, Any]] = {}
    for name, make in SYSTEMS.items():
        try:
            steps[name], first = first_call_ms(make, workload)
            rows[name] = {"first_call_ms": first}
        except CannotRun as reason:
            rows[name] = {"reason": str(reason)}
    samples = alternate(steps, rounds, seconds, warm=5)
    for name, values in samples.items():
        rows[name] |= {"us": statistics.median(values), "min_us": min(values), "max_us": max(values)}
        for base in ("jitgrad eager", "torch eager"):
            if base in samples:
                ratios = [a / b for a, b in zip(values, samples[base], strict=True)]
                rows[name][f"ratio to {base}"] = statistics.median(ratios)
    return rows


def cold_starts(workload: Workload) -> dict[str, Any]:
    """Three processes: nothing on disk; the runtime object on disk; the program on disk too."""
    result = {}
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"JITGRAD_CACHE": cache}
        for stage in ("first use on a machine", "cold compile", "from the disk cache"):
            if stage == "cold compile":  # keep the runtime object, drop the programs
                subprocess.run([sys.executable, "-m", "jitgrad", "cache", "--clear", "--keep-runtime"], env=environment,
                               check=True, stdout=subprocess.DEVNULL)
            run = subprocess.run([sys.executable, "-m", "benchmarks.startup", workload.name], env=environment,
                                 check=True, capture_output=True, text=True)
            result[stage] = json.loads(run.stdout.splitlines()[-1])
    return result


def table(results: dict[str, Any]) -> str:
    """Markdown."""
    lines = ["| workload | system | µs per step | min-max | x jitgrad eager | x torch eager | first call ms |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for workload, result in results.items():
        for system, row in result["steps"].items():
            if "reason" in row:
                lines.append(f"| {workload} | {system} | cannot run: {row['reason']} | | | | |")
                continue
            ratios = [f"{row[k]:.2f}" if k in row else "" for k in ("ratio to jitgrad eager", "ratio to torch eager")]
            lines.append(f"| {workload} | {system} | {row['us']:.1f} | {row['min_us']:.1f}-{row['max_us']:.1f} | "
                         f"{ratios[0]} | {ratios[1]} | {row['first_call_ms']:.0f} |")
    if any("cold" in r for r in results.values()):
        lines += ["", "| workload | stage | runtime ready ms | compile ms | first call ms |",
                  "| --- | --- | ---: | ---: | ---: |"]
        for workload, result in results.items():
            for stage, row in result.get("cold", {}).items():
                lines.append(f"| {workload} | {stage} | {row['engine_ms']:.0f} | {row['compile_ms']:.1f} | "
                             f"{row['first_call_ms']:.1f} |")
    return "\n".join(lines)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds; no cold starts")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    args = parser.parse_args()
    results: dict[str, Any] = {}
    for workload in all_workloads():
        if args.only not in workload.name:
            continue
        print(f"measuring {workload.name} ...", file=sys.stderr, flush=True)
        results[workload.name] = {"steps": measure(workload, 3 if args.quick else 15, 0.02 if args.quick else 0.1)}
        if not args.quick:
            results[workload.name]["cold"] = cold_starts(workload)
    tell(results, table(results), args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
