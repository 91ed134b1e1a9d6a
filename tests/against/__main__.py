"""Draw programs, compare, and say how many agree; exit status 1 where any does not."""

from __future__ import annotations

import argparse
import sys
import time

from tests.against.families import FAMILIES
from tests.against.report import Report, drawn


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(prog="python -m tests.against", description=__doc__)
    parser.add_argument("--count", type=int, default=700, help="how many programs")
    parser.add_argument("--family", choices=FAMILIES, help="of one family only")
    parser.add_argument("--first", type=int, default=0, help="where drawing begins: other numbers, other programs")
    parser.add_argument("--scripts", type=int, default=10, help="one in so many also as a script; 0: none")
    parser.add_argument("--verbose", action="store_true", help="show every program that differs")
    args = parser.parse_args()
    families = [args.family] if args.family else [*FAMILIES]
    began = time.perf_counter()
    report = Report()
    for n, family in enumerate(families):
        for number, case in enumerate(drawn(family, args.count // len(families) + (n < args.count % len(families)),
                                            args.first)):
            report.add(case, bool(args.scripts) and number % args.scripts == 0, args.verbose)
    print(report.text(families))
    print(f"{time.perf_counter() - began:.0f} s")
    return int(report.total("different") > 0)


if __name__ == "__main__":
    sys.exit(main())
