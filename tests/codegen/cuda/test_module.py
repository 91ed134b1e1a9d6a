"""`f.kernels(..., device="cuda")`: readable CUDA on any machine."""

from __future__ import annotations

import re

import pytest

import jitgrad
from jitgrad.codegen.cuda.kernels import each, text
from jitgrad.codegen.program.kernel import Kernel, Operand, Stmt
from jitgrad.dims import Symbol, dim
from tests.codegen.cuda import machinecode


@jitgrad.script
def attention(q, k, v):
    return (q @ k.transpose(-1, -2) * 0.25).softmax(-1) @ v


@jitgrad.script
def newton(a):
    x = a
    while bool((x * x - a).abs().max() > 1e-6):
        x = 0.5 * (x + a / x)
    return x


@jitgrad.script
def normed(x, w, b):
    return jitgrad.nn.functional.gelu(jitgrad.nn.functional.layer_norm(x, (x.shape[1],), w, b)).sum()


def ones(*shape):
    return jitgrad.ones(*shape, requires_grad=True)


PROGRAMS = {"attention": (attention, (ones(4, 5, 16), ones(4, 5, 16), ones(4, 5, 16))), "newton": (newton, (ones(3),)),
            "normed": (normed, (ones(6, 8), ones(8), ones(8)))}


def test_pointwise_text():
    @jitgrad.script
    def scaled(x, y):
        return jitgrad.tanh(x) * 2 + y

    assert scaled.kernels(jitgrad.ones(3), jitgrad.ones(3), device="cuda") == ["""\
extern "C" __global__ void __launch_bounds__(256)
jg_pw_tanh_mul_add_0(i64 n0, const float* p0, const float* p1, float* p2) {
    // n0 results
    // p0: float32, in, at i0
    // p1: float32, in, at i0
    // p2: float32, out, at i0
    if (jg_aligned<4>(p0) && jg_aligned<4>(p1) && jg_aligned<4>(p2)) {
        const i64 total = jg_parts(n0, 4);
        for (i64 t = jg_thread(); t < total; t += jg_threads()) {
            const i64 e = t * 4;
            const int m = jg_rest<4>(n0 - e);
            if (m == 4) {
                jg_pack<float, 4> x0, x4;
                x0 = jg_read<4>(p0 + e);
                x4 = jg_read<4>(p1 + e);
                jg_pack<float, 4> y6;
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float v0 = x0.at[k];
                    const float v1 = tanhf(v0);
                    const float v2 = 2.0f;
                    const float v3 = (v1 * v2);
                    const float v4 = x4.at[k];
                    const float v5 = (v3 + v4);
                    y6.at[k] = v5;
                }
                jg_write<4>(p2 + e, y6);
            }
            else {
                const i64 first = e;
                #pragma unroll 1
                for (int k = 0; k < m; k++) {
                    const i64 e = first + k;
                    const i64 i0 = e;
                    const float v0 = p0[i0];
                    const float v1 = tanhf(v0);
                    const float v2 = 2.0f;
                    const float v3 = (v1 * v2);
                    const float v4 = p1[i0];
                    const float v5 = (v3 + v4);
                    p2[i0] = v5;
                }
            }
        }
    }
    else {
        const i64 total = n0;
        for (i64 t = jg_thread(); t < total; t += jg_threads()) {
            const i64 e = t;
            const i64 i0 = e;
            const float v0 = p0[i0];
            const float v1 = tanhf(v0);
            const float v2 = 2.0f;
            const float v3 = (v1 * v2);
            const float v4 = p1[i0];
            const float v5 = (v3 + v4);
            p2[i0] = v5;
        }
    }
}
"""]


