"""Short-time Fourier transforms: the spectrum of each of a signal's windows, and the signal from these.

Source: Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984.
"""

import warnings
from typing import Any

from jitgrad import dtypes
from jitgrad.ops.backend import AnyTensor, Tensor, backend, own
from jitgrad.ops.library.core import apply, as_operand, cast, create, require_tensor, whole
from jitgrad.ops.library.elementary import abs
from jitgrad.ops.library.elements.parts import view_as_real
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.shapes.join import pad_constant
from jitgrad.ops.library.shapes.shape import take_slice
from jitgrad.ops.library.sizes import axis, minimum, require, require_equal, same_size, size_of, static_int
from jitgrad.ops.library.spatial.resampling import pad_by_index
from jitgrad.ops.library.spectral.transforms import fft, ifft, irfft, rfft

__library__ = True


class _Windows:
    """How a signal is cut, with torch's defaults: `n` elements each, `hop` apart, times `window` (n,), or None."""

    def __init__(self, fn: str, x: Any, n_fft: Any, hop_length: Any, win_length: Any, window: Any, onesided: Any):
        n = self.n = static_int(n_fft)
        self.hop = n // 4 if hop_length is None else static_int(hop_length)
        length = n if win_length is None else static_int(win_length)
        require(n > 0, RuntimeError, f"{fn}: expected n_fft > 0, but got n_fft={n}")
        require(self.hop > 0, RuntimeError, f"{fn}: expected hop_length > 0, but got hop_length={self.hop}")
        require(0 < length <= n, RuntimeError, f"{fn}: expected 0 < win_length <= n_fft, but got win_length={length}")
        of_complex = x.dtype.is_complex if fn == "stft" else False
        of_complex = of_complex or (window is not None and window.dtype.is_complex)
        self.onesided = (not of_complex) if onesided is None else bool(onesided)
        if self.onesided and of_complex:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        if window is None and length < n:
            window = create("full", x, value=1, shape=(length,), dtype=x.dtype.to_real())
        if window is not None:
            if window.ndim != 1:
                raise RuntimeError(f"{fn}: expected a 1D window tensor of size equal to win_length={length}, but got a "
                                   f"tensor of {window.ndim} dimensions")
            size = window.shape[0]
            require_equal(size, length, lambda: f"{fn}: expected a 1D window tensor of size equal to win_length="
                                                f"{length}, but got window with size [{size}]")
            left = (n - length) // 2
            window = pad_constant(window, (left, n - length - left), 0)
        self.window = window


