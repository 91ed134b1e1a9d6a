"""What a call costs besides the work: one scripted call, one eager operation, one import.

    python -m benchmarks.bench_call [--json FILE]

Microseconds are the minimum over rounds of the mean over calls. An import is a whole process, minimum of ten, taking
turns with `import numpy`.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any


def microseconds(function: Callable[[], Any], calls: int = 2000, rounds: int = 30) -> float:
    """The least mean time of a call."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter() - started) / calls)
    return 1e6 * best


def scripted_calls() -> dict[str, float]:
    """A scripted function of five small tensors, in each situation that a call can be in."""
    import jitgrad

    def f(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return a * b + c * d + e

    x = [jitgrad.full((4,), float(k)) for k in range(5)]
    w = [jitgrad.full((4,), float(k), requires_grad=True) for k in range(5)]
    g = jitgrad.ones(4)
    scripted = jitgrad.script(f)

    class Net(jitgrad.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b, self.c, self.d, self.e = (jitgrad.nn.Parameter(t.detach()) for t in w[1:])

        def forward(self, a: Any) -> Any:
            return a * self.b + self.c * self.d + self.e

    net = jitgrad.script(Net())

    def update(a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
        a.add_(b * c + d * e)

    updating = jitgrad.script(update)
    found = {
        "five tensors, no gradient": lambda: scripted(*x),
        "five tensors, gradients recorded": lambda: scripted(*w),
        "forward and backward": lambda: scripted(*w).backward(g),
        "module, four parameters": lambda: net(x[0]),
        "in-place, five tensors": lambda: updating(*x),
    }
    return {name: microseconds(call) for name, call in found.items()}


def eager_calls() -> dict[str, float]:
    """Eager operations on small tensors, and NumPy's on arrays of the same size."""
    import numpy as np

    import jitgrad

    a, b = jitgrad.ones(4), jitgrad.full((4,), 2.0)
    v, w = jitgrad.ones(4, requires_grad=True), jitgrad.full((4,), 2.0, requires_grad=True)
    z = jitgrad.linspace(-3.0, 3.0, 100_000, dtype=jitgrad.float64)
    m, n = np.ones(4, np.float32), np.full(4, 2.0, np.float32)
    found = {
        "a * b, NumPy arrays": lambda: m * n,
        "a * b": lambda: a * b,
        "a * b, gradients recorded": lambda: v * w,
        "a.tanh()": lambda: a.tanh(),
        "(a * b).sum().backward()": lambda: (v * w).sum().backward(),
    }
    functions = {f"{f.__name__}, 100,000 float64": partial(f, z) for f in (jitgrad.erf, jitgrad.erfinv, jitgrad.lgamma)}
    large = {name: microseconds(call, calls=5, rounds=10) for name, call in functions.items()}
    return {**{name: microseconds(call) for name, call in found.items()}, **large}


def imports(repeats: int = 10) -> dict[str, float]:
    """Milliseconds of `python -c "import ..."`, and ratios to NumPy's; the library loads NumPy with its first use."""
    programs = {"numpy": "import numpy", "jitgrad": "import jitgrad",
                "jitgrad and a first tensor": "import jitgrad; jitgrad.ones(2)"}
    best = dict.fromkeys(programs, float("inf"))
    for _ in range(repeats):
        for name, program in programs.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            best[name] = min(best[name], 1e3 * (time.perf_counter() - started))
    ratios = {f"{name} / numpy": best[name] / best["numpy"] for name in list(programs)[1:]}
    return {**best, **ratios}


def main() -> None:
    """Measure, print a table, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    figures = {"import_ms": imports(), "scripted_us": scripted_calls(), "eager_us": eager_calls()}
    titles = {"import_ms": "import, whole process, ms", "scripted_us": "scripted call, us", "eager_us": "eager, us"}
    for kind, title in titles.items():
        print(title)
        for name, value in figures[kind].items():
            print(f"  {name:<36}{value:8.2f}")
    if args.json:
        args.json.write_text(json.dumps({**figures, "machine": platform.machine(), "python": platform.python_version()},
                                        indent=1) + "\n")


if __name__ == "__main__":
    main()
