"""torch.fft, stft and istft: values against NumPy, values and derivatives of both orders against PyTorch."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import jitgrad as jt
from jitgrad import fft
from jitgrad.ops.library.calls.forms import table
from tests.eager.complex_oracle import agree, derivatives, loss_of, numbers

try:
    import torch
except ImportError:
    torch = None

STEMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
ONE = [f"m.fft.{stem}(x, {n}, {dim}, {norm!r})" for stem in STEMS for (n, dim), norm in itertools.product(
    ((None, -1), (3, 0), (7, 1)), (None, "ortho", "forward"))]
SEVERAL = [f"m.fft.{stem}{kind}(x, {arguments})" for stem in STEMS for kind, arguments in (
    ("2", "None"), ("2", "(6, 7), norm='ortho'"), ("2", "(-1, 4), (0, 2), 'forward'"), ("n", "None"), ("n", "(5, 4)"),
    ("n", "None, (2, 0), 'ortho'"))]
ORDERS = [f"m.fft.{name}(x, {dim})" for name in ("fftshift", "ifftshift") for dim in (None, 1, (0, 2))]
FREQUENCIES = [f"m.fft.{name}({n}, 0.3, dtype=m.float64) * x.sum().real"
               for name in ("fftfreq", "rfftfreq") for n in (1, 4, 7)]
SHORT = [f"m.stft({x}, {arguments}, return_complex=True)" for x in ("s", "s[0]", "s * 1j") for arguments in (
    "8", "8, 2, 6", "9, 3, center=False", "8, normalized=True", "8, onesided=False", "8, pad_mode='constant'",
    "8, window=w")]
SHORT += ["m.stft(s, 8, window=w, return_complex=False)",
          "m.istft(m.stft(s, 8, window=w, return_complex=True) * (1 + 0.1j), 8, window=w)",
          "m.istft(m.stft(s, 8, 3, window=w, return_complex=True), 8, 3, window=w, length=33)",
          "m.istft(m.stft(s, 8, 3, 6, return_complex=True, normalized=True), 8, 3, 6, normalized=True)",
          "m.istft(m.stft(s * 1j, 8, 3, window=w, return_complex=True), 8, 3, window=w)",
          "m.istft(m.stft(s * 1j, 8, window=w, return_complex=True), 8, window=w, return_complex=True)"]
REFUSED = ["m.fft.fft(x, 0)", "m.fft.fft(x, None, 5)", "m.fft.fft(x, norm='no')", "m.fft.fft(x[0, 0, 0])",
           "m.fft.rfft(x)", "m.fft.ihfft2(x)", "m.fft.fft(s.half())", "m.fft.fftn(x, (1, 2, 3, 4))",
           "m.fft.fftn(x, (2, 2), (0,))", "m.fft.fftn(x, None, (0, 0))", "m.fft.irfftn(x, None, ())",
           "m.stft(s, 8)", "m.stft(s, 0, return_complex=True)", "m.stft(s, 90, return_complex=True)",
           "m.stft(s, 8, 2, 9, return_complex=True)", "m.stft(s, 8, window=w[:7], return_complex=True)",
           "m.stft(s.long(), 8, return_complex=True)", "m.stft(s * 1j, 8, onesided=True)",
           "m.stft(s, 8, pad_mode='no', return_complex=True)", "m.istft(s, 8)",
           "m.istft(m.fft.fft(s[:, :5]), 8, window=w * 0)"]


def arrays_of(text: str) -> list[Any]:
    real = ("rfft" in text and "irfft" not in text) or "ihfft" in text
    return [numbers(3, 4, 5, real=real), numbers(2, 40, real=True, seed=3), np.hanning(9)[:-1] + 0.1]


def value(m: Any, text: str, x: Any, s: Any, w: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, {"m": m, "x": x, "s": s, "w": w})


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("text", [*ONE, *SEVERAL, *ORDERS, *FREQUENCIES, *SHORT])
def test_agrees_with_torch(text: str) -> None:
    ours, theirs = [derivatives(m, lambda m, *xs: value(m, text, *xs), *arrays_of(text)) for m in (jt, torch)]
    agree(ours, theirs)


@pytest.mark.parametrize("text", [*ONE, *SEVERAL])
def test_agrees_with_numpy(text: str) -> None:
    """In float32 too, whose transforms are complex64."""
    x, *rest = arrays_of(text)
    wanted = eval(text.replace("m.fft", "fft").replace(", 'forward')", ", norm='forward')").replace(
        ", 'ortho')", ", norm='ortho')"), {"fft": Numpy, "x": x})
    for d, tolerance in ((None, 1e-10), ("single", 2e-4)):
        given = x if d is None else x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)
        found = value(jt, text, jt.tensor(given), *rest).numpy()
        assert found.dtype.itemsize == wanted.dtype.itemsize // (1 if d is None else 2)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


class Numpy:
    """NumPy's functions under torch's names, which has more of them."""

    def __class_getitem__(cls, name: str) -> Any:
        return getattr(np.fft, name)


def _as_numpy(stem: str, kind: str) -> Any:
    def run(x: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
        if not kind:
            return getattr(np.fft, stem)(x, s, -1 if dim is None else dim, norm)
        axes = (-2, -1) if kind == "2" and dim is None else tuple(range(-len(s), 0)) if dim is None and s else (
            tuple(range(x.ndim)) if dim is None else dim)
        sizes = None if s is None else [x.shape[a] if n == -1 else n for n, a in zip(s, axes, strict=True)]
        last = None if sizes is None else sizes[-1]
        if stem == "hfft":
            for k, a in enumerate(axes[:-1]):
                x = np.fft.fft(x, None if sizes is None else sizes[k], a, norm)
            return np.fft.hfft(x, last, axes[-1], norm)
        if stem == "ihfft":
            x = np.fft.ihfft(x, last, axes[-1], norm)
            for k, a in enumerate(axes[:-1]):
                x = np.fft.ifft(x, None if sizes is None else sizes[k], a, norm)
            return x
        return getattr(np.fft, f"{stem}n")(x, sizes, axes, norm)

    return staticmethod(run)


for _stem, _kind in itertools.product(STEMS, ("", "2", "n")):
    setattr(Numpy, _stem + _kind, _as_numpy(_stem, _kind))


@pytest.mark.parametrize("text", ["m.fft.rfft(x, 7)", "m.fft.irfft(x, 6)", "m.fft.fft2(x)", "m.fft.hfft(x, 5)",
                                  "m.stft(s[:, :16], 4, return_complex=True)",
                                  "m.istft(m.stft(s[:, :16], 8, window=w, return_complex=True), 8, window=w)"])
def test_gradients_are_slopes(text: str) -> None:
    """dL/dRe + i dL/dIm of some elements, by central differences."""
    arrays = arrays_of(text)
    found = derivatives(jt, lambda m, *xs: value(m, text, *xs), *arrays)
    for k, g in enumerate(found[1:4]):
        if g is None:
            continue
        for at in list(np.ndindex(g.shape))[::7]:
            for step in (1e-6, 1e-6j)[:1 + (g.dtype.kind == "c")]:
                moved = []
                for sign in (1, -1):
                    changed = [a.copy() for a in arrays]
                    changed[k][at] += sign * step
                    moved.append(loss_of(jt, value(jt, text, *map(jt.tensor, changed))).item())
                part = g[at].imag if step == 1e-6j else g[at].real
                assert part == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_as_torch(text: str) -> None:
    def attempt(m: Any) -> None:
        value(m, text, *map(m.tensor, arrays_of("")))

    with pytest.raises((RuntimeError, IndexError)) as ours:
        attempt(jt)
    if torch is not None:
        with pytest.raises((RuntimeError, IndexError)) as theirs:
            attempt(torch)
        assert isinstance(ours.value, theirs.type)


def test_has_torchs_names() -> None:
    assert set(fft.__all__) == set(table()["torch.fft"])


def test_whole_numbers_and_empty_tensors() -> None:
    assert fft.fft(jt.tensor([1, 2, 3])).dtype is jt.complex64
    assert fft.rfft(jt.ones(0, 4)).shape == (0, 3)
    assert fft.irfft(jt.ones(0, 3, dtype=jt.complex64)).shape == (0, 4)
    assert fft.fftfreq(4).tolist() == [0, 0.25, -0.5, -0.25]
    with pytest.warns(UserWarning, match="A window was not provided"):
        jt.istft(jt.stft(jt.ones(16), 4, return_complex=True), 4)


def test_of_a_batch() -> None:
    x = jt.tensor(numbers(2, 3, 8, real=True))
    found = jt.vmap(lambda row: fft.irfft(fft.rfft(row) * 1j, 8))(x)
    np.testing.assert_allclose(found, fft.irfft(fft.rfft(x) * 1j, 8), atol=1e-12)
