"""Generated kernels as CuPy's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jitgrad
from jitgrad.codegen.cuda.driver import nvrtc
from jitgrad.codegen.cuda.driver.libraries import cupy
from jitgrad.codegen.cuda.driver.rawkernels import raw_kernels
from tests import required


@jitgrad.script
def scaled(x: Any, y: Any) -> Any:
    return (x * y).exp() + x


def test_a_kernel_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy, which is not here, is told where the machine code is."""
    monkeypatch.setattr(nvrtc, "compile_units", lambda sources, arch: [f"{arch}: {s}".encode() for s in sources])
    modules: list[bytes] = []

    def module(path: str) -> Any:
        modules.append(Path(path).read_bytes())
        return SimpleNamespace(get_function=lambda name: f"kernel {name}")

    sources = scaled.kernels(jitgrad.ones(3), jitgrad.ones(3), device="cuda")
    xp = SimpleNamespace(RawModule=module)
    assert raw_kernels(sources, xp, "sm_90") == {"jg_pw_mul_exp_add_0": "kernel jg_pw_mul_exp_add_0"}
    assert modules[0].startswith(b"sm_90: ")
    assert sources[0].encode() in modules[0]
    assert raw_kernels([], xp, "sm_90") == {}


def test_without_cupy() -> None:
    try:
        cupy()
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error)[:20]):
            scaled.raw_kernels(jitgrad.ones(3), jitgrad.ones(3))


@pytest.mark.gpu
def test_launched_by_hand() -> None:
    required.gpu()
    xp, n = cupy(), 1000
    x, y = (xp.asarray(np.random.default_rng(k).standard_normal(n), np.float32) for k in (0, 1))
    result = xp.empty_like(x)
    (kernel,) = scaled.raw_kernels(jitgrad.as_tensor(x), jitgrad.as_tensor(y)).values()
    kernel((4,), (256,), (np.int64(n), x, y, result))
    xp.testing.assert_allclose(result, xp.exp(x * y) + x, rtol=1e-6)
