"""Convolutions and their two gradients on one core, beside PyTorch's: `python -m benchmarks.convolutions`.

Functions on arrays, without autograd; the best of some runs counts, as the machine may be shared. Each row is a shape:
microseconds of results, weights' gradient, images' gradient, ours and PyTorch's in turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

#: images, weights, stride, padding
SHAPES = [((64, 1, 28, 28), (6, 1, 5, 5), 1, 2), ((64, 6, 14, 14), (16, 6, 5, 5), 1, 0),
          ((16, 64, 28, 28), (64, 64, 3, 3), 1, 1), ((16, 64, 28, 28), (128, 64, 3, 3), 2, 1),
          ((16, 128, 14, 14), (128, 128, 3, 3), 1, 1), ((16, 256, 7, 7), (256, 256, 3, 3), 1, 1),
          ((8, 3, 64, 64), (64, 3, 7, 7), 2, 3)]


def best_us(runs: list[Callable[[], Any]], rounds: int = 15) -> list[float]:
    """Microseconds of the fastest of some runs of each, which take turns."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for k, run in enumerate(runs):
            started = time.perf_counter()
            run()
            best[k] = min(best[k], 1e6 * (time.perf_counter() - started))
    return best


def ours(x: Any, w: Any, g: Any, stride: int, padding: int) -> list[Callable[[], Any]]:
    """Results and the two gradients by native code."""
    from jitgrad.codegen.run.tiled import convolved

    how = (stride, stride), (padding, padding), (1, 1), 1
    return [lambda: convolved("y", x, w, g.shape, *how), lambda: convolved("w", x, g, w.shape, *how),
            lambda: convolved("x", w, g, x.shape, *how)]


def theirs(x: Any, w: Any, g: Any, stride: int, padding: int) -> list[Callable[[], Any]]:
    """The same by PyTorch. ImportError without it."""
    import torch

    torch.set_num_threads(1)
    tx, tw, tg = (torch.from_numpy(a) for a in (x, w, g))

    def backward(of_x: bool) -> Any:
        mask = [of_x, not of_x, False]
        return torch.ops.aten.convolution_backward(tg, tx, tw, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0],
                                                   1, mask)

    return [lambda: torch.nn.functional.conv2d(tx, tw, stride=stride, padding=padding), lambda: backward(False),
            lambda: backward(True)]


def main() -> None:
    """Print the table."""
    print(f"{'images, weights, stride':<48}{'ours':>24}{'torch':>24}")
    rng = np.random.default_rng(0)
    for xs, ws, stride, padding in SHAPES:
        x, w = (rng.standard_normal(s).astype(np.float32) for s in (xs, ws))
        n = (xs[2] + 2 * padding - ws[2]) // stride + 1
        g = rng.standard_normal((xs[0], ws[0], n, n)).astype(np.float32)
        runs = ours(x, w, g, stride, padding)
        with suppress(ImportError):
            runs = runs + theirs(x, w, g, stride, padding)
        found = best_us(runs)
        print(f"{f'{xs}, {ws}, {stride}':<48}" + "".join(f"{us:>8.0f}" for us in found))


if __name__ == "__main__":
    main()
