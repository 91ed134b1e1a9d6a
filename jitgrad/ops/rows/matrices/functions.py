"""Functions of matrices."""

from typing import Any

from jitgrad.ops.complex.joined import joined
from jitgrad.ops.opdef import OPAQUE
from jitgrad.ops.rows.matrices import _algorithms as algorithms
from jitgrad.ops.rows.matrices._rules import columns, rows, square_samples
from jitgrad.ops.rules import transposed


def _exp_vjp(F: Any, g: Any, y: Any, x: Any) -> tuple[Any]:
    """Source: Mathias, "A Chain Rule for Matrix Functions and Applications", 1996."""
    n, last = x.shape[-1], x.ndim - 1
    back = transposed(F, x)
    above, below = F.cat(back, g, axis=last), F.cat(F.zeros_like(x), back, axis=last)
    return (columns(F, rows(F, F.matrix_exp(F.cat(above, below, axis=last - 1)), 0, n), n, n),)


joined("matrix_exp", 1, OPAQUE, "The exponential of square matrices.", vjp=_exp_vjp, spec=lambda x: x,
       impl=lambda xp, x: algorithms.matrix_exp(x), samples=lambda rng: [
           ((xs[0] * 0.2,), attrs) for xs, attrs in square_samples(rng)])
