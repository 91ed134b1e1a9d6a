"""What the generated tests run every row on: its samples, or random operands of a pointwise row."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad import dtypes
from jitgrad.ops import OPS, OpDef
from jitgrad.ops.rules import has_derivative
from jitgrad.ops.types import FLOAT, INT, TensorType

DTYPES = {"float": dtypes.FLOATS, "int": dtypes.INTEGERS, "integral": (dtypes.bool_, *dtypes.INTEGERS),
          "number": (*dtypes.INTEGERS, *dtypes.FLOATS), "any": dtypes.REALS, "wide": (dtypes.float32, dtypes.float64),
          "complex": dtypes.COMPLEX_TYPES}

Case = tuple[tuple[Any, ...], dict[str, Any]]


def cases(op: OpDef, seed: int = 0) -> list[Case]:
    """(operands, attrs) in float64 (indices and conditions in their own dtypes)."""
    rng = np.random.default_rng(seed)
    if op.samples is not None:
        return list(op.samples(rng))
    return [(tuple(np.asarray(rng.uniform(*op.domain, shape)) for shape in shapes), {})
            for shapes in _shapes(op.arity or 0)]


def _shapes(arity: int) -> list[list[tuple[int, ...]]]:
    """Equal shapes, broadcasting ones, an empty one, scalars."""
    broadcasting = [(3, 1), (4,), (1, 1, 1)]
    return [[(3, 4)] * arity, [broadcasting[i % 3] for i in range(arity)], [(0, 2)] * arity, [()] * arity]


def convert(operands: tuple[Any, ...], d: dtypes.dtype, op: OpDef, seed: int = 1) -> tuple[Any, ...]:
    """The float64 operands as dtype `d`: small whole numbers for integers, so that nothing overflows."""
    rng = np.random.default_rng(seed)

    def one(x: Any) -> Any:
        if not isinstance(x, np.ndarray) or x.dtype != np.float64:
            return x
        if d.is_floating_point:
            return x.astype(d.np)
        if d is dtypes.bool_:
            return np.asarray(rng.random(x.shape) < 0.5)
        return np.asarray(rng.integers(1, 5, x.shape).astype(d.np))

    return tuple(one(x) for x in operands)


def types_of(operands: tuple[Any, ...]) -> list[Any]:
    """The types that the row's spec takes for these operands."""
    return [TensorType(dtypes.from_numpy(x.dtype), x.shape) if isinstance(x, np.ndarray) else
            FLOAT if isinstance(x, float) else INT for x in operands]


#: factors of complex matrices that have phases of their own, or that stand for the half of a matrix that is not read
FACTORS = ("cholesky_parts", "eig", "eig_parts", "eigh_parts", "svd_parts")


def of_complex(op: OpDef) -> bool:
    """Whether a row takes or gives complex numbers only: `tests/eager/test_complex.py` has their derivatives, and
    `tests/test_linalg_complex.py`."""
    return op.dtypes == "complex" or op.name in ("complex", "rfft", "view_as_complex", *FACTORS)


def differentiable(partly: bool = False) -> list[str]:
    """Names of the rows that have a derivative of every operand, or `partly`, which is written for some of them."""
    return [name for name, op in OPS.items() if (op.vjp is None or callable(op.vjp)) and not of_complex(op)
            and (partly or all(has_derivative(op, op.arity or 1)))]
