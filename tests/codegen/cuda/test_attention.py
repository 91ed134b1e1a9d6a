"""The kernels of attention on the host, next to float64: values and gradients, for strided heads and any lengths."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.codegen.cuda.kernels import text
from jitgrad.codegen.cuda.kernels.tiled import attention
from jitgrad.codegen.cuda.kernels.tiled.library import library
from jitgrad.ops.rows.attention import WIDTHS
from tests.codegen.cuda import host, machinecode

pytestmark = host.emulated


def reference(q, k, v, g, causal, scale, mask=None):
    """y, lse, dq, dk, dv in float64."""
    q, k, v, g = (x.astype(np.float64) for x in (q, k, v, g))
    scores = q @ k.swapaxes(-1, -2) * scale
    if causal:
        scores = np.where(np.arange(k.shape[-2]) > np.arange(q.shape[-2])[:, None], -np.inf, scores)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(np.float64)
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
    if mask is not None:
        lse = np.where(np.isinf(lse), np.inf, lse)
    return y, lse, ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


def heads(rng, batches, count, length, width, d, padding):
    """(batches, count, length, width), a transposed view of (batches, length, count * width + padding)."""
    memory = rng.normal(size=(batches, length, count * width + padding)).astype(d.np)
    return memory[..., :count * width].reshape(batches, length, count, width).transpose(0, 2, 1, 3)


def run(kind, d, width, causal, heads_, numbers, sizes, scale, mask=None):
    """Run a kernel with the threads in order and in reverse order: both write the same bits."""
    masks = () if mask is None else (mask,)
    added_ = [dtypes.from_numpy(x.dtype) for x in masks]
    loaded = host.library(f"{library(attention.LIBRARY)}\n{attention.source(kind, d, width, causal, 'test', *added_)}")
    arguments = [ctypes.c_void_p(x.ctypes.data) for x in (*heads_, *numbers, *masks)]
    arguments += [ctypes.c_int64(n) for n in sizes]
    arguments += [ctypes.c_int64(s // x.itemsize) for x in heads_ for s in x.strides[:3]]
    arguments += [ctypes.c_int64(s // x.itemsize) for x in masks for s in x.strides] + [ctypes.c_float(scale)]
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
    compare(d, width, batches, count, n_q, n_k, causal, scale, padding)


def flags(rng, d, *shape):
    """Of which a row is all False, and a whole tile of keys."""
    made = rng.random(shape) < 0.7
    made[..., shape[-2] // 2, :] = False
    made[..., :64] &= shape[-1] < 100
    return made


def added(rng, d, *shape):
    """Numbers, some of them -infinity."""
    return np.where(flags(rng, d, *shape), rng.normal(size=shape), -np.inf).astype(d.np)


@pytest.mark.parametrize(("d", "width", "batches", "count", "n_q", "n_k", "scale", "shape", "make"), [
    ("bfloat16", 64, 2, 2, 70, 70, 0.125, (1, 1, 70, 70), flags),
    ("float16", 64, 2, 1, 5, 131, 0.3, (2, 1, 1, 131), flags),
    ("bfloat16", 32, 1, 2, 130, 67, -0.2, (1, 2, 130, 67), added),
    ("float16", 128, 1, 1, 67, 90, 0.1, (1, 1, 67, 90), added),
    ("float16", 32, 1, 1, 3, 2, 0.0, (1, 1, 1, 2), added),
    ("float16", 64, 1, 2, 4, 0, 0.125, (1, 1, 4, 0), flags),
])
def test_masks(d, width, batches, count, n_q, n_k, scale, shape, make):
    """Keys that no query sees have no gradient; queries that see nothing are zero."""
    compare(d, width, batches, count, n_q, n_k, False, scale, 0, (shape, make))


def compare(d, width, batches, count, n_q, n_k, causal, scale, padding, masked=None):
    d, rng = getattr(dtypes, d), np.random.default_rng(5)
    q, g, y, dq = (heads(rng, batches, count, n_q, width, d, padding) for _ in range(4))
    k, v, dk, dv = (heads(rng, batches, count, n_k, width, d, padding) for _ in range(4))
    lse, delta = np.zeros((2, batches, count, n_q), np.float32)
    mask = None
    if masked:
        mask = np.broadcast_to(masked[1](rng, d, *masked[0]), (batches, count, n_q, n_k))  # strides of 0
    sizes = (batches, count, n_q, n_k)
    run("forward", d, width, causal, (q, k, v, y), (lse,), sizes, scale, mask)
    run("dq", d, width, causal, (q, k, v, y, g, dq), (lse, delta), sizes, scale, mask)
    run("dkv", d, width, causal, (q, k, v, g, dk, dv), (lse, delta), sizes, scale, mask)
    expected = reference(q, k, v, g, causal, scale, mask)
    unit = 2.0 ** -7 if d.name == "bfloat16" else 2.0 ** -10
    for name, one, other in zip(("y", "lse", "dq", "dk", "dv"), (y, lse, dq, dk, dv), expected, strict=True):
        size = np.abs(other).max(initial=1e-3, where=np.isfinite(other))
        np.testing.assert_allclose(one.astype(np.float64), other, atol=2 * unit * size, rtol=2 * unit, err_msg=name)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_warp_leaves_out_what_none_of_its_rows_sees(width):
    """Nothing is multiplied by NaNs of keys, or of cotangents, that no row of the warp has to do with."""
    rng, d = np.random.default_rng(5), dtypes.bfloat16
    rows = attention.shape("forward", width).rows
    q, k, v, g, y, dq, dk, dv = (heads(rng, 1, 1, rows, width, d, 0) for _ in range(8))
    lse, delta = np.zeros((2, 1, 1, rows), np.float32)
    sizes, of_warp = (1, 1, rows, rows), rows // 4
    lost = d.np.type(np.nan)
    late_k, late_v, early = k.copy(), v.copy(), g.copy()
    late_v[..., 64:, :] = lost
    run("forward", d, width, True, (q, k, late_v, y), (lse,), sizes, 0.125)
    assert not np.isnan(y[..., :rows // 2, :].astype(np.float32)).any()
    run("forward", d, width, True, (q, k, v, y), (lse,), sizes, 0.125)
    late_k[..., max(of_warp, 32):, :] = late_v[..., max(of_warp, 32):, :] = lost
    run("dq", d, width, True, (q, late_k, late_v, y, g, dq), (lse, delta), sizes, 0.125)
    assert not np.isnan(dq[..., :of_warp, :].astype(np.float32)).any()
    run("dq", d, width, True, (q, k, v, y, g, dq), (lse, delta), sizes, 0.125)
    early[..., :32, :] = lost
    run("dkv", d, width, True, (q, k, v, early, dk, dv), (lse, delta), sizes, 0.125)
    assert not np.isnan(dk[..., max(of_warp, 32):, :].astype(np.float32)).any()
    assert not np.isnan(dv[..., max(of_warp, 32):, :].astype(np.float32)).any()


@machinecode.needs_cuda
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("mask", [None, dtypes.bool_, dtypes.bfloat16], ids=str)
def test_machine_code(mask, arch):
    """Two blocks have room on a multiprocessor; where a result goes, and where a mask is, may wait on the stack."""
    names = {f"{kind}_{width}": (kind, width) for kind in attention.HEADS for width in WIDTHS}
    whole = [text.prelude(), library(attention.LIBRARY)]
    whole += [attention.source(kind, dtypes.bfloat16, width, mask is None, name, mask)
              for name, (kind, width) in names.items()]
    used = machinecode.compiled("\n".join(whole), arch)
    for name, (kind, width) in names.items():
        assert used[name].registers <= 65536 // (attention.THREADS * attention.shape(kind, width).resident)
        assert arch == "sm_75" or used[name].stack <= (32 if mask and kind == "dkv" else 16), name
