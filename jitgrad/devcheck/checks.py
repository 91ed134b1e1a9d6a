"""What a check is: a function of no arguments that returns what it found, or raises."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: modules of checks, in the order in which they run
STAGES = ("environment", "smoke", "smoke_graphs", "lectures", "suite", "ceilings", "benchmarks")

Facts = dict[str, Any]


class Lost(Exception):
    """A package is missing: what it costs is lost, and the rest goes on."""


@dataclass(frozen=True)
class Check:
    """One check. `cap`: seconds after which it is stopped."""

    stage: str
    name: str
    function: Callable[[], Facts]
    cap: float

    @property
    def title(self) -> str:
        """How it is asked for: `smoke.nvrtc`."""
        return f"{self.stage}.{self.name}"


_checks: dict[str, Check] = {}


def check(cap: float = 60.0) -> Callable[[Callable[[], Facts]], Callable[[], Facts]]:
    """Mark a function as a check of its module's stage."""
    def mark(function: Callable[[], Facts]) -> Callable[[], Facts]:
        made = Check(function.__module__.rpartition(".")[2], function.__name__, function, cap)
        _checks[made.title] = made
        return function

    return mark


def collect(stages: tuple[str, ...] = STAGES) -> list[Check]:
    """The checks of some stages, in order. ImportError for a stage that there is not."""
    for stage in stages:
        importlib.import_module(f"jitgrad.devcheck.{stage}")
    return [c for stage in stages for c in _checks.values() if c.stage == stage]


__all__ = ["STAGES", "Check", "Facts", "Lost", "check", "collect"]
