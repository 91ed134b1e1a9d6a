"""Error function and gamma family for arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def _each(function: Any, x: Any) -> Any:
    return np.vectorize(function, otypes=[np.float64])(x).astype(x.dtype)


def erf(xp: Any, x: Any) -> Any:
    return _each(math.erf, x)


def erfc(xp: Any, x: Any) -> Any:
    return _each(math.erfc, x)


def erfinv(xp: Any, x: Any) -> Any:
    from statistics import NormalDist
    return _each(lambda v: NormalDist().inv_cdf((v + 1) / 2) / math.sqrt(2), x)


def lgamma(xp: Any, x: Any) -> Any:
    return _each(math.lgamma, x)


def digamma(xp: Any, x: Any) -> Any:
    from scipy import special
    return special.digamma(x)


def polygamma(xp: Any, x: Any, n: int) -> Any:
    from scipy import special
    return special.polygamma(n, x).astype(x.dtype)
