"""Kernels of the corpus of programs, forward and backward, compiled by nvcc for two architectures: no spills.

`JITGRAD_TEST_ALL=1` compiles those of every program (some minutes), else those of every fourteenth.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import jitgrad
from jitgrad import config
from jitgrad.codegen.cuda import text
from tests.codegen.cuda.test_module import NVCC
from tests.observe import duplicate
from tests.programs import test_programs

EACH = 1 if os.environ.get("JITGRAD_TEST_ALL") == "1" else 14
SPILL = re.compile(r"(\d+) bytes spill stores")


def kernels() -> dict[str, str]:
    """The kernels' texts, and of which program each is."""
    found: dict[str, str] = {}
    with config.override(interpret=True, cache=""):
        for name, item in sorted(test_programs.PROGRAMS.items())[::EACH]:
            script = jitgrad.script(item.new())
            for kernel in script.kernels(*duplicate(item.calls[0]), device="cuda"):
                found.setdefault(kernel, name)
    return found


@pytest.mark.skipif(NVCC is None, reason="no nvcc: kernels' CUDA text is not compiled")
@pytest.mark.timeout(900)
def test_kernels_of_programs_compile_without_spills(tmp_path: Path) -> None:
    texts = list(kernels())
    assert len(texts) > 100
    renamed = [re.sub(r"\bjg_(pw|row|col|all|each)_", rf"m{i}_jg_\1_", k) for i, k in enumerate(texts)]
    (tmp_path / "kernels.cu").write_text("\n".join([text.prelude(), *renamed]))
    assert NVCC is not None
    runs = [subprocess.Popen([NVCC, f"-arch={arch}", "-cubin", "-Xptxas", "-v", "-o", tmp_path / f"{arch}.cubin",
                              tmp_path / "kernels.cu"], stderr=subprocess.PIPE, text=True)
            for arch in ("sm_80", "sm_90")]
    told_by = [(run, run.communicate()[1]) for run in runs]
    for run, told in told_by:
        assert run.returncode == 0, told[-2000:]
        spilled = [int(s) for s in SPILL.findall(told)]
        assert len(spilled) >= len(texts)
        # ptxas keeps the barrier of a loop that diverges on the stack here and there: 8 bytes, not registers
        assert max(spilled) <= 8
        assert sum(s > 0 for s in spilled) * 50 <= len(spilled)
