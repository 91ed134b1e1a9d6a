"""Training programs beside PyTorch and JAX: steps, first calls, memory. `benchmarks/results/cpu.md` is one run of it.

    make bench        # or: python -m benchmarks [--quick] [--only RNN] [--out FILE.md] [--plot FILE.png] [--json FILE]

Steps take turns in one process, `python -m benchmarks.peers`; first calls and memory are those of processes of their
own, `python -m benchmarks.first`. Without PyTorch and JAX (`pip install 'jitgrad[peers]'`) only our columns are there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from benchmarks import first, peers
from benchmarks.machine import described, write

OURS = "#d9541e"
COLOURS = {"jitgrad eager": "#efb08f", "jax.jit": "#5a9e6f", "torch eager": "#3b6ea5", "torch.jit.script": "#9db8d6",
           "torch.compile": "#22405f"}


def document(steps: dict[str, dict[str, Any]], calls: dict[str, dict[str, dict[str, float]]]) -> str:
    """Markdown: what was measured, on what, and all tables."""
    return "\n\n".join([
        "# CPU: steps, first calls and memory beside PyTorch and JAX", described(),
        "Microseconds of a step: medians of alternating rounds in one process, all cores for all, results compared "
        "first. Ours is the faster\nof a scripted loss and a scripted step; without an optimizer the step is loss and "
        "gradients, as JAX compiles them. Numbers too small for\nfull precision count as zero for all: XLA computes so "
        "always, PyTorch and jitgrad are told to (`set_flush_denormal`). `x` is the best peer's\ntime by ours; the "
        "floor is what this machine takes at least for the products and bytes of the step.",
        peers.table(steps),
        "Each figure below is that of a new process, timed from after its imports of the library to its first result: "
        "`nothing` with no cache at\nall, `new` with the run-time library in it and the program not, `disk` with "
        "the program too.", first.table(calls)]) + "\n"


def plot(steps: dict[str, dict[str, Any]], file: Path) -> None:
    """How many times as long as ours each peer's step takes, a row for each program; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(steps) + 1.4))
    for row, found in enumerate(steps.values()):
        us = found["us"]
        ours = min(us["jitgrad loss"], us["jitgrad step"])
        for name in (n for n in COLOURS if n in us):
            axes.plot(us[name] / ours, row, "o", color=COLOURS[name], markersize=7)
        axes.plot(found["wanted"], row, "|", color="#999999", markersize=14, markeredgewidth=1.5)
    for name in (n for n in COLOURS if any(n in found["us"] for found in steps.values())):
        axes.plot([], [], "o", color=COLOURS[name], label=name)
    axes.plot([], [], "|", color="#999999", markersize=10, label="the best peer is wanted here")
    axes.axvline(1, color=OURS, linewidth=2, label="jitgrad, scripted")
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    axes.set_yticks(range(len(steps)), list(steps))
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.25)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("time of a step, by that of jitgrad's scripted step")
    figure.legend(frameon=False, ncols=3, loc="upper center", fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(file, dpi=110)


def main() -> int:
    """Measure, print, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds, and each first call once")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--compile", action="store_true", help="with torch.compile, which needs a C++ compiler")
    parser.add_argument("--out", type=Path, help="write the tables to this file")
    parser.add_argument("--plot", type=Path, help="draw the steps into this file")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    args = parser.parse_args()
    if not any(args.only in p.name for p in peers.programs()):
        parser.error(f"no program's name contains {args.only!r}: {', '.join(p.name for p in peers.programs())}")
    steps = peers.measure_all(args.only, args.quick, args.compile, beside_floors=True)
    calls = first.measure_all(args.only, 1 if args.quick else 3)
    text = document(steps, calls)
    print(text)
    write({"steps": steps, "first": calls}, args.json)
    if args.out is not None:
        args.out.write_text(text)
    if args.plot is not None:
        plot(steps, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
