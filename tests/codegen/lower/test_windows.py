"""Sliding windows and maxima over them as native programs with symbolic sizes."""

import numpy as np
import pytest

from jitgrad.codegen.lower.rules import windows
from tests.codegen.programs import agree, graph, sizes, tensor


def test_windows_and_what_reads_them():
    N, H, W = sizes("N H W")
    how = {"axis": 1, "size": 3, "step": 2, "dilation": 1}

    def body(F, x):
        w = F.windows(F.exp(x), **how)
        return F.sum(w, axes=(3,), keepdim=False), F.windows_add(x, w * 2.0, **how), w

    rng = np.random.default_rng(0)
    for shape in ((2, 7, 4), (3, 8, 5), (0, 3, 2)):
        agree(graph(body, tensor(N, H, W)), [rng.standard_normal(shape).astype(np.float32)])


@pytest.mark.parametrize("unrolled", [0, 32])
@pytest.mark.parametrize("padding", [(0, 0), (1, 1)])
def test_maxima(monkeypatch, unrolled, padding):
    """Both forms of the kernel, with and without a frame, with NaN and infinities."""
    monkeypatch.setattr(windows, "UNROLLED", unrolled)
    N, C, H, W = sizes("N C H W")
    how = {"kernel": (3, 2), "stride": (2, 1), "padding": padding, "dilation": (1, 2)}

    def body(F, x):
        from jitgrad.ops.specs import windows_count

        shape = tuple(windows_count(n + 2 * p, k, s, d) for n, k, s, p, d in zip(
            x.shape[2:], how["kernel"], how["stride"], padding, how["dilation"], strict=True))
        return F.max_pool(x, shape=shape, **how)

    rng = np.random.default_rng(0)
    for shape in ((2, 3, 7, 6), (1, 2, 5, 9), (0, 2, 5, 5)):
        x = rng.standard_normal(shape).astype(np.float32)
        x[rng.random(shape) < 0.1] = np.nan
        x[rng.random(shape) < 0.3] = -np.inf
        agree(graph(body, tensor(N, C, H, W)), [x])
