"""Eager operations beside PyTorch's, on one thread: `python -m benchmarks.eager [--only norm] [--json FILE]`.

Each is timed forward and with its gradient, on about a thousand elements and on a million. Both systems take turns in
one process; figures are the least of many runs, since another process that needs the core only ever adds. x is
PyTorch's time over ours.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # whoever imports this keeps its threads
    for _name in ("JITGRAD_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, "1")  # read when the libraries are loaded

import numpy as np

from benchmarks.machine import tell

#: an operation of a library (`jitgrad` or `torch`), of its `nn.functional`, and of the operands
Op = Callable[[Any, Any, list[Any]], Any]
#: rows and columns of what is small and of what is large
SHAPES = {"1k": (32, 32), "1M": (1024, 1024)}


def operations() -> dict[str, tuple[str, Op]]:
    """Per name: its operands (a letter each, see `operands`) and what is done to them."""
    return {
        "add": ("xy", lambda t, F, v: v[0] + v[1]),
        "mul": ("xy", lambda t, F, v: v[0] * v[1]),
        "div": ("xp", lambda t, F, v: v[0] / v[1]),
        "add, broadcast": ("xw", lambda t, F, v: v[0] + v[1]),
        "exp": ("x", lambda t, F, v: v[0].exp()),
        "log": ("p", lambda t, F, v: v[0].log()),
        "sqrt": ("p", lambda t, F, v: v[0].sqrt()),
        "pow 2": ("x", lambda t, F, v: v[0] ** 2),
        "pow 3": ("x", lambda t, F, v: v[0] ** 3),
        "pow 2.5": ("p", lambda t, F, v: v[0] ** 2.5),
        "tanh": ("x", lambda t, F, v: v[0].tanh()),
        "sigmoid": ("x", lambda t, F, v: v[0].sigmoid()),
        "relu": ("x", lambda t, F, v: F.relu(v[0])),
        "leaky_relu": ("x", lambda t, F, v: F.leaky_relu(v[0])),
        "gelu": ("x", lambda t, F, v: F.gelu(v[0])),
        "silu": ("x", lambda t, F, v: F.silu(v[0])),
        "softplus": ("x", lambda t, F, v: F.softplus(v[0])),
        "where": ("xy", lambda t, F, v: t.where(v[0] > 0, v[0], v[1])),
        "clamp": ("x", lambda t, F, v: v[0].clamp(-1.0, 1.0)),
        "maximum": ("xy", lambda t, F, v: t.maximum(v[0], v[1])),
        "sum": ("x", lambda t, F, v: v[0].sum()),
        "sum, rows": ("x", lambda t, F, v: v[0].sum(1)),
        "sum, columns": ("x", lambda t, F, v: v[0].sum(0)),
        "mean": ("x", lambda t, F, v: v[0].mean()),
        "var, rows": ("x", lambda t, F, v: v[0].var(1)),
        "norm": ("x", lambda t, F, v: v[0].norm()),
        "amax, rows": ("x", lambda t, F, v: v[0].amax(1)),
        "logsumexp": ("x", lambda t, F, v: v[0].logsumexp(1)),
        "softmax": ("x", lambda t, F, v: v[0].softmax(1)),
        "log_softmax": ("x", lambda t, F, v: v[0].log_softmax(1)),
        "cumsum": ("x", lambda t, F, v: v[0].cumsum(1)),
        "cumprod": ("c", lambda t, F, v: v[0].cumprod(1)),
        "layer_norm": ("xww", lambda t, F, v: F.layer_norm(v[0], v[0].shape[1:], v[1], v[2])),
        "group_norm": ("x", lambda t, F, v: F.group_norm(v[0].reshape(16, 16, -1), 4)),
        "batch_norm": ("xww", lambda t, F, v: F.batch_norm(v[0], None, None, v[1], v[2], training=True)),
        "batch_norm, images": ("xww", lambda t, F, v: F.batch_norm(
            v[0].reshape(-1, v[1].shape[0], 4, 4), None, None, v[1], v[2], training=True)),
        "mse_loss": ("xy", lambda t, F, v: F.mse_loss(v[0], v[1])),
        "smooth_l1_loss": ("xy", lambda t, F, v: F.smooth_l1_loss(v[0], v[1])),
        "binary_cross_entropy_with_logits": ("xu", lambda t, F, v: F.binary_cross_entropy_with_logits(v[0], v[1])),
        "cross_entropy": ("xi", lambda t, F, v: F.cross_entropy(v[0], v[1])),
        "nll_loss": ("xi", lambda t, F, v: F.nll_loss(v[0], v[1])),
        "dropout": ("x", lambda t, F, v: F.dropout(v[0], 0.5)),
        "matmul": ("xy", lambda t, F, v: v[0][:64] @ v[1]),
        "transpose, contiguous": ("x", lambda t, F, v: v[0].t().contiguous()),
        "cat": ("xy", lambda t, F, v: t.cat([v[0], v[1]], 1)),
        "slice": ("x", lambda t, F, v: v[0][:, 1:] * 1.0),
        "gather": ("xj", lambda t, F, v: v[0].gather(1, v[1])),
        "index_select": ("xi", lambda t, F, v: v[0].index_select(0, v[1])),
        "embedding": ("xi", lambda t, F, v: F.embedding(v[1], v[0])),
        "sort": ("x", lambda t, F, v: v[0].sort(1)[0]),
        "topk": ("x", lambda t, F, v: v[0].topk(10, 1)[0]),
        "median": ("x", lambda t, F, v: v[0].median(1)[0]),
        "max, rows": ("x", lambda t, F, v: v[0].max(1)[0]),
    }


def operands(letters: str, shape: tuple[int, int], make: Callable[[Any], Any]) -> list[Any]:
    """What the letters stand for: x, y any numbers, p positive, c near 1, u in [0, 1), w a row; i indices of rows, j of
    elements.

    Floats require a gradient, all but u.
    """
    rows, columns = shape
    found, rng = [], np.random.default_rng(0)
    for letter in letters:
        if letter in "ij":
            found.append(make(rng.integers(0, min(shape), rows if letter == "i" else shape)))
            continue
        a = (rng.uniform(0.5, 2.0, shape) if letter == "p" else rng.random(shape) if letter == "u" else
             1 + 0.01 * rng.standard_normal(shape) if letter == "c" else
             rng.standard_normal(columns if letter == "w" else shape))
        t = make(a.astype(np.float32))
        found.append(t if letter == "u" else t.requires_grad_())
    return found


def runs(library: Any, make: Callable[[Any], Any], letters: str, op: Op, shape: tuple[int, int]
         ) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The operation without a gradient, and with that of all operands."""
    values = operands(letters, shape, make)
    functional, floats = library.nn.functional, [v for v in values if v.requires_grad]
    with library.no_grad():
        ones = library.ones_like(op(library, functional, values))

    def forward() -> Any:
        with library.no_grad():
            return op(library, functional, values)

    def backward() -> Any:
        op(library, functional, values).backward(ones)
        found = [v.grad for v in floats]
        for v in floats:
            v.grad = None
        return found

    return forward, backward


