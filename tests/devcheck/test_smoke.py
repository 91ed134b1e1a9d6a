"""The checks' own code, on an emulated GPU: what is asked of the device is right, as far as the host can tell."""

from __future__ import annotations

import pytest

from tests.codegen.cuda import emulated, machinecode
from tests.codegen.cuda.host import needs_compiler
from tests.codegen.cuda.machinecode import needs_cuda
from tests.cuda import hosted
from tools.devcheck import bench, ceilings, checks

#: what only NVIDIA's software can answer
REAL = {"smoke.errors_have_names", "smoke.compiling_in_threads", "smoke.dynamic_shared_memory", "smoke.slim_packages",
        "smoke.products_bfloat16", "smoke.products_tf32", "smoke.epilogues_bfloat16"}
CHECKS = [c for c in checks.collect(("smoke", "smoke_graphs")) if c.title not in REAL]


@pytest.fixture(scope="module")
def gpu():
    with pytest.MonkeyPatch.context() as patch, emulated.installed(patch) as made:
        yield made


@pytest.mark.sampled("tools")
@needs_compiler
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.title)
def test_check(gpu, check):
    assert isinstance(check.function(), dict)


@needs_compiler
@pytest.mark.parametrize("check", [c for c in checks.collect(("ceilings",)) if c.name != "products_8192"],
                         ids=lambda c: c.title)
def test_ceiling(gpu, check, monkeypatch):
    monkeypatch.setattr(ceilings, "COPIED", 1 << 20)
    assert all(row["us"] > 0 for row in check.function()["rows"])


@needs_compiler
def test_products(gpu, monkeypatch):
    """What the emulated device can multiply; bfloat16 is asked for first."""
    monkeypatch.setattr(ceilings, "SIDE", 16)
    monkeypatch.setattr(ceilings, "PRECISIONS", ceilings.PRECISIONS[1:])
    facts = ceilings.products_8192()
    assert set(facts) == {"float16_flop_per_s", "float32_flop_per_s", "rows"}


@pytest.mark.sampled("tools")
@needs_compiler
@pytest.mark.parametrize("check", checks.collect(("lectures",))[::4], ids=lambda c: c.title)
def test_lecture(check):
    with hosted.gpu():
        assert check.function()["largest_error"] < 1e-2


@needs_cuda
@pytest.mark.parametrize("name", bench.SOURCES)
def test_kernels_compile(name):
    assert machinecode.compiled(bench.source(name), "sm_90")[name].stack == 0
