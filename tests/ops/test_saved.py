"""What is saved for a derivative is found once per op: no sample of a row, in any type, reads more than was found."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from jitgrad import dtypes
from jitgrad.dtypes import from_numpy
from jitgrad.ops import OPS
from jitgrad.ops.opdef import NONDIFF, OpDef
from jitgrad.ops.rules import has_derivative
from jitgrad.ops.saved import _run, length, saved
from jitgrad.ops.types import FLOAT, INT, TensorType

RULED = [op for op in OPS.values() if op.vjp is not None and op.vjp is not NONDIFF]


def sampled(op: OpDef) -> list[tuple[list[Any], dict[str, Any]]]:
    """Types of operands and attrs: those of each sample, in other types too."""
    if op.samples is None:
        found: list[Any] = [([TensorType(dtypes.float64, (3, 4))] * (op.arity or 0), {})]
    else:
        found = [([TensorType(from_numpy(a.dtype), a.shape) if isinstance(a, np.ndarray) else
                   FLOAT if isinstance(a, float) else INT for a in arrays], attrs)
                 for arrays, attrs in op.samples(np.random.default_rng(0))]
    others = [dtypes.float32, *([dtypes.complex64] if "wirtinger" in op.traits else [])]
    return found + [([TensorType(d, t.dims) if isinstance(t, TensorType) and t.dtype.is_inexact else t for t in types],
                     attrs) for types, attrs in found for d in others]


@pytest.mark.parametrize("op", RULED, ids=lambda op: op.name)
def test_no_sample_reads_more(op: OpDef) -> None:
    for types, attrs in sampled(op):
        known = has_derivative(op, len(types))
        if len(types) <= 3:
            wanted = [*itertools.product((False, True), repeat=len(types))]
        else:
            wanted = [tuple(i == k for i in range(len(types))) for k in range(len(types))] + [(True,) * len(types)]
        for needs in wanted:
            if not any(a and b for a, b in zip(needs, known, strict=True)):
                continue
            read = _run(op, needs, types, attrs)
            tables = [saved(op, needs, types=types, attrs=attrs)] + ([] if op.arity is None else [saved(op, needs)])
            for table in tables:
                assert len(read.xs) == len(table.xs)
                assert all(found or not needed for needed, found in zip(read.xs, table.xs, strict=True))
                assert all(found or not needed for needed, found in zip(read.ys, table.ys, strict=True))


def test_a_rule_that_reads_more_for_another_attr_is_found() -> None:
    """The key knows bools of attrs, those of tuples among them."""
    op = OpDef("probe", 1, OPS["neg"].kind, "", spec=lambda x, **attrs: x, vjp=lambda F, g, y, x, pairs, wide: (
        g * x if pairs[0] else g * y if wide else g,))
    x = TensorType(dtypes.float64, (2,))
    found = [saved(op, (True,), types=[x], attrs={"pairs": (p,), "wide": w}) for p in (False, True)
             for w in (False, True)]
    assert [(s.y, s.xs) for s in found] == [(False, (False,)), (True, (False,)), (False, (True,)), (False, (True,))]


def test_how_many_operations_a_composite_stands_for():
    found = {name: length(OPS[name]) for name in ("add", "exp", "relu", "square", "clamp", "sigmoid", "softmax")}
    assert found == {"add": 1, "exp": 1, "relu": 1, "square": 1, "clamp": 2, "sigmoid": 4, "softmax": 5}
