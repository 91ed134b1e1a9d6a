"""The checks' own code, on an emulated GPU: what is asked of the device is right, as far as the host can tell."""

from __future__ import annotations

import pytest

from jitgrad.devcheck import bench, checks
from tests.codegen.cuda import emulated, machinecode
from tests.codegen.cuda.host import needs_compiler
from tests.codegen.cuda.machinecode import needs_cuda

#: what only NVIDIA's software can answer
REAL = {"smoke.errors_have_names", "smoke.compiling_in_threads", "smoke.dynamic_shared_memory", "smoke.slim_packages",
        "smoke.products_bfloat16", "smoke.products_tf32", "smoke.epilogues_bfloat16"}
CHECKS = [c for c in checks.collect(("smoke", "smoke_graphs")) if c.title not in REAL]


@pytest.fixture(scope="module")
def gpu():
    with pytest.MonkeyPatch.context() as patch, emulated.installed(patch) as made:
        yield made


@needs_compiler
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.title)
def test_check(gpu, check):
    assert isinstance(check.function(), dict)


@needs_cuda
@pytest.mark.parametrize("name", bench.SOURCES)
def test_kernels_compile(name):
    assert machinecode.compiled(bench.source(name), "sm_90")[name].stack == 0
