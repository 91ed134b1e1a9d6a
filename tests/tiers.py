"""Two tiers of tests: `make test` runs one and samples of the other, `make test-all` runs both.

A test of the first tier is the first to look at something: a program run natively against eager, a gradient, a refusal,
a page of the documentation. A test of the second runs again what another test runs, elsewhere or with other numbers,
and says of which kind it is:

    pytestmark = pytest.mark.sampled("emulated GPU")

So is a test with a parameter `interpreted`, where there is the same one with `native`.

Which tests are in a sample depends on their names alone, so each worker and each machine chooses the same ones. A path,
`-k`, `-m` or `--lf` on the command line asks for certain tests: then nothing is left out, nor with JITGRAD_TEST_ALL=1.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pytest

VARIABLE = "JITGRAD_TEST_ALL"
_INTERPRETED = re.compile(r"([\[-])interpreted([\]-])")


@dataclass(frozen=True)
class Kind:
    """Tests of the second tier, of which one in so many is in the sample."""

    one_in: int
    what: str


KINDS = {
    "emulated GPU": Kind(20, "tests of kernels and programs on the emulated GPU"),
    "faults": Kind(4, "tests of interrupts, full disks, no memory and crowds of processes"),
    "interpreter": Kind(12, "tests that run programs again by the interpreter"),
    "machine code": Kind(32, "tests of kernels compiled to machine code for a GPU"),
    "random programs": Kind(20, "tests of random programs"),
    "second order": Kind(8, "tests of second derivatives of programs whose first derivatives are tested"),
    "stories": Kind(5, "tests of programs that mix what other tests look at one by one"),
    "tools": Kind(8, "tests of what the tools of developers find out of programs that are tested elsewhere"),
}


def sample(names: Iterable[str], one_in: int) -> set[str]:
    """One in so many names, rounded up: those with the lowest checksums."""
    ranked = sorted(set(names), key=lambda name: (zlib.crc32(name.encode()), name))
    return set(ranked[:-(-len(ranked) // one_in)])


def strata(ids: Iterable[str], one_in: int) -> Iterator[list[str]]:
    """The tests of which each has a sample of its own: those of a large parametrised test, and the rest of a file."""
    by_test: dict[str, list[str]] = defaultdict(list)
    for name in ids:
        by_test[name.partition("[")[0]].append(name)
    by_file: dict[str, list[str]] = defaultdict(list)
    for test, names in by_test.items():
        by_file[test if len(names) >= one_in else test.partition("::")[0]] += names
    yield from by_file.values()


def chosen(kinds: Mapping[str, str]) -> set[str]:
    """The tests in the samples, of tests and the kind of each."""
    found: set[str] = set()
    for kind, spec in KINDS.items():
        for names in strata([name for name, of in kinds.items() if of == kind], spec.one_in):
            found |= sample(names, spec.one_in)
    return found


class LeftOut:
    """What a run leaves out: by kind, how many of how many."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = {}

    def note(self, kind: str, left: int, of: int) -> None:
        """Workers note the same: each has collected everything."""
        if left:
            self.counts[kind] = left, of

    def lines(self) -> list[str]:
        """What a run says at its end."""
        if not self.counts:
            return []
        told = [f"  {left:,} of {of:,} {KINDS[kind].what}" for kind, (left, of) in sorted(self.counts.items())]
        return ["left out, and run by `make test-all` or where a path is named:", *told]


#: of this process's run
everything = True
left_out = LeftOut()


def asks_for_everything(config: pytest.Config) -> bool:
    """Whether a command line names what to run."""
    return (os.environ.get(VARIABLE) == "1" or config.args_source is pytest.Config.ArgsSource.ARGS
            or any(config.getoption(name, None) for name in ("keyword", "markexpr", "lf")))


def kinds_of(items: Iterable[pytest.Item]) -> dict[str, str]:
    """The tests of the second tier, and the kind of each."""
    marks = {item.nodeid: item.get_closest_marker("sampled") for item in items}
    kinds: dict[str, str] = {}
    for name, mark in marks.items():
        if mark is not None:
            (kinds[name],) = mark.args
            if kinds[name] not in KINDS:
                raise pytest.UsageError(f"{name}: `{kinds[name]}` is not a kind of tests.tiers.KINDS")
        elif _INTERPRETED.search(name) and _INTERPRETED.sub(r"\1native\2", name) in marks:
            kinds[name] = "interpreter"
    return kinds


def select(items: list[pytest.Item]) -> list[pytest.Item]:
    """Take what is left out of a list of tests, and return it."""
    kinds = kinds_of(items)
    if everything:
        return []
    keep = chosen(kinds)
    left = [item for item in items if item.nodeid in kinds and item.nodeid not in keep]
    for kind in KINDS:
        left_out.note(kind, sum(kinds[i.nodeid] == kind for i in left), sum(k == kind for k in kinds.values()))
    items[:] = [item for item in items if item.nodeid not in kinds or item.nodeid in keep]
    return left
