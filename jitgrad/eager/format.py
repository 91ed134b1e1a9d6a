"""Tensors as text, in torch's format.

Source: torch/_tensor_str.py (precision 4, 1000 elements before summarising, 3 at each edge, 80 columns).
"""

import math
from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.eager.arrays.arrays import library, to_host
from jitgrad.eager.autograd.node import TapedArray

PRECISION, EDGE, COLUMNS = 4, 3, 80
THRESHOLD: float = 1000
SCIENTIFIC: bool | None = None  # None: as the values need

_PROFILES = {"default": (4, 1000.0, 3, 80), "short": (2, 1000.0, 2, 80), "full": (4, math.inf, 3, 80)}


def set_printoptions(precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
                     linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None) -> None:
    """How tensors are printed: digits, elements before summarising, elements shown at an edge, columns, notation.

    Args:
        profile: "default", "short" or "full": a set of the first four.
        sci_mode: True or False for scientific notation; None, each time, for torch's choice.
    """
    global PRECISION, THRESHOLD, EDGE, COLUMNS, SCIENTIFIC
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile must be one of {', '.join(_PROFILES)}, got `{profile}`")
        PRECISION, THRESHOLD, EDGE, COLUMNS = _PROFILES[profile]
    PRECISION = PRECISION if precision is None else precision
    THRESHOLD = THRESHOLD if threshold is None else threshold
    EDGE = EDGE if edgeitems is None else edgeitems
    COLUMNS = COLUMNS if linewidth is None else linewidth
    SCIENTIFIC = sci_mode


class _Formatter:
    """How the elements of one tensor are printed: all as ints, with a fixed point, or in scientific notation."""

    def __init__(self, values: np.ndarray[Any, Any]):
        self.floating = values.dtype.kind in dtypes.INEXACT_KINDS
        self.as_int, self.scientific, self.width = True, False, 1
        flat = values.reshape(-1)
        if not self.floating:
            self.width = max((len(str(v)) for v in flat.tolist()), default=1)
            return
        wide = flat.astype(np.float64)
        nonzero = wide[np.isfinite(wide) & (wide != 0)]
        if not nonzero.size:
            if not np.isfinite(wide).all():
                self.width = max(self.width, *(len(f"{v:.0f}") for v in wide.tolist()))
            return
        sizes = np.abs(nonzero)
        high, low = float(sizes.max()), float(sizes.min())
        self.as_int = bool((nonzero == np.ceil(nonzero)).all())
        if self.as_int:
            self.scientific = high / low > 1000.0 or high > 1.0e8 if SCIENTIFIC is None else SCIENTIFIC
            digits = f".{PRECISION}e" if self.scientific else ".0f"
            self.width = max(len(format(v, digits)) for v in nonzero.tolist()) + (not self.scientific)
        else:
            wild = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
            self.scientific = wild if SCIENTIFIC is None else SCIENTIFIC
            kind = "e" if self.scientific else "f"
            self.width = max(len(f"{v:.{PRECISION}{kind}}") for v in nonzero.tolist())

    def __call__(self, value: Any) -> str:
        if not self.floating:
            return str(value).rjust(self.width)
        if self.scientific:
            text = f"{value:.{PRECISION}e}"
        elif self.as_int:
            text = f"{value:.0f}"
            if math.isfinite(value):
                text += "."
        else:
            text = f"{value:.{PRECISION}f}"
        return text.rjust(self.width)


class _ComplexFormatter:
    """How the elements of a complex tensor are printed: each part by a format of its own."""

    def __init__(self, values: np.ndarray[Any, Any]):
        self.re, self.im = _Formatter(values.real), _Formatter(values.imag)
        self.width = self.re.width + self.im.width + 1

    def __call__(self, value: Any) -> str:
        im = self.im(value.imag).lstrip()
        return f"{self.re(value.real)}{'' if im.startswith('-') else '+'}{im}j"


def _formatter(values: np.ndarray[Any, Any]) -> "_Formatter | _ComplexFormatter":
    return (_ComplexFormatter if values.dtype.kind == "c" else _Formatter)(values)


def _row(values: list[str], indent: int, width: int) -> str:
    per_line = max(1, (COLUMNS - indent) // (width + 2))
    lines = [values[i:i + per_line] for i in range(0, len(values), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join([", ".join(line) for line in lines]) + "]"


def _body(array: np.ndarray[Any, Any], indent: int, summarize: bool, form: "_Formatter | _ComplexFormatter") -> str:
    if array.ndim == 0:
        return form(array.item())
    n = array.shape[0]
    cut = summarize and n > 2 * EDGE
    if array.ndim == 1:
        if cut:
            values = [form(v) for v in array[:EDGE].tolist()] + [" ..."] + [form(v) for v in array[-EDGE:].tolist()]
        else:
            values = [form(v) for v in array.tolist()]
        return _row(values, indent, form.width)
    if cut:
        slices = [_body(array[i], indent + 1, summarize, form) for i in range(EDGE)] + ["..."]
        slices += [_body(array[i], indent + 1, summarize, form) for i in range(n - EDGE, n)]
    else:
        slices = [_body(array[i], indent + 1, summarize, form) for i in range(n)]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(slices) + "]"


def _visible(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements that a summary shows: they alone decide the format."""
    for axis, n in enumerate(array.shape):
        if n > 2 * EDGE:
            array = np.concatenate([array.take(range(EDGE), axis), array.take(range(n - EDGE, n), axis)], axis)
    return array


def array_text(array: np.ndarray[Any, Any], indent: int = 0) -> str:
    """The elements between brackets."""
    summarize = array.size > THRESHOLD
    form = _formatter(_visible(array) if summarize else array)
    return _body(array, indent, summarize, form)


def _body_elsewhere(array: Any, indent: int) -> str:
    """`array_text` of an array that is not in the CPU's memory; of a large one only what is shown is copied."""
    summarize = array.size > THRESHOLD
    if summarize:
        for axis, n in enumerate(array.shape):
            if n > 2 * EDGE:  # one element more than the edges, so that the row still counts as cut
                along = (slice(None),) * axis
                array = library(array).xp.concatenate(
                    [array[(*along, slice(0, EDGE + 1))], array[(*along, slice(n - EDGE, n))]], axis=axis)
    array = to_host(array)
    return _body(array, indent, summarize, _formatter(_visible(array) if summarize else array))


def to_text(t: TapedArray, history: str = "") -> str:
    """`tensor([...], dtype=..., grad_fn=<...>)` as torch prints it. `history`: what to say in place of its own."""
    prefix = "tensor("
    array = t._data
    suffixes = [f"device='{t.device}'"] if t.is_cuda else []
    d = t.dtype
    default = d is dtypes.get_default_dtype() or d in (dtypes.int64, dtypes.bool_, dtypes.of_number(complex))
    if not array.size:
        if array.ndim != 1:
            suffixes.append(f"size=({', '.join(map(str, array.shape))})")
        if d is not dtypes.get_default_dtype():
            suffixes.append(f"dtype={d!r}")
        body = "[]"
    else:
        if not default:
            suffixes.append(f"dtype={d!r}")
        body = _body_elsewhere(array, len(prefix)) if t.is_cuda else array_text(array, len(prefix))
    node = t.grad_fn
    if history:
        suffixes.append(history)
    elif node is not None:
        suffixes.append(f"grad_fn=<{node.name()}>")
    elif t.requires_grad:
        suffixes.append("requires_grad=True")
    text = prefix + body
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > COLUMNS:
            text += ",\n" + " " * len(prefix) + suffix
            length = len(prefix) + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
