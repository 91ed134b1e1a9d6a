"""`python -m tools.devcheck PIECE --out DIR --budget 540`: prove the CUDA backend on this machine's GPU."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from jitgrad.codegen.cuda.driver import driverapi
from tools.devcheck import checks, runner, table

NO_GPU = 2


def without_gpu() -> str:
    """Why nothing can be checked here, "" if it can."""
    try:
        return "" if driverapi.driver().made("cuDeviceGetCount") else "the driver knows no device"
    except RuntimeError as error:
        return str(error)


def written(results: Sequence[runner.Result], folder: Path) -> None:
    """The table and the page."""
    (folder / "table.txt").write_text(table.summary(results) + "\n", encoding="utf-8")
    page = table.markdown(results, datetime.date.today().isoformat())
    (folder / "results.md").write_text(page + "\n", encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """The status: 0 if no check failed, 1 if one did, 2 without a GPU."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.devcheck", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Each check runs in a process of its own with a time cap. Results: DIR/results.jsonl, one JSON line a "
               "check,\nDIR/table.txt and DIR/results.md (for benchmarks/results). A check whose package is missing is "
               "reported\nas lost. Status 0: no check failed, 1: one did, 2: there is no GPU.")
    parser.add_argument("pieces", nargs="*", metavar="PIECE",
                        help=f"{', '.join(checks.PIECES)}: each takes less than ten minutes (the first three)")
    parser.add_argument("--out", type=Path, default=Path("devcheck"), metavar="DIR", help="where results go")
    parser.add_argument("--budget", type=float, default=540.0, metavar="SECONDS", help="for everything (540)")
    parser.add_argument("--stage", action="append", choices=checks.STAGES, help="only this stage (repeatable)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="only checks named like this (repeatable)")
    parser.add_argument("--faults", action="store_true",
                        help="also, last, the checks that make the GPU fail on purpose: its log may show it")
    parser.add_argument("--list", action="store_true", help="name the checks and say what they check")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.one is not None:
        (check,) = [c for c in checks.collect() if c.title == asked.one]
        result = json.dumps(runner.perform(check), default=str)
        print("\n" + checks.RESULT + result, flush=True)
        return 0
    unknown = sorted(set(asked.pieces) - checks.PIECES.keys())
    if unknown:
        parser.error(f"no piece is called {unknown[0]!r}: there are {', '.join(checks.PIECES)}")
    pieces = asked.pieces or ("smoke", "tests", "bench")
    stages = asked.stage or dict.fromkeys(stage for piece in pieces for stage in checks.PIECES[piece])
    chosen = [c for c in checks.collect(tuple(stages)) if c.harms <= asked.faults
              and (not asked.only or any(text in c.title for text in asked.only))]
    chosen.sort(key=lambda c: c.harms)
    if asked.list:
        for check in chosen:
            print(f"{check.title:<40} {(check.function.__doc__ or '').splitlines()[0]}")
        return 0
    why = without_gpu()
    if why:
        print(f"devcheck needs a GPU: {why}", file=sys.stderr)
        return NO_GPU
    results = runner.run(chosen, asked.out, asked.budget, told=lambda some: written(some, asked.out))
    print("\n" + table.summary(results))
    return int(any(r["status"] in ("failed", "crashed", "timeout") for r in results))


if __name__ == "__main__":
    sys.exit(main())
