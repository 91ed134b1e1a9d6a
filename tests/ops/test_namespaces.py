"""Namespaces: resolution, literals, helpers, dtypes under arrays, summing cotangents."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad import dims, dtypes
from jitgrad.dims import Symbol
from jitgrad.ops import OPS
from jitgrad.ops.namespaces import ArrayNamespace, Namespace, sum_to_plan, unbroadcast
from jitgrad.ops.types import TensorType
from tests.oracles import Tape

F = ArrayNamespace(np)


def test_resolution() -> None:
    assert F.mul is np.multiply, "no layer between the rule and NumPy"
    assert F.tanh(np.float32(0.5)).dtype == np.float32
    assert F.__dict__["mul"] is F.mul, "bound once"
    assert getattr(F, "random.bits")(1, 0, shape=(2,)).dtype == np.int64
    with pytest.raises(AttributeError, match="no op `frobnicate`"):
        _ = F.frobnicate


@pytest.mark.parametrize("d", [np.float16, np.float32, np.float64])
def test_dtypes_are_kept(d) -> None:
    x = np.linspace(-2, 2, 6, dtype=d)
    for name, op in OPS.items():
        if op.kind.value == "pointwise" and op.dtypes == "float" and op.arity == 1 and op.samples is None:
            with np.errstate(all="ignore"):
                assert getattr(F, name)(x).dtype in (d, np.bool_), name
    assert F.softplus(x, beta=2.0, threshold=20.0).dtype == d
    assert F.softmax(x, axis=0).dtype == d
    assert F.where(x > 0, x, 0.0).dtype == d


@pytest.mark.parametrize("like", [np.ones((2, 3), np.float32), TensorType(dtypes.float32, (2, 3))])
def test_helpers_take_arrays_and_specs(like) -> None:
    assert F.zeros_like(like).dtype == np.float32
    assert F.literal(2, like).dtype == np.float32
    assert F.expand_like(np.ones((3,), np.float32), like).shape == (2, 3)
    assert F.reshape_like(np.ones((6,), np.float32), like).shape == (2, 3)
    assert F.unreduce(np.arange(2.0), like, (1,), False).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert F.unreduce(np.arange(3.0).reshape(1, 3), like, (0,), True).tolist() == [[0, 1, 2]] * 2
    assert F.count(like, (0, 1)) == 6
    assert F.count(like, ()).dtype == np.float32


def test_unbroadcast() -> None:
    g = np.ones((2, 3, 4), np.float32)
    assert unbroadcast(g, (2, 3, 4)) is g
    assert unbroadcast(g, (3, 4)).tolist() == [[2.0] * 4] * 3
    assert unbroadcast(g, (3, 1)).tolist() == [[8.0]] * 3
    assert unbroadcast(g, (2, 1, 1)).shape == (2, 1, 1)
    assert unbroadcast(g, ()) == 24
    assert unbroadcast(g, (1, 1)).dtype == np.float32
    assert unbroadcast(np.ones((0, 3)), (1, 3)).tolist() == [[0, 0, 0]]
    assert unbroadcast(np.ones((4096,), np.float16), ()) == 4096, "accumulated in float32"


def test_sum_to_plan() -> None:
    n, a = dims.dim(Symbol("N", not_one=True)), dims.dim(Symbol("a"))
    assert sum_to_plan((2, n, 3), (n, 3)) == ((0,), ())
    assert sum_to_plan((2, n, 3), (2, 1, 3)) == ((1,), ())
    assert sum_to_plan((n, 3), (a, 3)) == ((), (0,))
    assert sum_to_plan((2, n), ()) == ((0, 1), ())


def test_literals_are_lifted_to_the_other_operands_dtype() -> None:
    T = Tape()
    x = T.constant(np.ones(2, np.float32))
    assert (1 - x * 2).dtype is dtypes.float32
    assert T.where(x > 0, x, 0.0).dtype is dtypes.float32
    assert T.where(x > 0, 0.0, x).dtype is dtypes.float32
    assert (2.0 / x).data.tolist() == [2, 2]
    assert (-x).data.tolist() == [-1, -1]
    assert (x ** 2 == x).data.all()
    assert (x <= 1).data.all()


def test_base_helpers() -> None:
    T = Tape()
    x = T.constant(np.ones((2, 3), np.float32))
    assert T.zeros_like(x).data.tolist() == [[0, 0, 0]] * 2
    assert T.unreduce(T.constant(np.arange(2.0)), x, (1,), False).data.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert T.count(x, (0, 1)).data == 6
    assert T.reshape_like(T.constant(np.ones(6)), x).shape == (2, 3)
    assert T.sum_to(x, shape=(2, 3)) is x
    assert T.literal(2, x).dtype is dtypes.float32
    with pytest.raises(TypeError, match="overrides `count`"):
        T.count(TensorType(dtypes.float32, (dims.dim(Symbol()),)), (0,))
    with pytest.raises(NotImplementedError):
        Namespace().add(1.0, x)
