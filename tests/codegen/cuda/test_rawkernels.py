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
from jitgrad.codegen.cuda.kernels import text
from jitgrad.script.inspect.explain.moved import module_of
from tests import required
from tests.codegen.cuda import machinecode


@jitgrad.script
def scaled(x: Any, y: Any) -> Any:
    return (x * y).exp() + x


def whole(function: Any, *args: Any) -> str:
    """All that a GPU would be given."""
    return module_of(function, args).source()


def test_a_kernel_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy, which is not here, is told where the machine code is."""
    monkeypatch.setattr(nvrtc, "compile_units", lambda sources, arch: [f"{arch}: {s}".encode() for s in sources])
    modules: list[bytes] = []

    def module(path: str) -> Any:
        modules.append(Path(path).read_bytes())
        return SimpleNamespace(get_function=lambda name: f"kernel {name}")

    source = whole(scaled, jitgrad.ones(3), jitgrad.ones(3))
    xp = SimpleNamespace(RawModule=module)
    assert raw_kernels(source, xp, "sm_90") == {"jg_pw_mul_exp_add_0": "kernel jg_pw_mul_exp_add_0"}
    assert modules == [f"sm_90: {source}".encode()]
    assert raw_kernels(text.prelude(), xp, "sm_90") == {}


@jitgrad.script
def attention(q: Any, k: Any, v: Any) -> Any:
    return jitgrad.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).exp()


@machinecode.needs_nvrtc
def test_what_kernels_call_is_in_their_text() -> None:
    """Attention's have more than the prelude before them."""
    q = jitgrad.ones(2, 3, 16, 64, dtype=jitgrad.bfloat16)
    xp = SimpleNamespace(RawModule=lambda path: SimpleNamespace(get_function=lambda name: Path(path).stat().st_size))
    found = raw_kernels(whole(attention, q, q, q), xp, "sm_90")
    assert len(found) == 2
    assert any(name.startswith("jg_attention") for name in found)
    assert all(size > 1000 for size in found.values())


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
