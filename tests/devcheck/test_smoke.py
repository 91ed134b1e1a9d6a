"""The checks' own code, on an emulated GPU: what is asked of the device is right, as far as the host can tell."""

from __future__ import annotations

import pytest

from jitgrad.codegen.cuda import libraries, nvrtc
from jitgrad.devcheck import bench, checks
from tests.codegen.cuda import emulated
from tests.codegen.cuda.host import needs_compiler
from tests.codegen.cuda.test_nvrtc import needs_nvrtc

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


@needs_nvrtc
@pytest.mark.parametrize("name", bench.SOURCES)
def test_kernels_compile(name):
    compiler = nvrtc.Compiler(libraries.load("nvrtc"))
    assert name.encode() in compiler.compile(bench.source(name), ("-arch=sm_90", *nvrtc.OPTIONS))
