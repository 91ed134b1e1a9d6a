"""`python -m tools.devcheck.programs [--large | --time] [NAME ...]`: workloads for tools that watch a process.

Each is run until it is replayed as a graph, at its tiny sizes, or at those that are measured; a profiler that waits to
be told (`ncu --profile-from-start off`) sees one call, whose kernels are launched one by one. `--time` has no other
tool: it tells the microseconds of a run at the sizes that are measured, without peers.
"""

from __future__ import annotations

import argparse
from typing import Any

from tools.devcheck.workloads import WORKLOADS

#: fewer steps of a loop, of which all are alike
SHORTER = {"lstm": {"t": 4}}


def watched(name: str, large: bool) -> None:
    """Run a workload: one call under the profiler."""
    import jitgrad
    from jitgrad.codegen.cuda.driver.libraries import cupy
    from jitgrad.codegen.cuda.graphs import replay

    if large:
        replay.WARM = 1 << 30  # a profiler tells kernels of graphs apart, but not which call they are of
    made = WORKLOADS[name]
    sizes: dict[str, Any] = {**made.sizes, **SHORTER.get(name, {})} if large else dict(made.tiny)
    run = made.make(jitgrad, "cuda", jitgrad.script, **sizes)
    for _ in range(4):
        run()
    jitgrad.cuda.synchronize()
    profiler = cupy().cuda.profiler
    profiler.start()
    run()
    jitgrad.cuda.synchronize()
    profiler.stop()


def timed(name: str) -> float:
    """Microseconds of a run of a workload, as `benchmarks.measured` has them."""
    import jitgrad
    from tools.devcheck.benchmarks import measured

    made = WORKLOADS[name]
    return measured(made.make(jitgrad, "cuda", jitgrad.script, **made.sizes), jitgrad.cuda.synchronize)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.devcheck.programs", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*WORKLOADS, []], metavar="NAME", help="of a workload (all)")
    parser.add_argument("--large", action="store_true", help="at the sizes that are measured")
    parser.add_argument("--time", action="store_true", help="how long a run takes at those sizes, and nothing else")
    asked = parser.parse_args()
    for name in asked.names or WORKLOADS:
        if asked.time:
            print(f"{name}: {timed(name):.1f} us", flush=True)
            continue
        watched(name, asked.large)
        print(name, flush=True)


if __name__ == "__main__":
    main()
