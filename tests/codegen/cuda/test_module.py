"""`f.kernels(..., device="cuda")`: readable CUDA on any machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import jitgrad
from jitgrad.codegen.cuda import text

NVCC = shutil.which("nvcc")


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
jg_pw_tanh_mul_add_0(i64 a0, const float* p0, const float* p1, float* p2) {
    typedef i64 I;
    const I n0 = (I)a0;
    const I total = n0;
    for (I t = (I)jg_thread(); t < total; t += (I)jg_threads()) {
        const I i0 = t;
        const float v0 = p0[i0];
        const float v1 = tanhf(v0);
        const float v2 = 2.0f;
        const float v3 = (v1 * v2);
        const float v4 = p1[i0];
        const float v5 = (v3 + v4);
        p2[i0] = v5;
    }
}
"""]


def test_row_text():
    @jitgrad.script
    def total(x):
        return x.sum(1)

    assert total.kernels(jitgrad.ones(3, 4), device="cuda") == ["""\
extern "C" __global__ void __launch_bounds__(1024)
jg_row_sum_0(i64 a0, i64 a1, const float* p0, float* p1, i64 s0) {
    typedef i64 I;
    const I n0 = (I)a0;
    const I n1 = (I)a1;
    const I rows = n0, columns = n1;
    for (I row = blockIdx.x; row < rows; row += gridDim.x) {
        const I i0 = row;
        float r1 = 0.0f;
        for (I e = threadIdx.x; e < columns; e += blockDim.x) {
            const I i1 = e;
            const float v0 = p0[i0 * (I)s0 + i1];
            r1 = jg_sum<float>::of(r1, v0);
        }
        const float w1 = jg_block<jg_sum<float>>(r1);
        const float v1 = w1;
        if (threadIdx.x == 0) {
            p1[i0] = v1;
        }
    }
}
"""]


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_cuda_functions(name):
    function, args = PROGRAMS[name]
    found = function.kernels(*args, device="cuda")
    assert found
    assert len(set(found)) == len(found)
    assert all(k.startswith('extern "C" __global__ void __launch_bounds__(') for k in found)
    if name != "newton":
        assert any("jg_block<jg_sum<float>>" in k for k in found)


def test_another_device_is_an_error():
    with pytest.raises(ValueError, match='not for "tpu"'):
        newton.kernels(ones(2), device="tpu")


@pytest.mark.skipif(NVCC is None, reason="no nvcc: kernels' CUDA text is not compiled")
def test_kernels_compile_without_spills(tmp_path: Path):
    kernels = [k for function, args in PROGRAMS.values() for k in function.kernels(*args, device="cuda")]
    renamed = [k.replace("\njg_", f"\nm{i}_jg_", 1) for i, k in enumerate(kernels)]
    (tmp_path / "kernels.cu").write_text("\n".join([text.prelude(), *renamed]))
    assert NVCC is not None
    for arch in ("sm_80", "sm_90"):
        done = subprocess.run([NVCC, f"-arch={arch}", "-cubin", "-Xptxas", "-v", "-o", tmp_path / "k.cubin",
                               tmp_path / "kernels.cu"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert " 0 bytes spill stores" in done.stderr
        assert all(" 0 bytes spill" in line for line in done.stderr.splitlines() if "spill" in line), done.stderr
