"""Which features programs have, and which pairs of features were seldom together in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations


class Features:
    """Counts of the features of programs, and of pairs of them."""

    def __init__(self) -> None:
        self.single, self.pairs = Counter[str](), Counter[tuple[str, str]]()
        self.beside: dict[str, set[str]] = {}  # by feature, those of all programs that had it

    def add(self, found: Iterable[str]) -> None:
        """One program more, which has these."""
        names = sorted(set(found))
        self.single.update(names)
        self.pairs.update(combinations(names, 2))
        for name in names:
            self.beside.setdefault(name, {name}).update(names)

    def untried(self, name: str, present: Iterable[str]) -> int:
        """With how many of a program's features no program had this one."""
        return len(set(present) - self.beside.get(name, {name}))

    def table(self, programs: int) -> str:
        """Every feature's share of the programs, and the pairs that were tried least."""
        lines = [f"{count:6d} {100 * count / max(programs, 1):5.1f} %  {name}"
                 for name, count in self.single.most_common()]
        every = list(combinations(sorted(self.single), 2))
        every.sort(key=lambda pair: self.pairs[pair])
        never = sum(pair not in self.pairs for pair in every)
        lines.append(f"{never} of {len(every)} pairs never tried; the least tried:")
        lines += [f"{self.pairs[pair]:6d}  {pair[0]} with {pair[1]}" for pair in every[:12]]
        return "\n".join(lines)


__all__ = ["Features"]
