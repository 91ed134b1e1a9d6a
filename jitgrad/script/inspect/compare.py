"""How two values differ, in words: what `check` finds and `locate` looks for."""

from typing import Any

import numpy as np

#: by dtype: how much two floats may differ, relative to the largest element of the tensor
TOLERANCES = {"float16": 1e-2, "bfloat16": 4e-2, "float32": 1e-4, "float64": 1e-8}


def compare(found: Any, expected: Any) -> str:
    """How `found` differs from `expected`, arrays or other values, in words; "" where they agree."""
    if not isinstance(found, np.ndarray) or not isinstance(expected, np.ndarray):
        if isinstance(found, float) and isinstance(expected, float):
            return compare(np.asarray(found), np.asarray(expected))
        return "" if type(found) is type(expected) and found == expected else f"{found!r}, not {expected!r}"
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)}, not {expected.dtype}{list(expected.shape)}"
    tolerance = TOLERANCES.get(found.dtype.name)
    if tolerance is None or not found.size:
        return "" if np.array_equal(found, expected) else _element(found, expected, found != expected)
    a, b = found.astype(np.float64), expected.astype(np.float64)
    scale = float(np.max(np.abs(b), where=np.isfinite(a) & np.isfinite(b), initial=0.0)) or 1.0
    same = np.isclose(a, b, rtol=0, atol=tolerance * scale, equal_nan=True)
    return "" if same.all() else _element(found, expected, ~same)


def _element(found: Any, expected: Any, wrong: Any) -> str:
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f" at {list(where)}" if where else ""
    return f"{found[where]}{place}, not {expected[where]} ({int(wrong.sum())} of {found.size} elements)"
