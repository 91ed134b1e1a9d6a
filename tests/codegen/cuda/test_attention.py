"""The kernels of attention on the host, next to float64: values and gradients, for strided heads and any lengths."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.cuda.kernels import attention, text
from jitgrad.ops.rows.attention import WIDTHS
from tests.codegen.cuda import host, machinecode

pytestmark = host.emulated


def reference(q, k, v, g, causal, scale):
    """y, lse, dq, dk, dv in float64."""
    q, k, v, g = (x.astype(np.float64) for x in (q, k, v, g))
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.arange(k.shape[-2]) > np.arange(q.shape[-2])[:, None], -np.inf, scores)
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    most = np.where(np.isinf(most), 0, most)
    e = np.exp(scores - most)
    total = e.sum(-1, keepdims=True)
    p = np.divide(e, total, out=np.zeros_like(e), where=total != 0)
    y = p @ v
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - (g * y).sum(-1, keepdims=True)) * scale
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + most)[..., 0]
    return y, lse, ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


def heads(rng, batches, count, length, width, d, padding):
    """(batches, count, length, width), a transposed view of (batches, length, count * width + padding)."""
    memory = rng.normal(size=(batches, length, count * width + padding)).astype(d.np)
    return memory[..., :count * width].reshape(batches, length, count, width).transpose(0, 2, 1, 3)


def run(kind, d, width, causal, heads_, numbers, sizes, scale):
    """Run a kernel with the threads in order and in reverse order: both write the same bits."""
    loaded = host.library(f"{attention.library()}\n{attention.source(kind, d, width, causal, 'test')}")
    arguments = [ctypes.c_void_p(x.ctypes.data) for x in (*heads_, *numbers)]
    arguments += [ctypes.c_int64(n) for n in sizes]
    arguments += [ctypes.c_int64(s // x.itemsize) for x in heads_ for s in x.strides[:3]] + [ctypes.c_float(scale)]
    made = [*heads_[-len(attention.HEADS[kind][1]):], *numbers[len(attention.NUMBERS[kind][0]):]]
    batches, count, n_q, n_k = sizes
    blocks = batches * count * -(-(n_k if kind == "dkv" else n_q) // attention.shape(kind, width).rows)
    found = []
    for reverse in (1, 0):
        loaded.jg_set_reversed(reverse)
        for x in made:
            x[...] = np.nan
        if blocks:
            host.launch(loaded, attention.form(kind, width, "test"), blocks, 1, arguments)
        found.append([x.copy() for x in made])
    assert [x.tobytes() for x in found[0]] == [x.tobytes() for x in found[1]], "the order of the threads matters"


@pytest.mark.parametrize(("d", "width", "batches", "count", "n_q", "n_k", "causal", "scale", "padding"), [
    ("bfloat16", 64, 1, 2, 70, 70, True, 0.125, 0),
    ("float16", 64, 2, 1, 5, 131, False, 0.3, 0),
    ("bfloat16", 32, 1, 2, 130, 3, True, -0.2, 8),
    ("float16", 32, 1, 1, 1, 1, False, 1.0, 0),
    ("float16", 128, 1, 1, 67, 90, True, 0.1, 0),
    ("bfloat16", 128, 1, 1, 33, 40, False, 0.0, 1),
    ("bfloat16", 64, 1, 2, 140, 20, True, 0.125, 3),
    ("float16", 64, 1, 2, 4, 0, False, 0.125, 0),
    ("float16", 64, 1, 2, 0, 4, False, 0.125, 0),
])
def test_values_and_gradients(d, width, batches, count, n_q, n_k, causal, scale, padding):
    d, rng = getattr(dtypes, d), np.random.default_rng(5)
    q, g, y, dq = (heads(rng, batches, count, n_q, width, d, padding) for _ in range(4))
    k, v, dk, dv = (heads(rng, batches, count, n_k, width, d, padding) for _ in range(4))
    lse, delta = np.zeros((2, batches, count, n_q), np.float32)
    sizes = (batches, count, n_q, n_k)
    run("forward", d, width, causal, (q, k, v, y), (lse,), sizes, scale)
    run("dq", d, width, causal, (q, k, v, y, g, dq), (lse, delta), sizes, scale)
    run("dkv", d, width, causal, (q, k, v, g, dk, dv), (lse, delta), sizes, scale)
    expected = reference(q, k, v, g, causal, scale)
    unit = 2.0 ** -7 if d.name == "bfloat16" else 2.0 ** -10
    for name, one, other in zip(("y", "lse", "dq", "dk", "dv"), (y, lse, dq, dk, dv), expected, strict=True):
        size = np.abs(other).max(initial=1e-3, where=np.isfinite(other))
        np.testing.assert_allclose(one.astype(np.float64), other, atol=2 * unit * size, rtol=2 * unit, err_msg=name)


@machinecode.needs_cuda
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_machine_code(arch):
    """Two blocks have room on a multiprocessor, and no loop spills: where a result goes may wait on the stack."""
    names = {f"{kind}_{width}": (kind, width) for kind in attention.HEADS for width in WIDTHS}
    whole = [text.prelude(), attention.library()]
    whole += [attention.source(kind, dtypes.bfloat16, width, True, name) for name, (kind, width) in names.items()]
    used = machinecode.compiled("\n".join(whole), arch)
    for name, (kind, width) in names.items():
        assert used[name].registers <= 65536 // (attention.THREADS * attention.shape(kind, width).resident)
        assert arch == "sm_75" or used[name].stack <= 16, name