def test_row_text():
    @jitgrad.script
    def total(x):
        return x.sum(1)

    assert total.kernels(jitgrad.ones(3, 4), device="cuda")[0].partition("\n\n")[0] + "\n" == """\
extern "C" __global__ void __launch_bounds__(256)
jg_row_sum_0_warp(i64 n0, i64 n1, const float* __restrict__ p0, float* __restrict__ p1, i64 s0, char* scratch) {
    // n0 results, each of n1 elements
    // p0: float32, in, at i0 * s0 + i1
    // p1: float32, out, at i0
    const bool aligned = jg_aligned<4>(p0) && s0 % 4 == 0;
    const i64 rows = n0, columns = n1;
    const int bits = jg_bits(jg_lanes((int)jg_parts(columns, 4))), lanes = 1 << bits, lane = threadIdx.x & (lanes - 1);
    const int group = threadIdx.x >> bits, together = blockDim.x >> bits;  // rows of this block
    const i64 step = (i64)gridDim.x * together;
    for (i64 first = (i64)blockIdx.x * together; first < rows; first += step) {
        const bool live = first + group < rows;
        const i64 row = live ? first + group : rows - 1;
        const int length = live ? (int)columns : 0;
        const i64 i0 = row;
        const float* __restrict__ const q0 = p0 + i0 * s0;
        float* __restrict__ const q1 = p1 + i0;
        float r1 = 0.0f;
        for (int e = lane * 4; e < length; e += lanes * 4) {
            const bool full = aligned && e + 4 <= length;
            const int m = jg_rest<4>(length - e);
            jg_pack<float, 4> x0;
            if (full) {
                x0 = jg_read<4>(q0 + e);
            }
            else {
                x0 = jg_read_some<4>(q0 + e, m);
            }
            #pragma unroll
            for (int k = 0; k < 4; k++) {
                const float v0 = x0.at[k];
                r1 = k < m ? jg_sum<float>::of(r1, v0) : r1;
            }
        }
        r1 = jg_warp<jg_sum<float>>(r1, lanes);
        const float v1 = r1;
        if (lane == 0 && live) {
            q1[0] = v1;
        }
    }
}
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_cuda_functions(name):
    function, args = PROGRAMS[name]
    found = function.kernels(*args, device="cuda")
    assert found
    assert len(set(found)) == len(found)
    assert all(k.startswith('extern "C" __global__ void __launch_bounds__(') for k in found)
    assert any("jg_read<4>(" in k for k in found)
    if name != "newton":
        assert any(re.search(r"<jg_sum<float>[^>]*>\(", k) for k in found)


def test_another_device_is_an_error():
    with pytest.raises(ValueError, match='not for "tpu"'):
        newton.kernels(ones(2), device="tpu")


@jitgrad.script
def dropped(x, b):
    return jitgrad.nn.functional.dropout(jitgrad.nn.functional.gelu(x + b), 0.1)


@jitgrad.script
def shared(x, b):
    return (x * b) / (x * b).sum()


def update() -> str:
    """p -= rate * g for many tensors."""
    n, f32 = dim(Symbol("n")), jitgrad.float32
    kernel = Kernel((n,), (), (Operand(f32, (1,), "inout"), Operand(f32, (1,))), (f32,),
                    (Stmt("load", operand=0), Stmt("load", operand=1), Stmt("scalar", number=0, dtype=f32),
                     Stmt("mul", (1, 2), f32), Stmt("sub", (0, 3), f32), Stmt("store", (4,), operand=0)))
    return each.each_source(kernel, "update", (True,), 16)


@machinecode.needs_cuda
def test_kernels_compile_without_spills():
    """Every kind and form, for two architectures: no spills, no stack, vectors in memory."""
    plain = jitgrad.ones(4, 5, 16)
    programs = [(attention, (plain, plain, plain)), (normed, PROGRAMS["normed"][1]),
                (dropped, (jitgrad.ones(4, 8), jitgrad.ones(8))), (shared, (jitgrad.ones(4, 8), jitgrad.ones(8)))]
    kernels = [k for function, args in programs for k in function.kernels(*args, device="cuda")]
    renamed = [k.replace("\njg_", f"\nm{i}_jg_") for i, k in enumerate(kernels)]
    for kind in ("pw", "row", "col", "all", "each"):
        assert any(f"jg_{kind}_" in k for k in [*renamed, update()])
    whole = "\n".join([text.prelude(), *renamed, update()])
    for arch in ("sm_80", "sm_90"):
        used = machinecode.compiled(whole, arch)
        assert len(used) >= 14
        assert max(facts.stack for facts in used.values()) <= machinecode.BARRIER
    ptx = machinecode.assembly(whole)
    assert ".local" not in ptx
    for function in re.findall(r"\.entry \w*jg_(?:pw|row|each)_(?:.*?)\n}\n", ptx, re.DOTALL):
        assert re.search(r"ld\.global(\.nc)?\.v[24]", function), function[:80]
