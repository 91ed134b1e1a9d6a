"""torch.testing: assertions about closeness."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad.eager.arrays.arrays import to_host
from jitgrad.eager.tensor import Tensor

#: (rtol, atol) by dtype, as torch.testing has them; integers and bools must be equal
TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def assert_close(actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
                 atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
                 check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
                 msg: Any = None) -> None:
    """Raise AssertionError unless tensors, numbers, or sequences and mappings of them are close.

    Tolerances are those of the (wider) dtype unless both are given; |actual - expected| <= atol + rtol |expected|.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or unspecified, but got no "
                         f"{'rtol' if rtol is None else 'atol'}.")
    options = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype, "msg": msg}
    if isinstance(expected, Mapping):
        if set(actual) != set(expected):
            raise AssertionError(f"The keys of the mappings do not match: {sorted(actual)} and {sorted(expected)}")
        for key in expected:
            assert_close(actual[key], expected[key], **options)
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, **options)
    else:
        _assert_arrays(actual, expected, **options)


def _array(x: Any) -> np.ndarray[Any, Any]:
    return to_host(x._data) if isinstance(x, Tensor) else np.asarray(x)


def _assert_arrays(actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool,
                   check_dtype: bool, msg: Any) -> None:
    a, b = _array(actual), _array(expected)
    if a.shape != b.shape:
        _fail(f"The values for attribute 'shape' do not match: {list(a.shape)} != {list(b.shape)}.", msg)
    if isinstance(actual, Tensor) and isinstance(expected, Tensor) and check_dtype and a.dtype != b.dtype:
        _fail(f"The values for attribute 'dtype' do not match: {actual.dtype} != {expected.dtype}.", msg)
    if rtol is None or atol is None:
        pairs = [TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (a, b)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    a, b = (x.astype(np.float32) if x.dtype.kind == "V" else x for x in (a, b))
    wide = np.result_type(a.dtype, b.dtype)
    if wide.kind == "b":
        wide = np.dtype(np.int8)
    x, y = a.astype(wide, copy=False), b.astype(wide, copy=False)
    with np.errstate(all="ignore"):
        distance = np.abs(x - y) if wide.kind == "f" else np.abs(x.astype(object) - y.astype(object)).astype(float)
        close = (x == y) | ((distance <= atol + rtol * np.abs(y)) & np.isfinite(y))
    if equal_nan:
        close |= np.isnan(x) & np.isnan(y)
    if np.all(close):
        return
    wrong = ~close
    greatest = float(np.max(np.where(wrong & ~np.isnan(distance), distance, 0.0)))
    ranked = np.where(wrong, np.nan_to_num(distance, nan=math.inf), -1.0)
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(ranked)), a.shape)) if a.ndim else ()
    _fail(f"Tensor-likes are not close!\n\nMismatched elements: {int(wrong.sum())} / {a.size} "
          f"({100 * float(wrong.mean()):.1f}%)\nGreatest absolute difference: {greatest} at index {where} "
          f"(up to {atol} allowed, relative {rtol})", msg)


def _fail(text: str, msg: Any) -> None:
    raise AssertionError(msg(text) if callable(msg) else msg if msg is not None else text)
