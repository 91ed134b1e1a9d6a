"""Programs as Hypothesis draws them, and how many of them agree."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

import jitgrad
from tests.against.answers import answer, compare
from tests.against.drafts import Case, Draft
from tests.against.families import FAMILIES
from tests.against.reasons import reason, refused_here, seen, told_otherwise
from tests.against.rounding import lost_beside, no_farther


def drawn(family: str, count: int, first: int) -> list[Case]:
    """So many programs of a family, as Hypothesis draws them; fewer where it finds no more."""
    found: list[Case] = []

    @seed(first)
    @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False))
    def draw(rng: random.Random) -> None:
        draft = Draft(rng, family)
        FAMILIES[family](draft)
        if draft.lines:
            found.append(draft.case())

    if count:
        draw()
    return found[:count]


class Report:
    """Counts, by family."""

    def __init__(self) -> None:
        import torch

        self.torch: Any = torch
        self.counts: dict[str, Counter[str]] = {}
        self.reasons: Counter[str] = Counter()
        self.distinct: set[str] = set()
        self.different: list[str] = []  # what differs, and the program

    def add(self, case: Case, scripted: bool = False, verbose: bool = False) -> None:
        """Run a program in both libraries, perhaps as a script too, which is to do what it does eagerly."""
        counts = self.counts.setdefault(case.family, Counter())
        self.distinct.add(case.text)
        ours, theirs = answer(case, jitgrad), answer(case, self.torch)
        counts["raise"] += bool(theirs.error)
        found = compare(case, ours, theirs)
        why = found and (reason(case, found, ours, theirs) or told_otherwise(case, ours, theirs, jitgrad, self.torch))
        if found.startswith(("values", "gradient:")) and not why and no_farther(case, ours, theirs, self.torch):
            why = "PyTorch's own numbers in float64 are not nearer to its answer"
        if found.startswith("values") and not why and lost_beside(case, ours, theirs):
            why = "what rounding takes of sums of integers so large"
        if scripted:
            script = answer(case, jitgrad, jitgrad.script)
            counts["refused" if script.refused and not ours.error else "scripts"] += 1
            other = "" if script.refused else compare(case, script, ours, scripted=True)
            if ours.error and refused_here(ours) and not compare(case, script, theirs, scripted=True):
                other = ""  # eager code refuses what the script does as PyTorch
            if other and not (other.startswith("value:") and seen(case, other)) and not (
                    other.startswith(("values", "gradient:")) and no_farther(case, script, ours, self.torch)):
                found, why = f"script: {other}", ""
        self.reasons[why] += bool(why)
        counts["known" if why else "different" if found else "agree"] += 1
        if found and not why:
            self.different.append(f"{found}\n{case.text}")
            if verbose:
                print(f"--- {self.different[-1]}", flush=True)

    def total(self, what: str) -> int:
        return sum(counts[what] for counts in self.counts.values())

    def text(self, families: list[str]) -> str:
        """A table."""
        columns = ("agree", "different", "known", "raise", "scripts", "refused")
        rows = [f"{'':12}" + "".join(f"{c:>11}" for c in columns)]
        rows += [f"{f:12}" + "".join(f"{self.counts.get(f, Counter())[c]:11,}" for c in columns) for f in families]
        rows.append(f"{'all':12}" + "".join(f"{self.total(c):11,}" for c in columns))
        rows.append(f"{len(self.distinct):,} distinct programs; known differences:")
        rows += [f"{n:7,}  {why}" for why, n in self.reasons.most_common() if why]
        return "\n".join(rows)
