"""What this machine can do at most, measured: bytes that a kernel moves in a second, FLOP of a matrix product.

Both are measured as the steps of an explained call are: by native programs of the same compiler on the same threads,
with the same timers. A kernel's ceiling is the rate of one that only scales its operand and moves about as many bytes:
what fits the caches goes faster than memory. Measured once in a process, the first time that a call is explained.
"""

from __future__ import annotations

import math
import time
from functools import cache
from typing import Any

import numpy as np

from jitgrad import config
from jitgrad.classes import dataclass
from jitgrad.eager.tensor import Tensor
from jitgrad.ops import autocast
from jitgrad.script.executor import Dispatcher
from jitgrad.script.inspect.explain.measure import ProbedFunction, Step

#: bytes that the measured kernels move in a call
MOVED = (1 << 16, 1 << 20, 1 << 23, 1 << 26)
#: rows, columns and terms of the measured products
SIDE = 512
#: for which each of them is repeated
SECONDS = 0.03


@dataclass(frozen=True)
class Ceilings:
    """Rates of this machine: `bytes`, by bytes moved in a call; `flops`, by the dtype of a product."""

    bytes: dict[int, float]
    flops: dict[str, float]

    def share(self, step: Step) -> float | None:
        """A step's rate by that of the machine; None where it moves nothing, or takes no time that can be told."""
        cost = step.cost
        if not cost.seconds or not cost.calls:
            return None
        if cost.flops:
            best = self.flops.get(step.dtype)
            return cost.flops / cost.seconds / best if best else None
        moved = cost.read + cost.written
        return moved / cost.seconds / self.bytes[self.like(moved / cost.calls)] if moved else None

    def like(self, moved: float) -> int:
        """Which of the measured sizes is the least that is as large, or the largest."""
        return next((size for size in self.bytes if size >= moved), max(self.bytes))


def _scaled(x: Any) -> Any:
    return x * 0.5


def _product(a: Any, b: Any) -> Any:
    return a @ b


@cache
def ceilings() -> Ceilings:
    """Measure, the first time; some tenths of a second. What autocast does to products is not asked."""
    before = autocast.state()
    autocast.mode.low = None
    try:
        scaled, product = Dispatcher(_scaled), Dispatcher(_product)
        moved = {size: _rate(scaled, np.ones(size // 8, np.float32)) for size in MOVED}
        flops = {str(np.dtype(t)): _rate(product, *[np.ones((SIDE, SIDE), t)] * 2) for t in (np.float32, np.float64)}
        return Ceilings(moved, flops)
    finally:
        autocast.restore(before)


def _rate(function: Dispatcher, *arrays: Any) -> float:
    """Of the one step that a function is: FLOP in a second, or bytes, of the fastest run."""
    params = tuple(Tensor(a) for a in arrays)
    script = function.build(function.values_of(params), *function.specialisation_of(params).options)
    with config.override(interpret=False):
        timed = ProbedFunction.prepare(script.graph, params, function.__name__, script.differentiable)
        assert isinstance(timed, ProbedFunction)
        best, started = 0.0, time.perf_counter()
        while not best or time.perf_counter() - started < SECONDS:
            timed.forward(list(arrays), lambda target, value: None)
            (cost,), _ = timed.probed["forward"].read("forward")
            best = max(best, (cost.flops or cost.read + cost.written) / (cost.seconds or math.inf))
    return best


__all__ = ["Ceilings", "ceilings"]
