"""Contractions. Everything else of the kind (mm, bmm, mv, dot, linear, einsum) is written with matmul."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.dims import product
from jitgrad.ops import checks, specs
from jitgrad.ops.opdef import CONTRACT, register
from jitgrad.ops.rules import each, transposed


def _matmul_second(F: Any, g: Any, y: Any, a: Any, b: Any) -> Any:
    if b.ndim == 2 and a.ndim > 2:  # one product over all rows, not a batch of them and a sum
        rows = product(a.shape[:-1])
        a = F.reshape(a, shape=(rows, a.shape[-1]))
        g = F.reshape(g, shape=(rows, g.shape[-1]))
    return F.matmul(transposed(F, a), g)


def _samples(rng: np.random.Generator) -> Any:
    return [((rng.normal(size=a), rng.normal(size=b)), {}) for a, b in (
        ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3)),
        ((1, 1), (1, 1)), ((0, 2), (2, 3)))]


register("matmul", 2, CONTRACT, "Matrix products of the last two axes; the axes before them broadcast.",
         impl=lambda xp, a, b: xp.matmul(a, b), spec=specs.matmul, check=checks.matmul,
         vjp=each(lambda F, g, y, a, b: F.matmul(g, transposed(F, b)), _matmul_second), dtypes="number", infix="@",
         pair=lambda F, a, b: F.pair(F.matmul(a.re, b.re) - F.matmul(a.im, b.im),
                                     F.matmul(a.re, b.im) + F.matmul(a.im, b.re)),
         traits={"stored", "reads_memory"}, ref="numpy.matmul", samples=_samples)
