"""Windows for spectra: weights that fall to the ends, by their formulas."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad import dtypes
from jitgrad.device import resolve
from jitgrad.ops.library.core import apply, as_operand, cast, create, named
from jitgrad.ops.library.keywords import complete
from jitgrad.ops.library.sizes import minimum, require, size_of

__library__ = True


def _places(name: str, length: Any, periodic: bool, dtype: Any, device: Any) -> tuple[Any, Any]:
    """0, 1, ... of a window, in float64, and how far apart its ends are (1 at least)."""
    n = size_of(length)
    require(n >= 0, RuntimeError, f"{name} requires non-negative window_length, got window_length=", n)
    if not dtypes.given(dtype).is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: torch.{dtype.word}")
    places = cast(create("arange", resolve(device), length=n, dtype=dtypes.int64), dtypes.float64)
    span = as_operand(n if periodic else n - 1, dtypes.float64)
    return places, apply("maximum", span, as_operand(1.0, dtypes.float64))


def _finished(window: Any, length: Any, dtype: Any, requires_grad: bool) -> Any:
    """The window in its dtype; one of one place is 1."""
    many = as_operand(minimum(size_of(length), 2) - 1, dtypes.float64)  # 0 or 1
    made = cast(window * many + (1.0 - many), dtypes.given(dtype))
    return made.requires_grad_() if requires_grad else made


def _cosines(name: str, coefficients: Sequence[float], doc: str) -> Callable[..., Any]:
    """c0 - c1 cos(x) + c2 cos(2 x) over a full turn."""
    def fn(window_length: Any, periodic: bool = True, *, dtype: Any = None, device: Any = None,
           requires_grad: bool = False) -> Any:
        return _sum_of_cosines(name, coefficients, window_length, periodic, dtype, device, requires_grad)

    return named(fn, name, doc)


def _sum_of_cosines(name: str, coefficients: Sequence[float], length: Any, periodic: bool, dtype: Any, device: Any,
                    requires_grad: bool) -> Any:
    places, span = _places(name, length, periodic, dtype, device)
    turn = places * (2.0 * math.pi) / span
    total: Any = coefficients[0]
    for k, c in enumerate(coefficients[1:], 1):
        total = total + (-1.0) ** k * c * apply("cos", turn * k)
    return _finished(total, length, dtype, requires_grad)


hann_window = _cosines("hann_window", (0.5, 0.5), "The window (1 - cos) / 2.")
blackman_window = _cosines("blackman_window", (0.42, 0.5, 0.08), "Blackman's window.")


def hamming_window(window_length: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
                   dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """The window alpha - beta cos."""
    return _sum_of_cosines("hamming_window", (alpha, beta), window_length, periodic, dtype, device, requires_grad)


def bartlett_window(window_length: Any, periodic: bool = True, *, dtype: Any = None, device: Any = None,
                    requires_grad: bool = False) -> Any:
    """The triangle."""
    places, span = _places("bartlett_window", window_length, periodic, dtype, device)
    return _finished(1.0 - apply("abs", places * 2.0 / span - 1.0), window_length, dtype, requires_grad)


def kaiser_window(window_length: Any, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None,
                  device: Any = None, requires_grad: bool = False) -> Any:
    """I0(beta sqrt(1 - x^2)) / I0(beta) over x in [-1, 1]."""
    places, span = _places("kaiser_window", window_length, periodic, dtype, device)
    x = places * 2.0 / span - 1.0
    inside = apply("maximum", 1.0 - x * x, as_operand(0.0, dtypes.float64))
    top = apply("i0", as_operand(beta, dtypes.float64))
    return _finished(apply("i0", apply("sqrt", inside) * beta) / top, window_length, dtype, requires_grad)


complete(globals())

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]
