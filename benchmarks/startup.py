"""One cold start, in a process of its own: prints JSON with the milliseconds of each stage.

    python -m benchmarks.startup "MLP 8-64-32-10, batch 8"

`engine_ms` is loading LLVM and the runtime object, `compile_ms` what the function reports as its preparation,
`first_call_ms` the whole first step.
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    """Measure the workload named on the command line."""
    from benchmarks.systems import jitgrad_script
    from benchmarks.workloads import all_workloads

    workload = next(w for w in all_workloads() if w.name == sys.argv[1])
    import jitgrad
    from jitgrad.codegen.run import runtime

    started = time.perf_counter()
    runtime.symbols()
    ready = time.perf_counter() - started
    scripted = []
    script = jitgrad.script

    def remembering(f):
        scripted.append(script(f))
        return scripted[-1]

    jitgrad.script = remembering
    step = jitgrad_script(workload)
    started = time.perf_counter()
    step()
    first = time.perf_counter() - started
    info = scripted[0].cache_info()
    print(json.dumps({"workload": workload.name, "engine_ms": 1e3 * ready, "compile_ms": scripted[0].compile_ms,
                      "first_call_ms": 1e3 * first, "disk_hits": info.disk_hits}))


if __name__ == "__main__":
    main()
