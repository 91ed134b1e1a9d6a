"""Run a range of seeds; exit status 1 where any program differs."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from dataclasses import fields
from pathlib import Path

from tests import fuzz
from tests.fuzz import compare, world
from tests.fuzz.features import Features
from tests.fuzz.generator import program
from tests.fuzz.isolated import THOROUGH, reports
from tests.fuzz.shrink import shrink

CLEAR = "\r\033[K" if sys.stderr.isatty() else ""  # what a bar left on the line


def kind(problem: str) -> str:
    """What a smaller program must share with the one that it comes from: mode and what differs, no numbers."""
    mode, _, what = problem.partition(", ")
    what = what.partition("maybe=")[2].partition(": ")[2] or problem
    return re.sub(r"[\d.]+|<.*?>|\[.*", "", mode + what)[:80]


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError


def shrunk(seed: int, problem: str) -> tuple[str, str]:
    """A small program that differs in the same way, and how."""
    mode = problem.partition(",")[0]
    modes = (mode,) if mode in compare.MODES else ("both",)
    found = [problem]
    signal.signal(signal.SIGALRM, _too_long)
    cases = world.sequence(seed)
    alone = [c for c in cases if not c.again and f"arguments {c}: " in problem]
    cases = alone or cases

    def fails(source: str) -> bool:
        signal.setitimer(signal.ITIMER_REAL, 8)  # a loop that lost its counter never ends
        try:
            report = compare.check_source(source, f"{seed} smaller", seed % 10 == 0, cases, modes)
        except Exception as error:  # the crash that is looked for, perhaps
            report = compare.Report(f"{type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if report.problem and kind(report.problem) == kind(problem):
            found[0] = report.problem
            return True
        return False

    return shrink(program(seed).source, fails), found[0]


def general(reason: str) -> str:
    """A reason without its program's names and numbers."""
    return re.sub(r"`.*?`|'.*?'|\d+", "_", reason)


def reason(refusal: str) -> str:
    """A refusal without its program's names and numbers, and whether the refusals that are tested give this reason."""
    why = general(refusal)
    cases = Path(__file__).parents[1].joinpath("script", "refusals", "refusals.case").read_text()
    listed = {general(m) for m in re.findall(r"^\w+: [\w<>]+\.py:\d+:\d+: [a-z ]+: (.*)$", cases, re.MULTILINE)}
    told = why.partition(": ")[2] in listed
    return ("documented: " if told else "not documented: ") + why


def _progress(done: int, count: int, state: str, start: float) -> None:
    """A bar on a terminal, a line now and then elsewhere."""
    left = (time.monotonic() - start) / done * (count - done)
    text = f"{done}/{count} programs, {state}, {left / 60:.0f} min left"
    if sys.stderr.isatty():
        bar = "#" * (30 * done // count)
        print(f"{CLEAR}[{bar:<30}] {text}", end="\n" if done == count else "", file=sys.stderr, flush=True)
    elif done % 50 == 0:
        print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(description=fuzz.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, help="print the program of this seed and stop")
    parser.add_argument("--modes", help=f"some of {','.join(compare.MODES)}, for every program (both; of five "
                        "programs one verified, one stored, one saved)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="programs at a time (all processors)")
    parser.add_argument("--whole", action="store_true", help="print failing programs as they are, not made smaller")
    args = parser.parse_args()
    if args.show is not None:
        print(program(args.show).source)
        return 0
    modes = tuple(args.modes.split(",")) if args.modes else ()
    failures, features, totals = 0, Features(), Counter[str]()
    unsaved: Counter[str] = Counter()
    refusals: dict[str, list[int]] = defaultdict(list)  # seeds by reason
    start = time.monotonic()
    seeds, done = range(args.seed, args.seed + args.count), 0
    try:
        for done, (seed, report) in enumerate(reports(seeds, modes, args.jobs), 1):
            features.add(program(seed).features)
            totals += Counter({f.name: n for f in fields(report) if type(n := getattr(report, f.name)) is int})
            unsaved.update(map(general, report.unsaved))
            if report.refused:
                refusals[reason(report.refused)].append(seed)
            if report.problem:
                failures += 1
                source, problem = program(seed).source, report.problem
                if not args.whole and not report.died:
                    source, problem = shrunk(seed, report.problem)
                print(f"{CLEAR}--- seed {seed}: {problem}\n{source}", flush=True)
            refused = sum(map(len, refusals.values()))
            _progress(done, args.count, f"{failures} differ, {refused} refused", start)
    except KeyboardInterrupt:
        print(f"{CLEAR}stopped after {done} of {args.count} programs")
    refused = sum(map(len, refusals.values()))
    print(f"{done - failures - refused} agree, {failures} differ, {refused} refused "
          f"({100 * refused / max(done, 1):.1f}%), {totals['compilations']} compilations, {totals['from_disk']} from "
          f"disk, {totals['saved']} calls from files")
    for why, seeds in sorted(refusals.items(), key=lambda item: -len(item[1])):
        print(f"{len(seeds):6d}  {why} (seeds {', '.join(map(str, seeds[:4]))})")
    for why, count in unsaved.most_common():
        print(f"{count:6d}  calls not from files: {why}")
    print(f"one program of {THOROUGH} was compiled with LLVM's optimisations")
    print(features.table(done))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
