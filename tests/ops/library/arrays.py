"""The tensors that `expressions.py` names, as arrays, and the tensors in a result."""

from __future__ import annotations

from typing import Any

import numpy as np


def arrays() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return rng.standard_normal(shape).astype(np.float32)

    n = normal(3, 4)
    n[0, 1], n[1, 2], n[2, 0], n[2, 3] = np.nan, np.inf, -np.inf, -0.0
    return {"x": normal(3, 4), "y": normal(3, 4), "p": (rng.random((3, 4)) + 0.25).astype(np.float32), "v": normal(4),
            "w": normal(4), "s": np.array(0.75, np.float32), "h": normal(3, 4).astype(np.float16),
            "d": rng.standard_normal((3, 4)), "i": rng.integers(0, 9, (3, 4)), "j": rng.integers(-9, 9, (3, 4)),
            "k": np.array([1, 3, 2, 0], np.int32), "u": np.array([1, 200, 255, 7], np.uint8),
            "b": rng.random((3, 4)) < 0.5, "c": rng.random((3, 4)) < 0.5, "a3": normal(2, 3, 4), "m": normal(4, 5),
            "q": normal(2, 4, 5), "n": n, "g": np.array([[0, 3], [2, 1], [1, 3]])}


def flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in flat(v)]
    return [value]
