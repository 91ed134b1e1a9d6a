"""Run a range of seeds; exit status 1 where any program differs."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections import Counter

from tests import fuzz
from tests.fuzz import compare, world
from tests.fuzz.generator import Generator
from tests.fuzz.shrink import shrink


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
    modes = (mode,) if mode in ("interpreted", "native") else ("interpreted", "native")
    found = [problem]
    signal.signal(signal.SIGALRM, _too_long)
    cases = list(world.arguments(seed, 3))
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

    return shrink(Generator(seed).program(), fails), found[0]


def main() -> int:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(description=fuzz.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, help="print the program of this seed and stop")
    parser.add_argument("--modes", default="interpreted,native")
    parser.add_argument("--refusals", action="store_true", help="print why programs were refused")
    parser.add_argument("--whole", action="store_true", help="print failing programs as they are, not made smaller")
    args = parser.parse_args()
    if args.show is not None:
        print(Generator(args.show).program())
        return 0
    failures, refusals, compilations = 0, Counter[str](), 0
    start = time.monotonic()
    for done, seed in enumerate(range(args.seed, args.seed + args.count), 1):
        report = compare.check_program(seed, tuple(args.modes.split(",")))
        compilations += report.compilations
        if report.refused:
            refusals[report.refused] += 1
        if report.problem:
            failures += 1
            source, problem = Generator(seed).program(), report.problem
            if not args.whole:
                source, problem = shrunk(seed, report.problem)
            print(f"--- seed {seed}: {problem}\n{source}", flush=True)
        if done % 50 == 0:
            left = (time.monotonic() - start) / done * (args.count - done)
            print(f"{done} programs, {failures} differ, {sum(refusals.values())} refused, {left / 60:.0f} min left",
                  file=sys.stderr, flush=True)
    refused = sum(refusals.values())
    print(f"{args.count - failures - refused} agree, {failures} differ, {refused} refused "
          f"({100 * refused / max(args.count, 1):.1f}%), {compilations} compilations")
    if args.refusals:
        for reason, count in refusals.most_common():
            print(f"{count:6d}  {reason}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
