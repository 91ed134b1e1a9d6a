"""What a check is: a function of no arguments that returns what it found, or raises."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: modules of checks, in the order in which they run
STAGES = ("environment", "smoke", "smoke_graphs", "lectures", "suite", "ceilings", "benchmarks", "convolutions",
          "sanitize", "profile")
#: what is run in one go: each fits ten minutes on a machine whose caches are empty
PIECES = {"smoke": ("environment", "smoke", "smoke_graphs", "lectures"), "tests": ("environment", "suite"),
          "bench": ("environment", "ceilings", "benchmarks", "convolutions"), "sanitize": ("environment", "sanitize"),
          "profile": ("environment", "profile")}
#: what a line of a check's process begins with: all that it found, what it has found so far
RESULT, PART = "RESULT ", "PART "

Facts = dict[str, Any]


class Lost(Exception):
    """A package is missing: what it costs is lost, and the rest goes on."""


class Wrong(AssertionError):
    """What was found is wrong; `facts` has all of it."""

    def __init__(self, text: str, facts: Facts):
        super().__init__(text)
        self.facts = facts


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        cap: seconds after which it is stopped.
        alone: whether nothing else may run meanwhile, for it measures.
        shares: whether it may take no more than its part of the time that is left for it and those that follow.
        harms: whether it makes the device fail on purpose: it runs where it is asked for, after all others.
    """

    stage: str
    name: str
    function: Callable[[], Facts]
    cap: float
    alone: bool = False
    shares: bool = False
    harms: bool = False

    @property
    def title(self) -> str:
        """How it is asked for: `smoke.nvrtc`."""
        return f"{self.stage}.{self.name}"


_checks: dict[str, Check] = {}


def check(cap: float = 60.0, alone: bool = False, shares: bool = False, harms: bool = False
          ) -> Callable[[Callable[[], Facts]], Callable[[], Facts]]:
    """Mark a function as a check of its module's stage."""
    def mark(function: Callable[[], Facts]) -> Callable[[], Facts]:
        made = Check(function.__module__.rpartition(".")[2], function.__name__, function, cap, alone, shares, harms)
        _checks[made.title] = made
        return function

    return mark


def so_far(facts: Facts) -> None:
    """Say what a check has found until now: it stands if the check is stopped."""
    print(PART + json.dumps(facts, default=str), flush=True)


def collect(stages: tuple[str, ...] = STAGES) -> list[Check]:
    """The checks of some stages, in order. ImportError for a stage that there is not."""
    for stage in stages:
        importlib.import_module(f"tools.devcheck.{stage}")
    return [c for stage in stages for c in _checks.values() if c.stage == stage]


__all__ = ["PART", "PIECES", "RESULT", "STAGES", "Check", "Facts", "Lost", "Wrong", "check", "collect", "so_far"]
