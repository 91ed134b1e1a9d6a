"""What machine code says of itself, against what ptxas says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from jitgrad.codegen.cuda.driver import nvrtc
from tests import required
from tests.codegen.cuda import machinecode

#: few registers, many, an array on the stack
KERNELS = """
extern "C" __global__ void plain(float* p) { p[threadIdx.x] = 1.0f; }
extern "C" __global__ void wide(double* p) {
    double x[40];
    #pragma unroll
    for (int k = 0; k < 40; k++) x[k] = p[k * 32 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 40; k++) p[k * 32 + threadIdx.x] = x[39 - k] / x[k];
}
extern "C" __global__ void indexed(float* p, int n) {
    float x[64];
    for (int k = 0; k < 64; k++) x[k] = p[k];
    for (int k = 0; k < n; k++) x[(k * 7) % 64] += x[(k * n) % 64];
    for (int k = 0; k < 64; k++) p[k] = x[k];
}
"""


@machinecode.needs_cuda
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_registers_and_stack(arch: str) -> None:
    used = machinecode.compiled(KERNELS, arch)
    assert used["plain"].stack == used["wide"].stack == 0
    assert used["indexed"].stack == 256
    assert used["plain"].registers < 16 < 80 < used["wide"].registers


@pytest.mark.skipif(machinecode.NVCC is None, reason="no nvcc")
@pytest.mark.parametrize("most", [255, 32])
def test_as_ptxas_says(tmp_path: Path, most: int) -> None:
    """With few registers, spilled ones count as stack."""
    (tmp_path / "kernels.cu").write_text(KERNELS)
    command = [machinecode.NVCC, "-arch=sm_90", "-cubin", *nvrtc.OPTIONS, f"-maxrregcount={most}", "-Xptxas", "-v",
               "-o", tmp_path / "kernels.cubin", tmp_path / "kernels.cu"]
    told = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stderr
    said = {name: machinecode.Used(int(registers), int(stack)) for name, stack, registers in re.findall(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame.*?Used (\d+) registers", told, re.DOTALL)}
    assert machinecode.usage((tmp_path / "kernels.cubin").read_bytes()) == said
    assert (said["wide"].stack > 0) == (most == 32)


def test_what_is_required_cannot_be_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(required.COMPILERS, raising=False)
    assert required.compilers(False, "no g++").args == (True,)
    monkeypatch.setenv(required.COMPILERS, "1")
    assert required.compilers(True, "no g++").args == (False,)
    with pytest.raises(RuntimeError, match=r"^JITGRAD_REQUIRE_COMPILER=1, but there is no g\+\+$"):
        required.compilers(False, "no g++")
