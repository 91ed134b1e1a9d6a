"""The workloads beside their floors and beside PyTorch, eager and compiled, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jitgrad.devcheck.checks import Facts, check
from jitgrad.devcheck.workloads import WORKLOADS, Run, Workload

#: seconds that one series of runs takes at most
SERIES = 0.3


def measured(run: Run, wait: Callable[[], Any]) -> float:
    """Microseconds of one run: the median of five series, each waited for at its end."""
    for _ in range(3):  # compiled, recorded, replayed
        run()
    wait()
    started = time.perf_counter()
    run()
    wait()
    times = max(1, min(200, int(SERIES / max(time.perf_counter() - started, 1e-6))))
    found = []
    for _ in range(5):
        wait()
        started = time.perf_counter()
        for _ in range(times):
            run()
        wait()
        found.append((time.perf_counter() - started) / times * 1e6)
    return sorted(found)[2]


def numbers(torch: Any, tensor: Any) -> np.ndarray[Any, Any]:
    """A tensor's numbers in float32."""
    found: np.ndarray[Any, Any] = tensor.detach().to(torch.float32).cpu().numpy()
    return found


def peers(workload: Workload, device: str) -> Iterator[tuple[str, Callable[[], tuple[float, Any]]]]:
    """PyTorch's ways to run a workload: each measures and gives the numbers. None where it is not installed."""
    try:
        import torch
    except ImportError:
        return
    modes: dict[str, Callable[[Any], Any]] = {
        "torch eager": lambda f: f, "torch.compile": torch.compile,
        "torch.compile reduce-overhead": lambda f: torch.compile(f, mode="reduce-overhead"),
        "torch.compile max-autotune": lambda f: torch.compile(f, mode="max-autotune")}
    for name, script in modes.items():
        def go(script: Callable[[Any], Any] = script) -> tuple[float, Any]:
            run = workload.make(torch, device, script, **workload.sizes)
            first = numbers(torch, run())
            return measured(run, torch.cuda.synchronize), first

        yield name, go


def row(workload: Workload, device: str = "cuda") -> dict[str, Any]:
    """Ours, and what PyTorch takes; a way of PyTorch that fails is told by its error."""
    import jitgrad

    run = workload.make(jitgrad, device, jitgrad.script, **workload.sizes)
    mine = numbers(jitgrad, run())
    us = measured(run, jitgrad.cuda.synchronize)
    del run
    jitgrad.cuda.empty_cache()
    times: dict[str, float] = {}
    lost: dict[str, str] = {}
    error: float | None = None
    for name, go in peers(workload, device):
        try:
            times[name], theirs = go()
        except Exception as failure:  # a peer that cannot is told, and the rest goes on
            lost[name] = f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}"[:120]
            continue
        if error is None:
            error = float(np.max(np.abs(mine - theirs), initial=0.0) / max(1e-30, np.max(np.abs(theirs), initial=0.0)))
    return {"name": workload.title, "us": us, "floor_us": 1e6 * workload.floor(**workload.sizes), "peers": times,
            "error": error, "lost": lost}


def benchmark(workload: Workload, name: str) -> Callable[[], Facts]:
    """The check of a workload."""
    def perform() -> Facts:
        return {"rows": [row(workload)]}

    perform.__name__, perform.__module__ = name, __name__
    perform.__doc__ = f"{workload.title[0].upper()}{workload.title[1:]}."
    return perform


for _name, _workload in WORKLOADS.items():
    check(cap=120.0)(benchmark(_workload, _name))
