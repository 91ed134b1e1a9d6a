"""Type rules on symbolic sizes."""

from __future__ import annotations

from jitgrad import dims
from jitgrad.dims import Symbol
from jitgrad.dtypes import bool_, float32, int64
from jitgrad.ops import OPS
from jitgrad.ops.specs import broadcast_shapes, broadcast_size, diagonal_length
from jitgrad.ops.types import TensorType

N, M = dims.dim(Symbol("N", not_one=True)), dims.dim(Symbol("M", not_one=True))
A, B = dims.dim(Symbol("a")), dims.dim(Symbol("b"))


def spec(name, *shapes, **attrs):
    return OPS[name].spec(*(TensorType(float32, s) for s in shapes), **attrs)


def test_broadcast_size() -> None:
    assert broadcast_size(3, 3) == broadcast_size(3, 1) == broadcast_size(1, 3) == 3
    assert broadcast_size(1, 0) == broadcast_size(0, 1) == 0
    assert broadcast_size(N, N) == broadcast_size(N, 1) == broadcast_size(1, N) == N
    assert broadcast_size(N, 3) == broadcast_size(3, N) == broadcast_size(A, 3) == 3  # the symbol is 3, or 1
    assert broadcast_size(N, M) == N  # equal, as the check before says
    assert broadcast_size(A, N) == broadcast_size(N, A) == N
    assert broadcast_size(A, B) == dims.call("bcast", A, B)
    assert broadcast_shapes((N, 1), (3,), ()) == (N, 3)


def test_pointwise() -> None:
    assert spec("add", (N, 3), (3,)) == TensorType(float32, (N, 3))
    assert spec("lt", (N, 1), (1, M)) == TensorType(bool_, (N, M))
    c = TensorType(bool_, (N, 1))
    assert OPS["where"].spec(c, TensorType(float32, (3,)), TensorType(float32, ())) == TensorType(float32, (N, 3))


def test_reductions() -> None:
    assert spec("sum", (N, M, 3), axes=(0, 2), keepdim=False).dims == (M,)
    assert spec("sum", (N, M, 3), axes=(0, 2), keepdim=True).dims == (1, M, 1)
    assert spec("argmax", (N, M), axes=(1,), keepdim=False) == TensorType(int64, (N,))


def test_views_and_joins() -> None:
    assert spec("permute", (N, M, 3), axes=(2, 0, 1)).dims == (3, N, M)
    assert spec("slice", (N, M), axis=0, start=1, length=N - 1, step=1).dims == (N - 1, M)
    assert spec("cat", (N, 3), (M, 3), (2, 3), axis=0).dims == (N + M + 2, 3)
    assert spec("cat", (N, A), (N, 3), axis=0).dims == (N + N, 3)
    assert spec("pad", (N, M), pads=((0, 0), (1, N)), value=0.0).dims == (N, M + N + 1)
    assert spec("diagonal", (N, M, 3), offset=0, axis1=0, axis2=2).dims == (M, dims.call("max", dims.call(
        "min", N, 3), 0))
    assert [diagonal_length(3, 4, k) for k in range(-4, 6)] == [0, 0, 1, 2, 3, 3, 2, 1, 0, 0]


def test_indexing_and_matmul() -> None:
    def index(shape, *indices, axes):
        return OPS["index"].spec(TensorType(float32, shape), *(TensorType(int64, i) for i in indices), axes=axes).dims

    assert index((N, 5, M), (7, 2), axes=(1,)) == (N, 7, 2, M)
    assert index((N, 5, M), (A, 1), (2,), axes=(0, 1)) == (A, 2, M)
    assert index((N, 5, M), (7,), (7,), axes=(0, 2)) == (7, 5)
    assert spec("matmul", (N, 4, M), (M, 3)).dims == (N, 4, 3)
    assert spec("matmul", (N, 1, 4, M), (5, M, 3)).dims == (N, 5, 4, 3)
    assert spec("nonzero", (N, M)).dims[1] == 2
