"""Complex tensors on a GPU: the CPU's values and gradients, computed by CuPy on complex arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgrad
from tests.codegen.cuda import host
from tests.cuda.hosted import gpu
from tests.eager.complex_oracle import numbers
from tests.eager.test_complex import HOLOMORPHIC, OTHERS, value
from tests.script.frontend import test_complex as scripts

#: those that index with a tensor of the CPU
ELSEWHERE = [t for t in (*HOLOMORPHIC, *OTHERS) if "m.tensor(" in t]


class On:
    """jitgrad with new tensors on a device."""

    def __init__(self, device: str):
        self.device = device

    def tensor(self, a: Any) -> Any:
        return jitgrad.tensor(a, device=self.device)

    def __getattr__(self, name: str) -> Any:
        return getattr(jitgrad, name)


@pytest.mark.parametrize("text", [t for t in (*HOLOMORPHIC, *OTHERS) if t not in ELSEWHERE])
def test_agrees_with_the_cpu(cuda: Any, text: str) -> None:
    arrays = numbers(3, 4), numbers(3, 4, real=True, seed=2)

    def run(device: str) -> list[Any]:
        def f(m: Any, z: Any, r: Any) -> Any:
            y = value(m, text, z, r)
            assert y.device.type == device
            return y.cpu()

        library = On(device)
        library.autograd = jitgrad.autograd
        xs = [library.tensor(a).requires_grad_() for a in arrays]
        y = f(library, *xs)
        found = [y.detach().numpy()]
        if y.requires_grad:
            y = y.to(jitgrad.complex128) if not y.is_complex() else y
            gs = jitgrad.autograd.grad((y * (1 + 2j)).real.sum(), xs, allow_unused=True)
            found += [None if g is None else g.cpu().numpy() for g in gs]
        return found

    for ours, there in zip(run("cuda"), run("cpu"), strict=True):
        assert (ours is None) == (there is None)
        if ours is not None:
            assert ours.dtype == there.dtype
            np.testing.assert_allclose(ours, there, rtol=1e-12, atol=1e-12)


def test_parts_are_views(cuda: Any) -> None:
    z = jitgrad.tensor([1 + 2j, 3j], device="cuda")
    z.real.mul_(10)
    jitgrad.view_as_real(z)[:, 1] = 7
    assert z.cpu().tolist() == [10 + 7j, 7j]
    with pytest.raises(NotImplementedError, match="lt_cpu"):
        z < z  # noqa: B015


@pytest.mark.parametrize("text", ["m.fft.irfft(m.fft.rfft(r) * 1j, 7)", "m.fft.hfft2(z)", "m.fft.ifftn(z)",
                                  "m.stft(r.flatten(), 4, return_complex=True)"])
def test_transforms(cuda: Any, text: str) -> None:
    test_agrees_with_the_cpu(cuda, text)


@host.needs_compiler
@pytest.mark.parametrize(("function", "arguments"), [
    p for p in scripts.PROGRAMS if p.id in ("chain", "loop", "branch", "inplace_view", "index", "swap", "mat", "opt3")])
def test_scripts(function: Any, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of complex tensors on the emulated GPU."""
    given, shown = scripts.given, scripts.shown

    def there(arguments: tuple[Any, ...], leaves: bool) -> list[Any]:
        return [x.detach().cuda().requires_grad_(x.requires_grad) if isinstance(x, jitgrad.Tensor) else x
                for x in given(arguments, leaves)]

    monkeypatch.setattr(scripts, "given", there)
    monkeypatch.setattr(scripts, "shown", lambda x: shown(x.cpu()) if isinstance(x, jitgrad.Tensor) else x)
    with gpu():
        for leaves in (False, True):
            expected = scripts.run(function, arguments, leaves)
            found = scripts.run(jitgrad.script(function), arguments, leaves)
            if "error" in expected:
                assert isinstance(found["error"], type(expected["error"]))
                continue
            for key, seen in expected.items():
                scripts.same(found[key], seen)


@host.needs_compiler
def test_spectra() -> None:
    with gpu():
        x, window = jitgrad.randn(3, 8).cuda().requires_grad_(), jitgrad.hann_window(8).cuda()
        found = jitgrad.script(scripts.spectrum)(x, window)
        np.testing.assert_allclose(found.detach().cpu(), scripts.spectrum(x, window).detach().cpu(), atol=1e-6)
