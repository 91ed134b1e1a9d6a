"""What the first call of a GPT's whole training step costs, cold and from the disk cache, and how it grows with layers.

    python -m benchmarks.compiling [--layers 3 6 12] [--runs 3]

Each figure is the best of some runs, each in a process of its own with byte-compiled sources and the runtime object on
disk. `first call` is all that the user waits for, imports of the compiler included; `CPU` the processor time of the
same; `compile` what the function reports as its preparation; `check` the guards of a later call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any


def first_call(layers: int) -> dict[str, Any]:
    """In this process: the figures of one first call."""
    import jitgrad
    from benchmarks.models import gpt
    from jitgrad.codegen.run import runtime

    runtime.symbols()
    function, arguments = gpt(layers)(jitgrad)
    step = jitgrad.script(function)
    wall, cpu = time.perf_counter(), time.process_time()
    step(*arguments)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    specialisation = step.specialisations[0]
    checks = []
    for _ in range(200):
        started = time.perf_counter()
        specialisation.enter(arguments)
        checks.append(time.perf_counter() - started)
    return {"first call ms": 1e3 * wall, "CPU ms": 1e3 * cpu, "compile ms": step.compile_ms,
            "check us": 1e6 * min(checks), "kernels": len(step.kernels()), "disk": step.cache_info().disk_hits}


def _process(layers: int, cache: str) -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"JITGRAD_CACHE": cache}
    run = subprocess.run([sys.executable, "-m", "benchmarks.compiling", "--process", str(layers)], env=environment,
                         check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def best(layers: int, runs: int) -> dict[str, dict[str, Any]]:
    """By stage, the least of every figure."""
    stages: dict[str, list[dict[str, Any]]] = {"cold": [], "disk": []}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(runs):
            subprocess.run([sys.executable, "-m", "jitgrad", "cache", "--clear", "--keep-runtime"], check=True,
                           env=os.environ | {"JITGRAD_CACHE": cache}, stdout=subprocess.DEVNULL)
            for stage, found in stages.items():
                found.append(_process(layers, cache))
                assert found[-1].pop("disk") == (stage == "disk"), "the disk cache was not in the state to be measured"
    return {stage: {key: min(f[key] for f in found) for key in found[0]} for stage, found in stages.items()}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[3, 6, 12])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process is not None:
        print(json.dumps(first_call(options.process)))
        return
    print("| layers | stage | first call ms | CPU ms | compile ms | check µs | kernels |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    cold = {}
    for layers in options.layers:
        for stage, row in best(layers, options.runs).items():
            print(f"| {layers} | {stage} | " + " | ".join(f"{v:.0f}" for v in row.values()) + " |", flush=True)
            if stage == "cold":
                cold[layers] = row["CPU ms"]
    few, many = min(cold), max(cold)
    if few < many:
        print(f"\none more layer: {(cold[many] - cold[few]) / (many - few):.0f} ms of CPU, cold")


if __name__ == "__main__":
    main()
