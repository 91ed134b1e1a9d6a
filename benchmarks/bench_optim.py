"""One eager step of an optimizer: `python -m benchmarks.bench_optim`.

Each system starts from the same parameters and gradients; the best of many steps counts, as the machine may be shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

#: name, shapes of the parameters
SIZES: list[tuple[str, list[tuple[int, ...]]]] = [
    ("6 of 100x10", [(100, 10)] * 6), ("1000x1000", [(1000, 1000)]), ("20 of 64x64", [(64, 64)] * 20)]

#: name, class, its arguments
OPTIMIZERS: list[tuple[str, str, dict[str, Any]]] = [
    ("SGD", "SGD", {"lr": 1e-3}), ("SGD, momentum", "SGD", {"lr": 1e-3, "momentum": 0.9}), ("Adam", "Adam", {}),
    ("AdamW", "AdamW", {})]


def step_of(module: Any, name: str, arguments: dict[str, Any], shapes: list[tuple[int, ...]]) -> Callable[[], Any]:
    """The `step` of a fresh optimizer whose parameters have gradients."""
    rng = np.random.default_rng(0)
    params = []
    for shape in shapes:
        p = module.from_numpy(rng.standard_normal(shape).astype(np.float32)).requires_grad_()
        p.grad = module.from_numpy(rng.standard_normal(shape).astype(np.float32))
        params.append(p)
    return getattr(module.optim, name)(params, **arguments).step  # type: ignore[no-any-return]


def best_us(step: Callable[[], Any], seconds: float = 0.5) -> float:
    """Microseconds of the fastest of the steps that fit into `seconds`."""
    step()
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - started)
    return 1e6 * best


def main() -> None:
    """Print the table."""
    import jitgrad

    modules: list[Any] = [jitgrad]
    try:
        import torch
    except ImportError:
        print("torch is not installed: no column for it")
    else:
        torch.set_num_threads(1)  # jitgrad's eager uses one
        modules.append(torch)
    print(f"{'microseconds a step':<32}" + "".join(f"{m.__name__:>10}" for m in modules))
    for size, shapes in SIZES:
        for title, name, arguments in OPTIMIZERS:
            times = [best_us(step_of(m, name, arguments, shapes)) for m in modules]
            print(f"{title + ', ' + size:<32}" + "".join(f"{t:>10.1f}" for t in times))


if __name__ == "__main__":
    main()
