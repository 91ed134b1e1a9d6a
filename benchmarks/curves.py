"""How time grows: with elements, layers, sequence length and batch; beside PyTorch's eager mode and JAX.

    python -m benchmarks.curves [--quick] [--only elements] [--json FILE] [--plot FILE.png]

Every curve is one program over growing sizes: loss and gradients, medians of alternating rounds in one process, results
compared first. `growth` is by what the time grows from one size to the next, over what the size grows: 1 is in
proportion, more than 2 a cliff. `--plot` draws all curves (needs matplotlib).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import tell
from benchmarks.peers import measure
from benchmarks.programs import Program, jax_rnn_loss, normal, rnn_loss

SYSTEMS = ("jitgrad loss", "jitgrad eager", "torch eager", "jax.jit")
#: growth of time over growth of size above which there is a cliff
CLIFF = 2.0


def pointwise(torch: Any) -> Callable[..., Any]:
    """Some operations on each element, and a sum."""
    def loss(target, x):
        y = (x * 0.9 + 0.1).tanh() * x
        return (y * target).sum()

    return loss


def jax_pointwise(jnp: Any) -> Callable[..., Any]:
    def loss(target, x):
        return (jnp.tanh(x * 0.9 + 0.1) * x * target).sum()

    return loss


def deep(torch: Any) -> Callable[..., Any]:
    """As many layers as there are weights."""
    def loss(x, *weights):
        for w in weights:
            x = (x @ w).tanh()
        return x.pow(2).mean()

    return loss


def jax_deep(jnp: Any) -> Callable[..., Any]:
    def loss(x, *weights):
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    return loss


def _elements(n: int) -> Program:
    return Program(f"{n} elements", pointwise, jax_pointwise, ((normal(n, seed=0),),), (normal(n, seed=1),))


def _layers(n: int) -> Program:
    return Program(f"{n} layers", deep, jax_deep, ((normal(16, 128, seed=0),),),
                   tuple(normal(128, 128, seed=k, scale=128**-0.5) for k in range(n)))


def _steps(n: int) -> Program:
    return Program(f"{n} steps", lambda torch: rnn_loss, jax_rnn_loss,
                   ((normal(n, 8, 32, seed=n), np.zeros((8, 32), np.float32)),),
                   tuple(normal(32, 32, seed=s, scale=0.7 * 32**-0.5) for s in (1, 2)))


def _batch(n: int) -> Program:
    return Program(f"batch of {n}", deep, jax_deep, ((normal(n, 256, seed=0),),),
                   tuple(normal(256, 256, seed=k, scale=1 / 16) for k in range(3)))


#: curve -> its program of a size, and the sizes
CURVES: dict[str, tuple[Callable[[int], Program], tuple[int, ...]]] = {
    "elements": (_elements, tuple(round(10 ** (k / 2)) for k in range(4, 15))),
    "layers": (_layers, (1, 2, 3, 6, 12, 24, 48)),
    "sequence length": (_steps, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)),
    "batch": (_batch, tuple(2**k for k in range(11))),
}


def growth(points: dict[int, dict[str, float]]) -> list[float]:
    """By what our time grows from each size to the next, over what the size grows."""
    pairs = itertools.pairwise([(n, us["jitgrad loss"]) for n, us in points.items()])
    return [b / a / (n / m) for (m, a), (n, b) in pairs]


def table(results: dict[str, dict[int, dict[str, float]]]) -> str:
    """Markdown, a table for each curve."""
    parts = []
    for curve, points in results.items():
        sizes = list(points)
        names = [n for n in SYSTEMS if n in points[sizes[0]]]
        grown = ["", *[f"{s:.2f}" for s in growth(points)]]
        lines = [f"| {curve} | " + " | ".join(f"{n} µs" for n in names) + " | our growth |",
                 "| ---: |" + " ---: |" * (len(names) + 1)]
        for (size, us), g in zip(points.items(), grown, strict=True):
            lines.append(f"| {size} | " + " | ".join(f"{us[n]:.0f}" for n in names) + f" | {g} |")
        parts.append("\n".join(lines))
    worst = max(g for points in results.values() for g in growth(points))
    return "\n\n".join([*parts, f"The largest growth is {worst:.2f}{', a cliff' if worst > CLIFF else ': no cliff'}."])


def plot(results: dict[str, dict[int, dict[str, float]]], file: Path) -> None:
    """One panel a curve, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = dict(zip(SYSTEMS, ("#d9541e", "#efb08f", "#3b6ea5", "#5a9e6f"), strict=True))
    figure, panels = pyplot.subplots(1, len(results), figsize=(4.2 * len(results), 3.6), squeeze=False)
    for panel, (curve, points) in zip(panels[0], results.items(), strict=True):
        for name, colour in colours.items():
            if name in next(iter(points.values())):
                label = {"jitgrad loss": "jitgrad, scripted"}.get(name, name)
                panel.loglog(list(points), [us[name] for us in points.values()], "o-", color=colour, label=label,
                             markersize=3, linewidth=2 if name == "jitgrad loss" else 1.2)
        panel.set_xlabel(curve)
        panel.grid(alpha=0.25)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    panels[0][0].set_ylabel("µs for loss and gradients")
    panels[0][0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=130)


def main() -> int:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds")
    parser.add_argument("--only", default="", help="curves whose name contains this")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--plot", type=Path, help="draw the curves into this file")
    options = parser.parse_args()
    results: dict[str, dict[int, dict[str, float]]] = {}
    for curve, (make, sizes) in CURVES.items():
        if options.only not in curve:
            continue
        for size in sizes:
            print(f"measuring {curve} {size} ...", file=sys.stderr, flush=True)
            results.setdefault(curve, {})[size] = measure(make(size), 3 if options.quick else 7,
                                                          0.02 if options.quick else 0.06, only=SYSTEMS)["us"]
    tell(results, table(results), options.json)
    if options.plot is not None:
        plot(results, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
