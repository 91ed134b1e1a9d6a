"""What the first call of a program costs, cold and from the disk cache, and how that grows with its equal blocks.

    python -m benchmarks.compiling [--programs gpt-1 gpt-12 resnet-50 loop-6 small-1] [--runs 3] [--stages]

Each figure is the best of some runs, each in a process of its own with byte-compiled sources and the run-time library
on disk, on one thread. `first call` is all that the user waits for, imports of the compiler included; `CPU` the
processor time of the same; `compile` what the function reports as its preparation; `check` the guards of a later call.
Of LLVM's input, `good` are the lines that it optimises (kernels and loops), `quick` the others, `longest` the lines of
the longest function. `--stages`: a second table says where the CPU time of cold compilation goes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

PROGRAMS = ("small-1", *[f"gpt-{n}" for n in (1, 2, 6, 12, 24, 48)], *[f"resnet-{n}" for n in (18, 50, 101)], "loop-6")
#: stage -> module, and the function or method in it; stages in others are counted for these alone
STAGES = {
    "key": ("script.stored.diskcache", "key"), "frontend": ("script.frontend.build", "build"),
    "passes": ("script.passes.pipeline", "apply"), "lower": ("codegen.run.compile", "lower"),
    "print": ("codegen.llvm.module", "ModuleText.add"), "LLVM": ("codegen.llvm.engine", "compile_module"),
    "link": ("codegen.llvm.engine", "load"), "entry": ("script.call.specialisation", "Specialisation._write_enter"),
    "save": ("script.stored.diskcache", "save")}


class Stages:
    """Milliseconds of CPU by stage: wraps the functions of `STAGES`, after importing all of the compiler."""

    def __init__(self) -> None:
        started = time.process_time()
        self.spent = dict.fromkeys(("imports", *STAGES), 0.0)
        self.open: dict[int, list[str]] = {}  # by thread
        found = {stage: importlib.import_module(f"jitgrad.{module}") for stage, (module, _) in STAGES.items()}
        self.spent["imports"] = 1e3 * (time.process_time() - started)
        for stage, holder in found.items():
            *around, name = STAGES[stage][1].split(".")
            for outer in around:
                holder = getattr(holder, outer)
            setattr(holder, name, self.timed(stage, getattr(holder, name)))

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            started, around = time.thread_time(), self.open.setdefault(threading.get_ident(), [])
            around.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                took = 1e3 * (time.thread_time() - started)
                around.pop()
                self.spent[stage] += took
                if around:
                    self.spent[around[-1]] -= took

        return wrapped


def llvm_lines(good: str, quick: str) -> dict[str, int]:
    """How much LLVM is given."""
    functions = re.findall(r"^define[^\n]*\n(.*?)^\}", good + quick, re.MULTILINE | re.DOTALL)
    return {"good": good.count("\n"), "quick": quick.count("\n"),
            "longest": max([text.count("\n") for text in functions], default=0)}


def first_call(name: str, stages: bool) -> dict[str, Any]:
    """In this process: the figures of one first call."""
    import jitgrad
    from benchmarks.models import by_name
    from jitgrad.codegen.llvm import engine
    from jitgrad.codegen.run import runtime

    runtime.symbols()
    given: list[tuple[str, str]] = []
    compile_module = engine.compile_module

    def counted(good: str, quick: str = "") -> bytes:
        given.append((good, quick))
        return compile_module(good, quick)

    engine.compile_module = counted
    function, arguments = by_name(name)(jitgrad)
    step = jitgrad.script(function)
    spent = Stages().spent if stages else {}
    wall, cpu = time.perf_counter(), time.process_time()
    step(*arguments)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    taken, compiled, from_disk = dict(spent), step.compile_ms, step.cache_info().disk_hits
    lines = llvm_lines(*map("".join, zip(("", ""), *given)))  # noqa: B905  (of nothing, too)
    step(*arguments)  # may be another specialisation: gradients are there now
    again = time.process_time()
    step(*arguments)
    again = time.process_time() - again
    specialisation = step.specialisations[0]
    checks = []
    for _ in range(200):
        started = time.perf_counter()
        specialisation.enter(arguments)
        checks.append(time.perf_counter() - started)
    if stages:
        taken["other"] = 1e3 * (cpu - again) - sum(taken.values()) + taken["imports"]
        return taken | {"disk": from_disk}
    return {"first call ms": 1e3 * wall, "CPU ms": 1e3 * cpu, "compile ms": compiled, "check us": 1e6 * min(checks),
            "kernels": len(step.kernels()), **lines, "disk": from_disk}


def _process(name: str, cache: str, stages: bool) -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"JITGRAD_CACHE": cache, "JITGRAD_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-m", "benchmarks.compiling", "--process", name, *["--stages"] * stages],
                         env=environment, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def _clear(cache: str) -> None:
    subprocess.run([sys.executable, "-m", "jitgrad", "cache", "--clear", "--keep-runtime"], check=True,
                   env=os.environ | {"JITGRAD_CACHE": cache}, stdout=subprocess.DEVNULL)


def best(name: str, runs: int, cache: str, stages: bool = False) -> dict[str, dict[str, Any]]:
    """By state of the disk cache, the least of every figure."""
    found: dict[str, list[dict[str, Any]]] = {"cold": []} if stages else {"cold": [], "disk": []}
    for _ in range(runs):
        _clear(cache)
        for state, figures in found.items():
            figures.append(_process(name, cache, stages))
            assert figures[-1].pop("disk") == (state == "disk"), "the disk cache was not in the state to be measured"
    return {state: {key: min(f[key] for f in figures) for key in figures[0]} for state, figures in found.items()}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", default=PROGRAMS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process is not None:
        print(json.dumps(first_call(options.process, options.stages)))
        return
    with tempfile.TemporaryDirectory() as cache:
        print("| program | cache | first call ms | CPU ms | compile ms | check µs | kernels | good | quick | longest |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
        for name in options.programs:
            for state, row in best(name, options.runs, cache).items():
                print(f"| {name} | {state} | " + " | ".join(f"{v:.0f}" for v in row.values()) + " |", flush=True)
        if options.stages:
            print("\n| program, cold, CPU ms | " + " | ".join(("imports", *STAGES, "other")) + " |")
            print("| --- |" + " ---: |" * (len(STAGES) + 2))
            for name in options.programs:
                row = best(name, options.runs, cache, stages=True)["cold"]
                print(f"| {name} | " + " | ".join(f"{v:.0f}" for v in row.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
