"""The workloads beside their floors and beside PyTorch, eager and compiled, and JAX, in one process."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tools.devcheck import jaxpeers
from tools.devcheck.checks import Facts, Lost, check, so_far
from tools.devcheck.workloads import WORKLOADS, Run, Workload

#: seconds that one series of runs takes at most
SERIES = 0.3
Way = Callable[[], tuple[float, Any]]


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
    """A copy of a tensor's numbers in float32."""
    return np.array(tensor.detach().to(torch.float32).cpu().numpy())


def torch_peers(workload: Workload, device: str, modes: dict[str, str | None]) -> Iterator[tuple[str, Way]]:
    """PyTorch's ways to run a workload, by mode of torch.compile; "": eager."""
    def go(mode: str | None) -> tuple[float, Any]:
        import torch

        script: Callable[[Any], Any] = lambda f: f  # noqa: E731
        if mode != "":
            torch._dynamo.reset()  # the function was compiled in another mode
            script = functools.partial(torch.compile, mode=mode)
        run = workload.make(torch, device, script, **workload.sizes)
        first = numbers(torch, run())
        return measured(run, torch.cuda.synchronize if device == "cuda" else lambda: None), first

    for name, mode in modes.items():
        yield name, functools.partial(go, mode)


def jax_peer(workload: Workload, device: str) -> tuple[float, Any]:
    """A workload in JAX. Lost where JAX has no GPU."""
    jax = jaxpeers.load()
    if device == "cuda" and jax.default_backend() != "gpu":
        raise Lost("JAX is installed without CUDA")
    run = jaxpeers.PEERS[workload.make.__name__](jax, **workload.sizes)
    last = run()
    first = np.asarray(last.astype(np.float32))

    def again() -> None:
        nonlocal last
        last = run()

    return measured(again, lambda: last.block_until_ready()), first


def peers(workload: Workload, device: str) -> Iterator[tuple[str, Way]]:
    """Other systems' ways to run a workload, quick ones first: each measures and gives the numbers."""
    yield from torch_peers(workload, device, {"torch eager": ""})
    yield "JAX", functools.partial(jax_peer, workload, device)
    yield from torch_peers(workload, device, {"torch.compile": None, "torch.compile reduce-overhead": "reduce-overhead",
                                              "torch.compile max-autotune": "max-autotune"})


def row(workload: Workload, device: str = "cuda") -> Iterator[dict[str, Any]]:
    """Ours, then with each peer's time; a peer that fails is told by its error. `device` "cpu": to try it."""
    import jitgrad

    run = workload.make(jitgrad, device, jitgrad.script, **workload.sizes)
    mine = numbers(jitgrad, run())
    times: dict[str, float] = {}
    lost: dict[str, str] = {}
    us = measured(run, jitgrad.cuda.synchronize if device == "cuda" else lambda: None)
    found = {"name": workload.title, "us": us,
             "floor_us": 1e6 * workload.floor(**workload.sizes), "peers": times, "error": None, "lost": lost}
    yield found
    del run
    jitgrad.cuda.empty_cache()
    for name, go in peers(workload, device):
        try:
            times[name], theirs = go()
        except Exception as failure:  # a peer that cannot is told, and the rest goes on
            lost[name] = f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}"[:120]
        else:
            if found["error"] is None:
                scale = max(1e-30, np.max(np.abs(theirs), initial=0.0))
                found["error"] = float(np.max(np.abs(mine - theirs), initial=0.0) / scale)
        yield found


def benchmark(workload: Workload, name: str) -> Callable[[], Facts]:
    """The check of a workload."""
    def perform() -> Facts:
        found: dict[str, Any] = {}
        for found in row(workload):
            so_far({"rows": [found]})
        return {"rows": [found]}

    perform.__name__, perform.__module__ = name, __name__
    perform.__doc__ = f"{workload.title[0].upper()}{workload.title[1:]}."
    return perform


for _name, _workload in WORKLOADS.items():
    check(cap=150.0, alone=True, shares=True)(benchmark(_workload, _name))
