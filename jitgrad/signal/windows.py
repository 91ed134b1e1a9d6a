"""torch.signal.windows: weights that fall to the ends, of M places.

Symmetric ones have equal ends; with `sym=False` the last place of one that is longer by one is left out, so that the
window may be repeated. All take `dtype` (float32 or float64), `device` and `requires_grad`.
"""

import math
from collections.abc import Sequence
from typing import Any

import jitgrad
from jitgrad.dtypes import strided

__library__ = True

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]


def _places(name: str, M: int, options: dict[str, Any]) -> Any:
    """0, 1, ..., M - 1 in float64; ValueError for a length, dtype or layout that no window has."""
    dtype, layout = options.get("dtype"), options.get("layout", strided)
    for option in options:
        if option not in ("dtype", "layout", "device", "requires_grad"):
            raise TypeError(f"{name}() got an unexpected keyword argument '{option}'")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (None, jitgrad.float32, jitgrad.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return jitgrad.arange(M, dtype=jitgrad.float64, device=options.get("device"))


def _made(window: Any, options: dict[str, Any]) -> Any:
    made = window.to(options.get("dtype") or jitgrad.get_default_dtype())
    return made.requires_grad_() if options.get("requires_grad") else made


def _span(M: int, sym: bool) -> int:
    """How many places lie between the ends, 1 at least."""
    return max(M - 1 if sym else M, 1)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any) -> Any:
    """exp(-|n - center| / tau); the centre is the middle unless `center`, of a periodic window, is another place."""
    k = _places("exponential", M, options)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2.0 if center is None else center
    return _made((-(k - middle).abs() / tau).exp(), options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Half a turn of a sine."""
    k = _places("cosine", M, options)
    return _made(((k + 0.5) * (math.pi / max(M + 1 if not sym and M > 1 else M, 1))).sin(), options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Any:
    """exp(-n^2 / (2 std^2)), n from the middle."""
    k = _places("gaussian", M, options)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _made((-((k - (M if not sym and M > 1 else M - 1) / 2.0) / (std * math.sqrt(2.0))) ** 2).exp(), options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Any:
    """I0(beta sqrt(1 - x^2)) / I0(beta) over x in [-1, 1]."""
    k = _places("kaiser", M, options)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    x = k * 2.0 / _span(M, sym) - 1.0 if M != 1 else k
    inside = (1.0 - x * x).clamp(min=0.0).sqrt()
    return _made(jitgrad.i0(inside * beta) / jitgrad.i0(jitgrad.full_like(inside, beta)), options)


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, **options: Any) -> Any:
    """a[0] - a[1] cos(x) + a[2] cos(2 x) - ... over a full turn."""
    k = _places("general_cosine", M, options)
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    if M == 1:
        return _made(k + 1.0, options)
    turn = k * (2.0 * math.pi / _span(M, sym))
    total = jitgrad.zeros_like(turn)
    for i, c in enumerate(a):
        total = total + (-1.0) ** i * c * (turn * i).cos()
    return _made(total, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Any:
    """alpha - (1 - alpha) cos(x)."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Any:
    """0.54 - 0.46 cos(x)."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Any:
    """(1 - cos(x)) / 2."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Blackman's three cosines."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Nuttall's four cosines. Source: Nuttall, "Some windows with very good sidelobe behavior", 1981."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Any:
    """The triangle."""
    k = _places("bartlett", M, options)
    return _made(1.0 - (k * 2.0 / _span(M, sym) - 1.0).abs() if M != 1 else k + 1.0, options)
