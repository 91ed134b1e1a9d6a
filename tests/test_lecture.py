"""The lecture's programs, written for PyTorch, run unchanged: eager, interpreted and native, with PyTorch's results.

`jitgrad/devcheck/lecture` has the programs, and what PyTorch 2.13 returned for them.
"""

from __future__ import annotations

import numpy as np
import pytest

import jitgrad
from jitgrad import config
from tools.devcheck.lecture import LATER, REFERENCE, programs


@pytest.mark.parametrize("mode", ["eager", "interpreted", "native"])
@pytest.mark.parametrize("program", [p for p in programs.PROGRAMS if p.__name__ not in LATER], ids=lambda p: p.__name__)
def test_program(program, mode, monkeypatch):
    scripted = []
    script = jitgrad.jit.script

    def remembering(function):
        scripted.append(script(function))
        return scripted[-1]

    monkeypatch.setattr(jitgrad.jit, "script", remembering)
    with config.override(jit=mode != "eager", interpret=mode == "interpreted"):
        got = program(jitgrad)
    np.testing.assert_allclose(got, REFERENCE[program.__name__], rtol=2e-3, atol=1e-4)
    if mode != "eager" and program.__name__.startswith("script"):
        assert scripted
        most = 2 if program.__name__ == "script_recurrent" else 1  # a sequence of length one occurs
        assert all(1 <= f.cache_info().compilations <= most for f in scripted)
