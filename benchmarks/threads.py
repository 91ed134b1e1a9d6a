"""What two and more threads give: the programs of the table of peers on each number of threads.

    python -m benchmarks.threads [--threads 1 2] [--only LSTM] [--seconds 1]

All numbers of threads take turns. Figures are the least of some hundred steps, since another process that needs a core
only ever adds; x is the first number's time over the last's. Where a program has an optimizer, the step is one script.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import jitgrad
from benchmarks.machine import tell
from benchmarks.peers import Run, torch_like
from benchmarks.programs import programs

#: steps on one number of threads before it is the next one's turn, after one that makes the threads
TURN = 4


def measure(run: Run, threads: list[int], seconds: float, calls: int = 1) -> list[float]:
    """Microseconds of a run on each number of threads, over some calls."""
    before, best = jitgrad.get_num_threads(), dict.fromkeys(threads, float("inf"))
    ends = time.perf_counter() + seconds
    while True:
        for count in threads:
            jitgrad.set_num_threads(count)
            for k in range(1 + TURN):
                started = time.perf_counter()
                for _ in range(calls):
                    run()
                if k:
                    best[count] = min(best[count], 1e6 * (time.perf_counter() - started) / calls)
        if time.perf_counter() >= ends:
            jitgrad.set_num_threads(before)
            return list(best.values())


def table(results: dict[str, dict[str, Any]], threads: list[int]) -> str:
    """Markdown."""
    lines = ["| program | " + " | ".join([f"{count} µs" for count in threads]) + " | x |",
             "| --- |" + " ---: |" * (len(threads) + 1)]
    lines += [f"| {name} | " + " | ".join([f"{us:.0f}" for us in r["us"]]) + f" | {r['x']:.2f} |"
              for name, r in results.items()]
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, jitgrad.get_num_threads()}))
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each program")
    args = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for program in programs():
        if args.only not in program.name:
            continue
        print(f"measuring {program.name} ...", file=sys.stderr, flush=True)
        run, calls = torch_like(jitgrad, program, jitgrad.script, program.optimizer is not None), len(program.data)
        for _ in range(2 * calls):
            run()
        us = measure(run, args.threads, args.seconds, calls)
        results[program.name] = {"us": us, "x": us[0] / us[-1]}
    tell(results, table(results, args.threads), None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
