"""What a step takes on this machine at least: `python -m benchmarks.peers --floors`.

Matrix products, convolutions and attention at the rate of a product of two matrices of 512 rows and columns on all
threads; every other kernel at the best rate at which one that only scales numbers moves as many bytes, or more of them.
`f.explain` counts both, step by step, as the compiled program has them, and measures both rates (`Ceilings`); of
several measurements the best counts, as other processes only ever take.

A floor, not an estimate: arithmetic of kernels, how small a product is, what one step leaves in another core's caches,
and Python cost nothing here. What a causal mask hides counts as computed.
"""

from __future__ import annotations

from collections.abc import Collection

from jitgrad.script.inspect.explain.ceilings import Ceilings, ceilings
from jitgrad.script.inspect.explain.measure import Step
from jitgrad.script.inspect.explain.report import Explanation


def best(times: int = 5) -> Ceilings:
    """The best rates of several measurements."""
    found = [ceilings.__wrapped__() for _ in range(times)]
    return Ceilings({size: max(c.bytes[size] for c in found) for size in found[0].bytes},
                    {name: max(c.flops[name] for c in found) for name in found[0].flops})


def floor(told: Collection[Explanation], rates: Ceilings) -> float:
    """Microseconds, the mean over calls that were explained."""
    return 1e6 * sum(least(step, rates) for t in told for step in t.steps) / len(told)


def least(step: Step, rates: Ceilings) -> float:
    """Seconds that all calls of a step take at least."""
    cost = step.cost
    if cost.flops:
        return cost.flops / rates.flops[step.dtype]
    moved = cost.read + cost.written
    size = rates.like(moved / max(1, cost.calls))
    return moved / max(rate for of, rate in rates.bytes.items() if of >= size)