def stft(input: AnyTensor[Tensor], n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: AnyTensor[Tensor] | None = None, center: bool = True, pad_mode: str = "reflect",
         normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
         align_to_window: bool | None = None) -> Tensor:
    """The spectra of windows of (T,) or (N, T): (frequencies, windows), with N in front where input has it.

    Args:
        n_fft: elements of a window, and of its transform.
        hop_length: how far apart windows are; n_fft // 4 without.
        window: factors, (win_length,), in the middle of the n_fft.
        center: the signal is padded (by `pad_mode`) so that the k-th window has element k * hop_length in its middle.
        normalized: times n_fft ** -0.5.
        onesided: only frequencies that are not negative; by default where input and window are real.
        return_complex: to be given for real signals; False: the two parts along a last axis.

    Raises:
        RuntimeError: sizes that do not fit, or other ranks and dtypes; NotImplementedError: another `pad_mode`.
    """
    x: Any = require_tensor("stft", input)
    if return_complex is None:
        if not x.dtype.is_complex and (window is None or not window.dtype.is_complex):
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs, and will further "
                               "require that return_complex=True in a future PyTorch release.")
        return_complex = True
    if not x.dtype.is_inexact:
        raise RuntimeError("stft: expected a tensor of floating point or complex values")
    if x.ndim not in (1, 2):
        raise RuntimeError("stft: expected a 1D or 2D tensor")
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    how = _Windows("stft", x, n_fft, hop_length, win_length, window, onesided)
    n, last = how.n, x.ndim - 1
    if center:
        x = _padded(x, n // 2, pad_mode)
    size = x.shape[last]
    require(size >= n, RuntimeError, f"stft: expected 0 < n_fft < {size}, but got n_fft={n}")
    frames = apply("windows", x, axis=last, size=n, step=how.hop, dilation=1)
    if how.window is not None:
        frames = frames * how.window
    spectra: Any = (rfft if how.onesided else fft)(frames, None, -1, "ortho" if normalized else None)
    spectra = own(apply("permute", spectra, axes=(*range(last), last + 1, last)))
    return spectra if return_complex else view_as_real(spectra)


def _padded(x: Any, size: int, mode: str) -> Any:
    if mode == "constant":
        return pad_constant(x, (size, size), 0)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    rows = x if x.ndim == 2 else apply("unsqueeze", x, axis=0)
    rows = pad_by_index(rows, (size, size), mode)
    return rows if x.ndim == 2 else apply("squeeze", rows, axis=0)


def istft(input: AnyTensor[Tensor], n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: AnyTensor[Tensor] | None = None, center: bool = True, normalized: bool = False,
          onesided: bool | None = None, length: int | None = None, return_complex: bool = False) -> Tensor:
    """The signal (T,) or (N, T) whose spectra are nearest to input: the inverse of `stft`, with its arguments.

    Args:
        length: how many elements are wanted; without it what the windows reach, less the padding.
        return_complex: of a signal that is complex.

    Raises:
        RuntimeError: sizes that do not fit, a real input, or windows that leave elements of the signal out.
    """
    x: Any = require_tensor("istft", input)
    if not x.dtype.is_complex:
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with "
                           "return_complex=True.")
    if x.ndim not in (2, 3):
        raise RuntimeError(f"istft: expected a tensor with 3 or 4 dimensions, but got {x.ndim + 1}")
    if window is None:
        warnings.warn("A window was not provided. A rectangular window will be applied. Please provide the same window "
                      "used by stft to make the inversion lossless.", UserWarning, stacklevel=3)
    last = x.ndim - 1
    frequencies, count = x.shape[last - 1], x.shape[last]
    onesided = not same_size(frequencies, n_fft) if onesided is None else onesided
    how = _Windows("istft", x, n_fft, hop_length, win_length, window, onesided)
    if return_complex and how.onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    n = how.n
    require_equal(frequencies, n // 2 + 1 if how.onesided else n, lambda: (
        "istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft"
        f"{' / 2 + 1' if how.onesided else ''} when onesided={how.onesided}, but got {frequencies}"))
    require(how.hop <= (n if win_length is None else static_int(win_length)), RuntimeError,
            "istft: expected 0 < hop_length <= win_length")
    require(count > 0, RuntimeError, "istft: input tensor cannot be empty.")
    norm = "ortho" if normalized else None
    spectra = apply("permute", x, axes=(*range(last - 1), last, last - 1))
    if not return_complex and not how.onesided:  # as torch: the other half is what it is for a real signal
        spectra = take_slice(spectra, last, 0, n // 2 + 1)
    frames: Any = ifft(spectra, None, -1, norm) if return_complex else irfft(spectra, n, -1, norm)
    weights = create("full", x, value=1, shape=(n,), dtype=x.dtype.to_real()) if how.window is None else how.window
    frames = frames * weights
    reach = (count - 1) * how.hop + n
    signal = _added(frames, reach, how.hop)
    squares = apply("expand", apply("reshape", weights * weights, shape=(1, n)), shape=(count, n))
    envelope = _added(squares, reach, how.hop)
    start = n // 2 if center else 0
    wanted = reach - 2 * start if length is None else size_of(length)
    there = wanted if length is None else minimum(wanted, reach - start)
    signal, envelope = take_slice(signal, last - 1, start, there), take_slice(envelope, 0, start, there)
    _require_covered(envelope)
    signal = signal / envelope
    missing = wanted - there
    if not (isinstance(missing, int) and missing == 0):
        if isinstance(missing, int):
            warnings.warn("The length of signal is shorter than the length parameter. Result is being padded with "
                          "zeros in the tail. Please check your center and hop_length settings.", UserWarning,
                          stacklevel=3)
        signal = pad_constant(signal, (0, missing), 0)
    return signal


def _added(frames: Any, reach: Any, hop: int) -> Any:
    """Windows (..., count, n), hop apart, added up to (..., reach)."""
    a, n = frames.ndim - 2, frames.shape[-1]
    room = create("full", frames, value=0, shape=(*frames.shape[:a], reach), dtype=frames.dtype)
    return apply("windows_add", room, frames, axis=axis(a, frames.ndim), size=n, step=hop, dilation=1)


def _require_covered(envelope: Any) -> None:
    """RuntimeError where no window has an element of the signal."""
    low = whole(apply("amin", abs(envelope), axes=(0,), keepdim=False))
    covered = apply("gt", low, as_operand(1e-11, low.dtype))
    require(backend().item(cast(covered, dtypes.bool_)), RuntimeError, "istft: window overlap add min: 1, which leaves "
            "elements of the signal out: use a window and a hop_length that overlap")


complete(globals())

__all__ = ["istft", "stft"]