def best_us(functions: list[Callable[[], Any]], seconds: float) -> list[float]:
    """Microseconds of the fastest of some runs of each, which take turns."""
    best, repeats = [math.inf] * len(functions), []
    for function in functions:
        function()
        function()
        started = time.perf_counter()
        function()
        repeats.append(max(1, int(2e-4 / max(1e-7, time.perf_counter() - started))))
    ends, rounds = time.perf_counter() + seconds, 0
    while time.perf_counter() < ends or rounds < 5:
        rounds += 1
        for k, function in enumerate(functions):
            started = time.perf_counter()
            for _ in range(repeats[k]):
                function()
            best[k] = min(best[k], 1e6 * (time.perf_counter() - started) / repeats[k])
    return best


def measure(letters: str, op: Op, seconds: float, systems: dict[str, tuple[Any, Callable[[Any], Any]]]
            ) -> dict[str, dict[str, float]]:
    """Per size and direction, the microseconds of each system."""
    found = {}
    for size, shape in SHAPES.items():
        both = {name: runs(library, make, letters, op, shape) for name, (library, make) in systems.items()}
        for k, direction in enumerate(("forward", "with gradient")):
            us = best_us([pair[k] for pair in both.values()], seconds)
            found[f"{size} {direction}"] = dict(zip(both, us, strict=True))
    return found


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Markdown."""
    columns = [f"{size} {direction}" for size in SHAPES for direction in ("forward", "with gradient")]
    lines = ["| operation | " + " | ".join([f"{c} µs: ours | torch | x" for c in columns]) + " |",
             "| --- |" + " ---: |" * (3 * len(columns))]
    for name, result in results.items():
        cells = []
        for column in columns:
            us, torch = result[column]["jitgrad"], result[column].get("torch")
            cells += [f"{us:.4g}", "-", "-"] if torch is None else [f"{us:.4g}", f"{torch:.4g}", f"{torch / us:.2f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if any("torch" in us for result in results.values() for us in result.values()):
        cells = []
        for column in columns:
            ratios = [r[column]["torch"] / r[column]["jitgrad"] for r in results.values()]
            cells += ["", f"under 0.5: {sum(x < 0.5 for x in ratios)}",
                      f"**{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}**"]
        lines.append("| **geometric mean** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operations whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each size and direction")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    args = parser.parse_args()
    import jitgrad

    systems: dict[str, Any] = {"jitgrad": (jitgrad, lambda a: jitgrad.from_numpy(a))}
    try:
        import torch

        torch.set_num_threads(1)
        systems["torch"] = torch, torch.from_numpy
    except ImportError:
        pass
    results = {}
    for name, (letters, op) in operations().items():
        if args.only in name:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            results[name] = measure(letters, op, args.seconds, systems)
    tell(results, table(results), args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
